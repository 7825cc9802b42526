"""Fills the `Conclusion` of ragbench's results: the sentences on data, judges, failures and races,
and the next step of a single result or after a race; `decision` has the other steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragbench.errors import abridged, as_sentence, plural
from ragbench.evaluation.causes import CAUSES, STAGE_OF
from ragbench.evaluation.configurations import configurations, per_question, python_note
from ragbench.evaluation.data_changes import data_changes
from ragbench.evaluation.deciding import values_of
from ragbench.evaluation.decision import (
    Arm,
    Arms,
    Conclusion,
    DecidingQuestions,
    arm_of,
    best_first,
    chosen_arm,
    cost_sentences,
    detectable_sentences,
    difference_sentences,
    headline_of,
    leading_arm,
    left_out_sentences,
    next_step_of,
    rest_sentences,
    with_expected,
)
from ragbench.evaluation.records import total_cost
from ragbench.evaluation.regressions import missing_verdicts_note
from ragbench.evaluation.result import Result, found_nothing
from ragbench.judges.card import card_sentence, is_card
from ragbench.metrics.safety.leakage import masked
from ragbench.statistics.columns import known_number
from ragbench.statistics.comparison import compare, with_interval
from ragbench.statistics.race import Race
from ragbench.statistics.shrinkage import ExpectedGain
from ragbench.statistics.students_t import students_p_values
from ragbench.statistics.thresholds import ALPHA, MIN_QUESTIONS
from ragbench.testsets.composition import PEOPLES_EVIDENCE_WORDS, PEOPLES_OVERLAP

_ERROR_LENGTH = 100  # characters of an error that a sentence quotes

_ACTIONS = {
    "retrieval": "try another retriever, a reranker or a larger k: most failures are lost by retrieval",
    "chunking": "try another chunking or a larger context budget: most failures are lost by chunking",
    "generation": "try another model or prompt: most failures are lost by generation",
    "judge": "check the judge's verdicts by hand: most failures may be right answers",
    "label": "check the labels: most failures may be right answers",
    "unknown": "label the evidence: no label says where most failures lost it",
}
"""Stage of most failures (`STAGE_OF`) -> what to do about it."""


def conclusion_of(
    results: Sequence[Result],
    comparison: pd.DataFrame | None,
    deciding: DecidingQuestions,
    baseline: str,
    *,
    margin: float,
    race: Race | None = None,
    sweep_baseline: str = "",
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
        sweep_baseline: the baseline of the sweep, which that race may have dropped; "" if there is none,
            or the user named another baseline.
        expected: the best observed gain, and what to expect of it on new questions.
    """
    by_name = {result.name: result for result in results}
    arms = with_expected(_arms(results, comparison, deciding), expected, deciding.measure)
    sides = _sides_of(arms, baseline, deciding.measure)
    evidence: list[str] = []
    if race and sweep_baseline in race.stopped and sweep_baseline not in by_name:
        leader = arms[0]
        advice = _advice_after_race(race, sweep_baseline, leader)
        evidence = _race_evidence(race, sweep_baseline, sides)
        # the sentences below are about the leader alone: the baseline, to compare it with, is gone
        sides = _Sides(base=leader, others=[], leading=None)
    elif sides.leading is None:
        advice = _advice_on_one(by_name[baseline], sides.base)
    else:
        advice = _advice_on_two(
            sides.leading,
            sides.base,
            deciding,
            headline=headline_of(sides.leading, sides.base, sides.others),
            doubtful=_doubtful_labels(by_name[sides.leading.name]),
            compare_times=not _environments_sentence(results),
        )
    evidence += _evidence(results, sides, deciding, race)
    return Conclusion(
        decision=advice.decision,
        headline=advice.headline,
        next_step=advice.next_step,
        action=advice.action,
        evidence=tuple(evidence),
        measure=deciding.measure,
        measure_reason=deciding.measure_reason,
        baseline=baseline,
        choice=advice.choice.name,
        n=deciding.n,
        total=deciding.total,
        left_out=dict(deciding.left_out),
        composition=dict(deciding.composition),
        margin=margin,
        arms=Arms(arms),
    )


