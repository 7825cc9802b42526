"""The difference between two systems by people's verdicts, from labels of some questions and from
the verdicts of judges or heuristics on all: the estimate, and when labels suffice.
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

from ragbench.array_types import Floats, Ints
from ragbench.errors import ConfigError, DataError
from ragbench.hints.attributes import suggesting
from ragbench.statistics.columns import check_alpha
from ragbench.statistics.thresholds import ALPHA, MARGIN

FIRST = 20
"""The smallest number of labelled questions with an interval."""

STEP = 10
"""Labelled questions from one look to the next, from 400 on a fortieth of them; labels in between
wait for the next look.
"""

_FOLDS = 5
_MAX_LEVELS = 5  # so many values of a proxy are separate strata; more are cut into thirds
_INFORMATION_AT_HALF_ALPHA = 100.0  # looks up to this information share half of alpha
# of the integration over the scores that earlier looks left open, of either sign
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
# pseudo-observations of an error of 1: so many always, ...
_ALWAYS = 0.25
_UNSEEN = 4.0  # ... so many more where all labels are equal, ...
_FADE = 2.0  # ... which fade as this many labels differ


@suggesting()
@dataclass(frozen=True)
class Trust:
    """The difference of two systems (or the mean of one) by people's verdicts, estimated from labels.

    `difference` is the mean over all `n` questions, with an interval that is valid when one stops;
    all three are None before `FIRST` questions are labelled. `decision` is "better", "worse", "within
    the margin" or "undecided", and `decided_after` the number of labels at the first look that
    decided (None: no look). `more` is the number of further labels that will likely decide, None if
    it is not known; `n_waiting` labels wait for the next look. `naive` is the difference by the first
    `proxy` alone, which is not people's verdict; None without a proxy.
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

    def __bool__(self) -> bool:
        raise ConfigError(
            "trust is neither true nor false; write trust.decision in ('better', 'within the margin')"
        )

    @property
    def sentence(self) -> str:
        """Return the decision in words, with the difference, its interval, and the number of labels
        that are likely to be missing.
        """
        if self.difference is None or self.ci_low is None or self.ci_high is None:
            text = f"Undecided: {self.n_labelled} of {self.n} questions are labelled by people"
            text += f"; an interval needs at least {min(FIRST, self.n)}."
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

    def __repr__(self) -> str:
        return self.sentence


def draw_order(proxies: pd.DataFrame, *, seed: int = 0) -> list[str]:
    """Return the questions in the order in which people are to label them.

    For every n, the first n questions have about the same fraction of each stratum (group of questions)
    as all questions; the order within a stratum is random. A proxy is the value of a judge or a
    heuristic for each question. A stratum has the questions with the same value of the first proxy, such
    as those on which a judge sees a gain; if that proxy has more than five values, a stratum has a
    third of the questions, in the order of their values.

    >>> judged = pd.DataFrame({"judge": [0.0, 0, 0, 1]}, index=["a", "b", "c", "d"])
    >>> order = draw_order(judged)
    >>> sorted(order), sum(i == "d" for i in order[:4])
    (['a', 'b', 'c', 'd'], 1)
    """
    rng = np.random.default_rng(seed)
    places = np.empty(len(proxies))  # in the order, from 0 to 1
    strata = _strata(_standardised(proxies))  # the number of each question's stratum
    for stratum in np.unique(strata):
        [rows] = np.nonzero(strata == stratum)
        # spread evenly over the order, from a random start on
        places[rng.permutation(rows)] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return [str(proxies.index[i]) for i in np.argsort(places, kind="stable")]


