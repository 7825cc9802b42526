"""The parts of a report, from scores and answers: measures, cases, categories, latency, advice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ragbench.diagnosis import recommend
from ragbench.evaluation.answering import Answered
from ragbench.evaluation.cases import OF_ANSWERS, Decided
from ragbench.evaluation.costs import costs_of
from ragbench.evaluation.masking import masked, masked_id
from ragbench.evaluation.records import (
    Advice,
    CaseResult,
    CategoryResult,
    Cost,
    Latency,
    MeasureResult,
    Perspective,
    Report,
)
from ragbench.evaluation.targets import Targets, reaches, verdict
from ragbench.llms import cost_of
from ragbench.metrics.pipeline import (
    by_stage,
    is_latency_measure,
    outcome_of,
    percentile,
    percentile_fraction,
    split_budget,
)
from ragbench.registry import HEADLINE, find_measure, higher_is_better, perspective_of
from ragbench.scoring import abstention_table
from ragbench.scoring.pipeline import latency_table
from ragbench.statistics import summarise
from ragbench.types import Answer, Dataset, Judgement


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
    rows = [(one, "pass_rate", math.nan if good is None else float(good)) for one, good in decided.passed.items()]
    passed = pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": "float64"})
    return pd.concat([decided.scores, passed], ignore_index=True) if len(decided.scores) else passed


def overall_state(decided: Decided) -> Perspective:
    """Whether anything decides if a question passes."""
    known = any(passed is not None for passed in decided.passed.values())
    return Perspective("overall", known, "" if known else "nothing decides whether a question passes")


def rows_of(frame: pd.DataFrame, targets: Targets, best: Mapping[str, float]) -> list[MeasureResult]:
    """A row for each measure of a perspective's scores, with its interval, ceiling, target and verdict."""
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


def unmeasured(name: str, dataset: Dataset) -> MeasureResult:
    """The row of a measure that has no value."""
    return MeasureResult(name, perspective_of(name), None, None, None, 0, len(dataset.cases))


def aimed(row: MeasureResult, targets: Targets) -> MeasureResult:
    """The row with its target and the verdict."""
    lower, target = not higher_is_better(row.measure), targets.measures.get(row.measure)
    outcome = verdict(row.value, target, ceiling=row.ceiling, lower_is_better=lower)
    sure = None
    if target is not None and row.ci_low is not None and row.ci_high is not None and outcome in ("passed", "missed"):
        sure = reaches(row.ci_low, target, lower) == reaches(row.ci_high, target, lower)
    return replace(row, target=target, verdict=outcome, sure=sure, lower_is_better=lower)


def _ceiling(name: str, best: Mapping[str, float], value: float | None) -> float | None:
    """What can be reached at best; a value above what was expected shows that it can be."""
    found = best.get(name, bound_of(name))
    return found if found is None or value is None or name not in best else max(found, value)


def bound_of(measure: str) -> float | None:
    """The best possible value of a measure on any test set; None where there is none, or it is not known."""
    found = find_measure(measure)
    return None if found is None else found.best


def cases_of(
    answered: Answered,
    scores: Mapping[str, Mapping[str, float | None]],
    decided: Decided,
    claims: Mapping[str, Sequence[Mapping[str, Any]]],
    judgements: Sequence[Judgement],
    costs: Mapping[str, Mapping[str, float | None]],
) -> tuple[CaseResult, ...]:
    """Every question with its answer, its verdict, its scores, its doubtful claims and its cost; secrets masked."""
    given = {answer.query_id: answer for answer in answered.answers}
    invented: dict[str, list[str]] = {}
    for judgement in judgements:
        invented.setdefault(judgement.query_id, []).extend(judgement.unsupported)
    rows = []
    for case in answered.dataset.cases:
        answer = given.get(case.query_id) or Answer(case.query_id, "", outcome="failed", error="no answer")
        grades = answered.dataset.qrels.get(case.query_id, {})
        own = claims.get(case.query_id, ())
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
                unsupported_claims=_masked(one["claim"] for one in own if one["supported"] is False),
                fabricated_numbers=tuple(
                    # the digits of a card or phone number that is masked in its claim are no longer part of it
                    str(number)
                    for one in own
                    for number in one["fabricated_numbers"]
                    if str(number) in masked(str(one["claim"]))
                ),
                invented_claims=_masked(invented.get(case.query_id, ())),
                costs=costs.get(case.query_id, {}),
            )
        )
    return tuple(rows)


