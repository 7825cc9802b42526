"""Whole systems: outcomes, flags, citations, latency and cost as tidy scores, and the tables that go with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.llms import cost_of
from ragbench.metrics.pipeline import (
    MIN_CONFIDENCE,
    OUTCOMES,
    STAGES,
    by_stage,
    forbidden_flags_absent,
    has_citations,
    latency_in_budget,
    outcome_of,
    percentile,
    percentile_fraction,
    required_flags_set,
    split_budget,
)
from ragbench.scoring.answers import answers_by_query
from ragbench.scoring.tidy import tidy_cases
from ragbench.types import Answer, Case, Dataset

VERDICT_AT = "p95"
"""The percentile of the latency that is compared with a budget."""

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def score_pipeline(
    dataset: Dataset,
    answers: Sequence[Answer],
    *,
    min_citations: int = 1,
    min_confidence: float = MIN_CONFIDENCE,
    budgets: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Score the behaviour of a system: columns query_id, measure, value; by measure, then in the order of the cases.

    Rules are in `ragbench.metrics.pipeline`; * marks what is better when lower.

    - outcome_correct: 1 where `outcome_of` gives the case's expected outcome, else 0.
    - required_flags, forbidden_flags_absent: the fraction of the case's flags that are as they should be.
    - min_citations: 1 where the answer cites as many contexts as the case asks for, else 0.
    - latency_in_budget: 1 where each measured stage keeps within the case's budget, or that of `budgets`, else 0.
    - cost_usd*: US dollars of the request, where its price is known; 0 for models on this machine.

    The first five have rows only if some case (or `budgets`) asks for them. A case without the label is unscored (NaN).
    A question without an answer counts as failed: its outcome and required items are 0, all else is unscored. Latencies
    vary between runs and are not scores: see `latency_table`.

    Args:
        dataset: the cases with their labels.
        answers: at most one per case, in any order.
        min_citations: number of citations that an answer needs to count as a success.
        min_confidence: below this, an answer counts as uncertain.
        budgets: stage -> milliseconds, for cases that have none of their own for that stage.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> case = Case("q", "?", expected_outcome="success", min_citations=2, latency_budget_ms={"total": 800})
    >>> answer = Answer("q", "Yes [1].", contexts=("d#0",), citations=("d#0",), latency_ms={"total": 640.0})
    >>> score_pipeline(Dataset("mine", "test", {}, [case], {}), [answer]).set_index("measure")["value"].to_dict()
    {'outcome_correct': 1.0, 'min_citations': 0.0, 'latency_in_budget': 1.0}

    Raises:
        DataError: an answer to a question that the dataset lacks, two answers to one question, or no known outcome.
        ConfigError: `min_citations`, `min_confidence` or a budget is out of range.
    """
    budgets = _checked_budgets(budgets)
    by_query, cases = answers_by_query(dataset, answers), dataset.cases
    outcomes = _outcomes(dataset, by_query, min_citations, min_confidence)
    usable = {query_id: answer for query_id, answer in by_query.items() if outcomes[query_id] != "failed"}
    scores: dict[str, dict[str, float]] = {}

    def score(measure: str, asked: Callable[[Case], object], value: Callable[[Case, Answer | None], float]) -> None:
        """Rows only where some case asks for the measure."""
        if any(asked(case) for case in cases):
            scores[measure] = {case.query_id: value(case, usable.get(case.query_id)) for case in cases}

    def outcome_correct(case: Case, answer: Answer | None) -> float:
        return float(outcomes[case.query_id] == case.expected_outcome) if case.expected_outcome else math.nan

    def enough_citations(case: Case, answer: Answer | None) -> float:
        return has_citations(answer, case.min_citations) if answer else math.nan if case.min_citations is None else 0.0

    def in_budget(case: Case, answer: Answer | None) -> float:
        budget = {**by_stage(budgets, min), **by_stage(case.latency_budget_ms, min)}
        return latency_in_budget(answer.latency_ms, budget) if answer else math.nan

    score("outcome_correct", lambda case: case.expected_outcome, outcome_correct)
    score(
        "required_flags",
        lambda case: case.required_flags,
        lambda case, answer: required_flags_set(answer.flags if answer else (), case.required_flags),
    )
    score(
        "forbidden_flags_absent",
        lambda case: case.forbidden_flags,
        lambda case, answer: forbidden_flags_absent(answer.flags, case.forbidden_flags) if answer else math.nan,
    )
    score("min_citations", lambda case: case.min_citations is not None, enough_citations)
    score("latency_in_budget", lambda case: split_budget({**budgets, **case.latency_budget_ms})[0], in_budget)
    costs = {query_id: cost_of(answer.usage) for query_id, answer in usable.items() if answer.usage}
    if not all(cost is None or math.isnan(cost) for cost in costs.values()):
        scores["cost_usd"] = {query_id: cost for query_id, cost in costs.items() if cost is not None}
    return tidy_cases(cases, scores)


def _outcomes(
    dataset: Dataset, by_query: Mapping[str, Answer], min_citations: int, min_confidence: float
) -> dict[str, str]:
    """query_id -> `outcome_of` its answer; "failed" without one."""
    known = {
        query_id: outcome_of(answer, min_citations=min_citations, min_confidence=min_confidence)
        for query_id, answer in by_query.items()
    }
    return {case.query_id: known.get(case.query_id, "failed") for case in dataset.cases}


