"""Jobs in the database: requested once or by a schedule, completed by exactly one worker, and
claimed again when a worker died, how often and after how long.

A worker renews its claim of a job while it works, and its result is committed only while it still
holds the job. Another worker claims a job that it has seen without a renewal for a minute by its own
count of seconds, so that no clock that jumps, and no difference between two, repeats a running job.
Sweeps record finished runs by themselves; the configurations that a dead worker had finished are
the same runs to the next one. A command that is requested once is a schedule without times.
"""

import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Row, and_, func, insert, or_, select, update

from ragbench.errors import DataError, RagbenchError
from ragbench.evaluation import load_result
from ragbench.service.alert_rules import raise_alerts
from ragbench.service.history_database import (
    add_once,
    connected,
    content_id,
    current_timestamp,
    read_rows,
    timestamp,
    write,
)
from ragbench.service.recording import Rows, pairs_of, record_dataset, rows_of, store
from ragbench.service.tables import job, schedule, series_of
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.newest import newest_testset
from ragbench.types import Dataset

AUTOMATIC = "--auto-generate-datasets"
"""The option of an evaluation that a schedule of every client runs for those with documents."""
LEASE_S = 60.0
_ATTEMPTS = 5
_OUTPUT = 4000  # characters of a job's output that are kept
_COLUMNS = "state due_at ended_at attempts exit_code output".split()


@dataclass(frozen=True)
class RunOutcome:
    """A job that this worker completed: the exit status of its command, and the end of its output."""

    name: str
    due_at: str
    exit_code: int
    output: str


class QueueFullError(RagbenchError):
    """A client has as many waiting jobs as it may have."""


Work = Callable[[Row[Any], threading.Event], tuple[int, str, "Path | None"]]
"""Does a job until the event is set: its exit status, output, and the folder of its result."""


def request_job(
    command: Sequence[str],
    *,
    series: str,
    client: str = "",
    folder: str | Path = "",
    max_waiting: int = 0,
    database: str = "",
) -> str:
    """Put a command into the queue, to be run once; return the id of its job.

    Args:
        command: arguments of ragbench, such as ["eval", "--test-set", "t.yaml"].
        series: what its run is called over time.
        folder: its working folder; "" = this process's.
        max_waiting: the maximum number of waiting jobs of the client; 0 = any number.

    Raises:
        QueueFullError: too many are waiting.
        DataError: the database cannot be used.
    """
    name = f"once {uuid.uuid4().hex}"
    at = current_timestamp()
    # each job belongs to a schedule; one without times stands for a command that is run once
    row = {
        "id": content_id("schedule", client, name),
        "client_id": client,
        "name": name,
        "cron": "",
        "zone": "UTC",
        "command": json.dumps(list(command)),
        "folder": str(Path(folder).absolute()),
        "options": json.dumps({"series": series}),
        "enabled": False,
        "made_at": at,
    }
    with connected(database, write=True) as connection:
        query = select(func.count()).select_from(job).join(schedule)
        query = query.where(job.c.state == "waiting", schedule.c.client_id == client)
        n_waiting = connection.execute(query).scalar_one()
        if max_waiting and n_waiting >= max_waiting:
            raise QueueFullError(f"{max_waiting} jobs are waiting")
        connection.execute(insert(schedule), row)
        return insert_job(connection, str(row["id"]), at)


