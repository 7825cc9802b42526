"""The record of one evaluation: plain data, as report.json holds it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

SCHEMA = 1
"""The version of report.json. New fields have defaults, so that older reports of the same version
can be read.
"""

BUILT_IN = "pydoc"
"""The name of the test set that comes with ragbench."""

MAX_FAILED_JUDGEMENTS = 0.2
"""An evaluation whose judge failed on more than this fraction of what it was asked does not pass.
"""

VERDICTS = ("passed", "missed", "unreachable", "unscored", "no target")
"""How a measure compares with its target."""


def score_frame(rows: Iterable[tuple[str, str, float | None]]) -> pd.DataFrame:
    """Scores as a tidy frame: columns query_id, measure, value (NaN = unscored)."""
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": "float64"})


def known_number(value: Any) -> float | None:
    """A number as records have it: None where there is none, or it is not finite.

    >>> known_number(float("nan")), known_number(1)
    (None, 1.0)
    """
    return None if pd.isna(value) or not math.isfinite(value) else float(value)


@dataclass(frozen=True, slots=True)
class TestSet:
    """What was asked: the numbers of questions, documents and safety samples that took part in this
    evaluation.
    """

    __test__ = False  # pytest collects classes that are called Test...

    name: str
    split: str
    fingerprint: str
    questions: int
    documents: int
    safety_inputs: int = 0
    safety_outputs: int = 0


@dataclass(frozen=True, slots=True)
class Perspective:
    """One way of looking at a system. `reason` states why it was not measured, "" where it was;
    `note` how it was.

    `warning` states what makes its numbers less certain than their intervals show.
    """

    name: str
    measured: bool
    reason: str = ""
    note: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class MeasureResult:
    """A measure over all cases, compared with its target.

    `value` is the mean over the `n_scored` of `n` cases that are scored, None with none; `ci_low`
    and `ci_high` are its 95 % interval. `ceiling` is the best value that any system could reach
    (the lowest where lower is better), None where that is not known. `target` is the minimum (the
    maximum where lower is better), None where there is none. `verdict` is one of `VERDICTS`, by the
    value itself; `sure` states whether the whole interval is on that side.
    """

    measure: str
    perspective: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n_scored: int
    n: int
    ceiling: float | None = None
    target: float | None = None
    lower_is_better: bool = False
    verdict: str = "no target"
    sure: bool | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One question: its answer, its scores (None = unscored), whether it passed and, if not, the
    reasons in words.

    `passed` is None where no threshold applies. `retrieved` are the ids of the contexts in rank
    order, `relevant` the ids of the documents that hold the answer. `unsupported_claims` and
    `fabricated_numbers` (by their wording) and `invented_claims` (by the judge) are those of the
    answer that no context supports. `costs` is part ("generator", "judge") -> US dollars, None
    where unknown.
    """

    query_id: str
    question: str
    category: str
    query_type: str
    passed: bool | None
    reasons: tuple[str, ...]
    outcome: str | None
    expected_outcome: str | None
    answer: str
    retrieved: tuple[str, ...]
    relevant: tuple[str, ...]
    scores: Mapping[str, float | None]
    unsupported_claims: tuple[str, ...] = ()
    fabricated_numbers: tuple[str, ...] = ()
    invented_claims: tuple[str, ...] = ()
    costs: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CategoryResult:
    """The questions of one category: the fraction that passed with its Wilson interval, and the
    mean of each measure."""

    category: str
    questions: int
    n_scored: int
    pass_rate: float | None
    ci_low: float | None
    ci_high: float | None
    measures: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One safety sample: its score, and whether it was classified correctly (harmful or not).

    Of kind "input" or "output" by a detector; of kind "system" by the system that was asked: 1
    where it refused.
    """

    sample_id: str
    kind: str
    harmful: bool
    category: str
    score: float
    correct: bool


@dataclass(frozen=True, slots=True)
class SafetyFigure:
    """A figure about safety samples; `part` names which: "all", or a category, source or length.

    `kind` is "input" or "output" for a figure of a detector, "system" for one of the system under
    test.
    """

    kind: str
    measure: str
    part: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Advice:
    """What is wrong in a line, its likely cause, what to try, and the figures that this rests on."""

    title: str
    cause: str
    action: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A measure in the baseline and now, on the cases that both scored.

    `verdict` is "regression" or "improvement" where the interval of the difference and the p-value
    (Holm over all measures compared) both say so, else "no difference shown", which does not mean
    that there is none: see `mde`, the smallest difference that this many cases would show.
    `p_value` is that of the single test, `p_adjusted` after Holm's correction. `n_needed` cases
    would show a true difference as large as the one observed with a probability of 0.8; None where
    nothing differs or all cases differ alike.
    """

    measure: str
    perspective: str
    baseline: float | None
    contender: float | None
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    p_adjusted: float | None
    mde: float | None
    n: int
    better: int
    worse: int
    verdict: str
    p_value: float | None = None
    n_needed: int | None = None


