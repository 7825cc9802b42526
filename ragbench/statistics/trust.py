"""The difference between two systems by people's verdicts, from labels of some questions and from
what judges or heuristics say of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragbench.array_types import Floats, Ints
from ragbench.errors import ConfigError, DataError
from ragbench.statistics.columns import check_alpha

FIRST = 20
"""Labelled questions from which on there is an interval."""

_FOLDS = 5
_MAX_LEVELS = 5  # values of a proxy that are strata of their own; more are cut into thirds
_TUNED = 15.0  # questions at which the interval is tightest for independent draws
_PRIOR = 4.0  # pseudo-observations, as of Agresti and Coull (1998)


@dataclass(frozen=True)
class Trust:
    """What labels by people show of a difference (or, of one system, of a mean).

    `difference` is by people's verdicts, over all `n` questions, with an interval that is valid
    whenever one stops, None before `FIRST` questions are labelled. `decision` is "better", "worse",
    "within the margin" or "undecided"; `more` is how many further questions will likely decide, None
    where that is not known. `naive` is the difference by the first `proxy` alone, which is not people's.
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
    strata = _strata(proxies)
    for stratum in np.unique(strata):
        [rows] = np.nonzero(strata == stratum)
        keys[rng.permutation(rows)] = (np.arange(len(rows)) + rng.random()) / len(rows)
    return [str(proxies.index[i]) for i in np.argsort(keys, kind="stable")]


def estimate_difference(
    proxies: pd.DataFrame,
    labels: pd.Series[float],
    *,
    n_settled: int = 0,
    margin: float = 0.02,
    alpha: float = 0.05,
) -> Trust:
    """Estimate the mean of people's values over all questions from some of them.

    Within strata (see `draw_order`) the labelled questions are a random sample. Predictions by the
    proxies (ridge regression, cross-fitted in five parts, shrunk by how well they follow people) take
    the place of what is not labelled; the mean error on the labelled ones corrects them, so that a
    biased judge biases nothing, and one that does not follow people has no weight (prediction-powered
    inference with power tuning, Angelopoulos, Duchi & Zrnic 2023). The interval is a confidence
    sequence from Robbins' normal mixture (Waudby-Smith et al. 2024, "Time-uniform central limit theory
    and asymptotic confidence sequences", Annals of Statistics 52(6)) for draws without replacement:
    with probability 1 - alpha it holds after every label at once, so that one may stop whenever it is
    decided. Variances have pseudo-observations, so that equal labels are no certainty. Where all
    questions are labelled it has no width.

    Args:
        proxies: a row per question (the index), a column per judge or heuristic: the same kind of
            value as the labels, such as the difference of two systems; NaN where there is none.
        labels: question -> people's value, of the questions that are labelled, drawn at random or in
            `draw_order`.
        n_settled: further questions whose value is 0 without a label, as both answers are the same.
        margin: a difference that does not matter. alpha: probability that the interval is ever wrong.

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
    size, n = len(proxies) + n_settled, len(labels)
    if not size:
        raise DataError(
            "there is no question that both systems were asked and that can be labelled"
        )
    if not len(proxies):  # all answers are the same
        return Trust(size, 0, 0.0, 0.0, 0.0, "within the margin", 0)
    share = len(proxies) / size
    middle, error = _estimate(proxies, labels)
    naive = proxies.mean() * share
    about = (str(naive.index[0]), float(naive.iloc[0])) if len(naive) else ()
    if n < min(FIRST, len(proxies)):
        return Trust(size, n, None, None, None, "undecided", None, *about)
    ns = np.arange(n, len(proxies) + 1)
    factors = _factors(ns, len(proxies), proxies.shape[1] + 3, alpha)
    # from here on the error falls as that of n draws without replacement
    spreads = np.sqrt(np.maximum(1 / ns - 1 / len(proxies), 0))
    reaches = share * error * factors * spreads / (spreads[0] or 1.0)
    middle *= share
    low, high = middle - reaches[0], middle + reaches[0]
    is_decided = (abs(middle) > reaches) | (abs(middle) + reaches <= margin)
    decision = "better" if low > 0 else "worse" if high < 0 else "within the margin"
    if not is_decided[0] and n < len(proxies):
        decision = "undecided"
    more = int(is_decided.argmax()) if is_decided.any() else int(ns[-1] - n)
    return Trust(size, n, middle, low, high, decision, more, *about)


def _strata(proxies: pd.DataFrame) -> Ints:
    """Return the number of each question's stratum."""
    if not proxies.shape[1]:
        return np.zeros(len(proxies), dtype=np.int64)
    first = proxies.iloc[:, 0].fillna(proxies.iloc[:, 0].mean()).fillna(0.0).round(9)
    levels = np.unique(first)
    if len(levels) > _MAX_LEVELS:
        levels = np.quantile(first, [1 / 3, 2 / 3])
    return np.searchsorted(levels, first)


