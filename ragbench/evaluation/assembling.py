"""The parts of a report, from scores and answers: measures, cases, categories, latency, advice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragbench.diagnosis import recommend
from ragbench.evaluation.answering import Answered
from ragbench.evaluation.cases import Decided
from ragbench.evaluation.masking import masked, masked_id
from ragbench.evaluation.targets import Targets, reaches, verdict
from ragbench.metrics import higher_is_better
from ragbench.metrics.pipeline import outcome_of
from ragbench.report.evaluation import (
    HEADLINE,
    Advice,
    CaseResult,
    CategoryResult,
    Latency,
    MeasureResult,
    Perspective,
    Report,
    perspective_of,
)
from ragbench.scoring import abstention_table
from ragbench.scoring.pipeline import latency_table
from ragbench.statistics import summarise
from ragbench.types import Answer, Dataset

if TYPE_CHECKING:
    import pandas as pd

# Not bounded by 1, or by something that depends on the chunks.
_NO_CEILING = ("span_precision", "span_iou")


def scores_by_case(dataset: Dataset, frames: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, float | None]]:
    """query_id -> measure -> value; every case has every measure, None where it is unscored."""
    names = [name for frame in frames.values() for name in dict.fromkeys(frame["measure"])]
    scores: dict[str, dict[str, float | None]] = {case.query_id: dict.fromkeys(names) for case in dataset.cases}
    for frame in frames.values():
        for query_id, name, value in frame[["query_id", "measure", "value"]].itertuples(index=False, name=None):
            if query_id in scores and value is not None and math.isfinite(value):
                scores[query_id][name] = float(value)
    return scores


def overall_frame(decided: Decided) -> pd.DataFrame:
    """The scores of the overall, and 1 or 0 for each question that passed or not."""
    import pandas as pd

    rows = [(one, "pass_rate", math.nan if good is None else float(good)) for one, good in decided.passed.items()]
    passed = pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": "float64"})
    return pd.concat([decided.scores, passed], ignore_index=True) if len(decided.scores) else passed


def overall_state(decided: Decided) -> Perspective:
    """Whether anything decides if a question passes."""
    known = any(passed is not None for passed in decided.passed.values())
    return Perspective("overall", known, "" if known else "nothing decides whether a question passes")


def rows_of(frame: pd.DataFrame, targets: Targets, best: Mapping[str, float]) -> list[MeasureResult]:
    """A row for each measure of a perspective's scores, with its interval, its ceiling and what its target says."""
    if frame.empty:
        return []
    rows = []
    for row in summarise(frame).to_dict("records"):
        name = row["measure"]
        plain = MeasureResult(
            measure=name,
            perspective=perspective_of(name) or "answer",
            value=_number(row["mean"]),
            ci_low=_number(row["ci_low"]),
            ci_high=_number(row["ci_high"]),
            n_scored=int(row["n_scored"]),
            n=int(row["n"]),
            ceiling=_ceiling(name, best, _number(row["mean"])),
        )
        rows.append(aimed(plain, targets))
    return rows


def aimed(row: MeasureResult, targets: Targets) -> MeasureResult:
    """The row with its target and what that says of it."""
    lower, target = not higher_is_better(row.measure), targets.measures.get(row.measure)
    said = verdict(row.value, target, ceiling=row.ceiling, lower_is_better=lower)
    sure = None
    if target is not None and row.ci_low is not None and row.ci_high is not None and said in ("passed", "missed"):
        sure = reaches(row.ci_low, target, lower) == reaches(row.ci_high, target, lower)
    return replace(row, target=target, verdict=said, sure=sure, lower_is_better=lower)


def _ceiling(name: str, best: Mapping[str, float], value: float | None) -> float | None:
    """What can be reached at best; a value above what was expected shows that it can be."""
    found = best.get(name, bound_of(name))
    return found if found is None or value is None or name not in best else max(found, value)


