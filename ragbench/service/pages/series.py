"""Which charts the page of a series and the first page have: measures over time, and whether each
moved; and the table of the newest run of each client.
"""

import math
import re
from collections.abc import Collection
from functools import lru_cache

import pandas as pd
from sqlalchemy import Connection, select

from ragbench.groups import grouped
from ragbench.registry import meaning_of
from ragbench.service import measure_trends
from ragbench.service.access import Session
from ragbench.service.history_database import Json, connected, read_rows
from ragbench.service.measure_trends import State
from ragbench.service.pages.charts import line_chart
from ragbench.service.pages.html_pages import drawn
from ragbench.service.recorded_runs import (
    CONFIGURATION,
    configuration_of,
    newest_runs,
    values_over_time,
)
from ragbench.service.responses import records
from ragbench.service.tables import score
from ragbench.service.watched_measures import MAIN

_RUNS = 400  # of a chart
_FIRST_RUNS = 100  # of a chart on the first page
_FIRST = ("pass_rate", "P@", "R@", "RR")
"""The measures of the first charts, or how their names begin: at the depth of 5 if there is one."""
COST_CHART = "cost of a run"
"""The name of the chart of costs, in the place of a measure."""


def state_of(runs: pd.DataFrame) -> State:
    """Return the state of the newest epoch of a configuration, from rows of `trend`."""
    epoch = runs[runs["epoch"] == runs["epoch"].iloc[-1]]
    alarms = epoch.loc[epoch["state"].isin(["fall", "rise"]), "note"]
    if alarms.empty:
        return State("steady", epoch["note"].iloc[-1])
    kind, _, text = alarms.iloc[-1].partition(": ")
    return State(kind, text)


def measures_of(connection: Connection, ids: list[str]) -> list[str]:
    """Return the measures that any of these runs has: the rate of passed questions, precision,
    recall and MRR first, then the measures of `MAIN`.
    """
    query = select(score.c.measure).where(score.c.run_id.in_(ids)).distinct()
    names = set(connection.execute(query).scalars())
    order = dict.fromkeys((*_first_of(names), *MAIN, *sorted(names)))
    return [name for name in order if name in names]


def _first_of(names: Collection[str]) -> list[str]:
    """Return the measures of the first charts that a run has, in their order.

    A measure is taken by its name, at the depth 5, or else at another depth.

    >>> _first_of({"nDCG@10", "R@10", "P@5", "P@10", "pass_rate"})
    ['pass_rate', 'P@5', 'R@10']
    """
    first = []
    for beginning in _FIRST:
        at_depths = sorted(name for name in names if re.fullmatch(rf"{beginning}\d+", name))
        candidates = (beginning, f"{beginning}5", *at_depths)
        first += [name for name in candidates if name in names][:1]
    return first


def panels(session: Session, series: str, configuration: str, measures: list[str]) -> list[Json]:
    """Return a chart over time (a panel) for each of these measures of a configuration, with its `state`.

    If there are several measures, a chart of the costs follows, unless all are 0. It shows the runs
    that have the last of the measures.
    """
    charts: list[Json] = []
    runs_of: dict[str, pd.DataFrame] = {}  # measure -> the runs that have it
    for measure in measures:
        trend = measure_trends.trend(measure, series=series, **session.ownership)
        runs = trend[trend["configuration"] == configuration].tail(_RUNS)
        charts.append({**_panel(measure, meaning_of(measure), runs), "state": state_of(runs)})
        runs_of[measure] = runs
    if len(measures) > 1:
        runs_of_last = runs_of[measures[-1]]
        if (runs_of_last["cost_usd"] > 0).any():
            charts.append(_cost_panel(runs_of_last))
    return charts


def newest_panels(row: Json, database: str) -> list[Json]:
    """Return the charts of the first page, about the series that ran last.

    They are pass rate, precision, recall, MRR, and the cost of the runs; if the series has none of
    these measures, its first one.

    Args:
        row: the newest run of the configuration, as `measure_trends.overview` returns it.
    """
    return _newest_panels(
        database,
        configuration_of(row),
        row["id"],
        n_runs=row["runs"],
        last_recorded=row["recorded"],
    )


@lru_cache(maxsize=1_000)
def _newest_panels(
    database: str,
    configuration: tuple[str, ...],
    newest_id: str,
    *,
    n_runs: int,
    last_recorded: str,
) -> list[Json]:
    """Return the charts over time for the measures that the first page shows of a configuration.

    Charts are cached, since drawing four takes a quarter of the page's time. `n_runs` and
    `last_recorded` are not used here: they change with each new run, so that old charts are not
    returned any more.
    """
    with connected(database) as connection:
        names = measures_of(connection, [newest_id])
    measures = _first_of(names) or names[:1]
    if not measures:
        return []
    columns = dict(zip(CONFIGURATION, configuration, strict=True))  # column of a run -> its value
    values = values_over_time(columns, measures, limit=_FIRST_RUNS, database=database)
    charts: list[Json] = []
    for measure in measures:
        rows = values[values["measure"] == measure]
        charts.append(_panel(measure, meaning_of(measure), rows))
    costs = values[values["measure"] == measures[0]]
    if (costs["cost_usd"] > 0).any():
        charts.append(_cost_panel(costs))
    return charts


def _cost_panel(runs: pd.DataFrame) -> Json:
    """Return the chart of the costs of runs; whether they moved is not tested."""
    costs = runs.assign(mean=runs["cost_usd"], ci_low=math.nan, ci_high=math.nan)
    costs = costs.dropna(subset=["mean"])
    meaning = "US dollars of the answers and of the judge, where their prices are known"
    state = State("steady", "a cost is not tested for a change")
    return {**_panel(COST_CHART, meaning, costs), "state": state}


def _panel(measure: str, meaning: str, runs: pd.DataFrame) -> Json:
    """Return a measure with its meaning, its `newest` run, and the `drawing` of it over time."""
    panel: Json = {"measure": measure, "meaning": meaning, "newest": records(runs.tail(1))[0]}
    is_cost = measure == COST_CHART
    chart = line_chart(runs, "cost_usd" if is_cost else measure)
    panel["drawing"] = drawn("line_chart", panel, chart, is_cost)
    return panel


OF_CLIENTS = {
    "pass_rate": "Passed",
    "P@5": "P@5",
    "R@5": "R@5",
    "RR": "MRR",
    "llm_faithfulness": "Faithfulness (judge)",
}
"""Measure -> heading in the comparison of clients."""


def newest_of_clients(session: Session) -> list[Json]:
    """Return the newest run of each client, by client, with its means: `values` (measure -> mean).

    The measures are those of `OF_CLIENTS`. A measure that the run does not have is left out; a mean is
    None if no question is scored.
    """
    with connected(session.database) as connection:
        newest = newest_runs(connection, session.client)
    by_client = grouped(newest, lambda row: row["client_id"])
    rows = [newest_first[0] for _, newest_first in sorted(by_client.items())]
    query = select(score.c.run_id, score.c.measure, score.c.mean)
    query = query.where(score.c.run_id.in_([row["id"] for row in rows]))
    scores = read_rows(session.database, query.where(score.c.measure.in_(OF_CLIENTS)))
    scores_of_run = grouped(scores, lambda score: score.run_id)
    for row in rows:
        row["values"] = {each.measure: each.mean for each in scores_of_run.get(row["id"], ())}
    return rows
