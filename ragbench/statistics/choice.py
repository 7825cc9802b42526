"""Which configuration to choose: equivalence, the cheapest within a margin, the Pareto front,
held-out queries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import (
    Floats,
    adjusted_p_values,
    bounds_of,
    check_settings,
    matrix_of,
    mean,
    measure_among,
    nullable,
    p_text,
    pairs_by_measure,
    with_nullable,
)
from ragbench.statistics.comparison import compare, summarise
from ragbench.statistics.intervals import Bounds, mean_intervals, p_above


def equivalent(
    baseline: pd.DataFrame,
    contender: pd.DataFrame,
    margin: float,
    *,
    measures: Sequence[str] | None = None,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Is the contender equal to the baseline, up to `margin`? Two one-sided tests (TOST, Schuirmann
    1987).

    A difference that is "not significant" may be large; equivalence needs an interval within the
    margin. The margin is the largest difference that does not matter; choose it before looking at
    the results.

    Each test holds its alpha for any distribution of the differences: an unseen question may lose
    as much as the measure allows (Gaffke 2005, see `ragbench.statistics.intervals`). So a measure
    from 0 to 1 needs at least `min_queries_for_margin` queries, 59 for a margin of 0.05 and 149 for
    0.02, even if none of them differs. For measures without bounds, such as latencies, the tests
    are Student's t, which is right for differences near normal.

    Columns:
        measure; baseline, contender, difference: means over the pairs, contender - baseline.
        ci_low, ci_high: 1 - 2 alpha interval by the same method: inside +-margin where the test
        finds "equivalent". margin; p_value: the larger of the two one-sided p-values, of "at least
        margin below" and "at least margin
            above". Without bounds, differences without any spread give 1.
        equivalent: p_value < alpha. p_non_inferior, non_inferior: the test for a replacement of the
        baseline: not worse by margin or more, in the direction of the measure
        (`registry.higher_is_better`). n: pairs used; below two nothing is tested: p-values are
        pd.NA and nothing is proven.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> before, after = scores(*[0, 0.5, 0.5, 1, 0.25, 1] * 20), scores(*[0, 0.5, 0.45, 1, 0.3, 0.95] * 20)
    >>> equivalent(before, after, 0.05)[["difference", "ci_low", "ci_high", "p_value", "equivalent"]].round(2)
       difference  ci_low  ci_high  p_value  equivalent
    0       -0.01   -0.03     0.02     0.01        True

    Raises:
        ConfigError: margin or alpha out of range, or a measure that is not there.
        ComparisonError: other queries, or no measure in common.
    """
    check_settings(alpha)
    check_margin(margin)
    pairs = pairs_by_measure(baseline, contender, measures)
    differences = [pair.difference for pair in pairs.values()]
    widths = [_width(measure, pair.before, pair.after) for measure, pair in pairs.items()]
    unseen = [-width for width in widths]
    below, above = (
        p_above(side, unseen, -margin) for side in (differences, [-d for d in differences])
    )
    low, high, *_ = mean_intervals(
        differences, [Bounds(-width, width) for width in widths], 2 * alpha
    )
    rows = []
    for row, (measure, pair) in enumerate(pairs.items()):
        p = float(max(below[row], above[row]))
        p_one = float((below if higher_is_better(measure) else above)[row])
        means = (mean(pair.before), mean(pair.after), mean(pair.difference), low[row], high[row])
        rows.append((measure, *means, margin, p, p < alpha, p_one, p_one < alpha, len(pair.before)))
    columns = [
        "measure",
        "baseline",
        "contender",
        "difference",
        "ci_low",
        "ci_high",
        "margin",
        "p_value",
    ]
    columns += ["equivalent", "p_non_inferior", "non_inferior", "n"]
    numbers = (
        "baseline",
        "contender",
        "difference",
        "ci_low",
        "ci_high",
        "p_value",
        "p_non_inferior",
    )
    return with_nullable(pd.DataFrame(rows, columns=columns), *numbers)


def check_margin(margin: float) -> None:
    if not isinstance(margin, int | float) or not math.isfinite(margin) or margin <= 0:
        raise ConfigError(
            f"margin is {margin!r}; expected a positive number, the largest difference that does "
            "not matter"
        )


