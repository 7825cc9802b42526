"""Measures over time: their values in every run, which runs are compared, and whether they drifted;
the test is in `statistics/drift`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from sqlalchemy import Connection, func, select

from ragbench.errors import ConfigError, unknown
from ragbench.groups import grouped
from ragbench.registry import bounds_of, find_measure, higher_is_better
from ragbench.service import tables
from ragbench.service.history_database import Json, connected
from ragbench.service.recorded_runs import (
    RunRow,
    changes_since,
    configuration_of,
    newest_runs,
    of_owner,
    questions_of,
    stored_values,
)
from ragbench.service.watched_measures import IS_WATCHED, MAIN
from ragbench.statistics import Drift, drift
from ragbench.statistics.drift import Change

_MAX_LINES = 200  # of the first page
_TREND = (
    "made_at series configuration run mean ci_low ci_high n_scored n epoch changed state note "
    "moved passed cost_usd"
).split()
_VALUE = ("mean", "ci_low", "ci_high", "n_scored", "n")
# Drift looks for changes of this fraction of a measure's range.
_FRACTION_OF_RANGE = 0.05
_Series = tuple[str, str]  # a client and the name of a series


class State(NamedTuple):
    """Whether a measure moved: worse, better or steady, and the evidence."""

    kind: str
    text: str


def trend(
    measure: str, *, series: str = "", client: str | None = None, database: str = ""
) -> pd.DataFrame:
    """Return a measure over time, the oldest run first, with marks at changes and drift.

    Columns: made_at, series, configuration, run, mean, ci_low, ci_high, n_scored, n, epoch,
    changed, state, note, moved, passed, cost_usd. Runs of one epoch are comparable: the same client,
    series, configuration, parameters and dataset. `changed` states what differs from the previous
    run of the configuration. `ragbench.statistics.drift` tests every epoch: `state` is "fall" or "rise"
    at the run that raises an alarm, `note` describes the change and `moved` lists the questions that
    moved most. Without an alarm both are "", but the last run of an epoch has the conclusion as its
    note. Other states are "first", "unchanged" (every value as in the run before), "nothing shown", and
    "" for a run without values per question.

    Args:
        measure: in any case, such as "ndcg@10".
        series, client, database: as in `history`.

    >>> trend("nDCG@10", series="nightly")  # doctest: +SKIP

    Raises:
        ConfigError: no run has this measure, or the database cannot be used.
        DataError: the database cannot be read.
    """
    with connected(database) as connection:
        rows, epochs = _drift_of_measure(connection, measure, series, client)
    _add_changed_note_and_moved(measure, rows)
    for members, drift_of_epoch in epochs:
        last = members[-1]
        if not last["note"]:  # unless the last run itself raised an alarm
            last["note"] = drift_of_epoch.text
    frame = pd.DataFrame(rows)[_TREND]
    frame["made_at"] = pd.to_datetime(frame["made_at"], utc=True, format="ISO8601")
    numbers = dict.fromkeys(("mean", "ci_low", "ci_high", "cost_usd"), "float64")  # column -> type
    return frame.astype({"passed": "boolean", **numbers})


def _add_changed_note_and_moved(measure: str, rows: Sequence[Json]) -> None:
    """Add the columns `run` (its id), `changed`, `note` and `moved` to each run, in place.

    `changed` is what differs from the previous run of its configuration. `note` is the alarm for drift
    that the run raises, and `moved` the questions that moved most; both are "" without an alarm.

    Args:
        rows: the runs in order of time, each with its `change`: the fall or rise that raises an alarm
            at this run, or None.
    """
    previous: dict[tuple[str, ...], RunRow] = {}  # configuration -> its last run so far
    for row in rows:
        configuration = configuration_of(row)
        row["run"] = row["id"]
        row["changed"] = changes_since(previous.get(configuration), row)
        change = row["change"]
        row["note"] = ""
        row["moved"] = ""
        if change is not None:
            row["note"] = f"{_direction_in_quality(measure, change)}: {change.text}"
            row["moved"] = moved_text(change)
        previous[configuration] = row


def drifts(
    measure: str, *, series: str = "", client: str | None = None, database: str = ""
) -> dict[str, Drift]:
    """Return the drift of a measure in each epoch: id of the newest run of the epoch -> drift. An epoch
    consists of the runs that can be compared: of one configuration on one dataset.

    Raises:
        ConfigError, DataError: as `trend`.
    """
    with connected(database) as connection:
        _, epochs = _drift_of_measure(connection, measure, series, client)
    return {members[-1]["id"]: drift_of_epoch for members, drift_of_epoch in epochs}


def _drift_of_measure(
    connection: Connection, measure: str, series: str, client: str | None
) -> tuple[list[Json], list[tuple[list[Json], Drift]]]:
    """Return the runs that have a measure, in order of time, and for each epoch its runs and the result
    of the test for drift in it.

    An epoch consists of the runs of one configuration on one dataset, which can be compared; runs
    without values per question are in no epoch. Each run also has its `state` and `change` (see
    `_drift_of_epochs`).

    Args:
        series, client: as in `history`.
    """
    rows = _rows_with_measure(connection, measure, series, client)
    # (client, series) -> the number of tests for drift: the more, the stricter is each
    n_tested = _count_tested_measures(connection, newest_runs(connection, client, series))
    return rows, list(_drift_of_epochs(connection, rows, n_tested))


class Standing(NamedTuple):
    """The drift of a configuration at a run, as measure -> change.

    Attributes:
        begun: the measures that got worse with this run.
        ended: the measures that got better with this run, also those that are still worse than before.
        worse: all measures that are worse at this run than in earlier ones.
    """

    begun: dict[str, Change]
    ended: dict[str, Change]
    worse: dict[str, Change]


def standing(connection: Connection, run: RunRow) -> Standing:
    """Return which watched measures are worse at a run than they were in earlier runs of its epoch.

    An epoch consists of the runs of one configuration on one dataset. A measure is worse from the run at
    which the test for drift notices a loss, until the run at which it notices a gain of at least half
    of that loss.
    """
    client, series = run["client_id"], run["series"]
    # drift is tested more strictly, the more measures of the series are tested
    n_tested = _count_tested_measures(connection, newest_runs(connection, client, series))
    score = tables.score.c
    # the measures of this run that are tested for drift
    watched = select(score.measure).where(score.run_id == run["id"], IS_WATCHED)
    measures = connection.execute(watched.order_by(score.measure)).scalars().all()
    result = Standing(begun={}, ended={}, worse={})
    for measure in measures:
        rows = _rows_with_measure(connection, measure, series, client, run["epoch"])
        until_run = [row for row in rows if row["made_at"] <= run["made_at"]]
        # only the epoch of the run is left; each run in it gets its `change`
        for members, _ in _drift_of_epochs(connection, until_run, n_tested):
            _add_to_standing(result, measure, members, run["id"])
    return result


def _add_to_standing(result: Standing, measure: str, rows: Sequence[Json], run_id: str) -> None:
    """Add a measure to the standing of a run, in place.

    A loss that is noticed at this very run is added to `begun`. Any gain that is noticed at it is added
    to `ended`, however large it is. An earlier or present loss of which no later gain took back half is
    added to `worse`.

    Args:
        rows: the runs of an epoch up to this run, oldest first, each with the `change` that was noticed
            at it, or None.
    """
    loss: Change | None = None  # the first loss that no gain has taken back so far
    for row in rows:
        change = row["change"]
        if change is None:
            continue
        is_loss = _direction_in_quality(measure, change) == "worse"
        if is_loss:
            loss = loss or change
        elif loss is not None and _takes_back_half(change, loss):
            loss = None
        if row["id"] == run_id:
            noticed_now = result.begun if is_loss else result.ended
            noticed_now[measure] = change
    if loss is not None:
        result.worse[measure] = loss


def _takes_back_half(gain: Change, loss: Change) -> bool:
    """Return True if a gain takes back at least half of an earlier loss."""
    # `before` and `after` are the means before and after a change
    recovered = gain.after - loss.after
    lost = loss.before - loss.after
    return recovered / lost >= 0.5


def moved_text(change: Change) -> str:
    """Return the questions that moved most, each with its difference."""
    return ", ".join(f"{query_id} {size:+.2f}" for query_id, size in change.questions.items())


def overview(
    client: str | None, measure: str = "", *, database: str = ""
) -> tuple[list[Json], int]:
    """Return the newest run of each configuration, at most 200, and the number of configurations.

    Each row is as from `newest_runs`, with `measure`, the main measure ("" if it has none), the `value`
    of this and the `pass_rate` (each a dict of run_id, measure, mean, ci_low, ci_high, n_scored and n;
    None if the run lacks it), and the `state` of its drift. The main measure is `measure` if the run
    has it, else the first of `MAIN` that it has.
    """
    score = tables.score.c
    with connected(database) as connection:
        configurations = newest_runs(connection, client)
        # drift is tested more strictly, the more measures of a series are tested
        n_tested = _count_tested_measures(connection, configurations)
        rows = configurations[:_MAX_LINES]
        values: dict[str, Json] = {row["id"]: {} for row in rows}
        columns = [score[name] for name in ("run_id", "measure", *_VALUE)]
        query = select(*columns).where(score.run_id.in_(list(values)))
        query = query.where(score.measure.in_({measure, *MAIN}))  # MAIN has the pass_rate, too
        for value in connection.execute(query).mappings():
            values[value["run_id"]][value["measure"]] = dict(value)
    for row in rows:
        value_of = values[row["id"]]  # measure -> its value in this run
        row["measure"] = next((name for name in (measure, *MAIN) if name in value_of), "")
        row["value"] = value_of.get(row["measure"])
        row["pass_rate"] = value_of.get("pass_rate")
        owner = (row["client_id"], row["series"])
        row["state"] = _cached_state(
            database,
            owner,
            n_tested[owner],
            row["measure"],
            row["epoch"],
            # these two change with each new run, so that the cached state of fewer runs is not used
            n_runs=row["n"],
            last_recorded=row["recorded"],
        )
    return rows, len(configurations)


@lru_cache(maxsize=10_000)
def _cached_state(
    database: str,
    series: _Series,
    n_tested: int,
    measure: str,
    epoch: str,
    *,
    n_runs: int,
    last_recorded: str,
) -> State:
    """Return whether a measure got "worse" or "better" in an epoch or is "steady", with a sentence.

    An epoch consists of the runs of one configuration on one dataset, which can be compared. The test for
    drift finds changes in them, and the last change decides. A measure without values is "steady".

    Args:
        series: (client, series) of the runs.
        n_tested: the number of measures of the series that are tested for drift; the more there are,
            the stricter is the test of each.
        measure: "" if the runs have no measure to show.
        n_runs, last_recorded: not used here; they change with each new run of the epoch, so that the
            cached state is not returned any more.
    """
    if not measure:
        return State("steady", "nothing scored")
    client, name = series
    with connected(database) as connection:
        rows = _rows_with_measure(connection, measure, name, client, epoch)
        epochs = list(_drift_of_epochs(connection, rows, {series: n_tested}))
    if not epochs:  # no run has values per question
        return State("steady", "nothing scored")
    [(_, drift_of_epoch)] = epochs  # all rows are of one epoch
    if not drift_of_epoch.changes:
        return State("steady", drift_of_epoch.text)
    last_change = drift_of_epoch.changes[-1]
    return State(_direction_in_quality(measure, last_change), drift_of_epoch.text)


def _rows_with_measure(
    connection: Connection, measure: str, series: str, client: str | None, epoch: str = ""
) -> list[Json]:
    """Return the runs that have a measure, each with its scores for it, in order of time.

    Args:
        series, client: as in `history`.
        epoch: only the runs of this epoch; "" = of all.

    Raises:
        ConfigError: there is no such run.
    """
    names = {measure}
    declared = find_measure(measure)
    if declared is not None:
        names.add(declared.name)
    run = tables.run.c
    query = select(tables.run, tables.score).join(tables.score)
    query = of_owner(query.where(tables.score.c.measure.in_(names)), series, client)
    if epoch:
        query = query.where(run.epoch == epoch)
    rows = connection.execute(query.order_by(run.made_at, run.id)).mappings().all()
    if not rows:
        raise _no_such_run(connection, measure, series, client)
    return [dict(row) for row in rows]


def _no_such_run(
    connection: Connection, measure: str, series: str, client: str | None
) -> ConfigError:
    """Return the error for a series or a measure that no run of a client has."""
    recorded = of_owner(select(tables.run.c.series).distinct(), "", client)
    recorded_series = sorted(connection.execute(recorded).scalars())
    if series and series not in recorded_series:
        quoted = ", ".join(map(repr, recorded_series[:30]))  # a name may hold commas
        return ConfigError(unknown("series", series, recorded_series, quoted))
    return ConfigError(
        f"no run has the measure {measure!r}; `ragbench history show RUN` lists the measures of a run"
    )


def _count_tested_measures(
    connection: Connection, newest: Sequence[RunRow]
) -> Mapping[_Series, int]:
    """Return (client, series) -> the number of tests for drift in this series: one for each configuration
    and watched measure. Watched are the measures in `WATCHED`, and those with a target.

    A configuration that is run no more counts, too.

    Args:
        newest: the newest run of each configuration, whose measures count.
    """
    run = tables.run.c
    run_ids = [row["id"] for row in newest]
    query = select(run.client_id, run.series, func.count()).join(tables.score)
    query = query.where(IS_WATCHED, run.id.in_(run_ids)).group_by(run.client_id, run.series)
    return Counter({(client, series): n for client, series, n in connection.execute(query)})


def _drift_of_epochs(
    connection: Connection, rows: Sequence[Json], n_tested: Mapping[_Series, int]
) -> Iterator[tuple[list[Json], Drift]]:
    """Yield the runs of each epoch and the result of the test for drift in it.

    An epoch consists of the runs of one configuration on one dataset, which can be compared. Each run
    gets, in place, its `state` (see `trend`) and its `change`: the fall or rise that is noticed at this
    run, or None. Runs without values per question are in no epoch.

    Args:
        rows: the runs with their scores for one measure, in order of time.
        n_tested: (client, series) -> the number of its measures that are tested; the more there are,
            the stricter is the test of each.
    """
    for row in rows:
        row["state"] = ""
        row["change"] = None
    questions = questions_of(connection, rows)
    scored = [row for row in rows if row["case_values"] is not None]
    for members in grouped(scored, lambda row: row["epoch"]).values():
        first = members[0]
        times = [row["made_at"][:16].replace("T", " ") for row in members]
        values = np.array([stored_values(row["case_values"]) for row in members])
        query_ids = sorted(questions[first["case_set"]])
        # a row per run, a column per question
        frame = pd.DataFrame(values, index=times, columns=query_ids)
        # `drift` limits the rate of false alarms of all measures that are tested side by side
        n_streams = max(1, n_tested[first["client_id"], first["series"]])
        size_that_matters = _FRACTION_OF_RANGE * _range_of(first)
        drift_of_epoch = drift(frame, streams=n_streams, fall=size_that_matters)
        remaining_changes = list(drift_of_epoch.changes)  # one for each "fall" and "rise", in order
        for row, state in zip(members, drift_of_epoch.path["state"], strict=True):
            row["state"] = state
            if state in ("fall", "rise"):
                row["change"] = remaining_changes.pop(0)
        yield members, drift_of_epoch


def _range_of(row: RunRow) -> float:
    """Return the size of a measure's range: 1 for a measure from 0 to 1, else the size of its mean (1
    if there is none).
    """
    if bounds_of(row["measure"]) == (0.0, 1.0):
        return 1.0
    return abs(float(row["mean"] or 1)) or 1.0


def _direction_in_quality(measure: str, change: Change) -> str:
    """Return "worse" or "better": for a measure whose lower values are better, a rise is worse."""
    is_worse = (change.direction == "fall") == higher_is_better(measure)
    return "worse" if is_worse else "better"
