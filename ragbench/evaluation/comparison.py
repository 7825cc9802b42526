"""A result against an earlier one, case by case: regressions, newly failing cases and fixed cases."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from ragbench.errors import ComparisonError
from ragbench.evaluation.records import Change, Comparison, Flip, PassFail
from ragbench.evaluation.result import Result
from ragbench.registry import HEADLINE, higher_is_better, perspective_of
from ragbench.statistics import adjusted_p_values, mcnemar_p_value
from ragbench.statistics.clusters import clusters_of
from ragbench.statistics.columns import known_number
from ragbench.statistics.unreadable import compare_readable, unreadable_note

ALPHA = 0.05
_MAX_NAMED = 5  # questions that a note names
_NUMBERS = ("baseline", "contender", "difference", "ci_low", "ci_high", "p_value", "mde")


def compare_results(baseline: Result, result: Result) -> Comparison:
    """Compare two evaluations, paired case by case, over the questions that both have and that did
    not change.

    A measure is a "regression" where it got worse and the p-value of its interval
    (`ragbench.statistics.compare`) is below 0.05 after Holm's correction over the measures
    compared: those of the headline table and those with a target. A measure that no case changed
    could not have been found to differ at any level, and takes no part in the correction (Tarone
    1990); the same holds where no case newly fails or is fixed. For the rate of passed questions,
    and of safety samples classified correctly, McNemar's exact test decides. What the two measured
    differently (passed questions by other thresholds, rankings of chunks that are cut differently)
    is left out, and `notes` state why. An evaluation compared with itself has no regression.

    Raises:
        ComparisonError: the two have no unchanged question in common, or were measured with another
            embedder or judge; the message names what differs.
    """
    digests = result.config.get("question_digests", {})
    check_comparable(baseline, result.queries, digests, result.settings)
    shared = shared_questions(baseline, result.queries, digests)
    both = [query_id for query_id in result.queries if query_id in baseline.queries]
    left_out = _left_out(baseline, result)
    changes = _changes(baseline, result, left_out, shared)
    sides = {"the baseline": baseline, "this evaluation": result}
    unreadable = [unreadable_note_of(sides, change.measure) for change in changes]
    notes = [*left_out.values(), *filter(None, unreadable)]
    if baseline.dataset.get("corpus", "") != result.dataset.get("corpus", ""):
        notes.append("the documents have changed since the baseline")
    others = {
        "new": tuple(query_id for query_id in result.queries if query_id not in baseline.queries),
        "removed": tuple(
            query_id for query_id in baseline.queries if query_id not in result.queries
        ),
        "changed": tuple(query_id for query_id in both if query_id not in shared),
    }
    for word, query_ids in others.items():
        if query_ids:
            named = ", ".join(query_ids[:_MAX_NAMED])
            more = f" and {len(query_ids) - _MAX_NAMED} more" if len(query_ids) > _MAX_NAMED else ""
            plural = "question is" if len(query_ids) == 1 else "questions are"
            notes.append(f"{len(query_ids)} {plural} {word} and not compared: {named}{more}")
    return Comparison(
        baseline=baseline.name,
        baseline_made=baseline.made_at,
        changes=changes,
        pass_fail=_pass_fail(baseline, result, left_out, shared),
        notes=tuple(notes),
        n=len(shared),
        **others,
    )


def shared_questions(
    baseline: Result, queries: Mapping[str, str], digests: Mapping[str, str]
) -> frozenset[str]:
    """Return the ids of the questions that the baseline was asked, too, with the same text and
    labels.

    Args:
        baseline: the earlier result. One without digests of its questions is compared by their
            texts, and by its fingerprint.
        queries: query_id -> question, as they are now.
        digests: query_id -> digest of the question with its labels, as they are now.
    """
    before = baseline.config.get("question_digests", {})
    shared = set()
    for query_id, text in queries.items():
        if query_id in before and query_id in digests:
            is_same = before[query_id] == digests[query_id]
        else:
            is_same = baseline.queries.get(query_id) == text
        if is_same:
            shared.add(query_id)
    return frozenset(shared)


def unreadable_note_of(results: Mapping[str, Result], measure: str) -> str:
    """Return a sentence with the fraction of missing verdicts of each result, by the names given
    here; "" where all have the same.
    """
    scores = {name: result.scores for name, result in results.items()}
    unreadable = {name: result.unreadable for name, result in results.items()}
    return unreadable_note(measure, scores, unreadable)


def check_comparable(
    baseline: Result,
    queries: Mapping[str, str],
    digests: Mapping[str, str],
    settings: Mapping[str, object],
) -> None:
    """Refuse a comparison before there is a result: nothing is asked for if it could not be made.

    Args:
        baseline, queries, digests: those of `shared_questions`.
        settings: how the result is to be measured.

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
                f"baseline {baseline.name!r} was measured with the {key} {then!r} and this "
                f"with {now!r}: their numbers are of different scales; use the same for both"
            )


