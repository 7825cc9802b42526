"""Bootstrap intervals and randomisation tests for many columns of numbers at once.

Resampling is a matrix product that serves many columns, and it is seeded: a column gives the same numbers regardless of
what is computed with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.floating]

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
