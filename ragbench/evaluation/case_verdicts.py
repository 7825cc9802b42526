"""Verdicts on single questions: whether and why they fail, their costs, categories, advice, traces."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from ragbench.evaluation.causes import CAUSES
from ragbench.evaluation.output import SystemOutput
from ragbench.evaluation.perspectives import KINDS
from ragbench.evaluation.recommendations import recommend
from ragbench.evaluation.records import Advice, Cost, added, costs_of
from ragbench.evaluation.result import Result
from ragbench.evaluation.rows import compare_with_target
from ragbench.evaluation.targets import Targets
from ragbench.groups import grouped
from ragbench.llms import cost_of
from ragbench.metrics import abstention_table
from ragbench.metrics.overall import decide_overall
from ragbench.metrics.safety.leakage import masked, masked_id
from ragbench.metrics.tidy import relevant_ids, score_frame, tidy
from ragbench.testsets.composition import evidence_words, origin_of, wording_overlaps
from ragbench.types import Dataset

OF_ANSWERS = tuple(kind.name for kind in KINDS.values() if kind.of_answers)
# What leaves out the labels by which the perspective "pipeline" judges answers directly.
_UNLABELLED: dict[str, Any] = {
    "required_flags": (),
    "forbidden_flags": (),
    "min_citations": None,
    "latency_budget_ms": {},
}
_JUDGED_TOO = (
    "semantic_similarity",
    "claim_support",
)  # heuristics; a judge decides in their place
_SUCCESS = ("chunk:Success@5", "span:Success@5", "Success@5")  # the first that was measured decides
_NOTHING_FOUND = "nothing relevant among the first 5 retrieved"


def decide(
    answered: SystemOutput,
    frames: Mapping[str, pd.DataFrame],
    thresholds: Mapping[str, float],
    weights: Mapping[str, float],
    lost: Collection[str],
) -> tuple[pd.DataFrame, Mapping[str, tuple[str, ...]]]:
    """Decide whether each question passes.

    If answers were evaluated, `failure_reasons` decides, and the scores come from `decide_overall`;
    labels of a perspective that was not measured are left out. If only retrieval was evaluated, a
    question passes if something relevant is among the first 5.

    Args:
        answered: the answers.
        frames: perspective -> its scores; perspectives that could not be measured are not in it.
        thresholds: part -> the value that an answer must reach, as in `ragbench.metrics.overall.THRESHOLDS`.
        weights: part -> how much it counts in the overall.
        lost: the questions on whose answers the judge was asked and failed. They are not decided, and
            have no overall: a heuristic does not take the place of a verdict.

    Returns:
        The scores of the overall, among them pass_rate (1: passed, 0: not, NaN: nothing decides); and
        query_id -> the reasons why a question did not pass.
    """
    if not any(name in frames for name in OF_ANSWERS):
        return _by_retrieval(answered, frames.get("retrieval", score_frame(())), lost)
    deciding_frames = [frame for name, frame in frames.items() if name != "safety"]
    scores = pd.concat(deciding_frames, ignore_index=True)
    is_heuristic = scores["measure"].isin(_JUDGED_TOO)
    scores = scores[~(scores["query_id"].isin(lost) & is_heuristic)]
    left_out: dict[str, Any] = {}  # labels that are emptied, so that they decide nothing
    if "pipeline" not in frames:
        left_out |= _UNLABELLED
    if "answer" not in frames:
        left_out["required_keywords"] = ()
    cases = [replace(case, **left_out) for case in answered.dataset.cases]
    overall, reasons = decide_overall(
        replace(answered.dataset, cases=cases),
        answered.answers,
        scores,
        thresholds=thresholds,
        weights=weights,
    )
    is_lost = overall["query_id"].isin(lost) & overall["measure"].isin(["pass_rate", "overall"])
    overall.loc[is_lost, "value"] = math.nan
    return overall, {query_id: texts for query_id, texts in reasons.items() if query_id not in lost}


def _by_retrieval(
    answered: SystemOutput, scores: pd.DataFrame, lost: Collection[str]
) -> tuple[pd.DataFrame, Mapping[str, tuple[str, ...]]]:
    """Decide every question by whether something relevant is among the first 5. A question without a
    score, or whose judge failed (`lost`), has the pass_rate NaN.

    Returns:
        The scores, with pass_rate alone; and query_id -> the reason why a question did not pass.
    """
    measured = set(scores["measure"])
    finest = [name for name in _SUCCESS if name in measured][:1]
    rates = scores[scores["measure"].isin(finest)].set_index("query_id")["value"]
    rates = rates.reindex([case.query_id for case in answered.dataset.cases])
    rates = rates.mask(rates.index.isin(lost))
    errors = {}
    for answer in answered.answers:
        if answer.error is not None:
            errors[answer.query_id] = f"failed: {answer.error}"
    reasons = {}
    for query_id in rates.index[rates == 0]:
        reasons[query_id] = (errors.get(query_id, _NOTHING_FOUND),)
    passed = (rates > 0).astype(float).where(rates.notna())
    return tidy([*passed.index], ["pass_rate"], passed), reasons


def plain_verdicts(
    output: SystemOutput,
    passed: pd.Series[float],
    reasons: Mapping[str, tuple[str, ...]],
    claims: pd.DataFrame | None,
) -> dict[str, dict[str, Any]]:
    """Return query_id -> decisions and labels of the question, for `Decisions.verdicts`; secrets are
    masked and empty fields left out.
    """
    costs = _costs_by_case(output)
    claim_rows = [] if claims is None else claims.to_dict("records")
    claims_of = grouped(claim_rows, lambda row: str(row["query_id"]))
    judgements_of = grouped(output.judgements, lambda judgement: judgement.query_id)
    overlaps = wording_overlaps(output.dataset)
    lengths = evidence_words(output.dataset)
    verdicts = {}
    for case in output.dataset.cases:
        query_id = case.query_id
        value = passed.get(query_id, math.nan)
        checked_claims = claims_of.get(query_id, ())
        judgements = judgements_of.get(query_id, ())
        relevant = relevant_ids(output.dataset.qrels.get(query_id, {}))
        verdict = {
            "passed": None if math.isnan(value) else bool(value),
            "category": case.category,
            "query_type": case.query_type,
            "expected_outcome": case.expected_outcome,
            "reasons": _masked(reasons.get(query_id, ())),
            "relevant": tuple(map(masked_id, relevant)),
            "unsupported_claims": _masked(
                claim["claim"] for claim in checked_claims if claim["supported"] is False
            ),
            "fabricated_numbers": _fabricated_numbers(checked_claims),
            "invented_claims": _masked(
                claim for judgement in judgements for claim in judgement.unsupported
            ),
            "costs": costs.get(query_id, {}),
            "wording_overlap": overlaps.get(query_id),
            "evidence_words": lengths.get(query_id),
        }
        origin = origin_of(case)
        if origin != "people":
            verdict["origin"] = origin
        verdicts[query_id] = _without_empty(verdict)
    return verdicts


def _fabricated_numbers(claims: Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """Return the fabricated numbers of checked claims, without the digits of a card or phone number
    that is masked in its claim.
    """
    numbers = []
    for claim in claims:
        visible = masked(str(claim["claim"]))
        for number in map(str, claim["fabricated_numbers"]):
            if number in visible:
                numbers.append(number)
    return tuple(numbers)


def _without_empty(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in verdict.items() if value not in (None, "", (), {})}


def _masked(texts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(masked(str(text)) for text in texts)


def evaluation_costs(answered: SystemOutput) -> tuple[Cost, ...]:
    """Return `costs_of`; a system that answers without reporting tokens has an unknown cost, not 0."""
    other = [answer for variation in answered.variations.values() for answer in variation.answers]
    judged = chain(answered.judgements, *answered.variation_judgements.values())
    costs = costs_of(answered.answers, [*judged], other, answered.step_usage)
    if _has_known_cost(answered) or not answered.answers or not answered.has_answers:
        return costs
    failed = sum(answer.failed for answer in answered.answers)
    name = str(answered.system["name"])
    return (Cost("generator", name, len(answered.answers), failed, 0, 0, None), *costs)


def _costs_by_case(answered: SystemOutput) -> dict[str, dict[str, float | None]]:
    """Return query_id -> part ("generator", "judge") -> US dollars, for each part that was asked; None
    where the price is not known.
    """
    costs: dict[str, dict[str, float | None]] = {}
    is_known = _has_known_cost(answered)
    for answer in answered.answers:
        if answer.usage is not None or not is_known:
            usd = None if answer.usage is None else cost_of(answer.usage)
            costs[answer.query_id] = {"generator": usd}
    for query_id, judgements in grouped(answered.judgements, lambda one: one.query_id).items():
        amounts = [cost_of(reply) for judgement in judgements for reply in judgement.usage]
        if amounts:
            costs.setdefault(query_id, {})["judge"] = added(amounts)
    return costs


def _has_known_cost(answered: SystemOutput) -> bool:
    """Return True for a pipeline, and for a system that reports the tokens of an answer."""
    if answered.system.get("kind") == "Pipeline":
        return True
    return any(answer.usage for answer in answered.answers)


def advice_for(result: Result, answered: SystemOutput, targets: Targets) -> tuple[Advice, ...]:
    """Return what to try, from the pattern of missed targets, also of those that do not decide
    here.
    """
    measured = {state.name for state in result.perspectives if state.measured}
    abstentions = None
    if answered.has_answers and answered.dataset.cases and not measured.isdisjoint(OF_ANSWERS):
        abstentions = abstention_table(answered.dataset, answered.answers)
    rows = (compare_with_target(row, targets) for row in result.rows)
    never_retrieved = _never_retrieved(result, answered.dataset)
    return recommend(rows, abstentions, _failing(result), never_retrieved)


def _never_retrieved(result: Result, dataset: Dataset) -> list[str]:
    """State which types of files no question retrieved although failed questions need them; [] if
    every type that is needed was retrieved.
    """
    if result.diagnosis is None:
        return []
    failed = {*result.diagnosis.loc[result.diagnosis["failed"], "query_id"]}
    endings_retrieved = {_ending(doc_id) for ranking in result.run.values() for doc_id in ranking}
    if not endings_retrieved:
        return []
    needing: dict[str, list[str]] = {}
    for case in dataset.cases:
        grades = dataset.qrels.get(case.query_id, {})
        needed = {doc_id for doc_id, grade in grades.items() if grade > 0}
        needed |= {span.doc_id for span in case.evidence}
        endings = {_ending(doc_id) for doc_id in needed}
        for ending in endings - endings_retrieved - {""}:
            needing.setdefault(ending, []).append(case.query_id)
    figures = []
    for ending, query_ids in sorted(needing.items()):
        n_failed = len(failed.intersection(query_ids))
        if n_failed:
            figures.append(
                f"no passage from any {ending}: {n_failed} of {len(query_ids)} questions on them fail"
            )
    return figures


def _ending(doc_id: str) -> str:
    """Return the ending of a document's name, .pdf of "a/b.pdf"; "" if it has none."""
    ending = PurePosixPath(doc_id).suffix.lower()
    return ending if ending[1:].isalpha() else ""


def _failing(result: Result) -> list[str]:
    """State how many questions failed, and their first causes; [] if none failed."""
    n_failed = result.counts["failed"]
    diagnosis = result.diagnosis
    if not n_failed:
        return []
    figures = [f"{n_failed} of {len(result.queries)} questions failed"]
    if diagnosis is not None:
        counts = diagnosis.loc[diagnosis["failed"], "cause"].value_counts()
        figures += [f"{count} {CAUSES[cause]}" for cause, count in counts.items()]
    return figures
