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

Resampling is a matrix product that serves many columns, and it is seeded: a column gives the same numbers regardless of
what is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench.statistics.columns import Floats

TIE = 1e-12
"""Values closer than this are equal: the same cosine may differ in the last bits."""

_BLOCK = 2_000_000  # numbers multiplied at once; 16 MB
_STRIP = 100_000  # numbers counted at once; they fit into the processor's cache
_AT_ONCE = 200  # columns weighted at once
_MOST_EXACT = 20  # a million combinations of signs


def bootstrap_intervals(
    columns: Sequence[Floats],
    n_resamples: int,
    alpha: float,
    seed: int,
    *,
    sizes: Sequence[Floats] | None = None,
) -> tuple[Floats, Floats]:
    """BCa bootstrap intervals of the means of `columns`; NaN for fewer than two values.

    Where values are sums over groups, `sizes` holds for each column the sizes of its groups: whole groups are drawn,
    and what is bounded is the sum of their sums over the sum of their sizes.
    """
    low, high = np.full(len(columns), math.nan), np.full(len(columns), math.nan)
    for n, members in _by_length(columns):
        if n < 2:
            continue
        block = np.column_stack([columns[member] for member in members])
        if sizes is None:
            means = _resampled_sums(block, n_resamples, seed) / n
            center, away = block.mean(axis=0), block - block.mean(axis=0)
        else:
            weights = np.column_stack([sizes[member] for member in members])
            drawn = _resampled_sums(np.column_stack([block, weights]), n_resamples, seed)
            means = drawn[:, : len(members)] / drawn[:, len(members) :]
            center = block.sum(axis=0) / weights.sum(axis=0)
            away = (block - center * weights) / (weights.sum(axis=0) - weights)
            away = away - away.mean(axis=0)
        low[members], high[members] = _bca(center, away, means, alpha)
    return low, high


