"""A result against an earlier one, case by case: which measures and questions are compared, and
what is a regression, newly failing or fixed.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.errors import ComparisonError
from ragbench.evaluation.records import (
    SHOWN_ONLY,
    Change,
    Comparison,
    Flip,
    PassFail,
    names_of_questions,
)
from ragbench.evaluation.result import Result
from ragbench.metrics.overall import HEURISTIC_PARTS, lets_all_pass
from ragbench.registry import HEADLINE, higher_is_better, is_heuristic, perspective_of
from ragbench.statistics import adjusted_p_values, mcnemar_p_value
from ragbench.statistics.clusters import clusters_of
from ragbench.statistics.columns import known_number
from ragbench.statistics.ranking import RANKING, main_measure_of
from ragbench.statistics.thresholds import ALPHA
from ragbench.statistics.unreadable import compare_readable, unreadable_note

_NUMBERS = ("baseline", "contender", "difference", "ci_low", "ci_high", "p_value", "mde")


def compare_results(baseline: Result, result: Result) -> Comparison:
    """Compare two evaluations, paired case by case.

    Only questions that both have, and that did not change, are compared. Measures that are not the
    same in both (passed questions by other thresholds, rankings of chunks that are cut differently)
    are left out, and `notes` state why.

    A measure is a "regression" if it got worse and the p-value of its interval
    (`ragbench.statistics.compare`) is below 0.05 after Holm's correction, which makes up for testing
    several measures at once: the measure that ranks configurations, the measures of the headline table
    and the measures with a target. A heuristic without a target (`_undecided_heuristics`) is shown with its
    difference, and takes no part in tests and correction: its verdict is "shown only". For the rate of
    passed questions, and of safety samples classified correctly, the p-value is from McNemar's
    exact test, which compares the number of cases that newly fail with the number that are fixed. If a
    measure or rate has the same value for every case in both, its test can show nothing, and takes no
    part in the correction (Tarone 1990). An evaluation compared with itself has no regression.

    Raises:
        ComparisonError: the two have no unchanged question in common, or were measured with another
            embedder or judge; the message names what differs.
    """
    digests = result.config.get("question_digests", {})
    check_comparable(baseline, result.queries, digests, result.settings)
    shared = shared_questions(baseline, result.queries, digests)
    left_out = _left_out(baseline, result)  # part -> why it is not compared
    changes = _changes(baseline, result, left_out, shared)
    notes = list(left_out.values())
    # if a judge gave no verdict on different fractions of the answers, a note says so
    sides = {"the baseline": baseline, "this evaluation": result}
    notes += [missing_verdicts_note(sides, change.measure) for change in changes]
    if baseline.dataset.get("corpus", "") != result.dataset.get("corpus", ""):
        notes.append("the documents have changed since the baseline")
    # questions that only one of the two has, or that changed in between
    new = tuple(query_id for query_id in result.queries if query_id not in baseline.queries)
    removed = tuple(query_id for query_id in baseline.queries if query_id not in result.queries)
    in_both = [query_id for query_id in result.queries if query_id in baseline.queries]
    changed = tuple(query_id for query_id in in_both if query_id not in shared)
    lost = _lost(baseline, result, changed)
    notes.append(_not_compared("new", new))
    notes.append(_not_compared("removed", removed))
    notes.append(_not_compared("changed", changed))
    measures = [change.measure for change in changes]
    return Comparison(
        baseline=baseline.name,
        baseline_made=baseline.made_at,
        changes=changes,
        pass_fail=_pass_fail(baseline, result, left_out, shared),
        notes=tuple(filter(None, notes)),
        n=len(shared),
        new=new,
        removed=removed,
        changed=changed,
        lost=lost,
        ranking=_ranking_measure(baseline, result, shared, measures),
    )


def _lost(baseline: Result, result: Result, changed: Sequence[str]) -> tuple[str, ...]:
    """Return which of the changed questions have the same text, and fewer labelled documents or less
    evidence than in the baseline, while the documents have changed, too.

    A question whose labels a person changed next to the same documents is none of them.
    """
    if baseline.dataset.get("corpus", "") == result.dataset.get("corpus", ""):
        return ()
    lost = []
    for query_id in changed:
        if baseline.queries[query_id] != result.queries[query_id]:
            continue
        n_documents_then, n_words_then = _labels_in_documents(baseline, query_id)
        n_documents_now, n_words_now = _labels_in_documents(result, query_id)
        if n_documents_now < n_documents_then or n_words_now < n_words_then:
            lost.append(query_id)
    return tuple(lost)


def _labels_in_documents(result: Result, query_id: str) -> tuple[int, int]:
    """Return how many labelled documents of a question the documents of a result have, and how many
    words its evidence has.

    If the result has no digest of each document, as for very many of them, all labelled ones count.
    """
    verdict = result.verdicts.get(query_id, {})
    labelled = verdict.get("relevant", ())
    documents = result.config.get("document_digests")
    if documents:
        labelled = [doc_id for doc_id in labelled if doc_id in documents]
    return len(labelled), verdict.get("evidence_words") or 0


def _ranking_measure(
    baseline: Result, result: Result, questions: Collection[str], among: Collection[str]
) -> str:
    """Return the measure that configurations are ranked by, of those in `among`; "" if none of them ranks.

    `questions` are the ids of those that are compared.
    """
    n_scored = {}
    names = [name for name in RANKING if name in among]
    old = baseline.wide.reindex(index=sorted(questions), columns=names)
    new = result.wide.reindex(index=sorted(questions), columns=names)
    for name in names:
        n_scored[name] = int((old[name].notna() & new[name].notna()).sum())
    if not any(n_scored.values()):
        return ""
    return main_measure_of(n_scored)


def _not_compared(word: str, query_ids: Sequence[str]) -> str:
    """Return a note on questions that are not compared, which names the first few; "" without any.

    `word` is the reason: "new", "removed" or "changed". An example of a note: "1 question is new and
    not compared: q7".
    """
    n = len(query_ids)
    if not n:
        return ""
    noun = "question is" if n == 1 else "questions are"
    return f"{n} {noun} {word} and not compared: {names_of_questions(query_ids)}"


def shared_questions(
    baseline: Result, queries: Mapping[str, str], digests: Mapping[str, str]
) -> frozenset[str]:
    """Return the ids of the questions that the baseline was asked, too, with the same text and
    labels.

    Args:
        baseline: the earlier result. If it has no digest of a question, the texts are compared.
        queries: query_id -> question, as they are now.
        digests: query_id -> digest of the question with its labels, as they are now.
    """
    baseline_digests = baseline.config.get("question_digests", {})
    shared = set()
    for query_id, text in queries.items():
        if query_id in baseline_digests and query_id in digests:
            is_same = baseline_digests[query_id] == digests[query_id]
        else:
            is_same = baseline.queries.get(query_id) == text
        if is_same:
            shared.add(query_id)
    return frozenset(shared)


def missing_verdicts_note(results: Mapping[str, Result], measure: str) -> str:
    """Return a sentence on the answers of each result for which the judge gave no verdict by a measure; ""
    if their fraction is the same in all. `results` is name in the sentence -> result.
    """
    scores = {name: result.scores for name, result in results.items()}
    missing_verdicts = {name: result.unreadable for name, result in results.items()}
    return unreadable_note(measure, scores, missing_verdicts)


def check_comparable(
    baseline: Result,
    queries: Mapping[str, str],
    digests: Mapping[str, str],
    settings: Mapping[str, object],
) -> None:
    """Refuse a comparison that could not be made. Called before anything is asked or paid for.

    Args:
        baseline, queries, digests: as for `shared_questions`.
        settings: how the result is going to be measured: "embedder", "support_model" and "judge" have
            the names of the models.

    Raises:
        ComparisonError: naming what differs.
    """
    if (queries or baseline.queries) and not shared_questions(baseline, queries, digests):
        raise ComparisonError(
            f"baseline {baseline.name!r} has no question in common with this test set: of "
            f"{len(baseline.queries)} questions there and {len(queries)} here none has the same id, "
            "text and labels; evaluate both with the same --test-set, --suite and --limit"
        )
    for key in ("embedder", "support_model", "judge"):
        then, now = baseline.settings.get(key, ""), settings.get(key, "")
        if then and now and then != now:
            raise ComparisonError(
                f"baseline {baseline.name!r} was measured with the {key} {then!r}, this "
                f"evaluation with {now!r}: their numbers have different scales; use the same for both"
            )


def _left_out(baseline: Result, result: Result) -> dict[str, str]:
    """Return the parts of two results that cannot be compared: part -> the reason; {} if all can.

    - "span:", all measures with this prefix: if the documents are cut into other chunks.
    - "questions", which questions pass: if the thresholds or the measured perspectives differ.
    - "overall", the overall value: if the weights, the judge or the perspectives differ.
    """
    reasons = {}
    # measures of chunks that hold evidence: other chunks are relevant where texts are cut differently
    span_measures = []
    for row in result.rows:
        has_target = row.target is not None
        if has_target and row.measure.startswith("span:"):
            span_measures.append(row.measure)
    chunkings = {baseline.system.get("chunking"), result.system.get("chunking")} - {None}
    if len(chunkings) > 1 and span_measures:
        reasons["span:"] = (
            f"{', '.join(span_measures)} cannot be compared: the documents are cut differently, so other "
            "chunks are relevant; see span_recall@5 and context_evidence_recall"
        )
    # whether a question passes depends on the thresholds, and on the measures
    other_thresholds = _differing_keys(
        baseline.settings.get("cases", {}), result.settings.get("cases", {})
    )
    measured_once = sorted(_perspectives_measured(baseline) ^ _perspectives_measured(result))
    if other_thresholds:
        names = ", ".join(other_thresholds)
        reasons["questions"] = f"passed questions are not compared: other thresholds ({names})"
    elif measured_once:
        names = ", ".join(measured_once)
        reasons["questions"] = (
            f"passed questions are not compared: {names} measured in one of the two only"
        )
    # the overall also depends on the weights of its parts
    other_settings = []
    for key in ("weights", "judge", "perspectives"):
        if baseline.settings.get(key) != result.settings.get(key):
            other_settings.append(key)
    if other_settings:
        reasons["overall"] = f"overall is not compared: other {' and '.join(other_settings)}"
    return reasons


def _differing_keys(first: Mapping[str, float], second: Mapping[str, float]) -> list[str]:
    """Return the keys, sorted, that have other values in two mappings, or are in one of them only."""
    keys = first.keys() | second.keys()
    return sorted(key for key in keys if first.get(key) != second.get(key))


def _perspectives_measured(result: Result) -> set[str]:
    return {state.name for state in result.perspectives if state.measured}


def _changes(
    baseline: Result, result: Result, left_out: Mapping[str, str], questions: Collection[str]
) -> tuple[Change, ...]:
    """Return the change of each measure that is compared (`_measures_to_compare`). Those that decide have a
    p-value after Holm's correction for several measures; heuristics without a target are only shown.

    Args:
        left_out: parts that are not compared -> the reason.
        questions: ids of the questions that are compared.
    """
    measures = _measures_to_compare(baseline, result, left_out, questions)
    if not measures:
        return ()
    frames = {
        "baseline": _scores_of(baseline, measures, questions),
        "contender": _scores_of(result, measures, questions),
    }
    # by side: measure -> the questions on which the judge gave no verdict
    missing_verdicts = {"baseline": baseline.unreadable, "contender": result.unreadable}
    table = compare_readable(
        frames,
        "baseline",
        missing_verdicts,
        measures=measures,
        alpha=ALPHA,
        questions=result.queries,
    )
    rows = table[table["n"] > 0].to_dict("records")  # one per measure
    shown_only = _undecided_heuristics(result, measures)
    tested = [row for row in rows if row["measure"] not in shown_only]
    p_values = [known_number(row["p_value"]) for row in tested]
    n_moved = [row["wins"] + row["losses"] for row in tested]  # questions whose value changed
    adjusted = _holm(p_values, n_moved)
    adjusted_of = dict(zip([row["measure"] for row in tested], adjusted, strict=True))
    changes = []
    for row in rows:
        measure = row["measure"]
        numbers = {name: known_number(row[name]) for name in _NUMBERS}
        is_better = _is_interval_better(measure, numbers["ci_low"], numbers["ci_high"])
        p_adjusted = adjusted_of.get(measure)  # None if it is only shown
        verdict = SHOWN_ONLY if measure in shown_only else _verdict(p_adjusted, is_better)
        change = Change(
            measure,
            perspective_of(measure),
            **numbers,
            p_adjusted=p_adjusted,
            n=int(row["n"]),
            better=int(row["wins"]),
            worse=int(row["losses"]),
            verdict=verdict,
        )
        changes.append(change)
    return tuple(changes)


def _undecided_heuristics(result: Result, measures: Collection[str]) -> frozenset[str]:
    """Return which of these measures decide nothing: heuristics and descriptions of which neither the user
    nor a preset named a target of the mean, or a threshold of the single answer.
    """
    named = {row.measure for row in result.rows if row.target is not None}
    thresholds = result.settings.get("cases", {})
    for part, measure in HEURISTIC_PARTS.items():
        if part in thresholds and not lets_all_pass(part, thresholds[part]):
            named.add(measure)
    heuristics = {measure for measure in measures if is_heuristic(measure)}
    return frozenset(heuristics - named)


def _measures_to_compare(
    baseline: Result, result: Result, left_out: Mapping[str, str], questions: Collection[str]
) -> list[str]:
    """Return the measures that both results have scored and that are compared, in the order of the
    baseline: the one that ranks configurations, the headline measures, the measures with a target and the
    user's own.
    """
    scored = set(result.scores.dropna(subset=["value"])["measure"])  # a missing value is unscored
    targets = {row.measure for row in result.rows if row.target is not None}
    measures = []
    for name in baseline.scores.dropna(subset=["value"])["measure"].unique():
        if name not in scored:
            continue
        if name in left_out or ("span:" in left_out and name.startswith("span:")):
            continue
        # parts of the overall are measures of their own, and `_pass_fail` compares pass_rate
        if name.startswith("overall_") or name == "pass_rate":
            continue
        measures.append(name)
    ranking = _ranking_measure(baseline, result, questions, measures)
    compared = []
    for name in measures:
        is_shown = name in HEADLINE or name in targets or perspective_of(name) == "own"
        if is_shown or name == ranking:
            compared.append(name)
    return compared


def _is_interval_better(measure: str, low: float | None, high: float | None) -> bool | None:
    """Return True if the interval of a difference is on the better side of 0, False if it is on the
    other, and None if it holds 0 or is not known.
    """
    if low is None or high is None or low <= 0 <= high:
        return None
    return (low > 0) == higher_is_better(measure)


def _scores_of(result: Result, measures: list[str], questions: Collection[str]) -> pd.DataFrame:
    """Return scores with a row for each of these questions and measures; questions in the order of
    their ids, so that both frames agree.
    """
    wide = result.wide.reindex(index=sorted(questions), columns=measures)
    return wide.melt(ignore_index=False, var_name="measure", value_name="value").reset_index()


def _verdict(p: float | None, is_better: bool | None) -> str:
    """Return the verdict of a `Change` or `PassFail`, by its adjusted p-value and the direction of the
    change; None is not known.
    """
    if p is None or p >= ALPHA or is_better is None:
        return "no difference shown"
    return "improvement" if is_better else "regression"


class _Outcome(NamedTuple):
    """Whether a question or sample passes. `flip` is its record with the reasons why, for a comparison that
    shows it as newly failing or fixed.
    """

    passes: bool
    flip: Flip


class _Flips(NamedTuple):
    """The members of a group (`what`) that pass in one of two results only; `n` are in both."""

    what: str
    n: int
    newly_failing: tuple[Flip, ...]
    fixed: tuple[Flip, ...]


def _pass_fail(
    baseline: Result, result: Result, left_out: Mapping[str, str], questions: Collection[str]
) -> tuple[PassFail, ...]:
    """Return the comparison of each group of cases: which cases newly fail, which are fixed, and the verdict
    by McNemar's test after Holm's correction.

    The groups are "questions", "answers to attacks" and "safety inputs". A group is left out if the two
    results have no case of it in common.

    Args:
        left_out: parts that are not compared -> the reason.
        questions: ids of the questions that are compared.
    """
    groups = []
    if "questions" not in left_out:
        old_questions = _question_outcomes(baseline, questions)
        new_questions = _question_outcomes(result, questions)
        groups.append(_flips("questions", old_questions, new_questions))
    kinds = {"answers to attacks": "system"}  # group -> the kind of its safety samples
    # the built-in detector is ragbench's: if it classifies otherwise, the system has not changed
    if result.settings.get("detector") != "built-in":
        kinds["safety inputs"] = "input"
    for what, kind in kinds.items():
        old_samples = _sample_outcomes(baseline, kind)
        new_samples = _sample_outcomes(result, kind)
        groups.append(_flips(what, old_samples, new_samples))
    groups = [group for group in groups if group.n]
    # of each group: how many newly fail, how many are fixed; repetitions of a question count once
    counts = []
    for group in groups:
        counts.append(_n_independent_flips(group.newly_failing, group.fixed, result.queries))
    p_values = [mcnemar_p_value(n_failing, n_fixed) for n_failing, n_fixed in counts]
    adjusted = _holm(p_values, [n_failing + n_fixed for n_failing, n_fixed in counts])
    records = []
    for group, (n_failing, n_fixed), p in zip(groups, counts, adjusted, strict=True):
        records.append(PassFail(*group, p_value=p, verdict=_verdict(p, n_fixed > n_failing)))
    return tuple(records)


def _flips(what: str, old: Mapping[str, _Outcome], new: Mapping[str, _Outcome]) -> _Flips:
    """Return which members of a group newly fail and which are fixed. The record of each is from the result
    in which it fails: it has the reasons why.

    `what` is the name of the group; `old` and `new` have the outcomes of questions or samples by their ids.
    """
    shared = [name for name in old if name in new]
    failing = []
    fixed = []
    for name in shared:
        if old[name].passes and not new[name].passes:
            failing.append(new[name].flip)
        elif new[name].passes and not old[name].passes:
            fixed.append(old[name].flip)
    return _Flips(what, len(shared), tuple(failing), tuple(fixed))


def _n_independent_flips(
    failing: Sequence[Flip], fixed: Sequence[Flip], queries: Mapping[str, str]
) -> tuple[int, int]:
    """Return how many questions newly fail and how many are fixed.

    McNemar's test takes them as independent. Repetitions of a question, and the turns of a conversation,
    are not: they are a cluster, which counts as one question, by the majority of its changes.
    """
    # query_id -> -1 if it newly fails, 1 if it is fixed
    changes = dict.fromkeys((flip.query_id for flip in failing), -1)
    changes |= dict.fromkeys((flip.query_id for flip in fixed), 1)
    cluster_of = clusters_of(changes, queries)
    totals = Counter[str]()  # cluster -> fixed minus newly failing
    for query_id, change in changes.items():
        totals[cluster_of.get(query_id, query_id)] += change
    n_failing = sum(total < 0 for total in totals.values())
    n_fixed = sum(total > 0 for total in totals.values())
    return n_failing, n_fixed


def _question_outcomes(result: Result, among: Collection[str]) -> dict[str, _Outcome]:
    """Return query_id -> its outcome (whether it passed, and why not), for the questions of `among` that
    are decided: those that passed or failed.
    """
    outcomes = {}
    for case in result.cases:
        if case.passed is not None and case.query_id in among:
            flip = Flip(case.query_id, case.question, case.reasons)
            outcomes[case.query_id] = _Outcome(case.passed, flip)
    return outcomes


def _sample_outcomes(result: Result, kind: str) -> dict[str, _Outcome]:
    """Return sample_id -> its outcome, for the safety samples of one kind ("system" or "input"). A
    sample passes if it was classified correctly.
    """
    outcomes = {}
    for sample in result.samples:
        if sample.kind == kind:
            label = "harmful" if sample.harmful else "harmless"
            flip = Flip(sample.sample_id, "", (f"{label}, score {sample.score:.2f}",))
            outcomes[sample.sample_id] = _Outcome(sample.correct, flip)
    return outcomes


def _holm(p_values: Sequence[float | None], moved: Sequence[int]) -> list[float | None]:
    """Return p-values by Holm's correction over the tests in which anything moved (`moved` > 0), and the
    others as they are, since they could not have shown a difference. None is not known.

    `p_values` and `moved` (the number of members that changed) are aligned.
    """
    p = np.array(p_values, dtype=float)
    adjusted = adjusted_p_values(np.where(moved, p, np.nan))  # NaN takes no part in the correction
    return [known_number(each) for each in np.where(moved, adjusted, p)]
