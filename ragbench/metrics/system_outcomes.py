"""Measures of a whole system: flags, citations and latency of an answer, and by which rules its
outcome is success, uncertain, abstention, blocked or failed.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pandas as pd

from ragbench.errors import DataError
from ragbench.llms import cost_of
from ragbench.llms.reply_text import read_outcome
from ragbench.metrics.tidy import answers_by_query, tidy_cases
from ragbench.registry import labels_needed
from ragbench.types import LATENCY_FIGURES, LATENCY_STAGES, Answer, Case, Dataset

OUTCOMES = ("success", "uncertain", "no_results", "blocked", "failed")

STAGES = LATENCY_STAGES
"""The stages of a pipeline in the order in which they run; a system may have others."""

MIN_CONFIDENCE = 0.5
"""An answer of a lower confidence is uncertain."""

LABELS = labels_needed("pipeline")
"""Measure -> the label that it needs, as measures.toml states it."""

_SAME_STAGE = {"search": "retrieve"}

_LATENCY = re.compile(r"latency_(mean|p[1-9]\d?(\.\d+)?)_ms")


def outcome_of(answer: Answer) -> str:
    """Return the outcome of an answer, one of `OUTCOMES`, by the first of these rules that applies.

    1. "failed": `error` is set, or the system states "failed".
    2. "blocked": the flag "guardrail_blocked", or the system states "blocked".
    3. "no_results": the flag "no_context", nothing was retrieved (no contexts and no passages), or
      the system states
       "no_results".
    4. "uncertain": the flag "uncertain", the system states "uncertain", the confidence is below
      `MIN_CONFIDENCE`,
       another flag of a guardrail ("guardrail_..."), or no citation. Citations of contexts that
       were not retrieved ("invalid:7") do not count.
    5. "success": everything else.

    So a stated outcome is accepted unless it is "success", which is checked. Without a stated
    outcome the wording of the answer decides (`ragbench.llms.reply_text.read_outcome`).

    >>> from ragbench.types import Answer
    >>> outcome_of(Answer("q1", "In 1889 [1].", contexts=("d#0",), citations=("d#0",)))
    'success'
    >>> outcome_of(Answer("q1", "In 1889 [1].", contexts=("d#0",), citations=("d#0",), confidence=0.3))
    'uncertain'
    >>> outcome_of(Answer("q1", "The documents do not say.", contexts=("d#0",)))
    'no_results'

    Raises:
        DataError: the system states an unknown outcome.
    """
    if answer.outcome is not None and answer.outcome not in OUTCOMES:
        raise DataError(
            f"the answer to {answer.query_id!r} has the outcome {answer.outcome!r}; expected one "
            f"of {', '.join(OUTCOMES)}, or None"
        )
    if answer.failed:
        return "failed"
    # the most serious outcome first: one answer may have signs of several
    stated = answer.outcome if answer.outcome is not None else read_outcome(answer.text)
    flags = set(answer.flags)
    if stated == "blocked" or "guardrail_blocked" in flags:
        return "blocked"
    if stated == "no_results" or "no_context" in flags or not (answer.contexts or answer.passages):
        return "no_results"
    is_flagged = any(flag.startswith("guardrail_") for flag in flags)
    is_unsure = stated == "uncertain" or "uncertain" in flags or is_flagged
    has_low_confidence = answer.confidence is not None and answer.confidence < MIN_CONFIDENCE
    if is_unsure or has_low_confidence or not n_citations(answer):
        return "uncertain"
    return "success"


def n_citations(answer: Answer) -> int:
    """Return the number of contexts that the answer cites, each once, without invalid numbers
    ("invalid:7").

    >>> from ragbench.types import Answer
    >>> n_citations(Answer("q1", "Yes [1][1][7].", citations=("d#0", "d#0", "invalid:7")))
    1
    """
    return len({citation for citation in answer.citations if not citation.startswith("invalid:")})


def by_stage(
    milliseconds: Mapping[str, float], choose: Callable[[float, float], float] = max
) -> dict[str, float]:
    """Return stage -> milliseconds, with one name for each stage: "search" becomes "retrieve".

    If both names are given, `choose` takes one of the two values. Figures of all questions together,
    such as "p95" (`LATENCY_FIGURES`), are left out.

    >>> by_stage({"search": 40.0, "total": 900.0, "p95": 800.0})
    {'retrieve': 40.0, 'total': 900.0}
    """
    stages: dict[str, float] = {}
    for name, value in milliseconds.items():
        if name in LATENCY_FIGURES:
            continue
        stage = _SAME_STAGE.get(name, name)
        stages[stage] = choose(stages[stage], value) if stage in stages else value
    return stages


def is_latency_measure(name: str) -> bool:
    """Return True if this is the mean or a percentile of the total latency over the questions.

    >>> is_latency_measure("latency_p95_ms"), is_latency_measure("latency_mean_ms"), is_latency_measure("nDCG@5")
    (True, True, False)
    """
    return _LATENCY.fullmatch(name) is not None


def latency_figures(
    cases: Sequence[Case], answers: Mapping[str, Answer]
) -> dict[tuple[str, float], float]:
    """Return (figure, budget) -> its value in milliseconds, over all questions with this budget.

    A figure is a percentile ("p50", "p95", "p99") or the "mean" of the total latency. Answers that
    failed, or whose total was not measured, are left out; a budget without any other answer has no
    figure.

    Args:
        cases: `latency_budget_ms` of a case may have a budget for a figure, such as {"p95": 800}.
        answers: query_id -> answer.

    >>> from ragbench.types import Answer, Case
    >>> cases = [Case(query_id, "?", latency_budget_ms={"p50": 500}) for query_id in ("q1", "q2")]
    >>> answers = {"q1": Answer("q1", "Yes.", latency_ms={"total": 400.0}),
    ...            "q2": Answer("q2", "No.", latency_ms={"total": 900.0})}
    >>> latency_figures(cases, answers)
    {('p50', 500): 400.0}
    """
    totals: dict[tuple[str, float], list[float]] = {}
    for case in cases:
        answer = answers.get(case.query_id)
        if answer is None or answer.failed or "total" not in answer.latency_ms:
            continue
        for name, budget in case.latency_budget_ms.items():
            if name in LATENCY_FIGURES:
                totals.setdefault((name, budget), []).append(answer.latency_ms["total"])
    figures = {}
    for (name, budget), values in totals.items():
        if name == "mean":  # else a percentile: "p95" -> 0.95
            figures[name, budget] = math.fsum(values) / len(values)
        else:
            figures[name, budget] = percentile(values, float(name[1:]) / 100)
    return figures


def over_budget(
    latency_ms: Mapping[str, float],
    budget_ms: Mapping[str, float],
    figures: Mapping[tuple[str, float], float] = MappingProxyType({}),
) -> list[str]:
    """Return a description of each stage of an answer that took longer than its budget, then of each
    figure over all questions ("p95", for example) that exceeds its budget.

    Args:
        latency_ms: stage -> milliseconds of one answer.
        budget_ms: stage or figure -> the milliseconds that it may take.
        figures: (figure, budget) -> milliseconds, from `latency_figures`.

    >>> over_budget({"search": 40.0, "total": 900.0}, {"retrieve": 50, "total": 800})
    ['total 900 ms > 800 ms']
    >>> over_budget({"total": 900.0}, {"p95": 1000}, {("p95", 1000): 1200.0})
    ['p95 of the total over all questions with this budget 1200 ms > 1000 ms']
    """
    ms_of = by_stage(latency_ms)
    late = []
    # of two budgets for one stage, under both of its names, the smaller counts
    for stage, limit in by_stage(budget_ms, min).items():
        if ms_of.get(stage, 0.0) > limit:
            late.append(f"{stage} {ms_of[stage]:g} ms > {limit:g} ms")
    for (name, limit), value in _figures_of(budget_ms, figures).items():
        if value > limit:
            late.append(
                f"{name} of the total over all questions with this budget {value:g} ms > "
                f"{limit:g} ms"
            )
    return late


def latency_in_budget(
    latency_ms: Mapping[str, float],
    budget_ms: Mapping[str, float],
    figures: Mapping[tuple[str, float], float] = MappingProxyType({}),
) -> float:
    """Return 1 if everything that was measured and has a budget keeps within it, else 0; NaN if nothing
    that was measured has a budget.

    Stages that were not measured (a reply from the cache) are ignored. For the arguments see
    `over_budget`.

    >>> latency_in_budget({"retrieve": 40.0, "total": 900.0}, {"retrieve": 50, "total": 800, "generate": 700})
    0.0
    """
    # stages that were measured and have a budget
    stages = by_stage(latency_ms).keys() & by_stage(budget_ms).keys()
    if not stages and not _figures_of(budget_ms, figures):
        return math.nan
    return float(not over_budget(latency_ms, budget_ms, figures))


def _figures_of(
    budget_ms: Mapping[str, float], figures: Mapping[tuple[str, float], float]
) -> dict[tuple[str, float], float]:
    """Return the figures that a question has a budget for."""
    return {key: figures[key] for key in budget_ms.items() if key in figures}


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the smallest value that at least `fraction` of the values do not exceed (nearest
    rank); NaN for none.

    Of fewer than 20 values the 95th percentile is the highest one, of fewer than 100 the 99th: show
    their number with it.

    >>> percentile([10, 20, 30, 40], 0.5), percentile([10, 20, 30, 40], 0.95)
    (20.0, 40.0)
    """
    if not len(values):
        return math.nan
    rank = math.ceil(round(fraction * len(values), 9))  # 0.07 * 100 is a little more than 7
    return float(sorted(values)[max(rank, 1) - 1])


