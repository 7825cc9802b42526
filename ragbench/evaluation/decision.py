"""The `Conclusion` of any comparison, also of other tools' scores: the title, the configuration to
use, the next step of two or more, the sentences on difference, margin and cost.

Only arms and the questions that decide are known here, so that results of ragbench and tables of other
tools (`ragbench.foreign`) are decided and described alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, SupportsIndex, overload

import pandas as pd

from ragbench.errors import ConfigError, check_known
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.hints.record_values import explaining_values
from ragbench.hints.similar_names import hint_of
from ragbench.registry import find_measure, higher_is_better, meaning_of
from ragbench.statistics.columns import known_number
from ragbench.statistics.comparison import with_interval
from ragbench.statistics.shrinkage import ExpectedGain
from ragbench.statistics.thresholds import MIN_QUESTIONS

ORDER = ("better", "likely better", "within the margin", "undecided", "likely worse", "worse")
"""Decisions about an arm, the most useful to a user first."""

DRAFTS_ALONE = (
    "all questions are known-item drafts, which repeat the words of their passages and so favour "
    "lexical search and small chunks"
)

_MANY = 1_000_000  # questions; more are never asked
# a user is not told to ask more than this many times the present questions
_MAX_GROWTH = 10
# questions that a user is told to write; `MIN_QUESTIONS`, which is less, can just decide
_QUESTIONS_TO_WRITE = 20
# medians of time that differ by less, relatively or in ms, change places from run to run
_SAME_TIME = {"rel_tol": 0.1, "abs_tol": 1.0}


@suggesting(
    **dict.fromkeys(["ci", "interval", "confidence_interval"], "arm.ci_low and arm.ci_high"),
    **dict.fromkeys(["p", "pvalue", "p_value"], "arm.p_adjusted, or arm.decision"),
    significant="arm.decision in ('better', 'worse')",
    score="arm.mean",
)
@explaining_values("arm")
@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration next to the baseline, by the ranking measure.

    `decision` is "not possible", "better", "worse", "within the margin", "likely better", "likely
    worse" or "undecided" (`ragbench.compare` says when); "" for the baseline itself. `reason`
    states why no decision is possible. `expected` is the difference to expect on new questions,
    None if it is not estimated. `loss_rate_to_overturn` and `n_to_decide` are explained in
    `ragbench.compare`; the p-values are adjusted for `n_tests` comparisons.

    Differences are over the `n` questions that both have, and so are `shared_mean` and the baseline's
    mean on them, `baseline_shared_mean`; `mean` is over all deciding questions that this configuration
    has. The `n` questions show as much as `n_independent` independent ones: the others repeat,
    continue or resemble their neighbours.
    `index_cost_usd` is paid once, for the texts that a language model wrote for the index;
    `cost_per_1000_usd` for the questions. Both are None if a price is unknown.
    """

    name: str
    label: str
    mean: float | None
    decision: str = ""
    reason: str = ""
    difference: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    shared_mean: float | None = None
    baseline_shared_mean: float | None = None
    expected: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    n: int = 0
    n_independent: int = 0
    p_adjusted: float | None = None
    p_likely_adjusted: float | None = None
    n_tests: int = 0
    loss_rate_to_overturn: float | None = None
    n_to_decide: int | None = None
    mde: float | None = None
    latency_p50_ms: float | None = None
    cost_per_1000_usd: float | None = None
    index_cost_usd: float | None = None


@suggesting()
@dataclass(frozen=True, slots=True)
class DecidingQuestions:
    """The questions that decide, and the measure that they decide by.

    `ids` are the questions whose origin lets them decide; every configuration has scored `n` of
    them. `total` is the number of all questions. `left_out` maps each reason why the others do not
    decide to their number, `composition` each origin to its number of questions. `not_possible`
    states why nothing can be decided; "" if it can. `passed_over` states in a sentence why a measure
    of retrieval does not decide although some questions have it; "" if it decides, or none has it.
    """

    measure: str
    measure_reason: str
    ids: frozenset[str]
    n: int
    total: int
    left_out: Mapping[str, int]
    composition: Mapping[str, int]
    not_possible: str = ""
    passed_over: str = ""


