"""What the pages of runs show: each series and configuration with its newest values, and whether it
moved.
"""

from __future__ import annotations

import pandas as pd
from sqlalchemy import select

from ragbench.registry import meaning_of
from ragbench.service import trends
from ragbench.service.access import Session
from ragbench.service.api import compare, list_schedules
from ragbench.service.history_database import Json, connected, read_rows
from ragbench.service.pages.charts import line_chart
from ragbench.service.responses import records, run_row
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


def overview(session: Session, measure: str = "") -> tuple[list[Json], int]:
    """Return the rows of `trends.overview` with the next run of each, and how many there are; those
    that got worse first.
    """
    rows, count = trends.overview(session.client, measure, database=session.database)
    due = {(row["client_id"], row["name"]): row["next_due"] for row in list_schedules(session)}
    for row in rows:
        row["next"] = due.get((row["client_id"], row["series"]), "")
    return sorted(rows, key=lambda row: row["state"].kind != "worse"), count


def measures_of(ids: list[str], database: str) -> list[str]:
    """Return the measures that any of these runs has, those of `MAIN` first."""
    query = select(score.c.measure).where(score.c.run_id.in_(ids)).distinct()
    names = {row.measure for row in read_rows(database, query)}
    return [*(name for name in trends.MAIN if name in names), *sorted(names - {*trends.MAIN})]


def configurations_of(session: Session, series: str) -> dict[str, str]:
    """Return the configurations of a series, each with the id of its newest run."""
    with connected(session.database) as connection:
        newest = trends.newest_runs(connection, session.owner, series)
    return {row["configuration"]: row["id"] for row in newest}


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


def differences(session: Session, before: str, after: str) -> Json:
    """Compare two runs: a row per measure that both have, questions newly failing and fixed."""
    comparison = compare(session, before, after)
    comparison["measures"].sort(key=lambda row: row["decision"] not in ("better", "worse"))
    sides = {"before": run_row(session, before)[0], "after": run_row(session, after)[0]}
    return {**comparison, **sides}