class _Sides(NamedTuple):
    """The configurations of a comparison.

    Attributes:
        base: the baseline, with which the others are compared.
        others: all others, best first; [] if nothing is compared.
        leading: the configuration among the others that the decision is about; None without others.
    """

    base: Arm
    others: list[Arm]
    leading: Arm | None


def _sides_of(arms: Sequence[Arm], baseline: str, measure: str) -> _Sides:
    """Return the sides of a comparison with the configuration named `baseline`, by a measure."""
    base = next(arm for arm in arms if arm.name == baseline)
    others = [arm for arm in arms if arm.name != baseline]
    return _Sides(base, others, leading_arm(others, measure))


def _evidence(
    results: Sequence[Result], sides: _Sides, deciding: DecidingQuestions, race: Race | None
) -> list[str]:
    """Return the sentences on which the decision rests, in the order in which they are shown."""
    base, others, leading = sides
    by_name = {result.name: result for result in results}
    return [
        *_unchecked_sentences(results),
        *difference_sentences(leading, base, deciding),
        *left_out_sentences(deciding),
        *([deciding.passed_over] if deciding.passed_over else []),
        *_failed_sentences(results, deciding),
        *_judge_sentences(results, deciding.measure),
        *_missing_verdicts_sentence(results, deciding.measure),
        *_missing_values_sentences(results),
        *_other_data_sentences(results),
        *_edited_sentences(results),
        *rest_sentences(others, leading),
        *_sensitivity_sentences(by_name, leading, base, deciding),
        *_race_sentence(race),
        *cost_sentences(base, leading),
        *_environments_sentence(results),
    ]


class _Advice(NamedTuple):
    """The decision, the configuration to use, and what to do next."""

    decision: str
    headline: str
    choice: Arm
    action: str
    next_step: str


def _advice_on_two(
    leading: Arm,
    base: Arm,
    deciding: DecidingQuestions,
    *,
    headline: str,
    doubtful: str,
    compare_times: bool,
) -> _Advice:
    """Return the advice from the leading configuration and the baseline.

    Args:
        leading: the leading configuration.
        base: the baseline.
        deciding: the questions that decide.
        headline: the decision in a sentence.
        doubtful: the questions whose labels are in doubt, in words; "" if there are none.
        compare_times: False if the times are of two machines, and do not choose.
    """
    if not compare_times:
        leading = replace(leading, latency_p50_ms=None)
        base = replace(base, latency_p50_ms=None)
    action, next_step = next_step_of(leading, base, deciding, doubtful)
    choice = chosen_arm(leading, base)
    return _Advice(leading.decision, headline, choice, action, next_step)


def _advice_after_race(race: Race, dropped: str, leader: Arm) -> _Advice:
    """Return the advice to change to the leader of a race that dropped the user's baseline."""
    decision = _decision_by_race(race, dropped)
    headline = (
        f"Change to {leader.label}: your baseline, {dropped}, was dropped by the race after "
        f"{race.stopped[dropped]} questions"
    )
    return _Advice(decision, headline, leader, "switch", f"switch to {leader.label}")


def _race_evidence(race: Race, dropped: str, survivors: _Sides) -> list[str]:
    """Return the sentences that show why a race dropped the user's baseline.

    If several configurations survived, tables compare them with one of them, `survivors.base`, in place of
    this baseline; the last sentence names it.

    Args:
        race: the race.
        dropped: the name of the baseline.
        survivors: the configurations that the race did not drop.
    """
    row = race.table.to_dict("index")[dropped]
    interval = with_interval(row["gain"], row["ci_low"], row["ci_high"], "{:+.3f}")
    evidence = [f"{dropped} against {row['leader']} by the race: {interval}, {row['reason']}."]
    if survivors.others:
        evidence.append(
            f"The differences in tables and figures are from {survivors.base.label}, which stands in for "
            "your baseline there."
        )
    return evidence


