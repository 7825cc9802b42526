"""Runs out of the database, as frames: the newest, a measure over time, two side by side."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sqlalchemy import Connection, and_, func, literal, or_, select

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.registry import BRIEF, LEADERBOARD, bounds_of, find_measure, higher_is_better
from ragbench.service import tables
from ragbench.service.history_database import Json, connected
from ragbench.statistics import Drift, compare, drift
from ragbench.statistics.drift import Change
from ragbench.types import grouped

_ALSO = ("RR", "Success@5", "citation_accuracy", "outcome_correct", "overall")
WATCHED = tuple(dict.fromkeys((*BRIEF, *_ALSO, *LEADERBOARD)))
"""The measures that are tested for drift, next to those that a run has a target for."""

_WATCHED = or_(tables.score.c.measure.in_(WATCHED), tables.score.c.target.is_not(None))
MAIN = tuple(dict.fromkeys((*LEADERBOARD, *WATCHED)))
"""The measures of the first page: of each configuration the first that it has."""
_LINES = 200  # of the first page

_COLUMNS = (
    "run made_at kind client_id series configuration dataset passed questions questions_passed "
    "questions_decided cost_usd seconds location categories changed"
).split()
_LINE = ("client_id", "series", "configuration")
_TREND = (
    "made_at series configuration run mean ci_low ci_high n_scored n epoch changed state note "
    "moved passed cost_usd"
).split()
_NEWEST = (
    "id client_id kind series configuration epoch case_set made_at passed questions "
    "questions_passed cost_usd"
).split()
_VALUE = ("mean", "ci_low", "ci_high", "n_scored", "n")
_Row = Mapping[Any, Any]


class State(NamedTuple):
    """Whether a measure moved: worse, better or steady, and the evidence."""

    kind: str
    text: str


def history(
    *,
    series: str = "",
    client: str | None = None,
    limit: int = 20,
    database: str = "",
) -> pd.DataFrame:
    """Return the newest runs, the newest first, and what changed since the run before of the same
    configuration.

    Columns: run (its id), made_at, kind, client_id, series, configuration, dataset, passed,
    questions, questions_passed, questions_decided (passed or failed), cost_usd, seconds, location,
    categories (name -> pass rate, number of questions), changed.

    Args:
        series: only these: the name of a sweep or an evaluation.
        client: only theirs; None = those of all.
        limit: how many; 0 = all.
        database: a file or URL; "" = RAGBENCH_DATABASE, else a file in the user's data folder.

    >>> history(limit=5)  # doctest: +SKIP

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    with connected(database) as connection:
        rows = _runs(connection, series, client, limit)
        decided = decided_of(connection, [row["id"] for row in rows])
        for row in rows:
            row["changed"] = _changed(previous_run(connection, row), row)
            row["questions_decided"] = decided.get(row["id"])
            row |= {"run": row["id"], "categories": json.loads(row["categories"])}
    counts = dict.fromkeys(("questions_passed", "questions_decided"), "Int64")
    types = {"passed": "boolean", **counts, "cost_usd": "float64"}
    return pd.DataFrame(rows, columns=_COLUMNS).astype(types)


