"""What is decided about single questions: whether they pass, why not, their costs, categories,
advice, traces.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragbench.evaluation import recommend
from ragbench.evaluation.costs import costs_of
from ragbench.evaluation.judge_failures import JudgeFailures
from ragbench.evaluation.perspectives import KINDS, claims_of
from ragbench.evaluation.records import (
    Advice,
    CaseResult,
    CategoryResult,
    Cost,
    Report,
    known_number,
    score_frame,
)
from ragbench.evaluation.requests import SystemOutput
from ragbench.evaluation.results import case_of
from ragbench.evaluation.secrets import masked, masked_id
from ragbench.evaluation.targets import Targets
from ragbench.llms import cost_of
from ragbench.metrics import abstention_table
from ragbench.metrics.overall import WEIGHTS, case_reasons, score_overall
from ragbench.registry import HEADLINE
from ragbench.statistics.intervals import wilson_interval
from ragbench.types import Answer, Case, Chunk, Dataset, Judgement, chunks_by_id

OF_ANSWERS = tuple(kind.name for kind in KINDS.values() if kind.of_answers)
# Labels that answers are judged by directly, by perspective, and what leaves them out.
_LABELS: dict[str, dict[str, Any]] = {
    "answer": {"required_keywords": ()},
    "pipeline": {
        "required_flags": (),
        "forbidden_flags": (),
        "min_citations": None,
        "latency_budget_ms": {},
    },
}
_JUDGED_TOO = (
    "semantic_similarity",
    "claim_support",
)  # heuristics for what a judge decides where it was asked
_NOTHING_FOUND = "nothing relevant among the first 5 retrieved"


class CaseVerdicts(NamedTuple):
    """query_id -> whether the case passed (None = nothing to decide by), the reasons why not, and
    the scores: those of the overall, and pass_rate, 1 or 0 for each question that passed or not."""

    passed: Mapping[str, bool | None]
    reasons: Mapping[str, tuple[str, ...]]
    scores: pd.DataFrame


def decide(
    answered: SystemOutput,
    frames: Mapping[str, pd.DataFrame],
    thresholds: Mapping[str, float],
    weights: Mapping[str, float] = WEIGHTS,
    lost: Collection[str] = (),
) -> CaseVerdicts:
    """Decide every case by what was measured.

    Where answers were looked at, `failure_reasons` decides, and the scores are those of
    `score_overall`; labels of a perspective that was not measured are left out. Where only
    retrieval was, a question passes if something relevant is among the first 5.

    Args:
        answered: the answers. frames: perspective -> its scores; perspectives that could not be
        measured are not in it. thresholds: part -> what an answer must reach, as in
        `ragbench.metrics.overall.THRESHOLDS`. weights: part -> how much it counts in the overall.
        lost: the questions on whose answers the judge was asked and failed. They do not pass, and
        have no overall: a
            heuristic does not take the place of a verdict.
    """
    if not any(name in frames for name in OF_ANSWERS):
        return _by_retrieval(answered, frames.get("retrieval", score_frame([])), lost)
    scores = pd.concat(
        [frame for name, frame in frames.items() if name != "safety"], ignore_index=True
    )
    scores = scores[~(scores["query_id"].isin(lost) & scores["measure"].isin(_JUDGED_TOO))]
    dataset = answered.dataset
    for perspective, labels in _LABELS.items():
        if perspective not in frames:
            dataset = replace(dataset, cases=[replace(case, **labels) for case in dataset.cases])
    overall = score_overall(
        dataset, answered.answers, scores, thresholds=thresholds, weights=weights
    )
    of_passing, open_ = (
        overall["measure"] == "pass_rate",
        overall["query_id"].isin(lost) & (overall["value"] > 0),
    )
    overall.loc[open_ & (of_passing | (overall["measure"] == "overall")), "value"] = math.nan
    rates = overall[of_passing].set_index("query_id")["value"]
    passed = {str(one): None if math.isnan(value) else bool(value) for one, value in rates.items()}
    reasons = case_reasons(dataset, answered.answers, scores, thresholds=thresholds)
    return CaseVerdicts(
        passed, reasons, pd.concat([overall[~of_passing], overall[of_passing]], ignore_index=True)
    )


def _by_retrieval(
    answered: SystemOutput, scores: pd.DataFrame, lost: Collection[str]
) -> CaseVerdicts:
    found: dict[str, float] = {}
    for name in (
        "Success@5",
        "span:Success@5",
        "chunk:Success@5",
    ):  # the finest level that there is decides
        own = scores[scores["measure"] == name]
        found = dict(zip(own["query_id"], own["value"], strict=True)) or found
    rates = {case.query_id: found.get(case.query_id, math.nan) for case in answered.dataset.cases}
    rates |= {one: math.nan for one in lost if rates[one] > 0}
    passed = {one: None if math.isnan(value) else value > 0 for one, value in rates.items()}
    failed = {
        answer.query_id: answer.error for answer in answered.answers if answer.error is not None
    }
    reasons = {
        one: (f"failed: {failed[one]}" if one in failed else _NOTHING_FOUND,)
        for one, good in passed.items()
        if good is False
    }
    return CaseVerdicts(
        passed, reasons, score_frame((one, "pass_rate", good) for one, good in passed.items())
    )


def _scores_by_case(
    dataset: Dataset, frames: Mapping[str, pd.DataFrame]
) -> dict[str, dict[str, float | None]]:
    """query_id -> measure -> value; every case has every measure, None where it is unscored."""
    names = [name for frame in frames.values() for name in dict.fromkeys(frame["measure"])]
    scores: dict[str, dict[str, float | None]] = {
        case.query_id: dict.fromkeys(names) for case in dataset.cases
    }
    for frame in frames.values():
        for query_id, name, value in frame[["query_id", "measure", "value"]].itertuples(
            index=False, name=None
        ):
            if query_id in scores and (number := known_number(value)) is not None:
                scores[query_id][name] = number
    return scores


def cases_of(
    answered: SystemOutput,
    frames: Mapping[str, pd.DataFrame],
    decided: CaseVerdicts,
    claims: Mapping[str, Sequence[Mapping[str, Any]]],
    judgements: Sequence[Judgement],
) -> tuple[CaseResult, ...]:
    """Every question with its answer, its verdict, its scores, its doubtful claims and its cost;
    secrets masked.
    """
    scores, costs = _scores_by_case(answered.dataset, frames), _costs_by_case(answered, judgements)
    given = {answer.query_id: answer for answer in answered.answers}
    invented: dict[str, list[str]] = {}
    for judgement in judgements:
        invented.setdefault(judgement.query_id, []).extend(judgement.unsupported)
    rows = []
    for case in answered.dataset.cases:
        answer = given.get(case.query_id) or Answer(
            case.query_id, "", outcome="failed", error="no answer"
        )
        grades = answered.dataset.qrels.get(case.query_id, {})
        relevant = sorted(
            (one for one, grade in grades.items() if grade > 0), key=lambda one: -grades[one]
        )
        own = claims.get(case.query_id, ())
        # the digits of a card or phone number that is masked in its claim are no longer part of it
        numbers = [
            (str(number), one["claim"]) for one in own for number in one["fabricated_numbers"]
        ]
        rows.append(
            case_of(
                answer,
                case.text,
                scores[case.query_id],
                category=case.category,
                query_type=case.query_type,
                passed=decided.passed.get(case.query_id),
                reasons=_masked(decided.reasons.get(case.query_id, ())),
                expected_outcome=case.expected_outcome,
                relevant=tuple(map(masked_id, relevant)),
                unsupported_claims=_masked(
                    one["claim"] for one in own if one["supported"] is False
                ),
                fabricated_numbers=tuple(
                    number for number, claim in numbers if number in masked(str(claim))
                ),
                invented_claims=_masked(invented.get(case.query_id, ())),
                costs=costs.get(case.query_id, {}),
            )
        )
    return tuple(rows)


def _masked(texts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(masked(str(text)) for text in texts)


def counts_of(
    cases: Sequence[CaseResult], *, claimed: bool, failures: JudgeFailures
) -> dict[str, int]:
    """Numbers of questions passed, failed and not decided, of doubtful claims and of judgements;
    what was not measured is left out."""
    decided = [case.passed for case in cases if case.passed is not None]
    counts = {
        "passed": sum(decided),
        "failed": len(decided) - sum(decided),
        "undecided": len(cases) - len(decided),
    }
    if claimed:
        counts["unsupported_claims"] = sum(len(case.unsupported_claims) for case in cases)
        counts["fabricated_numbers"] = sum(len(case.fabricated_numbers) for case in cases)
    if failures.requested:
        counts["invented_claims"] = sum(len(case.invented_claims) for case in cases)
        counts |= {"judgements": failures.requested, "failed_judgements": failures.failed}
    return counts


def evaluation_costs(answered: SystemOutput, judgements: Sequence[Judgement]) -> tuple[Cost, ...]:
    """`costs_of`; the cost of a system that answers without reporting any tokens is unknown, not 0."""
    other = [
        one
        for source, answers in answered.ablations.items()
        if source != "actual"
        for one in answers
    ]
    again = [one for verdicts in answered.ablation_judgements.values() for one in verdicts]
    costs = costs_of(answered.answers, [*judgements, *answered.repeated, *again], other)
    if _has_known_cost(answered) or not answered.answers or not answered.has_answers:
        return costs
    failed = sum(answer.failed for answer in answered.answers)
    name = str(answered.system["name"])
    return (Cost("generator", name, len(answered.answers), failed, 0, 0, 0, None), *costs)


def _costs_by_case(
    answered: SystemOutput, judgements: Sequence[Judgement]
) -> dict[str, dict[str, float | None]]:
    """query_id -> part -> US dollars, for each part that was asked."""
    costs: dict[str, dict[str, float | None]] = {}
    for answer in answered.answers:
        if answer.usage is not None or not _has_known_cost(answered):
            costs[answer.query_id] = {
                "generator": None if answer.usage is None else cost_of(answer.usage)
            }
    for judgement in judgements:
        for reply in judgement.usage:
            own, usd = costs.setdefault(judgement.query_id, {}), cost_of(reply)
            before = own.get("judge", 0.0)
            own["judge"] = None if usd is None or before is None else before + usd
    return costs


def _has_known_cost(answered: SystemOutput) -> bool:
    return answered.system.get("kind") == "Pipeline" or any(
        answer.usage for answer in answered.answers
    )


def categories_of(cases: Sequence[CaseResult]) -> tuple[CategoryResult, ...]:
    """The questions by category, those without any left out."""
    names = list(dict.fromkeys(case.category for case in cases))
    if not any(names):
        return ()
    rows = []
    for name in names:
        own = [case for case in cases if case.category == name]
        passed = [case.passed for case in own if case.passed is not None]
        low, high = wilson_interval(np.array(passed, dtype=float), 0.05) if passed else (None, None)
        means = {
            measure: _mean([case.scores[measure] for case in own])
            for measure in own[0].scores
            if measure in HEADLINE
        }
        rate = sum(passed) / len(passed) if passed else None
        rows.append(
            CategoryResult(
                name, len(own), len(passed), rate, known_number(low), known_number(high), means
            )
        )
    return tuple(rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def advice_for(report: Report, answered: SystemOutput, targets: Targets) -> tuple[Advice, ...]:
    """What to try, from the pattern of missed targets, also of those that do not decide here."""
    summary = report.summary.rename(columns={"value": "mean"})
    best = {row.measure: row.ceiling for row in report.measures if row.ceiling is not None}
    measured = {one.name for one in report.perspectives if one.measured}
    asked = (
        answered.has_answers
        and bool(answered.dataset.cases)
        and not measured.isdisjoint(OF_ANSWERS)
    )
    found = recommend(
        summary[["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]],
        targets.measures,
        ceilings=best,
        abstentions=abstention_table(answered.dataset, answered.answers) if asked else None,
    )
    return tuple(Advice(one.title, one.cause, one.action, one.evidence) for one in found)


_DEEP = 20  # retrieved passages that a trace shows


def failure_traces(report: Report, answered: SystemOutput) -> list[dict[str, Any]]:
    """For each case that did not pass: the question with its labels, what was retrieved with scores
    and texts, the prompt where a language model was asked, the answer, its claims with their
    verdicts, the scores, the reasons.

    Plain data in the order of the cases, without NaN; secrets are masked in every text.
    """
    failed = {case.query_id: case for case in report.cases if case.passed is False}
    if not failed:
        return []
    given = {answer.query_id: answer for answer in answered.answers}
    claims: dict[str, list[dict[str, object]]] = {}
    if any(one.name == "groundedness" and one.measured for one in report.perspectives):
        claims = claims_of(answered, list(failed), report.settings["support_model"])
    traces, by_id = [], chunks_by_id(answered.chunks)
    for case in answered.dataset.cases:
        if (result := failed.get(case.query_id)) is None:
            continue
        answer = given.get(case.query_id) or Answer(
            case.query_id, "", outcome="failed", error="no answer"
        )
        trace = {
            "query_id": case.query_id,
            "query": case.text,
            "category": case.category,
            "reasons": list(result.reasons),
            "labels": _labels(case, answered),
            "retrieved": _retrieved(answer, answered, by_id),
            "context": list(answer.contexts),
            "prompt": answered.prompts.get(case.query_id),
            "answer": answer.text,
            "outcome": answer.outcome,
            "error": answer.error,
            "citations": list(answer.citations),
            "flags": list(answer.flags),
            "latency_ms": dict(answer.latency_ms),
            "claims": [_masked_claim(claim) for claim in claims.get(case.query_id, [])],
            "scores": dict(result.scores),
        }
        traces.append({name: _plain(value) for name, value in trace.items()})
    return traces


def _masked_claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The claim without the fabricated numbers that are masked in its text, such as card or phone
    numbers.
    """
    left = masked(str(claim["claim"]))
    return {
        **claim,
        "fabricated_numbers": [one for one in claim["fabricated_numbers"] if str(one) in left],
    }


