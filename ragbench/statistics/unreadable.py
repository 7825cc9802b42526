"""Verdicts that a judge was asked for and that are missing: how far they could move a mean, and a
comparison that holds whatever they would have been.

A text in an answer can make the reply of a judge unreadable, and so delete a bad verdict. Unscored
questions are excluded from means, so the system whose verdicts are lost would gain.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.statistics.columns import bounds_of
from ragbench.statistics.comparison import compare_all, printed_as, short_comparison

Unreadable = Mapping[str, Collection[str]]
"""Measure -> the queries whose verdict is missing although a judge was asked for it."""

_STRENGTH = {"better": 2, "likely better": 1, "likely worse": -1, "worse": -2}


def bounds_of_mean(
    measure: str, scores: pd.DataFrame, unreadable: Unreadable
) -> tuple[float, float] | None:
    """Compute the range in which the mean of a measure would be if the verdicts that could not be read
    were known.

    Every missing verdict is filled in with the lowest, and with the highest value of the measure.
    None if no verdict is missing, or the measure is not among the scores.

    >>> scores = pd.DataFrame({"query_id": list("abcd"), "measure": "llm_correctness", "value": [1, 1, 0, None]})
    >>> bounds_of_mean("llm_correctness", scores, {"llm_correctness": {"d"}})
    (0.5, 0.75)
    """
    rows = scores[scores["measure"] == measure]
    if rows.empty or not unreadable.get(measure):
        return None
    lowest, highest = bounds_of(measure)
    low_mean = _filled(rows, unreadable, measure, lowest)["value"].mean()
    high_mean = _filled(rows, unreadable, measure, highest)["value"].mean()
    return float(low_mean), float(high_mean)


def compare_readable(
    scores_by_name: Mapping[str, pd.DataFrame],
    baseline: str,
    unreadable: Mapping[str, Unreadable],
    *,
    measures: str | Sequence[str] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compare as `compare_all` does; but if the fraction of missing verdicts of a measure differs between
    the configurations, decide by the worst case.

    The missing verdicts of such a measure are filled in twice: with the lowest value for the
    contenders and the highest for the baseline, and the reverse. ci_low to ci_high then spans all
    intervals, p is the largest one (1 if the differences have opposite signs), and `decision` is the
    weakest decision, "undecided" if they disagree. `interval` ends in ", worse bound";
    `unreadable_note` states the fractions. Means, difference, wins and n are computed from the
    verdicts that were read.

    Args:
        scores_by_name: configuration -> tidy scores.
        baseline: the configuration that the others are compared with.
        unreadable: configuration -> measure -> the queries whose verdict is missing.
        measures, options: as in `compare_all`.
    """
    observed = compare_all(scores_by_name, baseline, measures=measures, **options)
    # the measures whose fractions of missing verdicts differ
    bounded = [
        measure
        for measure in observed["measure"].unique()
        if unreadable_note(measure, scores_by_name, unreadable)
    ]
    if not bounded:
        return observed
    # three comparisons: as observed, with the best case for the baseline, and for the contenders
    tables = [observed]
    for baseline_gets_highest in (True, False):
        filled = {}
        for name, scores in scores_by_name.items():
            if name == baseline:
                gets_highest = baseline_gets_highest
            else:
                gets_highest = not baseline_gets_highest
            missing = unreadable.get(name, {})
            filled[name] = _filled_by_bounds(scores, missing, bounded, gets_highest=gets_highest)
        tables.append(compare_all(filled, baseline, measures=measures, **options))
    return printed_as(_weakest_comparison(tables, bounded), short_comparison)


