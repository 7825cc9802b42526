"""Runs out of the database, as frames: the newest, one measure over time, two side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy import Connection, and_, or_, select

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.registry import BRIEF, LEADERBOARD, bounds_of, find_measure, higher_is_better
from ragbench.service import tables
from ragbench.service.history_database import connected
from ragbench.statistics import Drift, compare, drift

WATCHED = tuple(dict.fromkeys((*BRIEF, *LEADERBOARD)))
"""The measures in which drift is looked for, next to those that a run has a target for."""

_SHOWN = (
    "made_at", "kind", "client_id", "series", "configuration", "dataset", "passed", "questions", "questions_passed",
    "cost_usd", "seconds", "location",
)  # fmt: skip
_Row = Mapping[str, Any]


def history(
    *, series: str = "", client: str | None = None, dataset: str = "", before: str = "", limit: int = 20,
    database: str = "",
) -> pd.DataFrame:  # fmt: skip
    """The newest runs, the newest first, and what changed since the run before of the same configuration.

    Columns: run (its id), made_at, kind, client_id, series, configuration, dataset, passed, questions,
    questions_passed, cost_usd, seconds, location, changed.

    Args:
        series: only these: the name of a sweep or an evaluation.
        client: only theirs; None = those of all.
        dataset: only those on this one.
        before: only those made before this time, ISO 8601 in UTC, such as the made_at of the oldest one so far.
        limit: how many; 0 = all.
        database: a file or URL; "" = RAGBENCH_DATABASE, else a file in the user's data folder.

    >>> history(limit=5)  # doctest: +SKIP

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    with connected(database) as connection:
        rows = _runs(connection, series, client, limit, dataset, before)
        changes = [_changed(_before(connection, row), row) for row in rows]
    records = [{"run": row["id"], **{name: row[name] for name in _SHOWN}} for row in rows]
    frame = pd.DataFrame(records, columns=["run", *_SHOWN])
    return frame.assign(changed=pd.Series(changes, dtype="object")).astype(
        {"passed": "boolean", "questions_passed": "Int64", "cost_usd": "float64"}
    )


def trend(
    measure: str, *, series: str = "", client: str | None = None, database: str = "", tested: bool = True
) -> pd.DataFrame:
    """A measure over time: a row per run, the oldest first, with marks where something changed and where it drifted.

    Columns: made_at, series, configuration, run, mean, ci_low, ci_high, n_scored, n, epoch, changed, state, note,
    passed, cost_usd. Runs of one epoch are comparable: the same client, series, configuration, parameters and dataset.
    `state` and `note` are those of `ragbench.statistics.drift`, which tests every epoch: "fall" or "rise" at the run
    that raises an alarm; the last run of an epoch holds the conclusion. The first run on a new dataset is compared with
    the last on the old one by the questions that both have.

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
    marks: list[tuple[str, str, str]] = []
    last: dict[tuple[str, str, str], _Row] = {}
    for row in rows:
        line = (row["client_id"], row["series"], row["configuration"])
        before = last.get(line)
        note = _joined(before, row, cases) if tested and before is not None else ""
        marks.append((_changed(before, row), "", note))
        last[line] = row
    if tested:
        for places, found in _drifts(rows, streams, cases):
            for place, state in zip(places, found.path["state"], strict=True):
                marks[place] = (marks[place][0], state, marks[place][2])
            for change in found.changes:
                at = places[list(found.path.index).index(change.noticed)]
                marks[at] = (*marks[at][:2], f"{_worse(measure, change.direction)}: {change.text}")
            if not marks[places[-1]][2]:
                marks[places[-1]] = (*marks[places[-1]][:2], found.text)
    columns: dict[str, Any] = {
        "made_at": pd.to_datetime([row["made_at"] for row in rows], utc=True, format="ISO8601"),
        **{name: [row[name] for row in rows] for name in ("series", "configuration")},
        "run": [row["id"] for row in rows],
        **{name: np.array([row[name] for row in rows], dtype=float) for name in ("mean", "ci_low", "ci_high")},
        **{name: [row[name] for row in rows] for name in ("n_scored", "n", "epoch")},
        **dict(zip(("changed", "state", "note"), zip(*marks, strict=True), strict=True)),
        "passed": pd.array([row["passed"] for row in rows], dtype="boolean"),
        "cost_usd": np.array([row["cost_usd"] for row in rows], dtype=float),
    }
    return pd.DataFrame(columns)


def categories(*, series: str = "", client: str | None = None, database: str = "") -> pd.DataFrame:
    """The fraction of passed questions per category over time: made_at, series, configuration, category, pass_rate, n.

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    with connected(database) as connection:
        rows = _runs(connection, series, client, 0)
    records = [
        (row["made_at"], row["series"], row["configuration"], category, *values)
        for row in reversed(rows)
        for category, values in json.loads(row["categories"]).items()
    ]
    columns = ["made_at", "series", "configuration", "category", "pass_rate", "n"]
    frame = pd.DataFrame(records, columns=columns).astype({"pass_rate": "float64"})
    return frame.assign(made_at=pd.to_datetime(frame["made_at"], utc=True))


