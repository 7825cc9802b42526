"""Gaffke's (2005) limits of a mean, which hold for every distribution within a measure's range.

The lower limit is a quantile of a weighted mean of the values and of one unseen value, the smallest that
the measure allows, with weights uniform over all that add up to 1: a question that was not drawn may lose
everything. Learned-Miller & Thomas 2019 ("A new confidence interval for the mean of a bounded random
variable") discuss its validity; tests/statistics/test_coverage.py simulates it. For values of 0 and 1 these
are the limits of Clopper & Pearson (1934).

The weighted mean is a ratio of sums of exponential variables; its distribution is computed by the
saddlepoint formula of Lugannani & Rice (1980, "Saddle point approximation for the distribution of
the sum of independent random variables"), which needs no random numbers and is on the safe side:
for values of 0 and 1 its p is 0 to 8 % above the exact one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragbench.array_types import Bools, Floats
from ragbench.statistics.columns import TIE, blocks_of_rows, deviation

_MAX_STEPS = 55  # of the search for a pole
_TOLERANCE_OF_MEAN = 1e-14
_TOLERANCE_OF_NORMAL_SCORE = 1e-12
_CLOSED = 1e-13  # the width of a bracket whose ends count as equal
_SCORES = 300  # normal scores that represent a larger sample
# logarithms of the distance of the pole, in ranges of the values
_NEAREST = -30.0  # here p is all but 0
_FARTHEST = 5.0  # here p is all but 1 / 2


def lower_limits(
    columns: Sequence[Floats],
    unseen: Sequence[float] | Floats,
    level: float,
    *,
    weight: float = 1.0,
) -> Floats:
    """Compute the one-sided 1 - level lower limit of the mean of each column.

    The limit is Gaffke's (2005), which holds for every distribution: `unseen`, the smallest possible
    value of the column, counts as `weight` more observations. A column whose `unseen` is infinite has
    Student's limit. The limit is NaN for fewer than two values, and for equal values with an infinite
    `unseen`.
    """
    from scipy.special import stdtrit

    def by_gaffke(points: Floats) -> Floats:
        quantiles = _quantiles(points, _occurrences(points, weight), level)
        observed_means = points[1:].mean(axis=0)  # the first row has the unseen values
        limits: Floats = np.minimum(quantiles, observed_means)
        return limits

    def by_student(mean: float, error: float, degrees_of_freedom: int) -> float:
        if error <= TIE:
            return math.nan
        return float(mean + stdtrit(degrees_of_freedom, level) * error)

    return _by_gaffke_or_student(columns, unseen, by_gaffke, by_student)


def p_above(
    columns: Sequence[Floats],
    unseen: Sequence[float] | Floats,
    bound: float,
    *,
    weight: float = 1.0,
) -> Floats:
    """Compute the one-sided p of "the mean is at most `bound`" for each column.

    It is the level at which the column's lower limit is `bound`; `unseen` and `weight` are the same as of
    `lower_limits`. NaN below two values.

    >>> p_above([np.array([1.0] * 9 + [0.0])], [0.0], 0.5).round(4)  # exact, by the binomial distribution: 0.0107
    array([0.0108])
    """
    from scipy.special import stdtr

    def by_gaffke(points: Floats) -> Floats:
        return probability_below(points, bound, _occurrences(points, weight))

    def by_student(mean: float, error: float, degrees_of_freedom: int) -> float:
        if error <= TIE:
            return 1.0
        return float(stdtr(degrees_of_freedom, (bound - mean) / error))

    return _by_gaffke_or_student(columns, unseen, by_gaffke, by_student)


def probability_below(points: Floats, bound: float, times: Floats | float = 1.0) -> Floats:
    """Compute the probability that a random weighted mean of the points is at most `bound`, for each
    column of points. All weights that add up to 1 are equally likely.

    `times` is the number of occurrences of each point: a number, or an array (points, 1). The result
    is 0 for a bound below all points, and 1 for a bound above all.
    """
    times = times * np.ones_like(points[:, :1])
    means = (times * points).sum(axis=0) / times.sum()
    # `_p_below` needs a bound below the mean: for another one, points and bound change their sign
    is_below_mean = bound < means
    mirrored = np.where(is_below_mean, points, -points)
    mirrored_bound = np.where(is_below_mean, bound, -bound)
    mirrored_means = np.where(is_below_mean, means, -means)
    smallest = mirrored.min(axis=0)
    is_between_points = (smallest < mirrored_bound) & (mirrored_bound < mirrored.max(axis=0))
    # `_p_below` needs a bound between the points, too: elsewhere any will do, and p is set to 0
    any_bound = (smallest + mirrored_means) / 2
    p = _p_below(mirrored, times, np.where(is_between_points, mirrored_bound, any_bound))
    p = np.where(is_between_points, p, 0.0)
    return np.where(is_below_mean, p, 1 - p)


def _occurrences(points: Floats, weight: float) -> Floats:
    """Return how often each point occurs: the first, the unseen one, `weight` times."""
    times = np.ones_like(points[:, :1])
    times[0] = weight
    return times


@lru_cache(maxsize=256)
def critical_means(n: int, level: float, weight: float = 1.0) -> tuple[Floats, Floats]:
    """Compute the mean that `n` normal values must exceed for Gaffke's lower limit to be above 0, as a
    table for many ranges (the largest loss that a measure allows).

    Gaffke's 1 - level limit counts the largest loss as `weight` more observations.

    Returns:
        The ranges, ascending, and the mean for each, both in standard deviations of the values.
    """
    distances = np.geomspace(1.2, 2000, 40)  # of the largest loss below the mean
    means = critical_means_of(distances, n, level, weight)
    return distances - means, means  # a range is the distance of the largest loss below 0


def critical_means_of(distances: Floats, n: int, level: float, weight: float = 1.0) -> Floats:
    """Compute the mean that `n` normal values must exceed for Gaffke's lower limit to be above 0.

    Gaffke's 1 - level limit counts an unseen value, the largest possible loss, as `weight` more
    observations. All numbers are in standard deviations of the values.

    Args:
        distances: how far the unseen value is below the mean of the values; there is a result for each
            of these distances.
    """
    from scipy.special import ndtri

    n_scores = min(n, _SCORES)
    # quantiles of the normal distribution represent a sample: its mean is 0, its deviation (with n - 1
    # in the denominator) 1
    scores = ndtri((np.arange(n_scores) + 0.5) / n_scores)
    scores = (scores - scores.mean()) / math.sqrt((scores**2).mean() * n / (n - 1))
    points = np.vstack([-distances, np.repeat(scores[:, None], len(distances), axis=1)])
    times = np.full(len(points), n / n_scores)  # how many of the `n` values a score represents
    times[0] = weight
    limits_of_mean_0 = _quantiles(points, times[:, None], level)
    # if all points are c higher, so is the limit: it is 0 for c = -limit
    return -limits_of_mean_0


def _quantiles(points: Floats, times: Floats, level: float) -> Floats:
    """Return the `level` quantile of each column's random weighted mean (see `_lower_tails`)."""
    quantiles, _probabilities = _lower_tails(points, times, level=level)
    return quantiles


