"""Proofs that a difference is small: equivalence, and the cheapest configuration within a margin of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import ConfigError
from ragbench.registry import higher_is_better
from ragbench.statistics.adjusting import adjusted_p_values
from ragbench.statistics.columns import check_settings, mean, nullable
from ragbench.statistics.pairing import chosen_measures, matrix_of, paired, tables_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Floats = npt.NDArray[np.floating]


def equivalent(
    baseline: pd.DataFrame,
    contender: pd.DataFrame,
    margin: float,
    *,
    measures: Sequence[str] | None = None,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Is the contender equal to the baseline, up to `margin`? Two one-sided paired t-tests (TOST, Schuirmann 1987).

    A difference that is "not significant" may be large and badly measured; equality has to be proven by an interval
    that fits inside the margin. The margin is what you would not notice; choose it before you look.

    Columns:
        measure; baseline, contender, difference: means over the pairs, contender - baseline.
        ci_low, ci_high: 1 - 2 alpha interval (Student's t): inside +-margin exactly where the test says "equivalent".
        margin; p_value: the larger of the two one-sided p-values, of "at least margin below" and "at least margin
            above". Differences without any spread give 0 inside the margin, else 1.
        equivalent: p_value < alpha.
        p_non_inferior, non_inferior: the one test that matters when replacing the baseline: not worse by margin or
            more, in the direction of the measure (`registry.higher_is_better`).
        n: pairs used; below two there is no test, p-values are pd.NA and nothing is proven.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> before, after = scores(0, 0.5, 0.5, 1, 0.25, 1), scores(0, 0.5, 0.45, 1, 0.3, 0.95)
    >>> equivalent(before, after, 0.05)[["difference", "ci_low", "ci_high", "p_value", "equivalent"]].round(3)
       difference  ci_low  ci_high  p_value  equivalent
    0      -0.008  -0.039    0.023    0.021        True

    Raises:
        ConfigError: margin or alpha out of range, or a measure that is not there.
        ComparisonError: other queries, or no measure in common.
    """
    import pandas as pd
    from scipy.stats import t

    check_settings(10_000, alpha, 0)
    check_margin(margin)
    tables = tables_of({"baseline": baseline, "contender": contender})
    rows = []
    for measure in chosen_measures(tables, measures, "baseline"):
        pairs = paired(tables, "baseline", "contender", measure)
        d, n = pairs.difference, len(pairs.before)
        not_below, not_above = p_above(d, -margin), p_above(-d, -margin)
        reach = float(t.ppf(1 - alpha, n - 1) * d.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
        p, p_one = max(not_below, not_above), not_below if higher_is_better(measure) else not_above
        if n < 2:
            p = p_one = math.nan
        center = mean(d)
        means = (mean(pairs.before), mean(pairs.after), center, center - reach, center + reach)
        rows.append((measure, *means, margin, p, p < alpha, p_one, p_one < alpha, n))
    columns = ["measure", "baseline", "contender", "difference", "ci_low", "ci_high", "margin", "p_value"]
    columns += ["equivalent", "p_non_inferior", "non_inferior", "n"]
    table = pd.DataFrame(rows, columns=columns)
    for name in ("baseline", "contender", "difference", "ci_low", "ci_high", "p_value", "p_non_inferior"):
        table[name] = nullable(table[name].to_numpy(dtype=float))
    return table


def check_margin(margin: float) -> None:
    if not isinstance(margin, int | float) or not math.isfinite(margin) or margin <= 0:
        raise ConfigError(f"margin is {margin!r}; take a positive number, the difference you would not notice")


def p_above(differences: Floats, bound: float) -> float:
    """One-sided p of "the mean is at most `bound`": Student's t; 0 or 1 where there is no spread, NaN below two."""
    from scipy.stats import t

    n = len(differences)
    if n < 2:
        return math.nan
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    away = float(differences.mean()) - bound
    if error <= 1e-15:
        return 0.0 if away > 1e-12 else 1.0
    return float(t.sf(away / error, n - 1))


@dataclass(frozen=True, eq=False)
class WithinMargin:
    """What `within_margin` found. `table` has one row per configuration, cheapest first:

    name, cost, mean, n, difference (from the configuration that is best on these queries, `best`), p_value (of being
    worse than any other by the margin or more), p_adjusted (Holm over the configurations), proven. `chosen` is the
    cheapest that is proven, or None. `sentence` says it in words.
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
    """The cheapest (fastest, smallest) configuration that is proven to be within `margin` of the best.

    Which one is truly best is not known, so a configuration is proven only if it is not worse by `margin` or more than
    *each* other one: the largest of its one-sided paired t-test p-values (intersection-union, Berger 1982, in the
    manner of Hsu's 1984 comparisons with the best). No correction is due for that; for the choice among several
    configurations the p-values are Holm-adjusted, so that the chance of a wrong proof anywhere is at most alpha. A
    configuration that is not proven is not thereby worse: the queries may be too few.

    Args:
        scores_by_name: name -> tidy scores of the same queries; queries that not all have scored are left out.
        costs: name -> dollars, milliseconds, chunks: less is better. Configurations with an unknown cost (None or NaN)
            are compared with, but not chosen.
        margin: the loss that you would not notice, in the unit of the measure.
        measure: what "best" means.
        alpha: chance of a wrong proof that you accept.
        word: what least cost is called in the sentence: "cheapest", "fastest", "smallest".

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> runs = {"big": scores(1, 0.5, 1, 0.25, 1), "small": scores(1, 0.5, 1, 0.3, 0.95), "none": scores(0, 0, 0, 0, 1)}
    >>> found = within_margin(runs, {"big": 9.0, "small": 1.0, "none": 0.0}, 0.1, measure="RR")
    >>> found.chosen
    'small'
    >>> found.sentence[:87]
    'The cheapest of 3 configurations proven to be within 0.1 of the best by RR is small (me'

    Raises:
        ConfigError: fewer than two configurations, one without an entry in `costs`, a margin or alpha out of range.
        ComparisonError: other queries, or none that all have scored.
    """
    import pandas as pd

    check_settings(10_000, alpha, 0)
    check_margin(margin)
    matrix = matrix_of(scores_by_name, measure)
    if lacking := [name for name in scores_by_name if name not in costs]:
        raise ConfigError(f"costs has no entry for {', '.join(map(repr, lacking))}; give None where it is unknown")
    values = matrix.to_numpy() if higher_is_better(measure) else -matrix.to_numpy()
    n, names = len(matrix), [str(name) for name in matrix]
    best = names[int(values.mean(axis=0).round(12).argmax())]
    cost = [math.nan if pd.isna(costs[name]) else float(costs[name]) for name in names]
    p_values = [
        max(p_above(values[:, i] - values[:, j], -margin) for j in range(len(names)) if j != i)
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
    said = _sentence(table, chosen, best, margin, measure, word)
    return WithinMargin(table, best, chosen, said)


def _sentence(table: pd.DataFrame, chosen: str | None, best: str, margin: float, measure: str, word: str) -> str:
    rows = {row["name"]: row for row in table.to_dict("records")}
    n = rows[best]["n"]
    if chosen is not None:
        row = rows[chosen]
        return (
            f"The {word} of {len(rows)} configurations proven to be within {margin:g} of the best by {measure} is "
            f"{chosen} (mean {row['mean']:.3f}, cost {row['cost']:,.4g}): not worse by {margin:g} or more than any "
            f"other, Holm-adjusted p = {row['p_adjusted']:.4f}, over {n} queries."
        )
    return (
        f"None of {len(rows)} configurations with a known cost is proven to be within {margin:g} of the best by "
        f"{measure} over {n} queries (best mean: {best}, {rows[best]['mean']:.3f}). That does not prove them worse: "
        "take more queries, or a wider margin if you would not notice it."
    )
