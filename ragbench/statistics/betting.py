"""Bets against a supposed mean: intervals and tests of bounded values that are valid at any time.

A bettor stakes on each next value a part of a capital that begins at 1. Where the supposed mean is
true no bet gains on average, whatever earlier values it depends on, so that by Ville's inequality
(1939) the capital ever reaches 1 / alpha with a probability of at most alpha. What has made the
bettor rich is refuted: after each value, however often one looks, and whenever one stops.

The stakes are those of a mixture: an equal part of the capital follows each of a few constant
fractions of the largest stake that cannot ruin it (Waudby-Smith & Ramdas 2024, "Estimating means of
bounded random variables by betting", Journal of the Royal Statistical Society B 86(1), section B.4).
Such a capital is monotone in the supposed mean, so that what is refuted is an interval.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ragbench.errors import DataError
from ragbench.statistics.columns import Floats, check_alpha

STAKES = np.array([0.01, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.85, 0.97])
"""Fractions of the largest stake: small ones for differences that need thousands of values."""

_STEPS = 1000  # supposed means, from the lower bound of the values to the upper


def confidence_sequence(
    values: npt.ArrayLike,
    *,
    low: float = 0.0,
    high: float = 1.0,
    alpha: float = 0.05,
    weights: npt.ArrayLike | None = None,
    max_weight: float = 1.0,
    population: int = 0,
) -> tuple[Floats, Floats]:
    """Compute running lower and upper limits of the mean of values between `low` and `high`: with a
    probability of 1 - alpha all of them hold at once.

    The values come in the order in which they were drawn. They are independent draws, or draws
    without replacement from a `population` of so many, whose mean is then the one that is covered
    (known once all are drawn).

    Args:
        values: what was drawn, in order.
        low: the smallest possible value, known beforehand. high: the largest.
        alpha: probability that any of the limits is wrong.
        weights: of values that were not drawn uniformly, uniform over actual probability, known
            when a value is drawn; 1 on average. max_weight: the largest possible one.
        population: size of the population where one draws without replacement; 0 = independent
            draws, or one so large that it does not matter.

    >>> lower, upper = confidence_sequence([1, 1, 0, 1] * 25)
    >>> [(round(float(lower[n]), 2), round(float(upper[n]), 2)) for n in (0, 9, 99)]
    [(0.01, 1.0), (0.31, 0.99), (0.6, 0.87)]
    >>> lower, upper = confidence_sequence([1, 1, 0, 1] * 25, population=100)
    >>> round(float(lower[-1]), 2), round(float(upper[-1]), 2)
    (0.74, 0.75)

    Raises:
        DataError: a value that is not between the bounds, a weight that is not between 0 and
            `max_weight`, or more values than the population has.
    """
    check_alpha(alpha)
    drawn = np.asarray(values, dtype=float)
    width = high - low
    if not (math.isfinite(width) and width > 0):
        raise DataError(
            f"low is {low}, high is {high}; expected finite bounds, the lower one first"
        )
    if not ((drawn >= low - 1e-9) & (drawn <= high + 1e-9)).all():
        raise DataError(f"values are not all between low = {low} and high = {high}")
    weight = np.ones(len(drawn)) if weights is None else np.asarray(weights, dtype=float)
    if weight.shape != drawn.shape or not ((weight >= 0) & (weight <= max_weight)).all():
        raise DataError(
            f"weights are not one number per value, from 0 to max_weight = {max_weight}"
        )
    if population and (population < len(drawn) or weights is not None):
        raise DataError(
            f"population is {population} with {len(drawn)} values; expected at least as many, "
            "drawn without weights"
        )
    scaled = np.clip((drawn - low) / width, 0, 1)
    above = _lower_limits(scaled, weight / max_weight, alpha / 2, population)
    below = _lower_limits(1 - scaled, weight / max_weight, alpha / 2, population)
    return low + width * above, high - width * below


def _lower_limits(scaled: Floats, weight: Floats, alpha: float, population: int) -> Floats:
    """Return the largest refuted supposed mean after each value in [0, 1]; 0 where none is."""
    n, supposed = len(scaled), np.linspace(0, 1, _STEPS + 1)[None, :]
    if population:  # the mean of those that are still to be drawn
        left = population - np.arange(n)[:, None]
        drawn = np.cumsum(scaled)[:, None] - scaled[:, None]
        supposed = (population * supposed - drawn) / left
    above = np.maximum(supposed, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(scaled[:, None] > 0, scaled[:, None] / above, 0)
        gains = weight[:, None] * (ratio - 1)
        capital = sum(np.cumprod(1 + stake * gains, axis=0) for stake in STAKES) / len(STAKES)
    # a mean below 0 is impossible; 0 / 0 and infinity * 0: any value above 0 refutes a mean of 0
    capital = np.where((supposed < -1e-12) | np.isnan(capital), np.inf, capital)
    refuted = (np.maximum.accumulate(capital, axis=0) >= 1 / alpha).sum(axis=1)  # the smallest
    limits: Floats = np.maximum(refuted - 1, 0) / _STEPS
    return limits