def jobs(
    *, client: str | None = None, job_id: str = "", limit: int = 50, database: str = ""
) -> list[dict[str, Any]]:
    """Return the newest jobs, or the one with `job_id`.

    Each has id, client_id, state, due_at, ended_at, attempts, exit_code, output, series, command,
    run, progress. `state` is waiting, running, done, failed or cancelled; `run` is the id of the run
    that it recorded, or ""; `progress` is how far a running evaluation is ("asking: 12 of 48
    questions").

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    columns = [job.c[name] for name in _COLUMNS]
    query = select(job.c.id.label("job_id"), job.c.run_id, *columns, schedule)
    query = query.join(schedule).order_by(job.c.due_at.desc(), job.c.id).limit(limit)
    if job_id:
        query = query.where(job.c.id == job_id)
    if client is not None:
        query = query.where(schedule.c.client_id == client)
    return [_listed_job(row) for row in read_rows(database, query)]


def _listed_job(row: Row[Any]) -> dict[str, Any]:
    """Return a job as `jobs` lists it, from its row with the columns of its schedule."""
    return {
        "id": row.job_id,
        **{name: getattr(row, name) for name in ("client_id", *_COLUMNS)},
        "series": series_of(row),
        "command": json.loads(row.command),
        "run": row.run_id or "",
        "progress": _progress(row),
    }


def cancel_job(job_id: str, *, client: str | None = None, database: str = "") -> bool:
    """Cancel a job that has not ended, and return True; False if there is no such job. The worker of a
    running job kills it within a third of its lease.

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    # 130: the exit status of a program that the user interrupts
    ended = {
        "state": "cancelled",
        "exit_code": 130,
        "output": "cancelled",
        "ended_at": current_timestamp(),
    }
    statement = update(job).where(job.c.id == job_id, job.c.state.in_(("waiting", "running")))
    if client is not None:
        schedules = select(schedule.c.id).where(schedule.c.client_id == client)
        statement = statement.where(job.c.schedule_id.in_(schedules))
    # without its holder, the worker notices at its next renewal that the job is no longer its own
    return bool(write(database, statement.values(**ended, holder="")))


