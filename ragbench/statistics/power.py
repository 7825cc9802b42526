"""The power of the interval that decides: the size of a difference that a comparison can show.

For means, the interval of `compare` excludes 0 where the mean exceeds a critical one that depends on
the standard deviation of the sample and on the range of the measure (`critical_means`); mean and
deviation of a sample are taken from normal values. Without a finite range this is the power of
Student's t-test. For 0/1 values the power is exact, from the binomial distributions of the questions that
differ and of those won. Both are the expected power over the true deviations (or rates of questions
that differ) that the pilot leaves possible (Julious & Owen 2006): taken at its word, an estimate
from few pairs promises too much. tests/statistics/test_coverage.py checks this by simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragbench.array_types import Floats, Ints
from ragbench.statistics.columns import TIE, Pairs
from ragbench.statistics.gaffke import critical_means, critical_means_of
from ragbench.statistics.thresholds import ALPHA

POWER = 0.8

MAX_PAIRS = 1_000_000

_NODES = 16
_UNLIKELY = 1e-7  # numbers of differing questions with a smaller probability are left out
_MAX_EXACT = 500  # pairs of 0/1 values; with more, their mean is as good as normal


class Pilot(NamedTuple):
    """The spread of `n` observed differences, from which the power of other samples is computed.

    `deviation` is their standard deviation, `width` the largest possible difference, and `differing`
    the number of questions that differ (None unless all values are 0 or 1).
    """

    n: int
    deviation: float
    width: float
    differing: int | None = None

    @classmethod
    def of(cls, pairs: Pairs, measure: str) -> list[Pilot]:
        """Describe the pairs of a measure, for each contender."""
        n = len(pairs.ids)
        widths = pairs.largest_differences(measure)
        is_binary = pairs.is_binary()
        n_differing = np.abs(pairs.difference).sum(axis=1)  # if they are binary
        pilots = []
        for i in range(len(pairs.names)):
            differing = int(n_differing[i]) if is_binary[i] else None
            pilots.append(cls(n, float(pairs.deviations[i]), float(widths[i]), differing))
        return pilots

    def power(self, effect: float, n: int, alpha: float) -> float:
        """Compute the probability that `n` pairs with a true mean difference of `effect` lead to a
        decision, if they vary as much as the pilot's differences do.

        The pilot only estimates how much they vary, so the result is the mean power over likely
        deviations; for values of 0 and 1, over likely rates of questions that differ.

        >>> round(Pilot(10, 1.0, math.inf).power(0.5, 34, 0.05), 3)
        0.745
        >>> round(Pilot(10_000, 1.0, math.inf).power(0.5, 34, 0.05), 3), round(Pilot(10_000, 1.0, 3.0).power(0.5, 34, 0.05), 3)
        (0.808, 0.714)
        """  # noqa: E501
        if self.differing is None:  # the values are not all 0 or 1
            deviations = self.deviation / _deviation_ratios(self.n)  # likely true ones
            critical = _critical_means_of_pairs(deviations, n, alpha, self.width)
            return float(_mean_power(np.array(effect), n, deviations, critical))
        # a mean difference of values of 0 and 1 is at most the rate of questions that differ
        rates = np.maximum(_likely_rates(self.differing, self.n), effect)
        if n <= _MAX_EXACT:
            _levels, weights = _levels_and_weights()  # the rates are quantiles at these levels
            return float(weights @ _power_of_rates(rates, effect, n, alpha))
        # More pairs are computed as normal values. A squared difference is 1 for a question that
        # differs, else 0: its mean is the rate, and the variance is the rate less the squared mean.
        deviations = np.sqrt(np.maximum(rates - effect**2, 1e-12))
        critical = _critical_means_of_pairs(deviations, n, alpha, self.width)
        return float(_mean_power(np.array(effect), n, deviations, critical))

    def n_to_decide(self, difference: float, margin: float, alpha: float) -> int:
        """Compute the number of pairs that decide if difference and deviation stay as they are.

        It is the smaller of two numbers: for one, Student's t shows the difference with a probability
        of `POWER`; for the other, the safe interval shows that it is below `margin`, in the unit of the
        measure. `MAX_PAIRS` is returned if more pairs are needed.

        >>> Pilot(30, 0.2, 1.0).n_to_decide(0.05, 0.02, 0.05), Pilot(30, 0.0, 1.0).n_to_decide(0.0, 0.02, 0.05)
        (128, 149)
        """
        from scipy.special import ndtri, stdtrit

        def shows_difference(n: int) -> bool:
            # how many standard errors a difference must be from 0 to be shown with that power
            errors_needed = stdtrit(n - 1, 1 - alpha / 2) + ndtri(POWER)
            return bool(errors_needed * self.deviation / math.sqrt(n) < abs(difference))

        n = _smallest(shows_difference, MAX_PAIRS)
        if abs(difference) < margin < math.inf and math.isfinite(self.width):
            return self._n_with_half_width(margin - abs(difference), alpha, n)
        return n

    def _n_with_half_width(self, wanted: float, alpha: float, limit: int) -> int:
        """Return the smallest number of pairs whose safe 1 - alpha interval has a half width below
        `wanted`; `limit` if more pairs are needed.

        The half width is slow to compute, its lower bound `_smallest_half_width` is fast: the search
        begins at the first number for which the bound is below `wanted`.
        """

        def may_fit(n: int) -> bool:
            return self._smallest_half_width(n, alpha) < wanted

        def fits(n: int) -> bool:
            return self._half_width(n, alpha) < wanted

        first = _smallest(may_fit, limit)  # no smaller number can fit
        if first == limit or fits(first):
            return first
        # a guess from which `_smallest` needs few steps
        guess = float(first)
        for _ in range(4):  # a half width falls about as 1 / sqrt(n)
            guess *= (self._half_width(int(guess), alpha) / wanted) ** 2
            guess = min(max(guess, 2.0), limit)
        return _smallest(fits, limit, int(guess))

    def _half_width(self, n: int, alpha: float) -> float:
        """Compute the half width of the safe 1 - alpha interval of `n` pairs.

        It is the largest of three half widths: Student's and the rule of three's
        (`_smallest_half_width`), and Gaffke's. Gaffke's limit counts the largest possible loss as one
        more value (`by_whole`), or as half of one at alpha / 2 (`by_half`); the nearer limit counts.
        """
        smallest = self._smallest_half_width(n, alpha)
        if self.deviation <= TIE:
            return smallest  # of equal pairs, `by_whole` is the rule of three's half width
        # The critical mean is how far Gaffke's limit is below the mean: the half width. Its arguments
        # and results are in standard deviations.
        distance = np.array([self.width / self.deviation])  # of the largest loss below the mean
        [by_whole_in_deviations] = critical_means_of(distance, n, alpha)
        by_whole = float(by_whole_in_deviations) * self.deviation
        if by_whole <= smallest:
            return smallest
        [by_half_in_deviations] = critical_means_of(distance, n, alpha / 2, weight=0.5)
        by_half = float(by_half_in_deviations) * self.deviation
        return max(min(by_whole, by_half), smallest)

    def _smallest_half_width(self, n: int, alpha: float) -> float:
        """Compute a lower bound of `_half_width` that is fast to compute: the larger of Student's half
        width and the rule of three's.
        """
        from scipy.special import stdtrit

        rule_of_three = float(self.width * (1 - alpha ** (1 / n)))
        if self.deviation <= TIE:
            return rule_of_three
        by_student = float(stdtrit(n - 1, 1 - alpha / 2)) * self.deviation / math.sqrt(n)
        return max(rule_of_three, by_student)


def detectable(pilots: Sequence[Pilot], alpha: float = ALPHA) -> Floats:
    """Compute for each pilot the smallest true difference that is shown with a probability of `POWER` if
    as many pairs are drawn again; NaN if no difference is.

    >>> detectable([Pilot(30, 0.2, math.inf), Pilot(30, 0.2, 1.0)]).round(3)
    array([0.109, 0.144])
    """
    smallest = np.full(len(pilots), math.nan)
    groups: dict[tuple[int, float], list[int]] = {}  # n, width -> positions of pilots
    for i, pilot in enumerate(pilots):
        if pilot.n < 2:
            continue
        if pilot.differing is not None:
            smallest[i] = _detectable_rate(pilot, alpha)
        elif pilot.deviation > TIE:  # equal differences say nothing of how much others vary
            groups.setdefault((pilot.n, pilot.width), []).append(i)
    for (n, width), positions in groups.items():
        deviations = np.array([pilots[i].deviation for i in positions])
        smallest[positions] = _detectable_means(deviations, n, width, alpha)
    return smallest


def _detectable_rate(pilot: Pilot, alpha: float) -> float:
    """Return the smallest true difference of values of 0 and 1 for `detectable`."""
    from scipy.optimize import brentq

    def excess(effect: float) -> float:
        """Compute how far the power of an effect exceeds the wanted power."""
        return pilot.power(effect, pilot.n, alpha) - POWER

    if excess(1.0) < 0:  # no difference can be larger
        return math.nan
    return float(brentq(excess, 0.0, 1.0, xtol=1e-6))


def _detectable_means(deviations: Floats, n: int, width: float, alpha: float) -> Floats:
    """Return the smallest true mean difference for `detectable`, for the standard deviation of each of
    many pilots of `n` pairs (pilots,). All are searched at once.

    `width` is the largest possible difference.
    """
    from scipy.optimize.elementwise import find_root
    from scipy.special import ndtri

    true_deviations = deviations[:, None] / _deviation_ratios(n)  # likely ones (pilots, nodes)
    critical = _critical_means_of_pairs(true_deviations, n, alpha, width)

    def excess(effects: Floats, pilots: Ints) -> Floats:
        """Compute how far the power of an effect exceeds the wanted power, for each of these pilots."""
        return _mean_power(effects, n, true_deviations[pilots], critical[pilots]) - POWER

    # The effect with the wanted power, if the true deviation and the sample's were known. The smallest
    # and the largest for the likely deviations bracket the effect with the wanted mean power.
    effects_if_known = critical + ndtri(POWER) * true_deviations[:, :, None] / math.sqrt(n)
    lowest = effects_if_known.min(axis=(1, 2))
    highest = effects_if_known.max(axis=(1, 2))
    highest = np.minimum(highest, width)  # no difference can be larger
    numbers = np.arange(len(deviations))  # of the pilots
    found = find_root(excess, (lowest, highest), args=(numbers,), tolerances={"fatol": 1e-9})
    # without success not even the largest possible difference has the power
    smallest: Floats = np.where(found.success, found.x, math.nan)
    return smallest


def _smallest(holds: Callable[[int], bool], limit: int, guess: int = 0) -> int:
    """Return the smallest n from 2 on for which a condition holds; `limit` if that is larger.

    A condition that holds for n must hold for every larger number. A good `guess` saves most of the
    steps.
    """
    # the result is above `low`, and `high` at most
    low = 1
    high = limit
    step = 1
    while low < guess < high:  # walk away from the guess in growing steps, until it is bracketed
        if holds(guess):
            high = guess
            guess -= step
        else:
            low = guess
            guess += step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=1)
def _levels_and_weights() -> tuple[Floats, Floats]:
    """Compute the nodes and weights of a Gauss-Legendre quadrature over [0, 1].

    The nodes are levels of quantiles: the mean of a function of an unknown number is the sum of its
    values at these quantiles of the number, times the weights.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _likely_rates(differing: int, n: int) -> Floats:
    """Compute quantiles (nodes,) of the true rate of questions that differ, if `differing` of `n`
    in a sample did.

    They are quantiles of the beta distribution that a rate has after a sample, by Jeffreys' prior
    (half an observation more on each side).
    """
    from scipy.special import betaincinv

    levels, _ = _levels_and_weights()  # at which quantiles to take it
    rates: Floats = betaincinv(differing + 0.5, n - differing + 0.5, levels)
    return rates


