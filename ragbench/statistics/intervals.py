"""Intervals of means that hold for every distribution within a measure's range, and p-values that
agree with them.

Gaffke's (2005) limits are behind all of them. The lower limit is a quantile of a weighted mean of the
values and of one unseen value, the smallest that the measure allows, with weights uniform over all
that add up to 1: a question that was not drawn may lose everything. Learned-Miller & Thomas 2019
("A new confidence interval for the mean of a bounded random variable") discuss its validity;
tests/statistics/test_coverage.py simulates it. For values of 0 and 1 these are the limits of
Clopper & Pearson (1934).

The weighted mean is a ratio of sums of exponential variables; its distribution is computed by the
saddlepoint formula of Lugannani & Rice (1980, "Saddle point approximation for the distribution of
the sum of independent random variables"), which needs no random numbers and is on the safe side:
for values of 0 and 1 its p is 0 to 8 % above the exact one.

A mean of one configuration has Gaffke's limits at alpha / 2 on each side. The safe interval of a
difference (`safe_intervals`) rests on three questions, and each of its limits is the farthest answer:

- Student's limit at alpha / 2 keeps both sides together at alpha where differences are symmetric.
- The rule of three: of n questions, a kind that is 1 - alpha^(1 / n) of all is missing with a
  probability of alpha. If it loses everything, where is the mean? No rule can do without: whoever
  calls n equal gains of a better is wrong in (1 + a)^-n of the samples if a / (1 + a) of the questions
  lose everything.
- The nearer one of two limits for losses of any size: Gaffke's at alpha, and Gaffke's at alpha / 2 with
  the unseen value at weight 1/2 (an analogue of mid-p). The first has more power where differences
  vary much, the second where they vary little. The second alone would be wrong in 8 of 100 samples
  where 2.5 / n of the questions lose everything, which the rule of three excludes.

Simulated level of "better" over 40 kinds of differences, n = 10 to 300: at most .053 where questions are
independent (4.7 / n of them lose everything, the others gain the same), .04 for most kinds.

Questions may resemble their neighbours in the file, such as several about one page. Where the
differences show this (`n_independent`), Student's limit counts them as fewer. The level is then at
most .05 for an autocorrelation of up to .5 and every n from 10 to 300, and .06 for .7 and for pages
of five questions with a correlation of .36; without it .3, .5 and .7 had .08, .13 and .2 at n = 300.
Few values of 0 and 1 show it too rarely: for .3 their level is .07 up to n = 30 and .06 from 50 on,
for .5 .12 up to n = 30, .09 at 50 and .05 from 100 on. To count any resemblance of theirs, also one
that chance explains, would hold .05; but every other order of the same rows would then have another
p, and of 20 independent questions, 6 of which fail now, 15 of 100 orders would not show it. Runs of
ten and more questions about one page, with a correlation of .36, are held from n = 300 on only: .07
at n = 30, .1 at 50 and .09 at 100. Questions that are known to depend on each other (conversations,
repeated ones) are clusters.

Power of the safe interval, of Gaffke's at alpha / 2 on each side (used before), and of Student's t, which
calls up to 92 of 100 samples better where losses are rare; mean over nine kinds of differences
(normal ones of standard deviation .1, .15 and .3, sparse ones, reciprocal ranks):

    n = 20: .22, .08, .63    n = 30: .33, .18, .66    n = 50: .40, .27, .66    n = 100: .56, .39, .71

The p-value of "no difference" is the smallest alpha at which the interval excludes 0, from the same
functions, so that interval, p-value and decision agree by construction.

Two exceptions. For paired differences of 0/1 values in which both sides won a question, the score
interval of Tango (1998, "Equivalence test and confidence interval for
the difference in proportions for the paired-sample design", Statistics in Medicine 17) is narrower.
Without finite bounds (latencies) no interval is valid for every distribution, and Student's t is
used.

Betting (Waudby-Smith & Ramdas 2024) was measured against it: never narrower from 100 to 3,000 pairs
at standard deviations of .03 to .4 but by 4 % at .05 and 3,000 pairs, and up to 20 % wider.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragbench.array_types import Bools, Floats
from ragbench.statistics.columns import deviation, mean
from ragbench.statistics.thresholds import MIN_QUESTIONS

TIE = 1e-12
"""Values closer than this are equal: the same cosine may differ in the last bits."""

RESEMBLANCE = 3.09
"""Values depend on the ones before them if their autocorrelation exceeds this over sqrt(n): the normal
score of .999, so that 1 of 1,000 columns of independent values seem to depend."""

_BLOCK = 50_000  # numbers multiplied at once, so that they fit into the cache of a processor
_MAX_STEPS = 55  # of the search for a pole
_TOLERANCE_OF_MEAN = 1e-14
_TOLERANCE_OF_NORMAL_SCORE = 1e-12
_NEAR = 1e-13  # logarithms of poles that are equal
_SCORES = 300  # normal scores that represent a larger sample
# logarithms of the distance of the pole, in ranges of the values
_NEAREST = -30.0  # here p is all but 0
_FARTHEST = 5.0  # here p is all but 1 / 2


class Bounds(NamedTuple):
    """The smallest and the largest possible value; infinite where unknown."""

    low: float
    high: float


class Intervals(NamedTuple):
    """Limits of the mean of each column, the two-sided p of "the mean is 0", and the method ("none":
    no interval); all have one value per column.
    """

    low: Floats
    high: Floats
    p: Floats
    method: list[str]


def mean_intervals(
    columns: Sequence[Floats], bounds: Sequence[Bounds], alpha: float, *, tested: bool = True
) -> Intervals:
    """Compute the 1 - alpha interval of the mean of each column; p (of the mean 0) is NaN unless `tested`.

    With finite bounds the limits are Gaffke's (2005), valid for every distribution: the smallest, or
    largest, possible value counts as one more observation. Without finite bounds the limits are
    Student's. A limit is NaN for fewer than two values, and for equal values without finite bounds.

    Of 30 questions none differs: the difference may yet be 0.12, were an unseen question to gain or
    to lose all.

    >>> limits = mean_intervals([np.zeros(30)], [Bounds(-1, 1)], 0.05)
    >>> round(float(limits.low[0]), 2), round(float(limits.high[0]), 2), float(limits.p[0])
    (-0.12, 0.12, 1.0)
    """
    mirrored = [-column for column in columns]  # their lower limits are upper limits
    smallest = np.array([low for low, _high in bounds], dtype=float)
    largest = np.array([high for _low, high in bounds], dtype=float)
    is_bounded = np.isfinite(smallest) & np.isfinite(largest)
    unseen = np.where(is_bounded, smallest, -math.inf)
    unseen_mirrored = np.where(is_bounded, -largest, -math.inf)
    low = lower_limits(columns, unseen, alpha / 2)
    high = -lower_limits(mirrored, unseen_mirrored, alpha / 2)
    p = np.full(len(columns), math.nan)
    if tested:
        p_low = p_above(columns, unseen, 0.0)
        p_high = p_above(mirrored, unseen_mirrored, 0.0)
        p = 2 * np.minimum(p_low, p_high)
    return Intervals(low, high, np.minimum(p, 1.0), _methods(low, is_bounded))


def _methods(low: Floats, is_bounded: Bools) -> list[str]:
    """Return the method of each interval, from its lower limit (NaN: no interval)."""
    names = np.where(np.isnan(low), "none", np.where(is_bounded, "Gaffke", "t"))
    return [str(name) for name in names]


def safe_intervals(columns: Sequence[Floats], widths: Sequence[float], alpha: float) -> Intervals:
    """Compute the safe 1 - alpha interval of each mean difference, and the p of "the mean is 0".

    Each limit is the farthest of three limits: Student's, the rule of three, and Gaffke's for losses of
    any size (`_safe_lower_limits`). `widths` are the largest possible losses: for an infinite width the
    limits are Student's alone. A limit is NaN for fewer than two values, and for equal values with an
    infinite width.

    Of 30 questions none differs: the difference may yet be 0.1, were an unseen question to gain or
    to lose all.

    >>> limits = safe_intervals([np.zeros(30)], [1.0], 0.05)
    >>> round(float(limits.low[0]), 2), round(float(limits.high[0]), 2), float(limits.p[0])
    (-0.1, 0.1, 1.0)
    """
    mirrored = [-column for column in columns]  # their lower limits are upper limits
    losses = np.array(widths, dtype=float)
    means = np.array([mean(column) for column in columns])
    errors = _errors_of_means(columns)
    half_widths = _students_half_widths(errors, alpha)
    low = _safe_lower_limits(columns, means, losses, means - half_widths, alpha)
    high = -_safe_lower_limits(mirrored, -means, losses, -means - half_widths, alpha)
    p_by_student = _p_values_by_student(columns, errors)
    p = _safe_p_values(columns, means, losses, p_by_student, has_interval=~np.isnan(low))
    return Intervals(low, high, p, _methods(low, np.isfinite(losses)))


def n_independent(values: Floats) -> float:
    """Return how many independent values would have as certain a mean as `values`, which are in the
    order of a file.

    The number is n unless values resemble their neighbours more than chance explains, which is the case
    if their autocorrelation at lag 1 exceeds `RESEMBLANCE` / sqrt(n). Then it is the smaller of two
    numbers, but at least 2:

    - n (1 - r) / (1 + r), as where each value depends on the one before it (Bartlett 1946, "On the
      theoretical specification and sampling properties of autocorrelated time-series"); r is the
      autocorrelation at lag 1 without its bias (Kendall 1954, "Note on bias in the estimation of
      autocorrelation");
    - n / (1 + 2 (r1 + r2 + ...)) for longer runs, with the autocorrelations up to the first two
      neighbouring lags that show none (the initial monotone sequence of Geyer 1992, "Practical
      Markov chain Monte Carlo").

    >>> n_independent(np.array([0.1, 0.3, 0.2, 0.1, 0.3, 0.2] * 2))
    12.0
    >>> round(n_independent(np.repeat([0.3, 0.1, 0.2, 0.3, 0.1, 0.2], 5)), 1)  # 6 pages, 5 questions each
    2.5
    """
    n = len(values)
    if n < MIN_QUESTIONS:
        return float(n)
    residuals = values - values.mean()
    variance = _autocovariance(residuals, 0)
    if variance <= n * TIE**2:
        return float(n)
    correlation = _autocovariance(residuals, 1) / variance
    if correlation <= RESEMBLANCE / math.sqrt(n):
        return float(n)
    unbiased = min((n * correlation + 1) / (n - 4), 1.0)  # Kendall 1954
    n_by_neighbours = n * (1 - unbiased) / (1 + unbiased)
    n_by_runs = n / _variance_inflation(residuals)
    return max(min(n_by_neighbours, n_by_runs), 2.0)


def _autocovariance(residuals: Floats, lag: int) -> float:
    """Return the sum of the products of residuals with those `lag` places later."""
    return float(residuals[lag:] @ residuals[: len(residuals) - lag])


def _variance_inflation(residuals: Floats) -> float:
    """Return how many times larger the variance of the mean is than it would be for independent values;
    at least 1.

    The factor is 1 + 2 (r1 + r2 + ...), where r1, r2, ... are the autocorrelations at lags 1, 2, ...
    At far lags they are only noise. So they are added in pairs of neighbouring lags, up to the first
    pair whose sum is not positive, and no pair counts more than the pair before it (initial monotone
    sequence, Geyer 1992).
    """
    n = len(residuals)
    variance = _autocovariance(residuals, 0)

    def autocorrelation(lag: int) -> float:
        """Compute the autocorrelation, corrected for the bias of residuals about their own mean."""
        bias = (n - lag) / n**2 if lag else 0.0
        return _autocovariance(residuals, lag) / variance + bias

    total = 0.0
    smallest_pair = math.inf
    for lag in range(0, n // 2, 2):
        pair = autocorrelation(lag) + autocorrelation(lag + 1)
        if pair <= 0:
            break
        smallest_pair = min(smallest_pair, pair)
        total += smallest_pair
    return max(2 * total - 1, 1.0)  # `total` begins with r0 = 1


def _error_of_mean(values: Floats) -> tuple[float, float]:
    """Return the standard error of the mean of two or more values, and its degrees of freedom; both
    count values that resemble each other as fewer.
    """
    n = n_independent(values)
    return deviation(values) / math.sqrt(n), n - 1


def _errors_of_means(columns: Sequence[Floats]) -> list[tuple[float, float]]:
    """Return `_error_of_mean` of each column; (NaN, NaN) for fewer than two values."""
    errors = []
    for column in columns:
        errors.append(_error_of_mean(column) if len(column) > 1 else (math.nan, math.nan))
    return errors


def _students_half_widths(errors: Sequence[tuple[float, float]], alpha: float) -> Floats:
    """Compute the half width of Student's 1 - alpha interval of the mean of each column; NaN for equal
    values, and for fewer than two.

    `errors` has the standard error of each mean, and its degrees of freedom.
    """
    from scipy.special import stdtrit

    half_widths = np.full(len(errors), math.nan)
    for row, (error, df) in enumerate(errors):
        if error > TIE:
            half_widths[row] = -stdtrit(df, alpha / 2) * error
    return half_widths


def _safe_p_values(
    columns: Sequence[Floats],
    means: Floats,
    widths: Floats,
    p_by_student: Floats,
    *,
    has_interval: Bools,
) -> Floats:
    """Compute the p of "the mean is 0" for each column, so that it agrees with `safe_intervals`.

    `widths` are the largest possible losses, and `p_by_student` is the p by Student's t.

    - With a finite width: the alpha at which the safe limit on the side of 0 reaches 0
      (`_p_of_positive_means`); at most 1.
    - With an infinite width: Student's p.
    - Mean of exactly 0: Student's p, which is 1.
    - Equal values with an infinite width, which have no interval: 1, so that they show nothing.
    - Fewer than two values: NaN.
    """
    gains = []  # columns with their sign changed where the mean is negative
    for column, mean_of_column in zip(columns, means, strict=True):
        gains.append(-column if mean_of_column < 0 else column)
    p_of_gains = _p_of_positive_means(gains, np.abs(means), widths, p_by_student)
    p = np.where(np.isfinite(widths) & (means != 0), p_of_gains, p_by_student)
    lacks_interval = ~np.isnan(p) & ~has_interval  # although it has two or more values
    p = np.where(lacks_interval, 1.0, p)
    return np.minimum(p, 1.0)


def _safe_lower_limits(
    columns: Sequence[Floats], means: Floats, widths: Floats, by_student: Floats, alpha: float
) -> Floats:
    """Compute the lower limit of each mean for `safe_intervals`: the smallest of three limits.

    - Student's limit (`by_student`).
    - The rule of three: some questions may lose everything although none of the sample does; up to
      about 3 / n of all questions, at an alpha of .05.
    - Gaffke's limit, for losses of any size: it counts an unseen value, the largest possible loss, as
      one more observation. It may also count it as half an observation at alpha / 2; the nearer
      (larger) one of the two is taken.

    `widths` are the largest possible losses; where it is infinite, the limit is Student's alone.
    """
    limits = np.fmin(by_student, _rule_of_three(columns, means, widths, alpha))
    levels = np.full(len(columns), alpha)
    # Gaffke's limits are slow to find: only those that may be the smallest are searched
    searched = np.flatnonzero(_needs_search(columns, widths, limits, levels))
    searched_columns = [columns[int(i)] for i in searched]
    unseen = -widths[searched]
    by_whole = lower_limits(searched_columns, unseen, alpha)
    by_half = lower_limits(searched_columns, unseen, alpha / 2, weight=0.5)
    limits[searched] = np.minimum(limits[searched], np.maximum(by_whole, by_half))
    return np.where(np.isfinite(widths), limits, by_student)


def _rule_of_three(
    columns: Sequence[Floats], means: Floats, widths: Floats, alpha: float
) -> Floats:
    """Compute a lower limit of each mean: the mean if a kind of question that the sample lacks loses
    everything (`widths`, the largest possible losses).

    Of `n` questions, a kind that is 1 - alpha^(1 / n) of all questions, about 3 / n for an alpha of
    .05, is missing with a probability of `alpha`.
    """
    missing = np.array([1 - alpha ** (1 / max(len(column), 1)) for column in columns])
    limits: Floats = means - missing * (means + widths)
    return limits


def _p_of_positive_means(
    columns: Sequence[Floats], means: Floats, widths: Floats, p_by_student: Floats
) -> Floats:
    """Compute the p of "the mean is 0" for columns whose mean is 0 or more: the alpha at which the
    lower limit by `_safe_lower_limits` is 0.

    That limit is the smallest of three limits, so p is the largest of three p-values:

    - Student's p (`p_by_student`).
    - The rule of three: the probability that a sample lacks a kind of question which loses everything
      (`widths`, the largest possible losses) and is just frequent enough to bring the mean down to 0.
    - Gaffke's p, for losses of any size: an unseen value, the largest possible loss, counts as one more
      observation (`by_whole`), or as half of one with twice the p (`by_half`). The smaller p counts.
    """
    lengths = np.array([len(column) for column in columns])
    rule_of_three = (1 + means / widths) ** -lengths
    p: Floats = np.maximum(p_by_student, rule_of_three)
    # Gaffke's p is slow to find: it is searched only where it may be the largest
    searched = np.flatnonzero(_needs_search(columns, widths, np.zeros(len(columns)), p))
    searched_columns = [columns[int(i)] for i in searched]
    unseen = -widths[searched]
    by_whole = p_above(searched_columns, unseen, 0.0)
    by_half = 2 * p_above(searched_columns, unseen, 0.0, weight=0.5)
    p[searched] = np.maximum(p[searched], np.minimum(by_whole, by_half))
    return p


def _needs_search(
    columns: Sequence[Floats], widths: Floats, limits: Floats, levels: Floats
) -> Bools:
    """Return True for each column whose lower limit by Gaffke may be below a given limit, so that it has
    to be searched; False if it surely is not.

    Gaffke's limit is the number that a random weighted mean of the values falls below with the
    probability `level`. So if this probability is at most `level` at one number above the given limit,
    Gaffke's limit is above the given limit, too. One number is tried, barely above it: this saves the
    search for most columns of 300 or more values.

    Args:
        columns: the values of each column.
        widths: the largest possible loss of each column.
        limits: the given limit of each column.
        levels: the level of each column's limit by Gaffke.
    """
    needs_search = np.ones(len(columns), dtype=bool)
    for block, points in _blocks(columns, -widths):
        center = points.mean(axis=0)
        with np.errstate(all="ignore"):  # a column without variance, or a limit above its mean
            # A pole, a number below all points, fixes a mean and the probability below it (see
            # `_lower_tails`). Approach the pole whose mean is barely above the limit.
            wanted_distance = (center - limits[block]) * 0.999
            depth = points.var(axis=0) / wanted_distance  # of the pole below the center, at first
            for _ in range(3):  # each step makes the error 5 to 20 times smaller
                mean_at_pole, _excess_weights = _mean_at_pole(points, center - depth)
                depth = depth * (center - mean_at_pole) / wanted_distance
            pole = center - depth
            mean_at_pole, excess_weights = _mean_at_pole(points, pole)
            p = _tail_probability(excess_weights)
            is_pole = pole < points.min(axis=0)
            is_above = is_pole & (mean_at_pole >= limits[block]) & (p <= levels[block])
        needs_search[block] = ~is_above
    return needs_search


def _mean_at_pole(points: Floats, pole: Floats) -> tuple[Floats, Floats]:
    """Return the weighted mean of each column if its N points have weights w in proportion to
    1 / (point - pole), and N w - 1 of each point (points, columns).
    """
    weights = 1 / (points - pole)
    scale = len(points) / weights.sum(axis=0)
    return pole + scale, weights * scale - 1


def cluster_interval(
    sums: Floats, lengths: Floats, width: float, alpha: float
) -> tuple[float, float, float]:
    """Compute the safe 1 - alpha interval (low, high) of a mean over questions in clusters of different
    length, and the p of "the mean is 0".

    A cluster is a conversation, or several copies of one question. Each limit is the farther of two:
    Student's limit, and the limit for an unseen cluster (`_cluster_lower_limit`): one more cluster, as
    long as one of the observed ones, that loses `width` on every question. With an infinite `width`
    the interval is Student's alone; then clusters that all have the same mean have no interval: the
    limits are NaN, and p is 1.

    Args:
        sums: the sum over the questions of each cluster (clusters,).
        lengths: the number of questions of each cluster (clusters,). Sums and lengths may be divided by
            the same number.
        width: the largest possible loss of a question.

    Of 19 single questions and a conversation of 12 turns all gain .35:

    >>> lengths = np.array([1.0] * 19 + [12.0]) * 20 / 31
    >>> low, high, p = cluster_interval(0.35 * lengths, lengths, 1.0, 0.05)
    >>> round(low, 2), round(high, 2), round(p, 3)
    (0.16, 0.44, 0.021)
    """
    from scipy.special import stdtr, stdtrit

    observed_mean = float(sums.mean() / lengths.mean())
    # the spread of the clusters about the observed mean of as many questions; df: degrees of freedom
    error, df = _error_of_mean(sums - observed_mean * lengths)
    error /= float(lengths.mean())
    is_bounded = math.isfinite(width)
    if error > TIE:
        half_width = float(stdtrit(df, 1 - alpha / 2)) * error
        p = 2 * float(stdtr(df, -abs(observed_mean) / error))
    elif is_bounded:  # all clusters have the same mean
        half_width = 0.0
        p = 0.0
    else:
        return math.nan, math.nan, 1.0
    low = observed_mean - half_width
    high = observed_mean + half_width
    if not is_bounded:
        return low, high, p
    low = min(low, _cluster_lower_limit(sums, lengths, width, alpha))
    high = max(high, -_cluster_lower_limit(-sums, lengths, width, alpha))
    if abs(observed_mean) <= TIE:
        return low, high, 1.0
    gains = sums if observed_mean > 0 else -sums
    p = max(p, _p_of_cluster_mean(gains, lengths, width, 0.0))
    return low, high, min(p, 1.0)


def _cluster_lower_limit(sums: Floats, lengths: Floats, width: float, alpha: float) -> float:
    """Compute the lower limit of the mean per question that allows for an unseen cluster.

    The limit is the number for which the p of "the true mean is at most this number" is `alpha`
    (`_p_of_cluster_mean`). If p is at most `alpha` even for the observed mean, the limit is the
    observed mean. The arguments are those of `cluster_interval`.
    """
    from scipy.optimize import brentq

    observed_mean = float(sums.mean() / lengths.mean())
    if _p_of_cluster_mean(sums, lengths, width, observed_mean) <= alpha:
        return observed_mean

    def excess(supposed: float) -> float:
        return _p_of_cluster_mean(sums, lengths, width, supposed) - alpha

    return float(brentq(excess, -width, observed_mean, xtol=1e-9))


def _p_of_cluster_mean(sums: Floats, lengths: Floats, width: float, supposed: float) -> float:
    """Compute the p of "the mean per question is at most `supposed`": the larger of two p-values.

    - Gaffke's p: an unseen cluster, which loses `width` on every question, counts as one more
      observation (`by_whole`), or as half of one with twice the p (`by_half`); the smaller p counts.
      The unseen cluster is as long as one of the observed clusters, and p is averaged over them.
    - The rule of three: the probability that a sample lacks a kind of cluster which loses everything,
      and is just frequent enough to bring the observed mean down to `supposed`.

    The other arguments are those of `cluster_interval`.
    """
    unseen_lengths, counts = np.unique(lengths, return_counts=True)
    excess_sums = sums - supposed * lengths  # their mean is 0 if `supposed` is the true mean
    values = [excess_sums] * len(unseen_lengths)  # a column for each length of the unseen cluster
    unseen = -(width + supposed) * unseen_lengths
    by_whole = p_above(values, unseen, 0.0) @ counts / counts.sum()
    by_half = 2 * p_above(values, unseen, 0.0, weight=0.5) @ counts / counts.sum()
    observed_mean = float(sums.mean() / lengths.mean())
    rule_of_three = ((width + supposed) / (width + observed_mean)) ** len(sums)
    return float(max(min(by_whole, by_half), rule_of_three))


def students_p_values(columns: Sequence[Floats]) -> Floats:
    """Compute the two-sided p of "the mean is 0" for each column by Student's t; for equal values 0,
    or 1 if they are 0; NaN below two values.

    >>> students_p_values([np.array([0.1, 0.3, 0.2]), np.full(3, 0.1), np.zeros(3)]).round(3)
    array([0.074, 0.   , 1.   ])
    """
    return _p_values_by_student(columns, _errors_of_means(columns))


def _p_values_by_student(
    columns: Sequence[Floats], errors: Sequence[tuple[float, float]]
) -> Floats:
    """Compute the two-sided p of "the mean is 0" for each column by Student's t; for equal values 0,
    or 1 if they are 0; NaN below two values.

    `errors` has the standard error of each mean, and its degrees of freedom.
    """
    from scipy.special import stdtr

    p_values = np.full(len(columns), math.nan)
    for row, (column, (error, df)) in enumerate(zip(columns, errors, strict=True)):
        if len(column) < 2:
            continue
        if error > TIE:
            p_values[row] = 2 * stdtr(df, -abs(mean(column)) / error)
        else:
            p_values[row] = 0.0 if abs(mean(column)) > TIE else 1.0
    return p_values


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
        quantiles, _p = _lower_tails(points, _occurrences(points, weight), level=level)
        observed_means = points[1:].mean(axis=0)  # the first row has the unseen values
        limits: Floats = np.minimum(quantiles, observed_means)
        return limits

    def by_student(mean: float, error: float, df: int) -> float:
        if error <= TIE:
            return math.nan
        return float(mean + stdtrit(df, level) * error)

    return _by_gaffke_or_student(columns, unseen, by_gaffke, by_student)


def p_above(
    columns: Sequence[Floats],
    unseen: Sequence[float] | Floats,
    bound: float,
    *,
    weight: float = 1.0,
) -> Floats:
    """Compute the one-sided p of "the mean is at most `bound`" for each column.

    It is the level at which the column's lower limit is `bound`; `unseen` and `weight` are those of
    `lower_limits`. NaN below two values.

    >>> p_above([np.array([1.0] * 9 + [0.0])], [0.0], 0.5).round(4)  # exact, by the binomial distribution: 0.0107
    array([0.0108])
    """
    from scipy.special import stdtr

    def by_gaffke(points: Floats) -> Floats:
        return probability_below(points, bound, _occurrences(points, weight))

    def by_student(mean: float, error: float, df: int) -> float:
        if error <= TIE:
            return 1.0
        return float(stdtr(df, (bound - mean) / error))

    return _by_gaffke_or_student(columns, unseen, by_gaffke, by_student)


def probability_below(points: Floats, bound: float, times: Floats | float = 1.0) -> Floats:
    """Compute the probability that a weighted mean of points is at most `bound`, for each column of
    points. Weights are random: all weights that add up to 1 are equally likely.

    `times` is the number of occurrences of each point: a number, or an array (points, 1). The result
    is 0 or 1 for a bound beyond all points.
    """
    times = times * np.ones_like(points[:, :1])
    means = (times * points).sum(axis=0) / times.sum()
    # only lower tails can be computed: a bound above the mean is in the lower tail of -points
    is_lower_tail = bound < means
    mirrored = np.where(is_lower_tail, points, -points)
    mirrored_bound = np.where(is_lower_tail, bound, -bound)
    mirrored_means = np.where(is_lower_tail, means, -means)
    smallest = mirrored.min(axis=0)
    is_between_points = (smallest < mirrored_bound) & (mirrored_bound < mirrored.max(axis=0))
    # any mean between the points will do where the bound is beyond them: its p is not used
    any_mean = (smallest + mirrored_means) / 2
    _means, p_of_tail = _lower_tails(
        mirrored, times, tail_mean=np.where(is_between_points, mirrored_bound, any_mean)
    )
    p = np.where(is_between_points, p_of_tail, 0.0)
    return np.where(is_lower_tail, p, 1 - p)


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
    distances = np.geomspace(1.2, 2000, 40)
    means = critical_means_of(distances, n, level, weight)
    return distances - means, means


def critical_means_of(unseen: Floats, n: int, level: float, weight: float = 1.0) -> Floats:
    """Compute the mean that `n` normal values must exceed for Gaffke's lower limit to be above 0.

    Gaffke's 1 - level limit counts an unseen value, the largest possible loss, as `weight` more
    observations. All numbers are in standard deviations of the values.

    Args:
        unseen: how far the unseen value is below the mean of the values; there is a result for each
            of these distances.
    """
    from scipy.special import ndtri

    n_scores = min(n, _SCORES)
    # quantiles of the normal distribution represent the sample: its mean is 0, its deviation 1
    scores = ndtri((np.arange(n_scores) + 0.5) / n_scores)
    scores = (scores - scores.mean()) / math.sqrt((scores**2).mean() * n / (n - 1))
    points = np.vstack([-unseen, np.repeat(scores[:, None], len(unseen), axis=1)])
    times = np.full(len(points), n / n_scores)  # how many of the `n` values a score represents
    times[0] = weight
    limits_of_mean_0, _p = _lower_tails(points, times[:, None], level=level)
    return -limits_of_mean_0


def _lower_tails(
    points: Floats,
    times: Floats | float = 1.0,
    *,
    level: float | None = None,
    tail_mean: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Find a lower tail of the distribution of each column's weighted mean: where it ends, and its
    probability.

    The weights are random: all weights that add up to 1 are equally likely. With a `level`, the tail
    with this probability is found; without it, the tail that ends at the mean `tail_mean`.

    Both numbers follow from one number below all points, the pole (saddlepoint approximation): N points
    x have weights w in proportion to 1 / (x - pole), the tail ends at the mean
    pole + N / sum(1 / (x - pole)), and its probability is `_tail_probability` of N w - 1. So the pole of
    each column is searched, all at once. A column whose pole is found drops out: most take 9 steps.

    Args:
        points: (points, columns).
        times: the number of occurrences of each point (a number, or an array (points, 1)).

    Returns:
        The mean at which each column's tail ends, and the probability of the tail.
    """
    from scipy.special import ndtri

    smallest = points.min(axis=0)
    heights = points - smallest
    spans = np.maximum(heights.max(axis=0), 1e-9)
    n_points = (times * np.ones_like(points[:, :1])).sum()

    def probability(weights: Floats, totals: Floats) -> Floats:
        return _tail_probability(weights * (n_points / totals) - 1, times)

    means = np.empty(len(spans))
    p_values = np.empty(len(spans))
    searched = np.arange(len(spans))  # the columns that are not yet found
    tail_means: Floats = np.broadcast_to(np.asarray(tail_mean, dtype=float), len(spans))
    # a normal score is the normal quantile of a probability
    tolerance = _TOLERANCE_OF_MEAN if level is None else _TOLERANCE_OF_NORMAL_SCORE
    bracket = _Bracket.widest(len(spans))
    for step in range(1, _MAX_STEPS + 1):
        log_depths = bracket.next_pole()
        depths = spans * np.exp(log_depths)  # of the pole below the smallest point
        weights = 1 / (heights + depths)
        totals = (times * weights).sum(axis=0)
        mean = smallest - depths + n_points / totals
        if level is None:
            excess = mean - tail_means
        else:
            excess = ndtri(probability(weights, totals)) - ndtri(level)
        bracket = bracket.narrowed(log_depths, excess)
        is_found = bracket.is_closed | (np.abs(excess) <= tolerance) | (step == _MAX_STEPS)
        if is_found.any():
            means[searched[is_found]] = mean[is_found]
            p_values[searched[is_found]] = probability(weights[:, is_found], totals[is_found])
            if is_found.all():
                break
            is_open = ~is_found
            smallest = smallest[is_open]
            heights = heights[:, is_open]
            spans = spans[is_open]
            searched = searched[is_open]
            tail_means = tail_means[is_open]
            bracket = _Bracket(*(values[is_open] for values in bracket))
    return means, p_values


class _Bracket(NamedTuple):
    """The state of Chandrupatla's search (1997, "A new hybrid quadratic/bisection algorithm for finding
    the zero of a nonlinear function without using derivatives") for the zero of a function f that
    increases with the pole; all fields have one value per column.

    A pole is a number below all points of a column, here as the logarithm of its distance below the
    smallest point. The zero is between the poles `newest` and `other`; `replaced` is the pole that
    `newest` took the place of.
    """

    newest: Floats
    other: Floats
    replaced: Floats
    f_newest: Floats
    f_other: Floats
    f_replaced: Floats

    @classmethod
    def widest(cls, n_columns: int) -> "_Bracket":
        """Return the bracket before the first step, from the nearest to the farthest pole."""
        nearest = np.full(n_columns, _NEAREST)
        farthest = np.full(n_columns, _FARTHEST)
        below = np.full(n_columns, -math.inf)  # f is not yet known, only its sign
        return cls(nearest, farthest, nearest, below, -below, below)

    def narrowed(self, pole: Floats, f: Floats) -> "_Bracket":
        """Return the bracket after a step of the search for the pole at which a function f is 0.

        The step tried a pole between the two ends of the bracket, `newest` and `other`. This pole is the
        new `newest`. It takes the place of the end at which f has the same sign, so that the zero stays
        between the ends; that end becomes `replaced`.

        Args:
            pole: the pole that was tried in each column.
            f: the value of the function at this pole.
        """
        replaces_newest = (f < 0) == (self.f_newest < 0)  # else the pole replaces `other`
        return _Bracket(
            newest=pole,
            other=np.where(replaces_newest, self.other, self.newest),
            replaced=np.where(replaces_newest, self.newest, self.other),
            f_newest=f,
            f_other=np.where(replaces_newest, self.f_other, self.f_newest),
            f_replaced=np.where(replaces_newest, self.f_newest, self.f_other),
        )

    @property
    def is_closed(self) -> Bools:
        """Return True for each column whose two poles are equal."""
        closed: Bools = np.abs(self.other - self.newest) <= _NEAR
        return closed

    def next_pole(self) -> Floats:
        """Return the pole (a number) to try next in each column, in the search for the zero of a
        function f of the pole.

        The zero is between the poles `newest` and `other`. Where f is smooth, the next pole is found by
        inverse quadratic interpolation. Elsewhere it is the middle of `newest` and `other`, which is
        slower, but always halves the bracket.
        """
        width = self.other - self.newest
        # f may be infinite, or equal at two poles: the fraction is then not finite
        with np.errstate(invalid="ignore", divide="ignore"):
            fraction = self._interpolated_fraction()
            is_usable = self._is_smooth() & np.isfinite(fraction)
            smallest = np.minimum(_NEAR / 2 / np.abs(width), 0.5)  # stay off both ends
        fraction = np.clip(np.where(is_usable, fraction, 0.5), smallest, 1 - smallest)
        pole: Floats = self.newest + fraction * width
        return pole

    def _interpolated_fraction(self) -> Floats:
        """Return how far the zero of f is on the way from `newest` (0) to `other` (1), by inverse
        quadratic interpolation: the zero of the curve through the three known values of f, on which
        the pole is a quadratic function of f.
        """
        _newest, _other, _replaced, f_newest, f_other, f_replaced = self
        by_other = f_newest / (f_other - f_newest) * f_replaced / (f_other - f_replaced)
        distance = (self.replaced - self.newest) / (self.other - self.newest)
        by_replaced = (
            distance * f_newest / (f_replaced - f_newest) * f_other / (f_replaced - f_other)
        )
        fraction: Floats = by_other + by_replaced
        return fraction

    def _is_smooth(self) -> Bools:
        """Return True for each column in which the curve of inverse quadratic interpolation is
        monotone, by Chandrupatla's criterion (1997).

        On the way from `other` (0) to `replaced` (1), the pole `newest` is at xi, and its f at phi. If f
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
    for block, points in _blocks(columns, unseen):
        results[block] = by_gaffke(points)
    return results


def _blocks(
    columns: Sequence[Floats], unseen: Sequence[float] | Floats
) -> Iterator[tuple[list[int], Floats]]:
    """Yield columns in blocks that can be computed at once, as one matrix of points.

    A block has columns of the same length, and only so many that its matrix fits into the cache of a
    processor. Columns without a finite `unseen`, or with fewer than two values, are left out.

    Args:
        columns: the values of each column.
        unseen: the smallest possible value of each column, which counts as one more observation: a loss
            that the sample does not show. Infinite if there is none.

    Yields:
        The positions in `columns` of the block's columns, and their points (1 + values, columns); the
        first row has the unseen values.
    """
    by_length: dict[int, list[int]] = {}  # length -> positions of columns
    for i, column in enumerate(columns):
        if len(column) > 1 and math.isfinite(unseen[i]):
            by_length.setdefault(len(column), []).append(i)
    for length, positions in by_length.items():
        n_columns = max(1, _BLOCK // (length + 1))
        for start in range(0, len(positions), n_columns):
            block = positions[start : start + n_columns]
            values = np.column_stack([columns[i] for i in block])
            unseen_of_block = [unseen[i] for i in block]
            yield block, np.vstack([unseen_of_block, values])


def score_interval(wins: int, losses: int, n: int, alpha: float) -> tuple[float, float, float]:
    """Compute the interval (low, high) of (wins - losses) / n by Tango (1998), and the p of "it is 0" by
    McNemar, without continuity correction. `wins` and `losses` must both be above 0.

    The example is checked against Fagerland, Lydersen & Laake 2014 ("Recommended tests and confidence
    intervals for paired binomial proportions", Statistics in Medicine 33), the data of Bentur et al.
    2009.

    >>> [round(number, 3) for number in score_interval(1, 7, 21, 0.05)]
    [-0.517, -0.026, 0.034]
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    z = -float(ndtri(alpha / 2))
    gain = (wins - losses) / n

    def excess(difference: float) -> float:
        """Compute how far a supposed difference is beyond a limit of the interval."""
        return abs(_tango_score(difference, wins, losses, n)) - z

    low = brentq(excess, gain, -1.0, xtol=1e-14)
    high = brentq(excess, gain, 1.0, xtol=1e-14)
    p = float(2 * ndtr(-abs(wins - losses) / math.sqrt(wins + losses)))
    return low, high, p


def _tango_score(difference: float, wins: int, losses: int, n: int) -> float:
    """Compute Tango's score of a supposed difference: the distance of the observed one from it, in
    standard errors.

    `lost` is the most likely fraction of losses if the supposed difference is true, the root of a
    quadratic equation.
    """
    b = (2 * n - wins + losses) * difference - wins - losses
    lost = (math.sqrt(b * b + 8 * n * losses * difference * (1 - difference)) - b) / (4 * n)
    variance = n * (2 * lost + difference * (1 - difference))
    return (wins - losses - n * difference) / math.sqrt(max(variance, 1e-300))
