"""Commands that are to run once, now: jobs in the queue of the schedules, for the next worker that is free.

Each is a schedule without times, so that claims, leases and results are those of every other job.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ragbench.errors import ConfigError, DataError, RagbenchError
from ragbench.service import tables
from ragbench.service.history_database import connected, content_id, now
from ragbench.service.scheduler import place_of
from ragbench.service.tables import job, schedule, series_of

_COMMANDS = ("eval", "sweep", "testset")


class QueueFullError(RagbenchError):
    """So many jobs of a client are waiting that no other is taken."""


def request_job(
    command: Sequence[str], *, series: str, key: str = "", client: str = "", folder: str | Path = "",
    max_waiting: int = 0, database: str = "",
) -> str:  # fmt: skip
    """Put a command into the queue, to be run once; the id of its job.

    Args:
        command: arguments of ragbench, such as ["eval", "--test-set", "t.yaml"].
        series: what its run is called over time.
        key: an idempotency key: the same one again gives the same job.
        folder: where it runs; "" = here.
        max_waiting: so many jobs of the client may wait; 0 = any number.

    Raises:
        ConfigError: a command that cannot be used, or the key was used for another one.
        QueueFullError: too many are waiting.
        DataError: the database cannot be used.
    """
    if not command or command[0] not in _COMMANDS:
        raise ConfigError(f"a job runs {', '.join(_COMMANDS)}; got {' '.join(command) or 'no command'}")
    name = f"once {content_id(key) if key else uuid.uuid4().hex}"
    at, schedule_id = now(), content_id("schedule", client, name)
    row = {
        "id": schedule_id, "client_id": client, "name": name, "cron": "", "zone": "UTC",
        "command": json.dumps(list(command)), "folder": str(Path(folder).absolute()),
        "options": json.dumps({"series": series}), "enabled": False, "made_at": at,
    }  # fmt: skip
    job_id = content_id("job", schedule_id)
    try:
        with connected(database, write=True) as connection:
            known = connection.execute(select(schedule).where(schedule.c.id == schedule_id)).mappings().first()
            if known is None:
                waiting = select(func.count()).select_from(job).join(schedule)
                mine = waiting.where(job.c.state == "waiting", schedule.c.client_id == client)
                if max_waiting and (connection.execute(mine).scalar() or 0) >= max_waiting:
                    raise QueueFullError(f"{max_waiting} jobs are waiting")
                connection.execute(insert(schedule), row)
                values = {"id": job_id, "schedule_id": schedule_id, "due_at": at, "state": "waiting"}
                connection.execute(insert(job), values)
                return job_id
    except DataError as exc:
        if not isinstance(exc.__cause__, IntegrityError):  # else the same key came at the same moment
            raise
        with connected(database) as connection:
            known = connection.execute(select(schedule).where(schedule.c.id == schedule_id)).mappings().one()
    if any(known[one] != row[one] for one in ("command", "options", "folder")):
        raise ConfigError(f"the key {key!r} was used for another request; choose a new key for a new request")
    return job_id


def jobs(*, client: str | None = None, job_id: str = "", limit: int = 50, database: str = "") -> list[dict[str, Any]]:
    """The newest jobs, or one: id, client_id, series, command, state, due_at, ended_at, attempts, exit_code, output,
    run.

    `state` is waiting, running, done, failed or cancelled; `run` is the id of the run that it recorded, or "".

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    names = ("state", "due_at", "ended_at", "attempts", "exit_code", "output")
    wanted = select(job.c.id.label("job_id"), *(job.c[name] for name in names), schedule).join(schedule)
    wanted = wanted.order_by(job.c.due_at.desc(), job.c.id).limit(limit)
    if job_id:
        wanted = wanted.where(job.c.id == job_id)
    if client is not None:
        wanted = wanted.where(schedule.c.client_id == client)
    with connected(database) as connection:
        found = [dict(row) for row in connection.execute(wanted).mappings()]
        places = {row["job_id"]: place_of(row).as_posix() for row in found if row["state"] == "done"}
        run = tables.run.c
        made = select(run.location, run.id).where(run.location.in_(places.values()))
        runs = {row.location: row.id for row in connection.execute(made)}
    return [
        {
            "id": row["job_id"],
            **{name: row[name] for name in ("client_id", *names)},
            "series": series_of(row),
            "command": json.loads(row["command"]),
            "run": runs.get(places.get(row["job_id"], ""), ""),
        }
        for row in found
    ]


def cancel_job(job_id: str, *, client: str | None = None, database: str = "") -> bool:
    """Cancel a job that has not ended; its worker kills it within a third of the lease. Whether there was such a job.

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    values = {"state": "cancelled", "exit_code": 130, "output": "cancelled", "ended_at": now(), "holder": ""}
    open_ = update(job).where(job.c.id == job_id, job.c.state.in_(("waiting", "running"))).values(values)
    if client is not None:
        open_ = open_.where(job.c.schedule_id.in_(select(schedule.c.id).where(schedule.c.client_id == client)))
    with connected(database, write=True) as connection:
        return bool(connection.execute(open_).rowcount)