def new_holder() -> str:
    """Return a name for one worker, used by no other."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def insert_job(connection: Connection, schedule_id: str, due: str, **values: Any) -> str:
    """Add the job of a schedule at a time, unless it is there; return its id."""
    job_id = content_id("job", schedule_id, due)
    row = {"id": job_id, "schedule_id": schedule_id, "due_at": due, "state": "waiting"}
    add_once(connection, job, {**row, **values})
    return job_id


_RENEWALS: dict[tuple[str, str], tuple[str, float]] = {}
"""(database, job) -> the newest renewal of a running job, and when this process saw it first, by
`monotonic`.
"""


def _conditions_for_silent_jobs(connection: Connection, database: str, lease_s: float) -> list[Any]:
    """Return a condition of SQL for each running job whose worker is probably dead.

    A worker renews its claim of a job again and again; it is taken for dead if this process has seen
    no renewal for `lease_s` seconds. (Clocks of other machines are not trusted.) The condition is true
    for this job as long as the worker does not renew its claim.
    """
    query = select(job.c.id, job.c.holder, job.c.lease_until).where(job.c.state == "running")
    rows = connection.execute(query).all()
    _forget_ended_jobs(database, {row.id for row in rows})
    conditions = []
    for row in rows:
        renewal = f"{row.holder} {row.lease_until}"
        last_renewal, seen_at = _RENEWALS.get((database, row.id), ("", 0.0))
        if last_renewal != renewal:  # renewed since the last look, or seen for the first time
            _RENEWALS[database, row.id] = (renewal, monotonic())
        elif monotonic() - seen_at >= lease_s:
            is_still_silent = and_(
                job.c.id == row.id,
                job.c.state == "running",
                job.c.holder == row.holder,
                job.c.lease_until == row.lease_until,
            )
            conditions.append(is_still_silent)
    return conditions


def _forget_ended_jobs(database: str, running: set[str]) -> None:
    """Drop the renewals of the jobs of a database that do not run any more."""
    for key in list(_RENEWALS):  # a copy: other threads change it
        its_database, job_id = key
        if its_database == database and job_id not in running:
            _RENEWALS.pop(key, None)


def is_lease_over(database: str) -> bool:
    """Return True if the lease of any running job is over by the clock of this machine: its worker
    died, or a clock jumped, which a worker that lives corrects with its next renewal.
    """
    expired = select(job.c.id).where(
        job.c.state == "running", job.c.lease_until < current_timestamp()
    )
    return bool(read_rows(database, expired.limit(1)))


def claim_job(database: str, holder: str, lease_s: float) -> Row[Any] | None:
    """Claim the job that is due first for the worker `holder`; return it with its schedule.

    A job can be claimed if it waits, or if its worker is probably dead (no renewal of its claim seen
    for `lease_s` seconds). None if there is no such job. A job at which five workers died has failed.
    """
    at = datetime.now(UTC)
    with connected(database, write=True) as connection:
        are_silent = _conditions_for_silent_jobs(connection, database, lease_s)
        is_free = or_(job.c.state == "waiting", *are_silent)  # waiting, or any of the silent jobs
        failed = {
            "state": "failed",
            "exit_code": 2,
            "output": f"gave up: {_ATTEMPTS} workers died at it",
            "ended_at": timestamp(at),
        }
        # a job that is free after so many attempts was lost by a worker each time
        connection.execute(update(job).where(is_free, job.c.attempts >= _ATTEMPTS).values(failed))
        claim = {
            "state": "running",
            "holder": holder,
            "lease_until": timestamp(at + timedelta(seconds=lease_s)),
            "attempts": job.c.attempts + 1,
        }
        candidates = select(job.c.id).where(is_free).order_by(job.c.due_at).limit(20)
        for job_id in connection.execute(candidates).scalars().all():
            # no row is changed if another worker was faster; then the next job is tried
            statement = update(job).where(job.c.id == job_id, is_free).values(claim)
            if connection.execute(statement).rowcount:
                query = select(job.c.due_at, job.c.attempts, job.c.id.label("job_id"), schedule)
                query = query.join(schedule).where(job.c.id == job_id)
                return connection.execute(query).one()
    return None


def complete_job(
    claimed: Row[Any], holder: str, database: str, work: Work, lease_s: float
) -> RunOutcome | None:
    """Do a claimed job, write its state and its result to the database, and return its outcome.

    Return None if this worker did not complete the job: either another worker took it over; or `work`
    raised InterruptedError, and the job went back to the queue as if it had never been claimed.
    """
    # changes the job only as long as this worker holds it
    change = update(job).where(
        job.c.id == claimed.job_id, job.c.holder == holder, job.c.state == "running"
    )
    try:
        with _renewed_claim(change, database, lease_s) as lost:
            exit_code, output, folder = work(claimed, lost)
    except InterruptedError:
        # this attempt does not count, because nothing failed: the worker was stopped
        n_attempts = job.c.attempts - 1
        unclaimed = {"state": "waiting", "holder": "", "lease_until": "", "attempts": n_attempts}
        write(database, change.values(unclaimed))
        return None
    except (RagbenchError, OSError) as exc:
        exit_code, output, folder = 2, str(exc), None
    run_rows = None if folder is None else _rows_of_result(claimed, folder)
    broke_off = folder is not None and run_rows is None  # before it wrote its result
    has_failed = exit_code not in (0, 1) or broke_off  # 1 means that targets were missed
    testset = None if has_failed else _testset_of_job(claimed)
    output = output[-_OUTPUT:]
    ended = {
        "state": "failed" if has_failed else "done",
        "exit_code": exit_code,
        "run_id": None if run_rows is None else run_rows.run["id"],
        "output": output,
        "ended_at": current_timestamp(),
    }
    with connected(database, write=True) as connection:
        if not connection.execute(change.values(ended)).rowcount:
            return None  # another worker took it over: this worker's result does not count
        if testset is not None:
            _record_testset(connection, claimed, testset)
        if run_rows is not None and store(connection, run_rows):
            raise_alerts(connection, run_rows.run)
    return RunOutcome(series_of(claimed), claimed.due_at, exit_code, output)


def _rows_of_result(claimed: Row[Any], folder: Path) -> Rows | None:
    """Return the rows that record the result of a job in a folder; None if it broke off before it wrote
    the result.
    """
    if not (folder / "config.json").is_file():
        return None
    return rows_of(load_result(folder), folder, claimed.client_id, series_of(claimed))


def _record_testset(connection: Connection, claimed: Row[Any], testset: Dataset) -> None:
    """Add the test set of a job to the database, or replace its recorded questions and answers."""
    record_dataset(
        connection,
        claimed.client_id,
        testset.name,
        created_at=current_timestamp(),
        created_by=f"ragbench {json.loads(claimed.command)[0]}",
        pairs=pairs_of(testset.cases),
        is_read=True,
    )


def _testset_of_job(claimed: Row[Any]) -> Dataset | None:
    """Return the test set that a job's command made, or that it evaluated from a file.

    Return None if the command names no such file, or if it cannot be read here.
    """
    command = json.loads(claimed.command)
    paths = _values_of_option("--output" if command[0] == "testset" else "--test-set", command)
    if not paths and AUTOMATIC in command:
        # such an evaluation takes the newest set in testsets/, after making one if that was too old
        newest = newest_testset(Path(claimed.folder, "testsets"))
        if newest is not None:
            path_of_newest, _ = newest
            paths = [str(path_of_newest)]
    if not paths:
        return None
    path = Path(claimed.folder, paths[0])
    if not path.exists():
        return None
    with suppress(RagbenchError):
        return load_dataset(path)
    return None


def _values_of_option(option: str, command: Sequence[str]) -> list[str]:
    """Return the values of an option in a command line.

    >>> _values_of_option("--output", ["--output=a", "--output", "b"])
    ['a', 'b']
    """
    values = [word.partition("=")[2] for word in command if word.startswith(f"{option}=")]
    return values + [following for word, following in pairwise(command) if word == option]


@contextmanager
def _renewed_claim(change: Any, database: str, lease_s: float) -> Iterator[threading.Event]:
    """Renew the claim of a job again and again, in a thread, while the block runs.

    The block gets an event, which is set once the claim is lost: the job was cancelled, or another
    worker holds it. `change` is a statement that changes the job as long as this worker holds it.
    """
    lost = threading.Event()
    has_ended = threading.Event()

    def renew() -> None:
        while not has_ended.wait(lease_s / 3):
            until = timestamp(datetime.now(UTC) + timedelta(seconds=lease_s))
            try:
                n_renewed = write(database, change.values(lease_until=until))
            except DataError:  # a busy server; the claim lasts a while yet
                continue
            if not n_renewed:
                lost.set()
                return

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        has_ended.set()
        thread.join()


def place_of(claimed: Row[Any]) -> Path:
    """Return the folder for the result of an evaluation: results/eval/<client>/<series>/<name>, without
    a part that is "".

    The name is the due time and the number of the attempt, such as "20260131T0200-1"; of a job without
    a schedule also a part of its id.
    """
    name: str = claimed.due_at[:16].replace(":", "").replace("-", "")
    if not claimed.cron:
        name += f"-{claimed.job_id[:12]}"
    name += f"-{claimed.attempts}"
    place = Path(claimed.folder, "results", "eval")
    for owner in (claimed.client_id, series_of(claimed)):
        if owner:
            # signs that would lead to another folder are replaced
            place /= re.sub(r"^\.+|[^\w .+-]", _escaped, owner)
    return Path(place, name)


def progress_of(result: Path) -> Path:
    """Return the file in which a running evaluation states how far it is."""
    return result.with_name(f"{result.name}.progress")


def _progress(row: Row[Any]) -> str:
    """Return how far a running job is; "" if it does not run, or states nothing."""
    if row.state == "running":
        with suppress(OSError):
            return progress_of(place_of(row)).read_text(encoding="utf-8")
    return ""


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{ord(sign):02X}" for sign in match[0])
