"""The weighted overall of each answer beside its parts, whether it passes, and why not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.errors import DataError
from ragbench.metrics.answers import keyword_coverage, missing_keywords
from ragbench.metrics.overall import (
    PARTS,
    THRESHOLDS,
    WEIGHTS,
    check_thresholds,
    check_weights,
    shortfalls,
    weighted_overall,
)
from ragbench.metrics.pipeline import outcome_of
from ragbench.prompts import read_outcome
from ragbench.scoring.answers import answers_by_query, state_of, wording

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.types import Answer, Case, Dataset

CITATION_MEASURES = ("citation_accuracy", "citation_content")
"""What the part "citation" is: the first of these that is scored."""


def score_overall(
    dataset: Dataset,
    answers: Sequence[Answer],
    scores: pd.DataFrame,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    thresholds: Mapping[str, float] = THRESHOLDS,
) -> pd.DataFrame:
    """Overall, its parts and pass or fail: columns query_id, measure, value; by measure, then in the order of cases.

    - overall: the weighted mean of the parts that are scored (`ragbench.metrics.overall.weighted_overall`), in [0, 1].
    - overall_semantic, overall_keyword, overall_citation and overall_hallucination (better when lower): the parts that
      it rests on, each with rows only if it is scored somewhere: semantic_similarity, required_keywords,
      citation_accuracy (else citation_content), 1 - claim_support. An answer that cites nothing has 0 for its
      citations if its case asks for some (`min_citations`, `expected_citations`) or another answer of the same system
      cites: else leaving citations out would raise the overall.
    - passed: 1 where `failure_reasons` finds nothing, else 0.

    Overall and parts are of answers given to questions that have one; abstentions and failed answers are unscored there
    (NaN) and fail where an answer was expected. `passed` is unscored only where an answer has nothing to be judged by.

    Args:
        dataset: the cases.
        answers: at most one per case, in any order.
        scores: those of `score_answers` and `score_groundedness`, one below the other; others are not looked at.
        weights: part -> how much it counts.
        thresholds: part -> what an answer must reach to pass ("hallucination": must not exceed).

    >>> import pandas as pd
    >>> from ragbench.types import Answer, Case, Dataset
    >>> measures = ["semantic_similarity", "claim_support"]
    >>> scores = pd.DataFrame({"query_id": "q", "measure": measures, "value": [0.8, 0.7]})
    >>> frame = score_overall(Dataset("mine", "test", {}, [Case("q", "?")], {}), [Answer("q", "Yes.")], scores)
    >>> frame.set_index("measure")["value"].round(3).to_dict()
    {'overall': 0.767, 'overall_semantic': 0.8, 'overall_hallucination': 0.3, 'passed': 0.0}

    Raises:
        ConfigError: weights or thresholds of parts that do not exist, or out of range.
        DataError: columns are missing, a query has two values for a measure, or an answer does not fit the dataset.
    """
    import pandas as pd

    check_weights(weights)
    check_thresholds(thresholds)
    values_of, by_query, citing = _inputs(dataset, answers, scores)
    table: dict[str, dict[str, float]] = {"overall": {}, **{f"overall_{part}": {} for part in PARTS}, "passed": {}}
    for case in dataset.cases:
        answer, values = by_query.get(case.query_id), values_of.get(case.query_id, {})
        parts = overall_parts(case, answer, values, citing=citing)
        table["overall"][case.query_id] = weighted_overall(parts, weights=weights)
        for part, value in parts.items():
            table[f"overall_{part}"][case.query_id] = value
        reasons = failure_reasons(case, answer, values, thresholds=thresholds, citing=citing)
        table["passed"][case.query_id] = float(not reasons) if reasons or _judged(case, answer, parts) else math.nan
    scored = {measure for measure, own in table.items() if not all(math.isnan(value) for value in own.values())}
    rows = [
        (case.query_id, measure, own.get(case.query_id, math.nan))
        for measure, own in table.items()
        if measure in scored | {"overall", "passed"}
        for case in dataset.cases
    ]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": float})


def failed_cases(
    dataset: Dataset,
    answers: Sequence[Answer],
    scores: pd.DataFrame,
    *,
    thresholds: Mapping[str, float] = THRESHOLDS,
) -> pd.DataFrame:
    """The cases that do not pass, each with its reasons in words: columns query_id, category, question, reasons.

    >>> import pandas as pd
    >>> from ragbench.types import Answer, Case, Dataset
    >>> scores = pd.DataFrame({"query_id": ["q"], "measure": ["semantic_similarity"], "value": [0.62]})
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "When?", required_keywords=("spring",))], {})
    >>> failed_cases(dataset, [Answer("q", "In May.")], scores)["reasons"].tolist()
    ['semantic similarity 0.62 < 0.70; missing keywords: spring']
    """
    import pandas as pd

    check_thresholds(thresholds)
    values_of, by_query, citing = _inputs(dataset, answers, scores)
    rows = []
    for case in dataset.cases:
        answer, values = by_query.get(case.query_id), values_of.get(case.query_id, {})
        if reasons := failure_reasons(case, answer, values, thresholds=thresholds, citing=citing):
            rows.append((case.query_id, case.category, case.text, "; ".join(reasons)))
    return pd.DataFrame(rows, columns=["query_id", "category", "question", "reasons"])


def overall_parts(
    case: Case, answer: Answer | None, scores: Mapping[str, float], *, citing: bool = False
) -> dict[str, float]:
    """The parts of one answer's overall, NaN where unscored; all NaN where no answer was due or none was given.

    Args:
        case: its labels.
        answer: None where there is none.
        scores: measure -> value of this case; keywords are looked for in the answer itself.
        citing: whether the system cites anywhere, so that an answer without citations lacks something.

    >>> from ragbench.types import Answer, Case
    >>> overall_parts(Case("q", "?", min_citations=1), Answer("q", "Yes."), {"claim_support": 0.75})
    {'semantic': nan, 'keyword': nan, 'citation': 0.0, 'hallucination': 0.25}
    """
    if answer is None or not case.answerable or state_of(answer) != "answered":
        return dict.fromkeys(PARTS, math.nan)
    citation = next(
        (scores[name] for name in CITATION_MEASURES if not math.isnan(scores.get(name, math.nan))), math.nan
    )
    if not answer.citations and (citing or case.min_citations or case.expected_citations):
        citation = 0.0
    return {
        "semantic": scores.get("semantic_similarity", math.nan),
        "keyword": keyword_coverage(wording(answer), case.required_keywords),
        "citation": citation,
        "hallucination": round(1 - scores.get("claim_support", math.nan), 9),
    }


def failure_reasons(
    case: Case,
    answer: Answer | None,
    scores: Mapping[str, float],
    *,
    thresholds: Mapping[str, float] = THRESHOLDS,
    citing: bool = False,
) -> list[str]:
    """Why an answer does not pass, in words; empty where it passes.

    In this order: no answer or a failed one; an abstention where an answer was due, or the reverse, or another outcome
    than the expected "blocked", "no_results" or "uncertain"; parts below their thresholds (`shortfalls`), the keywords
    by name; a forbidden claim; flags and citations that the case asks for. An answer that `outcome_of` calls uncertain
    does not fail for that where success was expected, nor does a slow one: outcome_correct and latency_in_budget tell.

    >>> from ragbench.types import Answer, Case
    >>> case = Case("q", "When?", required_keywords=("1889", "spring"), forbidden_flags=("stale",))
    >>> failure_reasons(case, Answer("q", "In 1889.", flags=("stale",)), {"semantic_similarity": 0.62})
    ['semantic similarity 0.62 < 0.70', 'missing keywords: spring', 'forbidden flags set: stale']
    >>> failure_reasons(case, Answer("q", "no answer found in the documents", outcome="no_results"), {})
    ['abstained (no_results) where an answer was expected']
    """
    if answer is None:
        return ["no answer"]
    state = state_of(answer)
    if state == "failed":
        return [f"failed: {answer.error}" if answer.error else "failed"]
    reasons = _wrong_outcome(case, answer)
    if reasons:
        return reasons  # what else is wrong with it follows from this
    parts = overall_parts(case, answer, scores, citing=citing)
    for reason in shortfalls(parts, thresholds=thresholds):
        missing = missing_keywords(wording(answer), case.required_keywords)
        reasons.append(f"missing keywords: {', '.join(missing)}" if reason.startswith("required keywords") else reason)
    if scores.get("forbidden_claims_absent", 1.0) < 1:
        reasons.append("states a forbidden claim")
    if lacking := [flag for flag in dict.fromkeys(case.required_flags) if flag not in answer.flags]:
        reasons.append(f"required flags not set: {', '.join(lacking)}")
    if unwanted := [flag for flag in dict.fromkeys(case.forbidden_flags) if flag in answer.flags]:
        reasons.append(f"forbidden flags set: {', '.join(unwanted)}")
    cited = len({citation for citation in answer.citations if not citation.startswith("invalid:")})
    if case.answerable and case.min_citations is not None and cited < case.min_citations:
        reasons.append(f"citations {cited} < {case.min_citations}")
    return reasons


def _wrong_outcome(case: Case, answer: Answer) -> list[str]:
    stopped = {"guardrail_blocked", "no_context"} & set(answer.flags)
    if case.answerable and (stopped or state_of(answer) == "abstained"):
        return [f"abstained ({', '.join(sorted(stopped)) or answer.outcome}) where an answer was expected"]
    if case.expected_outcome not in {"blocked", "no_results", "uncertain"}:
        return []
    given = outcome_of(answer)
    if given == case.expected_outcome == "no_results" and not stopped and _speaks_without_context(answer):
        return ["answered without any context where no_results was expected"]
    if given == case.expected_outcome or (given == "uncertain" and state_of(answer) == "abstained"):
        return []
    return [f"outcome {given} where {case.expected_outcome} was expected"]


def _speaks_without_context(answer: Answer) -> bool:
    """Nothing was retrieved, or nothing is known of it, and an answer was given all the same."""
    silent = state_of(answer) == "abstained" or read_outcome(answer.text) != "success"
    return not (silent or answer.contexts or answer.passages)


def _judged(case: Case, answer: Answer | None, parts: Mapping[str, float]) -> bool:
    """Whether anything was there to judge the answer by."""
    labels = case.required_flags or case.forbidden_flags or case.min_citations is not None
    return bool(labels) or case.expected_outcome is not None or not all(math.isnan(value) for value in parts.values())


def _inputs(
    dataset: Dataset, answers: Sequence[Answer], scores: pd.DataFrame
) -> tuple[dict[str, dict[str, float]], dict[str, Answer], bool]:
    """query_id -> measure -> value, query_id -> answer, and whether any answer cites."""
    if lacking := [name for name in ("query_id", "measure", "value") if name not in scores.columns]:
        raise DataError(
            f"scores: no column {', '.join(map(repr, lacking))}; expected query_id, measure and value, as from "
            "score_answers and score_groundedness"
        )
    values_of: dict[str, dict[str, float]] = {}
    for query_id, measure, value in scores[["query_id", "measure", "value"]].itertuples(index=False):
        own = values_of.setdefault(str(query_id), {})
        if measure in own:
            raise DataError(f"scores: query {query_id!r} has two values for {measure}; give each frame once")
        own[str(measure)] = float(value)
    return values_of, answers_by_query(dataset, answers), any(answer.citations for answer in answers)
