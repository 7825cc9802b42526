"""Intervals of means that hold for every distribution within a measure's range, and p-values that
agree with them.

Gaffke's (2005) limits are behind all of them (`gaffke.py`). They count one unseen value as one more
observation: the smallest that the measure allows, as a question that was not drawn may lose everything.

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
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragbench.array_types import Bools, Floats
from ragbench.statistics.columns import TIE, mean
from ragbench.statistics.gaffke import lower_limits, needs_search, p_above
from ragbench.statistics.students_t import (
    errors_of_means,
    p_values_by_student,
    students_half_widths,
)


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
    unseen = np.where(is_bounded, smallest, -math.inf)  # infinite: Student's limit
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

    Three methods give limits, and the one farthest from the mean is returned: Student's; the rule of three,
    for a loss that no question of the sample shows; and Gaffke's, for losses of any size
    (`_safe_lower_limits`). A limit is NaN for fewer than two values, and for equal values with an infinite
    width.

    Args:
        columns: a column of differences for each interval, a value per question.
        widths: for each column, the largest size that a single difference can have, such as 1 for a
            measure from 0 to 1. If it is infinite, the limits are Student's alone.
        alpha: one minus the level of the intervals.

    Of 30 questions none differs: the difference may yet be 0.1, were an unseen question to gain or
    to lose all.

    >>> limits = safe_intervals([np.zeros(30)], [1.0], 0.05)
    >>> round(float(limits.low[0]), 2), round(float(limits.high[0]), 2), float(limits.p[0])
    (-0.1, 0.1, 1.0)
    """
    mirrored = [-column for column in columns]  # their lower limits are upper limits
    losses = np.array(widths, dtype=float)
    means = np.array([mean(column) for column in columns])
    errors = errors_of_means(columns)
    half_widths = students_half_widths(errors, alpha)
    low = _safe_lower_limits(columns, means, losses, means - half_widths, alpha)
    high = -_safe_lower_limits(mirrored, -means, losses, -means - half_widths, alpha)
    p_by_student = p_values_by_student(means, errors)
    p = _safe_p_values(columns, means, losses, p_by_student, has_interval=~np.isnan(low))
    return Intervals(low, high, p, _methods(low, np.isfinite(losses)))


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
    may_be_smallest = needs_search(columns, widths, limits, levels)
    searched = np.flatnonzero(may_be_smallest)
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
      observation (`by_whole`), or as half of one (`by_half`, whose p is doubled, since its limit is at
      half the alpha). The smaller p counts.
    """
    lengths = np.array([len(column) for column in columns])
    rule_of_three = (1 + means / widths) ** -lengths
    p: Floats = np.maximum(p_by_student, rule_of_three)
    # Gaffke's p is slow to find. It is searched only where it may be the largest: where Gaffke's limit
    # at the level p may be below 0.
    may_be_below_0 = needs_search(columns, widths, limits=np.zeros(len(columns)), levels=p)
    searched = np.flatnonzero(may_be_below_0)
    searched_columns = [columns[int(i)] for i in searched]
    unseen = -widths[searched]
    by_whole = p_above(searched_columns, unseen, 0.0)
    by_half = 2 * p_above(searched_columns, unseen, 0.0, weight=0.5)
    p[searched] = np.maximum(p[searched], np.minimum(by_whole, by_half))
    return p


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
    # how much the sum of a cluster exceeds that of as many questions with the observed mean
    excess_sums = sums - observed_mean * lengths
    errors = errors_of_means([excess_sums])
    error = float(errors.sizes[0] / lengths.mean())
    degrees_of_freedom = float(errors.degrees_of_freedom[0])
    is_bounded = math.isfinite(width)
    if error > TIE:
        half_width = float(stdtrit(degrees_of_freedom, 1 - alpha / 2)) * error
        p = 2 * float(stdtr(degrees_of_freedom, -abs(observed_mean) / error))
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
    p = max(p, _p_of_cluster_mean(gains, lengths, width, supposed=0.0))
    return low, high, min(p, 1.0)


def _cluster_lower_limit(sums: Floats, lengths: Floats, width: float, alpha: float) -> float:
    """Compute the lower limit of the mean per question that allows for an unseen cluster.

    The limit is the number for which the p of "the true mean is at most this number" is `alpha`
    (`_p_of_cluster_mean`). If p is at most `alpha` even for the observed mean, the limit is the
    observed mean. The arguments are the same as of `cluster_interval`.
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

    The other arguments are the same as of `cluster_interval`.
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
