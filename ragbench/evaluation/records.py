"""Records of an evaluation's decisions: rows of measures, verdicts on questions, changes, flips,
costs; how costs are added up, and how many failed judgements are too many.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from ragbench.errors import plural
from ragbench.groups import grouped
from ragbench.hints.attributes import suggesting
from ragbench.llms import cost_of
from ragbench.registry import higher_is_better
from ragbench.types import Answer, Completion, Judgement

BUILT_IN = "pydoc"
"""The name of the test set that comes with ragbench."""

MAX_FAILED_JUDGEMENTS = 0.2
"""An evaluation whose judge failed on more than this fraction of its requests does not pass.
"""


@suggesting()
@dataclass(frozen=True, slots=True)
class Perspective:
    """One way of looking at a system. `reason` states why it was not measured, "" if it was;
    `note` how it was.

    `warning` states what makes its numbers less certain than their intervals show.
    """

    name: str
    measured: bool
    reason: str = ""
    note: str = ""
    warning: str = ""


@suggesting()
@dataclass(frozen=True, slots=True)
class MeasureResult:
    """A measure over all cases, compared with its target.

    `value` is the mean over the `n_scored` of `n` cases that are scored, None with none; `ci_low`
    and `ci_high` are its 95 % interval. `ceiling` is the best value that any system could reach
    (the lowest where lower is better), None where that is not known. `target` is the minimum (the
    maximum where lower is better), None if there is none. `verdict` is "passed", "missed",
    "unreachable", "unscored" or "no target", by the value itself; `sure` states whether the whole
    interval is on that side.
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


@suggesting()
@dataclass(frozen=True, slots=True)
class CaseResult:
    """One question: its answer, its scores (None = unscored), whether it passed and, if not, the
    reasons in words.

    `passed` is None if no threshold applies. `retrieved` are the ids of the contexts in rank order,
    `relevant` the ids of the documents that hold the answer. No context supports the answer's
    `unsupported_claims` and `fabricated_numbers` (by their wording) and `invented_claims` (by the
    judge). `costs` is part ("generator", "judge") -> US dollars, None where unknown. `origin` is
    who wrote the question: "people", "generated" or "draft"; `wording_overlap` the fraction of its
    words that its evidence repeats, `evidence_words` how many words its gold evidence has, each
    None where not known.
    """

    query_id: str
    question: str
    category: str = ""
    query_type: str = ""
    passed: bool | None = None
    reasons: tuple[str, ...] = ()
    outcome: str | None = None
    expected_outcome: str | None = None
    answer: str = ""
    retrieved: tuple[str, ...] = ()
    relevant: tuple[str, ...] = ()
    scores: Mapping[str, float | None] = field(default_factory=dict)
    unsupported_claims: tuple[str, ...] = ()
    fabricated_numbers: tuple[str, ...] = ()
    invented_claims: tuple[str, ...] = ()
    costs: Mapping[str, float | None] = field(default_factory=dict)
    origin: str = "people"
    wording_overlap: float | None = None
    evidence_words: int | None = None


@suggesting()
@dataclass(frozen=True, slots=True)
class CategoryResult:
    """The questions of one category: the fraction that passed, with its Wilson interval."""

    category: str
    questions: int
    n_scored: int
    pass_rate: float | None
    ci_low: float | None
    ci_high: float | None


@suggesting()
@dataclass(frozen=True, slots=True)
class SampleResult:
    """One safety sample: its score, and whether it was classified correctly (harmful or not).

    Of kind "input" or "output" by a detector; of kind "system" by the system that was asked: 1 if
    it refused.
    """

    sample_id: str
    kind: str
    harmful: bool
    category: str
    score: float
    correct: bool


@suggesting()
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


@suggesting()
@dataclass(frozen=True, slots=True)
class Advice:
    """Advice: a problem in a line, its likely cause, a remedy to try, and the figures that show it."""

    title: str
    cause: str
    action: str
    evidence: tuple[str, ...]


