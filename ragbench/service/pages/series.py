"""What the pages of runs show: each series and configuration with its newest values, and whether it moved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import pandas as pd
from fastapi import Request
from sqlalchemy import or_, select

from ragbench.errors import DataError
from ragbench.evaluation.records import Change
from ragbench.registry import LEADERBOARD, higher_is_better, meaning_of
from ragbench.report.page import signed
from ragbench.report.page.html import forest_marks
from ragbench.service import WATCHED, drifts, schedules, trend
from ragbench.service.access import Caller
from ragbench.service.api import compare
from ragbench.service.history_database import connected
from ragbench.service.pages.charts import PANEL, SPARKLINE, line_chart
from ragbench.service.results import records, run_row
from ragbench.service.tables import run, score
from ragbench.statistics import Drift
from ragbench.statistics.drift import MIN_EARLIER

MAIN = tuple(dict.fromkeys((*LEADERBOARD, *WATCHED)))
"""The measures of the first page: of each configuration the first that it has."""
PANELS = (
    ("P@5", "P@10", "chunk:P@5"), ("R@5", "R@10", "chunk:R@5"), ("RR", "chunk:RR"), ("pass_rate",),
    ("latency_total_ms",), ("overall_hallucination", "overall_llm_hallucination", "claim_support"),
)  # fmt: skip
"""What the page of a series shows after its main measure and before its cost: of each group the first there is."""
TITLES = {
    "RR": "MRR", "chunk:RR": "MRR of chunks", "pass_rate": "Pass rate", "latency_total_ms": "Response time, ms",
    "overall_hallucination": "Hallucination", "overall_llm_hallucination": "Hallucination", "cost_usd": "Cost, USD",
}  # fmt: skip
_SIDES = ("baseline", "contender")
_RECENT = 30  # runs of a sparkline
_LINES = 200  # of the first page
_RUNS = 400  # of a chart


@dataclass(frozen=True)
class State:
    """Whether a measure moved: a word for its kind (worse, steady, better, few), a short text, and the evidence."""

    kind: str
    text: str
    detail: str


def state_of(found: Drift | None, measure: str) -> State:
    """The state of the newest epoch of a configuration.

    >>> state_of(None, "RR").text
    'too few runs'
    """
    if found is None:
        return State("few", "too few runs", "nothing shown; no scores per question are stored")
    if found.changes:
        last = found.changes[-1]
        fell = last.direction == "fall"
        kind = "worse" if fell == higher_is_better(measure) else "better"
        return State(kind, f"{'fell' if fell else 'rose'} on {str(last.since)[:10]}", last.text)
    states = found.path["state"]
    if found.notice is None and (same := int((states[::-1] == "unchanged").cumprod().sum())) > 1:
        since = str(found.path.index[-1 - same])[:10]
        return State("steady", f"unchanged since {since}", f"every score is the same in the newest {same + 1} runs")
    if found.notice is None:
        return State("few", "too few runs" if found.n < MIN_EARLIER else "too noisy", found.text)
    return State("steady", f"steady since {str(found.path.index[0])[:10]}", found.text)


def overview(client: str | None, database: str, measure: str = "") -> tuple[list[dict[str, Any]], int]:
    """A row per client, series and configuration, and how many there are; what got worse first, too few runs last.

    `measure` is shown where a configuration has it, else its first one of `MAIN`. The state is that of what is shown
    and, where no `measure` is named, of every measure with a target: the first that got worse.
    """
    columns = [run.c[name] for name in ("id", "client_id", "series", "configuration", "made_at", "passed", "questions",
                                        "questions_passed", "cost_usd", "dataset", "fingerprint")]  # fmt: skip
    wanted = select(*columns).order_by(run.c.made_at.desc(), run.c.id)
    with connected(database) as connection:
        lines: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        own_runs = wanted if client is None else wanted.where(run.c.client_id == client)
        for row in map(dict, connection.execute(own_runs).mappings()):
            lines.setdefault((row["client_id"], row["series"], row["configuration"]), []).append(row)
        newest = {line: own[0] for line, own in list(lines.items())[:_LINES]}
        scored = select(score).where(score.c.run_id.in_([row["id"] for row in newest.values()]))
        scores: dict[str, dict[str, Any]] = {}
        main_or_aimed = or_(score.c.measure.in_({*MAIN, measure}), score.c.target.is_not(None))
        for one in connection.execute(scored.where(main_or_aimed)).mappings():
            scores.setdefault(one["run_id"], {})[one["measure"]] = dict(one)
    chosen = {line: next((one for one in (measure, *MAIN) if one in scores.get(row["id"], {})), "")
              for line, row in newest.items()}  # fmt: skip
    aims = {line: [name for name, one in scores.get(row["id"], {}).items() if one["target"] is not None and not measure]
            for line, row in newest.items()}  # fmt: skip
    drawn = {one: trend(one, client=client, database=database, tested=False) for one in {*chosen.values()} - {""}}
    state = hash(tuple(one["id"] for own in lines.values() for one in own))
    tested = {one: _drifts(one, client, database, state) for one in {*drawn, *chain(*aims.values())}}
    planned = records(schedules(client=client, database=database))
    due = {(one["client_id"], one["name"]): one["next_due"] for one in planned}
    shown = []
    for line, row in newest.items():
        main, own = chosen[line], scores.get(row["id"], {})
        ids = [one["id"] for one in lines[line]]
        states = {name: state_of(tested[name].get(row["id"]), name) for name in filter(None, (main, *aims[line]))}
        watched = next((name for name in states if states[name].kind == "worse"), main)
        found = tested.get(watched, {})
        runs = drawn[main][drawn[main]["run"].isin(ids)].tail(_RECENT) if main else None
        shown.append(
            {
                **row, "measure": main, "value": own.get(main), "pass_rate": own.get("pass_rate"), "runs": len(ids),
                "state": states.get(watched) or state_of(None, main), "watched": watched,
                "next": due.get(line[:2], ""),
                "earlier": _earlier([found[one] for one in ids[1:] if one in found], watched),
                "chart": None if runs is None else line_chart(runs, main, SPARKLINE),
            }
        )  # fmt: skip
    shown.sort(key=lambda one: {"worse": 0, "few": 2}.get(one["state"].kind, 1))
    return shown, len(lines)


@lru_cache(maxsize=64)
def _drifts(measure: str, client: str | None, database: str, state: int) -> dict[str, Drift]:
    """As `drifts`; looked for once while the runs are the same, of which `state` is a hash."""
    return drifts(measure, client=client, database=database)


def _earlier(found: list[Drift], measure: str) -> str:
    """That the epoch before, on other data or parameters, had got worse: a new epoch must not hide it."""
    state = state_of(found[0], measure) if found else None
    return state.text if state and state.kind == "worse" else ""


def run_before(row: Any, database: str) -> str:
    """The id of the run before of the same configuration, "" where there is none."""
    same = [run.c[name] == row[name] for name in ("client_id", "series", "configuration")]
    wanted = select(run.c.id).where(*same, run.c.made_at < row["made_at"]).order_by(run.c.made_at.desc()).limit(1)
    with connected(database) as connection:
        return str(connection.execute(wanted).scalar() or "")


def measures_of(ids: list[str], database: str) -> list[str]:
    """The measures that any of these runs has, those of `MAIN` first."""
    with connected(database) as connection:
        names = connection.execute(select(score.c.measure).where(score.c.run_id.in_(ids)).distinct()).scalars().all()
    return [*(one for one in MAIN if one in names), *sorted({*names} - {*MAIN})]


def lines_of(client: str, series: str, database: str) -> dict[str, str]:
    """Configuration -> its newest run, the newest first."""
    wanted = select(run.c.configuration, run.c.id).where(run.c.client_id == client, run.c.series == series)
    with connected(database) as connection:
        rows = connection.execute(wanted.order_by(run.c.made_at.desc(), run.c.id)).all()
    return {row.configuration: row.id for row in reversed(rows)}


def panels(
    client: str, series: str, configuration: str, database: str, measure: str, names: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The charts of those of the measures `names` that matter most, and what changed between the runs, numbered."""
    groups = [(measure,), MAIN, *PANELS]
    first = (next((one for one in group if one in names), "") for group in groups)
    shown = list(dict.fromkeys(filter(None, [*first, *names[:1]])))
    charts, marks = [], []
    for place, name in enumerate(shown):
        runs = trend(name, series=series, client=client, database=database, tested=place == 0)
        runs = runs[runs["configuration"] == configuration].tail(_RUNS).reset_index(drop=True)
        found = drifts(name, series=series, client=client, database=database)
        if place == 0:
            marks = _marks(runs)
            costs = runs
        charts.append(_panel(name, runs, found, marks))
    if len(shown) and costs["cost_usd"].notna().any():
        spent = costs.assign(mean=costs["cost_usd"], ci_low=float("nan"), ci_high=float("nan"))
        charts.append(_panel("cost_usd", spent, {}, marks) | {"state": None, "meaning": "of all questions of a run"})
    return charts, marks