def estimate_difference(
    proxies: pd.DataFrame,
    labels: pd.Series[float],
    *,
    settled: Sequence[float] = (),
    margin: float = MARGIN,
    alpha: float = ALPHA,
) -> Trust:
    """Estimate the mean of people's values over all questions from the labels of some of them.

    The estimate: the proxies (values that are known without people, such as a judge's verdicts)
    predict a label for every question, and the mean of the predictions is corrected by their mean
    error on the labelled questions (prediction-powered inference with power tuning, Angelopoulos,
    Duchi & Zrnic 2023). So a biased judge biases nothing, and a judge that does not follow people
    has no weight. The labelled questions must be a random sample within strata (see `draw_order`).
    Predictions are by ridge regression, cross-fitted in five parts, and shrunk by how well they
    follow people.

    The looks: a look is a test whether the labels so far decide. It is taken after `FIRST` labels, and
    then after every `STEP` (from 400 on a fortieth); labels between two looks wait for the next one.
    With probability 1 - alpha no look decides in the wrong direction, because the looks share alpha:
    alpha I / (I + 100) is spent when n of N questions give the information I = n N / (N - n) (Lan &
    DeMets 1983, "Discrete sequential boundaries for clinical trials", Biometrika 70(3)).

    The interval has Student's quantiles, in the unit of the labels; it may pass the bounds of a
    measure. It has no width if all questions are labelled. Equal labels alone are no certainty, so
    something is added to the squared errors (`_unseen_squares`). The interval covers 1 - alpha if
    labelling stops at the decision, or before it for a reason that is not in the labels: it is the
    stage-wise interval (Tsiatis, Rosner & Mehta 1984, Biometrics 40(3)), in which results "within the
    margin" are ordered by their estimates (Emerson & Fleming 1990, Biometrika 77(4)). After labelling
    beyond the decision, it is the wider repeated interval (Jennison & Turnbull 1989), which holds at
    all looks at once.

    Args:
        proxies: a row per question (the index), a column per judge or heuristic: the same kind of
            value as the labels, such as the difference of two systems; NaN for a missing value. A
            column without any value is dropped.
        labels: question -> people's value for the labelled questions, in the order of labelling,
            which is the order of `draw_order` or random.
        settled: values of further questions, which need no label: 0 if both answers are the same.
        margin: a difference that does not matter; a difference whose whole interval is within it is
            "within the margin", also where the interval excludes 0.
        alpha: the probability of a decision in the wrong direction.

    >>> judged = pd.DataFrame({"judge": [1.0, 0, 0, 1, 0] * 60})
    >>> people = judged["judge"].iloc[:60]
    >>> trust = estimate_difference(judged, people)
    >>> trust.decision, trust.n_labelled, round(trust.difference, 2)
    ('better', 60, 0.4)

    Raises:
        DataError: a label is of a question without a row in the proxies, or there is no question.
        ConfigError: margin or alpha is out of range.
    """
    check_alpha(alpha)
    if not 0 <= margin < 1:
        raise ConfigError(f"margin is {margin}; expected a number from 0 to below 1")
    _check_questions(proxies, labels, len(settled))
    n = len(labels)
    n_open = len(proxies)
    size = n_open + len(settled)
    # The mean over all questions is a sum: fraction_open * (mean of the open questions, which need
    # labels: it is estimated) + settled_addend (known).
    proxies = proxies.dropna(axis=1, how="all")
    fraction_open = n_open / size
    settled_addend = sum(settled) / size
    proxy, naive = _first_proxy(proxies.mean() * fraction_open + settled_addend)
    if n < min(FIRST, n_open):  # too few for an interval
        return Trust(size, n, None, None, None, "undecided", None, proxy, naive)
    if n == n_open:  # the mean is known
        mean = float(labels.sum()) / size + settled_addend
        decision = _or_within_margin(_decision(mean, 0.0, margin), mean, mean, margin)
        return Trust(size, n, mean, mean, mean, decision, 0, proxy, naive)
    # Repeat every look that was due by now, each with the labels until then.
    looks = _looks(n_open, alpha)
    taken = _looks_taken(proxies, labels, looks, margin, fraction_open, settled_addend)
    deciding = [look for look in taken if look.decision != "undecided"]
    decided_after = deciding[0].n_labels if deciding else None
    last = taken[-1]
    low, high = _interval_at(last, decided_after, looks, alpha, margin)
    n_to_decide = _labels_to_decide(last, looks, margin)
    if n_to_decide is None:  # no look is expected to decide: all questions must be labelled
        n_to_decide = n_open
    return Trust(
        n=size,
        n_labelled=n,
        difference=last.middle,
        ci_low=low,
        ci_high=high,
        decision=_or_within_margin(last.decision, low, high, margin),
        more=max(n_to_decide - n, 0),
        proxy=proxy,
        naive=naive,
        decided_after=decided_after,
        n_waiting=n - last.n_labels,
    )


