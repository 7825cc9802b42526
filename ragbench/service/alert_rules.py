"""Alerts: rules about runs, checked when a run is recorded and by `run_due`; each is sent once per run and rule.

An alert is a row, written in the transaction that records its run. The process that takes the row over sends it: one
that dies before leaves it to the next one; one that dies while it sends leaves it in the state "sending", and it is not
sent again. What a target refused is tried again by `run_due` for a day, at the targets that did not get it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from ragbench.errors import ConfigError, RagbenchError, nearest, printable, unknown
from ragbench.registry import bounds_of, find_measure, higher_is_better
from ragbench.service import tables, trends
from ragbench.service.fresh import age
from ragbench.service.history_database import add_once, connected, content_id, now, timestamp
from ragbench.service.keys import EVERY_CLIENT
from ragbench.service.tables import alert, alert_rule, series_of

_LOG = logging.getLogger("ragbench.alerts")
_THRESHOLD = re.compile(r"([^\s<>=]+)\s*([<>])\s*(-?\d*\.?\d+)")
_SILENT = re.compile(r"silent\s+([1-9]\d{0,3})\s*([hd])")
_TARGET = re.compile(r"\$\{[A-Za-z_]\w*\}")
_EXPECTED = "'claim_support<0.8', 'pass_rate<0.8', 'drift', 'failed', 'silent 2d' or 'silent 12h'"
_DAY = timedelta(days=1)
_SHOWN = 5  # questions in a text
_Row = Mapping[str, Any]


def add_alert(
    rule: str, *, to: Sequence[str] = (), series: str = "", point: bool = False, client: str = "", database: str = ""
) -> str:
    """Add a rule, or replace the same one; its id.

    Args:
        rule: "claim_support<0.8" (or ">"): the whole 95 % interval of the mean is there; "drift": a watched measure
            got worse, by `ragbench.statistics.drift`; "failed": a run missed its targets or a job broke off;
            "silent 2d": no run came for that long (looked at by `run_due`).
        to: references to environment variables that hold addresses in apprise's form, such as "${SLACK_URL}"; none =
            a line in the log, which is written in any case.
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
        if found := _THRESHOLD.fullmatch(rule):
            rule = f"{_measure(connection, found[1], float(found[3]))}{found[2]}{float(found[3]):g}"
        elif rule not in ("drift", "failed") and not _SILENT.fullmatch(rule):
            raise ConfigError(f"{rule!r} is not a rule; expected such as {_EXPECTED}")
        row = {
            "id": content_id("rule", client, series, rule), "client_id": client, "series": series, "rule": rule,
            "point": point, "targets": json.dumps(list(dict.fromkeys(to))), "made_at": now(),
        }  # fmt: skip
        if not connection.execute(update(alert_rule).where(alert_rule.c.id == row["id"]).values(row)).rowcount:
            connection.execute(insert(alert_rule), row)
    return str(row["id"])


def check_targets(to: Sequence[str]) -> None:
    """Refuse what is not a reference to an environment variable.

    Raises:
        ConfigError: naming how many; what was given may hold a password.
    """
    if bad := [one for one in to if not _TARGET.fullmatch(one)]:
        raise ConfigError(
            f"{len(bad)} of {len(to)} targets are no reference to an environment variable; expected such as "
            "'${SLACK_URL}', in single quotes (what was given is not shown: it may hold a password)"
        )


def replace_threshold(
    series: str, measure: str, limit: float, *, to: Sequence[str] = (), client: str = "", database: str = ""
) -> None:
    """Add the rule that the mean of a measure is at least `limit`, in place of those for it that a series has.

    It is sent `to` these targets; none = to those of the rules that it replaces.

    Raises:
        ConfigError, DataError: as `add_alert`.
    """
    rules = alerts(database=database)
    before = rules[(rules["series"] == series) & (rules["client_id"] == client)]
    before = before[before["rule"].str.startswith(f"{measure}<")]
    for row in before.itertuples():
        to = to or [target for target in str(row.to).split(", ") if target]
        remove_alert(str(row.id), database=database)
    add_alert(f"{measure}<{limit}", to=to, series=series, point=True, client=client, database=database)


def _measure(connection: Connection, name: str, limit: float) -> str:
    if (known := find_measure(name)) is None:
        used = connection.execute(select(tables.score.c.measure).distinct()).scalars().all()
        if name not in used:
            near = nearest(name, [*trends.WATCHED, *used])
            hint = f"; did you mean {near!r}?" if near else ""
            raise ConfigError(f"unknown measure {name!r}, and no run has it{hint}; `ragbench list` names all")
    name = known.name if known else name
    if bounds_of(name) == (0.0, 1.0) and not 0 <= limit <= 1:
        raise ConfigError(f"{name} lies between 0 and 1; {limit:g} is never crossed")
    return name


