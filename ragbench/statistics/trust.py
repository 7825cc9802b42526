"""The difference between two systems by people's verdicts, from labels of some questions and from
what judges or heuristics say of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from scipy.stats import norm

from ragbench.array_types import Floats, Ints
from ragbench.errors import ConfigError, DataError
from ragbench.statistics.columns import check_alpha

FIRST = 20
"""Labelled questions from which on there is an interval."""

STEP = 10
"""Further labelled questions from one look to the next, from 400 on a fortieth of them; those between
wait for it.
"""

_FOLDS = 5
_MAX_LEVELS = 5  # values of a proxy that are strata of their own; more are cut into thirds
_HALF_SPENT = 100.0  # independent labels by which half of alpha is spent
# of the integration over what earlier looks left open, of either sign
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
# pseudo-observations: always, where all labels are equal, and the different labels that end these
_ALWAYS, _UNSEEN, _FADE = 0.25, 4.0, 2.0


@dataclass(frozen=True)
class Trust:
    """What labels by people show of a difference (or, of one system, of a mean).

    `difference` is by people's verdicts, over all `n` questions, with an interval that is valid
    when one stops, None before `FIRST` questions are labelled. `decision` is "better", "worse",
    "within the margin" or "undecided", and `decided_after` the number of labels at the first look
    that decided; `more` is how many further questions will likely decide, None where that is not
    known; `n_waiting` are labelled and wait for the next look. `naive` is the difference by the
    first `proxy` alone, which is not people's.
    """

    n: int
    n_labelled: int
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    decision: str
    more: int | None
    proxy: str = ""
    naive: float | None = None
    decided_after: int | None = None
    n_waiting: int = 0

    @property
    def sentence(self) -> str:
        """Return what follows, in one sentence."""
        if self.difference is None or self.ci_low is None or self.ci_high is None:
            text = f"Undecided: {self.n_labelled} of {self.n} questions are labelled by people"
            text += f", and an interval takes {min(FIRST, self.n)}."
        else:
            text = f"{self.decision.capitalize()} by people's verdicts: {self.difference:+.3f} "
            text += f"[{self.ci_low:+.3f}, {self.ci_high:+.3f}], {self.n_labelled} of {self.n} "
            text += "questions labelled."
            if self.ci_low == self.ci_high:
                text += " All of these are known; this is no estimate for other questions."
            if self.n_waiting:
                text += f" The last {self.n_waiting} wait for the next look."
        if self.decision == "undecided" and self.more is not None:
            text += f" About {self.more} more are likely to decide."
        if self.naive is not None:
            text += f" {self.proxy} alone: {self.naive:+.3f}, which is not people's verdict."
        return text

    def __str__(self) -> str:
        return self.sentence


def draw_order(proxies: pd.DataFrame, *, seed: int = 0) -> list[str]:
    """Return in which order questions are labelled: every beginning of it has as many of each stratum
    as its part of all questions, drawn at random within.

    Strata are the values of the first proxy (of a difference: where a judge sees one, in either
    direction, and where not), or thirds of them where there are more than five.

    >>> judged = pd.DataFrame({"judge": [0.0, 0, 0, 1]}, index=["a", "b", "c", "d"])
    >>> order = draw_order(judged)
    >>> sorted(order), sum(i == "d" for i in order[:4])
    (['a', 'b', 'c', 'd'], 1)
    """
    rng = np.random.default_rng(seed)
    keys = np.empty(len(proxies))
    strata = _strata(_standardised(proxies))
    for stratum in np.unique(strata):
        [rows] = np.nonzero(strata == stratum)
        keys[rng.permutation(rows)] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return [str(proxies.index[i]) for i in np.argsort(keys, kind="stable")]


def estimate_difference(
    proxies: pd.DataFrame,
    labels: pd.Series[float],
    *,
    settled: Sequence[float] = (),
    margin: float = 0.02,
    alpha: float = 0.05,
) -> Trust:
    """Estimate the mean of people's values over all questions from some of them.

    Within strata (see `draw_order`) the labelled questions are a random sample. Predictions by the
    proxies (ridge regression, cross-fitted in five parts, shrunk by how well they follow people) take
    the place of what is not labelled; the mean error on the labelled ones corrects them, so that a
    biased judge biases nothing, and one that does not follow people has no weight (prediction-powered
    inference with power tuning, Angelopoulos, Duchi & Zrnic 2023). The squared errors have a quarter of
    a squared unit added, and up to four more where few labels differ, so that equal labels are no
    certainty. Where all questions are labelled the interval has no width; else it is that of a normal
    estimate with Student's quantiles, in the unit of the labels, and may pass the bounds of a measure.

    It is looked at after `FIRST` labels and then after every `STEP` (from 400 on a fortieth);
    labels between two looks wait for the next one. The looks share alpha (Lan & DeMets 1983,
    "Discrete sequential boundaries for clinical trials", Biometrika 70(3)): alpha I / (I + 100) is
    spent when n of N questions give the information I = n N / (N - n), and with probability 1 -
    alpha no look decides in the wrong direction. The interval is that of stage-wise order (Tsiatis,
    Rosner & Mehta 1984, Biometrics 40(3)), within the margin that of the order of estimates
    (Emerson & Fleming 1990, Biometrika 77(4)): it covers 1 - alpha where one stops when it is
    decided, or before for a reason that is not in the labels; more where a judge makes no error,
    since then nothing is left to chance. Who labels on after the decision gets the wider repeated
    interval (Jennison & Turnbull 1989), which holds at all looks at once.

    Args:
        proxies: a row per question (the index), a column per judge or heuristic: the same kind of
            value as the labels, such as the difference of two systems; NaN where there is none, and
            a column without any value is dropped.
        labels: question -> people's value, of the questions that are labelled, in the order in
            which they were labelled, which is that of `draw_order` or random.
        settled: values of further questions, which need no label: 0 where both answers are the
            same.
        margin: a difference that does not matter; a difference whose whole interval is within it is
            "within the margin", also where the interval excludes 0.
        alpha: probability of an error.

    >>> judged = pd.DataFrame({"judge": [1.0, 0, 0, 1, 0] * 60})
    >>> people = judged["judge"].iloc[:60]
    >>> trust = estimate_difference(judged, people)
    >>> trust.decision, trust.n_labelled, round(trust.difference, 2)
    ('better', 60, 0.4)

    Raises:
        DataError: a label of a question that the proxies do not have, or no question at all.
        ConfigError: margin or alpha is out of range.
    """
    check_alpha(alpha)
    if not 0 <= margin < 1:
        raise ConfigError(f"margin is {margin}; expected a number from 0 to below 1")
    if unknown_ids := sorted({*labels.index} - {*proxies.index}):
        raise DataError(
            f"{len(unknown_ids)} labels are of questions that are not compared, first {unknown_ids[0]!r}"
        )
    size, n, n_open = len(proxies) + len(settled), len(labels), len(proxies)
    if not size:
        raise DataError(
            "there is no question that both systems were asked and that can be labelled"
        )
    proxies = proxies.dropna(axis=1, how="all")
    share, known = n_open / size, sum(settled) / size
    naive = proxies.mean() * share + known
    about: tuple[str, float | None] = ("", None)
    if naive.iloc[:1].notna().any():  # not where all answers are the same
        about = str(naive.index[0]), float(naive.iloc[0])
    if n < min(FIRST, n_open):
        return Trust(size, n, None, None, None, "undecided", None, *about)
    if n == n_open:
        middle = float(labels.sum()) / size + known
        decision = _within(_decision(middle, 0.0, margin), middle, middle, margin)
        return Trust(size, n, middle, middle, middle, decision, 0, *about)
    looks, x = _looks(n_open, alpha), _standardised(proxies)
    strata = _strata(x)
    rows = proxies.index.get_indexer(labels.index)
    y = np.asarray(labels, dtype=np.float64)
    now = int(np.searchsorted(looks.counts, n, side="right")) - 1
    decided_after = None
    for look, count in enumerate(looks.counts[: now + 1]):
        middle, error = (share * part for part in _estimate(x, strata, rows[:count], y[:count]))
        middle += known
        freedom = count - strata.max() - 1
        reaches = -error * stdtrit(freedom, ndtr(-looks.limits))
        decision = _decision(middle, reaches[look], margin)
        if decided_after is None and decision != "undecided":
            decided_after = int(count)
    below = above = reaches[now]
    if decided_after in (None, count):
        z = np.clip(ndtri(stdtr(freedom, middle / error)), -8, 8)
        errors = margin / above * looks.limits[now] if decision == "within the margin" else 0.0
        distances = _distances(z, now, looks, alpha, errors)
        below, above = -error * stdtrit(freedom, ndtr(-distances))
    # from here on the error falls as that of n draws without replacement
    reaches *= np.sqrt(looks.information[now] / looks.information)
    later = zip(looks.counts[now:], reaches[now:], strict=True)
    until = (int(each) for each, reach in later if _decision(middle, reach, margin) != "undecided")
    more = max(next(until, n_open) - n, 0)
    limits = float(middle - below), float(middle + above)
    decision = _within(decision, *limits, margin)
    return Trust(size, n, middle, *limits, decision, more, *about, decided_after, n - int(count))


def _decision(middle: float, reach: float, margin: float) -> str:
    if abs(middle) > reach:
        return "better" if middle > 0 else "worse"
    return "within the margin" if abs(middle) + reach <= margin else "undecided"


def _within(decision: str, low: float, high: float, margin: float) -> str:
    """Return "within the margin" for a difference that is shown, and shown not to matter."""
    is_shown = decision in ("better", "worse")
    return "within the margin" if is_shown and -margin <= low and high <= margin else decision


def _strata(x: Floats) -> Ints:
    """Return the number of each question's stratum, by the first proxy."""
    first = x[:, :2][:, -1].round(9)
    levels = np.unique(first)
    if len(levels) > _MAX_LEVELS:
        levels = np.quantile(first, [1 / 3, 2 / 3])
    return np.searchsorted(levels, first)