def outcome_table(
    dataset: Dataset, answers: Sequence[Answer], *, min_citations: int = 1, min_confidence: float = MIN_CONFIDENCE
) -> pd.DataFrame:
    """How many cases of each expected outcome (rows) had which outcome (columns, as `outcome_of` has them).

    Cases without an expected outcome are in the row "not stated", those without an answer in the column "failed". Rows
    without any case are left out, and so are columns without any that have no row; the sum is the number of cases.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> cases = [Case("q1", "?", expected_outcome="success"), Case("q2", "?", expected_outcome="no_results")]
    >>> answers = [Answer("q1", "Yes [1].", ("d#0",), ("d#0",)), Answer("q2", "Yes [1].", ("d#0",), ("d#0",))]
    >>> outcome_table(Dataset("mine", "test", {}, cases, {}), answers)
                success  no_results
    success           1           0
    no_results        1           0
    """
    outcomes = _outcomes(dataset, answers_by_query(dataset, answers), min_citations, min_confidence)
    counts = Counter((case.expected_outcome or "not stated", outcomes[case.query_id]) for case in dataset.cases)
    expected = {row for row, _ in counts}
    rows = [
        name for name in (*OUTCOMES, *sorted(expected - {*OUTCOMES, "not stated"}), "not stated") if name in expected
    ]
    columns = [name for name in OUTCOMES if name in expected or any(counts[row, name] for row in expected)]
    return pd.DataFrame([[counts[row, column] for column in columns] for row in rows], index=rows, columns=columns)


def latency_table(answers: Sequence[Answer], budgets: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Latency per stage compared with its budget, in milliseconds: columns stage, n, mean, p50, p95, p99, budget, over,
    verdict.

    Percentiles are by nearest rank (`ragbench.metrics.pipeline.percentile`) over the `n` answers that did not fail and
    measured the stage: of fewer than 20 the p95 is the slowest answer, of fewer than 100 the p99. `over` is the
    fraction of the answers that took longer than the budget; the verdict is "within" or "over" by the p95, "no budget"
    or "not measured". Stages are in the order in which a pipeline runs them ("search" is "retrieve"), others after
    them, "total" last. A budget of a percentile, such as "p99", is one of the total and has a row of its own.

    >>> from ragbench.types import Answer
    >>> answers = [Answer(f"q{i}", "Yes.", latency_ms={"retrieve": 10.0 * i, "total": 100.0}) for i in range(1, 5)]
    >>> latency_table(answers, {"retrieve": 25, "generate": 900})
          stage  n   mean    p50    p95    p99  budget  over       verdict
    0  retrieve  4   25.0   20.0   40.0   40.0    25.0   0.5          over
    1  generate  0   <NA>   <NA>   <NA>   <NA>   900.0  <NA>  not measured
    2     total  4  100.0  100.0  100.0  100.0    <NA>  <NA>     no budget

    Raises:
        ConfigError: a budget that is not a number above 0.
        DataError: a latency that is not a number of at least 0.
    """
    budgets = _checked_budgets(budgets)
    usable = [answer for answer in answers if not answer.failed]
    taken = [by_stage(answer.latency_ms) for answer in usable]
    of_stages, of_percentiles = split_budget(budgets)
    rows = [(stage, stage, VERDICT_AT, of_stages.get(stage)) for stage in _stages(usable, of_stages)]
    rows += [(f"total, {name}", "total", name, budget) for name, budget in of_percentiles.items()]
    table = []
    for label, stage, verdict_at, budget in rows:
        values = [own[stage] for own in taken if stage in own]
        row: dict[str, object] = {"stage": label, "n": len(values)}
        row["mean"] = math.fsum(values) / len(values) if values else math.nan
        row |= {name: percentile(values, fraction) for name, fraction in _PERCENTILES.items()}
        row["budget"] = math.nan if budget is None else budget
        known = budget is not None and bool(values)
        row["over"] = sum(value > budget for value in values) / len(values) if known and budget else math.nan
        row["verdict"] = "no budget" if budget is None else "not measured"
        if known and budget is not None:
            row["verdict"] = "within" if percentile(values, percentile_fraction(verdict_at)) <= budget else "over"
        table.append(row)
    columns = ["stage", "n", "mean", *_PERCENTILES, "budget", "over", "verdict"]
    return pd.DataFrame(table, columns=columns).astype(
        dict.fromkeys(["mean", *_PERCENTILES, "budget", "over"], "Float64")
    )


def _stages(answers: Sequence[Answer], budgets: Mapping[str, float] | None = None) -> list[str]:
    """The stages that some answer measured or that have a budget, "total" last."""
    found: dict[str, None] = {}
    for answer in answers:
        for stage, value in answer.latency_ms.items():
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise DataError(
                    f"the answer to {answer.query_id!r} took {value!r} ms for {stage!r}; expected a number, 0 or more"
                )
        found |= dict.fromkeys(by_stage(answer.latency_ms))
    found |= dict.fromkeys(budgets or {})
    others = [stage for stage in found if stage not in STAGES]
    return [*(stage for stage in STAGES[:-1] if stage in found), *others, *(["total"] if "total" in found else [])]


def _checked_budgets(budgets: Mapping[str, float] | None) -> Mapping[str, float]:
    for stage, budget in (budgets or {}).items():
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
            raise ConfigError(f"the budget of {stage!r} is {budget!r}; expected milliseconds above 0, such as 800")
    return budgets or {}