def alerts(*, database: str = "") -> pd.DataFrame:
    """The rules: id, rule, series, client_id, point, to, raised (how often), last (when)."""
    with connected(database) as connection:
        rows = connection.execute(select(alert_rule).order_by(alert_rule.c.made_at, alert_rule.c.id)).mappings().all()
        raised = connection.execute(select(alert.c.rule_id, alert.c.made_at)).all()
    times = {row["id"]: sorted(at for rule_id, at in raised if rule_id == row["id"]) for row in rows}
    records = [
        {**{name: row[name] for name in ("id", "rule", "series", "client_id", "point")},
         "to": ", ".join(json.loads(row["targets"])), "raised": len(times[row["id"]]),
         "last": max(times[row["id"]], default="")} for row in rows
    ]  # fmt: skip
    return pd.DataFrame(records, columns=["id", "rule", "series", "client_id", "point", "to", "raised", "last"])


def raised_alerts(*, limit: int = 20, database: str = "") -> pd.DataFrame:
    """The newest alerts: made_at, rule_id, subject (a run or a job), state, error, text."""
    columns = [alert.c[name] for name in ("made_at", "rule_id", "subject", "state", "error", "text")]
    with connected(database) as connection:
        rows = connection.execute(select(*columns).order_by(alert.c.made_at.desc()).limit(limit)).mappings().all()
    return pd.DataFrame(rows, columns=[column.name for column in columns])


def remove_alert(rule: str, *, database: str = "") -> None:
    """Remove a rule, by itself or by the beginning of its id; what it raised stays listed.

    Raises:
        ConfigError: no rule, or several, are meant.
    """
    with connected(database, write=True) as connection:
        connection.execute(delete(alert_rule).where(alert_rule.c.id == _rule(connection, rule)["id"]))


def send_test(rule: str, *, database: str = "") -> dict[str, str]:
    """Send a test message to the targets of a rule: target -> "" or why it failed. As `remove_alert`."""
    with connected(database) as connection:
        row = _rule(connection, rule)
    text = f"ragbench: a test of the alert {row['rule']}\nNothing happened; this is where its alerts arrive."
    return {target: _sent(target, text) for target in json.loads(row["targets"])}


def _rule(connection: Connection, named: str) -> _Row:
    rows = connection.execute(select(alert_rule)).mappings().all()
    meant = [row for row in rows if row["rule"] == named or (named and row["id"].startswith(named))]
    if len(meant) != 1:
        known = [f"{row['id'][:10]} ({row['rule']})" for row in meant or rows]
        raise ConfigError(f"{named!r} is {len(meant)} rules: {', '.join(known)}" if meant
                          else unknown("alert", named, known) if known else "there is no alert yet")  # fmt: skip
    return dict(meant[0])


def raise_alerts(connection: Connection, run_id: str) -> None:
    """Write the alerts of a new run, in the transaction that adds it."""
    row = dict(connection.execute(select(tables.run).where(tables.run.c.id == run_id)).mappings().one())
    for rule in _rules(connection, row["client_id"], row["series"], row["kind"]):
        lines: list[str] = []
        if found := _THRESHOLD.fullmatch(rule["rule"]):
            lines = _crossed(connection, row, rule, *found.groups())
        elif rule["rule"] == "drift":
            lines = list(_drifted(connection, row))
        elif rule["rule"] == "failed" and row["passed"] is not None and not row["passed"]:
            counted = "" if row["questions_passed"] is None else f" ({row['questions_passed']}/{row['questions']} pass)"
            lines = [f"targets were missed{counted}", *_facts(connection, row, "pass_rate")]
        if lines:
            whose = f" of {row['client_id']}" if row["client_id"] else ""
            about = f"{row['configuration']}{whose}, made {row['made_at'][:16]} UTC on {row['dataset']}"
            look = "; ".join(filter(None, [row["location"], f"ragbench history show {run_id[:10]}"]))
            _raise(connection, rule, run_id, f"{row['series']}: {lines[0]}", [*lines[1:], about, f"Look: {look}"])