def drifts(measure: str, *, series: str = "", client: str | None = None, database: str = "") -> dict[str, Drift]:
    """What drift was found, by the id of the newest run of each epoch.

    Raises:
        ConfigError, DataError: as `trend`.
    """
    with connected(database) as connection:
        rows = _measured(connection, measure, series, client)
        found = _drifts(rows, _streams(connection, rows), _cases(connection, rows))
    return {rows[places[-1]]["id"]: one for places, one in found}


def run_of(run: str, database: str = "") -> tuple[_Row, pd.DataFrame, dict[str, str]]:
    """A run by the beginning of its id: its row, its scores per measure, its questions.

    Raises:
        ConfigError: no run, or several, have such an id.
        DataError: the database cannot be read.
    """
    with connected(database) as connection:
        wanted = select(tables.run).where(tables.run.c.id.startswith(run, autoescape=True)).limit(2)
        found = connection.execute(wanted).mappings().all()
        if len(found) != 1 or not run:
            known = [row["id"][:12] for row in _runs(connection, "", None, 50)]
            raise ConfigError(f"{len(found)} runs begin with {run!r}" if found else unknown("run", run, known))
        scored = select(tables.score).where(tables.score.c.run_id == found[0]["id"])
        scores = pd.DataFrame(connection.execute(scored).mappings().all())
        cases = _cases(connection, [dict(found[0])])[found[0]["case_set"]]
    return dict(found[0]), scores.drop(columns="run_id", errors="ignore"), cases


def scores_of(run: str, database: str = "") -> tuple[_Row, pd.DataFrame, dict[str, str]]:
    """As `run_of`, with the scores as in `Result.scores`: query_id, measure, value."""
    row, scores, cases = run_of(run, database)
    stored = zip(scores["measure"], scores["case_values"], strict=True)
    parts = {measure: _values(data) for measure, data in stored if data is not None}
    wide = pd.DataFrame(parts, index=pd.Index(sorted(cases), name="query_id"))
    return row, wide.melt(var_name="measure", ignore_index=False).reset_index(), cases


def compare_runs(before: str, after: str, *, measures: Sequence[str] = (), database: str = "") -> pd.DataFrame:
    """Two runs by the questions that both have: the frame of `ragbench.compare`, for these or the watched measures.

    Raises:
        ConfigError: a run or a measure that is not there.
        ComparisonError: they have no question in common.
        DataError: the database cannot be read.
    """
    (_, one, texts), (_, two, others) = scores_of(before, database), scores_of(after, database)
    shared = [query_id for query_id, text in texts.items() if others.get(query_id) == text]
    if not shared:
        raise DataError(f"runs {before} and {after} have no question in common, so there is nothing to compare")
    one, two = (frame[frame["query_id"].isin(shared)] for frame in (one, two))
    chosen = list(measures) or [name for name in WATCHED if name in set(one["measure"]) & set(two["measure"])]
    return compare(one, two, measures=chosen or None)


def _runs(
    connection: Connection, series: str, client: str | None, limit: int, dataset: str = "", before: str = ""
) -> list[_Row]:
    wanted = _of(select(tables.run), series, client)
    wanted = wanted.where(tables.run.c.dataset == dataset) if dataset else wanted
    wanted = wanted.where(tables.run.c.made_at < before) if before else wanted
    wanted = wanted.order_by(tables.run.c.made_at.desc(), tables.run.c.id)
    return [dict(row) for row in connection.execute(wanted.limit(limit) if limit else wanted).mappings()]


