"""Measures of a whole system: the outcome, flags, citations and latency of an answer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from ragbench.errors import ConfigError, DataError
from ragbench.llms.reply_text import read_outcome
from ragbench.types import Answer

OUTCOMES = ("success", "uncertain", "no_results", "blocked", "failed")

STAGES = ("guardrail_input", "retrieve", "generate", "guardrail_output", "total")
"""The stages of a pipeline in the order in which they run; a system may have others."""

MIN_CONFIDENCE = 0.5
"""An answer of a lower confidence is uncertain."""

_SAME_STAGE = {"search": "retrieve"}
_PERCENTILE = re.compile(r"p([1-9]\d?(?:\.\d+)?)")


def outcome_of(answer: Answer) -> str:
    """Return the outcome of an answer, one of `OUTCOMES`, by the first of these rules that applies.

    1. "failed": `error` is set, or the system states "failed".
    2. "blocked": the flag "guardrail_blocked", or the system states "blocked".
    3. "no_results": the flag "no_context", nothing was retrieved (no contexts and no passages), or the system states
       "no_results".
    4. "uncertain": the flag "uncertain", the system states "uncertain", the confidence is below `MIN_CONFIDENCE`,
       another flag of a guardrail ("guardrail_..."), or no citation. Citations of contexts that were not retrieved
       ("invalid:7") do not count.
    5. "success": everything else.

    So a stated outcome is accepted unless it is "success", which is checked. Without a stated outcome the wording of
    the answer decides (`ragbench.llms.reply_text.read_outcome`).

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
            f"the answer to {answer.query_id!r} has the outcome {answer.outcome!r}; expected one of "
            f"{', '.join(OUTCOMES)}, or None"
        )
    if answer.failed:
        return "failed"
    stated = answer.outcome if answer.outcome is not None else read_outcome(answer.text)
    flags = set(answer.flags)
    if stated == "blocked" or "guardrail_blocked" in flags:
        return "blocked"
    if stated == "no_results" or "no_context" in flags or not (answer.contexts or answer.passages):
        return "no_results"
    unsure = stated == "uncertain" or "uncertain" in flags or any(flag.startswith("guardrail_") for flag in flags)
    doubted = answer.confidence is not None and answer.confidence < MIN_CONFIDENCE
    return "uncertain" if unsure or doubted or not n_citations(answer) else "success"


def n_citations(answer: Answer) -> int:
    """Return the number of contexts that the answer cites, each once, without invalid numbers ("invalid:7").

    >>> from ragbench.types import Answer
    >>> n_citations(Answer("q1", "Yes [1][1][7].", citations=("d#0", "d#0", "invalid:7")))
    1
    """
    return len({citation for citation in answer.citations if not citation.startswith("invalid:")})


def by_stage(milliseconds: Mapping[str, float], choose: Callable[[float, float], float] = max) -> dict[str, float]:
    """Return milliseconds by stage: "search" is another name of "retrieve"; `choose` takes one where both are given.

    >>> by_stage({"search": 40.0, "total": 900.0})
    {'retrieve': 40.0, 'total': 900.0}
    """
    stages: dict[str, float] = {}
    for name, value in milliseconds.items():
        stage = _SAME_STAGE.get(name, name)
        stages[stage] = choose(stages[stage], value) if stage in stages else value
    return stages


def split_budget(budget_ms: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the budgets of stages, which hold for each question, and those of percentiles of all totals.

    >>> split_budget({"search": 200, "total": 5000, "p95": 4000})
    ({'retrieve': 200, 'total': 5000}, {'p95': 4000})
    """
    stages = {name: budget for name, budget in budget_ms.items() if not _PERCENTILE.fullmatch(name)}
    return by_stage(stages, min), {name: budget for name, budget in budget_ms.items() if name not in stages}


def percentile_fraction(name: str) -> float:
    """Return the fraction of a named percentile; NaN for other names.

    >>> percentile_fraction("p95"), percentile_fraction("total")
    (0.95, nan)
    """
    match = _PERCENTILE.fullmatch(name)
    return float(match[1]) / 100 if match else math.nan


def is_latency_measure(name: str) -> bool:
    """Return True if this is the mean or a percentile of the total latency over the questions.

    >>> is_latency_measure("latency_p95_ms"), is_latency_measure("latency_mean_ms"), is_latency_measure("nDCG@5")
    (True, True, False)
    """
    match = re.fullmatch(r"latency_(.+)_ms", name)
    return match is not None and (match[1] == "mean" or not math.isnan(percentile_fraction(match[1])))


def over_budget(latency_ms: Mapping[str, float], budget_ms: Mapping[str, float]) -> list[str]:
    """List the stages that took longer than their budget, each with a description.

    >>> over_budget({"search": 40.0, "total": 900.0}, {"retrieve": 50, "total": 800})
    ['total 900 ms > 800 ms']
    """
    latency, (budget, _) = by_stage(latency_ms), split_budget(budget_ms)
    both = [stage for stage in budget if stage in latency and latency[stage] > budget[stage]]
    return [f"{stage} {latency[stage]:g} ms > {budget[stage]:g} ms" for stage in both]


def latency_in_budget(latency_ms: Mapping[str, float], budget_ms: Mapping[str, float]) -> float:
    """Return 1 if every measured stage that has a budget keeps within it, else 0; NaN where no measured stage has one.

    Ignored are stages that were not measured (a reply from the cache), and percentiles ("p95"), which are of the total
    over all questions.

    >>> latency_in_budget({"retrieve": 40.0, "total": 900.0}, {"retrieve": 50, "total": 800, "generate": 700})
    0.0
    """
    measured = by_stage(latency_ms).keys() & split_budget(budget_ms)[0].keys()
    return float(not over_budget(latency_ms, budget_ms)) if measured else math.nan


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the smallest value that at least `fraction` of the values do not exceed (nearest rank); NaN for none.

    Of fewer than 20 values the 95th percentile is the highest one, of fewer than 100 the 99th: show their number with
    it.

    >>> percentile([10, 20, 30, 40], 0.5), percentile([10, 20, 30, 40], 0.95)
    (20.0, 40.0)

    Raises:
        ConfigError: `fraction` is not above 0 and at most 1.
    """
    if not 0 < fraction <= 1:
        raise ConfigError(f"fraction is {fraction!r}; expected more than 0 and at most 1, such as 0.95")
    rank = math.ceil(round(fraction * len(values), 9))  # 0.07 * 100 is a little more than 7
    return float(sorted(values)[max(rank, 1) - 1]) if len(values) else math.nan
