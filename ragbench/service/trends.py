"""Runs out of the database, as frames: the newest, a measure over time, two side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import Connection, or_, select

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.registry import BRIEF, LEADERBOARD, bounds_of, find_measure, higher_is_better
from ragbench.service import tables
from ragbench.service.history_database import connected
from ragbench.statistics import Drift, compare, drift
from ragbench.statistics.drift import Change

WATCHED = tuple(dict.fromkeys((*BRIEF, *LEADERBOARD)))
"""The measures that are tested for drift, next to those that a run has a target for."""

_COLUMNS = (
    "made_at",
    "kind",
    "client_id",
    "series",
    "configuration",
    "dataset",
    "passed",
    "questions",
    "questions_passed",
    "cost_usd",
    "seconds",
    "location",
    "categories",
)
_LINE = ("client_id", "series", "configuration")
_TREND = (
    "made_at",
    "series",
    "configuration",
    "run",
    "mean",
    "ci_low",
    "ci_high",
    "n_scored",
    "n",
    "epoch",
)
_Row = Mapping[Any, Any]


def history(
    *,
    series: str = "",
    client: str | None = None,
    dataset: str = "",
    before: str = "",
    limit: int = 20,
    database: str = "",
) -> pd.DataFrame:
    """Return the newest runs, the newest first, and what changed since the run before of the same
    configuration.

    Columns: run (its id), made_at, kind, client_id, series, configuration, dataset, passed,
    questions, questions_passed, cost_usd, seconds, location, categories (name -> pass rate, number
    of questions), changed.

    Args:
        series: only these: the name of a sweep or an evaluation. client: only theirs; None = those
        of all. dataset: only those on this one. before: only those made before this time, ISO 8601
        in UTC, such as the made_at of the oldest one so far. limit: how many; 0 = all. database: a
        file or URL; "" = RAGBENCH_DATABASE, else a file in the user's data folder.

    >>> history(limit=5)  # doctest: +SKIP

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    with connected(database) as connection:
        rows = _runs(connection, series, client, limit, dataset, before)
        changes = [_changed(previous_run(connection, row), row) for row in rows]
    frame = pd.DataFrame(rows, columns=["id", *_COLUMNS]).rename(columns={"id": "run"})
    types = {"passed": "boolean", "questions_passed": "Int64", "cost_usd": "float64"}
    frame["categories"] = [json.loads(text) for text in frame["categories"]]
    return frame.assign(changed=pd.Series(changes, dtype="object")).astype(types)


def trend(
    measure: str,
    *,
    series: str = "",
    client: str | None = None,
    database: str = "",
    tested: bool = True,
) -> pd.DataFrame:
    """Return a measure over time, the oldest run first, with marks where something changed and
    where it drifted.

    Columns: made_at, series, configuration, run, mean, ci_low, ci_high, n_scored, n, epoch,
    changed, state, note, passed, cost_usd. Runs of one epoch are comparable: the same client,
    series, configuration, parameters and dataset. `state` and `note` are those of
    `ragbench.statistics.drift`, which tests every epoch: "fall" or "rise" at the run that raises an
    alarm; the last run of an epoch holds the conclusion. The first run on a new dataset is compared
    with the last on the old one by the questions that both have.

    Args:
        measure: in any case, such as "ndcg@10".
        series, client, database: as in `history`.
        tested: look for drift; without, `state` and `note` are empty.

    >>> trend("nDCG@10", series="nightly")  # doctest: +SKIP

    Raises:
        ConfigError: no run has this measure, or the database is not to be used.
        DataError: the database cannot be read.
    """
    with connected(database) as connection:
        rows = _measured(connection, measure, series, client)
        streams = _streams(connection, rows) if tested else {}
        cases = _cases(connection, rows) if tested else {}
    changed, notes, states = list[str](), list[str](), [""] * len(rows)
    last: dict[tuple[str, ...], _Row] = {}
    for row in rows:
        line = tuple(row[name] for name in _LINE)
        before = last.get(line)
        changed.append(_changed(before, row))
        notes.append(_joined(before, row, cases) if tested and before is not None else "")
        last[line] = row
    for places, epoch in _drifts(rows, streams, cases) if tested else ():
        runs = list(epoch.path.index)
        for index, state in zip(places, epoch.path["state"], strict=True):
            states[index] = state
        for change in epoch.changes:
            notes[places[runs.index(change.noticed)]] = (
                f"{_worse(measure, change.direction)}: {change.text}"
            )
        notes[places[-1]] = notes[places[-1]] or epoch.text
    frame = (
        pd.DataFrame(rows)
        .rename(columns={"id": "run"})
        .assign(changed=changed, state=states, note=notes)
    )
    frame["made_at"] = pd.to_datetime(frame["made_at"], utc=True, format="ISO8601")
    numbers = dict.fromkeys(("mean", "ci_low", "ci_high", "cost_usd"), "float64")
    columns = [*_TREND, "changed", "state", "note", "passed", "cost_usd"]
    return frame[columns].astype({"passed": "boolean", **numbers})


