"""Runs out of the database: the newest, one with its scores, two compared, what changed since the
run before; for pages, API and command.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sqlalchemy import Connection, Select, and_, func, literal, select

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.groups import grouped
from ragbench.service import tables
from ragbench.service.history_database import Json, connected
from ragbench.service.watched_measures import MAIN, WATCHED
from ragbench.statistics import compare

RunRow = Mapping[Any, Any]
"""A row of the table of runs: the name of a column -> its value."""
CONFIGURATION = ("client_id", "series", "configuration")
"""The columns that runs of one configuration share."""

_HISTORY = (
    "run made_at kind client_id series configuration dataset passed questions questions_passed "
    "questions_decided cost_usd seconds location categories changed"
).split()
_NEWEST = (
    "id client_id kind series configuration epoch case_set made_at passed questions "
    "questions_passed cost_usd"
).split()
_MAX_CHANGES = 3  # that are listed of the parameters, and of the versions


def history(
    *,
    series: str = "",
    client: str | None = None,
    limit: int = 20,
    database: str = "",
) -> pd.DataFrame:
    """Return the newest runs, the newest first, and what changed since the previous run of the same
    configuration.

    Columns: run (its id), made_at, kind, client_id, series, configuration, dataset, passed,
    questions, questions_passed, questions_decided (passed or failed), cost_usd, seconds, location,
    categories (name -> pass rate, number of questions), changed.

    Args:
        series: only the runs of this sweep or evaluation; "" = all.
        client: only the runs of this client; None = the runs of every client.
        limit: how many; 0 = all.
        database: a file or URL; "" = RAGBENCH_DATABASE, else a file in the user's data folder.

    >>> history(limit=5)  # doctest: +SKIP

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    with connected(database) as connection:
        rows = _newest_rows(connection, series, client, limit)
        n_decided = count_decided(connection, [row["id"] for row in rows])
        for row in rows:
            row["changed"] = changes_since(previous_run(connection, row), row)
            row["run"] = row["id"]
            row["categories"] = json.loads(row["categories"])
            row["questions_decided"] = n_decided.get(row["id"])
    counts = dict.fromkeys(("questions_passed", "questions_decided"), "Int64")  # column -> type
    types = {"passed": "boolean", **counts, "cost_usd": "float64"}
    return pd.DataFrame(rows, columns=_HISTORY).astype(types)


