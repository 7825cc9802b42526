"""A result against an earlier one, case by case: regressions, newly failing cases and fixed cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from ragbench.errors import ComparisonError
from ragbench.evaluation.records import (
    Change,
    Comparison,
    Flip,
    PassFail,
    known_number,
    score_frame,
)
from ragbench.evaluation.result import Result
from ragbench.registry import HEADLINE, higher_is_better, perspective_of
from ragbench.statistics import adjusted_p_values, compare, mcnemar_p_value, required_queries

ALPHA = 0.05


def compare_results(baseline: Result, result: Result) -> Comparison:
    """Compare two evaluations of the same questions, paired case by case.

    A measure is a "regression" where it got worse and the p-value of its interval
    (`ragbench.statistics.compare`) is below 0.05 after Holm's correction over the measures
    compared: those of the headline table and those with a target. A measure that no case changed
    could not have been found to differ at any level, and takes no part in the correction (Tarone
    1990); the same holds where no case newly fails or is fixed. For the rate of passed questions,
    and of safety samples classified correctly, McNemar's exact test decides. What the two measured
    differently (passed questions by other thresholds, rankings of chunks that are cut differently)
    is left out, and `notes` state why. An evaluation compared with itself has no regression.

    Raises:
        ComparisonError: the two are of other data, other questions, or were measured with another
        embedder or judge;
            the message names what differs.
    """
    check_same(baseline, result)
    return Comparison(
        baseline=baseline.name,
        baseline_made=str(baseline.config.get("made_at", "")),
        changes=_changes(baseline, result),
        pass_fail=_pass_fail(baseline, result),
        notes=tuple(
            note
            for differs in (_ranked_otherwise, _decided_otherwise, _weighted_otherwise)
            if (note := differs(baseline, result))
        ),
    )


def check_same(baseline: Result, result: Result) -> None:
    """Refuse to compare what cannot be compared, before anything is computed; see
    `compare_results`.
    """
    check_comparable(
        baseline,
        result.dataset["fingerprint"],
        list(result.queries),
        result.settings,
    )


def check_comparable(
    baseline: Result, fingerprint: str, query_ids: Sequence[str], settings: Mapping[str, object]
) -> None:
    """The same check before there is a result: nothing is asked for if the comparison would be
    refused.

    Raises:
        ComparisonError: naming what differs.
    """
    before, after = list(baseline.queries), list(query_ids)
    differences = []
    if gone := _only(before, after):
        differences.append(f"only the baseline has {_named(gone)}")
    if new := _only(after, before):
        differences.append(f"the baseline lacks {_named(new)}")
    if differences:
        counts = f"{len(before)} questions in the baseline, {len(after)} here"
        raise ComparisonError(
            f"baseline {baseline.name!r} was asked other questions "
            f"({counts}; {'; '.join(differences)}); evaluate both with the same --test-set, "
            "--suite and --sample"
        )
    if baseline.dataset["fingerprint"] != fingerprint:
        raise ComparisonError(
            f"baseline {baseline.name!r} was measured on other data: "
            f"fingerprint {baseline.dataset['fingerprint'][:12]} there, {fingerprint[:12]} here, "
            "with the same question ids. Labels, texts or documents have changed; evaluate the "
            "baseline again on the present ones"
        )
    for key in ("embedder", "support_model", "judge"):
        then, now = baseline.settings.get(key, ""), settings.get(key, "")
        if then and now and then != now:
            raise ComparisonError(
                f"baseline {baseline.name!r} was measured with the {key} {then!r} and this "
                f"with {now!r}: their numbers are of different scales; use the same for both"
            )


def _only(some: Sequence[str], others: Sequence[str]) -> list[str]:
    known = set(others)
    return [one for one in some if one not in known]


def _named(ids: Sequence[str]) -> str:
    return ", ".join(map(repr, ids[:3])) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def _changes(baseline: Result, result: Result) -> tuple[Change, ...]:
    before, after = _scored(baseline), _scored(result)
    aimed = {row.measure for row in result.rows if row.target is not None}
    shared = [
        name
        for name in before
        if name in after
        and (name in HEADLINE or name in aimed or perspective_of(name) == "own")
        and not _twice(name)
    ]
    if _ranked_otherwise(baseline, result):
        shared = [name for name in shared if not name.startswith("span:")]
    if _weighted_otherwise(baseline, result):
        shared = [name for name in shared if name != "overall"]
    if not shared:
        return ()
    frames = _frame(baseline, shared), _frame(result, shared)
    table = compare(*frames, measures=shared, alpha=ALPHA)
    rows = []
    records = table.to_dict("records")
    moved = [row["wins"] + row["losses"] for row in records]
    adjusted = _holm([known_number(row["p_value"]) for row in records], moved)
    for row, p in zip(records, adjusted, strict=True):
        if not row["n"]:
            continue  # no case is scored by it on both sides
        low, high = known_number(row["ci_low"]), known_number(row["ci_high"])
        higher = higher_is_better(row["measure"])
        rows.append(
            Change(
                measure=row["measure"],
                perspective=perspective_of(row["measure"]),
                baseline=known_number(row["baseline"]),
                contender=known_number(row["contender"]),
                difference=known_number(row["difference"]),
                ci_low=low,
                ci_high=high,
                p_adjusted=p,
                mde=known_number(row["mde"]),
                n=int(row["n"]),
                better=int(row["wins"]),
                worse=int(row["losses"]),
                verdict=_direction(low, high, p, higher),
                p_value=known_number(row["p_value"]),
                n_needed=_needed(*frames, row["measure"], known_number(row["difference"])),
            )
        )
    return tuple(rows)


def _needed(
    before: pd.DataFrame, after: pd.DataFrame, measure: str, difference: float | None
) -> int | None:
    """How many cases would show the difference that was observed; None where there is none, or no
    spread.
    """
    if not difference:
        return None
    [needed] = required_queries(before, after, difference, alpha=ALPHA, measures=[measure])[
        "required"
    ]
    return None if known_number(needed) is None else int(needed)


def _twice(measure: str) -> bool:
    """Measures compared elsewhere: parts of the overall, as measures; pass_rate, by McNemar's test."""
    return measure.startswith("overall_") or measure == "pass_rate"


