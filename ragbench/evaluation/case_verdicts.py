"""Which questions pass, put together from `metrics/overall` and, for a ranking alone, Success@5;
what verdicts.json keeps of a question; costs by part; when advice on failures is given.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple

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
from ragbench.types import Case, Dataset, Judgement

PERSPECTIVES_OF_ANSWERS = tuple(kind.name for kind in KINDS.values() if kind.of_answers)
# Values of a case's fields without the labels that the perspective "pipeline" checks.
_WITHOUT_PIPELINE_LABELS: dict[str, Any] = {
    "required_flags": (),
    "forbidden_flags": (),
    "min_citations": None,
    "latency_budget_ms": {},
}
_HEURISTICS = ("semantic_similarity", "claim_support")  # a judge decides in their place
_SUCCESS = ("chunk:Success@5", "span:Success@5", "Success@5")  # the first that was measured decides
_NOTHING_FOUND = "nothing relevant among the first 5 retrieved"


class PassDecisions(NamedTuple):
    """Which questions pass: tidy `scores` with the measure pass_rate (1: passed, 0: not, NaN: nothing
    decides), and query_id -> the `reasons` why a question did not pass.
    """

    scores: pd.DataFrame
    reasons: Mapping[str, tuple[str, ...]]


def decide_passing(
    output: SystemOutput,
    frames: Mapping[str, pd.DataFrame],
    thresholds: Mapping[str, float],
    weights: Mapping[str, float],
    lost: Collection[str],
) -> PassDecisions:
    """Decide whether each question passes.

    If answers were evaluated, `decide_overall` decides, by their scores and by the labels of the
    perspectives that were measured: a latency budget, for example, counts only if "pipeline" was
    measured. If only retrieval was evaluated, a question passes if something relevant is among the first 5.

    Args:
        output: the output of the system.
        frames: perspective -> its scores; perspectives that could not be measured are not in it.
        thresholds: part -> the value that an answer must reach, as in `ragbench.metrics.overall.THRESHOLDS`.
        weights: part -> how much it counts in the overall.
        lost: the questions for which the judge was asked and gave no verdict. They are not decided, and
            have no overall: a heuristic does not take the place of a verdict.

    Returns:
        The scores of the overall and its parts, with pass_rate among them, and the reasons.
    """
    if not any(name in frames for name in PERSPECTIVES_OF_ANSWERS):
        return _decide_by_retrieval(output, frames.get("retrieval", score_frame(())), lost)
    # no part of the overall is a measure of safety
    deciding_frames = [frame for name, frame in frames.items() if name != "safety"]
    scores = pd.concat(deciding_frames, ignore_index=True)
    is_heuristic_of_lost = scores["query_id"].isin(lost) & scores["measure"].isin(_HEURISTICS)
    overall, reasons = decide_overall(
        _with_measured_labels(output.dataset, frames),
        output.answers,
        scores[~is_heuristic_of_lost],
        thresholds=thresholds,
        weights=weights,
    )
    is_lost = overall["query_id"].isin(lost) & overall["measure"].isin(["pass_rate", "overall"])
    overall.loc[is_lost, "value"] = math.nan
    reasons = {query_id: texts for query_id, texts in reasons.items() if query_id not in lost}
    return PassDecisions(overall, reasons)


def _with_measured_labels(dataset: Dataset, measured: Collection[str]) -> Dataset:
    """Return the dataset without the labels of perspectives that were not `measured`: `decide_overall`
    would check answers by them all the same.
    """
    emptied: dict[str, Any] = {}
    if "pipeline" not in measured:
        emptied |= _WITHOUT_PIPELINE_LABELS
    if "answer" not in measured:
        emptied["required_keywords"] = ()
    return replace(dataset, cases=[replace(case, **emptied) for case in dataset.cases])


def _decide_by_retrieval(
    output: SystemOutput, scores: pd.DataFrame, lost: Collection[str]
) -> PassDecisions:
    """Decide every question by Success@5: whether something relevant is among the first 5 retrieved.

    Success@5 of chunks decides if it was measured, else Success@5 of spans, else of documents. A
    question without a score, and a question in `lost` (its judge failed), has the pass_rate NaN.
    """
    measured = set(scores["measure"])
    deciding = next((name for name in _SUCCESS if name in measured), "")  # the first measured one
    success = scores[scores["measure"] == deciding].set_index("query_id")["value"]
    # in the order of the cases; NaN for a case without a score, and for one whose judge failed
    success = success.reindex([case.query_id for case in output.dataset.cases])
    success = success.mask(success.index.isin(lost))
    error_of = {answer.query_id: answer.error for answer in output.answers}
    reasons = {}
    for query_id in success.index[success == 0]:
        error = error_of.get(query_id)
        reasons[query_id] = (_NOTHING_FOUND if error is None else f"failed: {error}",)
    passed = (success > 0).astype(float).where(success.notna())  # 1, 0, or NaN as in `success`
    return PassDecisions(tidy([*passed.index], ["pass_rate"], passed), reasons)


def plain_verdicts(
    output: SystemOutput,
    passed: pd.Series[float],
    reasons: Mapping[str, tuple[str, ...]],
    claims: pd.DataFrame | None,
) -> dict[str, dict[str, Any]]:
    """Return query_id -> decisions and labels of the question as plain data, for `Decisions.verdicts`;
    secrets are masked and empty fields left out.

    Args:
        output: the answers and judgements of the questions.
        passed: pass_rate by query_id: 1, 0, or NaN if nothing decides.
        reasons: query_id -> why the question did not pass.
        claims: the claims that `check_groundedness` found in the answers; None if it was not measured.
    """
    costs = _costs_by_case(output)
    checked_claims = [] if claims is None else claims.to_dict("records")
    claims_of = grouped(checked_claims, lambda claim: str(claim["query_id"]))
    judgements_of = grouped(output.judgements, lambda judgement: judgement.query_id)
    # of each question: how many of its words its evidence has, and how long the evidence is
    overlaps = wording_overlaps(output.dataset)
    lengths = evidence_words(output.dataset)
    verdicts = {}
    for case in output.dataset.cases:
        query_id = case.query_id
        pass_rate = passed.get(query_id, math.nan)
        origin = origin_of(case)
        verdict = {
            # None (nothing decides) is left out at the end, as all that is empty
            "passed": None if math.isnan(pass_rate) else bool(pass_rate),
            "category": case.category,
            "query_type": case.query_type,
            "expected_outcome": case.expected_outcome,
            "reasons": _masked(reasons.get(query_id, ())),
            "relevant": tuple(map(masked_id, relevant_ids(output.dataset.qrels.get(query_id, {})))),
            **_doubtful_claims(claims_of.get(query_id, ()), judgements_of.get(query_id, ())),
            "costs": costs.get(query_id, {}),
            "wording_overlap": overlaps.get(query_id),
            "evidence_words": lengths.get(query_id),
            "origin": "" if origin == "people" else origin,  # "people" is the default of a result
        }
        verdicts[query_id] = _without_empty(verdict)
    return verdicts


def _doubtful_claims(
    claims: Sequence[Mapping[Any, Any]], judgements: Sequence[Judgement]
) -> dict[str, tuple[str, ...]]:
    """Return the claims and numbers of one answer that its context does not support, with secrets masked.

    "unsupported_claims" and "fabricated_numbers" were found by their wording (`check_groundedness`),
    "invented_claims" by the judge.
    """
    unsupported = [claim["claim"] for claim in claims if claim["supported"] is False]
    invented = [claim for judgement in judgements for claim in judgement.unsupported]
    return {
        "unsupported_claims": _masked(unsupported),
        "fabricated_numbers": _fabricated_numbers(claims),
        "invented_claims": _masked(invented),
    }


def _fabricated_numbers(claims: Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """Return the fabricated numbers of checked claims, without the digits of a card or phone number
    that is masked in its claim.
    """
    numbers = []
    for claim in claims:
        if not claim["fabricated_numbers"]:
            continue
        visible = masked(str(claim["claim"]))
        for number in map(str, claim["fabricated_numbers"]):
            if number in visible:
                numbers.append(number)
    return tuple(numbers)


def _without_empty(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in verdict.items() if value not in (None, "", (), {})}


def _masked(texts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(masked(str(text)) for text in texts)


def evaluation_costs(output: SystemOutput) -> tuple[Cost, ...]:
    """Return the costs of all language models that an evaluation asked (`costs_of`). A system that
    answers without reporting tokens has a generator of unknown cost (None), not of 0.
    """
    varied = [answer for variation in output.variations.values() for answer in variation.answers]
    judgements = [*chain(output.judgements, *output.variation_judgements.values())]
    costs = costs_of(output.answers, judgements, varied, output.step_usage, output.safety_usage)
    gives_answers = bool(output.answers) and output.has_answers
    if _has_known_cost(output) or not gives_answers:
        return costs
    of_system = Cost(
        "generator",
        model=str(output.system["name"]),
        requests=len(output.answers),
        failed=sum(answer.failed for answer in output.answers),
        input_tokens=0,
        output_tokens=0,
        usd=None,
    )
    return (of_system, *costs)


def _costs_by_case(output: SystemOutput) -> dict[str, dict[str, float | None]]:
    """Return query_id -> part -> US dollars, or None if the price is not known.

    The parts are "generator" (None if the system reports no tokens for any answer) and "judge". A part
    that cost nothing because it was not asked is left out.
    """
    costs: dict[str, dict[str, float | None]] = {}
    reports_tokens = _has_known_cost(output)
    for answer in output.answers:
        if answer.usage is not None:
            costs[answer.query_id] = {"generator": cost_of(answer.usage)}
        elif not reports_tokens:
            costs[answer.query_id] = {"generator": None}
    judgements_of = grouped(output.judgements, lambda judgement: judgement.query_id)
    for query_id, judgements in judgements_of.items():
        amounts = [cost_of(reply) for judgement in judgements for reply in judgement.usage]
        if amounts:
            costs.setdefault(query_id, {})["judge"] = added(amounts)
    return costs


def _has_known_cost(output: SystemOutput) -> bool:
    """Return True for a pipeline, and for a system that reports the tokens of an answer."""
    if output.system.get("kind") == "Pipeline":
        return True
    return any(answer.usage for answer in output.answers)


def advice_for(result: Result, output: SystemOutput, targets: Targets) -> tuple[Advice, ...]:
    """Return advice on what to try next, from the missed targets and the failed questions.

    Args:
        result: the result of the evaluation.
        output: the output of the system.
        targets: all targets that the user sees, also those that do not decide whether the evaluation
            passes.
    """
    measured = {state.name for state in result.perspectives if state.measured}
    measures_answers = not measured.isdisjoint(PERSPECTIVES_OF_ANSWERS)
    abstentions = None
    if output.has_answers and output.dataset.cases and measures_answers:
        abstentions = abstention_table(output.dataset, output.answers)
    rows = [compare_with_target(row, targets) for row in result.rows]
    never_retrieved = _file_types_never_retrieved(result, output.dataset)
    failures = [answer.failure for answer in output.answers if answer.failure is not None]
    return recommend(
        rows,
        abstentions,
        _failure_counts(result),
        never_retrieved,
        failures,
        is_extractive=output.is_extractive,
    )


def _file_types_never_retrieved(result: Result, dataset: Dataset) -> list[str]:
    """Return a clause for each type of file, such as ".pdf", that no question retrieved although failed
    questions need documents of it; [] if there is none, or nothing was diagnosed or retrieved.
    """
    if result.diagnosis is None:
        return []
    failed = {*result.diagnosis.loc[result.diagnosis["failed"], "query_id"]}
    retrieved = {_ending(doc_id) for ranking in result.run.values() for doc_id in ranking}
    if not retrieved:  # then nothing was searched, and no type of file is at fault
        return []
    questions_on: dict[str, list[str]] = {}  # ending that was never retrieved -> ids of questions
    for case in dataset.cases:
        needed = {_ending(doc_id) for doc_id in _needed_documents(dataset, case)}
        for ending in needed - retrieved - {""}:
            questions_on.setdefault(ending, []).append(case.query_id)
    clauses = []
    for ending, query_ids in sorted(questions_on.items()):
        n_failed = len(failed.intersection(query_ids))
        if n_failed:
            clauses.append(
                f"no passage from any {ending}: {n_failed} of {len(query_ids)} questions on them fail"
            )
    return clauses


def _needed_documents(dataset: Dataset, case: Case) -> set[str]:
    """Return the documents that are relevant to a question or hold its evidence."""
    relevant = relevant_ids(dataset.qrels.get(case.query_id, {}))
    return {*relevant, *(span.doc_id for span in case.evidence)}


def _ending(doc_id: str) -> str:
    """Return the ending of a document's name, .pdf of "a/b.pdf"; "" if it has none."""
    ending = PurePosixPath(doc_id).suffix.lower()
    return ending if ending[1:].isalpha() else ""


def _failure_counts(result: Result) -> list[str]:
    """Return clauses with the number of failed questions, and the number of each first cause, such as
    "7 of 40 questions failed", "5 not retrieved"; [] if none failed.
    """
    n_failed = result.counts["failed"]
    if not n_failed:
        return []
    clauses = [f"{n_failed} of {len(result.queries)} questions failed"]
    diagnosis = result.diagnosis
    if diagnosis is not None:
        counts = diagnosis.loc[diagnosis["failed"], "cause"].value_counts()
        clauses += [f"{count} {CAUSES[cause]}" for cause, count in counts.items()]
    return clauses