def _arms(
    results: Sequence[Result],
    comparison: pd.DataFrame | None,
    deciding: DecidingQuestions,
) -> list[Arm]:
    """Return the `Arm` of each configuration, best first by its mean over the questions that decide.

    The baseline, or a single result, is compared with nothing: it has no row in `comparison`, and its
    arm has no decision.
    """
    labels = configurations(results).set_index("name")["label"]
    differences: dict[str, Mapping[Any, Any]] = {}  # name -> its row of the comparison
    if comparison is not None:
        by_measure = comparison[comparison["measure"] == deciding.measure]
        differences = {row["name"]: row for row in by_measure.to_dict("records")}
    arms = []
    for result in results:
        values = _deciding_values(result, deciding)
        amounts = per_question(result)
        about: dict[str, Any] = {
            "name": result.name,
            "label": str(labels[result.name]),
            "mean": known_number(values.mean()) if len(values) else None,
            "latency_p50_ms": amounts["latency_p50_ms"],
            "cost_per_1000_usd": amounts["cost_per_1000_usd"],
            "index_cost_usd": total_cost(result.costs, "index"),
        }
        if result.name in differences:
            arms.append(arm_of(about, differences[result.name]))
        else:
            arms.append(Arm(**about, n=len(values)))
    return best_first(arms, deciding.measure)


def _deciding_values(result: Result, deciding: DecidingQuestions) -> pd.Series[float]:
    """Return the values of the deciding measure for the deciding questions that are scored."""
    scores = result.scores[result.scores["measure"] == deciding.measure]
    return scores.loc[scores["query_id"].isin(deciding.ids), "value"].dropna()


def _doubtful_labels(result: Result) -> str:
    """Return a clause that names some questions whose labels are in doubt. Return "" if failures were not
    diagnosed, or too few labels are in doubt to be the next step: fewer than 3, or than a fifth of
    the number of failures.
    """
    diagnosis = result.diagnosis
    if diagnosis is None:
        return ""
    doubtful = diagnosis.loc[diagnosis["cause"] == "label_in_doubt", "query_id"]
    n_failed = int(diagnosis["failed"].sum())
    if len(doubtful) < 3 or len(doubtful) < n_failed / 5:
        return ""
    return f"{len(doubtful)} questions that a judge doubts, such as {', '.join(doubtful[:3])}"


def _advice_on_one(result: Result, arm: Arm) -> _Advice:
    """Return the advice on a single configuration: how many questions pass, and what to try."""
    headline = f"{arm.label}: {result.passed_sentence}"
    action, next_step = _next_step_of_one(result)
    return _Advice("not possible", headline, arm, action, next_step)


def _next_step_of_one(result: Result) -> tuple[str, str]:
    """Return the next step after the evaluation of a single configuration: its kind ("improve",
    "label" or "add"), and the instruction.

    The first of these that applies decides: a regression against the baseline, labels that were lost with
    the documents, a recommendation, the stage in which most failures have their cause, many questions
    that nothing decides.
    """
    regressions = result.comparison.regressions if result.comparison else ()
    if "questions" in regressions:
        return "improve", "read the questions that newly fail"
    if regressions:
        return "improve", f"find out what made {', '.join(regressions[:3])} worse"
    if result.comparison and result.comparison.lost:
        return "improve", "restore the documents that are gone, or take a new baseline without them"
    if result.advice:
        action = result.advice[0].action
        return "improve", action[:1].lower() + action[1:].rstrip(".")
    if result.diagnosis is not None and result.diagnosis["failed"].any():
        causes = result.diagnosis.loc[result.diagnosis["failed"], "cause"]
        return "improve", _action_on_failures(causes)
    n_open = result.counts["undecided"] + result.n_unchecked
    if n_open > len(result.queries) / 2:
        return (
            "label",
            f"let a judge or gold facts decide: nothing decides whether {n_open} answers are right",
        )
    return "add", "compare it with another configuration"


def _action_on_failures(causes: pd.Series) -> str:
    """Return what to do about the stage in which most failures have their cause, with the number of
    failures by each cause in this stage. `causes` has one cause per failure.
    """
    stages = causes.map(STAGE_OF)
    stage = stages.mode().iloc[0]
    counts = causes[stages == stage].value_counts()
    listed = ", ".join(f"{count} {CAUSES[str(cause)]}" for cause, count in counts.items())
    return f"{_ACTIONS[stage]} ({listed})"


