"""Alerts: rules about runs, checked when a run is recorded and by `run_due`; each is sent once per
run and rule.

An alert is a row, written in the transaction that records its run. The process that takes the row
over sends it: one that dies before leaves it to the next one; one that dies while it sends leaves
it in the state "sending", and it is not sent again. What a target refused is tried again by
`run_due` for a day, at the targets that did not get it.
"""

import json
import logging
import os
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from sqlalchemy import Connection, Row, and_, delete, func, or_, select, update

from ragbench.errors import (
    ConfigError,
    MissingExtraError,
    RagbenchError,
    printable,
    require,
    unknown,
)
from ragbench.registry import check_limit, find_measure
from ragbench.service import tables, trends
from ragbench.service.history_database import (
    Json,
    add_once,
    chosen_row,
    connected,
    content_id,
    now,
    read_frame,
    read_rows,
    replace_row,
    timestamp,
    write,
)
from ragbench.service.keys import EVERY_CLIENT
from ragbench.service.tables import alert, alert_rule, series_of

_LOG = logging.getLogger("ragbench.alerts")
_THRESHOLD = re.compile(r"([^\s<>=]+)\s*([<>])\s*(-?\d*\.?\d+)")
_TARGET = re.compile(r"\$\{[A-Za-z_]\w*\}")
_EXPECTED = "'claim_support<0.8', 'pass_rate<0.8', 'drift' or 'failed'"
_DAY = timedelta(days=1)
_Row = Row[Any]


def add_alert(
    rule: str,
    *,
    to: Sequence[str] = (),
    series: str = "",
    point: bool = False,
    client: str = "",
    database: str = "",
) -> str:
    """Add a rule, or replace the same one; return its id.

    Args:
        rule: "claim_support<0.8" (or ">"): the whole 95 % interval of the mean is there; "drift": a
            watched measure got worse, by `ragbench.statistics.drift`; "failed": a run missed its
            targets or a job broke off.
        to: references to environment variables that hold addresses in apprise's form, such as
            "${SLACK_URL}"; none = a line in the log, which is written in any case.
        series: the evaluation, sweep or schedule; "" = every evaluation, and no sweep.
        client: whose runs; "*" = those of every client.
        point: the mean alone decides.

    Raises:
        ConfigError: the rule, its measure or a target cannot be used.
        DataError: the database cannot be used.
    """
    rule = " ".join(rule.split())
    check_targets(to)
    with connected(database, write=True) as connection:
        if match := _THRESHOLD.fullmatch(rule):
            limit = float(match[3])
            rule = f"{_measure(connection, match[1], limit)}{match[2]}{limit:g}"
        elif rule not in ("drift", "failed"):
            raise ConfigError(f"{rule!r} is not a rule; expected such as {_EXPECTED}")
        rule_id = content_id("rule", client, series, rule)
        row = {
            "client_id": client,
            "series": series,
            "rule": rule,
            "point": point,
            "targets": json.dumps(list(dict.fromkeys(to))),
            "made_at": now(),
        }
        replace_row(connection, alert_rule, {"id": rule_id, **row})
    return rule_id


def check_targets(to: Sequence[str]) -> None:
    """Refuse what is not a reference to an environment variable.

    Raises:
        ConfigError: naming how many; what was written may hold a password.
    """
    if bad := [target for target in to if not _TARGET.fullmatch(target)]:
        raise ConfigError(
            f"{len(bad)} of {len(to)} targets are no reference to an environment variable; "
            "expected such as '${SLACK_URL}', in single quotes (what was written is not shown: "
            "it may hold a password)"
        )


