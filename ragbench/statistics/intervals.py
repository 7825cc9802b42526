"""Intervals of means and of mean differences: one family for few and many questions, graded and 0/1 measures.

- At least 100 values of which 50 move, not heavily skewed: BCa bootstrap (Efron 1987).
- Else Gaffke's (2005) limits: a bootstrap to which each side adds one value that was not seen. With fewer values BCa
  covers too little (measured: 84 to 93 % at 30 questions), because a resample cannot hold a question that the sample
  does not; and where all values are alike it has no width, though other questions may differ.

How bad is the unseen value? For a *proof* (`equivalent`, `within_margin`) as bad as the measure allows: a question may
lose everything. Then an error rate of alpha holds for any distribution (Learned-Miller & Thomas 2019). For an
*estimate* of a graded measure that would be twice as wide as need be, so that the unseen value lies 1 + (10 / n)**2
times as far from the mean as the farthest that was seen, within the bounds; but at the bounds where all values are
equal, and for values of 0 and 1 only. For 0/1 values these limits are those of Clopper and Pearson (1934), and for a
paired difference of 0/1 values they exclude 0 exactly where McNemar's exact test does.

tests/statistics/test_coverage.py simulates the coverage (`pytest -m simulation -s`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragbench.statistics.resampling import TIE, bootstrap_intervals, lower_limits

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.floating]

ENOUGH_PAIRS = 100
ENOUGH_MOVING = 50
"""BCa is used from this many values, of which this many must differ from the most common one."""

_JUST = 1e-6  # how far beyond 0 a limit is put that a test has shown to be beyond it: no printed digit


class Bounds(NamedTuple):
    """The smallest and the largest possible value; infinite where unknown."""

    low: float
    high: float


def wilson_interval(values: Floats, alpha: float) -> tuple[float, float]:
    """Interval of the mean of values that are all 0 or 1 (Wilson 1927), which always has a width.

    >>> [round(limit, 4) for limit in wilson_interval(np.array([1.0] * 81 + [0.0] * 182), 0.05)]  # Newcombe 1998
    [0.2553, 0.3662]
    """
    from statsmodels.stats.proportion import proportion_confint

    right, n = int(values.sum()), len(values)
    low, high = proportion_confint(right, n, alpha=alpha, method="wilson")
    return min(float(low), right / n), max(float(high), right / n)  # for none or all it misses 0 or 1 by a bit


def mean_intervals(
    columns: Sequence[Floats], bounds: Sequence[Bounds], alpha: float, *, n_resamples: int, seed: int
) -> tuple[Floats, Floats, list[str]]:
    """1 - alpha intervals of the means of `columns`: lower limits, upper limits, and their kinds (see the module).

    NaN and "none" for fewer than two values, and for values that are all equal where no bounds are known.
    """
    low, high = np.full(len(columns), math.nan), np.full(len(columns), math.nan)
    kinds = ["none" if len(column) < 2 else "BCa" if _many(column) else "Gaffke" for column in columns]
    many = [row for row, kind in enumerate(kinds) if kind == "BCa"]
    few = [row for row, kind in enumerate(kinds) if kind == "Gaffke"]
    low[many], high[many] = bootstrap_intervals([columns[row] for row in many], n_resamples, alpha, seed)
    unseen = [plausible(columns[row], bounds[row]) for row in few]
    low[few], high[few] = bounded_intervals([columns[row] for row in few], unseen, alpha, n_resamples, seed)
    for row in few:
        if math.isnan(low[row]):
            kinds[row] = "none"
    return low, high, kinds


def bounded_intervals(
    columns: Sequence[Floats], unseen: Sequence[Bounds], alpha: float, n_resamples: int = 10_000, seed: int = 0
) -> tuple[Floats, Floats]:
    """Gaffke's 1 - alpha intervals, with one unseen value for either side; NaN where that is not finite.

    Of 30 questions none differs: the difference may yet be 0.11, were an unseen question to gain or to lose all.

    >>> [round(float(limit[0]), 2) for limit in bounded_intervals([np.zeros(30)], [Bounds(-1, 1)], 0.05)]
    [-0.11, 0.11]
    """
    below = lower_limits(columns, [side.low for side in unseen], alpha / 2, n_resamples, seed)
    above = -lower_limits(
        [-column for column in columns], [-side.high for side in unseen], alpha / 2, n_resamples, seed
    )
    finite = np.isfinite(below) & np.isfinite(above)
    means = np.array([column.mean() if len(column) else math.nan for column in columns])
    return np.where(finite, np.minimum(below, means), math.nan), np.where(finite, np.maximum(above, means), math.nan)


def plausible(values: Floats, bounds: Bounds) -> Bounds:
    """The unseen values of an estimate, see the module."""
    if _no_spread(values) or np.isin(values, (-1.0, 0.0, 1.0)).all():
        return Bounds(min(bounds.low, float(values.min())), max(bounds.high, float(values.max())))
    center = float(values.mean())
    reach = (1 + (10 / len(values)) ** 2) * float(np.abs(values - center).max())
    return Bounds(max(bounds.low, center - reach), min(bounds.high, center + reach))


def decided(low: Floats, high: Floats, centers: Floats, p_values: Floats, alpha: float) -> tuple[Floats, Floats]:
    """The intervals, made to exclude 0 exactly where the test does (p < alpha).

    Where it does not, the interval is widened to hold 0. Where it does, a limit at or beyond 0 is put just before it,
    which costs no more errors than the test makes.
    """
    open_, up = p_values >= alpha, centers > 0
    just = np.minimum(_JUST, np.abs(centers))
    with np.errstate(invalid="ignore"):
        low = np.where(open_, np.minimum(low, 0.0), np.where(up, np.maximum(low, just), low))
        high = np.where(open_, np.maximum(high, 0.0), np.where(up, high, np.minimum(high, -just)))
    return low, high


def skewness_note(differences: Floats) -> str:
    """The problem of a test and an interval with differences of this distribution; "" where there is none.

    >>> skewness_note(np.array([-0.05] * 29 + [0.95]))[:44]
    'heavily skewed: few questions differ by much'
    """
    moving = differences[np.abs(differences) > TIE]
    if len(moving) < 6 or np.isin(differences, (-1.0, 0.0, 1.0)).all():
        return ""
    if _no_spread(differences) and len(differences) < ENOUGH_PAIRS:
        return (
            "all equal, so those of other questions are unknown; p means that the sign is the same each "
            "time, not that rare questions cannot turn the mean around"
        )
    if not _skewed(moving):
        return ""
    return (
        "heavily skewed: few questions differ by much, the others by little, so the mean hangs on how many of the few "
        "were drawn; p and interval may err more often than they promise: take more questions"
    )


def _many(values: Floats) -> bool:
    moving = int((np.abs(values - np.median(values)) > TIE).sum())
    return len(values) >= ENOUGH_PAIRS and moving >= ENOUGH_MOVING and not _skewed(values)


def _skewed(values: Floats) -> bool:
    """Whether so few values of such skewness leave the mean far from normal: beyond 2, and beyond 0.2 * sqrt(n)."""
    if _no_spread(values):
        return False
    away = (values - values.mean()) / values.std()
    skewness = float((away**3).mean())
    return bool(abs(skewness) > max(2.0, 0.2 * math.sqrt(len(values))))


def _no_spread(values: Floats) -> bool:
    return float(np.ptp(values)) <= TIE