@lru_cache(maxsize=1024)
def _deviation_ratios(n: int) -> Floats:
    """Compute quantiles (nodes,) of the ratio of a sample's standard deviation to the true one, for `n`
    normal values.
    """
    from scipy.special import chdtri

    levels, _ = _levels_and_weights()
    ratios: Floats = np.sqrt(chdtri(n - 1, 1 - levels) / (n - 1))
    return ratios


def _mean_power(effects: Floats, n: int, deviations: Floats, critical: Floats) -> Floats:
    """Return the mean power of `n` pairs for each true mean difference of `effects` (...,).

    The mean is over two unknown numbers: the true deviation, and the deviation that the sample
    happens to have. For each of their quantiles, the power is the probability that a normal mean
    exceeds the critical one.

    Args:
        deviations: quantiles of the true standard deviation (..., nodes).
        critical: the sample mean from which the interval excludes 0: a row per true deviation, a column
            per deviation of the sample (..., nodes, nodes).
    """
    from scipy.special import ndtr

    _, weights = _levels_and_weights()
    errors = deviations[..., None] / math.sqrt(n)
    powers = ndtr((effects[..., None, None] - critical) / errors)
    mean_powers: Floats = np.vecdot(powers @ weights, weights)
    return mean_powers


def _critical_means_of_pairs(true_deviations: Floats, n: int, alpha: float, width: float) -> Floats:
    """Compute critical means: the mean that `n` pairs must exceed for their safe 1 - alpha interval to
    exclude 0.

    The interval excludes 0 if three limits do, so the critical mean is the largest of three: Student's;
    the rule of three's, for losses that no pair of the sample shows; and Gaffke's. Gaffke's limit counts
    the largest possible loss as one more value (`by_whole`) or as half of one at alpha / 2 (`by_half`),
    of which the smaller critical mean counts. If `width`, the largest possible difference, is infinite,
    the critical mean is Student's.

    Args:
        true_deviations: (..., nodes).

    Returns:
        A row per true deviation, a column per deviation that the sample may happen to have (..., nodes,
        nodes).
    """
    from scipy.special import stdtrit

    sample_deviations = true_deviations[..., None] * _deviation_ratios(n)
    by_student: Floats = sample_deviations * stdtrit(n - 1, 1 - alpha / 2) / math.sqrt(n)
    if not math.isfinite(width):
        return by_student
    # The tables have the critical means of some ranges, both in standard deviations of the sample.
    ranges = width / sample_deviations
    by_whole = _interpolated(ranges, table=critical_means(n, alpha))
    by_half = _interpolated(ranges, table=critical_means(n, alpha / 2, weight=0.5))
    by_gaffke = sample_deviations * np.minimum(by_whole, by_half)
    rule_of_three = width * (alpha ** (-1 / n) - 1)
    critical: Floats = np.maximum(by_student, np.maximum(by_gaffke, rule_of_three))
    return critical