def drifts(
    measure: str, *, series: str = "", client: str | None = None, database: str = ""
) -> dict[str, Drift]:
    """Return the drift of each epoch, by the id of its newest run.

    Raises:
        ConfigError, DataError: as `trend`.
    """
    with connected(database) as connection:
        rows = _measured(connection, measure, series, client)
        epochs = _drifts(rows, _streams(connection, rows), _cases(connection, rows))
        return {rows[places[-1]]["id"]: drift for places, drift in epochs}


def alarms(connection: Connection, run: _Row) -> list[tuple[str, Change]]:
    """Return the watched measures that got worse with this run, each with its change."""
    streams = _streams(connection, _runs(connection, run["series"], run["client_id"], 0))
    cases, changes = _cases(connection, [run]), []
    for measure in watched(connection, run["id"]):
        rows = _measured(connection, measure, run["series"], run["client_id"])
        rows = [row for row in rows if row["epoch"] == run["epoch"]]
        for places, epoch in _drifts(rows, streams, cases):
            ids = [rows[index]["id"] for index in places]
            state = dict(zip(ids, epoch.path["state"], strict=True)).get(run["id"], "")
            if state in ("fall", "rise") and _worse(measure, state) == "worse":
                changes.append(
                    (measure, [change for change in epoch.changes if change.direction == state][-1])
                )
    return changes


def run_of(run: str, database: str = "") -> tuple[_Row, pd.DataFrame, dict[str, str]]:
    """Return a run by the beginning of its id: its row, its scores per measure, its questions.

    Raises:
        ConfigError: no run, or several, have such an id.
        DataError: the database cannot be read.
    """
    with connected(database) as connection:
        query = select(tables.run).where(tables.run.c.id.startswith(run, autoescape=True)).limit(2)
        rows = connection.execute(query).mappings().all()
        if len(rows) != 1 or not run:
            ids = [row["id"][:12] for row in _runs(connection, "", None, 50)]
            raise ConfigError(
                f"{len(rows)} runs begin with {run!r}" if rows else unknown("run", run, ids)
            )
        scores = pd.read_sql(
            select(tables.score).where(tables.score.c.run_id == rows[0]["id"]), connection
        )
        cases = _cases(connection, [dict(rows[0])])[rows[0]["case_set"]]
    return dict(rows[0]), scores.drop(columns="run_id"), cases


def scores_of(run: str, database: str = "") -> tuple[_Row, pd.DataFrame, dict[str, str]]:
    """Return a run as `run_of` does, with the scores as in `Result.scores`: query_id, measure,
    value.
    """
    row, scores, cases = run_of(run, database)
    stored = scores.dropna(subset=["case_values"])
    pairs = zip(stored["measure"], stored["case_values"], strict=True)
    values = {measure: _values(data) for measure, data in pairs}
    wide = pd.DataFrame(values, index=pd.Index(sorted(cases), name="query_id"))
    return row, wide.melt(var_name="measure", ignore_index=False).reset_index(), cases