def decided_of(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Return run id -> how many of its questions passed or failed, where any did."""
    score = tables.score.c
    query = select(score.run_id, score.n_scored)
    query = query.where(score.run_id.in_(ids), score.measure == "pass_rate")
    return {row.run_id: row.n_scored for row in connection.execute(query)}


def trend(
    measure: str, *, series: str = "", client: str | None = None, database: str = ""
) -> pd.DataFrame:
    """Return a measure over time, the oldest run first, with marks where something changed and
    where it drifted.

    Columns: made_at, series, configuration, run, mean, ci_low, ci_high, n_scored, n, epoch,
    changed, state, note, moved, passed, cost_usd. Runs of one epoch are comparable: the same client,
    series, configuration, parameters and dataset. `state` and `note` are those of
    `ragbench.statistics.drift`, which tests every epoch: "fall" or "rise" at the run that raises an
    alarm, with the questions that `moved` most; the last run of an epoch holds the conclusion.

    Args:
        measure: in any case, such as "ndcg@10".
        series, client, database: as in `history`.

    >>> trend("nDCG@10", series="nightly")  # doctest: +SKIP

    Raises:
        ConfigError: no run has this measure, or the database is not to be used.
        DataError: the database cannot be read.
    """
    with connected(database) as connection:
        rows = _measured(connection, measure, series, client)
        streams = _streams(connection, newest_runs(connection, client, series))
        epochs = list(_drifts(connection, rows, streams))
    last: dict[tuple[str, ...], _Row] = {}
    for row in rows:
        line, change = tuple(row[name] for name in _LINE), row.get("change")
        row |= {"run": row["id"], "changed": _changed(last.get(line), row)}
        row["note"] = f"{_worse(measure, change.direction)}: {change.text}" if change else ""
        row |= {"moved": moved_text(change) if change else "", "state": row.get("state", "")}
        last[line] = row
    for members, epoch in epochs:
        members[-1]["note"] = members[-1]["note"] or epoch.text
    frame = pd.DataFrame(rows)[_TREND]
    frame["made_at"] = pd.to_datetime(frame["made_at"], utc=True, format="ISO8601")
    numbers = dict.fromkeys(("mean", "ci_low", "ci_high", "cost_usd"), "float64")
    return frame.astype({"passed": "boolean", **numbers})


def drifts(
    measure: str, *, series: str = "", client: str | None = None, database: str = ""
) -> dict[str, Drift]:
    """Return the drift of each epoch, by the id of its newest run.

    Raises:
        ConfigError, DataError: as `trend`.
    """
    with connected(database) as connection:
        rows = _measured(connection, measure, series, client)
        streams = _streams(connection, newest_runs(connection, client, series))
        return {members[-1]["id"]: each for members, each in _drifts(connection, rows, streams)}


def values_over_time(
    row: _Row, measures: Sequence[str], *, limit: int, database: str = ""
) -> pd.DataFrame:
    """Return the means of measures in the newest runs of a configuration, the oldest run first;
    whether they moved is not tested.

    Columns: run, made_at, epoch, cost_usd, measure, mean, ci_low, ci_high.

    Args:
        row: its client_id, series and configuration.
        limit: how many runs.
    """
    run, score = tables.run.c, tables.score.c
    columns = run.id.label("run"), run.made_at, run.epoch, run.cost_usd
    newest = select(*columns).where(*[run[name] == row[name] for name in _LINE])
    newest = newest.order_by(run.made_at.desc(), run.id).limit(limit)
    with connected(database) as connection:
        runs = [dict(each) for each in connection.execute(newest).mappings()]
        values = select(score.run_id.label("run"), score.measure)
        values = values.add_columns(score.mean, score.ci_low, score.ci_high)
        values = values.where(score.run_id.in_([each["run"] for each in runs]))
        values = values.where(score.measure.in_(measures))
        scores = [dict(each) for each in connection.execute(values).mappings()]
    names = ["run", "measure", "mean", "ci_low", "ci_high"]
    frame = pd.DataFrame(runs[::-1]).merge(pd.DataFrame(scores, columns=names), on="run")
    frame["made_at"] = pd.to_datetime(frame["made_at"], utc=True, format="ISO8601")
    numbers = dict.fromkeys(("mean", "ci_low", "ci_high", "cost_usd"), "float64")
    return frame.astype(numbers)


class Standing(NamedTuple):
    """The drift of a configuration at a run: `begun` are the measures that got worse with this run,
    `ended` those that got better, `worse` all that are worse than before; measure -> change.
    """

    begun: dict[str, Change]
    ended: dict[str, Change]
    worse: dict[str, Change]


def standing(connection: Connection, run: _Row) -> Standing:
    """Return which watched measures of a run's epoch are worse at this run than they were.

    A measure is worse from the run that raises an alarm until one at which a change for the better
    makes up for at least half of the loss.
    """
    streams = _streams(connection, newest_runs(connection, run["client_id"], run["series"]))
    of_run = tables.score.c.run_id == run["id"], _WATCHED
    query = select(tables.score.c.measure).where(*of_run).order_by(tables.score.c.measure)
    found = Standing({}, {}, {})
    for measure in connection.execute(query).scalars().all():
        rows = _measured(connection, measure, run["series"], run["client_id"], run["epoch"])
        until = [row for row in rows if row["made_at"] <= run["made_at"]]
        for members, _ in _drifts(connection, until, streams):
            loss: Change | None = None
            for row in members:
                if (change := row["change"]) is None:
                    continue
                is_worse = _worse(measure, change.direction) == "worse"
                if row["id"] == run["id"]:
                    (found.begun if is_worse else found.ended)[measure] = change
                if is_worse:
                    loss = loss or change
                elif loss and _makes_up(change, loss):
                    loss = None
            if loss:
                found.worse[measure] = loss
    return found


def _makes_up(gain: Change, loss: Change) -> bool:
    """Return True if a change takes back at least half of an earlier one."""
    return (gain.after - loss.after) / (loss.before - loss.after) >= 0.5


def moved_text(change: Change) -> str:
    """Return the questions that moved most, each with its difference."""
    return ", ".join(f"{query_id} {size:+.2f}" for query_id, size in change.questions.items())


def newest_means(
    measures: Sequence[str], *, limit: int, client: str | None = None, database: str = ""
) -> list[tuple[Json, dict[str, float | None]]]:
    """Return the newest runs, the newest first, each with its means of these measures."""
    with connected(database) as connection:
        rows, score = _runs(connection, "", client, limit), tables.score.c
        query = select(score.run_id, score.measure, score.mean)
        query = query.where(score.run_id.in_([row["id"] for row in rows]))
        means: dict[str, dict[str, float | None]] = {row["id"]: {} for row in rows}
        for run_id, measure, mean in connection.execute(query.where(score.measure.in_(measures))):
            means[run_id][measure] = mean
        return [(row, means[row["id"]]) for row in rows]


def newest_runs(connection: Connection, client: str | None, series: str = "") -> list[Json]:
    """Return the newest run of each client, series and configuration, the newest first, with how
    many `runs` there are, `n` in its epoch, and when one of these was `recorded` last.
    """
    run = tables.run.c
    keys = [run[name] for name in (*_LINE, "epoch")]
    numbers = func.count().label("n"), func.max(run.recorded_at).label("recorded")
    grouping = select(*keys, *numbers, func.max(run.made_at).label("made_at")).group_by(*keys)
    epochs = _of(grouping, series, client).subquery().c
    newest = and_(*(run[name] == epochs[name] for name in (*_LINE, "epoch", "made_at")))
    query = select(*(run[name] for name in _NEWEST), epochs.n, epochs.recorded).where(newest)
    rows = connection.execute(query.order_by(run.made_at.desc(), run.id)).mappings().all()
    lines = grouped(rows, lambda row: tuple(row[name] for name in _LINE)).values()
    return [
        {**line[0], "runs": sum({row["epoch"]: row["n"] for row in line}.values())}
        for line in lines
    ]


def overview(
    client: str | None, measure: str = "", *, database: str = ""
) -> tuple[list[Json], int]:
    """Return a row per client, series and configuration, and how many there are: its newest run,
    the value and the state of its main measure.

    `measure` is the main one where a configuration has it, else its first of `MAIN`.
    """
    with connected(database) as connection:
        lines = newest_runs(connection, client)
        listed, score = lines[:_LINES], tables.score.c
        streams = _streams(connection, lines)
        columns = [score[name] for name in ("run_id", "measure", *_VALUE)]
        of_listed = score.run_id.in_([row["id"] for row in listed])
        query = select(*columns).where(of_listed, score.measure.in_({measure, *MAIN}))
        values: dict[str, Json] = {row["id"]: {} for row in listed}
        for value in connection.execute(query).mappings():
            values[value["run_id"]][value["measure"]] = dict(value)
    for row in listed:
        scores, line = values[row["id"]], (row["client_id"], row["series"])
        row["measure"] = next((name for name in (measure, *MAIN) if name in scores), "")
        row |= {"value": scores.get(row["measure"]), "pass_rate": scores.get("pass_rate")}
        runs = (row[name] for name in ("measure", "epoch", "n", "recorded"))
        row["state"] = _state(database, line, streams[line], *runs)
    return listed, len(lines)


@lru_cache(maxsize=10_000)
def _state(
    database: str, line: tuple[str, str], streams: int, measure: str, epoch: str, *runs: object
) -> State:
    """Return whether a measure moved in an epoch; computed again where `runs` of it, their number and
    when the last one was recorded, are others.
    """
    state, (client, series) = State("steady", "nothing scored"), line
    if measure:
        with connected(database) as connection:
            rows = _measured(connection, measure, series, client, epoch)
            for _, drift in _drifts(connection, rows, {line: streams}):
                moved = drift.changes and _worse(measure, drift.changes[-1].direction)
                state = State(moved or "steady", drift.text)
    return state


def run_of(run: str, database: str = "") -> tuple[_Row, pd.DataFrame, dict[str, str]]:
    """Return a run by the beginning of its id, by its name (the newest of it) or as "latest": its row,
    its scores per measure, those of `MAIN` first, its questions.

    Raises:
        ConfigError: no run, or several, have such an id.
        DataError: the database cannot be read.
    """
    column = tables.run.c
    newest = select(tables.run).order_by(column.made_at.desc())
    by_id = newest.where(column.id.startswith(run, autoescape=True)).limit(2)
    named = literal(run).in_(["latest", column.series, column.configuration])
    with connected(database) as connection:
        rows = connection.execute(by_id).mappings().all()
        rows = rows or connection.execute(newest.where(named).limit(1)).mappings().all()
        if len(rows) != 1 or not run:
            ids = [row["id"][:12] for row in _runs(connection, "", None, 50)]
            raise ConfigError(
                f"{len(rows)} runs begin with {run!r}" if rows else unknown("run", run, ids)
            )
        row = dict(rows[0])
        of_run = select(tables.score).where(tables.score.c.run_id == row["id"])
        scores = pd.read_sql(of_run, connection).drop(columns="run_id").sort_values("measure")
        rank = dict(zip(MAIN, range(len(MAIN)), strict=True))
        scores = scores.sort_values("measure", key=lambda names: names.map(rank), kind="stable")
        return row, scores, _cases(connection, [row])[row["case_set"]]


def scores_of(run: str, database: str = "") -> tuple[_Row, pd.DataFrame, dict[str, str]]:
    """Return a run as `run_of` does, with the scores as in `Result.scores`: query_id, measure,
    value.
    """
    row, scores, cases = run_of(run, database)
    stored = scores.dropna(subset=["case_values"]).set_index("measure")["case_values"]
    values = {measure: _values(data) for measure, data in stored.items()}
    wide = pd.DataFrame(values, index=pd.Index(sorted(cases), name="query_id"))
    return row, wide.melt(var_name="measure", ignore_index=False).reset_index(), cases


def compare_runs(before: str, after: str, *, database: str = "") -> pd.DataFrame:
    """Compare two runs by the questions that both have, as `ragbench.compare` does: the watched
    measures, or all where they have none of these.

    Raises:
        ConfigError: a run or a measure that is not there.
        ComparisonError: they have no question in common.
        DataError: the database cannot be read.
    """
    (_, then, texts), (_, now, others) = scores_of(before, database), scores_of(after, database)
    shared = [query_id for query_id, text in texts.items() if others.get(query_id) == text]
    if not shared:
        raise DataError(
            f"runs {before} and {after} have no question in common, so there is nothing to compare"
        )
    then, now = (frame[frame["query_id"].isin(shared)] for frame in (then, now))
    both = set(then["measure"]) & set(now["measure"])
    return compare(then, now, measures=[name for name in WATCHED if name in both] or None)


def _runs(connection: Connection, series: str, client: str | None, limit: int) -> list[Json]:
    run = tables.run.c
    query = _of(select(tables.run), series, client).order_by(run.made_at.desc(), run.id)
    return [dict(row) for row in connection.execute(query.limit(limit or None)).mappings()]


def _of(query: Any, series: str, client: str | None) -> Any:
    if series:
        query = query.where(tables.run.c.series == series)
    return query if client is None else query.where(tables.run.c.client_id == client)


def previous_run(connection: Connection, row: _Row) -> _Row | None:
    """Return the run before of the same configuration."""
    run = tables.run.c
    same = [run[name] == row[name] for name in _LINE]
    query = select(tables.run).where(*same, run.made_at < row["made_at"])
    return connection.execute(query.order_by(run.made_at.desc())).mappings().first()


def _measured(
    connection: Connection, measure: str, series: str, client: str | None, epoch: str = ""
) -> list[Json]:
    """Return the runs that have a measure, of an epoch or all, with its scores, in order of time."""
    declared = find_measure(measure)
    names = {measure, *([declared.name] if declared else [])}
    query = select(tables.run, tables.score).join(tables.score)
    query = _of(query.where(tables.score.c.measure.in_(names)), series, client)
    query = query.where(tables.run.c.epoch == epoch) if epoch else query
    ordered = query.order_by(tables.run.c.made_at, tables.run.c.id)
    rows = [dict(row) for row in connection.execute(ordered).mappings()]
    if not rows:
        recorded = _of(select(tables.run.c.series).distinct(), "", client)
        every_series = sorted(connection.execute(recorded).scalars())
        if series and series not in every_series:
            raise ConfigError(unknown("series", series, every_series))
        raise ConfigError(
            f"no run has the measure {measure!r}; `ragbench history show RUN` lists those of a run"
        )
    return rows


def _streams(connection: Connection, newest: Sequence[_Row]) -> Mapping[tuple[str, str], int]:
    """Count the measures that are watched together: in each series of a client, those of the newest
    run of each of its configurations.

    This is the family over which the rate of false alarms holds, so it is counted the same for every
    test: configurations without the measure that is shown count too, and another client's series of
    the same name does not. A configuration counts from its first run on, also when it is run no more.
    """
    keys = tables.run.c.client_id, tables.run.c.series
    query = select(*keys, func.count()).join(tables.score).where(_WATCHED).group_by(*keys)
    query = query.where(tables.run.c.id.in_([row["id"] for row in newest]))
    return Counter({(client, series): n for client, series, n in connection.execute(query)})


def _cases(connection: Connection, rows: Sequence[_Row]) -> dict[str, dict[str, str]]:
    ids = {row["case_set"] for row in rows}
    query = select(tables.case_set).where(tables.case_set.c.id.in_(ids))
    return {row.id: json.loads(row.cases) for row in connection.execute(query)}


def _values(data: bytes) -> Any:
    return np.frombuffer(data, dtype="<f8")


def _drifts(
    connection: Connection, rows: Sequence[Json], streams: Mapping[tuple[str, str], int]
) -> Iterator[tuple[list[Json], Drift]]:
    """Yield the rows of each epoch and its drift; each row gets its `state`, and the `change` where it
    raises an alarm.
    """
    cases = _cases(connection, rows)
    scored = (row for row in rows if row["case_values"] is not None)
    for members in grouped(scored, lambda row: row["epoch"]).values():
        first = members[0]
        frame = pd.DataFrame(
            np.array([_values(row["case_values"]) for row in members]),
            index=[row["made_at"][:16].replace("T", " ") for row in members],
            columns=sorted(cases[first["case_set"]]),
        )
        bounded = bounds_of(first["measure"]) == (0.0, 1.0)
        size = 1.0 if bounded else abs(float(first["mean"] or 1)) or 1.0
        n_streams = max(1, streams[first["client_id"], first["series"]])
        epoch = drift(frame, streams=n_streams, fall=0.05 * size)
        changes = iter(epoch.changes)
        for row, state in zip(members, epoch.path["state"], strict=True):
            row["state"] = state
            row["change"] = next(changes) if state in ("fall", "rise") else None
        yield members, epoch


def _worse(measure: str, direction: str) -> str:
    return "worse" if (direction == "fall") == higher_is_better(measure) else "better"


def _changed(before: _Row | None, row: _Row) -> str:
    """Return what differs from the run before; "" where nothing that is known does."""
    if before is None:
        return "first run"
    changed = [] if before["fingerprint"] == row["fingerprint"] else ["dataset"]
    for column in ("parameters", "versions"):
        then, now = (_flat(json.loads(run[column])) for run in (before, row))
        moved = [
            f"{name} {then.get(name, 'none')} -> {now.get(name, 'none')}"
            for name in sorted({**then, **now})
            if then.get(name) != now.get(name) and name != "cores"
        ]
        changed += moved[:3]
        changed += [f"{len(moved) - 3} more {column}"] if len(moved) > 3 else []
    if not changed and before["content"] == row["content"]:
        return "unchanged scores"
    return ", ".join(changed)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return flat
