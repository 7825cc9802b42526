"""When an answer passes: the threshold of each part, the labels that it has to meet, and the
reasons in words; also the weighted overall of its parts.

Parts are in [0, 1]; higher is better but for "hallucination" and "llm_hallucination".
"""

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeGuard

import pandas as pd

from ragbench.errors import ConfigError, check_known
from ragbench.files import bundled
from ragbench.llms.reply_text import read_outcome
from ragbench.metrics.answer_similarity import keyword_coverage, missing_keywords, stated_facts
from ragbench.metrics.system_outcomes import (
    MIN_CONFIDENCE,
    latency_figures,
    latency_in_budget,
    n_citations,
    outcome_of,
    over_budget,
)
from ragbench.metrics.tidy import (
    answers_by_query,
    relevant_ids,
    state_of,
    tidy_cases,
    values_by_query,
    wording,
)
from ragbench.types import Answer, Case, Dataset

_LABELS = {
    "semantic": "semantic similarity",
    "llm_correctness": "correctness by the judge",
    "keyword": "required keywords",
    "expected_document": "expected document retrieved",
    "citation": "citation_content",
    "hallucination": "hallucination",
    "llm_hallucination": "hallucination by the judge",
    "gold_facts": "gold facts",
    "expected_claims": "expected claims",
    "expected_citations": "expected citations",
}
"""Part -> its name in the reasons why an answer does not pass."""

PARTS = tuple(_LABELS)

LOWER_PARTS = frozenset({"hallucination", "llm_hallucination"})
"""Parts that are better when lower."""

REPLACED_BY_JUDGE = {
    "llm_correctness": ("semantic", "gold_facts", "expected_claims"),
    "llm_hallucination": ("hallucination",),
}
"""Part that a judge decides -> the parts that compare words, and give way to its verdict."""

SAYS_RIGHT: Mapping[str, str] = MappingProxyType(
    {
        "semantic": "semantic_similarity",
        "llm_correctness": "llm_correctness",
        "keyword": "required_keywords",
        "gold_facts": "gold_fact_coverage",
        "expected_claims": "expected_claims",
    }
)
"""Part that compares what an answer says with what it should say -> the measure that it is."""

HEURISTIC_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "semantic": "semantic_similarity",
        "citation": "citation_content",
        "hallucination": "claim_support",
        "expected_claims": "expected_claims",
    }
)
"""Part that decides only where the user or a preset names a threshold -> the measure that it is."""

DEFAULTS: dict[str, dict[str, Any]] = bundled(__file__, "targets.toml")
"""The default targets of measures, thresholds of parts ("cases") and weights of parts."""

WEIGHTS: Mapping[str, float] = MappingProxyType({name: DEFAULTS["weights"][name] for name in PARTS})
"""The weight of each part; only their ratios matter. A part of weight 0 only affects passing."""

DECIDABLE = (*PARTS, "outcome", "latency")
"""What can have a threshold: every part, the outcome and the latency."""

THRESHOLDS: Mapping[str, float] = MappingProxyType(
    {name: float(threshold) for name, threshold in DEFAULTS["cases"].items()}
)
"""The default thresholds: the value that a part must reach for an answer to pass, or must not exceed
if it is one of `LOWER_PARTS`. Only labels and a judge's verdicts have one. Heuristics (semantic,
citation, hallucination, expected_claims) decide only where a preset or the user sets a threshold.
"outcome" (as expected) and "latency" (within the budget) are 1 or 0; a threshold of 0 leaves
them out."""


def lets_all_pass(part: str, threshold: float) -> bool:
    """Return True for a threshold that every answer reaches, so that the part decides nothing.

    >>> lets_all_pass("semantic", 0), lets_all_pass("hallucination", 1), lets_all_pass("hallucination", 0.2)
    (True, True, False)
    """
    return threshold >= 1 if part in LOWER_PARTS else threshold <= 0