def _of(wanted: Any, series: str, client: str | None) -> Any:
    if series:
        wanted = wanted.where(tables.run.c.series == series)
    return wanted if client is None else wanted.where(tables.run.c.client_id == client)


def _before(connection: Connection, row: _Row) -> _Row | None:
    """The run before of the same configuration."""
    run = tables.run.c
    same = and_(*(run[name] == row[name] for name in ("client_id", "series", "configuration")))
    wanted = select(tables.run).where(same, run.made_at < row["made_at"]).order_by(run.made_at.desc()).limit(1)
    found = connection.execute(wanted).mappings().first()
    return None if found is None else dict(found)


def _measured(connection: Connection, measure: str, series: str, client: str | None) -> list[_Row]:
    """The runs that have a measure, with its scores, in order of time."""
    known = find_measure(measure)
    names = {measure, *([known.name] if known else [])}
    wanted = select(tables.run, tables.score).join(tables.score, tables.score.c.run_id == tables.run.c.id)
    wanted = _of(wanted.where(tables.score.c.measure.in_(names)), series, client)
    ordered = wanted.order_by(tables.run.c.made_at, tables.run.c.id)
    rows: list[_Row] = [dict(row) for row in connection.execute(ordered).mappings()]
    if not rows:
        every = connection.execute(_of(select(tables.run.c.series).distinct(), "", client)).scalars().all()
        if series and series not in every:
            raise ConfigError(unknown("series", series, sorted(every)))
        raise ConfigError(f"no run has the measure {measure!r}; `ragbench history show RUN` lists those of a run")
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
    return [*connection.execute(names.where(score.run_id == run_id).order_by(score.measure)).scalars()]


def _cases(connection: Connection, rows: Sequence[_Row]) -> dict[str, dict[str, str]]:
    wanted = select(tables.case_set).where(tables.case_set.c.id.in_({row["case_set"] for row in rows}))
    return {row.id: json.loads(row.cases) for row in connection.execute(wanted)}


def _values(data: bytes) -> Any:
    return np.frombuffer(data, dtype="<f8")


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
        size = 0.05 if bounds_of(first["measure"]) == (0.0, 1.0) else 0.05 * abs(float(first["mean"] or 1)) or 0.05
        yield places, drift(frame, streams=max(1, streams.get(first["series"], 1)), fall=size)


def _worse(measure: str, direction: str) -> str:
    return "worse" if (direction == "fall") == higher_is_better(measure) else "better"


def _joined(before: _Row, row: _Row, cases: Mapping[str, Mapping[str, str]]) -> str:
    """What the shared questions tell where the dataset changed."""
    if before["fingerprint"] == row["fingerprint"] or None in (before["case_values"], row["case_values"]):
        return ""
    then, now = cases[before["case_set"]], cases[row["case_set"]]
    shared = [query_id for query_id in then if now.get(query_id) == then[query_id]]
    if not shared:
        return "another dataset without a shared question: not comparable with the runs before"
    sides = []
    for one, known in ((before, then), (row, now)):
        values = dict(zip(sorted(known), _values(one["case_values"]), strict=True))
        sides.append(float(np.nanmean([values[query_id] for query_id in shared])))
    return f"another dataset; on the {len(shared)} questions shared {sides[0]:.3f} before, {sides[1]:.3f} here"


def _changed(before: _Row | None, row: _Row) -> str:
    """What differs from the run before; "" where nothing that is known does."""
    if before is None:
        return "first run"
    changed = []
    if before["fingerprint"] != row["fingerprint"]:
        changed.append("dataset")
    for column in ("parameters", "versions"):
        if before[column] == row[column]:
            continue
        then, now = (_flat(json.loads(one[column])) for one in (before, row))
        different = sorted(name for name in {**then, **now} if then.get(name) != now.get(name) and name != "cores")
        changed += [f"{name} {then.get(name, 'none')} -> {now.get(name, 'none')}" for name in different[:3]]
        changed += [f"{len(different) - 3} more {column}"] if len(different) > 3 else []
    if not changed and before["content"] == row["content"]:
        return "unchanged scores"
    return ", ".join(changed)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return flat