def check_alerts(database: str = "", at: datetime | None = None) -> None:
    """Write the alerts that no run brings: of jobs that broke off within a day, and of silence; then send all."""
    at = at or datetime.now(UTC)
    with connected(database, write=True) as connection:
        for rule in map(dict, connection.execute(select(alert_rule)).mappings().all()):
            if rule["rule"] == "failed":
                _broken(connection, rule, max(rule["made_at"], timestamp(at - _DAY)))
            elif found := _SILENT.fullmatch(rule["rule"]):
                client = None if rule["client_id"] == EVERY_CLIENT else rule["client_id"]
                wanted = trends._of(select(tables.run), rule["series"], client)
                newest = connection.execute(wanted.order_by(tables.run.c.made_at.desc()).limit(1)).mappings().first()
                last = newest["made_at"] if newest else ""
                if max(last, rule["made_at"]) < timestamp(at - age(found[1] + found[2])):
                    text = f"{rule['series'] or 'evaluations'}: no run since {last[:16] or 'ever'} ({rule['rule']})"
                    subject = newest["id"] if newest else "none"
                    _raise(connection, rule, subject, text, ["Look: ragbench schedule list"])
    send_alerts(database, again=True)


def _broken(connection: Connection, rule: _Row, since: str) -> None:
    job, schedule = tables.job.c, tables.schedule.c
    wanted = select(job.id.label("job_id"), job.due_at, job.exit_code, job.output, tables.schedule)
    wanted = wanted.join_from(tables.job, tables.schedule).where(job.ended_at > since)
    broken = and_(schedule.command.like('["sweep"%'), job.exit_code > 0)  # 1 of an evaluation: its run tells
    wanted = wanted.where(or_(job.state == "failed", broken))
    wanted = wanted.where(or_(schedule.client_id == rule["client_id"], rule["client_id"] == EVERY_CLIENT))
    for row in map(dict, connection.execute(wanted).mappings().all()):
        series = series_of(row)
        if rule["series"] in ("", series):
            printed = (row["output"] or "").strip().splitlines()[-1:]
            title = f"{series}: the job due {row['due_at'][:16]} UTC failed, exit status {row['exit_code']}"
            _raise(connection, rule, row["job_id"], title, [*printed, f"Look: {row['folder']}; ragbench schedule list"])


def _rules(connection: Connection, client: str, series: str, kind: str) -> list[_Row]:
    named = ("", series) if kind == "eval" else (series,)
    wanted = select(alert_rule).where(
        alert_rule.c.client_id.in_((client, EVERY_CLIENT)), alert_rule.c.series.in_(named)
    )
    return [dict(row) for row in connection.execute(wanted).mappings()]


def _raise(connection: Connection, rule: _Row, subject: str, title: str, lines: Sequence[str]) -> None:
    """Write an alert, unless there is one about this subject."""
    row = {
        "id": content_id("alert", rule["id"], subject), "rule_id": rule["id"], "subject": subject, "made_at": now(),
        "text": "\n".join(printable(line)[:500] for line in (f"ragbench: {title}", *lines)),
        "state": "waiting", "targets": rule["targets"], "error": "",
    }  # fmt: skip
    add_once(connection, alert, row)


def _score(connection: Connection, run_id: str, measure: str) -> _Row | None:
    score = tables.score.c
    found = select(tables.score).where(score.run_id == run_id, score.measure == measure, score.mean.is_not(None))
    return next(map(dict, connection.execute(found).mappings()), None)


def _crossed(connection: Connection, row: _Row, rule: _Row, measure: str, sign: str, limit: str) -> list[str]:
    score = _score(connection, row["id"], measure)
    decides = "mean" if rule["point"] else "ci_high" if sign == "<" else "ci_low"
    if score is None or score[decides] is None:
        return []
    if not (score[decides] < float(limit) if sign == "<" else score[decides] > float(limit)):
        return []
    of = "" if rule["point"] else "the whole interval of "
    side = "below" if sign == "<" else "above"
    return [f"{of}{measure} is {side} {limit}", *_facts(connection, row, measure)]


def _drifted(connection: Connection, row: _Row) -> Iterator[str]:
    """A title and the facts where the run raises an alarm of a watched measure that got worse."""
    alarms = []
    streams = trends._streams(connection, trends._runs(connection, row["series"], row["client_id"], 0))
    cases = trends._cases(connection, [row])
    for measure in trends.watched(connection, row["id"]):
        rows = trends._measured(connection, measure, row["series"], row["client_id"])
        rows = [one for one in rows if one["epoch"] == row["epoch"]]
        for places, found in trends._drifts(rows, streams, cases):
            states = {rows[place]["run_id"]: state for place, state in zip(places, found.path["state"], strict=True)}
            state = states.get(row["id"], "")
            if state in ("fall", "rise") and trends._worse(measure, state) == "worse":
                change = next(one for one in found.changes[::-1] if one.direction == state)
                moved = ", ".join(f"{query_id} {size:+.2f}" for query_id, size in change.questions.items())
                alarms.append((measure, change.text, moved))
    for measure, text, moved in alarms[:1]:
        yield f"drift: {measure}: {text}"
        yield from _facts(connection, row, measure)
        yield f"Questions that moved most: {moved}"
    yield from (f"Also {measure}: {text}; {moved}" for measure, text, moved in alarms[1:])