def weighted_overall(
    parts: Mapping[str, float], *, weights: Mapping[str, float] = WEIGHTS
) -> float:
    """Return the weighted mean of the parts that are scored, in [0, 1]; higher is better; NaN if
    none is.

    A part that is better when lower counts as 1 - its value. Parts that are NaN or missing (no
    reference, no keywords, switched off) are left out, and the weights of the others make up the
    whole. Two values are comparable only if they have the same parts, so show them together.

    >>> weighted_overall({"semantic": 0.8, "keyword": 0.5, "expected_document": 1.0, "hallucination": 0.1})
    0.8
    >>> round(weighted_overall({"semantic": 0.8, "hallucination": 0.1}), 4)
    0.8333

    """
    good: dict[str, float] = {}  # part -> its value, turned so that higher is better
    for name, value in parts.items():
        if not math.isnan(value) and weights.get(name, 0) > 0:
            good[name] = 1 - value if name in LOWER_PARTS else value
    if not good:
        return math.nan
    weighted_sum = sum(weights[name] * value for name, value in good.items())
    total_weight = sum(weights[name] for name in good)
    return round(weighted_sum / total_weight, 9)


def shortfalls(
    parts: Mapping[str, float], *, thresholds: Mapping[str, float] = THRESHOLDS
) -> dict[str, str]:
    """Return the parts that do not reach their threshold, in the order of `PARTS`, each with a
    description.

    Parts that are NaN or missing pass. A value equal to its threshold passes.

    >>> shortfalls({"semantic": 0.62, "keyword": 0.5, "llm_hallucination": 0.3})
    {'keyword': 'required keywords 0.50 < 0.60', 'llm_hallucination': 'hallucination by the judge 0.30 > 0.20'}
    >>> shortfalls({"semantic": 0.62}, thresholds={"semantic": 0.7})
    {'semantic': 'semantic similarity 0.62 < 0.70'}
    """
    texts = {}
    for name, label in _LABELS.items():
        value = parts.get(name, math.nan)
        threshold = thresholds.get(name, math.nan)
        if name in LOWER_PARTS:
            sign = ">"
            falls_short = value > threshold
        else:
            sign = "<"
            falls_short = value < threshold
        if falls_short:
            # "0.70 < 0.70" would say nothing: then with six decimals
            digits = 2 if round(value, 2) != round(threshold, 2) else 6
            texts[name] = f"{label} {value:.{digits}f} {sign} {threshold:.{digits}f}"
    return texts


def check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights that name no part, are below 0 or not a number, or are all 0."""
    _check(weights, "weight", PARTS, math.inf, "of 0 or more, such as 20")
    if not any(weight > 0 for weight in weights.values()):
        raise ConfigError(
            "all weights of the overall are 0; give at least one part a weight, such as "
            "{'semantic': 40}"
        )


def check_thresholds(thresholds: Mapping[str, float]) -> None:
    """Refuse thresholds that name no part or lie outside [0, 1]."""
    _check(thresholds, "threshold", DECIDABLE, 1, "from 0 to 1, such as 0.7")


def _check(
    values: Mapping[str, float], what: str, parts: Collection[str], high: float, expected: str
) -> None:
    """Refuse settings of parts that do not exist, or whose value is not a number from 0 to `high`.

    Args:
        values: part -> the setting.
        what: the setting in words, "weight" or "threshold".
        parts: those that exist.
        high: the greatest value.
        expected: which values are right, in words, for the error.

    Raises:
        ConfigError: naming the part.
    """
    check_known("part of the overall", parts, *values)
    for name, value in values.items():
        if not is_number(value) or not 0 <= value <= high:
            raise ConfigError(f"the {what} of {name!r} is {value!r}; expected a number {expected}")


def is_number(value: object) -> TypeGuard[float]:
    """Return True for a finite number that is not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_NAMED = 3  # documents that a reason lists