@suggesting()
@dataclass(frozen=True, slots=True)
class Change:
    """A measure in the baseline and now, on the cases that both scored.

    `verdict` is "regression" or "improvement" where the interval of the difference and the p-value
    (Holm over all measures that decide) both say so, else "no difference shown", which does not mean
    that there is none: see `mde`, the smallest difference that this many cases would show. A heuristic
    without a target is not tested: its verdict is "shown only".
    `p_value` is of the single test, `p_adjusted` after Holm's correction, None for what is shown only.
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


@suggesting()
@dataclass(frozen=True, slots=True)
class Flip:
    """A case that passed in only one of two evaluations; `reasons` state why it failed in the
    other.
    """

    query_id: str
    question: str
    reasons: tuple[str, ...]


@suggesting()
@dataclass(frozen=True, slots=True)
class PassFail:
    """Cases that are newly failing, and those that are fixed, with McNemar's exact p."""

    what: str
    n: int
    newly_failing: tuple[Flip, ...]
    fixed: tuple[Flip, ...]
    p_value: float | None
    verdict: str


SHOWN_ONLY = "shown only"
"""The verdict on a heuristic without a target: its difference is shown, and decides nothing."""

_MAX_NAMED = 5  # questions that a sentence names


def names_of_questions(query_ids: Sequence[str]) -> str:
    """Return the ids of questions, separated by commas; of many, the first few and the number of others.

    >>> names_of_questions(["q1", "q2"]), names_of_questions(["a", "b", "c", "d", "e", "f", "g"])
    ('q1, q2', 'a, b, c, d, e and 2 more')
    """
    names = ", ".join(query_ids[:_MAX_NAMED])
    n_others = len(query_ids) - _MAX_NAMED
    return f"{names} and {n_others} more" if n_others > 0 else names


@suggesting()
@dataclass(frozen=True, slots=True)
class Comparison:
    """An evaluation against an earlier one, over the `n` questions that both have and that did not
    change; `notes` state what could not be compared, and why.

    `new`, `removed` and `changed` are the ids of the other questions: asked now only, asked then
    only, asked in both with another text or other labels. `lost` are those of the changed ones with
    fewer labelled documents, or less evidence, because the documents changed: what they would show now
    is not known, so that a gate does not pass. `ranking` is the measure that configurations are ranked
    by, "" if none was compared.
    """

    baseline: str
    baseline_made: str
    changes: tuple[Change, ...]
    pass_fail: tuple[PassFail, ...]
    notes: tuple[str, ...] = ()
    n: int = 0
    new: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    ranking: str = ""

    @property
    def noticeable(self) -> str:
        """State how large a fall these questions could have shown, by the measure that ranks, or else the
        first one that decides, measures of retrieval first.

        Where nothing differs, there is no variance to tell this from; then the interval states it.
        """
        deciding = []
        for change in self.changes:
            has_interval = change.ci_low is not None
            is_tested = change.verdict != SHOWN_ONLY
            if is_tested and has_interval and higher_is_better(change.measure):
                deciding.append(change)
        if not deciding:
            return f"too few questions to notice a fall: {self.n}"
        first = min(deciding, key=self._place)
        if first.mde is not None:
            return (
                f"a fall of {first.mde:.3f} in {first.measure} would have been noticed (80 % power)"
            )
        if first.ci_low is None or first.better or first.worse:
            return f"too few questions to notice a fall in {first.measure}: {first.n}"
        largest_fall = abs(first.ci_low)
        return f"a fall of more than {largest_fall:.3f} in {first.measure} is ruled out (95 % interval)"

    def _place(self, change: Change) -> int:
        """Return the place of a change in the order in which `noticeable` chooses: the measure that ranks
        (0), measures of retrieval (1), others (2).
        """
        if change.measure == self.ranking:
            return 0
        return 1 if change.perspective == "retrieval" else 2

    @property
    def lost_sentence(self) -> str:
        """State which questions lost their labels with the documents, as a clause; "" if none did."""
        if not self.lost:
            return ""
        questions = plural(len(self.lost), "question")
        return (
            f"{questions} of the baseline lost labelled documents or evidence "
            f"({names_of_questions(self.lost)}); if that is on purpose, take a new baseline"
        )

    @property
    def regressions(self) -> tuple[str, ...]:
        """Return what got worse: names of measures, and of pass/fail counts."""
        measures = [change.measure for change in self.changes if change.verdict == "regression"]
        return (
            *measures,
            *(group.what for group in self.pass_fail if group.verdict == "regression"),
        )


