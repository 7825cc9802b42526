"""How many queries a difference needs before anyone may hope to see it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError
from ragbench.statistics.columns import Floats, check_settings, pairs_by_measure, with_nullable
from ragbench.statistics.intervals import TIE

POWER = 0.8

MOST_QUERIES = 10_000_000
"""More than this is reported as pd.NA: the difference is out of reach."""

_NODES = 64


def required_queries(
    baseline: pd.DataFrame,
    contender: pd.DataFrame,
    effect: float,
    power: float = POWER,
    *,
    alpha: float = 0.05,
    n_tests: int = 1,
    measures: Sequence[str] | None = None,
) -> pd.DataFrame:
    """How many queries would show a true difference of `effect` with a probability of `power`, measure by measure.

    The spread of the differences is taken from the pairs at hand (a pilot), their mean is not: asking how many queries
    the *observed* difference needs only restates its p-value. The number is that of a two-sided paired t-test at
    alpha, from the noncentral t distribution (Cohen 1988, chapter 2); the randomisation test of `compare` has the same
    power within a query or two, as the tests simulate. The power is the expected one, over the true deviations that
    the pilot leaves possible (Julious & Owen 2006): a deviation estimated from few pairs is often too small, and taken
    at its word it gives a power of 0.72 with 8 pairs, 0.74 with 10 and 0.78 with 30 where 0.8 is asked for. It is never
    smaller than `fewest_queries`, with which that test can decide at all: 6 at alpha = 0.05.

    Columns:
        measure; effect: as asked; deviation: standard deviation of the differences of the pairs.
        required: the smallest number of queries; pd.NA with fewer than two pairs, beyond ten million, or
            where all pairs differ alike: a pilot without spread does not estimate that of other queries.
        detectable: the smallest true difference that the `n` pairs at hand show with this power; pd.NA likewise, and
            where the pairs are too few for any decision. The same as `mde` of `compare` where power is 0.8.
        n: pairs at hand.

    Args:
        n_tests: number of tests that p-values will be corrected for, such as the measures or configurations that are
            compared: the test is then planned at alpha / n_tests, the strictest step of Holm's correction.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": values})
    >>> before, after = scores(0, 0.5, 0.5, 1, 0, 1), scores(0.5, 0.5, 0.25, 1, 0.5, 1)
    >>> required_queries(before, after, 0.1).round(3)
      measure  effect  deviation  required  detectable  n
    0      RR     0.1      0.306       107       0.592  6

    Raises:
        ConfigError: `effect`, `power` or `alpha` out of range, or a measure that is not there.
        ComparisonError: other queries, or no measure in common.
    """
    check_settings(10_000, alpha, 0)
    if not isinstance(effect, int | float) or not math.isfinite(effect) or effect == 0:
        raise ConfigError(f"effect is {effect!r}; take the smallest difference that would matter to you, such as 0.02")
    if not isinstance(power, float) or not alpha < power < 1:
        raise ConfigError(f"power is {power!r}; take a number between alpha ({alpha}) and 1, usually 0.8")
    if not isinstance(n_tests, int) or n_tests < 1:
        raise ConfigError(f"n_tests is {n_tests!r}; take a whole number from 1")
    alpha = alpha / n_tests
    rows = []
    for measure, pair in pairs_by_measure(baseline, contender, measures).items():
        n = len(pair.difference)
        deviation = float(pair.difference.std(ddof=1)) if n > 1 else math.nan
        required = _required(abs(effect), deviation, n, alpha, power)
        rows.append((measure, effect, deviation, required, detectable(deviation, n, alpha, power), n))
    table = pd.DataFrame(rows, columns=["measure", "effect", "deviation", "required", "detectable", "n"])
    return with_nullable(table, "deviation", "detectable").astype({"required": "Int64"})


def fewest_queries(alpha: float) -> int:
    """With fewer queries the sign-flip test cannot reach p < alpha: 2 / 2**n is its smallest p.

    >>> fewest_queries(0.05), fewest_queries(0.05 / 10)
    (6, 9)
    """
    return math.floor(math.log2(2 / alpha)) + 1


def _level(alpha: float, n: int) -> float:
    """The largest p below alpha that the sign-flip test of `n` queries has, a multiple of 2 / 2**n."""
    return alpha if n > 50 else (math.ceil(alpha * 2.0 ** (n - 1)) - 1) / 2.0 ** (n - 1)


def expected_power(ratio: float, n: int, alpha: float, pilot: int) -> float:
    """Power of the t-test of `n` pairs at `ratio` times a standard deviation that `pilot` pairs have estimated.

    The mean over the true deviations: pilot / true has the distribution of sqrt(chi-square / (pilot - 1)).

    >>> round(expected_power(0.5, 34, 0.05, pilot=10), 3), round(expected_power(0.5, 34, 0.05, pilot=10_000), 3)
    (0.745, 0.808)
    """
    scales, weights = _deviations(pilot)
    return float(weights @ _powers(ratio * scales, n, alpha))


@lru_cache(maxsize=256)
def _deviations(pilot: int) -> tuple[Floats, Floats]:
    """Estimated over true deviations at the nodes of a Gauss-Legendre quadrature, and the weights of the nodes."""
    from scipy.stats import chi2

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return np.sqrt(chi2.ppf((nodes + 1) / 2, pilot - 1) / (pilot - 1)), weights / 2


def _powers(ratios: Floats, n: int, alpha: float) -> Floats:
    from scipy.stats import nct, t

    limit, shifts = t.ppf(1 - alpha / 2, n - 1), ratios * math.sqrt(n)
    with np.errstate(all="ignore"):
        above, below = nct.sf(limit, n - 1, shifts), nct.cdf(-limit, n - 1, shifts)
    # where the power is all but 1 the series of the noncentral t may break off
    powers: Floats = np.nan_to_num(above, nan=1.0) + np.nan_to_num(below, nan=0.0)
    return powers


def _required(effect: float, deviation: float, pilot: int, alpha: float, power: float) -> int | None:
    if math.isnan(deviation) or deviation <= TIE:
        return None
    ratio = effect / deviation
    low, high = fewest_queries(alpha) - 1, fewest_queries(alpha)
    while expected_power(ratio, high, _level(alpha, high), pilot) < power:
        low, high = high, 2 * high
        if high > MOST_QUERIES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if expected_power(ratio, middle, _level(alpha, middle), pilot) < power:
            low = middle
        else:
            high = middle
    return high


def detectable(deviation: float, n: int, alpha: float = 0.05, power: float = POWER) -> float:
    """The smallest true difference that `n` pairs, whose differences have this standard deviation, show.

    With this power, expected over the true deviations (see `expected_power`). NaN without spread, and with fewer pairs
    than the test can decide with.

    >>> round(detectable(0.2, 30), 3)
    0.109
    """
    if math.isnan(deviation) or deviation <= TIE or n < fewest_queries(alpha):
        return math.nan
    return deviation * _detectable_ratio(n, _level(alpha, n), power)


@lru_cache(maxsize=4096)
def _detectable_ratio(n: int, alpha: float, power: float) -> float:
    from scipy.optimize import brentq

    top = 1.0
    while expected_power(top, n, alpha, n) < power:
        top *= 2
    return float(brentq(lambda ratio: expected_power(ratio, n, alpha, n) - power, 0.0, top))
