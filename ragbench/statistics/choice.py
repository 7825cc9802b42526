"""Which configuration to choose: the cheapest within a margin, the Pareto front, held-out queries."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.errors import ConfigError
from ragbench.hints.attributes import suggesting
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import adjusted_p_values, bounds_of, matrix_of, p_text
from ragbench.statistics.gaffke import p_above
from ragbench.statistics.thresholds import ALPHA

_NEGLIGIBLE = 1e-6  # a p that proves, whatever the number of configurations


def min_queries_for_margin(margin: float, alpha: float = ALPHA) -> int:
    """Return the smallest number of queries that can prove a loss below `margin` for a measure from 0
    to 1.

    A fraction of `margin` of the questions may lose everything, and a sample of n misses all of
    them with a probability of (1 - margin) ** n.

    >>> min_queries_for_margin(0.05), min_queries_for_margin(0.02), min_queries_for_margin(1.5)
    (59, 149, 2)
    """
    if margin >= 1:
        return 2
    return max(2, math.ceil(math.log(alpha) / math.log(1 - margin)))


@suggesting()
@dataclass(frozen=True, eq=False)
class WithinMargin:
    """The result of `within_margin`. `table` has one row per configuration, cheapest first:

    name, cost, mean, n, difference (from the configuration that is best on these queries, `best`),
    p_value (of being worse than any other by the margin or more; below 1e-6 and above 0.5, where
    its size no longer matters, it may be computed from one of the strongest rivals only),
    p_adjusted (Holm over the configurations), proven. `chosen` is the cheapest that is proven, or
    None. `sentence` is the summary.
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
    word: str = "cheapest",
) -> WithinMargin:
    """Choose the cheapest (fastest, smallest) configuration that is proven to be within `margin` of
    the best.

    The truly best configuration is unknown. So a configuration is proven only if it is proven against
    *each* other one that it is not worse by `margin` or more: its p-value is the largest of the
    one-sided p-values against the others (intersection-union test, Berger 1982, as in Hsu's 1984
    comparisons with the best). The p-values are valid for any distribution, since an unseen question
    may lose as much as the measure allows (Gaffke 2005, see `ragbench.statistics.gaffke`). So a
    measure from 0 to 1 needs 59 queries for a margin of 0.05 and 149 for 0.02, even if no query
    differs. The p-values of all configurations are Holm-adjusted: the probability of any wrong proof
    is at most alpha. A configuration that is not proven may still be as good: the queries may be too
    few.

    Args:
        scores_by_name: name -> tidy scores of the same queries; queries that not all have scored
            are left out.
        costs: name -> dollars, milliseconds, chunks: less is better. Configurations with an unknown
            cost (None or NaN) are compared with, but not chosen.
        margin: the largest loss that does not matter, in the unit of the measure.
        measure: the measure of quality.
        word: the word for the lowest cost in the sentence: "cheapest", "fastest", "smallest".

    Returns:
        The choice, `chosen`, which is None if no configuration with a known cost is proven; with the
        p-values of all configurations.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> big, small, none = [1, 0.5, 1, 0.25, 1] * 12, [1, 0.5, 1, 0.3, 0.95] * 12, [0, 0, 0, 0, 1] * 12
    >>> runs = {"big": scores(*big), "small": scores(*small), "none": scores(*none)}
    >>> choice = within_margin(runs, {"big": 9.0, "small": 1.0, "none": 0.0}, 0.1, measure="RR")
    >>> choice.chosen
    'small'
    >>> choice.sentence[:87]
    'The cheapest of 3 configurations proven to be within 0.1 of the best by RR is small (me'

    Raises:
        ConfigError: fewer than two configurations, one without an entry in `costs`, a margin that
            is not above 0.
        ComparisonError: the configurations have different queries, or none that all have scored.
    """
    return prove_within_margin(scores_by_name, margin, measure=measure).cheapest(costs, word)


