"""Evaluations at set times: schedules in the database, and jobs that exactly one worker completes.

`run_due` is what cron, systemd, a CI job or a server call, as often as they like and on as many machines. A job is
claimed for a minute; its worker renews that while it works, and its result is committed only while it still holds the
job. When a worker dies, another one claims the job after that minute. Sweeps record what they finish by themselves; the
configurations that a dead worker had finished are the same runs to the next one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
from cronsim import CronSim, CronSimError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from ragbench.errors import ConfigError, DataError, RagbenchError, unknown
from ragbench.evaluation import load_result
from ragbench.files import expanded
from ragbench.llms import check_llm, current_settings
from ragbench.service.alert_rules import check_alerts, check_targets, replace_threshold
from ragbench.service.fresh import age, fresh_test_set
from ragbench.service.history_database import add_once, connected, content_id, timestamp
from ragbench.service.keys import EVERY_CLIENT
from ragbench.service.records import rows_of, store
from ragbench.service.tables import job, schedule, series_of

COMMANDS = ("eval", "sweep")
_HANDLERS = {"rag.evaluate": "eval"}
_OPTIONS = {  # of a job's config in a file -> option of `ragbench eval`
    "test_set": "--test-set", "corpus": "--corpus", "system": "--system", "judge": "--judge", "k": "--k",
    "baseline": "--baseline",
}  # fmt: skip
_LEASE_S = 60.0
_ATTEMPTS = 5
_OUTPUT = 4000  # characters of a job's output that are kept


@dataclass(frozen=True)
class Ended:
    """A job that this worker completed: the exit status of its command, and the end of what it printed."""

    name: str
    due_at: str
    exit_code: int
    output: str


Work = Callable[[Mapping[str, Any], threading.Event], tuple[int, str, "Path | None"]]
"""Does a job until the event is set: its exit status, output, and the folder of its result."""


def add_schedule(
    name: str, cron: str, command: Sequence[str], *, zone: str = "", client: str = "", database: str = "",
    folder: str | Path = "", fresh: str = "", fresh_from: str = "", fresh_llm: str = "",
    fresh_max_cost: float | None = None, now: datetime | None = None,
) -> None:  # fmt: skip
    """Add a schedule, or replace the one of this name.

    Args:
        cron: five fields, as in crontab (0 = Sunday); "" = EVALUATION_SCHEDULE_CRON.
        command: arguments of ragbench, such as ["eval", "--test-set", "t.yaml"].
        zone: of the times, such as "Europe/Vienna"; "" = UTC.
        client: whose it is; "*" = it runs for each client in `clients/` of the folder, in the client's own folder.
        folder: where it runs; "" = here.
        fresh, fresh_from: such as "7d" and "docs/": evaluate questions drafted from these documents, and draft them
            anew when they are older or the documents changed; see `ragbench.service.fresh`.
        fresh_llm, fresh_max_cost: a language model that drafts them, and US dollars that a version may cost.

    Raises:
        ConfigError: a cron line, zone or command that cannot be used.
        DataError: the database cannot be used.
    """
    cron, zone = cron or os.environ.get("EVALUATION_SCHEDULE_CRON", ""), zone or "UTC"
    made = now or datetime.now(UTC)
    due_before(cron, zone, made)
    if not command or command[0] not in COMMANDS:
        raise ConfigError(f"a schedule runs {' or '.join(COMMANDS)}; got {shlex.join(command) or 'no command'}")
    if not name.strip():
        raise ConfigError("a schedule needs a name")
    if bool(fresh) != bool(fresh_from):
        raise ConfigError("fresh and fresh_from belong together: an age such as 7d, and the folder of the documents")
    given = {one.partition("=")[0] for one in command}
    if command[0] == "eval" and "--output" in given:
        raise ConfigError(f"each run has a folder of its own, in results/eval/{name}; leave --output out")
    options = {"fresh": fresh, "from": fresh_from, "llm": fresh_llm, "max_cost": fresh_max_cost} if fresh else {}
    if fresh_llm and not fresh:
        raise ConfigError("fresh_llm writes the questions of fresh; give both, or none")
    if fresh_llm:
        check_llm(fresh_llm, current_settings(max_cost=fresh_max_cost))
    if fresh:
        age(fresh)
        if command[0] != "eval" or given & {"--test-set", "--corpus"}:
            raise ConfigError("fresh makes the test set of an eval; leave --test-set and --corpus out")
        if client != EVERY_CLIENT and not expanded(Path(folder, fresh_from)).exists():
            raise ConfigError(f"fresh_from is {fresh_from!r}, which is not there; expected a folder of documents")
    row = {
        "id": content_id("schedule", client, name), "client_id": client, "name": name, "cron": cron, "zone": zone,
        "command": json.dumps(list(command)), "folder": str(Path(folder).absolute()), "options": json.dumps(options),
        "enabled": True, "made_at": timestamp(made),
    }  # fmt: skip
    with connected(database, write=True) as connection:
        changed = connection.execute(update(schedule).where(schedule.c.id == row["id"]).values(row))
        if not changed.rowcount:
            connection.execute(insert(schedule), row)


def import_schedules(file: str | Path, *, to: Sequence[str] = (), client: str = "", database: str = "") -> list[str]:
    """Add the schedules of a YAML file: `cron: jobs: [{id, schedule, handler: rag.evaluate, config: {...}}]`.

    `config` holds test_set, corpus, system, judge, k, baseline, and alert_threshold: an alert below this pass rate,
    which is sent `to` these targets (see `add_alert`), or to those that the schedule's rule has already. Relative paths
    are meant from the file's folder. One error, and nothing is added. Returns the names.

    Raises:
        ConfigError: an entry is not what it should be.
        DataError: the file or the database cannot be read.
    """
    file = Path(file)
    try:
        jobs = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))["cron"]["jobs"]
        entries = [
            (str(one["id"]), str(one["schedule"]), one["handler"], dict(one.get("config") or {})) for one in jobs
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, YAMLError) as exc:
        raise DataError(f"{file}: expected cron: jobs: a list of id, schedule, handler, config ({exc!r})") from exc
    commands = []
    for name, cron, handler, config in entries:
        if handler not in _HANDLERS:
            raise ConfigError(f"{file}, job {name}: {unknown('handler', handler, _HANDLERS)}")
        if foreign := [key for key in config if key not in (*_OPTIONS, "zone", "alert_threshold")]:
            raise ConfigError(f"{file}, job {name}: {unknown('option', foreign[0], (*_OPTIONS, 'alert_threshold'))}")
        limit = config.get("alert_threshold", 0)
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit <= 1:
            raise ConfigError(f"{file}, job {name}: alert_threshold is {limit!r}; expected a pass rate from 0 to 1")
        due_before(cron, str(config.get("zone", "UTC")), datetime.now(UTC))
        command = [_HANDLERS[handler]]
        for key, option in _OPTIONS.items():
            command += [option, str(config[key])] if key in config else []
        commands.append(command)
    check_targets(to)
    for (name, cron, _, config), command in zip(entries, commands, strict=True):
        zone, folder = str(config.get("zone", "UTC")), file.absolute().parent
        add_schedule(name, cron, command, zone=zone, client=client, database=database, folder=folder)
        if "alert_threshold" in config:
            replace_threshold(name, "pass_rate", config["alert_threshold"], to=to, client=client, database=database)
    return [name for name, *_ in entries]


def schedules(*, client: str | None = None, database: str = "") -> pd.DataFrame:
    """The schedules: name, client_id, cron, zone, enabled, command, next_due, last_due, last_state, last_exit_code.

    Raises:
        DataError: the database cannot be used.
    """
    wanted = select(schedule).where(schedule.c.cron != "").order_by(schedule.c.client_id, schedule.c.name)
    with connected(database) as connection:
        rows = connection.execute(wanted if client is None else wanted.where(schedule.c.client_id == client)).mappings()
        records = []
        for row in rows.all():
            newest = select(job).where(job.c.schedule_id == row["id"]).order_by(job.c.due_at.desc()).limit(1)
            last: dict[str, Any] = dict(connection.execute(newest).mappings().first() or {})
            records.append(
                {
                    **{name: row[name] for name in ("name", "client_id", "cron", "zone", "enabled")},
                    "command": shlex.join(json.loads(row["command"])),
                    "next_due": next_due(row["cron"], row["zone"], datetime.now(UTC)) if row["enabled"] else "",
                    "last_due": last.get("due_at", ""),
                    "last_state": last.get("state", ""),
                    "last_exit_code": last.get("exit_code"),
                }
            )
    columns = ["name", "client_id", "cron", "zone", "enabled", "command", "next_due", "last_due", "last_state"]
    return pd.DataFrame(records, columns=[*columns, "last_exit_code"]).astype({"last_exit_code": "Int64"})


def pause_schedule(name: str, *, paused: bool = True, client: str = "", database: str = "") -> None:
    """Pause a schedule, or resume it.

    Raises:
        ConfigError: there is none of this name.
    """
    _changed(name, client, database, update(schedule).values(enabled=not paused))


def remove_schedule(name: str, *, client: str = "", database: str = "") -> None:
    """Remove a schedule and its jobs; the runs that it made stay.

    Raises:
        ConfigError: there is none of this name.
    """
    _changed(name, client, database, delete(schedule))


def _changed(name: str, client: str, database: str, statement: Any) -> None:
    with connected(database, write=True) as connection:
        own = and_(schedule.c.client_id == client, schedule.c.cron != "")
        if not connection.execute(statement.where(own, schedule.c.name == name)).rowcount:
            known = connection.execute(select(schedule.c.name).where(own)).scalars().all()
            raise ConfigError(unknown("schedule", name, known) if known else "there is no schedule yet")


def due_before(cron: str, zone: str, at: datetime) -> str:
    """The last time at or before `at` at which a schedule was due.

    >>> due_before("0 0 * * 0", "UTC", datetime(2026, 11, 25, tzinfo=UTC))  # the Sunday before
    '2026-11-22T00:00:00.000Z'
    >>> due_before("30 2 * * *", "Europe/Vienna", datetime(2026, 3, 29, 12, tzinfo=UTC))  # 02:30 did not exist that day
    '2026-03-29T01:00:00.000Z'

    Raises:
        ConfigError: the cron line or the zone is not one.
    """
    upto = at.replace(second=0, microsecond=0) + timedelta(minutes=1)  # the minute itself counts
    return timestamp(next(_times(cron, zone, upto, reverse=True)))


def next_due(cron: str, zone: str, at: datetime) -> str:
    """The first time after `at`; as `due_before`."""
    return timestamp(next(_times(cron, zone, at)))


def _times(cron: str, zone: str, at: datetime, *, reverse: bool = False) -> Any:
    try:
        return CronSim(cron, at.astimezone(ZoneInfo(zone)), reverse=reverse)
    except CronSimError as exc:
        raise ConfigError(f"{cron!r} is not a cron line ({exc}); expected five fields such as '0 2 * * *'") from exc
    except (KeyError, ValueError, OSError) as exc:
        raise ConfigError(f"{zone!r} is not a time zone; expected such as 'Europe/Vienna' or 'UTC'") from exc


def run_due(
    *, database: str = "", now: datetime | None = None, work: Work | None = None, lease_s: float = _LEASE_S
) -> list[Ended]:
    """Run what is due and what dead workers left; what another worker is at is left to it.

    Of several times that were missed the last one is run, once. Then alerts are checked and sent. Nothing is done where
    EVALUATION_ENABLED is "false".

    Args:
        now: the time, for tests.
        work: does a job; None = runs its command in a process of its own.
        lease_s: seconds after which a silent worker is taken for dead.

    Raises:
        DataError: the database cannot be used.
    """
    if not evaluation_enabled():
        return []
    plan_due(database, now)
    holder = new_holder()
    ended = []
    while (claimed := claim_job(database, holder, lease_s)) is not None:
        if (one := complete_job(claimed, holder, database, work or run_command, lease_s)) is not None:
            ended.append(one)
    check_alerts(database, now)
    return ended


def evaluation_enabled() -> bool:
    """Whether schedules are followed: not where EVALUATION_ENABLED is "false"."""
    return os.environ.get("EVALUATION_ENABLED", "").lower() not in ("false", "0", "no", "off")


def new_holder() -> str:
    """A name for one worker, used by no other."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def plan_due(database: str = "", now: datetime | None = None) -> None:
    """Put what is due now into the queue; of a schedule for every client a job for each of them."""
    now = now or datetime.now(UTC)
    with connected(database, write=True) as connection:
        for row in map(dict, connection.execute(select(schedule).where(schedule.c.enabled)).mappings().all()):
            due = due_before(row["cron"], row["zone"], now)
            known = select(job.c.id).where(job.c.schedule_id == row["id"], job.c.due_at >= due).limit(1)
            if due <= row["made_at"] or connection.execute(known).first():
                continue
            older = and_(job.c.schedule_id == row["id"], job.c.state == "waiting")
            connection.execute(delete(job).where(older))
            clients = []
            for each in _each_client(row) if row["client_id"] == EVERY_CLIENT else ():
                clients.append(each["client_id"])
                add_once(connection, schedule, each)
                _insert_job(connection, each["id"], due)
            output = f"one job for each client: {', '.join(clients) or 'there is none'}"
            done = {"state": "done", "exit_code": 0, "output": output, "ended_at": timestamp(now)}
            _insert_job(connection, row["id"], due, done if row["client_id"] == EVERY_CLIENT else None)