def decide_overall(
    dataset: Dataset,
    answers: Sequence[Answer],
    scores: pd.DataFrame,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    thresholds: Mapping[str, float] = THRESHOLDS,
) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """Return the overall, its parts and pass or fail (query_id, measure, value; by measure, then in the
    order of cases), and query_id -> `failure_reasons` of the cases that do not pass.

    - overall: the weighted mean of the parts that are scored
      (`ragbench.metrics.overall.weighted_overall`), in [0, 1].
    - overall_semantic, overall_llm_correctness, overall_keyword, overall_expected_document,
      overall_hallucination and overall_llm_hallucination (both better when lower): the parts of the
      overall, see `overall_parts`. A part has rows only if it has a weight and is scored for some case;
      by default parts such as overall_citation have no weight.
    - pass_rate: 1 where `failure_reasons` finds nothing, else 0; NaN where nothing decides: no part
      that has a threshold is scored, and the question has no label that an answer must meet.

    Parts are of answers given to questions that have one, and unscored (NaN) elsewhere. An
    answerable question without an answer (an abstention, a failure) fails. Its overall is 0, with one
    exception: where questions were answered and no answer has an overall (only retrieval is labelled),
    it has no overall either (NaN).

    Args:
        dataset: the cases.
        answers: at most one per case, in any order.
        scores: the scores of `score_answers`, `score_groundedness`, `score_context`, `score_pipeline`
            and `score_judgements` that exist, concatenated; other measures are ignored.
        weights: part -> weight.
        thresholds: part -> the value that an answer needs to pass, as
            `ragbench.metrics.overall.THRESHOLDS`.

    >>> import pandas as pd
    >>> from ragbench.types import Answer, Case, Dataset
    >>> scores = pd.DataFrame({"query_id": ["q"], "measure": ["semantic_similarity"], "value": [0.62]})
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "When?", required_keywords=("spring",))], {})
    >>> decide_overall(dataset, [Answer("q", "In May.")], scores)[1]
    {'q': ('missing keywords: spring',)}

    Raises:
        ConfigError: weights or thresholds of parts that do not exist, or out of range.
        DataError: an answer does not fit the dataset.
    """
    check_weights(weights)
    check_thresholds(thresholds)
    answer_of = answers_by_query(dataset, answers)
    scores_of = values_by_query(scores)
    # if any answer cites, an answer without citations gets 0 for the part "citation"
    any_citations = any(answer.citations for answer in answers)
    # latencies of all answers together, for budgets of their mean or a percentile
    figures = latency_figures(dataset.cases, answer_of)
    weighted_parts = [part for part in PARTS if weights.get(part, 0) > 0]
    rows: dict[str, dict[str, float]] = {}  # query_id -> measure -> value
    reasons: dict[str, tuple[str, ...]] = {}
    for case in dataset.cases:
        query_id = case.query_id
        answer = answer_of.get(query_id)
        case_scores = scores_of.get(query_id, {})
        parts = overall_parts(case, answer, case_scores, citing=any_citations)
        row = {"overall": weighted_overall(parts, weights=weights)}
        for part in weighted_parts:
            row[f"overall_{part}"] = parts[part]
        case_reasons = failure_reasons(
            case,
            answer,
            case_scores,
            thresholds=thresholds,
            citing=any_citations,
            relevant=dataset.qrels.get(query_id, {}),
            figures=figures,
        )
        # fails; or passes if there is a requirement; else has no value, which `tidy_cases` makes NaN
        if case_reasons:
            reasons[query_id] = tuple(case_reasons)
            row["pass_rate"] = 0.0
        elif _has_requirement(case, answer, parts, case_scores, thresholds, figures):
            row["pass_rate"] = 1.0
        rows[query_id] = row
    scored: set[str] = set()  # measures with a value for some case
    for row in rows.values():
        scored.update(measure for measure, value in row.items() if not math.isnan(value))
    answerable = [case.query_id for case in dataset.cases if case.answerable]
    unanswered = [each for each in answerable if state_of(answer_of.get(each)) != "answered"]
    is_none_answered = len(unanswered) == len(answerable)
    only_retrieval_is_labelled = "overall" not in scored and not is_none_answered
    if not only_retrieval_is_labelled:
        for query_id in unanswered:
            rows[query_id]["overall"] = 0.0
    # a part that no case has is no measure of the result
    part_measures = [f"overall_{part}" for part in weighted_parts]
    scored_parts = [measure for measure in part_measures if measure in scored]
    return tidy_cases(dataset.cases, ("overall", *scored_parts, "pass_rate"), rows), reasons