def compare_runs(
    before: str, after: str, *, measures: Sequence[str] = (), database: str = ""
) -> pd.DataFrame:
    """Compare two runs by the questions that both have, as `ragbench.compare` does; default: the
    watched measures.

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
    chosen = list(measures) or [name for name in WATCHED if name in both]
    return compare(then, now, measures=chosen or None)


def _runs(
    connection: Connection,
    series: str,
    client: str | None,
    limit: int,
    dataset: str = "",
    before: str = "",
) -> list[_Row]:
    query = _of(select(tables.run), series, client).order_by(
        tables.run.c.made_at.desc(), tables.run.c.id
    )
    if dataset:
        query = query.where(tables.run.c.dataset == dataset)
    if before:
        query = query.where(tables.run.c.made_at < before)
    return [dict(row) for row in connection.execute(query.limit(limit or None)).mappings()]


def _of(query: Any, series: str, client: str | None) -> Any:
    if series:
        query = query.where(tables.run.c.series == series)
    return query if client is None else query.where(tables.run.c.client_id == client)


def newest_run(connection: Connection, series: str, client: str | None) -> _Row | None:
    """Return the newest run of a series and a client; "" and None = of any."""
    return next(iter(_runs(connection, series, client, 1)), None)


def previous_run(connection: Connection, row: _Row) -> _Row | None:
    """Return the run before of the same configuration."""
    run = tables.run.c
    same = [run[name] == row[name] for name in _LINE]
    query = (
        select(tables.run)
        .where(*same, run.made_at < row["made_at"])
        .order_by(run.made_at.desc())
        .limit(1)
    )
    return connection.execute(query).mappings().first()


def _measured(connection: Connection, measure: str, series: str, client: str | None) -> list[_Row]:
    """Return the runs that have a measure, with its scores, in order of time."""
    declared = find_measure(measure)
    names = {measure, *([declared.name] if declared else [])}
    query = select(tables.run, tables.score).join(
        tables.score, tables.score.c.run_id == tables.run.c.id
    )
    query = _of(query.where(tables.score.c.measure.in_(names)), series, client)
    ordered = query.order_by(tables.run.c.made_at, tables.run.c.id)
    rows: list[_Row] = [dict(row) for row in connection.execute(ordered).mappings()]
    if not rows:
        every = (
            connection.execute(_of(select(tables.run.c.series).distinct(), "", client))
            .scalars()
            .all()
        )
        if series and series not in every:
            raise ConfigError(unknown("series", series, sorted(every)))
        raise ConfigError(
            f"no run has the measure {measure!r}; `ragbench history show RUN` lists those of a run"
        )
    return rows


def _streams(connection: Connection, rows: Sequence[_Row]) -> dict[str, int]:
    """Series -> how many measures are watched in it: those of each of its configurations."""
    lines = {(row["series"], row["configuration"]): row["id"] for row in rows}
    found: dict[str, int] = {}
    for (series, _), run_id in lines.items():
        found[series] = found.get(series, 0) + len(watched(connection, run_id))
    return found


def watched(connection: Connection, run_id: str) -> list[str]:
    """The measures of a run in which drift is looked for: of `WATCHED`, and those with a target."""
    score = tables.score.c
    names = select(score.measure).where(or_(score.measure.in_(WATCHED), score.target.is_not(None)))
    return [
        *connection.execute(names.where(score.run_id == run_id).order_by(score.measure)).scalars()
    ]


def _cases(connection: Connection, rows: Sequence[_Row]) -> dict[str, dict[str, str]]:
    query = select(tables.case_set).where(
        tables.case_set.c.id.in_({row["case_set"] for row in rows})
    )
    return {row.id: json.loads(row.cases) for row in connection.execute(query)}


def _values(data: bytes) -> Any:
    return np.frombuffer(data, dtype="<f8")


def worst_questions(
    connection: Connection, score: _Row, run: _Row, count: int
) -> Iterator[tuple[str, str, float]]:
    """Yield the questions with the worst values of a measure: query_id, text, value."""
    if score["case_values"] is None:
        return
    cases = _cases(connection, [run])[run["case_set"]]
    values = pd.Series(_values(score["case_values"]), index=sorted(cases)).dropna()
    worst = values.sort_values(ascending=higher_is_better(score["measure"]), kind="stable").head(
        count
    )
    for query_id, value in worst.items():
        yield str(query_id), cases[str(query_id)], value


def _drifts(
    rows: Sequence[_Row], streams: Mapping[str, int], cases: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[list[int], Drift]]:
    """For each epoch the places of its rows and its drift."""
    epochs: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if row["case_values"] is not None:
            epochs.setdefault(row["epoch"], []).append(place)
    for places in epochs.values():
        first = rows[places[0]]
        values = np.array([_values(rows[place]["case_values"]) for place in places])
        dates = [rows[place]["made_at"][:16].replace("T", " ") for place in places]
        frame = pd.DataFrame(values, index=dates, columns=sorted(cases[first["case_set"]]))
        size = (
            0.05
            if bounds_of(first["measure"]) == (0.0, 1.0)
            else 0.05 * abs(float(first["mean"] or 1)) or 0.05
        )
        yield places, drift(frame, streams=max(1, streams.get(first["series"], 1)), fall=size)


def _worse(measure: str, direction: str) -> str:
    return "worse" if (direction == "fall") == higher_is_better(measure) else "better"


def _joined(before: _Row, row: _Row, cases: Mapping[str, Mapping[str, str]]) -> str:
    """Return the means of the shared questions where the dataset changed."""
    if before["fingerprint"] == row["fingerprint"] or None in (
        before["case_values"],
        row["case_values"],
    ):
        return ""
    then, now = (
        pd.Series(
            _values(run["case_values"]),
            pd.MultiIndex.from_tuples(sorted(cases[run["case_set"]].items())),
        )
        for run in (before, row)
    )
    shared = then.index.intersection(now.index)
    if shared.empty:
        return "another dataset without a shared question: not comparable with the runs before"
    means = f"{then[shared].mean():.3f} before, {now[shared].mean():.3f} here"
    return f"another dataset; on the {len(shared)} questions shared {means}"


def _changed(before: _Row | None, row: _Row) -> str:
    """Return what differs from the run before; "" where nothing that is known does."""
    if before is None:
        return "first run"
    changed = [] if before["fingerprint"] == row["fingerprint"] else ["dataset"]
    for column in ("parameters", "versions"):
        if before[column] == row[column]:
            continue
        then, now = (_flat(json.loads(run[column])) for run in (before, row))
        names = sorted(
            name for name in {**then, **now} if then.get(name) != now.get(name) and name != "cores"
        )
        changed += [
            f"{name} {then.get(name, 'none')} -> {now.get(name, 'none')}" for name in names[:3]
        ]
        changed += [f"{len(names) - 3} more {column}"] if len(names) > 3 else []
    if not changed and before["content"] == row["content"]:
        return "unchanged scores"
    return ", ".join(changed)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return flat