def replace_threshold(
    series: str,
    limit: float,
    *,
    to: Sequence[str] = (),
    client: str = "",
    database: str = "",
) -> None:
    """Add the rule that the pass rate is at least `limit`, in place of those for it that a series
    has, and the rule "failed" for a job that cannot run.

    They are sent `to` these targets; none = to those of the rules that they replace.

    Raises:
        ConfigError, DataError: as `add_alert`.
    """
    column = alert_rule.c
    of_series = column.client_id == client, column.series == series

    def targets_of(is_rule: Any) -> list[str]:
        before = read_rows(database, select(column.targets).where(*of_series, is_rule))
        return [target for row in before for target in json.loads(row.targets)]

    is_threshold = column.rule.startswith("pass_rate<")
    to = to or targets_of(is_threshold)
    failed_to = to or targets_of(column.rule == "failed")
    write(database, delete(alert_rule).where(*of_series, is_threshold))
    scope: dict[str, Any] = {"series": series, "client": client, "database": database}
    add_alert(f"pass_rate<{limit}", to=to, point=True, **scope)
    add_alert("failed", to=failed_to, **scope)


def _measure(connection: Connection, name: str, limit: float) -> str:
    """Return the name of a measure that a rule may have, with this limit."""
    recorded = connection.execute(select(tables.score.c.measure).distinct()).scalars().all()
    if declared := find_measure(name):
        name = declared.name
    elif name not in recorded:
        raise ConfigError(unknown("measure", name, [*trends.WATCHED, *recorded]))
    check_limit(name, limit)
    return name


def alerts(*, client: str | None = None, database: str = "") -> pd.DataFrame:
    """Return the rules: id, rule, series, client_id, point, to, raised (how often), last (when)."""
    columns = [
        *(alert_rule.c[name] for name in ("id", "rule", "series", "client_id", "point")),
        alert_rule.c.targets.label("to"),
    ]
    count, last = func.count(alert.c.id), func.coalesce(func.max(alert.c.made_at), "")
    query = select(*columns, count.label("raised"), last.label("last")).group_by(*columns)
    query = query.select_from(alert_rule).outerjoin(alert, alert.c.rule_id == alert_rule.c.id)
    if client is not None:
        query = query.where(alert_rule.c.client_id == client)
    order = alert_rule.c.made_at, alert_rule.c.id
    frame = read_frame(database, query.group_by(order[0]).order_by(*order))
    return frame.assign(to=[", ".join(json.loads(targets)) for targets in frame["to"]])


def raised_alerts(*, limit: int = 20, database: str = "") -> pd.DataFrame:
    """Return the newest alerts: made_at, rule_id, subject (a run or a job), state, error, text."""
    columns = [alert.c[name] for name in "made_at rule_id subject state error text".split()]
    return read_frame(database, select(*columns).order_by(alert.c.made_at.desc()).limit(limit))


def remove_alert(rule: str, *, database: str = "") -> None:
    """Remove a rule, by itself or by the beginning of its id; what it raised stays listed.

    Raises:
        ConfigError: no rule, or several, are meant.
    """
    write(database, delete(alert_rule).where(alert_rule.c.id == _rule(database, rule).id))


def send_test(rule: str, *, database: str = "") -> dict[str, str]:
    """Send a test message to the targets of a rule, named as for `remove_alert`: target -> "" or
    why it failed.
    """
    row = _rule(database, rule)
    text = (
        f"ragbench: a test of the alert {row.rule}\nNothing happened; this is where its "
        "alerts arrive."
    )
    return {target: _send(target, text) for target in json.loads(row.targets)}


def _rule(database: str, text: str) -> _Row:
    query = select(alert_rule, alert_rule.c.rule.label("name"))
    return chosen_row("alert", text, read_rows(database, query))