def min_queries_for_margin(margin: float, alpha: float = 0.05) -> int:
    """The smallest number of queries that can show equivalence within `margin` for a measure from 0
    to 1.

    A fraction of `margin` of the questions may lose everything, and a sample of n misses all of
    them with a probability of (1 - margin) ** n.

    >>> min_queries_for_margin(0.05), min_queries_for_margin(0.02), min_queries_for_margin(1.5)
    (59, 149, 2)
    """
    return 2 if margin >= 1 else max(2, math.ceil(math.log(alpha) / math.log(1 - margin)))


def _width(measure: str, *values: Floats) -> float:
    """The largest possible difference of a measure."""
    low, high = bounds_of(measure, *values)
    return high - low


@dataclass(frozen=True, eq=False)
class WithinMargin:
    """The result of `within_margin`. `table` has one row per configuration, cheapest first:

    name, cost, mean, n, difference (from the configuration that is best on these queries, `best`),
    p_value (of being worse than any other by the margin or more), p_adjusted (Holm over the
    configurations), proven. `chosen` is the cheapest that is proven, or None. `sentence` is the
    summary.
    """

    table: pd.DataFrame
    best: str
    chosen: str | None
    sentence: str


def within_margin(
    scores_by_name: Mapping[str, pd.DataFrame],
    costs: Mapping[str, float],
    margin: float,
    *,
    measure: str,
    alpha: float = 0.05,
    word: str = "cheapest",
) -> WithinMargin:
    """The cheapest (fastest, smallest) configuration that is proven to be within `margin` of the
    best.

    The truly best one is unknown, so a configuration is proven only if it is not worse by `margin`
    or more than *each* other one: the largest of its one-sided p-values, as in `equivalent`
    (intersection-union, Berger 1982, in the manner of Hsu's 1984 comparisons with the best). That
    needs no correction; for the choice among several configurations the p-values are Holm-adjusted,
    so that the probability of any wrong proof is at most alpha. A configuration that is not proven
    may still be as good: the queries may be too few.

    Args:
        scores_by_name: name -> tidy scores of the same queries; queries that not all have scored
        are left out. costs: name -> dollars, milliseconds, chunks: less is better. Configurations
        with an unknown cost (None or NaN)
            are compared with, but not chosen.
        margin: the largest loss that does not matter, in the unit of the measure.
        measure: the measure of quality.
        alpha: accepted probability of a wrong proof.
        word: the word for the lowest cost in the sentence: "cheapest", "fastest", "smallest".

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> big, small, none = [1, 0.5, 1, 0.25, 1] * 12, [1, 0.5, 1, 0.3, 0.95] * 12, [0, 0, 0, 0, 1] * 12
    >>> runs = {"big": scores(*big), "small": scores(*small), "none": scores(*none)}
    >>> found = within_margin(runs, {"big": 9.0, "small": 1.0, "none": 0.0}, 0.1, measure="RR")
    >>> found.chosen
    'small'
    >>> found.sentence[:87]
    'The cheapest of 3 configurations proven to be within 0.1 of the best by RR is small (me'

    Raises:
        ConfigError: fewer than two configurations, one without an entry in `costs`, a margin or
        alpha out of range. ComparisonError: other queries, or none that all have scored.
    """
    check_settings(alpha)
    check_margin(margin)
    measure = measure_among(scores_by_name, measure)
    matrix = matrix_of(scores_by_name, measure)
    if lacking := [name for name in scores_by_name if name not in costs]:
        raise ConfigError(
            f"costs has no entry for {', '.join(map(repr, lacking))}; give None where it is unknown"
        )
    values = matrix.to_numpy() if higher_is_better(measure) else -matrix.to_numpy()
    n, names = len(matrix), [str(name) for name in matrix]
    best = names[int(values.mean(axis=0).round(12).argmax())]
    cost = [math.nan if pd.isna(costs[name]) else float(costs[name]) for name in names]
    width = _width(measure, matrix.to_numpy())
    pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if j != i]
    against = p_above(
        [values[:, i] - values[:, j] for i, j in pairs], [-width] * len(pairs), -margin
    )
    p_values = [
        max(p for p, (one, _) in zip(against, pairs, strict=True) if one == i)
        for i in range(len(names))
    ]
    adjusted = adjusted_p_values(p_values) if n > 1 else [math.nan] * len(names)
    table = pd.DataFrame(
        {
            "name": names,
            "cost": nullable(cost),
            "mean": matrix.mean().to_numpy(),
            "n": n,
            "difference": (matrix.mean() - matrix[best].mean()).to_numpy(),
            "p_value": nullable(p_values),
            "p_adjusted": nullable(adjusted),
            "proven": [bool(p < alpha) for p in adjusted],
        }
    ).sort_values(["cost", "name"], ignore_index=True, na_position="last")
    proven = table[table["proven"] & table["cost"].notna()]
    chosen = None if proven.empty else str(proven.iloc[0]["name"])
    fewest = (
        min_queries_for_margin(margin / width, alpha / len(names)) if math.isfinite(width) else 2
    )
    sentence = _sentence(table, chosen, best, margin, measure, word, fewest)
    return WithinMargin(table, best, chosen, sentence)