@dataclass(frozen=True, eq=False)
class MarginProof:
    """Which configurations are proven to be within `margin` of the best by `measure`, whatever they cost:
    `table` has the columns of `WithinMargin.table` without `cost`, in the order of the scores. `width`
    is the range of the measure.
    """

    table: pd.DataFrame
    best: str
    measure: str
    margin: float
    width: float

    def cheapest(self, costs: Mapping[str, float], word: str = "cheapest") -> WithinMargin:
        """Choose the cheapest of the configurations that are proven to be within the margin; `chosen` is
        None if there is none with a known cost.

        Args:
            costs: name -> cost; a configuration with the cost None is not chosen.
            word: what "cheapest" is called in the sentence, such as "fastest".

        Raises:
            ConfigError: a configuration has no entry in `costs`.
        """
        names = self.table["name"]
        if missing := [name for name in names if name not in costs]:
            raise ConfigError(
                f"costs has no entry for {', '.join(map(repr, missing))}; use None for an unknown "
                "cost"
            )
        table = self.table.copy()
        table.insert(1, "cost", pd.Series([costs[name] for name in names], dtype="Float64"))
        table = table.sort_values(["cost", "name"], ignore_index=True)
        proven = table[table["proven"] & table["cost"].notna()]
        if proven.empty:
            return WithinMargin(table, self.best, None, self._sentence_without_proof())
        first = proven.iloc[0]
        sentence = (
            f"The {word} of {len(table)} configurations proven to be within {self.margin:g} of "
            f"the best by {self.measure} is {first['name']} (mean {first['mean']:.3f}, cost "
            f"{first['cost']:,.4g}): not worse by {self.margin:g} or more than any other, "
            f"Holm-adjusted p {p_text(first['p_adjusted'], '= ')}, over {first['n']} queries."
        )
        return WithinMargin(table, self.best, str(first["name"]), sentence)

    def _sentence_without_proof(self) -> str:
        """Return the sentence for a table in which no configuration is proven; if there are too few queries
        for any proof, it states how many a proof takes.
        """
        n = int(self.table["n"].iloc[0])
        best_mean = self.table.set_index("name")["mean"][self.best]
        sentence = (
            f"None of {len(self.table)} configurations with a known cost is proven to be within "
            f"{self.margin:g} of the best by {self.measure} over {n} queries (best mean: {self.best}, "
            f"{best_mean:.3f}). That does not prove them worse"
        )
        min_n = self._min_queries()
        if n >= min_n:
            return f"{sentence}."
        return f"{sentence}: fewer than {min_n} queries cannot prove a margin of {self.margin:g}."

    def _min_queries(self) -> int:
        """Return the smallest number of queries that can prove one of these configurations to be within
        the margin; 2 for a measure without bounds, for which no greater number is known to be too few.
        """
        if self.width == math.inf:
            return 2
        # Holm's correction tests the smallest p-value at the level of all tests, divided by their number
        alpha = ALPHA / len(self.table)
        return min_queries_for_margin(self.margin / self.width, alpha)


def prove_within_margin(
    scores_by_name: Mapping[str, pd.DataFrame], margin: float, *, measure: str
) -> MarginProof:
    """Prove which configurations are within `margin` of the best, see `within_margin`; one proof serves
    the choices by several costs.

    Raises:
        ConfigError: fewer than two configurations, or a margin that is not above 0.
        ComparisonError: the configurations have different queries, or none that all have scored.
    """
    if not 0 < margin < math.inf:
        raise ConfigError(
            f"margin is {margin!r}; expected a positive number, the largest difference that does "
            "not matter"
        )
    measure, matrix = matrix_of(scores_by_name, measure)
    values = matrix.to_numpy()
    lowest, highest = bounds_of(measure, values.ravel())
    width = highest - lowest
    if not higher_is_better(measure):
        values = -values
    names = [str(name) for name in matrix]
    best = names[int(values.mean(axis=0).round(12).argmax())]  # the first of equal ones
    p_values = _p_of_worse(values, margin, width)
    adjusted = adjusted_p_values(p_values)
    table = pd.DataFrame(
        {
            "name": names,
            "mean": matrix.mean().to_numpy(),
            "n": len(matrix),
            "difference": (matrix.mean() - matrix[best].mean()).to_numpy(),
            "p_value": p_values,
            "p_adjusted": adjusted,
            "proven": adjusted < ALPHA,
        }
    ).astype(dict.fromkeys(["p_value", "p_adjusted"], "Float64"))
    return MarginProof(table, best, measure, margin, width)


