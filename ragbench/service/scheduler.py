"""Evaluations at set times: schedules in the database, when one is due or overdue, which commands
it may run, and the jobs that it makes.

`run_due` is what cron, systemd, a CI job or a server call, as often as they like and on as many
machines.
"""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
from sqlalchemy import Connection, Row, Select, and_, delete, func, select, update

from ragbench.errors import ConfigError, require
from ragbench.service.alert_rules import check_alerts
from ragbench.service.history_database import (
    Json,
    add_once,
    chosen_row,
    connected,
    content_id,
    read_rows,
    replace_row,
    timestamp,
    write,
)
from ragbench.service.job_process import run_command
from ragbench.service.job_queue import (
    AUTOMATIC,
    LEASE_S,
    RunOutcome,
    Work,
    claim_job,
    complete_job,
    insert_job,
    is_lease_over,
    new_holder,
)
from ragbench.service.keys import EVERY_CLIENT
from ragbench.service.sent_files import clients_with_documents
from ragbench.service.tables import job, schedule

COMMANDS = ("eval", "sweep", "testset generate", "testset draft")
"""What a schedule may run."""
_COLUMNS = ("name", "client_id", "cron", "zone", "enabled", "command")  # of a schedule's row
_LATE = timedelta(minutes=10)
DEFAULT_CRON = "0 2 * * *"
"""When schedules without a time are due, unless EVALUATION_SCHEDULE_CRON is set."""


def add_schedule(
    name: str,
    cron: str,
    command: Sequence[str],
    *,
    zone: str = "",
    client: str = "",
    database: str = "",
    folder: str | Path = "",
    now: datetime | None = None,
) -> None:
    """Add a schedule, or replace the one of this name.

    Args:
        cron: five fields, as in crontab (0 = Sunday); "" = EVALUATION_SCHEDULE_CRON, else 02:00
            every day.
        command: arguments of ragbench, such as ["eval", "--test-set", "t.yaml"].
        zone: of the times, such as "Europe/Vienna"; "" = UTC.
        client: whose it is; "*" = it runs for each client in `clients/` of the folder, in the
            client's own folder; with --auto-generate-datasets for each who has documents.
        folder: its working folder; "" = this process's.

    Raises:
        ConfigError: a cron line, zone or command that cannot be used.
        DataError: the database cannot be used.
    """
    cron = cron or os.environ.get("EVALUATION_SCHEDULE_CRON", "") or DEFAULT_CRON
    zone = zone or "UTC"
    now = now or datetime.now(UTC)
    due_before(cron, zone, now)  # raises for a wrong cron line or zone
    _check_schedule(name, command)
    row = {
        "id": content_id("schedule", client, name),
        "client_id": client,
        "name": name,
        "cron": cron,
        "zone": zone,
        "command": json.dumps(list(command)),
        "folder": str(Path(folder).absolute()),
        "options": "{}",
        "enabled": True,
        "made_at": timestamp(now),
    }
    with connected(database, write=True) as connection:
        replace_row(connection, schedule, row)


def _check_schedule(name: str, command: Sequence[str]) -> None:
    """Raise ConfigError for a name or a command that a schedule cannot have."""
    first_words = [" ".join(command[:n]) for n in (1, 2)]  # such as "testset", "testset generate"
    if not any(words in COMMANDS for words in first_words):
        raise ConfigError(
            f"a schedule runs {', '.join(COMMANDS)}; got {shlex.join(command) or 'no command'}"
        )
    if not name.strip():
        raise ConfigError("a schedule needs a name")
    if command[0] == "eval" and any(word.partition("=")[0] == "--output" for word in command):
        raise ConfigError(
            f"each run has a separate folder, in results/eval/{name}; leave --output out"
        )


def add_automatic_schedule(root: Path, database: str = "") -> None:
    """Add the schedule "auto_generate_datasets", unless it is there.

    For each client with documents it keeps a data set that is at most seven days old, and evaluates
    it by the targets of the guide.

    It is due by EVALUATION_SCHEDULE_CRON, else at 02:00 UTC. The model of RAG_EVAL_PROVIDER, where
    one is set, writes the pairs and judges.

    Raises:
        ConfigError: EVALUATION_SCHEDULE_CRON is not a cron line.
        DataError: the database cannot be used.
    """
    name = AUTOMATIC.lstrip("-").replace("-", "_")
    command = ["eval", AUTOMATIC, "--targets=guide"]
    if os.environ.get("RAG_EVAL_PROVIDER"):
        command += ["--judge=env", "--criteria=faithfulness"]
    if name not in set(schedules(client=EVERY_CLIENT, database=database)["name"]):
        add_schedule(name, "", command, client=EVERY_CLIENT, folder=root, database=database)


