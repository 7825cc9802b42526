"""The rows of measures: means with intervals, ceilings, targets and verdicts; latency per stage;
and which rows a printed table shows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragbench.evaluation.records import Latency, MeasureResult
from ragbench.evaluation.targets import Targets, reaches, verdict
from ragbench.metrics.system_outcomes import (
    STAGES,
    by_stage,
    is_latency_measure,
    percentile,
)
from ragbench.registry import BRIEF, find_measure, higher_is_better, perspective_of
from ragbench.statistics.columns import known_number
from ragbench.statistics.comparison import means
from ragbench.types import Dataset

if TYPE_CHECKING:
    from ragbench.evaluation.output import SystemOutput

_NO_TARGETS = Targets({}, {})


def rows_of(
    frame: pd.DataFrame,
    targets: Targets = _NO_TARGETS,
    ceilings: Mapping[str, float] = MappingProxyType({}),
) -> list[MeasureResult]:
    """Return a row for each measure of a perspective's scores, with its interval, ceiling, target
    and verdict.

    Args:
        frame: the scores; [] is returned if there are none.
        targets: the targets.
        ceilings: measure -> the best value that is possible on this test set. The ceiling of another
            measure is its best value on any test set.
    """
    if frame.empty:
        return []
    rows = []
    for mean in means(frame):
        row = MeasureResult(
            mean.measure,
            perspective_of(mean.measure) or "answer",
            known_number(mean.mean),
            known_number(mean.ci_low),
            known_number(mean.ci_high),
            mean.n_scored,
            mean.n,
            ceilings.get(mean.measure, bound_of(mean.measure)),
        )
        rows.append(compare_with_target(row, targets))
    return rows


def compare_with_target(row: MeasureResult, targets: Targets) -> MeasureResult:
    """Return the row with its target, the verdict, and `sure`.

    `sure` is True if both ends of the interval have the same verdict, False if they have not. It is
    None without an interval, or if the verdict is not "passed" or "missed".

    For ragbench's own target of pass_rate, undecided questions count as passed: they are no reason to
    fail a build. That concerns the verdict; value and interval of the row are of decided questions.
    """
    lower = not higher_is_better(row.measure)
    target = targets.measures.get(row.measure)
    value = row.value
    if row.measure == "pass_rate" and "pass_rate" in targets.defaults and value is not None:
        n_undecided = row.n - row.n_scored
        value = (value * row.n_scored + n_undecided) / row.n
    outcome = verdict(value, target, ceiling=row.ceiling, lower_is_better=lower)
    sure = None
    low, high = row.ci_low, row.ci_high
    is_decided = outcome in ("passed", "missed")
    if is_decided and target is not None and low is not None and high is not None:
        sure = reaches(low, target, lower) == reaches(high, target, lower)
    return replace(row, target=target, verdict=outcome, sure=sure, lower_is_better=lower)


def bound_of(measure: str) -> float | None:
    """Return the best possible value of a measure on any test set; None if it has none, or the
    measure is not registered.
    """
    registered = find_measure(measure)
    return None if registered is None else registered.best


def latency_of(output: SystemOutput) -> tuple[Latency, ...]:
    """Return milliseconds per stage over the answers that did not fail, compared with the budgets
    that all questions share.

    Percentiles are by nearest rank: of fewer than 20 answers the p95 is the slowest, of fewer than
    100 the p99. The verdict is "within" or "over" by the p95, "no budget" or "not measured". Stages
    are in the order in which a pipeline runs them, others after them, "total" last.
    """
    budgets = _shared_budgets(output.dataset)
    # a row per answer, a column per stage; NaN if the answer does not have the stage
    times = pd.DataFrame(
        [by_stage(answer.latency_ms) for answer in output.latency if not answer.failed]
    )
    stages = dict.fromkeys([*budgets, *map(str, times)])
    others = [stage for stage in stages if stage not in STAGES]
    order = [*STAGES[:-1], *others, STAGES[-1]]  # the last one is "total"
    rows = []
    for stage in sorted(stages, key=order.index):
        times_ms = times[stage].dropna().tolist() if stage in times else []
        row = Latency(
            stage,
            n=len(times_ms),
            p50=_latency("p50", times_ms),
            p95=_latency("p95", times_ms),
            p99=_latency("p99", times_ms),
            budget=budgets.get(stage),
            mean=_latency("mean", times_ms),
            concurrency=output.concurrency,
        )
        rows.append(replace(row, verdict=_latency_verdict(row.p95, row.budget)))
    return tuple(rows)


def _shared_budgets(dataset: Dataset) -> dict[str, float]:
    """Return stage -> latency budget in ms. A stage is left out if its questions have different budgets,
    with which the percentiles of all questions cannot be compared.
    """
    budgets: dict[str, set[float]] = {}
    for case in dataset.cases:
        for stage, ms in by_stage(case.latency_budget_ms, min).items():
            budgets.setdefault(stage, set()).add(ms)
    return {stage: float(min(values)) for stage, values in budgets.items() if len(values) == 1}


def _latency_verdict(p95: float | None, budget: float | None) -> str:
    if budget is None:
        return "no budget"
    if p95 is None:
        return "not measured"
    return "within" if p95 <= budget else "over"


def latency_rows(output: SystemOutput, targets: Targets) -> list[MeasureResult]:
    """Return a row for each latency measure that a target names (latency_p95_ms, latency_mean_ms, ...):
    the time of whole answers, without the failed ones.
    """
    times_ms = []
    for answer in output.latency:
        if "total" in answer.latency_ms and not answer.failed:
            times_ms.append(answer.latency_ms["total"])
    rows = []
    # "latency_p95_ms" -> "p95"
    for name in filter(is_latency_measure, targets.named):
        kind = name.removeprefix("latency_").removesuffix("_ms")
        value = _latency(kind, times_ms)
        n_questions = len(output.dataset.cases)
        row = MeasureResult(
            name,
            "pipeline",
            value,
            ci_low=None,
            ci_high=None,
            n_scored=len(times_ms),
            n=n_questions,
        )
        rows.append(compare_with_target(row, targets))
    return rows


def _latency(kind: str, values: Sequence[float]) -> float | None:
    """Return the mean, or a percentile such as "p95"; None without values."""
    if not values:
        return None
    if kind == "mean":
        return math.fsum(values) / len(values)
    return percentile(values, float(kind[1:]) / 100)


def is_shown(row: MeasureResult, names: Collection[str], chosen: Collection[str]) -> bool:
    """Return True if a table of measures has this row: the measure has a target, or it has a score and
    is one of `names`, was chosen by the user, or belongs in every table (measures of the user, of a
    judge, and of robustness).

    Args:
        row: of `Result.rows`.
        names: the headline measures of the table; Judged@k goes with nDCG@k.
        chosen: the measures that the user named, `Result.settings["chosen"]`.
    """
    if row.target is not None:
        return True
    if not row.n_scored:
        return False
    is_named = row.measure in chosen or headline_name(row) in names
    return is_named or _is_in_every_table(row.measure)


def headline_name(row: MeasureResult) -> str:
    """Return the measure that decides the place of a row: nDCG@k for Judged@k, which a result has if it
    is below 1.
    """
    return row.measure.replace("Judged@", "nDCG@")


def _is_in_every_table(name: str) -> bool:
    """Return True for a measure of the user or a judge, or of robustness."""
    measure = find_measure(name)  # None if it is not registered
    if measure is None:
        return False
    is_judged = measure.judged and measure.perspective == "judge"
    return measure.perspective == "own" or is_judged or measure.name.startswith("robust:")


def brief_names(settings: Mapping[str, Any]) -> set[str]:
    """Return the headline measures of a brief table, at the depth of 5, or at the greatest depth if the
    settings of an evaluation do not have this one.

    >>> "nDCG@5" in brief_names({}), "nDCG@20" in brief_names({"k": [10, 20]})
    (True, True)
    """
    depths = settings.get("k") or [5]
    depth = 5 if 5 in depths else max(depths)
    return {name.replace("@5", f"@{depth}") for name in BRIEF}
