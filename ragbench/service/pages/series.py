"""What the page of a series shows: its measures over time, and whether each moved."""

import pandas as pd
from sqlalchemy import select

from ragbench.registry import meaning_of
from ragbench.service import trends
from ragbench.service.access import Session
from ragbench.service.history_database import Json, read_rows
from ragbench.service.pages.charts import line_chart
from ragbench.service.responses import records
from ragbench.service.tables import score
from ragbench.service.trends import State

_RUNS = 400  # of a chart


def state_of(runs: pd.DataFrame) -> State:
    """Return the state of the newest epoch of a configuration, from rows of `trend`."""
    epoch = runs[runs["epoch"] == runs["epoch"].iloc[-1]]
    alarms = epoch.loc[epoch["state"].isin(["fall", "rise"]), "note"]
    if alarms.empty:
        return State("steady", epoch["note"].iloc[-1])
    kind, _, text = alarms.iloc[-1].partition(": ")
    return State(kind, text)


def measures_of(ids: list[str], database: str) -> list[str]:
    """Return the measures that any of these runs has, those of `MAIN` first."""
    query = select(score.c.measure).where(score.c.run_id.in_(ids)).distinct()
    names = {row.measure for row in read_rows(database, query)}
    return [*(name for name in trends.MAIN if name in names), *sorted(names - {*trends.MAIN})]


def decided_of(ids: list[str], database: str) -> dict[str, int]:
    """Return run id -> how many of its questions passed or failed, where any did."""
    of_runs = score.c.run_id.in_(ids), score.c.measure == "pass_rate"
    query = select(score.c.run_id, score.c.n_scored).where(*of_runs)
    return {row.run_id: row.n_scored for row in read_rows(database, query)}


def panels(session: Session, series: str, configuration: str, measures: list[str]) -> list[Json]:
    """Return the chart and the state of each of these measures."""
    charts = []
    for measure in measures:
        runs = trends.trend(measure, series=series, client=session.owner, database=session.database)
        runs = runs[runs["configuration"] == configuration].tail(_RUNS)
        charts.append(
            {
                "measure": measure,
                "meaning": meaning_of(measure),
                "chart": line_chart(runs, measure),
                "state": state_of(runs),
                "newest": records(runs.tail(1))[0],
            }
        )
    return charts