def _masked(texts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(masked(str(text)) for text in texts)


def counts_of(cases: Sequence[CaseResult], *, claimed: bool, judged: bool) -> dict[str, int]:
    """Numbers of questions passed, failed and not decided, of doubtful claims; what was not measured is left out."""
    decided = [case.passed for case in cases if case.passed is not None]
    counts = {"passed": sum(decided), "failed": len(decided) - sum(decided), "undecided": len(cases) - len(decided)}
    if claimed:
        counts["unsupported_claims"] = sum(len(case.unsupported_claims) for case in cases)
        counts["fabricated_numbers"] = sum(len(case.fabricated_numbers) for case in cases)
    if judged:
        counts["invented_claims"] = sum(len(case.invented_claims) for case in cases)
    return counts


def evaluation_costs(answered: Answered, judgements: Sequence[Judgement]) -> tuple[Cost, ...]:
    """`costs_of`; the cost of a system that answers without reporting any tokens is unknown, not 0."""
    other = [one for source, answers in answered.ablations.items() if source != "actual" for one in answers]
    again = [one for verdicts in answered.ablation_judgements.values() for one in verdicts]
    costs = costs_of(answered.answers, [*judgements, *answered.repeated, *again], other)
    if _has_known_cost(answered) or not answered.answers or not answered.has_answers:
        return costs
    failed = sum(answer.failed for answer in answered.answers)
    name = str(answered.system["name"])
    return (Cost("generator", name, len(answered.answers), failed, 0, 0, 0, None), *costs)


def costs_by_case(answered: Answered, judgements: Sequence[Judgement]) -> dict[str, dict[str, float | None]]:
    """query_id -> part -> US dollars, for each part that was asked."""
    costs: dict[str, dict[str, float | None]] = {}
    for answer in answered.answers:
        if answer.usage is not None or not _has_known_cost(answered):
            costs[answer.query_id] = {"generator": None if answer.usage is None else cost_of(answer.usage)}
    for judgement in judgements:
        for reply in judgement.usage:
            own, usd = costs.setdefault(judgement.query_id, {}), cost_of(reply)
            before = own.get("judge", 0.0)
            own["judge"] = None if usd is None or before is None else before + usd
    return costs


def _has_known_cost(answered: Answered) -> bool:
    return answered.system.get("kind") == "Pipeline" or any(answer.usage for answer in answered.answers)


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
    return None if value is None or pd.isna(value) else float(value)


def latency_of(answered: Answered) -> tuple[Latency, ...]:
    """Milliseconds per stage, compared with the budgets that all questions share."""
    budgets: dict[str, set[float]] = {}
    for case in answered.dataset.cases:
        for stage, budget in by_stage(case.latency_budget_ms, min).items():
            budgets.setdefault(stage, set()).add(budget)
    # Percentiles over questions of different budgets can be compared with none of them.
    shared = {stage: min(values) for stage, values in budgets.items() if len(values) == 1}
    rows = latency_table(answered.latency, shared).to_dict("records")
    return tuple(
        Latency(
            stage=row["stage"],
            n=int(row["n"]),
            **{name: _number(row[name]) for name in ("p50", "p95", "p99", "budget")},
            verdict=row["verdict"],
            mean=_number(row["mean"]),
            concurrency=answered.concurrency,
        )
        for row in rows
    )


def latency_rows(answered: Answered, targets: Targets) -> list[MeasureResult]:
    """latency_<pNN>_ms and latency_mean_ms of the total: those that a budget of the test set or a target names.

    Each is over the questions that share the budget; of several budgets, the one that is missed most.
    """
    totals = {
        answer.query_id: answer.latency_ms["total"]
        for answer in answered.latency
        if "total" in answer.latency_ms and not answer.failed
    }
    every = [case.query_id for case in answered.dataset.cases]
    wanted: dict[tuple[str, float], list[str]] = {}
    for case in answered.dataset.cases:
        for name, budget in split_budget(case.latency_budget_ms)[1].items():
            if f"latency_{name}_ms" not in targets.named:
                wanted.setdefault((f"latency_{name}_ms", budget), []).append(case.query_id)
    wanted |= {(name, targets.measures[name]): every for name in targets.named if is_latency_measure(name)}
    rows: dict[str, MeasureResult] = {}
    for (name, target), query_ids in wanted.items():
        values = [totals[query_id] for query_id in query_ids if query_id in totals]
        row = MeasureResult(name, "pipeline", _latency_value(name, values), None, None, len(values), len(query_ids))
        row = aimed(row, replace(targets, measures={name: target}))
        if name not in rows or _excess(row) > _excess(rows[name]):
            rows[name] = row
    return list(rows.values())


def _excess(row: MeasureResult) -> float:
    return -math.inf if row.value is None or row.target is None else row.value - row.target


def _latency_value(name: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    kind = name.removeprefix("latency_").removesuffix("_ms")
    return math.fsum(values) / len(values) if kind == "mean" else percentile(values, percentile_fraction(kind))


def advice_for(report: Report, answered: Answered, targets: Targets) -> tuple[Advice, ...]:
    """What to try, from the pattern of missed targets, also of those that do not decide here."""
    summary = report.summary.rename(columns={"value": "mean"})
    best = {row.measure: row.ceiling for row in report.measures if row.ceiling is not None}
    measured = {one.name for one in report.perspectives if one.measured}
    asked = answered.has_answers and bool(answered.dataset.cases) and not measured.isdisjoint(OF_ANSWERS)
    found = recommend(
        summary[["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]],
        targets.measures,
        ceilings=best,
        abstentions=abstention_table(answered.dataset, answered.answers) if asked else None,
    )
    return tuple(Advice(one.title, one.cause, one.action, one.evidence) for one in found)