@dataclass(frozen=True, slots=True)
class Flip:
    """A case that passed in one evaluation and not in the other; `reasons` are those of the one
    that failed.
    """

    query_id: str
    question: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PassFail:
    """Cases that are newly failing, and those that are fixed, with McNemar's exact p."""

    what: str
    n: int
    newly_failing: tuple[Flip, ...]
    fixed: tuple[Flip, ...]
    p_value: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """An evaluation against an earlier one of the same questions; `notes` state what could not be
    compared, and why.
    """

    baseline: str
    baseline_made: str
    changes: tuple[Change, ...]
    pass_fail: tuple[PassFail, ...]
    notes: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[str, ...]:
        """What got worse: names of measures, and of pass/fail counts."""
        measures = [change.measure for change in self.changes if change.verdict == "regression"]
        return (*measures, *(one.what for one in self.pass_fail if one.verdict == "regression"))


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of one stage over the `n` cases that were timed, and how they compare with its
    budget: "within", "over", "". `concurrency` is how many questions were asked at a time
    meanwhile, None where that is not known."""

    stage: str
    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    budget: float | None = None
    verdict: str = ""
    mean: float | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What one part of an evaluation ("generator", "judge", ...) asked of one model, and what that
    costs in US dollars.

    `cached` of the `requests` were answered from the reply store. `usd` is what all of them cost
    where nothing is stored yet; None where the price, or the number of tokens, is unknown.
    """

    part: str
    model: str
    requests: int
    failed: int
    cached: int
    input_tokens: int
    output_tokens: int
    usd: float | None


def total_cost(costs: Sequence[Cost], part: str = "") -> float | None:
    """The sum in US dollars of all costs, or of those of one part; None where one of them is
    unknown.

    >>> cost = Cost("judge", "openai:mine", 3, 0, 0, 900, 60, None)
    >>> total_cost([cost]), total_cost([cost], "generator")
    (None, 0.0)
    """
    own = [cost.usd for cost in costs if not part or cost.part == part]
    return None if None in own else math.fsum(usd for usd in own if usd is not None)


@dataclass(frozen=True, slots=True)
class Provenance:
    """When and where the evaluation was made and how long it took: all that differs when it is
    repeated.
    """

    at: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    latency: tuple[Latency, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One evaluation of one system on one test set. `write_report` writes it, `read_report` reads
    it back.

    `system` and `settings` are plain data: what was evaluated, and how. `counts` are numbers of
    questions ("passed", "failed", "undecided"), of doubtful claims in their answers, and of
    judgements by the criterion on which the judge failed most, `chunks` the statistics of the
    built-in pipeline's chunks. The same inputs give the same report but for `made`.
    """

    name: str
    test_set: TestSet
    system: Mapping[str, Any]
    settings: Mapping[str, Any]
    perspectives: tuple[Perspective, ...]
    measures: tuple[MeasureResult, ...]
    cases: tuple[CaseResult, ...]
    categories: tuple[CategoryResult, ...] = ()
    safety: tuple[SafetyFigure, ...] = ()
    samples: tuple[SampleResult, ...] = ()
    advice: tuple[Advice, ...] = ()
    comparison: Comparison | None = None
    made: Provenance = field(default_factory=Provenance)
    counts: Mapping[str, int] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    chunks: Mapping[str, float] = field(default_factory=dict)
    schema: int = SCHEMA

    @property
    def summary(self) -> pd.DataFrame:
        """One row per measure: the fields of `MeasureResult` as columns, numbers that are not there
        as NaN.
        """
        columns = [one.name for one in fields(MeasureResult)]
        rows = [[getattr(row, name) for name in columns] for row in self.measures]
        numbers = dict.fromkeys(("value", "ci_low", "ci_high", "ceiling", "target"), "float64")
        return pd.DataFrame(rows, columns=columns).astype(numbers)

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of every case: columns query_id, measure, value (NaN = unscored)."""
        return score_frame(
            (case.query_id, name, value)
            for case in self.cases
            for name, value in case.scores.items()
        )

    @property
    def missed(self) -> tuple[str, ...]:
        """Measures whose target is missed."""
        return tuple(row.measure for row in self.measures if row.verdict == "missed")

    @property
    def judge_failed(self) -> bool:
        """Return True if the judge failed on more than 20 % of what it was asked by one of its
        criteria.
        """
        return self.counts.get("failed_judgements", 0) > MAX_FAILED_JUDGEMENTS * self.counts.get(
            "judgements", 0
        )

    @property
    def passed(self) -> bool:
        """Whether no target is missed, every gate was measured, the judge answered, a document
        holds some passage of the system, and nothing got worse than in the baseline."""
        measured = {row.measure for row in self.measures if row.value is not None}
        gates = set(self.settings.get("gates", ())) <= measured and not self.judge_failed
        if self.system.get("is_foreign") and "retrieval" in self.settings.get("perspectives", ()):
            return False
        return (
            gates
            and not self.missed
            and (self.comparison is None or not self.comparison.regressions)
        )