def _unchecked_sentences(results: Sequence[Result]) -> list[str]:
    """State how many passed answers of a single configuration nothing checks; [] if none, or if there
    are several configurations, which are compared by a measure and not by what passes.
    """
    if len(results) > 1 or not results[0].unchecked_sentence:
        return []
    return [as_sentence(results[0].unchecked_sentence)]


def _failed_sentences(results: Sequence[Result], deciding: DecidingQuestions) -> list[str]:
    """State for each configuration how many questions failed, the first error, and how these questions
    count by the measure that decides; [] if none failed.
    """
    lines = []
    for result in results:
        failed = [answer for answer in result.answers if answer.failed]
        if not failed:
            continue
        values = values_of(result, deciding.measure)
        deciding_ids = {answer.query_id for answer in failed} & deciding.ids
        counted = [values[query_id] for query_id in sorted(deciding_ids) if query_id in values]
        uses = [
            f"{count} count as {value:g} by {deciding.measure}"
            for value, count in sorted(Counter(counted).items())
        ]
        n_unscored = len(failed) - len(counted)
        if n_unscored:
            uses.append(f"{n_unscored} do not count")
        reason = failed[0].error or "no reason is given"
        first_error = abridged(masked(reason.removeprefix(f"{result.name}: ")), _ERROR_LENGTH)
        lines.append(
            f"{len(failed)} of {plural(len(result.queries), 'question')} failed in {result.name} (the first: "
            f"{first_error}): {', '.join(uses)}."
        )
    return lines


def _judge_sentences(results: Sequence[Result], measure: str) -> list[str]:
    """Name the judge whose verdicts decide, with what its audit found; [] if no judge decides.

    Configurations with different judges, or audits, have a sentence each.
    """
    if not measure.startswith("llm_"):
        return []
    criterion = measure.removeprefix("llm_")
    names_by_sentence: dict[str, list[str]] = {}
    for result in results:
        sentence = _judge_in_words(result, criterion)
        if sentence:
            names_by_sentence.setdefault(sentence, []).append(result.name)
    if len(names_by_sentence) == 1:
        return [f"{sentence}." for sentence in names_by_sentence]
    return [f"{', '.join(names)}: {sentence}." for sentence, names in names_by_sentence.items()]


def _judge_in_words(result: Result, criterion: str) -> str:
    """Return the name of the judge of a result, and the findings of its audit by a criterion; "" if no
    judge was asked.
    """
    asked = [each for each in result.judgements if each.criterion == criterion and each.samples]
    if not asked:
        return ""
    judge = result.settings.get("judge") or asked[0].model or "a judge without a name"
    for card in result.config.get("judge_cards", ()):
        if is_card(card) and card["criterion"] == criterion:
            return f"Judged by {judge}; {card_sentence(card)}"
    return f"Judged by {judge}, not audited before: `ragbench audit` tests it"


def _missing_verdicts_sentence(results: Sequence[Result], measure: str) -> list[str]:
    """Return a sentence on the answers of each configuration for which the judge gave no verdict; [] if the
    numbers do not differ.
    """
    note = missing_verdicts_note({result.name: result for result in results}, measure)
    return [f"{note}."] if note and len(results) > 1 else []


def _missing_values_sentences(results: Sequence[Result]) -> list[str]:
    """Name the configurations that found nothing, and the user's measures without any value."""
    names_by_problem: dict[str, list[str]] = {}
    for result in results:
        for problem in _missing_values(result):
            names_by_problem.setdefault(problem, []).append(result.name)
    return [f"{problem} {', '.join(names)}." for problem, names in names_by_problem.items()]