def _direction(low: float | None, high: float | None, p: float | None, higher: bool) -> str:
    if low is None or high is None or p is None or p >= ALPHA or low <= 0 <= high:
        return "no difference shown"
    return "improvement" if (low > 0) == higher else "regression"


def _scored(result: Result) -> dict[str, None]:
    """The measures by which at least one case is scored."""
    return {
        name: None
        for case in result.cases
        for name, value in case.scores.items()
        if value is not None
    }


def _frame(result: Result, measures: Sequence[str]) -> pd.DataFrame:
    """Scores with a row for every case and measure; cases in the order of their ids, so that both
    frames agree.
    """
    cases = sorted(result.cases, key=lambda case: case.query_id)
    return score_frame(
        (case.query_id, name, case.scores.get(name)) for name in measures for case in cases
    )


class _Side(NamedTuple):
    """One thing that passed or failed in one evaluation."""

    passed: bool
    reasons: tuple[str, ...]
    question: str


def _pass_fail(baseline: Result, result: Result) -> tuple[PassFail, ...]:
    pairs: dict[str, tuple[dict[str, _Side], dict[str, _Side]]] = {}
    if not _decided_otherwise(baseline, result):
        pairs["questions"] = (_questions(baseline), _questions(result))
    pairs["answers to attacks"] = (_samples(baseline, "system"), _samples(result, "system"))
    if (
        result.settings.get("detector") != "built-in"
    ):  # changes of ragbench's own detector do not concern the system
        pairs["safety inputs"] = (_samples(baseline, "input"), _samples(result, "input"))
    tested: list[tuple[str, int, list[Flip], list[Flip], float]] = []
    for what, (before, after) in pairs.items():
        both = [one for one in before if one in after]
        if both:
            newly_failing = [
                _flip(one, after[one])
                for one in both
                if before[one].passed and not after[one].passed
            ]
            fixed = [
                _flip(one, before[one])
                for one in both
                if after[one].passed and not before[one].passed
            ]
            tested.append(
                (
                    what,
                    len(both),
                    newly_failing,
                    fixed,
                    mcnemar_p_value(len(newly_failing), len(fixed)),
                )
            )
    adjusted = _holm(
        [p for *_, p in tested],
        [len(newly_failing) + len(fixed) for _, _, newly_failing, fixed, _ in tested],
    )
    return tuple(
        PassFail(
            what,
            n,
            tuple(newly_failing),
            tuple(fixed),
            p,
            _flipped(len(newly_failing), len(fixed), p),
        )
        for (what, n, newly_failing, fixed, _), p in zip(tested, adjusted, strict=True)
    )