def _p_below(points: Floats, times: Floats, bounds: Floats) -> Floats:
    """Return the probability that each column's random weighted mean is below its bound (see
    `_lower_tails`). A bound must be between the smallest point and the mean of its column.
    """
    _ends, probabilities = _lower_tails(points, times, bounds=bounds)
    return probabilities


def _lower_tails(
    points: Floats, times: Floats, *, level: float | None = None, bounds: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Find a lower tail of the distribution of each column's random weighted mean: where it ends, and
    its probability. All weights that add up to 1 are equally likely.

    Both numbers follow from one number below all points, the pole (saddlepoint approximation): N points
    x (N is the sum of `times`) have weights w in proportion to 1 / (x - pole), the tail ends at the mean
    pole + N / sum(1 / (x - pole)), and its probability is `_tail_probability` of N w - 1. So the pole of
    each column is searched: as the logarithm of its depth below the smallest point, in spans of the
    points. All columns are searched at once; a column whose pole is found drops out. What is not found
    in `_MAX_STEPS` steps is returned as it is.

    Why a pole: random weights are exponential variables g divided by their sum, so that "the mean is at
    most b" is sum(g (x - b)) <= 0. The saddlepoint t < 0 of this sum solves
    sum((x - b) / (1 - t (x - b))) = 0. With pole = b + 1 / t, this is b = pole + N / sum(1 / (x - pole)),
    and 1 / (1 - t (x - b)) is N w.

    Args:
        points: (points, columns).
        times: the number of occurrences of each point (points, 1).
        level: the wanted probability of each tail, below about 1 / 2; None if `bounds` has the wanted ends.
        bounds: the wanted end of each column's tail; not used with a `level`.

    Returns:
        The ends and the probabilities of the tails (columns,).
    """
    from scipy.special import ndtri

    smallest = points.min(axis=0)
    heights = points - smallest
    spans = np.maximum(heights.max(axis=0), 1e-9)
    n_points = times.sum()

    def probability(weights: Floats, totals: Floats) -> Floats:
        return _tail_probability(weights * (n_points / totals) - 1, times)

    ends = np.empty(len(spans))
    probabilities = np.empty(len(spans))
    searched = np.arange(len(spans))  # the columns that are not yet found
    wanted_ends: Floats = np.broadcast_to(np.asarray(bounds, dtype=float), len(spans))
    # a normal score is the normal quantile of a probability
    tolerance = _TOLERANCE_OF_MEAN if level is None else _TOLERANCE_OF_NORMAL_SCORE
    bracket = _Bracket.widest(len(spans))
    for step in range(1, _MAX_STEPS + 1):
        log_depths = bracket.next_x()
        depths = spans * np.exp(log_depths)  # of the poles below the smallest points
        weights = 1 / (heights + depths)
        totals = (times * weights).sum(axis=0)
        mean = smallest - depths + n_points / totals
        if level is None:
            excess = mean - wanted_ends
        else:
            excess = ndtri(probability(weights, totals)) - ndtri(level)
        bracket = bracket.narrowed(log_depths, excess)
        is_found = bracket.is_closed | (np.abs(excess) <= tolerance) | (step == _MAX_STEPS)
        if is_found.any():
            ends[searched[is_found]] = mean[is_found]
            probabilities[searched[is_found]] = probability(weights[:, is_found], totals[is_found])
            if is_found.all():
                break
            is_open = ~is_found
            smallest = smallest[is_open]
            heights = heights[:, is_open]
            spans = spans[is_open]
            searched = searched[is_open]
            wanted_ends = wanted_ends[is_open]
            bracket = _Bracket(*(values[is_open] for values in bracket))
    return ends, probabilities


class _Bracket(NamedTuple):
    """The state of a search for the number x at which an increasing function f(x) is 0, by Chandrupatla
    (1997, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
    without using derivatives"). Many searches run at once: all fields have one value per column.

    The zero is between two numbers, the ends: `newest`, which was tried last, and `other`. `replaced` is
    the end that `newest` took the place of. `f_newest`, `f_other` and `f_replaced` are their f.
    """

    newest: Floats
    other: Floats
    replaced: Floats
    f_newest: Floats
    f_other: Floats
    f_replaced: Floats

    @classmethod
    def widest(cls, n_columns: int) -> "_Bracket":
        """Return the bracket before the first step, for the logarithms of a pole's depth."""
        nearest = np.full(n_columns, _NEAREST)
        farthest = np.full(n_columns, _FARTHEST)
        below = np.full(n_columns, -math.inf)  # f is not yet known, only its sign
        return cls(nearest, farthest, nearest, below, -below, below)

    def narrowed(self, x: Floats, f: Floats) -> "_Bracket":
        """Return the bracket after a number x between its two ends was tried, and f was found there.

        In each column, x takes the place of the end at which f has the same sign, so that the zero stays
        between the ends. x becomes `newest`, the end that remains becomes `other`, and the end that goes
        becomes `replaced`.
        """
        replaces_newest = (f < 0) == (self.f_newest < 0)  # else x replaces `other`
        return _Bracket(
            newest=x,
            other=np.where(replaces_newest, self.other, self.newest),
            replaced=np.where(replaces_newest, self.newest, self.other),
            f_newest=f,
            f_other=np.where(replaces_newest, self.f_other, self.f_newest),
            f_replaced=np.where(replaces_newest, self.f_newest, self.f_other),
        )

    @property
    def is_closed(self) -> Bools:
        """Return True for each column whose two ends are equal but for rounding."""
        closed: Bools = np.abs(self.other - self.newest) <= _CLOSED
        return closed

    def next_x(self) -> Floats:
        """Return the number to try next in each column, between the ends `newest` and `other`.

        It is found by inverse quadratic interpolation where Chandrupatla's criterion trusts the
        interpolation (`_is_smooth`). Elsewhere it is the middle of the ends, which is slower, but always
        halves the bracket.
        """
        width = self.other - self.newest
        # f may be infinite, or equal at two numbers: the fraction is then not finite
        with np.errstate(invalid="ignore", divide="ignore"):
            fraction = self._interpolated_fraction()
            is_usable = self._is_smooth() & np.isfinite(fraction)
            # keep off both ends: by half the width of a closed bracket
            smallest = np.minimum(_CLOSED / 2 / np.abs(width), 0.5)
        fraction = np.clip(np.where(is_usable, fraction, 0.5), smallest, 1 - smallest)
        x: Floats = self.newest + fraction * width
        return x

    def _interpolated_fraction(self) -> Floats:
        """Return how far the zero of f is on the way from `newest` (0) to `other` (1), by inverse
        quadratic interpolation: x is taken as a quadratic function of f through the three known points.

        By Lagrange's formula, the value of this function at f = 0 is a sum over the points: the place of
        a point times its weight. The place of `newest` is 0, so two terms remain. The weight of `other`
        is (0 - f_newest) / (f_other - f_newest) * (0 - f_replaced) / (f_other - f_replaced), in which
        both minus signs cancel.
        """
        f_newest, f_other, f_replaced = self.f_newest, self.f_other, self.f_replaced
        weight_of_other = f_newest / (f_other - f_newest) * f_replaced / (f_other - f_replaced)
        place_of_replaced = (self.replaced - self.newest) / (self.other - self.newest)
        term_of_replaced = (
            place_of_replaced
            * f_newest
            / (f_replaced - f_newest)
            * f_other
            / (f_replaced - f_other)
        )
        fraction: Floats = weight_of_other + term_of_replaced
        return fraction

    def _is_smooth(self) -> Bools:
        """Return True for each column in which the curve of inverse quadratic interpolation is
        monotone, by Chandrupatla's criterion (1997).

        On the way from `other` (0) to `replaced` (1), the end `newest` is at xi, and its f at phi. If f
        were a straight line, xi and phi would be equal; they may differ only so far.
        """
        xi = (self.newest - self.other) / (self.replaced - self.other)
        phi = (self.f_newest - self.f_other) / (self.f_replaced - self.f_other)
        is_smooth: Bools = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        return is_smooth


def _tail_probability(excess_weights: Floats, times: Floats | float = 1.0) -> Floats:
    """Return the probability of the lower tail of each column by the formula of Lugannani & Rice:
    Phi(r) + phi(r) (1 / r - 1 / u) with r = -sqrt(-2 sum(log(N w))) and u = -sqrt(sum((N w - 1)^2)).

    Args:
        excess_weights: N w - 1 of N points with the weights w (points, columns).
        times: the number of occurrences of each point (a number, or an array (points, 1)).
    """
    from scipy.special import ndtr

    r = -np.sqrt(np.maximum(-2 * (times * np.log1p(excess_weights)).sum(axis=0), 1e-18))
    u = -np.sqrt(np.maximum((times * excess_weights**2).sum(axis=0), 1e-18))
    normal_density = np.exp(-(r**2) / 2) / math.sqrt(2 * math.pi)
    p: Floats = ndtr(r) + normal_density * (1 / r - 1 / u)
    return p.clip(0, 1)


def _by_gaffke_or_student(
    columns: Sequence[Floats],
    unseen: Sequence[float] | Floats,
    by_gaffke: Callable[[Floats], Floats],
    by_student: Callable[[float, float, int], float],
) -> Floats:
    """Return a limit, or a p, of each column's mean, by Gaffke's method or by Student's t.

    If a column has a smallest possible value, Gaffke's method (2005) applies, which holds for every
    distribution: it counts that value as one more observation, a loss that the sample does not show.
    Without such a value Student's t is used. NaN for a column of fewer than two values.

    Args:
        columns: the values of each column.
        unseen: the smallest possible value of each column; infinite if there is none.
        by_gaffke: points (1 + values, columns) -> results (columns,); the first point of each column
            is its unseen value.
        by_student: mean, standard error and degrees of freedom of a column -> its result.
    """
    results = np.full(len(columns), math.nan)
    for i, column in enumerate(columns):
        if len(column) > 1 and not math.isfinite(unseen[i]):
            error = deviation(column) / math.sqrt(len(column))
            results[i] = by_student(float(column.mean()), error, len(column) - 1)
    for block, points in _bounded_blocks(columns, unseen):
        results[block] = by_gaffke(points)
    return results


def _bounded_blocks(
    columns: Sequence[Floats], unseen: Sequence[float] | Floats
) -> Iterator[tuple[list[int], Floats]]:
    """Yield the columns with a finite `unseen` and two or more values, in blocks that can be computed
    at once as one matrix of points.

    The blocks are those of `blocks_of_rows`.

    Args:
        columns: the values of each column.
        unseen: the smallest possible value of each column, which counts as one more observation: a loss
            that the sample does not show. Infinite if there is none.

    Yields:
        The positions in `columns` of the block's columns, and their points (1 + values, columns); the
        first row has the unseen values.
    """
    bounded = []  # positions of columns
    for i, column in enumerate(columns):
        if len(column) > 1 and math.isfinite(unseen[i]):
            bounded.append(i)
    for rows_of_block, values in blocks_of_rows([columns[i] for i in bounded]):
        block = [bounded[row] for row in rows_of_block]
        points = np.empty((1 + values.shape[1], len(block)))
        points[0] = [unseen[i] for i in block]
        points[1:] = values.T
        yield block, points


def needs_search(
    columns: Sequence[Floats], widths: Floats, limits: Floats, levels: Floats
) -> Bools:
    """Return True for each column whose lower limit by Gaffke may be below a given limit, so that it has
    to be searched; False if it surely is not.

    Gaffke's limit is the number that a random weighted mean of the values is below with the probability
    `level`. If this mean is below some other number with a smaller probability, the other number is
    below Gaffke's limit. So one number is tried, barely above the given limit: if its probability is at
    most `level`, Gaffke's limit is above both. This saves the search for most columns of 300 or more
    values.

    Args:
        columns: the values of each column.
        widths: the largest possible loss of each column.
        limits: the given limit of each column.
        levels: the level of each column's limit by Gaffke.
    """
    needs_search = np.ones(len(columns), dtype=bool)
    for block, points in _bounded_blocks(columns, -widths):
        with np.errstate(all="ignore"):  # a column without variance, or a limit above its mean
            center = points.mean(axis=0)
            pole = _pole_at_distance(points, center, (center - limits[block]) * 0.999)
            number = _mean_at_pole(points, pole)
            weights = (number - pole) / (points - pole)  # times the number of points
            p = _tail_probability(weights - 1)  # that the weighted mean is below the number
            is_pole = pole < points.min(axis=0)
            is_above = is_pole & (number >= limits[block]) & (p <= levels[block])
        needs_search[block] = ~is_above
    return needs_search


def _pole_at_distance(points: Floats, center: Floats, distance: Floats) -> Floats:
    """Return the pole (see `_lower_tails`) of each column whose tail ends about `distance` below `center`,
    the mean of the points. The result is not a pole if it is above a point, or NaN.

    A tail ends about variance / depth below the mean, if its pole is `depth` below the mean. So a depth
    at which the tail ends twice too far away is doubled. Each step makes the error 5 to 20 times
    smaller.
    """
    depth = points.var(axis=0) / distance
    for _ in range(3):
        depth = depth * (center - _mean_at_pole(points, center - depth)) / distance
    pole: Floats = center - depth
    return pole


def _mean_at_pole(points: Floats, pole: Floats) -> Floats:
    """Return the mean of each column if its points have weights in proportion to 1 / (point - pole),
    which is where the tail of this pole ends (see `_lower_tails`).
    """
    mean: Floats = pole + len(points) / (1 / (points - pole)).sum(axis=0)
    return mean