def count_decided(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """Return run id -> the number of its questions that passed or failed, for runs with a pass rate."""
    score = tables.score.c
    query = select(score.run_id, score.n_scored)
    query = query.where(score.run_id.in_(run_ids), score.measure == "pass_rate")
    return {row.run_id: row.n_scored for row in connection.execute(query)}


def values_over_time(
    row: RunRow, measures: Sequence[str], *, limit: int, database: str = ""
) -> pd.DataFrame:
    """Return the means of measures in the newest runs of a configuration, the oldest run first. They
    are not tested for drift, as `trend` does.

    Columns: run, made_at, epoch, cost_usd, measure, mean, ci_low, ci_high.

    Args:
        row: a run of the configuration.
        limit: how many runs.
    """
    run = tables.run.c
    score = tables.score.c
    newest = select(run.id.label("run"), run.made_at, run.epoch, run.cost_usd)
    newest = newest.where(*_same_configuration(row))
    newest = newest.order_by(run.made_at.desc(), run.id).limit(limit)
    with connected(database) as connection:
        runs = [dict(each) for each in connection.execute(newest).mappings()]
        run_ids = [each["run"] for each in runs]
        values = select(
            score.run_id.label("run"), score.measure, score.mean, score.ci_low, score.ci_high
        )
        values = values.where(score.run_id.in_(run_ids), score.measure.in_(measures))
        scores = [dict(each) for each in connection.execute(values).mappings()]
    names = ["run", "measure", "mean", "ci_low", "ci_high"]
    oldest_first = pd.DataFrame(runs[::-1])
    frame = oldest_first.merge(pd.DataFrame(scores, columns=names), on="run")
    frame["made_at"] = pd.to_datetime(frame["made_at"], utc=True, format="ISO8601")
    numbers = dict.fromkeys(("mean", "ci_low", "ci_high", "cost_usd"), "float64")  # column -> type
    return frame.astype(numbers)


def newest_means(
    measures: Sequence[str], *, limit: int, client: str | None = None, database: str = ""
) -> list[tuple[Json, dict[str, float | None]]]:
    """Return pairs (run, measure -> mean) for the newest runs, the newest first.

    A measure that a run does not have is left out; a mean is None if no question is scored.
    """
    score = tables.score.c
    with connected(database) as connection:
        rows = _newest_rows(connection, "", client, limit)
        means: dict[str, dict[str, float | None]] = {row["id"]: {} for row in rows}
        query = select(score.run_id, score.measure, score.mean)
        query = query.where(score.run_id.in_(list(means)), score.measure.in_(measures))
        for run_id, measure, mean in connection.execute(query):
            means[run_id][measure] = mean
    return [(row, means[row["id"]]) for row in rows]


def newest_decided(
    *, limit: int, client: str | None = None, database: str = ""
) -> list[tuple[Json, int]]:
    """Return the newest runs, the newest first, each with the number of its questions that passed or
    failed.
    """
    # one query, where `_newest_rows` and `count_decided` are two: clients ask for this list often
    run = tables.run.c
    score = tables.score.c
    is_pass_rate = and_(score.run_id == run.id, score.measure == "pass_rate")
    query = select(tables.run, score.n_scored.label("decided"))
    query = query.outerjoin(tables.score, is_pass_rate)
    query = of_owner(query, "", client).order_by(run.made_at.desc(), run.id).limit(limit)
    with connected(database) as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
    return [(row, row.pop("decided") or 0) for row in rows]


def newest_runs(connection: Connection, client: str | None, series: str = "") -> list[Json]:
    """Return the newest run of each configuration, the newest first.

    Each row also has `runs` (the number of runs of the configuration), and two columns about the epoch
    of its newest run: `n` (its number of runs) and `recorded` (when a run of it was recorded last). An
    epoch consists of the runs of a configuration on one dataset.

    Args:
        client, series: as in `history`.
    """
    rows = connection.execute(_newest_of_epochs(client, series)).mappings().all()
    newest = []
    for members in grouped(rows, configuration_of).values():
        # a dictionary, because two runs of the same time give two rows for one epoch
        runs_in_epoch = {row["epoch"]: row["n"] for row in members}
        newest.append({**members[0], "runs": sum(runs_in_epoch.values())})
    return newest


@lru_cache(maxsize=100)  # building the query takes a third of the time that SQLite needs to run it
def _newest_of_epochs(client: str | None, series: str) -> Select[Any]:
    """Return the query for the newest run of each epoch of each configuration, the newest run first,
    with the columns of `_NEWEST` and the epoch's `n` and `recorded`.

    Two runs of the same time give two rows for one epoch. The arguments are as in `history`.
    """
    run = tables.run.c
    epoch_columns = [run[name] for name in (*CONFIGURATION, "epoch")]
    epochs = select(
        *epoch_columns,
        func.count().label("n"),
        func.max(run.recorded_at).label("recorded"),
    ).group_by(*epoch_columns)
    epoch = of_owner(epochs, series, client).subquery().c
    # The index holds the newest time of each epoch; a maximum of all rows takes as long as the rest.
    other = tables.run.alias().c
    of_epoch = [other[name] == epoch[name] for name in (*CONFIGURATION, "epoch")]
    newest_time = select(func.max(other.made_at)).where(*of_epoch).scalar_subquery()
    is_of_epoch = [run[name] == epoch[name] for name in (*CONFIGURATION, "epoch")]
    is_newest = and_(*is_of_epoch, run.made_at == newest_time)
    query = select(*(run[name] for name in _NEWEST), epoch.n, epoch.recorded).where(is_newest)
    return query.order_by(run.made_at.desc(), run.id)


def configuration_of(row: RunRow) -> tuple[str, ...]:
    """Return the client, the series and the configuration of a run."""
    return tuple(row[name] for name in CONFIGURATION)


def run_of(run: str, database: str = "") -> tuple[RunRow, pd.DataFrame, dict[str, str]]:
    """Return a run: its row, its scores per measure, the measures of `MAIN` first, and its
    questions (id -> text).

    Args:
        run: the beginning of its id; the name of a series or a configuration, for its newest run; or
            "latest".

    Raises:
        ConfigError: no run, or several, are meant.
        DataError: the database cannot be read.
    """
    with connected(database) as connection:
        row = _named_run(connection, run)
        of_run = select(tables.score).where(tables.score.c.run_id == row["id"])
        scores = pd.read_sql(of_run, connection).drop(columns="run_id").sort_values("measure")
        questions = questions_of(connection, [row])[row["case_set"]]
    return row, main_first(scores), questions


def main_first(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of a run, a row per measure, with the measures of `MAIN` first; the others keep their
    order.
    """
    rank = {measure: i for i, measure in enumerate(MAIN)}
    return scores.sort_values("measure", key=lambda names: names.map(rank), kind="stable")


def _named_run(connection: Connection, text: str) -> dict[str, Any]:
    """Return the row of the run whose id begins with a text. If there is none, return the newest run whose
    series or configuration is called so, or of all runs for "latest".

    Raises:
        ConfigError: there is no such run, several ids begin with the text, or it is "".
    """
    column = tables.run.c
    newest_first = select(tables.run).order_by(column.made_at.desc())
    by_id = newest_first.where(column.id.startswith(text, autoescape=True)).limit(2)
    is_named = literal(text).in_(["latest", column.series, column.configuration])
    by_name = newest_first.where(is_named).limit(1)
    rows = connection.execute(by_id).mappings().all()
    if not rows:
        rows = connection.execute(by_name).mappings().all()
    if len(rows) > 1 or (rows and not text):  # every id begins with ""
        raise ConfigError(f"{len(rows)} runs begin with {text!r}")
    if not rows:
        known_ids = [row["id"][:12] for row in _newest_rows(connection, "", None, 50)]
        if not known_ids:
            raise ConfigError(f"unknown run {text!r}: the history holds no runs")
        raise ConfigError(unknown("run", text, known_ids))
    return dict(rows[0])


def scores_of(run: str, database: str = "") -> tuple[RunRow, pd.DataFrame, dict[str, str]]:
    """Return a run: its row, its scores per question as in `Result.scores` (query_id, measure, value),
    and its questions (id -> text).

    Args:
        run: as in `run_of`, which also states the errors.
    """
    row, scores, questions = run_of(run, database)
    per_question = scores.dropna(subset=["case_values"])  # without measures of a whole run
    pairs = zip(per_question["measure"], per_question["case_values"], strict=True)
    columns = {measure: stored_values(data) for measure, data in pairs}
    query_ids = pd.Index(sorted(questions), name="query_id")  # the order of the stored values
    wide = pd.DataFrame(columns, index=query_ids)
    long = wide.melt(var_name="measure", ignore_index=False).reset_index()
    return row, long, questions


def compare_runs(before: str, after: str, *, database: str = "") -> pd.DataFrame:
    """Compare two runs on the questions that both have, as `ragbench.compare` does.

    They are compared by the watched measures, or by all measures if they have none of these.

    Raises:
        ConfigError: there is no such run, or a measure that `compare` refuses.
        DataError: the runs have no question in common, or the database cannot be read.
    """
    _, scores_before, questions_before = scores_of(before, database)
    _, scores_after, questions_after = scores_of(after, database)
    shared = []  # ids of questions that have the same text in both runs
    for query_id, text in questions_before.items():
        if questions_after.get(query_id) == text:
            shared.append(query_id)
    if not shared:
        raise DataError(
            f"runs {before} and {after} have no question in common, so there is nothing to compare"
        )
    scores_before = scores_before[scores_before["query_id"].isin(shared)]
    scores_after = scores_after[scores_after["query_id"].isin(shared)]
    common = set(scores_before["measure"]) & set(scores_after["measure"])
    watched = [measure for measure in WATCHED if measure in common]
    return compare(scores_before, scores_after, measures=watched or None)


def _newest_rows(
    connection: Connection, series: str, client: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return the rows of the newest runs, the newest first; all for the limit 0."""
    run = tables.run.c
    query = of_owner(select(tables.run), series, client).order_by(run.made_at.desc(), run.id)
    return [dict(row) for row in connection.execute(query.limit(limit or None)).mappings()]


def of_owner(query: Select[Any], series: str, client: str | None) -> Select[Any]:
    """Return a query of runs that keeps the runs of a series ("" = all) and of a client (None = every
    client).
    """
    if series:
        query = query.where(tables.run.c.series == series)
    if client is not None:
        query = query.where(tables.run.c.client_id == client)
    return query


def _same_configuration(row: RunRow) -> list[Any]:
    """Return the conditions for a run of the same configuration."""
    return [tables.run.c[name] == row[name] for name in CONFIGURATION]


def previous_run(connection: Connection, row: RunRow) -> RunRow | None:
    """Return the previous run of the same configuration; None for its first run."""
    run = tables.run.c
    query = select(tables.run).where(*_same_configuration(row), run.made_at < row["made_at"])
    return connection.execute(query.order_by(run.made_at.desc())).mappings().first()


def questions_of(connection: Connection, rows: Sequence[RunRow]) -> dict[str, dict[str, str]]:
    """Return the questions of runs: id of a set of cases -> query id -> text."""
    ids = {row["case_set"] for row in rows}
    query = select(tables.case_set).where(tables.case_set.c.id.in_(ids))
    return {row.id: json.loads(row.cases) for row in connection.execute(query)}


def stored_values(data: bytes) -> npt.NDArray[np.float64]:
    """Return the values per question that a row of scores holds, in the order of the sorted query ids;
    NaN is unscored.
    """
    return np.frombuffer(data, dtype="<f8")


def changes_since(before: RunRow | None, row: RunRow) -> str:
    """Return what differs in a run from an earlier one, in words: "dataset, k 5 -> 10".

    It is "dataset", and parameters and versions with their old and new value; "" if only scores
    differ; "unchanged scores" if not even these do; "first run" without an earlier run.
    """
    if before is None:
        return "first run"
    changed = []
    if before["fingerprint"] != row["fingerprint"]:
        changed.append("dataset")
    for column in ("parameters", "versions"):
        changes = _changes_of_settings(json.loads(before[column]), json.loads(row[column]))
        changed += changes[:_MAX_CHANGES]
        if len(changes) > _MAX_CHANGES:
            changed.append(f"{len(changes) - _MAX_CHANGES} more {column}")
    if not changed and before["content"] == row["content"]:
        return "unchanged scores"
    return ", ".join(changed)


def _changes_of_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the settings that differ, as "name old -> new", by name; the number of cores is not a
    setting.
    """
    values_before = _without_nesting(before)
    values_after = _without_nesting(after)
    changes = []
    for name in sorted({**values_before, **values_after}):
        if name != "cores" and values_before.get(name) != values_after.get(name):
            old = values_before.get(name, "none")
            new = values_after.get(name, "none")
            changes.append(f"{name} {old} -> {new}")
    return changes


def _without_nesting(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings as one dict; a later value replaces an earlier one of the same name.

    >>> _without_nesting({"k": 5, "libraries": {"numpy": "2.3"}})
    {'k': 5, 'numpy': '2.3'}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(_without_nesting(value))
        else:
            flat[name] = value
    return flat