def unreadable_note(
    measure: str,
    scores_by_name: Mapping[str, pd.DataFrame],
    unreadable: Mapping[str, Unreadable],
) -> str:
    """Return a sentence with the fraction of missing verdicts of each configuration; "" if all
    fractions are equal.

    >>> scores = pd.DataFrame({"query_id": list("abcd"), "measure": "llm_correctness", "value": [1, 1, 0, None]})
    >>> unreadable_note("llm_correctness", {"a": scores, "b": scores}, {"a": {"llm_correctness": {"d"}}})
    "llm_correctness: the judge's verdict is missing for 1 of 4 answers of a, 0 of 3 of b; the decision is by the worse bound, so it holds whatever these verdicts would have been"
    """  # noqa: E501
    fractions = set()
    texts: list[str] = []
    for name, scores in scores_by_name.items():
        n_missing = len(unreadable.get(name, {}).get(measure, ()))
        n_read = int(scores.loc[scores["measure"] == measure, "value"].notna().sum())
        n = n_read + n_missing
        fractions.add(n_missing / max(1, n))
        answers = "" if texts else " answers"  # only the first configuration spells it out
        texts.append(f"{n_missing} of {n}{answers} of {name}")
    if len(fractions) < 2:
        return ""
    return (
        f"{measure}: the judge's verdict is missing for {', '.join(texts)}; the "
        "decision is by the worse bound, so it holds whatever these verdicts would have been"
    )


def _filled(
    scores: pd.DataFrame, unreadable: Unreadable, measure: str, value: float
) -> pd.DataFrame:
    """Return the scores with `value` in place of each missing verdict of a measure.

    A verdict is missing if the query is in `unreadable` and has no value; a query without a value
    that no judge was asked for stays without one.
    """
    values = scores["value"].astype(float)
    is_unreadable = scores["query_id"].isin(unreadable.get(measure, ()))
    is_missing = is_unreadable & (scores["measure"] == measure) & values.isna()
    return scores.assign(value=values.mask(is_missing, value))


def _filled_by_bounds(
    scores: pd.DataFrame, unreadable: Unreadable, measures: Sequence[str], *, gets_highest: bool
) -> pd.DataFrame:
    """Return the scores with the highest (else the lowest) value for each missing verdict of some
    measures.
    """
    for measure in measures:
        lowest, highest = bounds_of(measure)
        scores = _filled(scores, unreadable, measure, highest if gets_highest else lowest)
    return scores


def _weakest_comparison(tables: Sequence[pd.DataFrame], measures: Sequence[str]) -> pd.DataFrame:
    """Return a comparison that is as cautious as the most cautious of several comparisons of the same
    configurations and measures.

    The interval of a row spans the intervals of all `tables`, p is the largest p, and the decision is
    the weakest. The other columns are taken from the first table. For the given `measures`, "worse
    bound" is added to the column `interval`. A row that is equal in all tables stays as it is.
    """
    result = pd.DataFrame(tables[0]).copy()
    for label in result.index:
        rows = [table.loc[label] for table in tables]
        result.loc[label, "ci_low"] = min(row["ci_low"] for row in rows)
        result.loc[label, "ci_high"] = max(row["ci_high"] for row in rows)
        have_same_sign = len({row["difference"] > 0 for row in rows}) == 1
        for column in ("p_value", "p_adjusted", "p_likely", "p_likely_adjusted"):
            known = [row[column] for row in rows if not pd.isna(row[column])]
            if known:
                # without a common direction nothing is shown
                result.loc[label, column] = max(known) if have_same_sign else 1.0
        decision = weakest_decision([row["decision"] for row in rows])
        result.loc[label, "decision"] = decision
        if not decision.startswith("likely"):  # only likely decisions have this column
            result.loc[label, "loss_rate_to_overturn"] = pd.NA
    is_bounded = result["measure"].isin(measures)
    result.loc[is_bounded, "interval"] += ", worse bound"
    return result


def weakest_decision(decisions: Sequence[str]) -> str:
    """Return the decision that holds in several cases: the weakest of the decisions if all are for
    better, or all for worse, else "undecided". Equal decisions are returned as they are, and "not
    possible" is returned if the first decision is.

    >>> weakest_decision(["better", "likely better"]), weakest_decision(["better", "undecided"])
    ('likely better', 'undecided')
    >>> weakest_decision(["within the margin"] * 3), weakest_decision(["better", "worse"])
    ('within the margin', 'undecided')
    """
    if len({*decisions}) == 1 or decisions[0] == "not possible":
        return decisions[0]
    strengths = [_STRENGTH.get(decision, 0) for decision in decisions]
    have_same_direction = min(strengths) > 0 or max(strengths) < 0
    if not have_same_direction:
        return "undecided"
    weakest = min(strengths, key=abs)
    return decisions[strengths.index(weakest)]
