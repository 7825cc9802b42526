"""Verdicts that a judge was asked for and did not give: how far they could move a mean, and a
comparison that holds whatever they would have been.

A text in an answer can make the reply of a judge unreadable, and so delete a bad verdict. Unscored
questions are in no mean, so the system whose verdicts are lost would gain.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.statistics.columns import bounds_of
from ragbench.statistics.comparison import compare_all, printed_short, short_comparison

Unreadable = Mapping[str, Collection[str]]
"""Measure -> the queries whose verdict is missing although a judge was asked for it."""

_STRENGTH = {"better": 2, "likely better": 1, "likely worse": -1, "worse": -2}


def bounds_of_mean(
    measure: str, scores: pd.DataFrame, unreadable: Unreadable
) -> tuple[float, float] | None:
    """Compute the mean with every missing verdict as the lowest, and as the highest value of the
    measure; None where no verdict is missing,
    or the measure is not among the scores.

    >>> scores = pd.DataFrame({"query_id": list("abcd"), "measure": "llm_correctness", "value": [1, 1, 0, None]})
    >>> bounds_of_mean("llm_correctness", scores, {"llm_correctness": {"d"}})
    (0.5, 0.75)
    """
    rows = scores[scores["measure"] == measure]
    if rows.empty or not unreadable.get(measure):
        return None
    lowest, highest = bounds_of(measure)
    means = [
        _filled(rows, unreadable, [measure], bound)["value"].mean() for bound in (lowest, highest)
    ]
    return float(means[0]), float(means[1])


def compare_readable(
    scores_by_name: Mapping[str, pd.DataFrame],
    baseline: str,
    unreadable: Mapping[str, Unreadable],
    *,
    measures: str | Sequence[str] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compare as `compare_all` does; where the fraction of missing verdicts differs between the
    configurations, decide by the worse bound.

    Of such a measure the missing verdicts are filled in twice: the lowest value for the contenders
    and the highest for the baseline, and the reverse. ci_low to ci_high then spans the intervals of
    both, p is the larger (1 where the two point in opposite directions), and `decision` is the
    weaker of the decisions, "undecided" where they disagree. `interval` ends in ", worse bound";
    `unreadable_note` states the fractions. Means, difference, wins and n are those of the verdicts
    that were read.

    Args:
        scores_by_name: configuration -> tidy scores.
        baseline: the configuration that the others are compared with.
        unreadable: configuration -> measure -> queries.
        measures, options: those of `compare_all`.
    """
    observed = compare_all(scores_by_name, baseline, measures=measures, **options)
    bounded = [
        measure
        for measure in observed["measure"].unique()
        if unreadable_note(measure, scores_by_name, unreadable)
    ]
    if not bounded:
        return observed
    tables = [observed]
    for of_contenders in (0, 1):
        filled = {}
        for name, scores in scores_by_name.items():
            side = 1 - of_contenders if name == baseline else of_contenders
            missing = unreadable.get(name, {})
            for measure in bounded:
                scores = _filled(scores, missing, [measure], bounds_of(measure)[side])
            filled[name] = scores
        tables.append(compare_all(filled, baseline, measures=measures, **options))
    return printed_short(_weakest(tables, bounded), short_comparison)


def unreadable_note(
    measure: str,
    scores_by_name: Mapping[str, pd.DataFrame],
    unreadable: Mapping[str, Unreadable],
) -> str:
    """Return a sentence with the fraction of missing verdicts of each configuration; "" where all
    have the same.

    >>> scores = pd.DataFrame({"query_id": list("abcd"), "measure": "llm_correctness", "value": [1, 1, 0, None]})
    >>> unreadable_note("llm_correctness", {"a": scores, "b": scores}, {"a": {"llm_correctness": {"d"}}})
    "llm_correctness: the judge's verdict is missing for 1 of 4 answers of a, 0 of 3 of b; the decision is by the worse bound, so it holds whatever these verdicts would have been"
    """  # noqa: E501
    counts = {}
    for name, scores in scores_by_name.items():
        missing = len(unreadable.get(name, {}).get(measure, ()))
        n_read = int(scores.loc[scores["measure"] == measure, "value"].notna().sum())
        counts[name] = (missing, n_read + missing)
    if len({n_missing / max(1, n) for n_missing, n in counts.values()}) < 2:
        return ""
    parts = [f"{n_missing} of {n} answers of {name}" for name, (n_missing, n) in counts.items()]
    others = [part.replace(" answers", "") for part in parts[1:]]
    return (
        f"{measure}: the judge's verdict is missing for {', '.join([parts[0], *others])}; the "
        "decision is by the worse bound, so it holds whatever these verdicts would have been"
    )


def _filled(
    scores: pd.DataFrame, unreadable: Unreadable, measures: Sequence[str], value: float
) -> pd.DataFrame:
    """Return the scores with a value in place of each missing verdict of these measures."""
    values = scores["value"].astype(float)
    for measure in measures:
        is_missing = scores["query_id"].isin(unreadable.get(measure, ()))
        values = values.mask(is_missing & (scores["measure"] == measure) & values.isna(), value)
    return scores.assign(value=values)


def _weakest(tables: Sequence[pd.DataFrame], measures: Sequence[str]) -> pd.DataFrame:
    """Return the first of several comparisons with the intervals, p-values and decisions that hold
    in all of them; the means stay.
    """
    result = pd.DataFrame(tables[0])
    for row in result.index:
        rows = [table.loc[row] for table in tables]
        result.loc[row, "ci_low"] = min(each["ci_low"] for each in rows)
        result.loc[row, "ci_high"] = max(each["ci_high"] for each in rows)
        signs = {each["difference"] > 0 for each in rows}
        for p in ("p_value", "p_adjusted", "p_likely", "p_likely_adjusted"):
            known = [each[p] for each in rows if not pd.isna(each[p])]
            if known:
                result.loc[row, p] = max(known) if len(signs) == 1 else 1.0
        decision = weakest_decision([each["decision"] for each in rows])
        result.loc[row, "decision"] = decision
        if not decision.startswith("likely"):
            result.loc[row, "loss_rate_to_overturn"] = pd.NA
        if result.loc[row, "decision"] == "undecided":
            result.loc[row, "loss_rate_to_overturn"] = pd.NA
    is_bounded = result["measure"].isin(measures)
    result.loc[is_bounded, "interval"] += ", worse bound"
    return result


def weakest_decision(decisions: Sequence[str]) -> str:
    """Return the decision that holds in all cases: the weakest where all are on one side, else
    "undecided"; "not possible" where the first is.

    >>> weakest_decision(["better", "likely better"]), weakest_decision(["better", "undecided"])
    ('likely better', 'undecided')
    >>> weakest_decision(["within the margin"] * 3), weakest_decision(["better", "worse"])
    ('within the margin', 'undecided')
    """
    if len({*decisions}) == 1 or decisions[0] == "not possible":
        return decisions[0]
    strengths = [_STRENGTH.get(decision, 0) for decision in decisions]
    is_one_side = min(strengths) > 0 or max(strengths) < 0
    return decisions[strengths.index(min(strengths, key=abs))] if is_one_side else "undecided"