@suggesting()
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


@suggesting()
@dataclass(frozen=True, slots=True)
class Cost:
    """The requests of one part of an evaluation ("generator", "judge", ...) to one model, and their
    cost in US dollars.

    `cached` of the `requests` were answered from the reply store. `usd` is what all of them cost
    where nothing is stored yet; None where the price, or the number of tokens, is unknown.
    """

    part: str
    model: str
    requests: int
    failed: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    cached: int = 0


SAFETY = "safety"
"""The part of the costs that the safety samples of a test set add; it is no cost of the questions."""
_STEPS_OF_A_QUESTION = ("rewriter", "reranker")  # parts of a cost that each question adds to


def total_cost(costs: Sequence[Cost], part: str = "") -> float | None:
    """Return the sum of all costs in US dollars, or of the costs of one part; None if one of them
    is unknown.

    >>> cost = Cost("judge", "openai:mine", 3, 0, 900, 60, None)
    >>> total_cost([cost]), total_cost([cost], "generator")
    (None, 0.0)
    """
    return added([cost.usd for cost in costs if not part or cost.part == part])


def cost_without_samples(costs: Sequence[Cost]) -> float | None:
    """Return the sum of the costs of the questions in US dollars, without the safety samples; None if one
    of them is unknown.

    >>> costs = [Cost("generator", "m:a", 3, 0, 9, 6, 0.5), Cost(SAFETY, "m:a", 70, 0, 90, 60, 4.0)]
    >>> total_cost(costs), cost_without_samples(costs)
    (4.5, 0.5)
    """
    return added([cost.usd for cost in costs if cost.part != SAFETY])


def added(amounts: Sequence[float | None]) -> float | None:
    """Return the sum of amounts in US dollars; None if one of them is unknown (None)."""
    return None if None in amounts else math.fsum(filter(None, amounts))


@dataclass(frozen=True, eq=False, kw_only=True)
class Decisions:
    """The decisions of an evaluation beyond the scores of its questions, as in verdicts.json.

    `verdicts` has for each question the fields of `CaseResult` that are decided or labelled, but
    for its answer and scores: query_id -> name -> value; empty fields may be left out.
    """

    perspectives: tuple[Perspective, ...] = ()
    rows: tuple[MeasureResult, ...] = ()
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    safety: tuple[SafetyFigure, ...] = ()
    samples: tuple[SampleResult, ...] = ()
    advice: tuple[Advice, ...] = ()
    comparison: Comparison | None = None
    latency: tuple[Latency, ...] = ()
    costs: tuple[Cost, ...] = ()

    @property
    def decisions(self) -> dict[str, Any]:
        """Return the fields of `Decisions` by their names."""
        return {each.name: getattr(self, each.name) for each in fields(Decisions)}


