"""The one record of what several results show: every surface displays it and computes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from ragbench.evaluation.causes import CAUSES, STAGE_OF
from ragbench.evaluation.comparison import unreadable_note_of
from ragbench.evaluation.configurations import configurations, only, per_question
from ragbench.evaluation.deciding import DRAFTS_ALONE, DecidingQuestions
from ragbench.evaluation.records import known_number
from ragbench.evaluation.result import Result
from ragbench.registry import higher_is_better, meaning_of
from ragbench.statistics.comparison import MIN_QUESTIONS, compare, with_interval
from ragbench.statistics.race import Race
from ragbench.statistics.shrinkage import ExpectedGain
from ragbench.testsets.composition import PEOPLES_OVERLAP

ORDER = ("better", "likely better", "within the margin", "undecided", "likely worse", "worse")
"""Decisions about an arm, the most useful to a user first."""

_MANY = 1_000_000  # questions; more are never asked
_ACTIONS = {
    "retrieval": "try another retriever, a reranker or a larger k",
    "chunking": "try another chunking or a larger context budget",
    "generation": "try another model or prompt",
    "judge": "check the judge's verdicts on these questions by hand",
    "label": "check the labels of these questions",
    "unknown": "label the evidence of these questions",
}


@dataclass(frozen=True, slots=True)
class Arm:
    """One configuration next to the baseline, by the ranking measure.

    `decision` is one of the values of DESIGN's table: "not possible", "better", "worse", "within the
    margin", "likely better", "likely worse", "undecided"; "" for the baseline itself. `reason`
    states why nothing is possible. `expected` is what the difference is expected to be on new
    questions, None where that is not estimated. `loss_rate_to_overturn` and `n_to_decide` are those
    of `ragbench.compare`. Means and differences are over the `n` questions that both have; `n_independent` of these are
    neither repeated nor later turns of a conversation.
    """

    name: str
    label: str
    mean: float | None
    decision: str = ""
    reason: str = ""
    difference: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    expected: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    n: int = 0
    n_independent: int = 0
    p_adjusted: float | None = None
    p_likely_adjusted: float | None = None
    loss_rate_to_overturn: float | None = None
    n_to_decide: int | None = None
    mde: float | None = None
    latency_p50_ms: float | None = None
    cost_per_1000_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What several results show, and the one next step that follows.

    `decision` is that of the arm that matters most, in the words of the table in `Arm`; `headline`
    states it in one sentence without a full stop; `evidence` holds the sentences that it rests on;
    `next_step` is one instruction, and `action` its kind: "switch", "keep", "ask", "write", "label",
    "choose by cost", "add" or "improve". `choice` is the configuration to use now.

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
    arms: tuple[Arm, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the decision, what it rests on, and the next step: a sentence a line."""
        return (f"{self.headline}.", *self.evidence, f"Next: {self.next_step}.")

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_markdown_(self) -> str:
        import html

        first, *others = [html.escape(line, quote=False) for line in self.lines]
        return f"**{first}**\n\n" + "\n".join(f"- {line}" for line in others)


