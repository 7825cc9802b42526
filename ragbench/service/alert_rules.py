"""Alerts: which rules there are, when one is broken or over, when it is reminded of, what its
message says, and where it is sent and tried again.

Alerts come in episodes: one message when a breach begins, a reminder after every `remind_days`, and
one when it is over. An episode belongs to one configuration in a series, or to one schedule. A
breach of a whole interval is over once the mean is back at the limit, so that noise around the limit
is one episode. Drift is compared within an epoch; another epoch begins without an episode.

An alert is a row, written in the transaction that records its run. The process that takes the row
over sends it: one that dies before leaves it to the next one; one that dies while it sends leaves
it in the state "sending", and it is not sent again. A message that a target refused is tried again by
`run_due` for a day, at the targets that did not get it.
"""

import json
import logging
import os
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd
from sqlalchemy import Connection, Row, and_, delete, func, select, update

from ragbench.errors import (
    ConfigError,
    MissingExtraError,
    RagbenchError,
    plural,
    printable,
    require,
    unknown,
)
from ragbench.evaluation.formats import passed_text
from ragbench.registry import check_limit, find_measure
from ragbench.service import measure_trends, tables
from ragbench.service.history_database import (
    Json,
    add_once,
    chosen_row,
    connected,
    content_id,
    current_timestamp,
    read_frame,
    read_rows,
    replace_row,
    timestamp,
    write,
)
from ragbench.service.keys import EVERY_CLIENT
from ragbench.service.recorded_runs import count_decided, previous_run
from ragbench.service.tables import alert, alert_rule, series_of
from ragbench.service.watched_measures import WATCHED
from ragbench.statistics.drift import Change

_LOG = logging.getLogger("ragbench.alerts")
_THRESHOLD = re.compile(r"([^\s<>=]+)\s*([<>])\s*(-?\d*\.?\d+)")
_TARGET = re.compile(r"\$\{[A-Za-z_]\w*\}")
_EXPECTED = "'claim_support<0.8', 'pass_rate<0.8', 'drift' or 'failed'"
_DAY = timedelta(days=1)
_TYPES = {"breach": "failure", "reminder": "warning", "recovery": "success"}
"""The kind of an alert -> the type that its receiver shows."""
_Row = Row[Any]


def add_alert(
    rule: str,
    *,
    to: Sequence[str] = (),
    series: str = "",
    point: bool = False,
    remind_days: int = 7,
    client: str = "",
    database: str = "",
) -> str:
    """Add a rule, or replace the same one; return its id.

    Args:
        rule: "claim_support<0.8" (or ">"): the whole 95 % interval of the mean is below (above) the
            limit; "drift": a watched measure got worse, by `ragbench.statistics.drift`; "failed": a
            run missed its targets, or a job broke off.
        to: references to environment variables that hold addresses in apprise's form, such as
            "${SLACK_URL}"; none = a line in the log, which is written in any case.
        series: the evaluation, sweep or schedule; "" = every evaluation, and no sweep.
        client: whose runs; "*" = the runs of every client.
        point: True: for a limit, the mean alone decides, not its interval.
        remind_days: days after which a breach that goes on is reported again; 0 = never.

    Raises:
        ConfigError: the rule, its measure, a target or `remind_days` cannot be used.
        DataError: the database cannot be used.
    """
    check_targets(to)
    if remind_days < 0:
        raise ConfigError(f"remind_days is {remind_days}; expected days, or 0 for no reminder")
    with connected(database, write=True) as connection:
        rule = _canonical_rule(connection, " ".join(rule.split()))
        rule_id = content_id("rule", client, series, rule)
        row = {
            "client_id": client,
            "series": series,
            "rule": rule,
            "point": point,
            "targets": json.dumps(list(dict.fromkeys(to))),  # each once
            "remind_days": remind_days,
            "made_at": current_timestamp(),
        }
        replace_row(connection, alert_rule, {"id": rule_id, **row})
    return rule_id