def _bca(center: Floats, away: Floats, means: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Limits from bootstrap means (resamples, columns) around `center`.

    `away` (values, columns) is the change of the mean when a value is left out, up to a factor: for a plain mean the
    value's own distance from it, in place of a jackknife.
    """
    from scipy.stats import norm

    # sums of the same numbers in another order are not less, they are equal
    slack = 1e-10 * np.maximum(np.abs(away).max(axis=0) + np.abs(center), 1e-300)
    below = ((means < center - slack).sum(axis=0) + (means <= center + slack).sum(axis=0)) / (2 * len(means))
    with np.errstate(invalid="ignore", divide="ignore"):
        bias = norm.ppf(below)
        acceleration = np.nan_to_num((away**3).sum(axis=0) / (6 * (away**2).sum(axis=0) ** 1.5))
    ordered = np.sort(means, axis=0)
    still = np.abs(away).max(axis=0) <= slack
    limits: list[Floats] = []
    for level in (alpha / 2, 1 - alpha / 2):
        z = bias + norm.ppf(level)
        share = norm.cdf(bias + z / (1 - acceleration * z))
        share = np.where(np.isfinite(bias) & (acceleration * z < 1), share, level)
        # no width: exactly the reported mean, which a sum in another order may miss by a bit
        limits.append(np.where(still, center, _quantiles(ordered, share)))
    return limits[0], limits[1]


def _quantiles(ordered: Floats, share: Floats) -> Floats:
    """For each column its own quantile, interpolated between neighbours."""
    position = share * (len(ordered) - 1)
    under = np.floor(position).astype(np.int64)
    over = np.minimum(under + 1, len(ordered) - 1)
    column = np.arange(ordered.shape[1])
    limits: Floats = ordered[under, column] + (position - under) * (ordered[over, column] - ordered[under, column])
    return limits


def randomisation_p_values(differences: Sequence[Floats], n_resamples: int, seed: int) -> Floats:
    """Two-sided p of the sign-flip test for each column of differences; NaN for none."""
    p_values = np.full(len(differences), math.nan)
    sampled = []
    for member, difference in enumerate(differences):
        moving = difference[np.abs(difference) > TIE]  # flipping a zero changes nothing
        if len(difference) and is_exact(difference, n_resamples):
            signs = 1.0 - 2.0 * ((np.arange(2 ** len(moving))[:, None] >> np.arange(len(moving))) & 1)
            sums = signs @ moving
            p_values[member] = np.mean(_as_large(sums, moving.sum()))
        elif len(difference):
            sampled.append(member)
    if sampled:
        length = max(len(differences[member]) for member in sampled)
        block = np.zeros((length, len(sampled)))  # zeros below a shorter column: flipping them changes nothing
        for column, member in enumerate(sampled):
            block[: len(differences[member]), column] = differences[member]
        hits = _as_large(_flip(block, n_resamples, seed), block.sum(axis=0)).sum(axis=0)
        p_values[sampled] = (hits + 1) / (n_resamples + 1)
    return p_values


def is_exact(difference: Floats, n_resamples: int) -> bool:
    """Whether the sign-flip test of this column is by enumeration."""
    return int((np.abs(difference) > TIE).sum()) <= min(math.log2(n_resamples), _MOST_EXACT)


def _as_large(sums: Floats, observed: Floats) -> npt.NDArray[np.bool_]:
    # the same sum reached in another order must count as reached
    return np.abs(sums) >= np.abs(observed) * (1 - 1e-9) - TIE


def _flip(block: Floats, n_resamples: int, seed: int) -> Floats:
    """Sums of the columns of `block` (queries, columns) with random signs: (resamples, columns).

    Signs are drawn query by query, so that those of a column do not depend on other columns.
    """
    rng = np.random.default_rng([seed, 1])
    sums = np.zeros((n_resamples, block.shape[1]))
    step = max(1, _BLOCK // n_resamples)
    for start in range(0, len(block), step):
        rows = block[start : start + step]
        bits = rng.integers(0, 256, size=(len(rows), (n_resamples + 7) // 8), dtype=np.uint8)
        minus = np.unpackbits(bits, axis=1, count=n_resamples).astype(np.float64)
        sums += rows.sum(axis=0) - 2.0 * (minus.T @ rows)
    return sums


def _resampled_sums(block: Floats, n_resamples: int, seed: int) -> Floats:
    """Sums of the columns of `block` (queries, columns) in samples of queries with replacement: (resamples, columns).

    Samples depend on seed and number of queries only: a column gets the same ones regardless of the other columns.
    """
    n = len(block)
    rng = np.random.default_rng([seed, n])
    rows, strip = max(1, _BLOCK // n), max(1, _STRIP // n)
    sums = []
    for start in range(0, n_resamples, rows):
        times = np.empty((min(rows, n_resamples - start), n))
        for top in range(0, len(times), strip):
            part = times[top : top + strip]
            drawn = rng.integers(0, n, size=part.shape) + np.arange(len(part))[:, None] * n
            part[:] = np.bincount(drawn.ravel(), minlength=part.size).reshape(part.shape)
        sums.append(times @ block)
    return np.concatenate(sums)


def lower_limits(
    columns: Sequence[Floats], unseen: Sequence[float], alpha: float, n_resamples: int, seed: int
) -> Floats:
    """One-sided 1 - alpha lower limits of the means of `columns`, with one unseen value each (Gaffke 2005).

    The limit is the alpha quantile of a weighted mean of the n values and of `unseen`, the smallest possible
    value, with weights uniform over all that add up to 1. For values of 0 and 1 and `unseen` 0 that is the exact limit
    of Clopper and Pearson (1934).
    """
    return _from_weighted(
        columns, unseen, n_resamples, seed, lambda means: np.asarray(np.quantile(means, alpha, axis=0))
    )


def p_values_above(
    columns: Sequence[Floats], unseen: Sequence[float], bound: float, n_resamples: int, seed: int
) -> Floats:
    """One-sided p of "the mean is at most `bound`" for each column: the level at which `lower_limits` reaches it."""

    def p_value(means: Floats) -> Floats:
        p: Floats = ((means <= bound + TIE).sum(axis=0) + 1) / (len(means) + 1)
        return p

    return _from_weighted(columns, unseen, n_resamples, seed, p_value)


def _from_weighted(
    columns: Sequence[Floats],
    unseen: Sequence[float],
    n_resamples: int,
    seed: int,
    figure: Callable[[Floats], Floats],
) -> Floats:
    """`figure` of the weighted means (resamples, columns); NaN for fewer than two values, or none unseen."""
    found = np.full(len(columns), math.nan)
    for n, every in _by_length(columns):
        members = [member for member in every if n > 1 and math.isfinite(unseen[member])]
        for start in range(0, len(members), _AT_ONCE):
            some = members[start : start + _AT_ONCE]
            block = np.column_stack([np.append(unseen[member], np.sort(columns[member])) for member in some])
            rng = np.random.default_rng([seed, n, 2])
            rows = max(1, _BLOCK // (n + 1))
            means = []
            for done in range(0, n_resamples, rows):
                weights = rng.standard_exponential((min(rows, n_resamples - done), n + 1))
                means.append((weights @ block) / weights.sum(axis=1, keepdims=True))
            found[some] = figure(np.concatenate(means))
    return found


def _by_length(columns: Sequence[Floats]) -> Iterator[tuple[int, list[int]]]:
    lengths: dict[int, list[int]] = {}
    for member, column in enumerate(columns):
        lengths.setdefault(len(column), []).append(member)
    yield from lengths.items()


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
