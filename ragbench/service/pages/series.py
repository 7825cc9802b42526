"""What the pages of runs show: each series and configuration with its newest values, and whether it
moved.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import pandas as pd
from sqlalchemy import select

from ragbench.registry import LEADERBOARD, meaning_of
from ragbench.service import trends
from ragbench.service.access import Session
from ragbench.service.api import compare, list_schedules
from ragbench.service.history_database import Json, read_frame, read_rows
from ragbench.service.pages.charts import line_chart
from ragbench.service.responses import records, run_row
from ragbench.service.tables import run, score

MAIN = tuple(dict.fromkeys((*LEADERBOARD, *trends.WATCHED)))
"""The measures of the first page: of each configuration the first that it has."""
_COLUMNS = (
    "id client_id series configuration made_at passed questions questions_passed cost_usd"
).split()
_LINES = 200  # of the first page
_RUNS = 400  # of a chart


class State(NamedTuple):
    """Whether a measure moved: worse, better or steady, and the evidence."""

    kind: str
    text: str


def state_of(runs: pd.DataFrame) -> State:
    """Return the state of the newest epoch of a configuration, from rows of `trend`."""
    epoch = runs[runs["epoch"] == runs["epoch"].iloc[-1]]
    alarms = epoch.loc[epoch["state"].isin(["fall", "rise"]), "note"]
    if alarms.empty:
        return State("steady", epoch["note"].iloc[-1])
    kind, _, text = alarms.iloc[-1].partition(": ")
    return State(kind, text)


def overview(session: Session, measure: str = "") -> tuple[list[Json], int]:
    """Return a row per client, series and configuration, and how many there are; those that got
    worse first.

    `measure` is shown where a configuration has it, else its first one of `MAIN`.
    """
    client, database = session.client, session.database
    query = select(*(run.c[name] for name in _COLUMNS)).order_by(run.c.made_at.desc(), run.c.id)
    if client is not None:
        query = query.where(run.c.client_id == client)
    runs = read_frame(database, query)
    lines = runs.groupby(["client_id", "series", "configuration"], sort=False)
    newest = records(lines.head(1).head(_LINES))
    of_newest = score.c.run_id.in_([row["id"] for row in newest])
    scores: dict[str, Json] = {}
    for value in read_rows(database, select(score).where(of_newest)):
        scores.setdefault(value["run_id"], {})[value["measure"]] = value
    recorded = hash(tuple(runs["id"]))
    due = {(row["client_id"], row["name"]): row["next_due"] for row in list_schedules(session)}
    rows = []
    for row in newest:
        values = scores.get(row["id"], {})
        line = (row["client_id"], row["series"], row["configuration"])
        ids = lines.get_group(line)["id"]
        main = next((name for name in (measure, *MAIN) if name in values), "")
        points = _trend(main, client, database, recorded).query("run in @ids") if main else None
        more = {
            "measure": main,
            "value": values.get(main),
            "pass_rate": values.get("pass_rate"),
            "runs": len(ids),
            "state": State("steady", "nothing scored") if points is None else state_of(points),
            "next": due.get(line[:2], ""),
        }
        rows.append({**row, **more})
    rows.sort(key=lambda row: row["state"].kind != "worse")
    return rows, lines.ngroups


@lru_cache(maxsize=64)
def _trend(measure: str, client: str | None, database: str, recorded: int) -> pd.DataFrame:
    """Return a trend, computed once while the runs are the same, of which `recorded` is a hash."""
    return trends.trend(measure, client=client, database=database)


def measures_of(ids: list[str], database: str) -> list[str]:
    """Return the measures that any of these runs has, those of `MAIN` first."""
    query = select(score.c.measure).where(score.c.run_id.in_(ids)).distinct()
    names = {row["measure"] for row in read_rows(database, query)}
    return [*(name for name in MAIN if name in names), *sorted(names - {*MAIN})]


def configurations_of(session: Session, series: str) -> dict[str, str]:
    """Return the configurations of a series, each with the id of its newest run."""
    of_series = run.c.client_id == session.owner, run.c.series == series
    query = select(run.c.configuration, run.c.id).where(*of_series).order_by(run.c.made_at)
    return {row["configuration"]: row["id"] for row in read_rows(session.database, query)}


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