def _interpolated(ranges: Floats, table: tuple[Floats, Floats]) -> Floats:
    """Return the critical mean at each range, interpolated on logarithmic scales in a table of ranges and
    critical means.
    """
    known_ranges, known_means = table
    critical: Floats = np.exp(np.interp(np.log(ranges), np.log(known_ranges), np.log(known_means)))
    return critical


def _power_of_rates(rates: Floats, effect: float, n: int, alpha: float) -> Floats:
    """Compute the exact power of `n` questions scored 0 or 1, whose true mean difference is `effect`: the
    probability of a decision for the better side, for each rate of questions that differ (rates,).

    The number m of questions that differ is binomial, and so is the number of those that the better side
    wins. The power is the sum, over m, of the probability of m times the probability of enough wins.
    """
    from scipy.special import bdtrc, gammaln, xlog1py, xlogy

    rates = rates[:, None]  # a row per rate, a column per m
    m = np.arange(n + 1)
    # the probability that m of n differ (rates, m)
    log_ways = gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)
    p_of_m = np.exp(log_ways + xlogy(m, rates) + xlog1py(n - m, -rates))
    is_likely = p_of_m.max(axis=0) > _UNLIKELY
    m = m[is_likely]
    p_win = np.minimum((1 + effect / rates) / 2, 1)  # of a question that differs
    # bdtrc(k, m, p) is the probability of more than k wins of m. It is 0 for k = m, where not even m
    # wins decide.
    one_win_too_few = np.clip(_wins_that_decide(m, n, alpha) - 1, 0, m)
    p_decision = bdtrc(one_win_too_few, m, p_win)
    powers: Floats = (p_of_m[:, is_likely] * p_decision).sum(axis=1)
    return powers


