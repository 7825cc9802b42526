"""Intervals where resampling is off: proportions, and differences over few queries.

Measured on real per-query scores (tests/test_benchmarks_statistics.py): with 30 queries a 95 % BCa interval of a
difference covers 84 to 93 %, because a resample cannot hold a query that the sample does not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.floating]

ENOUGH_PAIRS = 100
ENOUGH_MOVING = 50
"""BCa is used from so many pairs, of which so many must differ."""


def wilson_interval(values: Floats, alpha: float) -> tuple[float, float]:
    """Interval of the mean of values that are all 0 or 1 (Wilson 1927), which never is without width.

    >>> [round(limit, 4) for limit in wilson_interval(np.array([1.0] * 81 + [0.0] * 182), 0.05)]  # Newcombe 1998
    [0.2553, 0.3662]
    """
    from statsmodels.stats.proportion import proportion_confint

    right, n = int(values.sum()), len(values)
    low, high = proportion_confint(right, n, alpha=alpha, method="wilson")
    return min(float(low), right / n), max(float(high), right / n)  # for none or all it misses 0 or 1 by a bit


def adjusted_interval(differences: Floats, alpha: float, *, binary: bool) -> tuple[float, float]:
    """Interval of a mean difference with two made-up pairs, one for either side.

    For differences of 0/1 values it is that of Bonett and Price (2012), the adjusted Wald interval for paired
    proportions: (mean of n + 2 differences, of which +1 and -1 are made up) +- z * their standard error. Other
    differences get the same with made-up ones of +-r, r the root mean square of the differences that are not 0, and
    with Student's t. The limits are widened to hold the plain mean. Differences that are all equal give no width,
    save between binary values.

    >>> [round(limit, 3) for limit in adjusted_interval(np.array([1.0] * 6 + [-1.0] + [0.0] * 23), 0.05, binary=True)]
    [-0.019, 0.332]
    """
    from scipy.stats import norm, t

    n, center = len(differences), float(differences.mean())
    if np.ptp(differences) == 0 and not binary:
        return center, center
    moving = differences[differences != 0]
    size = 1.0 if binary else math.sqrt(float((moving**2).mean()))
    shifted = float(differences.sum()) / (n + 2)
    variance = (float((differences**2).sum()) + 2 * size**2) / (n + 2) - shifted**2
    level = 1 - alpha / 2
    reach = float(norm.ppf(level) if binary else t.ppf(level, n - 1)) * math.sqrt(max(variance, 0.0) / (n + 2))
    low, high = min(shifted - reach, center), max(shifted + reach, center)
    return (max(low, -1.0), min(high, 1.0)) if binary else (low, high)