class _LookTaken(NamedTuple):
    """The estimate at a look (an interim test after some of the labels), and its decision.

    Attributes:
        number: of the look, from 0 on.
        n_labels: the number of labels that it uses.
        middle: the estimate of the mean over all questions.
        error: its standard error.
        freedom: its degrees of freedom, for Student's distribution.
        half_widths: the half widths that the repeated interval would have at every look of the plan,
            if each had this error (looks,). The one of this look decides; from those of later looks it
            is foreseen when labels decide (`_labels_to_decide`).
        decision: "better", "worse", "within the margin" or "undecided".
    """

    number: int
    n_labels: int
    middle: float
    error: float
    freedom: int
    half_widths: Floats
    decision: str


def _looks_taken(
    proxies: pd.DataFrame,
    labels: pd.Series[float],
    looks: _Looks,
    margin: float,
    fraction_open: float,
    settled_addend: float,
) -> list[_LookTaken]:
    """Return the looks (interim tests) that were due by now, in order; each uses the labels until then.

    Args:
        proxies: the values of judges, a row per question that needs a label.
        labels: question -> people's value, in the order of labelling.
        looks: the plan: the number of labels and the limit of each look.
        margin: a difference that does not matter.
        fraction_open: the fraction of all questions that need a label.
        settled_addend: what the other questions add to the mean over all questions: the sum of their
            values, divided by the number of all questions.
    """
    x = _standardised(proxies)
    strata = _strata(x)  # the number of each question's stratum, from 0 on
    n_strata = strata.max() + 1
    rows = proxies.index.get_indexer(labels.index)  # of each label's question, among the proxies
    y = np.asarray(labels, dtype=np.float64)
    taken = []
    for number, n_labels in enumerate(looks.counts[looks.counts <= len(labels)]):
        open_mean, open_error = _estimate(x, strata, rows[:n_labels], y[:n_labels])
        middle = fraction_open * open_mean + settled_addend
        error = fraction_open * open_error
        freedom = n_labels - n_strata  # degrees of freedom
        # The limits are normal quantiles; Student's take their place, because the error is estimated
        # (ndtr: the probability of a normal quantile; stdtrit: Student's quantile of a probability).
        half_widths = -error * stdtrit(freedom, ndtr(-looks.limits))
        decision = _decision(middle, half_widths[number], margin)
        look = _LookTaken(number, int(n_labels), middle, error, freedom, half_widths, decision)
        taken.append(look)
    return taken


def _interval_at(
    look: _LookTaken, decided_after: int | None, looks: _Looks, alpha: float, margin: float
) -> tuple[float, float]:
    """Return the interval at the last look (interim test) taken.

    If no earlier look decided, it is the stage-wise interval, which holds if labelling stops at the
    decision. After labelling beyond the decision it is the wider repeated interval, which holds at
    all looks at once. `decided_after` is the number of labels at the first look that decided; None if
    no look did.
    """
    no_earlier_look_decided = decided_after in (None, look.n_labels)
    if no_earlier_look_decided:
        return _stagewise_interval(look, looks, alpha, margin)
    half_width = look.half_widths[look.number]
    return float(look.middle - half_width), float(look.middle + half_width)


def _stagewise_interval(
    look: _LookTaken, looks: _Looks, alpha: float, margin: float
) -> tuple[float, float]:
    """Return the stage-wise interval (low, high) of a look.

    This interval allows for the earlier looks, which could have decided and did not. It is computed for
    a normal estimate (`_stagewise_distances`), but the error of the estimate is estimated, too. So the
    estimate in standard errors is translated from Student's distribution to the normal one, and the
    distances of the limits are translated back.
    """
    # stdtr: Student's probability; ndtri: normal quantile; beyond 8 it is infinite in floating point
    z = np.clip(ndtri(stdtr(look.freedom, look.middle / look.error)), -8, 8)
    margin_in_errors = 0.0  # 0: the look did not decide "within the margin"
    if look.decision == "within the margin":
        # the half width of this look is `limit` standard errors of the normal estimate
        margin_in_half_widths = margin / look.half_widths[look.number]
        margin_in_errors = margin_in_half_widths * looks.limits[look.number]
    distances = _stagewise_distances(z, look.number, looks, alpha, margin_in_errors)
    below, above = -look.error * stdtrit(look.freedom, ndtr(-distances))
    return float(look.middle - below), float(look.middle + above)