def _sentence(
    table: pd.DataFrame,
    chosen: str | None,
    best: str,
    margin: float,
    measure: str,
    word: str,
    fewest: int,
) -> str:
    rows = {row["name"]: row for row in table.to_dict("records")}
    n = rows[best]["n"]
    if chosen is not None:
        row = rows[chosen]
        return (
            f"The {word} of {len(rows)} configurations proven to be within {margin:g} of the "
            f"best by {measure} is {chosen} (mean {row['mean']:.3f}, cost {row['cost']:,.4g}): "
            f"not worse by {margin:g} or more than any other, Holm-adjusted "
            f"p {p_text(row['p_adjusted'], '= ')}, over {n} queries."
        )
    more = "take more queries, or a wider margin if it does not matter."
    if n < fewest:
        more = (
            f"a proof of this takes {fewest} queries or more, or a wider margin if it does "
            "not matter."
        )
    return (
        f"None of {len(rows)} configurations with a known cost is proven to be within {margin:g} "
        f"of the best by {measure} over {n} queries (best "
        f"mean: {best}, {rows[best]['mean']:.3f}). That does not prove them worse: {more}"
    )


def pareto_front(table: pd.DataFrame, quality: str, costs: str | Sequence[str]) -> pd.Series[bool]:
    """The rows that no other row dominates (at least as good in everything and better in
    something).

    The quality is better when higher (or lower, by `registry.higher_is_better`), every cost when
    lower. A row with an unknown quality or cost is not on the front and dominates none; of equal
    rows all are on it.

    Args:
        table: one row per configuration. quality: the column of the quality. costs: the columns of
        the costs, such as "search_ms" or ["cost_usd", "generate_ms", "chunks"].

    Returns:
        A Series of True and False with the index of `table`, named "on_front".

    >>> import pandas as pd
    >>> board = pd.DataFrame({"nDCG@10": [0.5, 0.7, 0.6, 0.7], "search_ms": [1, 9, 9, None], "chunks": [9, 9, 5, 1]})
    >>> pareto_front(board, "nDCG@10", "search_ms").tolist()
    [True, True, False, False]
    >>> pareto_front(board, "nDCG@10", ["search_ms", "chunks"]).tolist()
    [True, True, True, False]

    Raises:
        ConfigError: no cost, or a column that is not there.
        DataError: a column without numbers.
    """
    names = [costs] if isinstance(costs, str) else list(costs)
    if not names:
        raise ConfigError("costs is empty: name at least one column of what the quality costs")
    for name in (quality, *names):
        if name not in table.columns:
            raise ConfigError(unknown("column", name, map(str, table.columns)))
    try:
        columns = [
            pd.to_numeric(table[name]).to_numpy(dtype=float, na_value=np.nan)
            for name in (quality, *names)
        ]
    except (TypeError, ValueError) as exc:
        raise DataError(f"{', '.join([quality, *names])}: a column without numbers: {exc}") from exc
    if higher_is_better(quality):
        columns[0] = -columns[0]
    less = np.column_stack(columns)
    known = ~np.isnan(less).any(axis=1)
    beaten = [
        bool(np.any(known & (less <= row).all(axis=1) & (less < row).any(axis=1))) if ok else True
        for row, ok in zip(less, known, strict=True)
    ]
    return pd.Series(~np.array(beaten, dtype=bool), index=table.index, name="on_front")


MIN_HALF = 25
"""Queries that each half must have: the error of a mean over fewer is as large as the optimism to
be measured.
"""