def _canonical_rule(connection: Connection, rule: str) -> str:
    """Return a rule as it is stored: "claim_support < 0.80" is "claim_support<0.8".

    Raises:
        ConfigError: it is not a rule, or its measure or limit cannot be used.
    """
    match = _THRESHOLD.fullmatch(rule)
    if match is None:
        if rule not in ("drift", "failed"):
            raise ConfigError(f"{rule!r} is not a rule; expected a rule such as {_EXPECTED}")
        return rule
    name, sign, number = match.groups()  # "claim_support", "<", "0.80"
    limit = float(number)
    return f"{_recorded_name(connection, name, limit)}{sign}{limit:g}"


def check_targets(to: Sequence[str]) -> None:
    """Refuse targets that are not references to environment variables.

    Raises:
        ConfigError: naming how many; the refused texts may hold a password.
    """
    if bad := [target for target in to if not _TARGET.fullmatch(target)]:
        raise ConfigError(
            f"{len(bad)} of {len(to)} targets are no reference to an environment variable; "
            "expected a name such as '${SLACK_URL}', in single quotes (the value is not shown: it may "
            "hold a password)"
        )


def replace_threshold(
    series: str,
    limit: float,
    *,
    to: Sequence[str] = (),
    client: str = "",
    database: str = "",
) -> None:
    """Set the alerts of a series: one for a pass rate below `limit`, one for a job that fails.

    They replace its rules for the pass rate and "failed".

    Args:
        to: the targets of both. Without any, both have the targets of the old rules for the pass rate;
            if these have none, the new rule "failed" has those of the old one.

    Raises:
        ConfigError, DataError: as `add_alert`.
    """
    # conditions of SQL: which rules are replaced
    column = alert_rule.c
    is_of_series = and_(column.client_id == client, column.series == series)
    is_threshold = and_(is_of_series, column.rule.startswith("pass_rate<"))
    is_failed = and_(is_of_series, column.rule == "failed")
    # the targets of old rules are read before these are deleted
    threshold_targets = to or _targets_of_rules(database, is_threshold)
    failed_targets = threshold_targets or _targets_of_rules(database, is_failed)
    write(database, delete(alert_rule).where(is_threshold))
    scope: dict[str, Any] = {"series": series, "client": client, "database": database}
    # point: the pass rate itself decides, not its interval
    add_alert(f"pass_rate<{limit}", to=threshold_targets, point=True, **scope)
    add_alert("failed", to=failed_targets, **scope)  # replaces the old rule of this name


def _targets_of_rules(database: str, condition: Any) -> list[str]:
    """Return all targets of the rules that meet a condition of SQL."""
    rows = read_rows(database, select(alert_rule.c.targets).where(condition))
    return [*chain.from_iterable(json.loads(row.targets) for row in rows)]


def _recorded_name(connection: Connection, name: str, limit: float) -> str:
    """Return the name under which a measure is recorded, for a rule with this limit.

    Raises:
        ConfigError: there is no such measure, or it cannot reach the limit.
    """
    recorded = connection.execute(select(tables.score.c.measure).distinct()).scalars().all()
    # a measure of ragbench gets its usual spelling; another one must be in a recorded run
    if declared := find_measure(name):
        name = declared.name
    elif name not in recorded:
        raise ConfigError(unknown("measure", name, [*WATCHED, *recorded]))
    check_limit(name, limit)
    return name


def alerts(*, client: str | None = None, database: str = "") -> pd.DataFrame:
    """Return the rules of a client (None: of all), the oldest first.

    Columns: id, rule, series, client_id, point (True: the mean alone decides, not its interval),
    remind_days (after which a breach that goes on is reported again; 0 = never), to (the targets, as one
    text), raised (the number of its alerts), last (when it raised the last one; "" = never).
    """
    rule = alert_rule.c
    names = "id rule series client_id point remind_days".split()
    columns = [*(rule[name] for name in names), rule.targets.label("to")]
    raised = func.count(alert.c.id).label("raised")
    last = func.coalesce(func.max(alert.c.made_at), "").label("last")
    # a row for each rule, also for one that never raised an alert
    query = select(*columns, raised, last).group_by(*columns, rule.made_at)
    query = query.select_from(alert_rule).outerjoin(alert, alert.c.rule_id == rule.id)
    if client is not None:
        query = query.where(rule.client_id == client)
    frame = read_frame(database, query.order_by(rule.made_at, rule.id))
    frame["to"] = [", ".join(json.loads(targets)) for targets in frame["to"]]
    return frame