def _check_questions(proxies: pd.DataFrame, labels: pd.Series[float], n_settled: int) -> None:
    """Raise DataError if a label is of a question without a row in the proxies, or there is no
    question.
    """
    if unknown_ids := sorted({*labels.index} - {*proxies.index}):
        raise DataError(
            f"{len(unknown_ids)} labels are of questions that are not compared, first {unknown_ids[0]!r}"
        )
    if len(proxies) + n_settled == 0:
        raise DataError(
            "there is no question that both systems were asked and that can be labelled"
        )


def _first_proxy(means: pd.Series[float]) -> tuple[str, float | None]:
    """Return the name and the mean of the first proxy; ("", None) if all answers are the same."""
    if not means.iloc[:1].notna().any():
        return "", None
    return str(means.index[0]), float(means.iloc[0])


def _labels_to_decide(last: _LookTaken, looks: _Looks, margin: float) -> int | None:
    """Return the number of labels at the first look that would decide if the estimate stays as it is,
    from the last look taken on; None if no look would.

    Half widths are expected to fall as the root of the information grows.
    """
    now = last.number
    expected = last.half_widths * np.sqrt(looks.information[now] / looks.information)
    for count, half_width in zip(looks.counts[now:], expected[now:], strict=True):
        if _decision(last.middle, half_width, margin) != "undecided":
            return int(count)
    return None


def _decision(middle: float, half_width: float, margin: float) -> str:
    """Return the decision of an estimate with the interval `middle` +- `half_width`."""
    if abs(middle) > half_width:
        return "better" if middle > 0 else "worse"
    return "within the margin" if abs(middle) + half_width <= margin else "undecided"


def _or_within_margin(decision: str, low: float, high: float, margin: float) -> str:
    """Return the decision of a look, or "within the margin" if the look decided "better" or "worse" by a
    difference that does not matter: one whose whole interval is within the margin.
    """
    if decision in ("better", "worse") and -margin <= low and high <= margin:
        return "within the margin"
    return decision


def _strata(x: Floats) -> Ints:
    """Return the number of each question's stratum (questions,): by the values of the first proxy, or
    by thirds of them if there are more than five; without a proxy all questions are one stratum.

    `x` is the table of `_standardised`: a column of 1, then the proxies.
    """
    has_proxy = x.shape[1] > 1
    first_proxy = x[:, 1 if has_proxy else 0].round(9)
    levels = np.unique(first_proxy)
    if len(levels) > _MAX_LEVELS:
        levels = np.quantile(first_proxy, [1 / 3, 2 / 3])
    return np.searchsorted(levels, first_proxy)


class _Looks(NamedTuple):
    """The number of labels and the information at each look, and the |z| from which a look decides;
    all (looks,).
    """

    counts: Ints
    information: Floats
    limits: Floats


@lru_cache(maxsize=64)
def _looks(size: int, alpha: float) -> _Looks:
    """Plan the looks of a sequential test, which may decide at each of them, while `size` questions are
    labelled one after the other.

    A look has a number of labels, an information (about the number of labels; more if few questions are
    left), and a limit: it decides if the estimate is more than this number of standard errors from 0.
    Over all looks a false decision has the probability `alpha`: each look spends a part of it, as the
    information grows.

    The limits are found by numerical integration (Armitage, McPherson & Rowe 1969). The score (the
    estimate times the information) is a Brownian motion whose time is the information.
    """
    # with all questions labelled the information would be infinite: the mean is known then
    counts = _label_counts(size)
    information = counts * size / (size - counts)
    # the part of alpha that all looks up to each one may use
    spent = alpha * information / (information + _INFORMATION_AT_HALF_ALPHA)
    undecided = _START  # the distribution of the score where no look so far has decided
    limits: list[float] = []
    for information_now, alpha_of_look in zip(
        information, np.diff(spent, prepend=0.0), strict=True
    ):
        limit = _limit_with_level(undecided, information_now, alpha_of_look)
        limits.append(limit)
        standard_error = math.sqrt(information_now)  # of the score
        # undecided here, too: an absolute score up to the limit
        undecided = undecided.at_look(information_now, low=0.0, high=limit * standard_error)
    return _Looks(counts, information, np.array(limits))


