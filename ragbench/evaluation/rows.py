"""The rows of measures: means with intervals, ceilings, targets and verdicts; latency per stage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pandas as pd

from ragbench.evaluation.records import Latency, MeasureResult, known_number
from ragbench.evaluation.targets import Targets, reaches, verdict
from ragbench.metrics.pipeline import (
    by_stage,
    is_latency_measure,
    latency_table,
    percentile,
    percentile_fraction,
)
from ragbench.registry import find_measure, higher_is_better, perspective_of
from ragbench.statistics import summarise

if TYPE_CHECKING:
    from ragbench.evaluation.requests import SystemOutput

_NO_TARGETS = Targets({}, {})


def rows_of(
    frame: pd.DataFrame,
    targets: Targets = _NO_TARGETS,
    best: Mapping[str, float] = MappingProxyType({}),
) -> list[MeasureResult]:
    """A row for each measure of a perspective's scores, with its interval, ceiling, target and
    verdict.
    """
    if frame.empty:
        return []
    rows = []
    for row in summarise(frame).to_dict("records"):
        name, counts = row["measure"], (int(row["n_scored"]), int(row["n"]))
        value, low, high = (known_number(row[column]) for column in ("mean", "ci_low", "ci_high"))
        ceiling = best.get(name, bound_of(name))
        own = MeasureResult(
            name, perspective_of(name) or "answer", value, low, high, *counts, ceiling
        )
        rows.append(compare_with_target(own, targets))
    return rows


def compare_with_target(row: MeasureResult, targets: Targets) -> MeasureResult:
    """Return the row with its target and the verdict."""
    lower, target = not higher_is_better(row.measure), targets.measures.get(row.measure)
    outcome = verdict(row.value, target, ceiling=row.ceiling, lower_is_better=lower)
    sure = None
    if (
        target is not None
        and row.ci_low is not None
        and row.ci_high is not None
        and outcome in ("passed", "missed")
    ):
        sure = reaches(row.ci_low, target, lower) == reaches(row.ci_high, target, lower)
    return replace(row, target=target, verdict=outcome, sure=sure, lower_is_better=lower)


def bound_of(measure: str) -> float | None:
    """The best possible value of a measure on any test set; None where there is none, or it is not
    known.
    """
    found = find_measure(measure)
    return None if found is None else found.best


def latency_of(answered: SystemOutput) -> tuple[Latency, ...]:
    """Milliseconds per stage, compared with the budgets that all questions share."""
    budgets: dict[str, set[float]] = {}
    for case in answered.dataset.cases:
        for stage, budget in by_stage(case.latency_budget_ms, min).items():
            budgets.setdefault(stage, set()).add(budget)
    # Percentiles over questions of different budgets can be compared with none of them.
    shared = {stage: min(values) for stage, values in budgets.items() if len(values) == 1}
    rows = latency_table(answered.latency, shared).to_dict("records")
    numbers = ("p50", "p95", "p99", "budget", "mean")
    return tuple(
        Latency(
            row["stage"],
            int(row["n"]),
            verdict=row["verdict"],
            concurrency=answered.concurrency,
            **{name: known_number(row[name]) for name in numbers},
        )
        for row in rows
    )


def latency_rows(answered: SystemOutput, targets: Targets) -> list[MeasureResult]:
    """Return latency_<pNN>_ms and latency_mean_ms of the total, those that a target names."""
    values = [
        answer.latency_ms["total"]
        for answer in answered.latency
        if "total" in answer.latency_ms and not answer.failed
    ]
    n_questions = len(answered.dataset.cases)
    return [
        compare_with_target(
            MeasureResult(
                name,
                "pipeline",
                _latency_value(name, values),
                None,
                None,
                len(values),
                n_questions,
            ),
            targets,
        )
        for name in targets.named
        if is_latency_measure(name)
    ]


def _latency_value(name: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    kind = name.removeprefix("latency_").removesuffix("_ms")
    return (
        math.fsum(values) / len(values)
        if kind == "mean"
        else percentile(values, percentile_fraction(kind))
    )