def _marks(runs: pd.DataFrame) -> list[dict[str, Any]]:
    changed = [one for one in records(runs) if one["changed"] not in ("", "first run", "unchanged scores")]
    return [{"number": i, **one} for i, one in enumerate(changed, start=1)]


def _panel(measure: str, runs: pd.DataFrame, found: dict[str, Drift], marks: list[dict[str, Any]]) -> dict[str, Any]:
    chart = line_chart(runs, measure, PANEL)
    places = {point["run"]["run"]: point["x"] for point in chart["points"]}
    known = [one for one in runs["run"] if one in found]
    return {
        "measure": measure, "title": TITLES.get(measure, measure), "meaning": meaning_of(measure), "chart": chart,
        "marks": [(places[one["run"]], one["number"]) for one in marks if one["run"] in places],
        "state": state_of(found[known[-1]] if known else None, measure), "newest": records(runs.tail(1))[0],
        "earlier": _earlier([found[one] for one in known[-2::-1]], measure),
        "changes": [change for one in known for change in found[one].changes],
    }  # fmt: skip


def differences(request: Request, who: Caller, before: str, after: str) -> dict[str, Any]:
    """Two runs: the conclusion, a row per measure that both have, questions newly failing and fixed.

    Runs without a question in common have their means side by side and no test.
    """
    rows = [run_row(request, one, who.reads()) for one in (before, after)]
    sides = {"before": rows[0][0], "after": rows[1][0]}
    try:
        found = compare(request, who, before, after)
    except DataError:  # no question in common
        means = {name: row[1].set_index("measure")["mean"] for name, row in zip(_SIDES, rows, strict=True)}
        table = records(pd.DataFrame(means).dropna().reset_index().assign(kind=""))
        sentence = "These runs have no question in common: means side by side, and no test."
        return {**sides, "measures": table, "tested": False, "sentence": sentence, "newly_failing": [], "fixed": []}
    for row in found["measures"]:
        row["kind"] = {"better": "improvement", "worse": "regression"}.get(row["decision"], "")
    columns = ("measure", *_SIDES, "difference", "ci_low", "ci_high", "p_adjusted", "mde", "n")
    own = [{name: row[name] for name in columns} for row in found["measures"]]
    marks = forest_marks([Change(**one, perspective="", better=0, worse=0, verdict="") for one in own])
    found["measures"].sort(key=lambda row: not row["kind"])
    return {**found, **sides, "tested": True, "forest": marks, "sentence": conclusion(found["measures"])}


def conclusion(rows: list[dict[str, Any]]) -> str:
    """What is shown, in a sentence.

    >>> conclusion([{"measure": "RR", "decision": "worse", "difference": -0.1, "n": 60, "mde": 0.05}])
    'Worse: RR -0.100, on the 60 questions that both have.'
    """
    parts = []
    for word in ("worse", "better"):
        moved = [f"{row['measure']} {signed(row['difference'])}" for row in rows if row["decision"] == word]
        parts += [f"{word.capitalize()}: {', '.join(moved)}"] if moved else []
    count = max((row["n"] for row in rows), default=0)
    if not parts:
        smallest = min((row["mde"] for row in rows if row["mde"]), default=0.0)
        more = f"; a difference below {smallest:.2f} would probably not be seen" if smallest else ""
        return f"No difference is shown on the {count} questions that both have{more}."
    return f"{'; '.join(parts)}, on the {count} questions that both have."