def conclusion_of(
    results: Sequence[Result],
    comparison: pd.DataFrame | None,
    deciding: DecidingQuestions,
    baseline: str,
    *,
    margin: float,
    race: Race | None = None,
    dropped_baseline: str = "",
    expected: ExpectedGain | None = None,
) -> Conclusion:
    """Return the conclusion from results that were compared.

    Args:
        results: the configurations.
        comparison: the rows of `Results.compare` by the deciding measure; None with one result.
        deciding: the questions that decide.
        baseline: the name of the configuration that the others are compared with.
        margin: a difference that does not matter, as a fraction of the measure's range.
        race: the race that these configurations survived, if any.
        dropped_baseline: the user's baseline, which that race may have dropped.
        expected: the best observed gain, and what to expect of it on new questions.
    """
    by_name = {result.name: result for result in results}
    arms = _arms(results, comparison, deciding, baseline)
    if expected is not None:
        sign = 1 if higher_is_better(deciding.measure) else -1
        arms = [
            replace(arm, expected=sign * expected.expected) if arm.name == expected.name else arm
            for arm in arms
        ]
    base = next(arm for arm in arms if arm.name == baseline)
    others = [arm for arm in arms if arm.name != baseline]
    leading = _leading(others, deciding.measure)
    if race and dropped_baseline in race.stopped and dropped_baseline not in by_name:
        decision, choice = "better", arms[0]
        headline = (
            f"Change to {choice.label}: your baseline, {dropped_baseline}, was dropped by the race "
            f"after {race.stopped[dropped_baseline]} questions"
        )
        action, next_step = "switch", f"switch to {choice.label}"
    elif leading is None:
        decision, choice = "not possible", base
        headline, (action, next_step) = _one_arm(by_name[baseline], base)
    else:
        decision = leading.decision
        choice = _choice(leading, base)
        headline = _headline(leading, base, others)
        action, next_step = _next_step(leading, base, deciding, by_name)
    evidence = [
        *_measured(leading, base, deciding),
        *_who_decides(deciding),
        *_missing_verdicts(results, deciding.measure),
        *_edited(results),
        *_rest(others, leading),
        *_what_can_be_shown(by_name, leading, base, deciding),
        *_race_sentence(race),
        *_costs(base, leading),
        *_environments(results),
    ]
    return Conclusion(
        decision=decision,
        headline=headline,
        next_step=next_step,
        action=action,
        evidence=tuple(evidence),
        measure=deciding.measure,
        measure_reason=deciding.measure_reason,
        baseline=baseline,
        choice=choice.name,
        n=deciding.n,
        total=deciding.total,
        left_out=dict(deciding.left_out),
        composition=dict(deciding.composition),
        margin=margin,
        arms=tuple(arms),
    )


def _arms(
    results: Sequence[Result],
    comparison: pd.DataFrame | None,
    deciding: DecidingQuestions,
    baseline: str,
) -> list[Arm]:
    """Return all configurations, best first by their mean over the questions that decide."""
    labels = configurations(results).set_index("name")["label"]
    rows: dict[str, Mapping[Any, Any]] = {}
    if comparison is not None:
        decisive = comparison[comparison["measure"] == deciding.measure]
        rows = {row["name"]: row for row in decisive.to_dict("records")}
    arms = []
    for result in results:
        scores = only(result.scores, deciding.measure)
        values = scores.loc[scores["query_id"].isin(deciding.ids), "value"].dropna()
        amounts = per_question(result)
        about: dict[str, Any] = {
            "name": result.name,
            "label": str(labels[result.name]),
            "mean": known_number(values.mean()) if len(values) else None,
            "latency_p50_ms": amounts["latency_p50_ms"],
            "cost_per_1000_usd": amounts["cost_per_1000_usd"],
        }
        row = rows.get(result.name)
        if row is None:
            arms.append(Arm(**about, n=len(values)))
            continue
        n_to_decide = row["n_to_decide"]
        arms.append(
            Arm(
                **about,
                decision=row["decision"],
                reason=row["reason"],
                difference=known_number(row["difference"]),
                ci_low=known_number(row["ci_low"]),
                ci_high=known_number(row["ci_high"]),
                wins=int(row["wins"]),
                ties=int(row["ties"]),
                losses=int(row["losses"]),
                n=int(row["n"]),
                n_independent=int(row["n_clusters"]),
                p_adjusted=known_number(row["p_adjusted"]),
                p_likely_adjusted=known_number(row["p_likely_adjusted"]),
                loss_rate_to_overturn=known_number(row["loss_rate_to_overturn"]),
                n_to_decide=None if pd.isna(n_to_decide) else int(n_to_decide),
                mde=known_number(row["mde"]),
            )
        )
    sign = 1 if higher_is_better(deciding.measure) else -1

    def place(arm: Arm) -> tuple[bool, float, str]:
        # rounded, as the last bit depends on the order of the values
        return (arm.mean is None, -sign * round(arm.mean or 0.0, 12), arm.name)

    return sorted(arms, key=place)