def raise_alerts(connection: Connection, run: Json) -> None:
    """Write the alerts of a new run, in the transaction that adds it."""
    query = select(alert_rule).where(
        alert_rule.c.client_id.in_((run["client_id"], EVERY_CLIENT)),
        alert_rule.c.series.in_((run["series"], "" if run["kind"] == "eval" else run["series"])),
    )
    client = f" of {run['client_id']}" if run["client_id"] else ""
    origin = f"made {run['made_at'][:16]} UTC on {run['dataset']}"
    places = filter(None, [run["location"], f"ragbench history show {run['id'][:10]}"])
    about = f"{run['configuration']}{client}, {origin}", f"Look: {'; '.join(places)}"
    for rule in connection.execute(query).all():
        if lines := [*_lines(connection, run, rule)]:
            title = f"{run['series']}: {lines[0]}"
            _raise(connection, rule, run["id"], title, [*lines[1:], *about])


def _lines(connection: Connection, run: Json, rule: _Row) -> Iterator[str]:
    """Yield a title and the facts where a run is one of which a rule warns."""
    if rule.rule == "drift":
        for number, (measure, change) in enumerate(trends.alarms(connection, run)):
            moved = trends.moved_text(change)
            if number:
                yield f"Also {measure}: {change.text}; {moved}"
            else:
                yield f"drift: {measure}: {change.text}"
                yield from _facts(connection, run, measure)
                yield f"Questions that moved most: {moved}"
    elif rule.rule == "failed":
        if run["passed"] is False:
            passed, count = run["questions_passed"], run["questions"]
            yield "targets were missed" + ("" if passed is None else f" ({passed}/{count} pass)")
            yield from _facts(connection, run, "pass_rate")
    elif match := _THRESHOLD.fullmatch(rule.rule):
        measure, sign, limit = match.groups()
        score = _score(connection, run["id"], measure)
        column = "mean" if rule.point else "ci_high" if sign == "<" else "ci_low"
        value = getattr(score, column, None)
        if value is not None and (value < float(limit) if sign == "<" else value > float(limit)):
            subject = measure if rule.point else f"the whole interval of {measure}"
            yield f"{subject} is {'below' if sign == '<' else 'above'} {limit}"
            yield from _facts(connection, run, measure)


def check_alerts(database: str = "", at: datetime | None = None) -> None:
    """Write the alerts of jobs that failed within a day, after the rule was made; then send all. Of
    an evaluation that missed targets its run tells.
    """
    since = timestamp((at or datetime.now(UTC)) - _DAY)
    job, schedule = tables.job.c, tables.schedule.c
    columns = job.id.label("job_id"), job.due_at, job.ended_at, job.exit_code, job.output
    query = select(*columns, tables.schedule).join_from(tables.job, tables.schedule)
    missed = and_(schedule.command.like('["sweep"%'), job.exit_code > 0)
    query = query.where(job.ended_at > since, or_(job.state == "failed", missed))
    with connected(database, write=True) as connection:
        failed = select(alert_rule).where(alert_rule.c.rule == "failed")
        rules = connection.execute(failed).all()
        for row in connection.execute(query).all() if rules else ():
            series, last_line = series_of(row), (row.output or "").strip().splitlines()[-1:]
            title = (
                f"{series}: the job due {row.due_at[:16]} UTC failed, exit status {row.exit_code}"
            )
            lines = [*last_line, f"Look: {row.folder}; ragbench schedule list"]
            for rule in rules:
                is_of_client = rule.client_id in (EVERY_CLIENT, row.client_id)
                if is_of_client and rule.series in ("", series) and row.ended_at > rule.made_at:
                    _raise(connection, rule, row.job_id, title, lines)
    send_alerts(database, again=True)


def _raise(
    connection: Connection, rule: _Row, subject: str, title: str, lines: Sequence[str]
) -> None:
    """Write an alert, unless there is one about this subject."""
    row = {
        "id": content_id("alert", rule.id, subject),
        "rule_id": rule.id,
        "subject": subject,
        "made_at": now(),
        "text": "\n".join(printable(line)[:500] for line in (f"ragbench: {title}", *lines)),
        "state": "waiting",
        "attempts": 0,
        "targets": rule.targets,
        "error": "",
    }
    add_once(connection, alert, row)