class Arms(tuple[Arm, ...]):
    """Configurations, by their place or their name.

    >>> arms = Arms([Arm("old", "old", 0.5), Arm("new", "new", 0.7)])
    >>> arms["new"].mean, arms[0].name
    (0.7, 'old')
    """

    __slots__ = ()

    @overload
    def __getitem__(self, at: SupportsIndex | str, /) -> Arm: ...
    @overload
    def __getitem__(self, at: slice, /) -> tuple[Arm, ...]: ...
    def __getitem__(self, at: Any, /) -> Any:
        """Return a configuration, or several of a slice.

        Raises:
            ConfigError: no configuration has this name.
        """
        if not isinstance(at, str):
            return super().__getitem__(at)
        by_name = {arm.name: arm for arm in self}
        check_known("configuration", by_name, at)
        return by_name[at]


_CALLS = {
    **{
        field.name: f"conclusion.arms['name'].{field.name}"
        for field in fields(Arm)
        if field.name not in ("decision", "n")  # which a conclusion has
    },
    **dict.fromkeys(
        "reason reasons why explanation rationale details".split(),
        "conclusion.evidence, its sentences",
    ),
    **dict.fromkeys(["report", "print", "show", "summary"], "print(conclusion)"),
    **dict.fromkeys(["contender", "winner"], "conclusion.choice, or conclusion.arms['name']"),
    **dict.fromkeys(["significant", "is_better"], "conclusion.decision in ('better', 'worse')"),
    **dict.fromkeys(
        ["text", "to_markdown"], "str(conclusion), or the command `ragbench compare A B --markdown`"
    ),
    **dict.fromkeys(
        ["scores", "questions", "per_question", "per_query", "data", "results", "values"],
        "rb.foreign.load_scores(path): a conclusion has no scores of questions",
    ),
    "save": "json.dumps(conclusion.to_dict()), or the command `ragbench compare A B --json`",
    "to_json": "json.dumps(conclusion.to_dict())",
    **dict.fromkeys(
        "to_frame to_pandas df table rows stats comparison loc iloc at iat head columns query "
        "sort_values".split(),
        "pandas.DataFrame(conclusion.arms), with a row per configuration; of ragbench's results "
        "rb.compare(rb.load_result(a), rb.load_result(b)), with a row per measure",
    ),
    "plot": "rb.plots.plot_decision(board, measure, comparison)",
}
"""What people expect of a conclusion -> what to write."""