def _decided_otherwise(baseline: Result, result: Result) -> str:
    """Why the passed questions of the two mean different things; "" where they mean the same."""
    then, now = (dict(one.settings.get("cases", {})) for one in (baseline, result))
    if then != now:
        changed = [
            f"{name} {then.get(name)} there, {now.get(name)} here"
            for name in now
            if then.get(name) != now[name]
        ]
        return f"passed questions are not compared: other thresholds ({', '.join(changed)})"
    before, after = (
        {one.name for one in each.perspectives if one.measured} for each in (baseline, result)
    )
    if changed := sorted(before ^ after):
        return (
            f"passed questions are not compared: {', '.join(changed)} measured in one of the "
            "two only"
        )
    return ""


def _weighted_otherwise(baseline: Result, result: Result) -> str:
    """Why the overalls of the two mean different things; "" where they mean the same."""
    differ = [
        key
        for key in ("weights", "judge", "perspectives")
        if baseline.settings.get(key) != result.settings.get(key)
    ]
    return f"overall is not compared: other {' and '.join(differ)}" if differ else ""


def _ranked_otherwise(baseline: Result, result: Result) -> str:
    """Why rankings of chunks by gold evidence mean different things in the two; "" where they mean
    the same.
    """
    before, after = (one.system.get("chunking") for one in (baseline, result))
    wanted = [
        row.measure
        for row in result.rows
        if row.target is not None and row.measure.startswith("span:")
    ]
    if wanted and before and after and before != after:
        return (
            f"{', '.join(wanted)} cannot be compared: the documents are cut differently, so "
            "other chunks are relevant; see span_recall@5 and context_evidence_recall"
        )
    return ""


def _questions(result: Result) -> dict[str, _Side]:
    return {
        case.query_id: _Side(case.passed, case.reasons, case.question)
        for case in result.cases
        if case.passed is not None
    }


def _samples(result: Result, kind: str) -> dict[str, _Side]:
    return {
        one.sample_id: _Side(
            one.correct, (f"{'harmful' if one.harmful else 'harmless'}, score {one.score:.2f}",), ""
        )
        for one in result.samples
        if one.kind == kind
    }


def _flip(one: str, side: _Side) -> Flip:
    return Flip(one, side.question, side.reasons)


def _flipped(newly_failing: int, fixed: int, p: float | None) -> str:
    if p is None or p >= ALPHA:
        return "no difference shown"
    return "regression" if newly_failing > fixed else "improvement"


def _holm(p_values: Sequence[float | None], moved: Sequence[int]) -> list[float | None]:
    """Holm's correction over the tests in which anything moved: the others have p = 1 before
    anything is looked at.
    """
    adjusted = list(p_values)
    tested = [(at, p) for at, p in enumerate(p_values) if p is not None and moved[at]]
    for (at, _), p in zip(tested, adjusted_p_values([p for _, p in tested]).tolist(), strict=True):
        adjusted[at] = p
    return adjusted