def _missing_values(result: Result) -> list[str]:
    """Return sentences, without their last word, about what has no value in a result: retrieval that found
    nothing, and measures and criteria of the user. The last word is the name of the result.
    """
    problems = []
    has_retrieval = any(
        state.name == "retrieval" and state.measured for state in result.perspectives
    )
    if has_retrieval and found_nothing(result.run, result.answers):
        problems.append("Nothing was found for any question by")
    measures = [declared["name"] for declared in result.settings.get("measures", ())]
    criteria = [declared["name"] for declared in result.settings.get("own_criteria", ())]
    scored = set(result.scores.loc[result.scores["value"].notna(), "measure"].unique())
    for measure in (*measures, *(f"llm_{name}" for name in criteria)):
        if measure not in scored:
            problems.append(f"{measure} has no value for any question of")
    return problems


def _other_data_sentences(results: Sequence[Result]) -> list[str]:
    """Return sentences on how the data of configurations differ from the data of the first; [] if they do
    not.
    """
    first = results[0]
    names_by_changes: dict[str, list[str]] = {}
    for result in results[1:]:
        changes = data_changes(first.config, result.config)
        if changes:
            names_by_changes.setdefault(changes, []).append(result.name)
    sentences = [
        f"Measured on other data than {first.name}: {', '.join(names)} ({changes})."
        for changes, names in names_by_changes.items()
    ]
    note = python_note(results)
    if sentences and note:
        sentences.append(as_sentence(note))
    return sentences


def _edited_sentences(results: Sequence[Result]) -> list[str]:
    """Name the files of results that a person changed after they were made."""
    return [
        f"A person changed {', '.join(result.edited)} of {result.name} after it was made."
        for result in results
        if result.edited
    ]


def _sensitivity_sentences(
    by_name: Mapping[str, Result], leading: Arm | None, base: Arm, deciding: DecidingQuestions
) -> list[str]:
    """Return sentences on what the questions can show: the smallest difference that they can detect, the
    fraction of their words that their evidence has, and, if a measure of evidence decides, its length.

    Questions in the words of their evidence favour lexical search, and short evidence favours small
    chunks. A sentence for which there are too few questions is left out.

    Args:
        by_name: name -> result.
        leading: the best of the other configurations; None if there is no other.
        base: the baseline.
        deciding: the questions that decide.
    """
    lines = detectable_sentences(leading)
    baseline = by_name[base.name]
    overlaps = _verdict_field(baseline, "wording_overlap", deciding)
    lengths = _verdict_field(baseline, "evidence_words", deciding)
    if len(overlaps) >= MIN_QUESTIONS:
        lines.append(_overlap_sentence(overlaps, lengths))
        if leading is not None and leading.difference:
            contender = by_name[leading.name]
            lines += _hardest_half_sentence(baseline, contender, overlaps, deciding.measure)
    # only measures of evidence depend on its length: they score how much of it the chunks hold
    if len(lengths) >= MIN_QUESTIONS and "span" in deciding.measure:
        others = ", ".join(f"{words} in {name}" for name, words in PEOPLES_EVIDENCE_WORDS.items())
        lines.append(
            f"Their evidence has {median(lengths.values()):.0f} words at the median (people's "
            f"questions: {others}): short evidence favours small chunks."
        )
    return lines


def _overlap_sentence(overlaps: Mapping[str, float], lengths: Mapping[str, float]) -> str:
    """Return a sentence on the fraction of their words that questions repeat from their evidence, next to
    the figures of public test sets.

    The public figures are about passages. They are compared if enough questions have a passage as
    evidence; the other questions, whose evidence is a whole document, are then left out.

    Args:
        overlaps: query_id -> that fraction.
        lengths: query_id -> number of words of the evidence; only questions with passages have one.
    """
    of_passages = [overlap for query_id, overlap in overlaps.items() if query_id in lengths]
    if len(of_passages) < MIN_QUESTIONS:
        mean = sum(overlaps.values()) / len(overlaps)
        return (
            f"These questions repeat {mean:.0%} of their words in their documents (the figures of public "
            "sets are about passages, and not comparable)."
        )
    mean = sum(of_passages) / len(of_passages)
    questions = "These questions"
    if len(of_passages) < len(overlaps):
        questions = f"The {len(of_passages)} questions with gold evidence"
    others = ", ".join(f"{value:.0%} in {name}" for name, value in PEOPLES_OVERLAP.items())
    return f"{questions} repeat {mean:.0%} of their words in their evidence (people's questions: {others})."


