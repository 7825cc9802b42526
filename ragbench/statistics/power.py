"""How large a difference must be before anyone may hope to see it: the power of the interval that
decides.

Of means: the interval of `compare` excludes 0 where the mean exceeds a critical one that depends on
the standard deviation of the sample and on the range of the measure (`critical_means`); mean and
deviation of a sample are those of normal values. Without a finite range that is the power of
Student's t-test. Of 0/1 values it is exact, from the binomial distributions of the questions that
differ and of those won. Both are the expected power over the true deviations (or rates of questions
that differ) that the pilot leaves possible (Julious & Owen 2006): taken at its word, an estimate
from few pairs promises too much. tests/statistics/test_coverage.py simulates what is promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragbench.statistics.columns import (
    Floats,
    Pairs,
    bounds_of,
    deviation,
)
from ragbench.statistics.intervals import TIE, critical_means, critical_means_of

POWER = 0.8

MAX_PAIRS = 1_000_000

_NODES = 16
_UNLIKELY = 1e-7
_MAX_EXACT = 500  # pairs of 0/1 values; with more, their mean is as good as normal


class Pilot(NamedTuple):
    """What `n` differences tell about others: their deviation, or for 0/1 values (`differing`) how
    many differ.

    `width` is the largest possible difference.
    """

    n: int
    deviation: float
    width: float
    differing: int | None = None

    @classmethod
    def of(cls, pair: Pairs, measure: str) -> Pilot:
        """Describe the pairs of a measure."""
        low, high = bounds_of(measure, pair.before, pair.after)
        differing = int(np.abs(pair.difference).sum()) if pair.binary else None
        return cls(len(pair.difference), deviation(pair.difference), high - low, differing)

    def power(self, effect: float, n: int, alpha: float) -> float:
        """Compute the probability that `n` pairs with a true mean difference of `effect` lead to a
        decision.

        >>> round(Pilot(10, 1.0, math.inf).power(0.5, 34, 0.05), 3)
        0.745
        >>> round(Pilot(10_000, 1.0, math.inf).power(0.5, 34, 0.05), 3), round(Pilot(10_000, 1.0, 3.0).power(0.5, 34, 0.05), 3)
        (0.808, 0.697)
        """  # noqa: E501
        from scipy.special import betaincinv, ndtr

        levels, weights = _nodes()
        if self.differing is None:
            true, critical = _critical(self.deviation, self.n, n, alpha, self.width)
        else:
            rates = np.maximum(
                betaincinv(self.differing + 0.5, self.n - self.differing + 0.5, levels), effect
            )
            if n <= _MAX_EXACT:
                return float(weights @ _power_of_rates(rates, effect, n, alpha))
            true = np.sqrt(np.maximum(rates - effect**2, 1e-12))
            critical = _critical_of(true, n, alpha, self.width)
        powers = ndtr((effect - critical) * math.sqrt(n) / true[:, None])
        return float(weights @ powers @ weights)  # over true deviations, and those of samples

    def detectable(self, alpha: float = 0.05) -> float:
        """Compute the smallest true difference that as many pairs again show with a probability of
        `POWER`; NaN where there is none.

        >>> round(Pilot(30, 0.2, math.inf).detectable(), 3), round(Pilot(30, 0.2, 1.0).detectable(), 3)
        (0.109, 0.155)
        """
        from scipy.optimize import brentq

        top = min(self.width, 100 * self.deviation) if self.differing is None else 1.0
        is_alike = self.differing is None and self.deviation <= TIE
        if self.n < 2 or is_alike or self.power(top, self.n, alpha) < POWER:
            return math.nan
        return float(
            brentq(
                lambda effect: self.power(effect, self.n, alpha) - POWER, 0.0, top, xtol=1e-6 * top
            )
        )

    def n_to_decide(self, difference: float, reach: float, alpha: float) -> int:
        """Compute how many pairs decide with a probability of `POWER` if difference and deviation
        stay as they are, by Student's t; or how many show by the safe interval that the difference
        is below `reach`, if these are fewer. At most `MAX_PAIRS`.

        >>> Pilot(30, 0.2, 1.0).n_to_decide(0.05, 0.02, 0.05), Pilot(30, 0.0, 1.0).n_to_decide(0.0, 0.02, 0.05)
        (128, 149)
        """
        from scipy.special import ndtri, stdtrit

        def shows_difference(n: int) -> bool:
            errors = stdtrit(n - 1, 1 - alpha / 2) + ndtri(POWER)
            return bool(errors * self.deviation / math.sqrt(n) < abs(difference))

        def shows_tie(n: int) -> bool:
            if self.deviation <= TIE:
                return bool(abs(difference) + self.width * (1 - alpha ** (1 / n)) < reach)
            ranges = np.array([self.width / self.deviation])
            by_gaffke = float(critical_means_of(ranges, n, alpha)[0]) * self.deviation
            by_student = float(stdtrit(n - 1, 1 - alpha / 2)) * self.deviation / math.sqrt(n)
            return bool(abs(difference) + max(by_gaffke, by_student) < reach)

        most = _first(shows_difference, MAX_PAIRS)
        if abs(difference) < reach < math.inf and math.isfinite(self.width):
            most = _first(shows_tie, most)
        return most


def _first(holds: Callable[[int], bool], most: int) -> int:
    """Return the smallest n from 2 on for which a condition holds, as for all after it; at most
    `most`.
    """
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    """Compute the nodes and weights of a Gauss-Legendre quadrature over [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=1024)
def _deviations(n: int) -> Floats:
    """Compute the deviation of `n` normal values over the true one, at the nodes of its
    distribution.
    """
    from scipy.special import chdtri

    ratios: Floats = np.sqrt(chdtri(n - 1, 1 - _nodes()[0]) / (n - 1))
    return ratios