def _each_client(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A schedule for every client as one without times for each who has what it reads, as the server lays them out."""
    options = json.loads(row["options"])
    for folder in sorted(Path(row["folder"], "clients").glob("*")):
        if folder.is_dir() and folder.joinpath(options.get("from", "")).exists():
            own_id = content_id("schedule", folder.name, row["id"], row["command"], row["options"])
            own = {"id": own_id, "client_id": folder.name, "name": f"{row['name']} {own_id[:12]}", "cron": ""}
            series = json.dumps({**options, "series": row["name"]})
            yield {**row, **own, "folder": folder.as_posix(), "options": series, "enabled": False}


def _insert_job(connection: Connection, schedule_id: str, due: str, values: Mapping[str, Any] | None = None) -> None:
    row = {"id": content_id("job", schedule_id, due), "schedule_id": schedule_id, "due_at": due, "state": "waiting"}
    add_once(connection, job, {**row, **(values or {})})


def claim_job(database: str, holder: str, lease_s: float) -> dict[str, Any] | None:
    """A job that no living worker holds, now held by this one."""
    now = datetime.now(UTC)
    free = or_(job.c.state == "waiting", and_(job.c.state == "running", job.c.lease_until < timestamp(now)))
    with connected(database, write=True) as connection:
        spent = update(job).where(free, job.c.attempts >= _ATTEMPTS)
        gave_up = f"gave up: {_ATTEMPTS} workers died at it"
        connection.execute(spent.values(state="failed", exit_code=2, output=gave_up, ended_at=timestamp(now)))
        found = select(job.c.id).where(free).order_by(job.c.due_at).limit(20)
        for job_id in connection.execute(found).scalars().all():
            taken = update(job).where(job.c.id == job_id, free).values(
                state="running", holder=holder, attempts=job.c.attempts + 1,
                lease_until=timestamp(now + timedelta(seconds=lease_s)),
            )  # fmt: skip
            if connection.execute(taken).rowcount:
                wanted = select(job.c.due_at, job.c.attempts, job.c.id.label("job_id"), schedule)
                row = connection.execute(wanted.join(schedule).where(job.c.id == job_id)).mappings().one()
                return dict(row)
    return None


def complete_job(claimed: Mapping[str, Any], holder: str, database: str, work: Work, lease_s: float) -> Ended | None:
    """Do a claimed job and commit its result; None where another worker, or nobody, is to complete it.

    Where `work` raises InterruptedError the job goes back to the queue, as if it had never been claimed.
    """
    own = and_(job.c.id == claimed["job_id"], job.c.holder == holder, job.c.state == "running")
    lost, over = threading.Event(), threading.Event()

    def renew() -> None:
        while not over.wait(lease_s / 3):
            until = timestamp(datetime.now(UTC) + timedelta(seconds=lease_s))
            try:
                with connected(database, write=True) as connection:
                    held = connection.execute(update(job).where(own).values(lease_until=until)).rowcount
            except DataError:  # a busy server; the lease runs on
                continue
            if not held:
                lost.set()
                return

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        exit_code, output, place = work(claimed, lost)
    except InterruptedError:
        back = {"state": "waiting", "holder": "", "lease_until": "", "attempts": job.c.attempts - 1}
        with connected(database, write=True) as connection:
            connection.execute(update(job).where(own).values(back))
        return None
    finally:
        over.set()
        renewing.join()
    made = place is not None and (place / "config.json").is_file()
    rows = rows_of(load_result(place), place, claimed["client_id"], series_of(claimed)) if place and made else None
    failed = exit_code not in (0, 1) or (place is not None and not made)
    values = {"state": "failed" if failed else "done", "exit_code": exit_code,
              "output": output[-_OUTPUT:], "ended_at": timestamp(datetime.now(UTC))}  # fmt: skip
    with connected(database, write=True) as connection:
        if not connection.execute(update(job).where(own).values(values)).rowcount:
            return None  # another worker took it over: what this one made is not the result
        if rows is not None:
            store(connection, rows, alert=True)
    return Ended(series_of(claimed), claimed["due_at"], exit_code, output[-_OUTPUT:])


def place_of(claimed: Mapping[str, Any]) -> Path:
    """Where the result of an evaluation goes; every attempt has a folder of its own."""
    due = claimed["due_at"][:16].replace(":", "").replace("-", "")
    once = "" if claimed["cron"] else f"{claimed['job_id'][:12]}-"
    return Path(claimed["folder"], "results", "eval", *_owner(claimed), f"{due}-{once}{claimed['attempts']}")


def _owner(claimed: Mapping[str, Any]) -> list[str]:
    """The folders of a client and a series: no part of a name leads out of them."""
    names = filter(None, (claimed["client_id"], series_of(claimed)))
    return [re.sub(r"^\.+|[^\w .+-]", "-", name) for name in names]


def run_command(
    claimed: Mapping[str, Any], lost: threading.Event, *, stop: threading.Event | None = None, timeout_s: float = 0,
    program: Sequence[str] = (sys.executable, "-m", "ragbench"),
) -> tuple[int, str, Path | None]:  # fmt: skip
    """Run the command of a job in its folder; an evaluation into a folder of its own, which is then recorded.

    Args:
        stop: kills it and raises InterruptedError when it is set.
        timeout_s: kills it after so long; 0 = never.
        program: what takes the command. Its input ends when this process does.
    """
    command, options = json.loads(claimed["command"]), json.loads(claimed["options"])
    given = {one.partition("=")[0] for one in command}
    options.pop("series", None)
    if "fresh" in options:
        given.add("--sample")  # a version has as many
        folder = Path(claimed["folder"])
        try:
            versions = folder.joinpath("results", "testsets", *_owner(claimed))
            documents = folder / Path(options.pop("from")).expanduser()
            command += ["--test-set", str(fresh_test_set(versions, documents, options.pop("fresh"), **options))]
        except (RagbenchError, OSError) as exc:
            return 2, f"no fresh test set: {exc}", None
    environment, place = dict(os.environ), None
    environment |= {"RAGBENCH_SERIES": series_of(claimed), "RAGBENCH_CLIENT": claimed["client_id"]}
    if command[0] == "eval":
        for option, name in (("--k", "EVALUATION_DEFAULT_K"), ("--sample", "EVALUATION_DEFAULT_SAMPLE_SIZE")):
            if (value := os.environ.get(name)) and option not in given:
                command += [option, value]
        place = place_of(claimed)
        place.parent.mkdir(parents=True, exist_ok=True)
        command += ["--output", str(place), "--force"]
        environment["RAGBENCH_HISTORY"] = "off"  # recorded when the job is committed
    ours, theirs = os.pipe()
    child = subprocess.Popen(
        [*program, *command], cwd=claimed["folder"], env=environment, stdin=ours, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    os.close(ours)
    start, killed = time.monotonic(), ""
    try:
        while True:
            try:
                output, _ = child.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                if lost.is_set() or (stop is not None and stop.is_set()):
                    killed = "stopped"
                elif timeout_s and time.monotonic() - start > timeout_s:
                    killed = f"stopped after the {timeout_s:g} s that a job may take"
                if killed:
                    _kill(child)
    except BaseException:
        _kill(child)
        child.communicate()
        raise
    finally:
        os.close(theirs)
    if killed and stop is not None and stop.is_set():
        raise InterruptedError("the worker stops")
    return (2, f"{output}{killed}\n", place) if killed else (child.returncode, output, place)


def _kill(child: subprocess.Popen[str]) -> None:
    """End a child and what it started."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