def _gain(arm: Arm, measure: str) -> float:
    difference = arm.difference or 0.0
    return difference if higher_is_better(measure) else -difference


def _leading(others: Sequence[Arm], measure: str) -> Arm | None:
    """Return the arm whose decision matters most: a better one, else one that might be better, else
    the one that comes nearest to the baseline.
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


def _choice(leading: Arm, base: Arm) -> Arm:
    """Return the configuration to use now."""
    if leading.decision in ("better", "likely better"):
        return leading
    if leading.decision == "within the margin" and _cheaper(leading, base):
        return leading
    return base


def _headline(leading: Arm, base: Arm, others: Sequence[Arm]) -> str:
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


def _next_step(
    leading: Arm, base: Arm, deciding: DecidingQuestions, by_name: Mapping[str, Result]
) -> tuple[str, str]:
    """Return the kind of the next step, and the instruction."""
    decision = leading.decision
    if decision == "not possible":
        return _to_make_it_possible(deciding)
    if decision in ("better", "likely better"):
        return "switch", f"switch to {leading.label}"
    is_equal = decision == "within the margin" or leading.ties == leading.n
    if is_equal:
        if leading.latency_p50_ms is None and leading.cost_per_1000_usd is None:
            return "keep", f"keep the baseline, {base.label}"
        cheaper = leading if _cheaper(leading, base) else base
        return "choose by cost", f"choose by cost: {cheaper.label} costs less{_price(cheaper)}"
    if decision == "undecided":
        n_more = (leading.n_to_decide or _MANY) - leading.n
        doubtful = _doubtful_labels(by_name[leading.name])
        if doubtful:
            return "label", f"check the labels of {doubtful}"
        if _gain(leading, deciding.measure) > 0 and 0 < n_more < 10 * max(leading.n, 100):
            return "ask", f"ask about {n_more:,} more questions; until then keep {base.label}"
    return "keep", f"keep the baseline, {base.label}"


def _to_make_it_possible(deciding: DecidingQuestions) -> tuple[str, str]:
    """Return the next step where nothing can be decided."""
    n_people = deciding.composition.get("people", 0)
    if deciding.not_possible == DRAFTS_ALONE or n_people < MIN_QUESTIONS:
        return "write", (
            f"write {max(20 - n_people, 1)} questions of your own, in questions.ipynb or as a table "
            "for `ragbench testset convert`"
        )
    return "label", f"label the questions, so that {deciding.measure} can be scored on them"


def _doubtful_labels(result: Result) -> str:
    """Name the questions whose labels are in doubt, where these are a fifth of the failures or more."""
    diagnosis = result.diagnosis
    if diagnosis is None:
        return ""
    doubtful = diagnosis.loc[diagnosis["cause"] == "label_in_doubt", "query_id"]
    n_failed = int(diagnosis["failed"].sum())
    if len(doubtful) < 3 or 5 * len(doubtful) < n_failed:
        return ""
    return f"{len(doubtful)} questions that a judge doubts, such as {', '.join(doubtful[:3])}"


def _cheaper(arm: Arm, base: Arm) -> bool:
    """Return True if an arm costs less: in dollars where both have a price that differs, else in time."""
    costs = (arm.cost_per_1000_usd, base.cost_per_1000_usd)
    if costs[0] is not None and costs[1] is not None and costs[0] != costs[1]:
        return costs[0] < costs[1]
    times = (arm.latency_p50_ms, base.latency_p50_ms)
    return times[0] is not None and times[1] is not None and times[0] < times[1]


def _price(arm: Arm) -> str:
    """Return what an answer takes and costs, in brackets, as far as it is known."""
    texts = []
    if arm.latency_p50_ms is not None:
        texts.append(f"{arm.latency_p50_ms:,.0f} ms per question (p50)")
    if arm.cost_per_1000_usd:  # what costs nothing needs no mention
        texts.append(f"{arm.cost_per_1000_usd:,.2f} dollars per 1,000 questions")
    return f" ({', '.join(texts)})" if texts else ""


def _one_arm(result: Result, base: Arm) -> tuple[str, tuple[str, str]]:
    """Return headline and next step for a single configuration: what fails, and what to try."""
    headline = f"{base.label}: {result.passed_sentence}"
    worse = result.comparison.regressions if result.comparison else ()
    if "questions" in worse:
        return headline, ("improve", "read the questions that newly fail")
    if worse:
        return headline, ("improve", f"find out what lowered {', '.join(worse[:3])}")
    advice = next(iter(result.advice), None)
    if advice is not None:
        return headline, ("improve", advice.action[:1].lower() + advice.action[1:].rstrip("."))
    n_undecided = result.counts["undecided"]
    diagnosis = result.diagnosis
    failed = None if diagnosis is None else diagnosis.loc[diagnosis["failed"], "cause"]
    if failed is None or failed.empty:
        if 2 * n_undecided > len(result.queries):
            return headline, (
                "label",
                "let a judge or gold facts decide: nothing decides whether "
                f"{n_undecided} answers are right",
            )
        return headline, ("add", "compare it with another configuration")
    stages = failed.map(STAGE_OF)
    stage = stages.mode().iloc[0]
    causes = failed[stages == stage].value_counts()
    listed = ", ".join(f"{count} {CAUSES[cause]}" for cause, count in causes.items())
    return headline, ("improve", f"{_ACTIONS[stage]}: most failures are lost by {stage} ({listed})")


def _measured(leading: Arm | None, base: Arm, deciding: DecidingQuestions) -> list[str]:
    """State the difference that decides, with its interval and what it is expected to be."""
    measure = f"{deciding.measure} ({meaning_of(deciding.measure)})"
    if leading is None or leading.difference is None or base.mean is None:
        if base.mean is None:
            return []
        return [f"{base.label} has {base.mean:.3f} by {measure}, over {base.n} questions."]
    interval = with_interval(leading.difference, leading.ci_low, leading.ci_high, "{:+.3f}")
    sentence = (
        f"By {measure}: {leading.mean:.3f} against {base.mean:.3f}, {interval}, over {leading.n} of "
        f"{deciding.total} questions"
    )
    if leading.n_independent < leading.n:
        sentence += f" ({leading.n_independent} independent: others repeat or continue one of them)"
    lines = [f"{sentence}."]
    if leading.loss_rate_to_overturn is not None:
        lines.append(
            f"Likely, unless a loss that none of these {leading.n} questions showed hits more than "
            f"{leading.loss_rate_to_overturn:.1%} of questions."
        )
    if leading.expected is not None and leading.decision in ("better", "likely better"):
        lines.append(
            f"Observed {leading.difference:+.3f}; expected on new questions about "
            f"{leading.expected:+.3f}."
        )
    return lines


def draft_note(deciding: DecidingQuestions) -> list[str]:
    """State what known-item drafts show and what they do not; [] without drafts."""
    n_drafts = deciding.composition.get("draft", 0)
    if not n_drafts:
        return []
    return [
        f"{n_drafts} of {deciding.total} questions are known-item drafts, which repeat the words of "
        "their passages: they test that everything runs, not which retriever or chunking is better."
    ]


def _who_decides(deciding: DecidingQuestions) -> list[str]:
    """State how many questions decide, and for the others the reason."""
    if deciding.n == deciding.total:
        return draft_note(deciding)
    reasons = "; ".join(f"{count} {reason}" for reason, count in deciding.left_out.items())
    return [f"{deciding.n} of {deciding.total} questions decide: {reasons}."]


def _missing_verdicts(results: Sequence[Result], measure: str) -> list[str]:
    """State for how many answers of each configuration the judge gave no verdict, where that differs."""
    note = unreadable_note_of({result.name: result for result in results}, measure)
    return [f"{note}."] if note and len(results) > 1 else []


def _edited(results: Sequence[Result]) -> list[str]:
    """Name the files of results that a person changed after they were made."""
    return [
        f"A person changed {', '.join(result.edited)} of {result.name} after it was made."
        for result in results
        if result.edited
    ]


def _rest(others: Sequence[Arm], leading: Arm | None) -> list[str]:
    """Count the decisions about the other configurations."""
    counts = Counter(arm.decision for arm in others if arm is not leading)
    if not counts:
        return []
    listed = ", ".join(
        f"{counts[name]} {name}" for name in (*ORDER, "not possible") if counts[name]
    )
    return [f"Of the other configurations, next to the baseline: {listed}."]


def _what_can_be_shown(
    by_name: Mapping[str, Result], leading: Arm | None, base: Arm, deciding: DecidingQuestions
) -> list[str]:
    """State what these questions can and cannot show: the smallest difference, and how much depends
    on the wording of the questions.
    """
    lines = []
    if leading is not None and leading.mde is not None and leading.decision != "not possible":
        lines.append(
            f"{leading.n} questions show a difference of {leading.mde:.3f} or more (80 % power)."
        )
    result = by_name[base.name]
    overlaps = {
        query_id: result.verdicts[query_id]["wording_overlap"]
        for query_id in deciding.ids
        if "wording_overlap" in result.verdicts.get(query_id, {})
    }
    if len(overlaps) >= MIN_QUESTIONS:
        mean = sum(overlaps.values()) / len(overlaps)
        others = ", ".join(f"{value:.0%} in {name}" for name, value in PEOPLES_OVERLAP.items())
        lines.append(
            f"These questions repeat {mean:.0%} of their words in their evidence (people's questions: "
            f"{others})."
        )
        if leading is not None and leading.difference:
            lines += _by_wording(by_name[base.name], by_name[leading.name], overlaps, deciding)
    return lines


def _by_wording(
    baseline: Result, contender: Result, overlaps: Mapping[str, float], deciding: DecidingQuestions
) -> list[str]:
    """State the difference on the half of the questions that repeat least of their evidence, and that
    the decision depends on the wording if its sign is another one.
    """
    half = sorted(overlaps, key=lambda query_id: (overlaps[query_id], query_id))
    half = half[: len(half) // 2]
    if len(half) < MIN_QUESTIONS:
        return []
    frames = [
        each.scores[
            each.scores["query_id"].isin(half) & (each.scores["measure"] == deciding.measure)
        ]
        for each in (baseline, contender)
    ]
    row = compare(*frames, measures=[deciding.measure]).iloc[0]
    if pd.isna(row["difference"]):
        return []
    all_of_them = compare(
        baseline.scores[baseline.scores["query_id"].isin(overlaps)],
        contender.scores[contender.scores["query_id"].isin(overlaps)],
        measures=[deciding.measure],
    ).iloc[0]
    interval = with_interval(row["difference"], row["ci_low"], row["ci_high"], "{:+.3f}")
    line = f"On the {row['n']} questions that repeat least of their evidence: {interval}"
    if row["difference"] * all_of_them["difference"] < 0:
        line += "; the sign changes, so the decision depends on how questions are worded"
    return [f"{line}."]


def _race_sentence(race: Race | None) -> list[str]:
    return [f"Race: {race.summary.removeprefix('race ')}."] if race else []


def _costs(base: Arm, leading: Arm | None) -> list[str]:
    """State what an answer of the baseline and of the leading configuration costs."""
    arms = [base] if leading is None else [base, leading]
    priced = [f"{arm.label}{_price(arm)}" for arm in arms if _price(arm)]
    return [f"Cost: {'; '.join(priced)}."] if priced else []


def _environments(results: Sequence[Result]) -> list[str]:
    """Warn where latencies come from more than one machine or Python."""
    keys = ("platform", "machine", "cores", "python")
    seen = {tuple(str(result.environment.get(key)) for key in keys) for result in results}
    if len(seen) < 2:
        return []
    return [
        f"These results were made in {len(seen)} different environments: compare their quality, "
        "not their latency."
    ]