def _facts(connection: Connection, row: _Row, measure: str) -> Iterator[str]:
    """The value with its interval, the change since the run before, and the worst questions."""
    score = _score(connection, row["id"], measure)
    if score is None:
        return
    low, high = score["ci_low"], score["ci_high"]
    interval = "" if low is None or high is None else f", 95 % interval [{low:.3f}, {high:.3f}]"
    yield f"{measure} {score['mean']:.3f}{interval}, {score['n_scored']}/{score['n']} questions scored"
    before = trends._before(connection, row)
    then = _score(connection, before["id"], measure) if before else None
    if before and then:
        other = "" if before["fingerprint"] == row["fingerprint"] else ", on another dataset"
        change = score["mean"] - then["mean"]
        yield f"Change: {change:+.3f} since {before['made_at'][:16]} UTC ({then['mean']:.3f}{other})"
    cases = trends._cases(connection, [row])[row["case_set"]]
    if score["case_values"] is not None:
        values, ids = trends._values(score["case_values"]), sorted(cases)
        order = np.argsort(values if higher_is_better(measure) else -values, kind="stable")
        worst = [i for i in order if not np.isnan(values[i])][:_SHOWN]
        yield "Worst questions: " + "; ".join(f"{ids[i]} {values[i]:.2f} ({cases[ids[i]][:60]})" for i in worst)
    yield f"Over time: ragbench history trend {shlex.quote(measure)} --series {shlex.quote(row['series'])}"


def send_alerts(database: str = "", *, again: bool = False) -> None:
    """Send what waits, and `again` what failed within a day. A failure to send is kept with the alert, not raised."""
    states = ["waiting", "failed"] if again else ["waiting"]
    since = timestamp(datetime.now(UTC) - _DAY)
    with connected(database) as connection:
        wanted = select(alert).where(alert.c.state.in_(states), alert.c.made_at > since).order_by(alert.c.made_at)
        rows = connection.execute(wanted).mappings().all()
    for row in rows:
        same = (alert.c.id == row["id"], alert.c.state == row["state"], alert.c.attempts == row["attempts"])
        with connected(database, write=True) as connection:
            taken = update(alert).where(*same).values(state="sending", attempts=row["attempts"] + 1)
            if not connection.execute(taken).rowcount:
                continue  # another process sends it
        if row["state"] == "waiting":
            _LOG.warning("%s", row["text"])
        targets = json.loads(row["targets"])
        failed = {target: error for target in targets if (error := _sent(target, row["text"]))}
        for target, error in failed.items():
            _LOG.warning("an alert could not be sent to %s: %s", target, error)
        left = {"state": "failed" if failed else "sent" if targets else "logged", "targets": json.dumps(list(failed)),
                "error": "; ".join(f"{target}: {error}" for target, error in failed.items())}  # fmt: skip
        with connected(database, write=True) as connection:
            connection.execute(update(alert).where(alert.c.id == row["id"]).values(left))


def send_or_warn(database: str) -> None:
    """As `send_alerts`, for after a run was recorded: a database that fails now leaves them to the next one."""
    try:
        send_alerts(database)
    except RagbenchError as exc:
        _LOG.warning("alerts wait to be sent: %s", exc)


def _sent(target: str, text: str) -> str:
    """Send a text; "" or why it could not be. Nothing that apprise says is passed on: it names addresses."""
    address = os.environ.get(target[2:-1], "")
    if not address:
        return "this environment variable is not set"
    try:
        with _silenced():
            from apprise import Apprise, NotifyFormat

            sender = Apprise()
            if not sender.add(address):
                return "not an address that apprise knows (github.com/caronc/apprise lists them)"
            title, _, body = text.partition("\n")
            if sender.notify(body=body, title=title, body_format=NotifyFormat.TEXT):
                return ""
            return "could not be reached, or refused the message"
    except ImportError:
        return "needs apprise; pip install 'ragbench-lab[alerts]'"
    except Exception as exc:  # of a plugin: its text may hold the address
        return f"failed ({type(exc).__name__})"


@contextmanager
def _silenced() -> Iterator[None]:
    """No log and no warning of apprise and what it sends with."""
    loggers = [logging.getLogger(name) for name in ("apprise", "urllib3", "urllib3.connectionpool", "requests")]
    before = [one.disabled for one in loggers]
    try:
        for one in loggers:
            one.disabled = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, was in zip(loggers, before, strict=True):
            one.disabled = was