def _wins_that_decide(m: Ints, n: int, alpha: float) -> Floats:
    """Return how many questions one side must win for a decision, if `m` of `n` questions differ and the
    others are ties; m + 1 if even all m are not enough. One result for each entry of `m`.

    Where both sides win a question, Tango's test decides: of w wins, its score is (w - (m - w)) / sqrt(m),
    which must exceed z, the 1 - alpha / 2 quantile of the normal distribution. So it takes more than
    (m + z sqrt(m)) / 2 wins.

    If these are not fewer than m, one side must win all m, and the p of `safe_intervals` must be below
    `alpha`: the largest of Student's p, the p of the rule of three and Gaffke's p. Gaffke's limit counts a
    loss of 1 as one more value at alpha (`by_whole`), or as half of one at alpha / 2, which doubles its p
    (`by_half`); the smaller p counts, as in `intervals._safe_lower_limits`.
    """
    from scipy.special import betainc, ndtri, stdtr

    by_tango = np.floor((m - ndtri(alpha / 2) * np.sqrt(m)) / 2) + 1
    # m values of 1 and n - m of 0 have the mean m / n and the variance m (n - m) / (n (n - 1))
    mean_in_errors = np.sqrt(m * (n - 1) / np.maximum(n - m, 1e-12))
    by_student = 2 * stdtr(n - 1, -mean_in_errors)
    # The weighted mean is at most 0 if the loss has at least half of the weight of loss and wins. This
    # fraction is Beta(1, m) distributed, or Beta(1 / 2, m) for half a loss.
    by_whole = 2.0**-m
    by_half = 2 * (1 - betainc(0.5, np.maximum(m, 1e-12), 0.5))
    by_gaffke = np.minimum(by_whole, by_half)
    rule_of_three = (1 + m / n) ** -float(n)
    all_m_decide = np.maximum.reduce([by_gaffke, rule_of_three, by_student]) < alpha
    if_all_are_needed = np.where(all_m_decide, m, m + 1)
    return np.where(by_tango < m, by_tango, if_all_are_needed)