def schedules(*, client: str | None = None, database: str = "") -> pd.DataFrame:
    """Return the schedules of a client (None: of all), by client and name, with their last jobs.

    Columns: name, client_id, cron, zone, enabled, command, next_due, last_due, last_state,
    last_exit_code; as in `schedule_rows`.

    Raises:
        DataError: the database cannot be used.
    """
    columns = [*_COLUMNS, "next_due", "last_due", "last_state", "last_exit_code"]
    frame = pd.DataFrame(schedule_rows(client=client, database=database), columns=columns)
    return frame.astype({"last_exit_code": "Int64", "enabled": "bool"})


def schedule_rows(*, client: str | None = None, database: str = "") -> list[Json]:
    """Return the schedules of a client (None: of all), by client and name, with their last jobs.

    Each has name, client_id, cron, zone, enabled, command, next_due ("" if it is disabled), and of its
    last job last_due, last_state ("" without a job) and last_exit_code (None without one).

    Raises:
        DataError: the database cannot be used.
    """
    now = datetime.now(UTC)
    rows = []
    for row in read_rows(database, _query_with_last_jobs(client)):
        values = row._asdict()
        values["command"] = shlex.join(json.loads(row.command))
        values["next_due"] = next_due(row.cron, row.zone, now) if row.enabled else ""
        values["last_due"] = row.last_due or ""
        values["last_state"] = row.last_state or ""
        rows.append(values)
    return rows


def _query_with_last_jobs(client: str | None) -> Select[Any]:
    """Return a query of the schedules of a client (None: of all), each with its last job, by client and
    name. Schedules without times, which stand for a command that is run once, are left out.
    """
    other_job = job.alias()
    newest = select(func.max(other_job.c.due_at)).where(other_job.c.schedule_id == schedule.c.id)
    is_last = and_(job.c.schedule_id == schedule.c.id, job.c.due_at == newest.scalar_subquery())
    query = select(
        *(schedule.c[name] for name in _COLUMNS),
        job.c.due_at.label("last_due"),
        job.c.state.label("last_state"),
        job.c.exit_code.label("last_exit_code"),
    )
    query = query.where(schedule.c.cron != "").select_from(schedule).outerjoin(job, is_last)
    if client is not None:
        query = query.where(schedule.c.client_id == client)
    return query.order_by(schedule.c.client_id, schedule.c.name)


def due_times(connection: Connection, client: str | None) -> dict[tuple[str, str], str]:
    """Return when each enabled schedule of a client (None: of all) is due, by its client and name."""
    column = schedule.c
    query = select(column.client_id, column.name, column.cron, column.zone)
    query = query.where(column.cron != "", column.enabled)
    if client is not None:
        query = query.where(column.client_id == client)
    now = datetime.now(UTC)
    times = {}
    for row in connection.execute(query):
        times[row.client_id, row.name] = next_due(row.cron, row.zone, now)
    return times


def overdue(
    *, client: str | None = None, database: str = "", now: datetime | None = None
) -> list[str]:
    """Return a sentence for each schedule that was due and did not run; [] if all ran.

    A schedule is overdue ten minutes after its time, so that one whose worker is busy is not named.
    The reason is that no scheduler runs.

    Args:
        client: the client whose schedules are meant; None = all clients.
        now: the time, for tests.
    """
    if not evaluation_enabled():
        return ["EVALUATION_ENABLED is false: no schedule is followed here"]
    now = now or datetime.now(UTC)
    enabled = select(schedule).where(schedule.c.enabled)
    made_at_of = {(row.client_id, row.name): row.made_at for row in read_rows(database, enabled)}
    sentences = []
    for row in schedule_rows(client=client, database=database):  # paused ones, too
        made_at = made_at_of.get((row["client_id"], row["name"]))
        if made_at is None:  # the schedule is paused
            continue
        due = due_before(row["cron"], row["zone"], now - _LATE)
        has_run = row["last_due"] >= due  # a job exists for this time or a later one
        if made_at < due and not has_run:  # a schedule that is newer was not due yet
            sentences.append(
                f"{row['name']} was due {due[:16]} UTC and did not run: the scheduler does not run; "
                "start `ragbench serve`, or let cron call `ragbench schedule run-due`"
            )
    return sentences