@dataclass(frozen=True)
class HeldOut:
    """The choice on one half of the queries, and its score on the other.

    `chosen` is best on the `n_choosing` queries, with a mean of `mean_choosing` there. On the
    `n_held_out` others its mean is `mean`, with the interval `ci_low` to `ci_high`; `difference` is
    that from `runner_up` (second on the choosing half), with its interval and `p_value`. `optimism`
    is how much better the choice looks where it was chosen, averaged over both directions (choose
    on one half, measure on the other, and the reverse), so 0 where both choose the same
    (`same_choice`). With too few queries all numbers are None.
    """

    sentence: str
    n_choosing: int
    n_held_out: int
    chosen: str | None = None
    runner_up: str | None = None
    mean_choosing: float | None = None
    mean: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    p_value: float | None = None
    optimism: float | None = None
    same_choice: bool | None = None


def held_out(
    scores_by_name: Mapping[str, pd.DataFrame],
    *,
    measure: str,
    alpha: float = 0.05,
    seed: int = 0,
) -> HeldOut:
    """Choose the best configuration on a random half of the queries, and measure it on the other
    half.

    The best of many was chosen for its score, luck included, so its score on the same queries is
    too good (the winner's curse); on other queries it is unbiased. With halves of fewer than 25
    queries there is a sentence and no numbers, and no error, so that a notebook continues.

    Args:
        scores_by_name: name -> tidy scores of the same queries; queries that not all have scored
        are left out. measure: the measure to choose by. alpha: 1 minus the coverage of the
        intervals. seed: of the random halves.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> held_out({"a": scores(*[0.0, 1.0] * 10), "b": scores(*[1.0, 0.5] * 10)}, measure="RR").sentence
    'Too few queries to hold half of them out: 20 that all 2 configurations scored, and 50 are needed.'

    Raises:
        ConfigError: fewer than two configurations, a measure that is not there, a setting out of
        range. ComparisonError: the configurations do not have the same queries.
    """
    check_settings(alpha, seed=seed)
    measure = measure_among(scores_by_name, measure)
    matrix = matrix_of(scores_by_name, measure, may_be_empty=True)
    n = len(matrix)
    order = np.random.default_rng([seed, 2]).permutation(n)
    choosing, others = matrix.iloc[np.sort(order[: n // 2])], matrix.iloc[np.sort(order[n // 2 :])]
    if n < 2 * MIN_HALF:
        sentence = (
            f"Too few queries to hold half of them out: {n} that all {matrix.shape[1]} "
            f"configurations scored, and {2 * MIN_HALF} are needed."
        )
        return HeldOut(sentence, len(choosing), len(others))
    sign = 1 if higher_is_better(measure) else -1

    def ranked(half: pd.DataFrame) -> list[str]:  # ties by name
        means = {str(name): round(sign * float(mean), 12) for name, mean in half.mean().items()}
        return sorted(means, key=lambda name: (-means[name], name))

    chosen, runner_up = ranked(choosing)[:2]
    reverse = ranked(others)[0]
    tidy = {
        name: pd.DataFrame(
            {"query_id": others.index, "measure": measure, "value": others[name].to_numpy()}
        )
        for name in (chosen, runner_up)
    }
    own = summarise(tidy[chosen], alpha=alpha).iloc[0]
    pair = compare(tidy[runner_up], tidy[chosen], alpha=alpha, seed=seed).iloc[0]
    there, here = float(choosing[chosen].mean()), float(others[chosen].mean())
    optimism = (
        sign * (there - here + float(others[reverse].mean()) - float(choosing[reverse].mean())) / 2
    )
    same = reverse == chosen
    sentence = (
        f"Chosen on {len(choosing)} queries and measured on the {len(others)} others, {chosen} "
        f"has a mean {measure} of {here:.3f} [{own['ci_low']:.3f}, {own['ci_high']:.3f}] "
        f"({there:.3f} where it was chosen); against the "
        f"runner-up {runner_up} {pair['difference']:+.3f} "
        f"[{pair['ci_low']:+.3f}, {pair['ci_high']:+.3f}], p {p_text(pair['p_value'], '= ')}. "
    ) + (
        "The other half chooses the same configuration."
        if same
        else f"The other half would have chosen {reverse}: these queries do not settle which is "
        "best."
    )
    interval = (float(own["ci_low"]), float(own["ci_high"]))
    against = (
        float(pair["difference"]),
        float(pair["ci_low"]),
        float(pair["ci_high"]),
        float(pair["p_value"]),
    )
    return HeldOut(
        sentence,
        len(choosing),
        len(others),
        chosen,
        runner_up,
        there,
        here,
        *interval,
        *against,
        optimism,
        same,
    )