def score_pipeline(dataset: Dataset, answers: Sequence[Answer]) -> pd.DataFrame:
    """Score the behaviour of a system: columns query_id, measure, value; by measure, then in the
    order of the cases.

    In [0, 1], higher is better, but for cost_usd:

    - outcome_correct: 1 if `outcome_of` returns the case's expected outcome, else 0.
    - required_flags, forbidden_flags_absent: the fraction of the case's flags that are as they
      should be.
    - min_citations: 1 where the answer cites as many contexts as the case asks for, else 0.
    - latency_in_budget: 1 where each measured stage keeps within the case's budget, and so does the
      percentile or mean ("p50", "p95", "p99", "mean") of the total over all cases with that budget,
      else 0.
    - cost_usd: US dollars of the request, where its price is known; 0 for models on this machine.
      Lower is better.

    The first five have rows only if some case asks for them. A case without the label is unscored
    (NaN). A question without an answer counts as failed: its outcome and required items are 0, all
    else is unscored. Latencies vary between runs and are not scores.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> case = Case("q", "?", expected_outcome="success", min_citations=2, latency_budget_ms={"total": 800})
    >>> answer = Answer("q", "Yes [1].", contexts=("d#0",), citations=("d#0",), latency_ms={"total": 640.0})
    >>> score_pipeline(Dataset("mine", "test", {}, [case], {}), [answer]).set_index("measure")["value"].to_dict()
    {'outcome_correct': 1.0, 'min_citations': 0.0, 'latency_in_budget': 1.0}

    Raises:
        DataError: an answer to a question that the dataset lacks, two answers to one question, or
            no known outcome.
    """
    cases = dataset.cases
    answer_of = answers_by_query(dataset, answers)
    figures = latency_figures(cases, answer_of)
    rows = {}
    for case in cases:
        answer = answer_of.get(case.query_id)
        outcome = "failed" if answer is None else outcome_of(answer)
        row: dict[str, float] = {}
        if case.expected_outcome:
            row["outcome_correct"] = float(outcome == case.expected_outcome)
        if answer is None or outcome == "failed":
            row |= _scores_of_failure(case)
        else:
            row |= _scores_of_answer(case, answer, figures)
        rows[case.query_id] = row
    measures = []
    # measures whose label some case has
    for measure, label in LABELS.items():
        if any(getattr(case, label) not in (None, "", (), {}) for case in cases):
            measures.append(measure)
    if any("cost_usd" in row for row in rows.values()):
        measures.append("cost_usd")
    return tidy_cases(cases, measures, rows)