def _left_out(baseline: Result, result: Result) -> dict[str, str]:
    """Return what the two measured differently, of "span:", "questions" and "overall", and why."""
    then, now, reasons = baseline.settings, result.settings, {}
    both = (baseline, result)
    chunkings = {each.system.get("chunking") for each in both} - {None}
    spans = [
        row.measure
        for row in result.rows
        if row.target is not None and row.measure.startswith("span:")
    ]
    if len(chunkings) > 1 and spans:
        reasons["span:"] = (
            f"{', '.join(spans)} cannot be compared: the documents are cut differently, so other "
            "chunks are relevant; see span_recall@5 and context_evidence_recall"
        )
    cases = [dict(settings.get("cases", {})).items() for settings in (now, then)]
    thresholds = sorted({name for name, _ in cases[0] ^ cases[1]})
    measured = [{state.name for state in each.perspectives if state.measured} for each in both]
    reason = ""
    if thresholds:
        reason = f"other thresholds ({', '.join(thresholds)})"
    elif differing := sorted(measured[0] ^ measured[1]):
        reason = f"{', '.join(differing)} measured in one of the two only"
    if reason:
        reasons["questions"] = f"passed questions are not compared: {reason}"
    keys = ("weights", "judge", "perspectives")
    if differing := [key for key in keys if then.get(key) != now.get(key)]:
        reasons["overall"] = f"overall is not compared: other {' and '.join(differing)}"
    return reasons


def _changes(
    baseline: Result, result: Result, left_out: Mapping[str, str], questions: Collection[str]
) -> tuple[Change, ...]:
    before, after = (
        each.scores.dropna(subset=["value"])["measure"].unique() for each in (baseline, result)
    )
    targets = {row.measure for row in result.rows if row.target is not None}
    shared = [
        name
        for name in before
        if name in after
        and (name in HEADLINE or name in targets or perspective_of(name) == "own")
        # the parts of the overall are measures of their own, and McNemar's test is about pass_rate
        and not name.startswith("overall_")
        and name not in ("pass_rate", *left_out)
        and not ("span:" in left_out and name.startswith("span:"))
    ]
    if not shared:
        return ()
    frames = {
        "baseline": _frame(baseline, shared, questions),
        "contender": _frame(result, shared, questions),
    }
    unreadable = {"baseline": baseline.unreadable, "contender": result.unreadable}
    table = compare_readable(
        frames, "baseline", unreadable, measures=shared, alpha=ALPHA, questions=result.queries
    )
    rows = table[table["n"] > 0].to_dict("records")
    p_values = [known_number(row["p_value"]) for row in rows]
    adjusted = _holm(p_values, [row["wins"] + row["losses"] for row in rows])
    changes = []
    for row, p_adjusted in zip(rows, adjusted, strict=True):
        numbers = {name: known_number(row[name]) for name in _NUMBERS}
        measure, low, high = row["measure"], numbers["ci_low"], numbers["ci_high"]
        is_better = None
        if low is not None and high is not None and not low <= 0 <= high:
            is_better = (low > 0) == higher_is_better(measure)
        changes.append(
            Change(
                measure,
                perspective_of(measure),
                **numbers,
                p_adjusted=p_adjusted,
                n=int(row["n"]),
                better=int(row["wins"]),
                worse=int(row["losses"]),
                verdict=_verdict(p_adjusted, is_better),
            )
        )
    return tuple(changes)