def _factors(ns: Ints, size: int, lost: int, alpha: float) -> Floats:
    """Return by how much the interval after n of `size` draws exceeds one standard error."""
    from scipy.stats import norm, t

    information = ns * size / np.maximum(size - ns, 0.5) / _TUNED
    factors = np.sqrt((1 + 1 / information) * (np.log1p(information) - 2 * math.log(alpha)))
    return np.asarray(t.isf(norm.sf(factors), np.maximum(ns - lost, 2)), dtype=float)


def _estimate(proxies: pd.DataFrame, labels: pd.Series[float]) -> tuple[float, float]:
    """Return the estimate of the mean over all rows of the proxies, and its standard error."""
    rows = proxies.index.get_indexer(labels.index)
    y: Floats = np.asarray(labels, dtype=np.float64)
    strata = _strata(proxies)
    sizes, counts = (
        np.bincount(part, minlength=strata.max() + 1) for part in (strata, strata[rows])
    )
    if len(y) < _FOLDS or (counts[sizes > 0] == 0).any():  # not yet one of each
        strata, sizes, counts = np.zeros_like(strata), np.array([len(strata)]), np.array([len(y)])
    if not len(y):
        return math.nan, math.nan
    inside = strata[rows]
    weight: Floats = (sizes / len(strata) / np.maximum(counts, 1))[inside]
    predicted, mean = _predicted(proxies, rows, y, weight)
    rest = y - predicted
    middle = float((weight * (mean + rest)).sum())
    means = np.bincount(inside, rest, len(sizes)) / np.maximum(counts, 1)
    squares = np.bincount(inside, (rest - means[inside]) ** 2, len(sizes))
    # differences of 0, 1/2 and 1 may be rare, of other values as large as what was seen
    largest = 1.0 if np.isin(2 * y, np.arange(-2, 3)).all() else float((rest**2).max())
    prior = _PRIOR * sizes / len(strata)
    freedom = np.maximum(counts - 1, 0) + prior / 2
    variances = (squares + largest * prior / 4) / np.maximum(freedom, 1e-9)
    left = 1 - counts / np.maximum(sizes, 1)
    parts = (sizes / len(strata)) ** 2 * left * variances / np.maximum(counts, 1)
    return middle, math.sqrt(parts.sum())


def _predicted(
    proxies: pd.DataFrame, rows: Ints, y: Floats, weight: Floats
) -> tuple[Floats, Floats]:
    """Return what the proxies predict for the labelled rows, each by the others, and the mean of the
    same predictions over all rows.
    """
    x = proxies.to_numpy(float)
    x = np.where(np.isnan(x), np.nanmean(x, axis=0) if len(x) else 0.0, x)
    deviations = x.std(axis=0)
    x = x[:, deviations > 1e-9] / deviations[deviations > 1e-9]
    if len(y) < 2 * _FOLDS or not x.shape[1]:
        return np.zeros(len(y)), np.zeros(len(y))
    x = np.column_stack([np.ones(len(x)), x])
    ridge = np.diag([1e-9, *np.ones(x.shape[1] - 1)])
    predicted, means = np.empty(len(y)), np.empty(len(y))
    for fold in range(_FOLDS):
        out = np.arange(len(y)) % _FOLDS == fold
        part, w = x[rows[~out]], weight[~out] / weight[~out].mean()
        slopes = np.linalg.solve(part.T @ (part * w[:, None]) + ridge, part.T @ (w * y[~out]))
        predicted[out], means[out] = x[rows[out]] @ slopes, (x @ slopes).mean()
    center = np.average(predicted, weights=weight)
    variance = np.average((predicted - center) ** 2, weights=weight)
    follows = np.average((predicted - center) * y, weights=weight)
    kept = min(max(follows / variance, 0.0), 1.0) if variance > 1e-12 else 0.0
    return kept * predicted, kept * means