def _verdict_field(result: Result, field: str, deciding: DecidingQuestions) -> dict[str, float]:
    """Return query_id -> a field of the result's verdict, for the deciding questions that have it."""
    values = {}
    for query_id in deciding.ids:
        verdict = result.verdicts.get(query_id, {})
        if field in verdict:
            values[query_id] = verdict[field]
    return values


def _hardest_half_sentence(
    baseline: Result, contender: Result, overlaps: Mapping[str, float], measure: str
) -> list[str]:
    """Return a sentence on the difference between two results for the half of the questions that share
    the fewest words with their evidence; [] if this half has too few questions, or is not scored.

    If the difference has another sign on this half than on all questions, the sentence adds that the
    decision depends on how questions are worded.

    Args:
        overlaps: query_id -> the fraction of the question's words that its evidence has.
    """
    by_overlap = sorted(overlaps, key=lambda query_id: (overlaps[query_id], query_id))
    half = by_overlap[: len(by_overlap) // 2]
    if len(half) < MIN_QUESTIONS:
        return []
    on_half = _difference_on(half, baseline, contender, measure)
    if pd.isna(on_half["difference"]):
        return []
    on_all = _difference_on(overlaps, baseline, contender, measure)
    interval = with_interval(
        on_half["difference"], on_half["ci_low"], on_half["ci_high"], "{:+.3f}"
    )
    line = f"On the {on_half['n']} questions that repeat least of their evidence: {interval}"
    have_opposite_signs = on_half["difference"] * on_all["difference"] < 0
    if have_opposite_signs:
        line += "; the sign changes, so the decision depends on how questions are worded"
    return [f"{line}."]


def _difference_on(
    query_ids: Iterable[str], baseline: Result, contender: Result, measure: str
) -> pd.Series[Any]:
    """Return the row of `ragbench.compare` for one measure, over the questions `query_ids`."""
    sides = []
    for result in (baseline, contender):
        scores = result.scores[result.scores["measure"] == measure]
        sides.append(scores[scores["query_id"].isin([*query_ids])])
    return compare(*sides, measures=[measure]).iloc[0]


def _race_sentence(race: Race | None) -> list[str]:
    """Return a sentence about the race, in a list; [] without one."""
    return [f"Race: {race.summary.removeprefix('race ')}."] if race else []


def _decision_by_race(race: Race, name: str) -> str:
    """Return the decision on the leader of a race next to a configuration that the race dropped (`name`).

    - "better": the whole interval of the leader's gain is above 0.
    - "likely better": the gain is above 0, and Student's two-sided t-test of the differences has a p-value
      below `ALPHA`.
    - "within the margin": neither; the race dropped it because the difference does not matter.
    """
    row = race.table.to_dict("index")[name]
    # The table has the gain of `name` over the leader. A gain is above 0 for the better one, also by a
    # measure of which lower is better.
    leaders_gain = -row["gain"]
    leaders_lowest_gain = -row["ci_high"]
    n_asked = int(row["n"])  # questions that `name` was asked before it was dropped
    dropped = np.array(race.scores[name][:n_asked], dtype=np.float64)
    leader = np.array(race.scores[row["leader"]][:n_asked], dtype=np.float64)
    differences = leader - dropped  # NaN where a question is unscored
    [p_likely] = students_p_values([differences[~np.isnan(differences)]])
    if leaders_lowest_gain > 0:
        return "better"
    if leaders_gain > 0 and p_likely < ALPHA:
        return "likely better"
    return "within the margin"


def _environments_sentence(results: Sequence[Result]) -> list[str]:
    """Return a warning if latencies come from more than one kind of machine or Python; [] if from one."""
    keys = ("platform", "machine", "cores", "python")
    environments = set()
    for result in results:
        environments.add(tuple(str(result.environment.get(key)) for key in keys))
    if len(environments) < 2:
        return []
    return [
        f"These results were made in {len(environments)} different environments: compare their quality, "
        "not their latency."
    ]