def overall_parts(
    case: Case, answer: Answer | None, scores: Mapping[str, float], *, citing: bool = False
) -> dict[str, float]:
    """Return part (one of `PARTS`) -> its value for one answer; NaN where it is unscored. All are NaN
    if no answer was expected or given.

    Most parts are a measure in `scores`, the two of hallucination 1 - a measure. Two rules differ:

    - A judge's verdict replaces the parts that compare words: where "llm_correctness" is scored,
      "semantic", "gold_facts" and "expected_claims" are NaN (`REPLACED_BY_JUDGE`).
    - An answer without citations has 0 for "citation" if its case asks for some (`min_citations`,
      `expected_citations`) or another answer of the same system cites, because leaving the part out
      would reward an answer that cites nothing.

    Args:
        case: its labels.
        answer: None if the question has no answer.
        scores: measure -> value of this case; keywords are searched in the answer itself.
        citing: True if any answer of the system cites.

    >>> from ragbench.types import Answer, Case
    >>> parts = overall_parts(Case("q", "?", min_citations=1), Answer("q", "Yes."), {"claim_support": 0.75})
    >>> {name: value for name, value in parts.items() if not math.isnan(value)}
    {'citation': 0.0, 'hallucination': 0.25}
    """
    if answer is None or not case.answerable or state_of(answer) != "answered":
        return dict.fromkeys(PARTS, math.nan)

    def score(measure: str) -> float:
        return scores.get(measure, math.nan)

    asks_for_citations = case.min_citations or case.expected_citations
    lacks_citations = not answer.citations and (citing or asks_for_citations)
    parts = {
        "semantic": score("semantic_similarity"),
        "llm_correctness": score("llm_correctness"),
        "keyword": keyword_coverage(wording(answer), case.required_keywords),
        "expected_document": score("expected_document"),
        # not the measure citation_accuracy, because that would need another threshold
        "citation": 0.0 if lacks_citations else score("citation_content"),
        "hallucination": round(1 - score("claim_support"), 9),
        "llm_hallucination": round(1 - score("llm_faithfulness"), 9),
        "gold_facts": score("gold_fact_coverage"),
        "expected_claims": score("expected_claims"),
        "expected_citations": score("expected_citations"),
    }
    for judged, heuristics in REPLACED_BY_JUDGE.items():  # part of the judge -> those it replaces
        if not math.isnan(parts[judged]):
            parts |= dict.fromkeys(heuristics, math.nan)
    return parts