def _scores_of_failure(case: Case) -> dict[str, float]:
    """Return the scores of a question without an answer: 0 for the items that its case requires."""
    scores = {}
    if case.required_flags:
        scores["required_flags"] = 0.0
    if case.min_citations is not None:
        scores["min_citations"] = 0.0
    return scores


def _scores_of_answer(
    case: Case, answer: Answer, figures: Mapping[tuple[str, float], float]
) -> dict[str, float]:
    """Return measure -> score of an answer that did not fail. outcome_correct is not among them.

    Scores of flags and citations are there if the case asks for them, cost_usd if it is known.
    `figures` is from `latency_figures`.
    """
    scores = {}
    required = set(case.required_flags)
    if required:
        scores["required_flags"] = len(required.intersection(answer.flags)) / len(required)
    if case.min_citations is not None:
        scores["min_citations"] = float(n_citations(answer) >= case.min_citations)
    forbidden = set(case.forbidden_flags)
    if forbidden:
        absent = forbidden.difference(answer.flags)
        scores["forbidden_flags_absent"] = len(absent) / len(forbidden)
    scores["latency_in_budget"] = latency_in_budget(
        answer.latency_ms, case.latency_budget_ms, figures
    )
    cost = cost_of(answer.usage) if answer.usage else None
    if cost is not None:
        scores["cost_usd"] = cost
    return scores