def _score(connection: Connection, run_id: str, measure: str) -> _Row | None:
    score = tables.score.c
    query = select(tables.score).where(score.run_id == run_id, score.measure == measure)
    return connection.execute(query.where(score.mean.is_not(None))).first()


def _facts(connection: Connection, run: Json, measure: str) -> Iterator[str]:
    """Yield the value with its interval, and the change since the run before."""
    score = _score(connection, run["id"], measure)
    if score is None:
        return
    low, high = score.ci_low, score.ci_high
    interval = "" if low is None or high is None else f", 95 % interval [{low:.3f}, {high:.3f}]"
    yield f"{measure} {score.mean:.3f}{interval}, {score.n_scored}/{score.n} questions scored"
    before = trends.previous_run(connection, run)
    if before and (then := _score(connection, before["id"], measure)):
        other = "" if before["fingerprint"] == run["fingerprint"] else ", on another dataset"
        change = score.mean - then.mean
        yield f"Change: {change:+.3f} since {before['made_at'][:16]} UTC ({then.mean:.3f}{other})"
    yield (
        f"Over time: ragbench history trend {shlex.quote(measure)} "
        f"--series {shlex.quote(run['series'])}"
    )


def send_alerts(database: str = "", *, again: bool = False) -> None:
    """Send what waits, and `again` what failed within a day. A failure to send is kept with the
    alert, not raised.
    """
    states = ["waiting", "failed"] if again else ["waiting"]
    since = timestamp(datetime.now(UTC) - _DAY)
    query = select(alert).where(alert.c.state.in_(states), alert.c.made_at > since)
    for row in read_rows(database, query.order_by(alert.c.made_at)):
        same = (alert.c[name] == getattr(row, name) for name in ("id", "state", "attempts"))
        claim = update(alert).where(*same)
        if not write(database, claim.values(state="sending", attempts=row.attempts + 1)):
            continue  # another process sends it
        if row.state == "waiting":
            _LOG.warning("%s", row.text)
        targets = json.loads(row.targets)
        failed = {target: error for target in targets if (error := _send(target, row.text))}
        for target, error in failed.items():
            _LOG.warning("an alert could not be sent to %s: %s", target, error)
        state = "failed" if failed else "sent" if targets else "logged"
        errors = "; ".join(f"{target}: {error}" for target, error in failed.items())
        values = {"state": state, "targets": json.dumps(list(failed)), "error": errors}
        write(database, update(alert).where(alert.c.id == row.id).values(values))


def send_or_warn(database: str) -> None:
    """Send alerts after a run was recorded: a database that fails now leaves them to the next
    process.
    """
    try:
        send_alerts(database)
    except RagbenchError as exc:
        _LOG.warning("alerts wait to be sent: %s", exc)


def _send(target: str, text: str) -> str:
    """Send a text; "" or why it could not be. No message of apprise is passed on: it names
    addresses.
    """
    address = os.environ.get(target[2:-1], "")
    if not address:
        return "this environment variable is not set"
    try:
        with _silenced():
            apprise = require("apprise", "alerts")
            sender = apprise.Apprise()
            if not sender.add(address):
                return "not an address that apprise knows (github.com/caronc/apprise lists them)"
            title, _, body = text.partition("\n")
            sent = sender.notify(body=body, title=title, body_format=apprise.NotifyFormat.TEXT)
            return "" if sent else "could not be reached, or refused the message"
    except MissingExtraError as exc:
        return str(exc)
    except Exception as exc:  # of a plugin: its text may hold the address
        return f"failed ({type(exc).__name__})"


@contextmanager
def _silenced() -> Iterator[None]:
    """Suppress every log and warning of apprise and what it sends with."""
    names = ("apprise", "urllib3", "urllib3.connectionpool", "requests")
    loggers = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    try:
        for logger in loggers:
            logger.disabled = True
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger in loggers:
            logger.disabled = False