def _p_of_worse(values: Floats, margin: float, width: float) -> Floats:
    """Return for each configuration the p of "it is worse than some other by `margin` or more": the
    largest p over its rivals, the other configurations. NaN below two queries.

    The p against one rival is slow to compute, and there are many. So a configuration is compared
    first with the rival that is furthest ahead in standard errors, and then only with rivals whose p may
    be larger, by an upper bound (`_largest_possible_p`). No more rivals are tried once p is above 0.5,
    which proves nothing, or if no rival can bring it above 1e-6, which proves everything. With an
    infinite `width` p depends on standard errors alone, so the first rival is enough.

    Args:
        values: (queries, configurations), higher is better.
        width: the largest possible difference of two values.
    """
    n, n_columns = values.shape
    if n < 2:
        return np.full(n_columns, math.nan)
    # The matrices have a row for each configuration and a column for each rival. A lead is the
    # difference plus the margin, so that a positive lead means "not worse by the margin". A difference
    # is at least -width, so a lead is at least margin - width.
    means = values.mean(axis=0)
    lead = np.subtract.outer(means, means) + margin
    variance = _variance_of_differences(values)
    lead_in_errors = lead / np.sqrt(np.maximum(variance, 1e-300))
    if math.isfinite(width):
        possible_p = _largest_possible_p(lead, variance, loss=width - margin, n=n)
    else:
        lead_in_errors[variance == 0] = -math.inf  # equal differences: p is 1
        possible_p = np.zeros_like(lead)  # no further rival is tried
    np.fill_diagonal(lead_in_errors, math.inf)  # no configuration is its own rival
    np.fill_diagonal(possible_p, 0)
    largest_p = np.zeros(n_columns)
    columns = np.arange(n_columns)
    rivals = lead_in_errors.argmin(axis=1)
    while len(columns):  # each step tries one more rival of the columns that need it
        differences = [
            values[:, column] - values[:, rival]
            for column, rival in zip(columns, rivals, strict=True)
        ]
        # p of "the mean difference is at most -margin", which is "the mean lead is at most 0"
        p_values = p_above(differences, unseen=[-width] * len(columns), bound=-margin)
        largest_p[columns] = np.maximum(largest_p[columns], p_values)
        possible_p[columns, rivals] = 0  # this rival is not tried again
        may_be_larger = possible_p.max(axis=1) > np.maximum(largest_p, _NEGLIGIBLE)
        proves_nothing = largest_p >= 0.5
        columns = np.flatnonzero(may_be_larger & ~proves_nothing)
        rivals = possible_p[columns].argmax(axis=1)
    return largest_p


def _variance_of_differences(values: Floats) -> Floats:
    """Return the variance of the difference of every two columns (columns, columns); exactly 0 for
    columns that differ by a constant.
    """
    covariance = np.cov(values, rowvar=False)
    variances = np.diag(covariance)
    sums = np.add.outer(variances, variances)
    variance: Floats = sums - 2 * covariance
    variance[variance <= 1e-12 * sums] = 0  # what rounding leaves
    return variance


def _largest_possible_p(mean: Floats, variance: Floats, loss: float, n: int) -> Floats:
    """Return an upper bound of Gaffke's p of "the mean is at most 0", from the mean and the variance of
    `n` values alone; 1 where the mean is not above 0.

    No value is below -`loss`, and Gaffke's p counts one more value than was observed, -`loss` itself.
    By Chernoff's bound p is at most exp(-sum(log(1 + s x))) over all these values x, for every s. Among
    all values with this mean and variance, the sum is smallest if each value is -`loss` or one other
    number (as in Bennett 1962). For two numbers the best s is known, as for a binomial distribution.
    """
    if loss <= 0:
        return np.zeros_like(mean)
    variance = variance * (n - 1) / n  # the mean square of the n deviations
    # the two numbers with this mean and variance, -loss and `other`, and how often each occurs
    mean_above_loss = np.maximum(mean, 0) + loss
    fraction_lost = variance / (variance + mean_above_loss**2)
    other = mean_above_loss + variance / mean_above_loss - loss
    n_lost = n * fraction_lost + 1  # with the unseen value
    n_other = n * (1 - fraction_lost)
    # The sum of log(1 + s x) is largest for
    #     s = (n_other * other - n_lost * loss) / (loss * other * (n + 1)),
    # where its derivative is 0. There 1 - s * loss and 1 + s * other are the arguments of the logarithms.
    with np.errstate(divide="ignore", invalid="ignore"):
        sum_of_lost = n_lost * np.log(n_lost * (loss + other) / (other * (n + 1)))
        sum_of_other = n_other * np.log(n_other * (loss + other) / (loss * (n + 1)))
        bound = np.exp(-(sum_of_lost + sum_of_other))
    # the mean is positive, also with the unseen value (and so is s)
    has_positive_mean = (mean > 0) & (n_other * other > n_lost * loss)
    return np.where(has_positive_mean, bound, 1.0)