@suggesting(
    "pandas.DataFrame(conclusion.arms)",
    "rb.compare(a, b), or rb.load_results(folder).conclude()",
    **_CALLS,
)
@explaining_values("conclusion")
@dataclass(frozen=True, slots=True)
class Conclusion(metaclass=Suggesting):
    """What several results show, and the one next step that follows.

    `decision` is the `decision` of the arm that matters most; `headline` states it in one sentence
    without a full stop, and `evidence` holds the sentences that it rests on. `next_step` is one
    instruction, and `action` its kind: "switch", "keep", "ask", "write", "label", "choose by
    cost", "add" or "improve". `choice` is the configuration to use now.

    `n` of `total` questions decide; `left_out` maps the reason why others do not to their number.
    `arms` are all configurations, best first by the ranking measure; labels are plain text.
    """

    decision: str
    headline: str
    next_step: str
    action: str
    evidence: tuple[str, ...]
    measure: str
    measure_reason: str
    baseline: str
    choice: str
    n: int
    total: int
    left_out: Mapping[str, int]
    composition: Mapping[str, int]
    margin: float
    arms: Arms

    def __getitem__(self, name: str) -> Any:
        """Return a field by its name, as in the JSON of a conclusion, or the arm of this name.

        Raises:
            ConfigError: there is neither.
        """
        if not isinstance(name, str):
            raise ConfigError(
                f"a conclusion has names as keys, not {name!r}; use conclusion.arms, which are its configurations"
            )
        names = [field.name for field in fields(self)]
        if name in names:
            return getattr(self, name)
        by_name = {arm.name: arm for arm in self.arms}
        if name not in by_name:
            hint = hint_of(name, [*by_name, *names], _CALLS)
            if find_measure(name) or name == self.measure:
                hint = f"; use rb.compare(a, b, measures=[{name!r}])"
            raise ConfigError(f"unknown field or configuration {name!r}{hint}")
        return by_name[name]

    def __contains__(self, name: object) -> bool:
        """Return True for the name of a configuration."""
        return any(arm.name == name for arm in self.arms)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            raise ConfigError(f"a conclusion is not a text; write conclusion.decision == {other!r}")
        return isinstance(other, Conclusion) and self.to_dict() == other.to_dict()

    def __bool__(self) -> bool:
        raise ConfigError(
            "a conclusion is neither true nor false; write conclusion.decision in ('better', 'likely better'), or "
            "rb.assert_not_worse(a, b) in a test"
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the decision, its evidence, and the next step: a sentence a line."""
        return (f"{self.headline}.", *self.evidence, f"Next: {self.next_step}.")

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain data, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_markdown_(self) -> str:
        import html

        first, *others = [html.escape(line, quote=False) for line in self.lines]
        return f"**{first}**\n\n" + "\n".join(f"- {line}" for line in others)


def arm_of(about: Mapping[str, Any], row: Mapping[Any, Any]) -> Arm:
    """Return the `Arm` of a configuration that was compared with the baseline.

    Args:
        about: fields of `Arm` that do not depend on the baseline: name, label, mean and costs.
        row: the row of this configuration in the table of `ragbench.compare_all`.
    """
    n_to_decide = row["n_to_decide"]
    return Arm(
        **about,
        decision=row["decision"],
        reason=row["reason"],
        difference=known_number(row["difference"]),
        ci_low=known_number(row["ci_low"]),
        ci_high=known_number(row["ci_high"]),
        shared_mean=known_number(row["contender"]),
        baseline_shared_mean=known_number(row["baseline"]),
        wins=int(row["wins"]),
        ties=int(row["ties"]),
        losses=int(row["losses"]),
        n=int(row["n"]),
        n_independent=int(row["n_clusters"]),
        p_adjusted=known_number(row["p_adjusted"]),
        p_likely_adjusted=known_number(row["p_likely_adjusted"]),
        n_tests=int(row["n_tests"]),
        loss_rate_to_overturn=known_number(row["loss_rate_to_overturn"]),
        n_to_decide=None if pd.isna(n_to_decide) else int(n_to_decide),
        mde=known_number(row["mde"]),
    )


def best_first(arms: Sequence[Arm], measure: str) -> list[Arm]:
    """Return the arms by their mean, the best first; those without a mean come last."""
    sign = 1 if higher_is_better(measure) else -1

    def place(arm: Arm) -> tuple[bool, float, str]:
        has_no_mean = arm.mean is None
        # rounded, as the last bit depends on the order of the values
        return (has_no_mean, -sign * round(arm.mean or 0.0, 12), arm.name)

    return sorted(arms, key=place)


def with_expected(arms: Sequence[Arm], expected: ExpectedGain | None, measure: str) -> list[Arm]:
    """Return the arms (configurations); the arm with the best observed gain gets the gain to expect on new
    questions, because the best of several observed gains is partly luck.

    Args:
        arms: the configurations.
        expected: the name of that arm and its expected gain; None changes no arm.
        measure: if a lower value of it is better, a gain is a negative difference in `Arm.expected`.
    """
    if expected is None:
        return list(arms)
    sign = 1 if higher_is_better(measure) else -1
    changed = []
    for arm in arms:
        if arm.name == expected.name:
            arm = replace(arm, expected=sign * expected.expected)
        changed.append(arm)
    return changed


def leading_arm(others: Sequence[Arm], measure: str) -> Arm | None:
    """Return the arm (configuration) with the most useful decision; None without arms.

    Decisions are in the order of `ORDER`, "better" first, with two exceptions: "undecided" comes before
    "within the margin" if the arm has a gain, and a decision that is not in `ORDER` comes first. Of
    arms with the same decision, the arm with the largest gain is returned.
    """
    if not others:
        return None

    def place(arm: Arm) -> tuple[float, float]:
        gain = _gain(arm, measure)
        decision = arm.decision
        if decision == "undecided" and gain > 0:
            rank = ORDER.index("within the margin") - 0.5  # it may yet turn out to be better
        else:
            rank = ORDER.index(decision) if decision in ORDER else -1
        return (rank, -round(gain, 12))

    return min(others, key=place)


def _gain(arm: Arm, measure: str) -> float:
    difference = arm.difference or 0.0
    return difference if higher_is_better(measure) else -difference


def chosen_arm(leading: Arm, base: Arm) -> Arm:
    """Return the configuration to use now."""
    if leading.decision in ("better", "likely better"):
        return leading
    if _is_equal(leading):
        return _by_cost(leading, base)[0]
    return base


def _is_equal(leading: Arm) -> bool:
    """Return True if an arm is as good as the baseline, so that costs may choose."""
    if leading.decision == "within the margin":
        return True
    return leading.decision == "undecided" and leading.ties == leading.n


def headline_of(leading: Arm, base: Arm, others: Sequence[Arm]) -> str:
    """State the decision in one sentence without a full stop."""
    decision = leading.decision
    if decision == "not possible":
        return f"No decision: {leading.reason}"
    counts = f"better in {leading.wins} of {leading.n} questions, worse in {leading.losses}"
    if decision in ("better", "likely better"):
        verb = "is better" if decision == "better" else "is likely better"
        return f"{leading.label} {verb} than {base.label}: {counts}"
    if decision in ("worse", "likely worse"):
        if len(others) > 1:
            return f"Keep the baseline, {base.label}: all other configurations are worse"
        verb = "is worse" if decision == "worse" else "is likely worse"
        return f"Keep the baseline, {base.label}: {leading.label} {verb}"
    if leading.ties == leading.n:
        return f"{leading.label} and {base.label} are equal on every one of {leading.n} questions"
    if decision == "within the margin":
        return f"{leading.label} is as good as {base.label}, within the margin"
    return (
        f"Undecided: {leading.n} questions do not show whether {leading.label} is better than the "
        f"baseline, {base.label}"
    )


def next_step_of(
    leading: Arm, base: Arm, deciding: DecidingQuestions, doubtful: str = ""
) -> tuple[str, str]:
    """Return the kind of the next step ("switch", "choose by cost", "label", "ask", "keep" or "write"),
    and the instruction.

    `doubtful` names questions whose labels are in doubt; "" if there are none.
    """
    decision = leading.decision
    if decision == "not possible":
        return _step_to_enable_decision(deciding)
    if decision in ("better", "likely better"):
        return "switch", f"switch to {leading.label}"
    if _is_equal(leading):
        _, reason = _by_cost(leading, base)
        if reason:
            return "choose by cost", f"choose by cost: {reason}"
    if decision == "undecided":
        if doubtful:
            return "label", f"check the labels of {doubtful}"
        n_more = (leading.n_to_decide or _MANY) - leading.n
        is_feasible = 0 < n_more < _MAX_GROWTH * max(leading.n, 100)
        if _gain(leading, deciding.measure) > 0 and is_feasible:
            return "ask", f"ask about {n_more:,} more questions; until then keep {base.label}"
    return "keep", f"keep the baseline, {base.label}"


def _step_to_enable_decision(deciding: DecidingQuestions) -> tuple[str, str]:
    """Return the next step where the questions cannot decide: its kind ("ask", "write" or "label") and the
    instruction, which states what the questions lack.
    """
    if not deciding.composition:  # tables of another tool, which tell nothing about their questions
        return (
            "ask",
            f"score {MIN_QUESTIONS} or more questions by {deciding.measure} in every table",
        )
    n_people = deciding.composition.get("people", 0)
    if deciding.not_possible == DRAFTS_ALONE or n_people < MIN_QUESTIONS:
        n_to_write = max(_QUESTIONS_TO_WRITE - n_people, 1)
        return "write", (
            f"write {n_to_write} questions of your own, in questions.ipynb or as a table "
            "for `ragbench testset convert`"
        )
    return "label", f"label the questions, so that {deciding.measure} can be scored on them"


def _by_cost(leading: Arm, base: Arm) -> tuple[Arm, str]:
    """Return which of two equally good arms (configurations) to use, and the reason.

    - The arm that costs less per question; if these costs are equal or unknown, the arm whose index
      costs less.
    - Else the arm that is clearly faster. But if the price of only one arm is unknown, the baseline is
      used, and the reason states which price is missing.
    - Else the baseline, with the reason "".
    """
    for amount in ("cost_per_1000_usd", "index_cost_usd"):
        cost, base_cost = getattr(leading, amount), getattr(base, amount)
        if cost is not None and base_cost is not None and cost != base_cost:
            cheaper = leading if cost < base_cost else base
            return cheaper, f"{cheaper.label} costs less{_price(cheaper)}"
    time, base_time = leading.latency_p50_ms, base.latency_p50_ms
    if time is None or base_time is None or math.isclose(time, base_time, **_SAME_TIME):
        return base, ""
    faster = leading if time < base_time else base
    reason = f"{faster.label} takes less time{_price(faster)}"
    unpriced = [arm for arm in (leading, base) if _has_unknown_price(arm)]
    if len(unpriced) == 2:
        reason += "; their prices are not known"
    if len(unpriced) == 1:
        reason += f"; keep {base.label} until the price of {unpriced[0].label} is known"
        return base, reason
    return faster, reason


def _has_unknown_price(arm: Arm) -> bool:
    return arm.cost_per_1000_usd is None or arm.index_cost_usd is None


def _price(arm: Arm) -> str:
    """Return the time and cost of an answer, in brackets, as far as they are known."""
    texts = []
    if arm.latency_p50_ms is not None:
        texts.append(f"{arm.latency_p50_ms:,.0f} ms per question (p50)")
    if arm.cost_per_1000_usd:  # what costs nothing needs no mention
        texts.append(f"{arm.cost_per_1000_usd:,.2f} dollars per 1,000 questions")
    if arm.index_cost_usd:
        texts.append(f"{arm.index_cost_usd:,.4f} dollars for the index")
    return f" ({', '.join(texts)})" if texts else ""


def difference_sentences(leading: Arm | None, base: Arm, deciding: DecidingQuestions) -> list[str]:
    """Return sentences on the difference between the leading configuration and the baseline: its interval,
    what could overturn it, and what to expect on new questions.

    If no difference is known, the only sentence states the mean of the baseline. [] if the baseline has
    no score.
    """
    meaning = meaning_of(deciding.measure)
    measure = f"{deciding.measure} ({meaning})" if meaning else deciding.measure
    if base.mean is None:
        return []
    if leading is None or leading.difference is None:
        return [f"{base.label} has {base.mean:.3f} by {measure}, over {base.n} questions."]
    interval = with_interval(leading.difference, leading.ci_low, leading.ci_high, "{:+.3f}")
    sentence = (
        f"By {measure}: {leading.shared_mean:.3f} against {leading.baseline_shared_mean:.3f}, {interval}, "
        f"over {leading.n} of {deciding.total} questions"
    )
    if leading.n_independent < leading.n:
        sentence += (
            f" (as much as {leading.n_independent} independent ones: others repeat, continue or "
            "resemble their neighbours)"
        )
    lines = [f"{sentence}."]
    lines += _likely_sentence(leading)
    if leading.expected is not None and leading.decision in ("better", "likely better"):
        lines.append(
            f"Observed {leading.difference:+.3f}; expected on new questions about "
            f"{leading.expected:+.3f}."
        )
    return lines


def _likely_sentence(leading: Arm) -> list[str]:
    """State why a configuration is only likely better or worse; [] for another decision.

    - The interval of its difference excludes 0, and only the adjustment of its p-value for several
      comparisons leaves it undecided.
    - Else the rate of questions with a total loss, of a kind not seen so far, that would cancel the
      difference.
    """
    if leading.loss_rate_to_overturn is None:
        return []
    excludes_zero = (
        leading.ci_low is not None
        and leading.ci_high is not None
        and (leading.ci_low > 0 or leading.ci_high < 0)
    )
    if excludes_zero and leading.n_tests > 1 and leading.p_adjusted is not None:
        return [
            f"Likely: its p is {leading.p_adjusted:.3f} after Holm's correction for "
            f"{leading.n_tests} comparisons."
        ]
    return [
        f"Likely, unless a loss that none of these {leading.n} questions showed hits more than "
        f"{leading.loss_rate_to_overturn:.1%} of questions."
    ]


def left_out_sentences(deciding: DecidingQuestions) -> list[str]:
    """State how many questions decide, and for the others the reason.

    If all questions decide, only the note about known-item drafts (questions that were made from the words
    of one passage) is returned; [] without drafts. Else drafts that do not decide are among the reasons.
    """
    if deciding.n == deciding.total:
        return draft_note(deciding)
    reasons = []
    for reason, count in deciding.left_out.items():
        # a reason begins with its verb, in the plural: "have no relevant document"
        verb, _, rest = reason.partition(" ")
        if count == 1:
            verb = {"have": "has", "are": "is", "were": "was"}.get(verb, verb)
        reasons.append(f"{count} {verb} {rest}")
    return [f"{deciding.n} of {deciding.total} questions decide: {'; '.join(reasons)}."]


def draft_note(deciding: DecidingQuestions) -> list[str]:
    """State what can be concluded from known-item drafts; [] without drafts."""
    n_drafts = deciding.composition.get("draft", 0)
    if not n_drafts:
        return []
    return [
        f"{n_drafts} of {deciding.total} questions are known-item drafts, which repeat the words of "
        "their passages: they test that everything runs, not which retriever or chunking is better."
    ]


def detectable_sentences(leading: Arm | None) -> list[str]:
    """State the smallest difference that these questions show."""
    if leading is None or leading.mde is None or leading.decision == "not possible":
        return []
    return [f"{leading.n} questions show a difference of {leading.mde:.3f} or more (80 % power)."]


def rest_sentences(others: Sequence[Arm], leading: Arm | None) -> list[str]:
    """Count the decisions about the other configurations."""
    counts = Counter(arm.decision for arm in others if arm is not leading)
    if not counts:
        return []
    listed = ", ".join(
        f"{counts[name]} {name}" for name in (*ORDER, "not possible") if counts[name]
    )
    return [f"Of the other configurations, next to the baseline: {listed}."]


def cost_sentences(base: Arm, leading: Arm | None) -> list[str]:
    """State the cost of an answer of the baseline and of the leading configuration."""
    arms = [base] if leading is None else [base, leading]
    priced = [f"{arm.label}{_price(arm)}" for arm in arms if _price(arm)]
    return [f"Cost: {'; '.join(priced)}."] if priced else []