def raised_alerts(*, limit: int = 20, database: str = "") -> pd.DataFrame:
    """Return the newest alerts: made_at, rule_id, subject (a run or a job), kind (breach, reminder,
    recovery), state, error, text.
    """
    columns = [alert.c[name] for name in "made_at rule_id subject kind state error text".split()]
    return read_frame(database, select(*columns).order_by(alert.c.made_at.desc()).limit(limit))


def remove_alert(rule: str, *, database: str = "") -> None:
    """Remove a rule, by itself or by the beginning of its id; its earlier alerts stay listed.

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
    """Return the rule that a text names, by itself or by the beginning of its id."""
    query = select(alert_rule, alert_rule.c.rule.label("name"))
    return chosen_row("alert", text, read_rows(database, query))


class _Finding(NamedTuple):
    """The state of a rule at a run or a job.

    `is_breach` is None if that cannot be known, or if the value is between a breach and its end.
    `title` names the problem, or that it is over; `facts` are further lines.
    """

    is_breach: bool | None
    title: str = ""
    facts: Sequence[str] = ()


_UNKNOWN = _Finding(None)  # no alert is written


class _Subject(NamedTuple):
    """A run or a job at which a rule is checked.

    Attributes:
        id: its id.
        at: when it was made or due.
        series: the name of its series.
        id_column: the ids in its table.
        time_column: the times in its table.
        may_share_episode: a condition of SQL for the runs of the same configuration, or the jobs of the
            same schedule: if these breach a rule one after another, this is one episode.
    """

    id: str
    at: str
    series: str
    id_column: Any
    time_column: Any
    may_share_episode: Any


class _Episode(NamedTuple):
    """An episode that is not over: when its breach began, and when its last message was due."""

    begun: str
    last: str


def raise_alerts(connection: Connection, run: Json) -> None:
    """Check every rule about a new run, and write the alerts that are due, in the transaction that adds
    the run.

    Runs of one configuration that breach a rule one after another are an episode. Its first run raises
    an alert, later ones only a reminder after every `remind_days`, and the run that ends it an alert
    about the recovery.
    """
    all_series = [run["series"]]
    if run["kind"] == "eval":
        all_series.append("")  # a rule for every evaluation
    query = select(alert_rule).where(
        alert_rule.c.client_id.in_((run["client_id"], EVERY_CLIENT)),
        alert_rule.c.series.in_(all_series),
    )
    lines = _lines_about(run)
    column = tables.run.c
    for rule in connection.execute(query).all():
        finding = _finding(connection, run, rule)
        if finding.is_breach is None:  # it begins no episode and ends none
            continue
        # an episode goes on over the runs with the same values of these columns
        shared = ["client_id", "series", "configuration"]
        if rule.rule == "drift":  # only runs of one epoch (one dataset) are compared
            shared.append("epoch")
        may_share_episode = and_(*(column[name] == run[name] for name in shared))
        subject = _Subject(
            run["id"],
            at=run["made_at"],
            series=run["series"],
            id_column=column.id,
            time_column=column.made_at,
            may_share_episode=may_share_episode,
        )
        finding = finding._replace(facts=[*finding.facts, *lines])
        _write_alert_if_due(connection, rule, subject, finding)


def _lines_about(run: Json) -> list[str]:
    """Return the lines of an alert that name its run, and where to look at it.

    `run` is the row of the run in the history's table.
    """
    client = f" of {run['client_id']}" if run["client_id"] else ""
    made = f"made {run['made_at'][:16]} UTC on {run['dataset']}"
    look = f"ragbench history show {run['id'][:10]}"
    if run["location"]:
        look = f"{run['location']}; {look}"
    return [f"{run['configuration']}{client}, {made}", f"Look: {look}"]


def _open_episode(connection: Connection, rule: _Row, subject: _Subject) -> _Episode | None:
    """Return the episode of a rule that is open when a run or a job (the `subject`) is checked; None if
    there is none.

    An episode is the time from a breach of the rule to the recovery. It is open if the last alert
    before the subject is not a recovery.
    """
    time = subject.time_column
    runs_or_jobs = time.table
    # each earlier alert of the rule, with the time of the run or job that it is about
    query = select(alert.c.kind, time.label("time"))
    query = query.join_from(alert, runs_or_jobs, alert.c.subject == subject.id_column)
    # only alerts about runs of the same configuration, or jobs of the same schedule
    query = query.where(subject.may_share_episode)
    query = query.where(alert.c.rule_id == rule.id, time < subject.at)
    newest_first = connection.execute(query.order_by(time.desc())).all()
    if not newest_first or newest_first[0].kind == "recovery":
        return None
    # reminders may follow the breach that began the episode
    begun = next(message.time for message in newest_first if message.kind == "breach")
    return _Episode(begun, last=newest_first[0].time)


def _finding(connection: Connection, run: Json, rule: _Row) -> _Finding:
    """Return the finding of a rule at a run."""
    if rule.rule == "drift":
        return _drift_finding(connection, run)
    if rule.rule == "failed":
        return _failed_finding(connection, run)
    return _threshold_finding(connection, run, rule)


def _failed_finding(connection: Connection, run: Json) -> _Finding:
    """Return the finding of the rule "failed" at a run: a breach if the run missed its targets; unknown
    if it has none.
    """
    if run["passed"] is None:  # it has no targets
        return _UNKNOWN
    facts = [*_facts_about(connection, run, "pass_rate")]
    if run["passed"]:
        return _Finding(False, "targets are met", facts)
    title = "targets were missed"
    n_decided = count_decided(connection, [run["id"]]).get(run["id"])
    if n_decided is not None and run["questions_passed"] is not None:
        title += f" ({passed_text(run['questions_passed'], n_decided, run['questions'])})"
    return _Finding(True, title, facts)


def _threshold_finding(connection: Connection, run: Json, rule: _Row) -> _Finding:
    """Return the finding of a rule such as "claim_support<0.8".

    It is a breach if the whole 95 % interval of the mean is below 0.8, no breach if the mean is 0.8 or
    more, and unknown in between or without a score. With `rule.point` the mean alone decides.
    """
    match = _THRESHOLD.fullmatch(rule.rule)
    if match is None:
        return _UNKNOWN
    measure, sign, text = match.groups()
    limit = float(text)
    score = _score(connection, run["id"], measure)  # the mean and its interval
    if score is None:
        return _UNKNOWN
    compared = measure
    deciding = score.mean
    if not rule.point:  # if this end of the interval is beyond the limit, the whole interval is
        compared = f"the whole interval of {measure}"
        deciding = score.ci_high if sign == "<" else score.ci_low
    if deciding is None:  # a mean without an interval
        return _UNKNOWN
    facts = [*_facts_about(connection, run, measure)]
    side = "below" if sign == "<" else "above"
    if _is_beyond(deciding, sign, limit):
        return _Finding(True, f"{compared} is {side} {text}", facts)
    # The mean is beyond the limit, but the interval holds it: no breach begins, and none is over.
    if _is_beyond(score.mean, sign, limit):
        return _UNKNOWN
    return _Finding(False, f"{measure} is not {side} {text}", facts)


def _is_beyond(value: float, sign: str, limit: float) -> bool:
    return value < limit if sign == "<" else value > limit


def _drift_finding(connection: Connection, run: Json) -> _Finding:
    """Return the finding of the rule "drift": a breach if a watched measure is worse than it was.

    The breach names the measures that got worse with this run, else all that are worse. Without any,
    the finding names the measures that recovered with this run.
    """
    # measure -> change: `worse` are all that are worse now, `begun` the ones among them that got worse
    # with this run, `ended` those that recovered with it
    standing = measure_trends.standing(connection, run)
    changes = standing.begun or standing.worse
    if not changes:
        return _recovery_finding(connection, run, standing.ended)
    first, *others = changes  # measures
    facts = [*_facts_about(connection, run, first)]
    facts.append(f"Questions that moved most: {measure_trends.moved_text(changes[first])}")
    for measure in others:
        change = changes[measure]
        facts.append(f"Also {measure}: {change.text}; {measure_trends.moved_text(change)}")
    return _Finding(True, f"drift: {first}: {changes[first].text}", facts)


def _recovery_finding(
    connection: Connection, run: Json, recovered: Mapping[str, Change]
) -> _Finding:
    """Return the finding that no measure is worse; `recovered` are those that got better with this
    run.
    """
    sentences = ["no measure is worse than before"]
    facts: list[str] = []
    for measure, change in recovered.items():
        sentences.append(f"{measure}: {change.text}")
        facts += _facts_about(connection, run, measure)
    return _Finding(False, "; ".join(sentences), facts)


def check_alerts(database: str = "", at: datetime | None = None) -> None:
    """Check the rules "failed" at the jobs that ended in the last day, then send all waiting alerts.

    An evaluation that missed its targets is reported by its run, not by its job. A job is checked
    at each call within its day, but raises at most one alert of a rule.

    Args:
        database: its address; "" = the default one.
        at: the time, for tests; None = now.
    """
    since = timestamp((at or datetime.now(UTC)) - _DAY)
    with connected(database, write=True) as connection:
        rules = connection.execute(select(alert_rule).where(alert_rule.c.rule == "failed")).all()
        ended_jobs = _jobs_ended_since(connection, since) if rules else ()
        for job in ended_jobs:
            for rule in rules:
                if _is_about(rule, job):
                    _check_job(connection, rule, job)
    send_alerts(database, again=True)  # also those that a target refused within a day


def _is_about(rule: _Row, job: _Row) -> bool:
    """Return True if a rule is about the client and the series of a job, and was made before the job
    ended.
    """
    # "" = a rule of every series
    is_of_client = rule.client_id in (EVERY_CLIENT, job.client_id)
    is_of_series = rule.series in ("", series_of(job))
    return is_of_client and is_of_series and job.ended_at > rule.made_at


def _jobs_ended_since(connection: Connection, since: str) -> Sequence[_Row]:
    """Return the jobs that ended after a time, by the time at which they were due. A row has the job
    and its schedule; `id` is the id of the schedule, `job_id` the id of the job.
    """
    job = tables.job.c
    # labelled, because the schedule has a column `id` too
    columns = job.id.label("job_id"), job.due_at, job.ended_at, job.exit_code, job.output, job.state
    query = select(*columns, tables.schedule).join_from(tables.job, tables.schedule)
    query = query.where(job.ended_at > since, job.state.in_(("failed", "done")))
    return connection.execute(query.order_by(job.due_at)).all()


def _check_job(connection: Connection, rule: _Row, ended: _Row) -> None:
    """Check a rule "failed" at a job that ended, and write an alert if a failure begins, goes on or is
    over.

    Args:
        ended: the job with its schedule, as from `_jobs_ended_since`.
    """
    title = f"the job due {ended.due_at[:16]} UTC"
    is_sweep = json.loads(ended.command)[:1] == ["sweep"]  # the command is a list of arguments
    # an evaluation that missed its targets (exit status 1) is reported by its run
    is_breach = ended.state == "failed" or (is_sweep and ended.exit_code > 0)
    if is_breach:
        title += f" failed, exit status {ended.exit_code}"
    else:
        title += " ended"
    last_lines = (ended.output or "").strip().splitlines()[-1:]  # one line, or none
    facts = [*last_lines, f"Look: {ended.folder}; ragbench schedule list"]
    job = tables.job.c
    subject = _Subject(
        ended.job_id,
        at=ended.due_at,
        series=series_of(ended),
        id_column=job.id,
        time_column=job.due_at,
        may_share_episode=job.schedule_id == ended.id,
    )
    _write_alert_if_due(connection, rule, subject, _Finding(is_breach, title, facts))


def _write_alert_if_due(
    connection: Connection, rule: _Row, subject: _Subject, finding: _Finding
) -> None:
    """Write an alert if a breach of the rule begins, goes on (as a reminder) or is over.

    Args:
        subject: the run or the job at which the rule was checked. There is at most one alert of a rule
            for each.
    """
    message = _message(connection, rule, subject, finding)
    if message is None:
        return
    kind, title = message
    lines = [f"ragbench: {subject.series}: {title}", *finding.facts]
    row = {
        # the same for the same rule and subject, so `add_once` does not add it again
        "id": content_id("alert", rule.id, subject.id),
        "rule_id": rule.id,
        "subject": subject.id,
        "kind": kind,
        "made_at": current_timestamp(),
        "text": "\n".join(printable(line)[:500] for line in lines),
        "state": "waiting",
        "attempts": 0,
        "targets": rule.targets,
        "error": "",
    }
    add_once(connection, alert, row)


def _message(
    connection: Connection, rule: _Row, subject: _Subject, finding: _Finding
) -> tuple[str, str] | None:
    """Return the kind and the title of the alert to send; None for no alert.

    The kind is "breach" if the rule is breached and was not before, "reminder" if the breach goes on and
    a reminder is due, and "recovery" if the breach is over.
    """
    # the breach that earlier alerts reported and that is not over; None = there is none
    episode = _open_episode(connection, rule, subject)
    if episode is None:
        return ("breach", finding.title) if finding.is_breach else None
    time = subject.time_column
    # the times of the earlier runs of this configuration, or jobs of this schedule
    earlier = select(time).where(subject.may_share_episode, time < subject.at)
    nights = _nights(connection.execute(earlier).scalars().all(), episode.begun)
    if not finding.is_breach:
        return "recovery", f"recovered after {nights}: {finding.title}"
    next_reminder = datetime.fromisoformat(episode.last) + timedelta(days=rule.remind_days)
    is_due = rule.remind_days > 0 and datetime.fromisoformat(subject.at) >= next_reminder
    return ("reminder", f"still, after {nights}: {finding.title}") if is_due else None


def _nights(times: Sequence[str], begun: str) -> str:
    """Return the number of runs since a breach began, called nights if each was on another day.

    >>> _nights(["2026-03-01T02:00", "2026-03-02T02:00"], "2026-03-01T02:00")
    '2 nights'
    """
    since = [time for time in times if time >= begun]
    days = {time[:10] for time in since}
    unit = "night" if len(days) == len(since) else "run"
    return plural(len(since), unit)


def _score(connection: Connection, run_id: str, measure: str) -> _Row | None:
    """Return the scores of a run for a measure; None if it has no mean."""
    score = tables.score.c
    query = select(tables.score).where(score.run_id == run_id, score.measure == measure)
    return connection.execute(query.where(score.mean.is_not(None))).first()


def _facts_about(connection: Connection, run: Json, measure: str) -> Iterator[str]:
    """Yield the lines of an alert about a measure in a run: the value with its interval, the change since
    the previous run, and the command that shows the measure over time.

    Yield no line if the run has no value of the measure.
    """
    score = _score(connection, run["id"], measure)
    if score is None:
        return
    interval = ""
    if score.ci_low is not None and score.ci_high is not None:
        interval = f", 95 % interval [{score.ci_low:.3f}, {score.ci_high:.3f}]"
    yield f"{measure} {score.mean:.3f}{interval}, {score.n_scored}/{score.n} questions scored"
    before = previous_run(connection, run)
    score_before = _score(connection, before["id"], measure) if before else None
    if before and score_before:
        change = score.mean - score_before.mean
        origin = f"{score_before.mean:.3f}"
        if before["fingerprint"] != run["fingerprint"]:
            origin += ", on another dataset"
        yield f"Change: {change:+.3f} since {before['made_at'][:16]} UTC ({origin})"
    yield (
        f"Over time: ragbench history trend {shlex.quote(measure)} "
        f"--series {shlex.quote(run['series'])}"
    )


def send_alerts(database: str = "", *, again: bool = False) -> None:
    """Send waiting alerts, and with `again` those that failed within a day. A failure to send is kept
    with the alert, not raised.

    Args:
        database: its address; "" = the default one.
        again: True: an alert that some targets refused is tried again at these targets.
    """
    states = ["waiting", "failed"] if again else ["waiting"]
    since = timestamp(datetime.now(UTC) - _DAY)
    query = select(alert).where(alert.c.state.in_(states), alert.c.made_at > since)
    for row in read_rows(database, query.order_by(alert.c.made_at)):
        if not _claim_alert(database, row):
            continue  # another process sends it
        # at the first try only, so that the log has each alert once
        if row.state == "waiting":
            _LOG.warning("%s", row.text)
        targets = json.loads(row.targets)
        errors = _send_to_all(targets, row.text, _TYPES[row.kind])
        state = "sent" if targets else "logged"  # without targets the line in the log is all
        if errors:
            state = "failed"
        values = {
            "state": state,
            "targets": json.dumps(list(errors)),  # the targets of the next try
            "error": "; ".join(f"{target}: {error}" for target, error in errors.items()),
        }
        write(database, update(alert).where(alert.c.id == row.id).values(values))


def _send_to_all(targets: Sequence[str], text: str, notify_type: str) -> dict[str, str]:
    """Send a text to targets; return target -> error for those that did not get it."""
    errors = {}
    for target in targets:
        if error := _send(target, text, notify_type):
            errors[target] = error
            _LOG.warning("an alert could not be sent to %s: %s", target, error)
    return errors


def _claim_alert(database: str, row: _Row) -> bool:
    """Set the state of an alert to "sending", unless another process has changed it since `row` was
    read; return True if this process is to send it.
    """
    is_unchanged = and_(
        alert.c.id == row.id, alert.c.state == row.state, alert.c.attempts == row.attempts
    )
    claim = update(alert).where(is_unchanged)
    return write(database, claim.values(state="sending", attempts=row.attempts + 1)) > 0


def send_or_warn(database: str) -> None:
    """Send alerts after a run was recorded: a database that fails now leaves them to the next
    process.
    """
    try:
        send_alerts(database)
    except RagbenchError as exc:
        _LOG.warning("alerts wait to be sent: %s", exc)


def _send(target: str, text: str, notify_type: str = "info") -> str:
    """Send a text to a target; return "" or why it failed.

    Args:
        target: a reference to an environment variable.
        notify_type: info, success, warning or failure, which receivers show in different ways.

    Apprise's own messages are not passed on: they name addresses.
    """
    address = os.environ.get(target[2:-1], "")  # "${SLACK_URL}" -> "SLACK_URL"
    if not address:
        return "this environment variable is not set"
    try:
        with _silenced():
            apprise = require("apprise", "alerts")
            sender = apprise.Apprise()
            if not sender.add(address):
                return "not an address that apprise knows (github.com/caronc/apprise lists them)"
            # the first line of the text is the title of the message
            title, _, body = text.partition("\n")
            sent = sender.notify(
                body=body,
                title=title,
                body_format=apprise.NotifyFormat.TEXT,
                notify_type=getattr(apprise.NotifyType, notify_type.upper()),
            )
    except MissingExtraError as exc:
        return str(exc)
    except Exception as exc:  # of a plugin: its text may hold the address
        return f"failed ({type(exc).__name__})"
    return "" if sent else "could not be reached, or refused the message"


@contextmanager
def _silenced() -> Iterator[None]:
    """Suppress every log and warning of apprise and of the packages with which it sends."""
    names = ("apprise", "urllib3", "urllib3.connectionpool", "requests")
    enabled = [logger for logger in map(logging.getLogger, names) if not logger.disabled]
    try:
        for logger in enabled:
            logger.disabled = True
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger in enabled:
            logger.disabled = False