class _Looks(NamedTuple):
    """The labels and the information at each look, and the |z| that decides."""

    counts: Ints
    information: Floats
    limits: Floats


@lru_cache(maxsize=64)
def _looks(size: int, alpha: float) -> _Looks:
    """Return the looks at draws from `size` questions, by numerical integration (Armitage, McPherson
    & Rowe 1969): the score is a Brownian motion in the time of the information.
    """
    counts = np.array([FIRST])
    while (after := counts[-1] + max(STEP, counts[-1] // 40)) < size:
        counts = np.append(counts, after)
    information = counts * size / (size - counts)
    levels = np.diff(alpha * information / (information + _HALF_SPENT), prepend=0.0)
    steps = np.sqrt(np.diff(information, prepend=0.0))
    scores, mass = np.zeros(1), np.ones(1)
    limits: list[float] = []
    for root, step, level in zip(np.sqrt(information), steps, levels, strict=True):
        limits.append(
            brentq(lambda z: 2 * mass @ ndtr((scores - z * root) / step) - level, 0, 12)  # noqa: B023
        )
        scores, mass = _left_open(scores, mass, step, 0.0, limits[-1] * root)
    return _Looks(counts, information, np.array(limits))


def _left_open(
    scores: Floats, mass: Floats, step: float, low: float, high: float
) -> tuple[Floats, Floats]:
    """Return the scores from low to high, of either sign, to which a step leads from these, with
    their probabilities where there is no difference.
    """
    half = (high - low) / 2
    after = low + half * (_NODES + 1)
    after = np.concatenate([-after, after])
    density = norm.pdf((after[:, None] - scores) / step) / step
    return after, half * np.tile(_WEIGHTS, 2) * (density @ mass)


def _distances(z: float, now: int, looks: _Looks, alpha: float, margin: float) -> Floats:
    """Return how many standard errors the confidence limits are below and above an estimate.

    The estimate is `z` errors from 0 at the look `now`, the first that decides. A limit is the true
    difference (drift) under which an outcome so large, or so small, has the probability alpha / 2.
    Outcomes are ordered from small to large: "worse", the later the larger; those within the margin,
    by the estimate at whichever look; "better", the earlier the larger (stage-wise order; with a
    margin: Emerson & Fleming 1990). `margin` is in errors of this look; 0 where it decided for
    "better" or "worse".
    """
    roots = np.sqrt(looks.information)
    # no outcome after this look can be larger, unless it ends within the margin
    limits = looks.limits if margin else np.append(looks.limits[:now], z)
    drifts = np.linspace(min(z, 0) - 6, max(z, 0) + 6, 200)
    slopes = drifts[:, None] / roots[now]  # of the score, per unit of information
    p_larger = np.zeros(len(drifts))
    scores, mass = np.zeros(1), np.ones(1)  # open before the look, without a drift
    information = 0.0
    for root, limit in zip(roots, limits, strict=False):
        step = math.sqrt(root**2 - information)
        ratios = _likelihood_ratios(slopes, scores, information)

        def p_beyond(bound: float) -> Floats:
            tails = ndtr((scores - bound * root) / step + slopes * step)  # noqa: B023
            beyond: Floats = (ratios * tails) @ mass  # noqa: B023
            return beyond

        half_width = max(min(margin * root / roots[now] - limit, limit), 0.0)  # of "within"
        this_estimate = np.clip(z * root / roots[now], -half_width, half_width)
        p_larger += p_beyond(limit)  # "better"
        p_larger += p_beyond(this_estimate)  # "within the margin", by a larger estimate ...
        p_larger -= p_beyond(half_width)  # ... which ends here
        scores, mass = _left_open(scores, mass, step, half_width * root, limit * root)
        information = root**2
        if not mass.any():
            break
    if margin:  # what is open to the end has no error: its estimate is the drift
        p_open = _likelihood_ratios(slopes, scores, information) @ mass
        p_larger += (drifts >= z) * p_open
    low, high = np.interp([alpha / 2, 1 - alpha / 2], p_larger, drifts)
    return np.array([z - low, high - z])


def _likelihood_ratios(slopes: Floats, scores: Floats, information: float) -> Floats:
    """Return how much likelier each score is under each drift than under none."""
    ratios: Floats = np.exp(slopes * scores - slopes**2 * information / 2)
    return ratios


def _standardised(proxies: pd.DataFrame) -> Floats:
    """Return the proxies in standard deviations, the mean for what is missing, after a column of 1."""
    x = proxies.fillna(proxies.mean()).to_numpy(float)
    deviations = x.std(axis=0) if len(x) else np.zeros(x.shape[1])
    x = x[:, deviations > 1e-9] / deviations[deviations > 1e-9]
    return np.column_stack([np.ones(len(x)), x])


def _estimate(x: Floats, strata: Ints, rows: Ints, y: Floats) -> tuple[float, float]:
    """Return the estimate of the mean over all questions, and its standard error."""
    sizes, counts = (
        np.bincount(part, minlength=strata.max() + 1) for part in (strata, strata[rows])
    )
    if (counts[sizes > 0] == 0).any():  # not yet one of each
        strata, sizes, counts = np.zeros_like(strata), np.array([len(strata)]), np.array([len(y)])
    inside = strata[rows]
    weight: Floats = (sizes / len(strata) / np.maximum(counts, 1))[inside]
    predicted, mean = _predicted(x, rows, y, weight)
    rest = y - predicted
    middle = float((weight * (mean + rest)).sum())
    means = np.bincount(inside, rest, len(sizes)) / np.maximum(counts, 1)
    squares = np.bincount(inside, (rest - means[inside]) ** 2, len(sizes))
    # differences of 0, 1/2 and 1 may be rare; of other values they are as large as those seen
    size = 1.0
    if not np.isin(2 * y, np.arange(-2, 3)).all():
        size = float((rest**4).sum() / (rest**2).sum())
    unseen = size * (_ALWAYS + _UNSEEN * math.exp(-len(y) * y.var() / size / _FADE))
    variances = (squares + unseen * sizes / len(strata)) / np.maximum(counts - 1, 1)
    left = 1 - counts / np.maximum(sizes, 1)
    parts = (sizes / len(strata)) ** 2 * left * variances / np.maximum(counts, 1)
    return middle, math.sqrt(parts.sum())


def _predicted(x: Floats, rows: Ints, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return what the proxies predict for the labelled rows, each by the others, and the mean of the
    same predictions over all rows.
    """
    ridge = np.diag([1e-9, *np.ones(x.shape[1] - 1)])
    predicted, means, center = np.empty(len(y)), np.empty(len(y)), x.mean(axis=0)
    for fold in range(_FOLDS):
        out = np.arange(len(y)) % _FOLDS == fold
        part, w = x[rows[~out]], weight[~out] / weight[~out].mean()
        slopes = np.linalg.solve(part.T @ (part * w[:, None]) + ridge, part.T @ (w * y[~out]))
        predicted[out], means[out] = x[rows[out]] @ slopes, center @ slopes
    off = predicted - np.average(predicted, weights=weight)
    variance = np.average(off**2, weights=weight)
    follows = np.average(off * y, weights=weight)
    kept = min(max(follows / variance, 0.0), 1.0) if variance > 1e-12 else 0.0
    return kept * predicted, kept * means