def _label_counts(size: int) -> Ints:
    """Return the numbers of labels after which a look is taken, below `size`; `FIRST` at any rate."""
    counts = [FIRST]
    while True:  # from 400 labels on, the steps grow with the number of labels
        count = counts[-1] + max(STEP, counts[-1] // 40)
        if count >= size:
            return np.array(counts)
        counts.append(count)


class _Undecided(NamedTuple):
    """The distribution of the score where no look has decided, if there is no difference: some `scores`
    (the nodes of a quadrature), their probabilities `mass` (scores,), and the information at the last
    look. `mass` adds up to the probability that no look has decided.
    """

    scores: Floats
    mass: Floats
    information: float

    def at_look(self, information: float, low: float, high: float) -> _Undecided:
        """Return the distribution of the score at the next look, where that look is undecided, too: where
        the absolute score is from `low` to `high`.

        From this look to the next, the score changes by a normal step. Its density is an integral over
        the old scores, which is computed as a weighted sum over nodes (Gauss's quadrature).

        Args:
            information: the information at the next look.
            low: the smallest absolute score for which the next look is undecided.
            high: the largest one.
        """
        deviation = math.sqrt(information - self.information)  # of the step
        half = (high - low) / 2
        positive = low + half * (_NODES + 1)  # the nodes, moved from [-1, 1] to [low, high]
        scores = np.concatenate([-positive, positive])
        steps = (scores[:, None] - self.scores) / deviation
        # the normal density of each step (new scores, old scores)
        density = np.exp(-(steps**2) / 2) / math.sqrt(2 * math.pi) / deviation
        mass = half * np.tile(_WEIGHTS, 2) * (density @ self.mass)
        return _Undecided(scores, mass, information)


_START = _Undecided(scores=np.zeros(1), mass=np.ones(1), information=0.0)


def _limit_with_level(undecided: _Undecided, information: float, level: float) -> float:
    """Return the limit of the next look, in standard errors of the score: if there is no difference,
    `level` is the probability that no earlier look decides and that the absolute score of the next
    look is above the limit.

    Args:
        undecided: some scores at the last look for which it is undecided, and their probabilities.
        information: the information at the next look, which is also the variance of the score there.
        level: the probability.
    """
    standard_error = math.sqrt(information)
    # from the last look to the next, the score changes by a normal step of this deviation
    step_deviation = math.sqrt(information - undecided.information)

    def excess(limit: float) -> float:
        """Compute how far the probability of a score beyond a limit is above `level`."""
        # from each score at the last look, the probability of a step that ends above the limit
        p_from_scores = ndtr((undecided.scores - limit * standard_error) / step_deviation)
        p_above: float = undecided.mass @ p_from_scores
        return float(2 * p_above - level)  # below the negative limit the score is as likely

    # no level is so small that its limit is at more than 12 standard errors
    return float(brentq(excess, 0, 12))


def _stagewise_distances(z: float, now: int, looks: _Looks, alpha: float, margin: float) -> Floats:
    """Return how far the two confidence limits are below and above the estimate at the look `now`: the
    first that decides, or the last one. All distances are in standard errors at this look.

    The lower limit is the true difference (drift) for which an outcome at least as large as the observed
    one has the probability alpha / 2. The upper limit is the drift for which an outcome at least as small
    has this probability. The order of the outcomes, from small to large (stage-wise order; with a margin:
    Emerson & Fleming 1990):

    1. "worse", where a later look is larger;
    2. "within the margin" at any look, where a larger estimate is larger;
    3. "better", where an earlier look is larger.

    With a margin all looks are planned; if none of them decides, all questions are labelled, and the
    estimate is the drift. With the margin 0 the looks end with `now`, where a larger estimate is larger.

    Args:
        z: the observed estimate.
        margin: the margin; 0 if the look decided for "better" or "worse", or if no look decided.
    """
    roots = np.sqrt(looks.information)
    if margin:
        limits = looks.limits
    else:  # the looks end with this one: every score above the observed one is a larger outcome
        limits = np.append(looks.limits[:now], z)
    drifts = np.linspace(min(z, 0) - 6, max(z, 0) + 6, 200)  # to try: limits are interpolated
    slopes = drifts[:, None] / roots[now]  # of the score, per unit of information
    p_larger = np.zeros(len(drifts))  # the probability of a larger outcome for each drift
    undecided = _START
    for root, limit in zip(roots, limits, strict=False):
        # the margin and the observed estimate, in standard errors at this look of the loop
        margin_here = margin * root / roots[now]
        z_here = z * root / roots[now]
        # This look decides "within the margin" for estimates from -within to within: there the whole
        # interval (estimate +- limit) is inside the margin. If `within` is 0, it cannot decide so.
        within = max(min(margin_here - limit, limit), 0.0)
        # order 3: "better" at this look
        p_larger += _p_of_score_above(limit, undecided, root, slopes)
        # order 2: "within the margin", by an estimate from the observed one up to `within`
        observed_or_end = np.clip(z_here, -within, within)
        p_larger += _p_of_score_above(observed_or_end, undecided, root, slopes)
        p_larger -= _p_of_score_above(within, undecided, root, slopes)
        # this look is undecided between "within the margin" and the limit, on both sides
        undecided = undecided.at_look(root**2, low=within * root, high=limit * root)
        if not undecided.mass.any():
            break
    if margin:  # if no look decides, all questions are labelled, and the estimate is the drift
        p_open = _likelihood_ratios(slopes, undecided) @ undecided.mass
        p_larger += np.where(drifts >= z, p_open, 0.0)
    low, high = np.interp([alpha / 2, 1 - alpha / 2], p_larger, drifts)
    return np.array([z - low, high - z])


def _p_of_score_above(z: float, undecided: _Undecided, root: float, slopes: Floats) -> Floats:
    """Return the probability that no look so far decides, and that the score (with its sign) at the next
    look is above `z` standard errors; for each true difference (drifts,).

    Args:
        root: the root of the information at the next look.
        slopes: the growth of the score per unit of information for each true difference (drifts, 1).
    """
    step = math.sqrt(root**2 - undecided.information)
    tails = ndtr((undecided.scores - z * root) / step + slopes * step)
    beyond: Floats = (_likelihood_ratios(slopes, undecided) * tails) @ undecided.mass
    return beyond


def _likelihood_ratios(slopes: Floats, undecided: _Undecided) -> Floats:
    """Return how much likelier each score is with each slope than without one (drifts, scores).

    It is the likelihood ratio of a Brownian motion with and without a drift, which depends on the last
    score alone.
    """
    ratios: Floats = np.exp(slopes * undecided.scores - slopes**2 * undecided.information / 2)
    return ratios


def _standardised(proxies: pd.DataFrame) -> Floats:
    """Return the proxies in standard deviations after a column of 1, (questions, 1 + proxies); the
    mean replaces missing values, proxies without variation are left out.
    """
    x = proxies.fillna(proxies.mean()).to_numpy(float)
    deviations = x.std(axis=0) if len(x) else np.zeros(x.shape[1])
    varies = deviations > 1e-9
    x = x[:, varies] / deviations[varies]
    return np.column_stack([np.ones(len(x)), x])


def _estimate(x: Floats, strata: Ints, rows: Ints, y: Floats) -> tuple[float, float]:
    """Estimate the mean label of all questions from the labels of some; return it with its standard
    error.

    A label is predicted from the question's proxies (the values of judges); the mean of all predictions
    is corrected by their mean error on the labelled questions, in each stratum (a group of questions
    of which a random sample is labelled).

    Args:
        x: the proxies of all questions (questions, 1 + proxies), see `_standardised`.
        strata: the stratum of each question (questions,).
        rows: the positions of the labelled questions (labels,).
        y: their labels (labels,).
    """
    n = len(strata)
    sizes = np.bincount(strata)  # questions in each stratum
    counts = np.bincount(strata[rows], minlength=len(sizes))  # labels in each stratum
    if (counts[sizes > 0] == 0).any():  # a stratum without a label: do without strata
        strata = np.zeros_like(strata)
        sizes = np.array([n])
        counts = np.array([len(y)])
    stratum = strata[rows]  # of each label
    # each label stands for its part of the stratum; the weights sum to 1
    weight: Floats = (sizes / n / np.maximum(counts, 1))[stratum]
    predicted, mean_predicted = _predicted(x, rows, y, weight)
    # the mean prediction, corrected by the mean error of the predictions where people labelled
    errors = y - predicted
    middle = float((weight * (mean_predicted + errors)).sum())
    return middle, _stratified_error(errors, stratum, sizes, _unseen_squares(y, errors))


def _stratified_error(errors: Floats, stratum: Ints, sizes: Ints, unseen_squares: float) -> float:
    """Return the standard error of the mean prediction error over all questions.

    It is estimated from the labelled questions, which are a random sample of each stratum (group of
    questions), without replacement: a stratum whose questions are all labelled adds no error.

    Args:
        errors: of the predicted labels (labels,).
        stratum: the number of each label's stratum (labels,).
        sizes: the number of questions in each stratum (strata,).
        unseen_squares: the amount that is added to the sum of the squared errors.
    """
    n = sizes.sum()
    counts = np.bincount(stratum, minlength=len(sizes))  # labels in each stratum
    mean_errors = np.bincount(stratum, errors, len(sizes)) / np.maximum(counts, 1)
    squares = np.bincount(stratum, (errors - mean_errors[stratum]) ** 2, len(sizes))
    variances = (squares + unseen_squares * sizes / n) / np.maximum(counts - 1, 1)
    # of each stratum: its part of the squared error of the mean
    unlabelled = 1 - counts / np.maximum(sizes, 1)
    squared_errors = (sizes / n) ** 2 * unlabelled * variances / np.maximum(counts, 1)
    return math.sqrt(squared_errors.sum())


def _unseen_squares(y: Floats, errors: Floats) -> float:
    """Return the amount to add to the sum of squared errors of predicted labels, so that equal labels are no
    certainty: a part of one squared unit, and more where few labels differ.
    """
    unit = 1.0
    # Labels that are all among 0, +-1/2 and +-1 may hide a rare difference of 1, so the unit is 1.
    # Other labels hide nothing larger than the observed values, so these give the unit.
    if not np.isin(2 * y, np.arange(-2, 3)).all():
        unit = float((errors**4).sum() / (errors**2).sum())
    n_differing = len(y) * y.var() / unit
    return unit * (_ALWAYS + _UNSEEN * math.exp(-n_differing / _FADE))


def _predicted(x: Floats, rows: Ints, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Predict people's labels from the proxies (the values of judges) by ridge regression.

    The labels are divided into folds, and a label is predicted by slopes that are fitted to the other
    folds (cross-fitting), so that no label helps to predict itself. The predictions are shrunk towards
    0 as far as they do not follow the labels.

    Args:
        weight: the weight of each label (labels,).
        x, rows, y: as in `_estimate`.

    Returns:
        The prediction of each labelled question (labels,), and the mean over all questions of the
        predictions by the same slopes (labels,).
    """
    mean_proxies = x.mean(axis=0)
    predicted = np.empty(len(y))
    means = np.empty(len(y))
    # each fold is predicted by slopes from the other folds
    fold_of = np.arange(len(y)) % _FOLDS
    for fold in range(_FOLDS):
        in_fold = fold_of == fold
        others = ~in_fold
        slopes = _ridge_slopes(x[rows[others]], y[others], weight[others])
        predicted[in_fold] = x[rows[in_fold]] @ slopes
        means[in_fold] = mean_proxies @ slopes
    deviation = predicted - np.average(predicted, weights=weight)
    variance = np.average(deviation**2, weights=weight)
    if variance <= 1e-12:  # equal predictions tell nothing about single questions
        return 0.0 * predicted, 0.0 * means
    covariance = np.average(deviation * y, weights=weight)
    # how far the predictions follow the labels: the slope of the labels on them, from 0 to 1
    trust = min(max(covariance / variance, 0.0), 1.0)
    return trust * predicted, trust * means


def _ridge_slopes(x: Floats, y: Floats, weight: Floats) -> Floats:
    """Return the slopes of a weighted ridge regression of y on x (labels, slopes), whose first column
    is the intercept, which is not penalised.
    """
    # the penalty of each slope; almost none for the intercept, enough that the system can be solved
    ridge = np.diag([1e-9, *np.ones(x.shape[1] - 1)])
    relative_weight = weight / weight.mean()
    gram = x.T @ (x * relative_weight[:, None])
    slopes: Floats = np.linalg.solve(gram + ridge, x.T @ (relative_weight * y))
    return slopes