def failure_reasons(
    case: Case,
    answer: Answer | None,
    scores: Mapping[str, float],
    *,
    thresholds: Mapping[str, float] = THRESHOLDS,
    citing: bool = False,
    relevant: Mapping[str, int] = MappingProxyType({}),
    figures: Mapping[tuple[str, float], float] = MappingProxyType({}),
) -> list[str]:
    """List the reasons why an answer does not pass; none if it passes.

    In this order: no answer or a failed one; an abstention where an answer was due; another outcome
    than the expected one; parts below their thresholds (`shortfalls`), with the missing items; a
    forbidden claim; flags and citations that the case asks for; a latency budget. The first two are
    returned alone.

    Args:
        scores: measure -> value of this case.
        thresholds: part -> the value that an answer needs to pass.
        citing: True if any answer of the system cites.
        relevant: the grades of the case's documents, to name a missing one.
        figures: latencies of all questions, from `latency_figures`.

    >>> from ragbench.types import Answer, Case
    >>> case = Case("q", "When?", required_keywords=("1889", "spring"), forbidden_flags=("stale",))
    >>> failure_reasons(case, Answer("q", "In 1889.", flags=("stale",)), {"semantic_similarity": 0.62})
    ['missing keywords: spring', 'forbidden flags set: stale']
    >>> case = Case("q", "When?", gold_facts=(("1889",), ("Eiffel",)))
    >>> failure_reasons(case, Answer("q", "In 1889."), {"gold_fact_coverage": 0.5})
    ['missing gold facts: Eiffel']
    >>> failure_reasons(case, Answer("q", "no answer found in the documents", outcome="no_results"), {})
    ['abstained (no_results) where an answer was expected']
    """
    if answer is None:
        return ["no answer"]
    state = state_of(answer)
    if state == "failed":
        return [f"failed: {answer.error}" if answer.error else "failed"]
    # flags by which a system says that it gave no answer, whatever its text is
    stop_flags = {"guardrail_blocked", "no_context"} & set(answer.flags)
    if case.answerable and (stop_flags or state == "abstained"):
        outcome = answer.outcome if answer.abstained else "an empty text"
        how = ", ".join(sorted(stop_flags)) or outcome
        return [f"abstained ({how}) where an answer was expected"]
    reasons = []
    if thresholds.get("outcome", 0) > 0:
        reasons = _wrong_outcome(case, answer, bool(stop_flags))
    if reasons and not case.answerable:
        # alone: a question was answered that has no answer, and other problems follow from this
        return reasons
    parts = overall_parts(case, answer, scores, citing=citing)
    # a part that consists of items, such as keywords, names the missing ones instead of its value
    for part, shortfall in shortfalls(parts, thresholds=thresholds).items():
        missing_items = _missing_items(part, case, answer, relevant, parts[part])
        reasons.append(missing_items or shortfall)
    if scores.get("forbidden_claims_absent", 1.0) < 1:  # 0 if the answer states one
        reasons.append("states a forbidden claim")
    return reasons + requirements_missed(case, answer, thresholds, figures)


def requirements_missed(
    case: Case,
    answer: Answer,
    thresholds: Mapping[str, float] = THRESHOLDS,
    figures: Mapping[tuple[str, float], float] = MappingProxyType({}),
) -> list[str]:
    """Return a reason for each requirement of a case that its answer misses. Only requirements that
    are not about the content count: required and forbidden flags, the number of citations, the
    latency.

    `figures` are latencies of all questions, from `latency_figures`.

    >>> from ragbench.types import Answer, Case
    >>> requirements_missed(Case("q", "When?", min_citations=1), Answer("q", "In 1889."))
    ['citations 0 < 1']
    """
    reasons = []
    not_set = [flag for flag in case.required_flags if flag not in answer.flags]
    if not_set:
        reasons.append(f"required flags not set: {', '.join(dict.fromkeys(not_set))}")
    forbidden = [flag for flag in case.forbidden_flags if flag in answer.flags]
    if forbidden:
        reasons.append(f"forbidden flags set: {', '.join(dict.fromkeys(forbidden))}")
    if case.answerable and n_citations(answer) < (case.min_citations or 0):
        reasons.append(f"citations {n_citations(answer)} < {case.min_citations}")
    if thresholds.get("latency", 0) > 0:
        late = over_budget(answer.latency_ms, case.latency_budget_ms, figures)
        if late:
            reasons.append(f"latency: {', '.join(late)}")
    return reasons


