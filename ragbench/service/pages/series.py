"""What the pages of runs show: each series and configuration with its newest values, and whether it
moved.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import NamedTuple

import pandas as pd
from sqlalchemy import or_, select

from ragbench.errors import DataError
from ragbench.evaluation.records import Change
from ragbench.registry import LEADERBOARD, higher_is_better, meaning_of
from ragbench.report.page.html import forest_marks
from ragbench.service import trends
from ragbench.service.access import Session
from ragbench.service.api import compare, list_schedules
from ragbench.service.history_database import Json, read_frame, read_rows
from ragbench.service.pages.charts import PANEL, SPARKLINE, line_chart
from ragbench.service.responses import records, run_row
from ragbench.service.tables import run, score
from ragbench.statistics import Drift
from ragbench.statistics.drift import MIN_EARLIER

MAIN = tuple(dict.fromkeys((*LEADERBOARD, *trends.WATCHED)))
"""The measures of the first page: of each configuration the first that it has."""
PANELS = (
    ("P@5", "P@10", "chunk:P@5"),
    ("R@5", "R@10", "chunk:R@5"),
    ("RR", "chunk:RR"),
    ("pass_rate",),
    ("latency_total_ms",),
    ("overall_hallucination", "overall_llm_hallucination", "claim_support"),
)
"""What the page of a series shows after its main measure and before its cost: of each group the
first there is.
"""
TITLES = {
    "RR": "MRR",
    "chunk:RR": "MRR of chunks",
    "pass_rate": "Pass rate",
    "latency_total_ms": "Response time, ms",
    "overall_hallucination": "Hallucination",
    "overall_llm_hallucination": "Hallucination",
    "cost_usd": "Cost, USD",
}
_COLUMNS = (
    "id client_id series configuration made_at passed questions questions_passed cost_usd dataset "
    "fingerprint"
).split()
_CHANGE = "measure baseline contender difference ci_low ci_high p_adjusted mde n".split()
_RECENT = 30  # runs of a sparkline
_LINES = 200  # of the first page
_RUNS = 400  # of a chart


class State(NamedTuple):
    """Whether a measure moved: a word for its kind (worse, steady, better, few), a short text, and
    the evidence.
    """

    kind: str
    text: str
    detail: str


def state_of(drift: Drift | None, measure: str) -> State:
    """Return the state of the newest epoch of a configuration.

    >>> state_of(None, "RR").text
    'too few runs'
    """
    if drift is None:
        return State("few", "too few runs", "nothing shown; no scores per question are stored")
    if drift.changes:
        last = drift.changes[-1]
        fell = last.direction == "fall"
        kind = "worse" if fell == higher_is_better(measure) else "better"
        return State(kind, f"{'fell' if fell else 'rose'} on {str(last.since)[:10]}", last.text)
    labels, states = drift.path.index, drift.path["state"]
    if drift.notice is not None:
        return State("steady", f"steady since {str(labels[0])[:10]}", drift.text)
    if (same := int((states[::-1] == "unchanged").cumprod().sum())) > 1:
        detail = f"every score is the same in the newest {same + 1} runs"
        return State("steady", f"unchanged since {str(labels[-1 - same])[:10]}", detail)
    return State("few", "too few runs" if drift.n < MIN_EARLIER else "too noisy", drift.text)


def overview(session: Session, measure: str = "") -> tuple[list[Json], int]:
    """Return a row per client, series and configuration, and how many there are; those that got
    worse first.

    `measure` is shown where a configuration has it, else its first one of `MAIN`. The state is that
    of what is shown and, where no `measure` is named, of every measure with a target: the first
    that got worse.
    """
    client, database = session.client, session.database
    query = select(*(run.c[name] for name in _COLUMNS)).order_by(run.c.made_at.desc(), run.c.id)
    if client is not None:
        query = query.where(run.c.client_id == client)
    runs = read_frame(database, query)
    lines = runs.groupby(["client_id", "series", "configuration"], sort=False)
    newest = records(lines.head(1).head(_LINES))
    main_or_aimed = or_(score.c.measure.in_({*MAIN, measure}), score.c.target.is_not(None))
    of_newest = score.c.run_id.in_([row["id"] for row in newest])
    scores: dict[str, Json] = {}
    for value in read_rows(database, select(score).where(of_newest, main_or_aimed)):
        scores.setdefault(value["run_id"], {})[value["measure"]] = value
    recorded = hash(tuple(runs["id"]))
    trend_of = cache(partial(trends.trend, client=client, database=database, tested=False))
    due = {(row["client_id"], row["name"]): row["next_due"] for row in list_schedules(session)}
    rows = []
    for row in newest:
        values = scores.get(row["id"], {})
        line = (row["client_id"], row["series"], row["configuration"])
        ids = lines.get_group(line)["id"]
        main = next((name for name in (measure, *MAIN) if name in values), "")
        aimed = [name for name in values if values[name]["target"] is not None and not measure]
        drifts = {
            name: _drifts(name, client, database, recorded) for name in (main, *aimed) if name
        }
        states = {name: state_of(epochs.get(row["id"]), name) for name, epochs in drifts.items()}
        watched = next((name for name in states if states[name].kind == "worse"), main)
        epochs = drifts.get(watched, {})
        before = [epochs[run_id] for run_id in ids[1:] if run_id in epochs]
        points = trend_of(main).query("run in @ids").tail(_RECENT) if main else None
        more = {
            "measure": main,
            "value": values.get(main),
            "pass_rate": values.get("pass_rate"),
            "runs": len(ids),
            "state": states.get(watched) or state_of(None, main),
            "watched": watched,
            "next": due.get(line[:2], ""),
            "earlier": _earlier(before, watched),
            "chart": None if points is None else line_chart(points, main, SPARKLINE),
        }
        rows.append({**row, **more})
    rows.sort(key=lambda row: {"worse": 0, "few": 2}.get(row["state"].kind, 1))
    return rows, lines.ngroups


@lru_cache(maxsize=64)
def _drifts(measure: str, client: str | None, database: str, recorded: int) -> dict[str, Drift]:
    """Return the drift of each epoch, computed once while the runs are the same, of which
    `recorded` is a hash.
    """
    return trends.drifts(measure, client=client, database=database)


def _earlier(drifts: list[Drift], measure: str) -> str:
    """Return that the epoch before, on other data or parameters, had got worse: a new epoch must
    not hide it.
    """
    state = state_of(drifts[0], measure) if drifts else None
    return state.text if state and state.kind == "worse" else ""


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


def panels(
    session: Session, series: str, configuration: str, measure: str, names: list[str]
) -> tuple[list[Json], list[Json]]:
    """Return the charts of the measures that matter most, and what changed between the runs,
    numbered.
    """
    where: Json = {"series": series, "client": session.owner, "database": session.database}
    first = (
        next((name for name in group if name in names), "") for group in ((measure,), MAIN, *PANELS)
    )
    chosen = list(dict.fromkeys(filter(None, [*first, *names[:1]])))
    charts, marks, runs = [], list[Json](), pd.DataFrame()
    for name in reversed(chosen):  # the main one last: it has the marks, and its runs the costs
        runs = trends.trend(name, **where, tested=name == chosen[0])
        runs = runs[runs["configuration"] == configuration].tail(_RUNS)
        charts.append(_panel(name, runs, trends.drifts(name, **where)))
    if chosen:
        changed = runs[~runs["changed"].isin(["", "first run", "unchanged scores"])]
        marks = [{"number": number, **row} for number, row in enumerate(records(changed), start=1)]
        if runs["cost_usd"].notna().any():
            costs = runs.assign(mean=runs["cost_usd"], ci_low=float("nan"), ci_high=float("nan"))
            about = {"state": None, "meaning": "of all questions of a run"}
            charts.insert(0, _panel("cost_usd", costs, {}) | about)
    for chart in charts:
        places = {point["run"]["run"]: point["x"] for point in chart["chart"]["points"]}
        chart["marks"] = [
            (places[mark["run"]], mark["number"]) for mark in marks if mark["run"] in places
        ]
    return charts[::-1], marks


def _panel(measure: str, runs: pd.DataFrame, drifts: dict[str, Drift]) -> Json:
    epochs = [drifts[run_id] for run_id in runs["run"] if run_id in drifts]
    return {
        "measure": measure,
        "title": TITLES.get(measure, measure),
        "meaning": meaning_of(measure),
        "chart": line_chart(runs, measure, PANEL),
        "state": state_of(epochs[-1] if epochs else None, measure),
        "newest": records(runs.tail(1))[0],
        "earlier": _earlier(epochs[-2::-1], measure),
        "changes": [change for drift in epochs for change in drift.changes],
    }


def differences(session: Session, before: str, after: str) -> Json:
    """Compare two runs: a row per measure that both have, questions newly failing and fixed.

    Runs without a question in common have their means side by side and no test.
    """
    (then, old), (now, new) = (run_row(session, run_id) for run_id in (before, after))
    sides = {"before": then, "after": now}
    try:
        comparison = compare(session, before, after)
    except DataError:  # no question in common
        old, new = (
            old.rename(columns={"mean": "baseline"}),
            new.rename(columns={"mean": "contender"}),
        )
        means = old.merge(new, on="measure").dropna(subset=["baseline", "contender"])
        table = {"measures": records(means.assign(kind="")), "tested": False}
        return {**sides, **table, "newly_failing": [], "fixed": []}
    rows = comparison["measures"]
    for row in rows:
        row["kind"] = {"better": "improvement", "worse": "regression"}.get(row["decision"], "")
    fields: Json = {"perspective": "", "better": 0, "worse": 0, "verdict": ""}
    marks = forest_marks(
        [Change(**{name: row[name] for name in _CHANGE}, **fields) for row in rows]
    )
    rows.sort(key=lambda row: not row["kind"])
    return {**comparison, **sides, "tested": True, "forest": marks}