def bound_of(measure: str) -> float | None:
    """The best value of a measure whatever the test set: 1, or 0 where lower is better; None where it is not known."""
    if measure == "fact_dispersion":
        return 1.0
    if not higher_is_better(measure):
        return 0.0 if "latency" not in measure else None
    return None if measure.startswith(_NO_CEILING) else 1.0


def cases_of(
    answered: Answered,
    scores: Mapping[str, Mapping[str, float | None]],
    decided: Decided,
) -> tuple[CaseResult, ...]:
    """Every question with its answer, its verdict and its scores; secrets masked."""
    given = {answer.query_id: answer for answer in answered.answers}
    rows = []
    for case in answered.dataset.cases:
        answer = given.get(case.query_id) or Answer(case.query_id, "", outcome="failed", error="no answer")
        grades = answered.dataset.qrels.get(case.query_id, {})
        rows.append(
            CaseResult(
                query_id=case.query_id,
                question=case.text,
                category=case.category,
                query_type=case.query_type,
                passed=decided.passed.get(case.query_id),
                reasons=tuple(masked(reason) for reason in decided.reasons.get(case.query_id, ())),
                outcome=outcome_of(answer),
                expected_outcome=case.expected_outcome,
                answer=masked(answer.text),
                retrieved=tuple(map(masked_id, answer.contexts)),
                relevant=tuple(
                    masked_id(one)
                    for one in sorted((one for one, grade in grades.items() if grade > 0), key=lambda one: -grades[one])
                ),
                scores=scores[case.query_id],
            )
        )
    return tuple(rows)


def categories_of(cases: Sequence[CaseResult]) -> tuple[CategoryResult, ...]:
    """The questions by category, those without any left out."""
    names = list(dict.fromkeys(case.category for case in cases))
    if not any(names):
        return ()
    import numpy as np

    from ragbench.statistics.intervals import wilson_interval

    rows = []
    for name in names:
        own = [case for case in cases if case.category == name]
        passed = [case.passed for case in own if case.passed is not None]
        low, high = wilson_interval(np.array(passed, dtype=float), 0.05) if passed else (None, None)
        means = {
            measure: _mean([case.scores[measure] for case in own]) for measure in own[0].scores if measure in HEADLINE
        }
        rate = sum(passed) / len(passed) if passed else None
        rows.append(CategoryResult(name, len(own), len(passed), rate, _number(low), _number(high), means))
    return tuple(rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _number(value: Any) -> float | None:
    import pandas as pd

    return None if value is None or pd.isna(value) else float(value)


def latency_of(answered: Answered) -> tuple[Latency, ...]:
    """Milliseconds per stage; budgets are held where all questions share them."""
    budgets: dict[str, set[float]] = {}
    for case in answered.dataset.cases:
        for stage, budget in case.latency_budget_ms.items():
            budgets.setdefault(stage, set()).add(budget)
    # Percentiles over questions of different budgets can be held against none of them.
    shared = {stage: min(values) for stage, values in budgets.items() if len(values) == 1}
    rows = latency_table(answered.latency, shared).to_dict("records")
    return tuple(
        Latency(
            stage=row["stage"],
            n=int(row["n"]),
            **{name: _number(row[name]) for name in ("p50", "p95", "p99", "budget")},
            verdict=row["verdict"],
        )
        for row in rows
    )


def advice_for(report: Report, answered: Answered) -> tuple[Advice, ...]:
    """What to try, from the pattern of missed targets."""
    summary = report.summary.rename(columns={"value": "mean"})
    best = {row.measure: row.ceiling for row in report.measures if row.ceiling is not None}
    asked = answered.has_answers and bool(answered.dataset.cases)
    found = recommend(
        summary[["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]],
        {row.measure: row.target for row in report.measures if row.target is not None},
        ceilings=best,
        abstentions=abstention_table(answered.dataset, answered.answers) if asked else None,
    )
    return tuple(Advice(one.title, one.cause, one.action, one.evidence) for one in found)