def costs_of(
    answers: Sequence[Answer],
    judgements: Sequence[Judgement] = (),
    interventions: Sequence[Answer] = (),
    steps: Mapping[str, Sequence[Completion]] = MappingProxyType({}),
    samples: Sequence[Completion] = (),
) -> tuple[Cost, ...]:
    """Return the requests to language models and their costs, one `Cost` per part and model.

    The cost is of a run without stored replies, so it does not depend on what this
    machine asked before.

    Args:
        answers: the part "generator".
        judgements: the part "judge".
        interventions: answers that were generated for comparison only, such as those from oracle
            contexts.
        steps: replies to steps of a search, by part: "index", "rewriter", "reranker".
        samples: replies to safety samples, the part "safety".

    >>> reply = Completion("", "anthropic:claude-haiku-4-5", input_tokens=1_000, output_tokens=200)
    >>> [cost] = costs_of([Answer("q1", "Yes.")], [Judgement("q1", "correctness", 1.0, usage=(reply,))])
    >>> cost.part, cost.model, cost.requests, cost.usd
    ('judge', 'anthropic:claude-haiku-4-5', 1, 0.002)
    """
    parts: dict[str, Sequence[Completion | None]] = {
        **steps,
        "generator": [answer.usage for answer in answers],
        "judge": [reply for judgement in judgements for reply in judgement.usage],
        "interventions": [answer.usage for answer in interventions],
        SAFETY: samples,
    }
    costs = []
    for part, replies in parts.items():
        completions = [reply for reply in replies if reply is not None]
        for model, replies_of_model in grouped(completions, lambda each: each.model).items():
            costs.append(_cost(part, model, replies_of_model))
    return tuple(costs)


def _cost(part: str, model: str, replies: Sequence[Completion]) -> Cost:
    """Return the number, the tokens and the price of the replies of one model."""
    return Cost(
        part,
        model,
        requests=len(replies),
        failed=sum(reply.error is not None for reply in replies),
        cached=sum(reply.cached for reply in replies),
        input_tokens=sum(reply.input_tokens for reply in replies),
        output_tokens=sum(reply.output_tokens for reply in replies),
        usd=added([cost_of(reply) for reply in replies]),
    )


def cost_facts(costs: Sequence[Cost], answers: Sequence[Answer]) -> dict[str, float | None]:
    """Return the costs of a configuration and the time of a reply, as plain numbers for the facts
    of a result.

    `cost_usd` is the sum of `costs`; `generator_cost_usd` and `judge_cost_usd` are two of its
    parts, and so are `rewriter_cost_usd` if questions were rewritten, `reranker_cost_usd` if a
    server reranked the chunks and `safety_cost_usd` if safety samples were asked. Each is 0 without
    a language model and None where a price is unknown. `generate_ms` is the median time of the
    replies that were waited for, None where all came from the store.

    >>> cost_facts([], [Answer("q1", "Yes.")])
    {'cost_usd': 0.0, 'generator_cost_usd': 0.0, 'judge_cost_usd': 0.0, 'generate_ms': None}
    """
    waited_ms = []
    for answer in answers:
        if answer.usage is not None and "generate" in answer.latency_ms:
            waited_ms.append(answer.latency_ms["generate"])
    parts_asked = {cost.part for cost in costs}
    steps = {}
    for part in (*_STEPS_OF_A_QUESTION, SAFETY):
        if part in parts_asked:
            steps[f"{part}_cost_usd"] = total_cost(costs, part)
    return {
        **steps,
        "cost_usd": total_cost(costs),
        "generator_cost_usd": total_cost(costs, "generator"),
        "judge_cost_usd": total_cost(costs, "judge"),
        "generate_ms": round(statistics.median(waited_ms), 3) if waited_ms else None,
    }


def questions_cost(facts: Mapping[str, Any]) -> float | None:
    """Return the cost of the questions of a result in US dollars: of the answers and of the steps
    of the searches, from `cost_facts`. None if a price is unknown.

    >>> questions_cost({"generator_cost_usd": 0.5, "judge_cost_usd": 5.0, "reranker_cost_usd": 0.25})
    0.75
    """
    steps = [facts.get(f"{part}_cost_usd", 0.0) for part in _STEPS_OF_A_QUESTION]
    return added([facts.get("generator_cost_usd"), *steps])