def _labels(case: Case, answered: SystemOutput) -> dict[str, Any]:
    own = {name: value for name, value in asdict(case).items() if value not in ("", None, (), {})}
    own = {
        name: value
        for name, value in own.items()
        if name not in ("query_id", "text", "category", "metadata")
    }
    return {**own, "relevant_documents": dict(answered.dataset.qrels.get(case.query_id, {}))}


def _retrieved(
    answer: Answer, answered: SystemOutput, by_id: Mapping[str, Chunk]
) -> list[dict[str, Any]]:
    scores: Mapping[str, float] = answered.ranking.get(answer.query_id, {})
    own = {
        passage.passage_id: passage.score
        for passage in answer.passages
        if passage.score is not None
    }
    ranked = sorted(scores, key=lambda one: -scores[one])[:_DEEP]
    texts = {one: (found.doc_id, found.text) for one in ranked if (found := by_id.get(one))}
    texts |= {passage.passage_id: (passage.doc_id, passage.text) for passage in answer.passages}
    return [
        {
            "rank": rank,
            "id": one,
            "doc_id": texts.get(one, ("", ""))[0],
            "score": own.get(one, scores[one]),
            "in_context": one in answer.contexts,
            "text": texts.get(one, ("", None))[1],
        }
        for rank, one in enumerate(ranked, 1)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    return masked(str(value))
