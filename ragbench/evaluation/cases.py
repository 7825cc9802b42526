"""What is decided about single questions: whether they pass, why not, their costs, categories,
advice, traces.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from ragbench.evaluation.costs import costs_of
from ragbench.evaluation.perspectives import KINDS
from ragbench.evaluation.recommendations import recommend
from ragbench.evaluation.records import (
    Advice,
    Cost,
    score_frame,
)
from ragbench.evaluation.requests import SystemOutput
from ragbench.evaluation.result import Result
from ragbench.evaluation.rows import compare_with_target
from ragbench.evaluation.secrets import masked, masked_id
from ragbench.evaluation.targets import Targets
from ragbench.llms import cost_of
from ragbench.metrics import abstention_table
from ragbench.metrics.overall import WEIGHTS, decide_overall
from ragbench.types import grouped

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
    `decide_overall`; labels of a perspective that was not measured are left out. Where only
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
    overall, reasons = decide_overall(
        dataset, answered.answers, scores, thresholds=thresholds, weights=weights
    )
    of_passing, open_ = (
        overall["measure"] == "pass_rate",
        overall["query_id"].isin(lost) & (overall["value"] > 0),
    )
    overall.loc[open_ & (of_passing | (overall["measure"] == "overall")), "value"] = math.nan
    rates = overall[of_passing].set_index("query_id")["value"]
    passed = {
        str(query_id): None if math.isnan(value) else bool(value)
        for query_id, value in rates.items()
    }
    return CaseVerdicts(
        passed, reasons, pd.concat([overall[~of_passing], overall[of_passing]], ignore_index=True)
    )


def _by_retrieval(
    answered: SystemOutput, scores: pd.DataFrame, lost: Collection[str]
) -> CaseVerdicts:
    values: dict[str, float] = {}
    for name in (
        "Success@5",
        "span:Success@5",
        "chunk:Success@5",
    ):  # the finest level that there is decides
        part = scores[scores["measure"] == name]
        values = dict(zip(part["query_id"], part["value"], strict=True)) or values
    rates = {case.query_id: values.get(case.query_id, math.nan) for case in answered.dataset.cases}
    rates |= {query_id: math.nan for query_id in lost if rates[query_id] > 0}
    passed = {
        query_id: None if math.isnan(value) else value > 0 for query_id, value in rates.items()
    }
    failed = {
        answer.query_id: answer.error for answer in answered.answers if answer.error is not None
    }
    reasons = {
        query_id: (f"failed: {failed[query_id]}" if query_id in failed else _NOTHING_FOUND,)
        for query_id, good in passed.items()
        if good is False
    }
    return CaseVerdicts(
        passed,
        reasons,
        score_frame((query_id, "pass_rate", good) for query_id, good in passed.items()),
    )


def plain_verdicts(
    output: SystemOutput,
    verdicts: CaseVerdicts,
    claims: pd.DataFrame | None,
) -> dict[str, dict[str, Any]]:
    """Return what is decided or labelled of each question, for `Decisions.verdicts`; secrets
    masked, empty fields left out.
    """
    costs = _costs_by_case(output)
    rows = [] if claims is None else claims.to_dict("records")
    doubts = grouped(rows, lambda row: str(row["query_id"]))
    invented: dict[str, list[str]] = {}
    for judgement in output.judgements or ():
        invented.setdefault(judgement.query_id, []).extend(judgement.unsupported)
    plain = {}
    for case in output.dataset.cases:
        grades = output.dataset.qrels.get(case.query_id, {})
        relevant = sorted(
            (doc_id for doc_id in grades if grades[doc_id] > 0), key=lambda doc_id: -grades[doc_id]
        )
        checked = doubts.get(case.query_id, ())
        # the digits of a card or phone number that is masked in its claim are no longer part of it
        numbers = tuple(
            str(number)
            for doubt in checked
            for number in doubt["fabricated_numbers"]
            if str(number) in masked(str(doubt["claim"]))
        )
        decided = {
            "passed": verdicts.passed.get(case.query_id),
            "category": case.category,
            "query_type": case.query_type,
            "expected_outcome": case.expected_outcome,
            "reasons": _masked(verdicts.reasons.get(case.query_id, ())),
            "relevant": tuple(map(masked_id, relevant)),
            "unsupported_claims": _masked(
                doubt["claim"] for doubt in checked if doubt["supported"] is False
            ),
            "fabricated_numbers": numbers,
            "invented_claims": _masked(invented.get(case.query_id, ())),
            "costs": costs.get(case.query_id, {}),
        }
        plain[case.query_id] = {
            name: value for name, value in decided.items() if value not in (None, "", (), {})
        }
    return plain


def _masked(texts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(masked(str(text)) for text in texts)


def evaluation_costs(answered: SystemOutput) -> tuple[Cost, ...]:
    """Return `costs_of`; a system that answers without reporting tokens has an unknown cost, not 0."""
    other = [answer for variation in answered.variations.values() for answer in variation.answers]
    again = [answer for verdicts in answered.variation_judgements.values() for answer in verdicts]
    judged = [*(answered.judgements or ()), *again]
    costs = costs_of(answered.answers, judged, other)
    if _has_known_cost(answered) or not answered.answers or not answered.has_answers:
        return costs
    failed = sum(answer.failed for answer in answered.answers)
    name = str(answered.system["name"])
    return (Cost("generator", name, len(answered.answers), failed, 0, 0, 0, None), *costs)


def _costs_by_case(answered: SystemOutput) -> dict[str, dict[str, float | None]]:
    """Return query_id -> part -> US dollars, for each part that was asked."""
    costs: dict[str, dict[str, float | None]] = {}
    is_known = _has_known_cost(answered)
    for answer in answered.answers:
        if answer.usage is not None or not is_known:
            costs[answer.query_id] = {
                "generator": None if answer.usage is None else cost_of(answer.usage)
            }
    for judgement in answered.judgements or ():
        for reply in judgement.usage:
            by_part, usd = costs.setdefault(judgement.query_id, {}), cost_of(reply)
            before = by_part.get("judge", 0.0)
            by_part["judge"] = None if usd is None or before is None else before + usd
    return costs


def _has_known_cost(answered: SystemOutput) -> bool:
    return answered.system.get("kind") == "Pipeline" or any(
        answer.usage for answer in answered.answers
    )


def advice_for(result: Result, answered: SystemOutput, targets: Targets) -> tuple[Advice, ...]:
    """Return what to try, from the pattern of missed targets, also of those that do not decide
    here.
    """
    measured = {state.name for state in result.perspectives if state.measured}
    abstentions = None
    if answered.has_answers and answered.dataset.cases and not measured.isdisjoint(OF_ANSWERS):
        abstentions = abstention_table(answered.dataset, answered.answers)
    return recommend((compare_with_target(row, targets) for row in result.rows), abstentions)