def pause_schedule(name: str, *, paused: bool = True, client: str = "", database: str = "") -> None:
    """Pause a schedule, or resume it.

    Raises:
        ConfigError: there is none of this name.
    """
    is_named = _named_schedule(name, client, database)
    write(database, update(schedule).where(is_named).values(enabled=not paused))


def remove_schedule(name: str, *, client: str = "", database: str = "") -> None:
    """Remove a schedule and its jobs; the runs that it made stay.

    Raises:
        ConfigError: there is none of this name.
    """
    write(database, delete(schedule).where(_named_schedule(name, client, database)))


def _named_schedule(name: str, client: str, database: str) -> Any:
    """Return a condition of SQL for the schedule of a client with a name, an id or the beginning of
    one; ConfigError without such a schedule.
    """
    of_client = select(schedule).where(schedule.c.client_id == client, schedule.c.cron != "")
    row = chosen_row("schedule", name, read_rows(database, of_client))
    return schedule.c.id == row.id


def due_before(cron: str, zone: str, at: datetime) -> str:
    """Return the last time at or before `at` at which a schedule was due.

    >>> due_before("0 0 * * 0", "UTC", datetime(2026, 11, 25, tzinfo=UTC))  # the Sunday before
    '2026-11-22T00:00:00.000Z'
    >>> due_before("30 2 * * *", "Europe/Vienna", datetime(2026, 3, 29, 12, tzinfo=UTC))  # 02:30 did not exist that day
    '2026-03-29T01:00:00.000Z'

    Raises:
        ConfigError: the cron line or the zone is not one.
    """
    upto = at.replace(second=0, microsecond=0) + timedelta(minutes=1)  # the minute itself counts
    return timestamp(next(_cron_times(cron, zone, upto, reverse=True)))


def next_due(cron: str, zone: str, at: datetime) -> str:
    """Return the first time after `at`; as `due_before`."""
    return timestamp(next(_cron_times(cron, zone, at)))


def _cron_times(cron: str, zone: str, at: datetime, *, reverse: bool = False) -> Any:
    """Return an iterator over the times of a schedule after `at`, or in reverse before it."""
    cronsim = require("cronsim", "schedules")
    try:
        return cronsim.CronSim(cron, at.astimezone(ZoneInfo(zone)), reverse=reverse)
    except cronsim.CronSimError as exc:
        raise ConfigError(
            f"{cron!r} is not a cron line ({exc}); expected five fields such as '0 2 * * *'"
        ) from exc
    except (KeyError, ValueError, OSError) as exc:
        raise ConfigError(
            f"{zone!r} is not a time zone; expected a name such as 'Europe/Vienna' or 'UTC'"
        ) from exc


def run_due(
    *,
    database: str = "",
    now: datetime | None = None,
    work: Work = run_command,
    lease_s: float = LEASE_S,
) -> list[RunOutcome]:
    """Run due jobs and jobs of workers that died, then check and send alerts.

    Returns the outcomes of the jobs that this process completed.

    If a schedule missed several times, it is run once. Jobs of living workers are left to them. A
    worker's claim of a job holds for `lease_s` seconds (a lease), and the worker renews it before. Clocks
    of machines differ: if a lease seems to be over, this call waits. If the worker renews its claim
    meanwhile, it lives; if it stays silent for a whole lease, this call takes its job over. Nothing is
    done if EVALUATION_ENABLED is "false".

    Args:
        now: the time, for tests.
        work: does a job; the default runs its command in a separate process.
        lease_s: seconds after which a worker that renews no claim is taken for dead.

    Raises:
        DataError: the database cannot be used.
    """
    if not evaluation_enabled():
        return []
    plan_due(database, now)
    holder = new_holder()
    outcomes = []
    # Long enough to see every claim renewed, or its worker silent for a whole lease.
    wait_until = monotonic() + 1.2 * lease_s
    while True:
        claimed = claim_job(database, holder, lease_s)
        if claimed is not None:
            outcome = complete_job(claimed, holder, database, work, lease_s)
            if outcome is not None:  # None: another worker took the job over
                outcomes.append(outcome)
        elif monotonic() < wait_until and is_lease_over(database):
            sleep(lease_s / 20)  # until its worker renews it, or has been silent for a lease
        else:
            break
    check_alerts(database, now)
    return outcomes