@lru_cache(maxsize=64)
def _critical(
    deviation: float, pilot: int, n: int, alpha: float, width: float
) -> tuple[Floats, Floats]:
    """Compute the true deviations that a pilot leaves possible (rows), and the mean from which the
    interval of `n` pairs excludes 0 for each deviation of a sample (columns).
    """
    true = deviation / _deviations(pilot)
    return true, _critical_of(true, n, alpha, width)


def _critical_of(true: Floats, n: int, alpha: float, width: float) -> Floats:
    from scipy.special import stdtrit

    sample = true[:, None] * _deviations(n)
    by_student: Floats = sample * stdtrit(n - 1, 1 - alpha / 2) / math.sqrt(n)
    if not math.isfinite(width):
        return by_student
    ranges, means = critical_means(n, alpha)
    by_range = np.interp(np.log(width / sample), np.log(ranges), np.log(means))
    return np.maximum(by_student, sample * np.exp(by_range))


def _power_of_rates(rates: Floats, effect: float, n: int, alpha: float) -> Floats:
    """Compute the exact power of 0/1 differences for each rate of questions that differ.

    Of m questions that differ, one side has to win more than (m + z sqrt(m)) / 2 (Tango's test of
    no difference), or all of them where 2^-m (Gaffke's p) and Student's p are below alpha.
    """
    from scipy.special import bdtrc, gammaln, ndtri, stdtr, xlog1py, xlogy

    m = np.arange(n + 1)
    rates = rates[:, None]
    ways = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    chance = np.exp(ways + xlogy(m, rates) + xlog1py(n - m, -rates))
    m, chance = m[(likely := chance.max(axis=0) > _UNLIKELY)], chance[:, likely]
    wins = np.floor((m - ndtri(alpha / 2) * np.sqrt(m)) / 2) + 1
    ratios = np.sqrt(m * (n - 1) / np.maximum(n - m, 1e-12))
    all_won_decides = (2.0**-m < alpha) & (2 * stdtr(n - 1, -ratios) < alpha)
    wins = np.where(wins < m, wins, np.where(all_won_decides, m, m + 1))
    won = bdtrc(
        np.clip(wins - 1, 0, m), m, np.minimum((1 + effect / rates) / 2, 1)
    )  # 0 where it takes more than m
    powers: Floats = (chance * won).sum(axis=1)
    return powers