def _frame(result: Result, measures: list[str], questions: Collection[str]) -> pd.DataFrame:
    """Return scores with a row for each of these questions and measures; questions in the order of
    their ids, so that both frames agree.
    """
    wide = result.wide.reindex(index=sorted(questions), columns=measures)
    return wide.melt(ignore_index=False, var_name="measure", value_name="value").reset_index()


def _verdict(p: float | None, is_better: bool | None) -> str:
    if p is None or p >= ALPHA or is_better is None:
        return "no difference shown"
    return "improvement" if is_better else "regression"


_Outcomes = Callable[[Result], dict[str, tuple[bool, Flip]]]


def _pass_fail(
    baseline: Result, result: Result, left_out: Mapping[str, str], questions: Collection[str]
) -> tuple[PassFail, ...]:
    groups: dict[str, _Outcomes] = {
        "questions": partial(_questions, among=questions),
        "answers to attacks": partial(_samples, kind="system"),
    }
    if "questions" in left_out:
        del groups["questions"]
    if result.settings.get("detector") != "built-in":  # its changes do not concern the system
        groups["safety inputs"] = partial(_samples, kind="input")
    rows: list[tuple[str, int, tuple[Flip, ...], tuple[Flip, ...]]] = []
    for what, passed_of in groups.items():
        before, after = passed_of(baseline), passed_of(result)
        shared = [name for name in before if name in after]
        failing = [after[name][1] for name in shared if before[name][0] and not after[name][0]]
        fixed = [before[name][1] for name in shared if after[name][0] and not before[name][0]]
        if shared:
            rows.append((what, len(shared), tuple(failing), tuple(fixed)))
    flips = [_independent_flips(failing, fixed, result.queries) for _, _, failing, fixed in rows]
    adjusted = _holm([mcnemar_p_value(*counts) for counts in flips], [*map(sum, flips)])
    return tuple(
        PassFail(*row, p, _verdict(p, n_fixed > n_failing))
        for row, (n_failing, n_fixed), p in zip(rows, flips, adjusted, strict=True)
    )


def _independent_flips(
    failing: Sequence[Flip], fixed: Sequence[Flip], queries: Mapping[str, str]
) -> tuple[int, int]:
    """Count what newly fails and what is fixed, each repeated question and conversation once: by
    what most of its questions do.
    """
    changes = dict.fromkeys((flip.query_id for flip in failing), -1)
    changes |= dict.fromkeys((flip.query_id for flip in fixed), 1)
    clusters = clusters_of(changes, queries)
    totals = Counter[str]()
    for query_id, change in changes.items():
        totals[clusters.get(query_id, query_id)] += change
    n_failing = sum(total < 0 for total in totals.values())
    n_fixed = sum(total > 0 for total in totals.values())
    return n_failing, n_fixed


def _questions(result: Result, among: Collection[str]) -> dict[str, tuple[bool, Flip]]:
    return {
        case.query_id: (case.passed, Flip(case.query_id, case.question, case.reasons))
        for case in result.cases
        if case.passed is not None and case.query_id in among
    }


def _samples(result: Result, kind: str) -> dict[str, tuple[bool, Flip]]:
    flips = {}
    for sample in result.samples:
        if sample.kind == kind:
            about = f"{'harmful' if sample.harmful else 'harmless'}, score {sample.score:.2f}"
            flips[sample.sample_id] = sample.correct, Flip(sample.sample_id, "", (about,))
    return flips


def _holm(p_values: Sequence[float | None], moved: Sequence[int]) -> list[float | None]:
    """Return p-values by Holm's correction over the tests in which anything moved: the others have
    p = 1 before anything is looked at.
    """
    p = np.array(p_values, dtype=float)
    adjusted = adjusted_p_values(np.where(moved, p, np.nan))
    return [known_number(each) for each in np.where(moved, adjusted, p)]