def evaluation_enabled() -> bool:
    """Return True if schedules are followed: unless EVALUATION_ENABLED is "false"."""
    return os.environ.get("EVALUATION_ENABLED", "").lower() not in ("false", "0", "no", "off")


def automatic_enabled() -> bool:
    """Return True if a server evaluates every client by itself: if EVALUATION_ENABLED is "true"."""
    return os.environ.get("EVALUATION_ENABLED", "").lower() in ("true", "1", "yes", "on")


def plan_due(database: str = "", now: datetime | None = None) -> None:
    """Put a job into the queue for each schedule that is due: whose last time before now has no job yet.

    A schedule for every client gets a job for each client. Jobs of the schedule for earlier times that
    still wait are dropped, so that of several missed times only the last one is run.
    """
    now = now or datetime.now(UTC)
    with connected(database, write=True) as connection:
        for row in connection.execute(select(schedule).where(schedule.c.enabled)).all():
            due = due_before(row.cron, row.zone, now)
            if due <= row.made_at:  # the schedule was made after this time
                continue
            is_of_schedule = job.c.schedule_id == row.id
            # A job of the future, made while a clock was ahead, does not count: nothing would run
            # until that time comes.
            is_planned = job.c.due_at.between(due, timestamp(now))
            planned = select(job.c.id).where(is_of_schedule, is_planned)
            if connection.execute(planned).first():
                continue
            connection.execute(delete(job).where(is_of_schedule, job.c.state == "waiting"))
            if row.client_id == EVERY_CLIENT:
                _plan_for_each_client(connection, row, due, now)
            else:
                insert_job(connection, row.id, due)


def _plan_for_each_client(connection: Connection, row: Row[Any], due: str, now: datetime) -> None:
    """Put a job for each client into the queue, at the time `due` of a schedule for every client (`row`).

    The schedule itself gets a job that is done already, so that it is not planned again for this time.
    """
    names = []
    for of_client in list(_schedules_of_clients(connection, row)):
        # it adds nothing if an earlier due time has added the row
        add_once(connection, schedule, of_client)
        insert_job(connection, of_client["id"], due)
        names.append(of_client["client_id"])
    done = {
        "state": "done",
        "exit_code": 0,
        "ended_at": timestamp(now),
        "output": f"one job for each client: {', '.join(names) or 'there is none'}",
    }
    insert_job(connection, row.id, due, **done)


def _schedules_of_clients(connection: Connection, row: Row[Any]) -> Iterator[dict[str, Any]]:
    """Yield a schedule for each client of a schedule for every client (`row`), as a row of the table.

    It is disabled and has no times of its own: whenever `row` is due, a job is put into the queue for
    it. Clients are those with a folder in `clients/`; with --auto-generate-datasets, those with
    documents.
    """
    root = Path(row.folder)
    command = json.loads(row.command)
    clients = {path.name: path for path in root.glob("clients/*") if path.is_dir()}
    if AUTOMATIC in command:
        clients = clients_with_documents(connection, root, clients)
    for client, folder in sorted(clients.items()):
        schedule_id = content_id("schedule", client, row.id, row.command)
        yield {
            **row._asdict(),
            "id": schedule_id,
            "client_id": client,
            "name": f"{row.name} {schedule_id[:12]}",
            "cron": "",  # it has no times, so `plan_due` and the lists leave it out
            "folder": folder.as_posix(),
            "command": json.dumps(_with_default_system(command, folder, root)),
            "options": json.dumps({"series": row.name}),
            "enabled": False,
        }


def _with_default_system(command: Sequence[str], folder: Path, root: Path) -> list[str]:
    """Return the command for a client, with a system if an automatic evaluation names none.

    The system is the first of these that exists: systems/default.toml or .jsonl in the client's
    `folder`, the same files in the server's `root`, bm25. Any other command is returned unchanged.
    """
    # the system is the only argument of an evaluation that is not an option
    names_system = any(not word.startswith("-") for word in command[1:])
    if AUTOMATIC not in command or names_system:
        return [*command]
    files = [
        place / "systems" / f"default{suffix}"
        for place in (folder, root)
        for suffix in (".toml", ".jsonl")
    ]
    system = next((str(file) for file in files if file.is_file()), "bm25")  # the first that exists
    return [command[0], system, *command[1:]]