def _missing_items(
    part: str, case: Case, answer: Answer, relevant: Mapping[str, int], value: float
) -> str:
    """Return what an answer lacks, such as "missing keywords: spring", for a part of its score that is below
    the threshold; "" for a part without items, such as the similarity to the reference answer.

    Args:
        part: the name of the part, such as "keyword".
        case: the question, with the items that an answer should have.
        answer: the answer to it.
        relevant: the grades of the case's documents.
        value: the value of the part.
    """
    text = wording(answer)
    if part == "keyword":
        return f"missing keywords: {', '.join(missing_keywords(text, case.required_keywords))}"
    if part == "gold_facts":
        # a fact is a tuple of wordings; the first one names it
        missing = [fact[0] for fact in case.gold_facts if not stated_facts(text, [fact])[0]]
        return f"missing gold facts: {', '.join(missing)}"
    if part == "expected_document":
        ids = relevant_ids(relevant)
        if not ids:
            return "expected document not retrieved"
        names = ", ".join(ids[:_NAMED])
        if len(ids) > _NAMED:
            names += f" and {len(ids) - _NAMED} more"
        return f"expected document not retrieved: {names}"
    if part == "expected_claims":
        listed = ", ".join(f'"{claim}"' for claim in case.expected_claims)
        return f"states {value:.0%} of the expected claims: {listed}"
    if part == "expected_citations":
        return (
            f"cites {', '.join(answer.citations) or 'nothing'}, "
            f"expected {', '.join(case.expected_citations)}"
        )
    return ""


def _wrong_outcome(case: Case, answer: Answer, stopped: bool) -> list[str]:
    """Return why an answer does not have the expected outcome, as a list of one reason; [] if it has it, or
    no outcome is expected.

    Two special cases: an abstention with the outcome "uncertain" is fine whatever is expected,
    because it claims nothing. And an expected "no_results" fails if the answer states something
    without any context, because then the system did answer.

    Args:
        case: with the expected outcome.
        answer: to the question.
        stopped: True if the answer has the flag of a guardrail, or of a search without results.
    """
    expected = case.expected_outcome  # such as "success" or "no_results"; None if none is expected
    outcome = outcome_of(answer)
    if expected is None:
        return []
    if outcome == expected:
        if expected == "no_results" and not stopped and _states_without_context(answer):
            return ["answered without any context where no_results was expected"]
        return []
    if outcome != "uncertain":
        return [f"outcome {outcome} where {expected} was expected"]
    if answer.abstained:
        return []
    doubts = []  # why an answer that was given counts as uncertain
    if answer.confidence is not None and answer.confidence < MIN_CONFIDENCE:
        doubts.append(f"confidence {answer.confidence:.2f}")
    if not n_citations(answer):
        doubts.append("no citations")
    reasons = f" ({', '.join(doubts)})" if doubts else ""
    return [f"outcome {outcome}{reasons} where {expected} was expected"]


def _states_without_context(answer: Answer) -> bool:
    """Return True if an answer states something although the system had no context for it."""
    has_context = bool(answer.contexts or answer.passages)
    states_something = not answer.abstained and read_outcome(answer.text) == "success"
    return states_something and not has_context


def _has_requirement(
    case: Case,
    answer: Answer | None,
    parts: Mapping[str, float],
    scores: Mapping[str, float],
    thresholds: Mapping[str, float],
    figures: Mapping[tuple[str, float], float],
) -> bool:
    """Return True if there is anything that the answer to this question must meet to pass: a scored part
    with a threshold, or a label.
    """
    # a scored part that has a threshold
    if any(part in thresholds and not math.isnan(value) for part, value in parts.items()):
        return True
    # scored only if the case lists forbidden claims
    if not math.isnan(scores.get("forbidden_claims_absent", math.nan)):
        return True
    if case.required_flags or case.forbidden_flags:
        return True
    if case.min_citations is not None or case.expected_outcome:
        return True
    latency = answer.latency_ms if answer else {}
    # NaN without a budget, or without a measured latency
    return not math.isnan(latency_in_budget(latency, case.latency_budget_ms, figures))
