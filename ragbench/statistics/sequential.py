"""The mean of people's verdicts over a finite set of questions, from labels that come in batches,
with a judge as control variate and an interval that holds whenever one stops.

Each batch is a systematic sample of the questions that are still open, sorted by the judge's
difference of the two configurations: every open question has the same probability, and every
level of the judge its part of the batch. With a batch come an estimate and an interval:

- The estimate is the regression estimator of survey sampling (Cochran 1977, "Sampling Techniques",
  chapter 7): the mean of d - b x over the labelled plus the mean of b x over all questions, where d
  is the difference of people's verdicts and x those of one or several judges. The ridge of b is
  chosen by leave-one-out residuals, and b = 0 is among the choices, so that a useless judge costs
  nothing but the attempt.
- Its variance is that of the leave-one-out residuals without replacement. Verdicts whose
  differences are mostly 0 hide what has not occurred yet: pseudo-observations of the size of a
  typical difference are added, two where there was none and fewer the more there were.
- The limits spend alpha over the batches (Lan & DeMets 1983), n / (n + 60) of it by n labels. The
  critical values are quantiles of simulated t statistics of normal data, drawn without replacement.

Medians of labels until a decision (200 draws of "good judge" in tests/statistics/test_sequential.py):
60 with the judge, 120 without; by betting (Waudby-Smith & Ramdas 2024) 160 and 150. An asymptotic
confidence sequence needs as many as this one, and holds in 56 % where differences are rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragbench.statistics.columns import Floats, check_alpha

FIRST_LOOK = 20
"""With fewer labels there is no interval."""

HALF_SPENT = 60
"""About half of alpha is spent by this number of labels."""

_RIDGES = (0.01, 0.1, 1.0)  # times the number of labels; variates have unit variance
_PSEUDO, _FADE = 2.0, 3.0  # pseudo-observations without any difference; differences that end them
_PATHS = 20_000


class Look(NamedTuple):
    """The state after a batch: labels so far, the estimate, its limits, and the labels expected to
    be needed for a decision, these included.
    """

    n: int
    estimate: float
    low: float
    high: float
    needed: int


def systematic_sample(
    sort_keys: Sequence[Floats], size: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw `size` of the questions with equal probability, spread evenly over the order of
    `sort_keys` (the most important first; ties in random order).

    >>> values = np.repeat([0.0, 1.0], [40, 60])
    >>> sample = systematic_sample([values], 10, np.random.default_rng(0))
    >>> float(values[sample].sum())
    6.0
    """
    n = len(sort_keys[0])
    size = min(size, n)
    order = np.lexsort((rng.random(n), *reversed(sort_keys)))
    steps = (np.arange(size) + rng.random()) * n / max(size, 1)
    sample: npt.NDArray[np.int64] = order[np.minimum(steps.astype(int), n - 1)]
    return sample


@lru_cache(maxsize=256)
def critical_values(looks: tuple[int, ...], population: int, alpha: float) -> tuple[float, ...]:
    """Return for each number of labels the t value that ends the interval, so that all intervals
    hold at once with a probability of 1 - alpha.

    >>> [round(value, 1) for value in critical_values((20, 40, 60, 80), 300, 0.05)]
    [2.7, 2.6, 2.7, 2.7]
    """
    rng = np.random.default_rng(0)
    total, squares, before = np.zeros(_PATHS), np.zeros(_PATHS), 0
    states = []
    for n in looks:
        size = n - before
        batch = rng.normal(0, math.sqrt(size), _PATHS)
        if before:
            squares = squares + (batch / size - total / before) ** 2 * before * size / n
        if size > 1:
            squares = squares + rng.chisquare(size - 1, _PATHS)
        total, before = total + batch, n
        states.append((n, total, squares))
    mean = (total + rng.normal(0, math.sqrt(population - before), _PATHS)) / population
    inside, values = np.ones(_PATHS, dtype=bool), []
    for n, sums, variances in states:
        error = np.sqrt(variances / (n - 1) * (1 / n - 1 / population))
        t = np.abs(sums / n - mean) / error
        spent = alpha * (1 + HALF_SPENT / population) * n / (n + HALF_SPENT)
        exits = max(round(spent * _PATHS) - int((~inside).sum()), 1)
        values.append(float(np.sort(t[inside])[-exits]))
        inside &= t < values[-1]
    return tuple(values)


def control_variates(differences: Floats) -> Floats:
    """Standardise the judges' differences (questions down, judges across) over all questions; an
    unscored one counts as the mean of the scored.
    """
    if not differences.size:
        return differences
    scored = ~np.isnan(differences)
    means = np.nansum(differences, axis=0) / np.maximum(scored.sum(axis=0), 1)
    centred = differences - means
    filled = np.where(np.isnan(centred), 0.0, centred)
    deviations = filled.std(axis=0)
    variates: Floats = filled / np.where(deviations > 0, deviations, 1.0)
    return variates


def _estimate(labels: Floats, variates: Floats) -> tuple[float, float]:
    """Return the mean over all questions and the variance of one residual."""
    n, mean = len(labels), labels.mean()
    centred, moved = variates - variates.mean(axis=0), labels - mean
    slopes, leverage = np.zeros(variates.shape[1]), np.full(n, 1 / n)
    fits = [(moved, leverage, slopes)]
    if variates.size:
        left, scales, right = np.linalg.svd(centred, full_matrices=False)
        for ridge in _RIDGES:
            shrunk = scales**2 / (scales**2 + ridge * n)
            slopes = right.T @ (scales / (scales**2 + ridge * n) * (left.T @ moved))
            leverage = np.minimum(1 / n + (left**2 * shrunk).sum(axis=1), 0.9)
            fits.append((moved - centred @ slopes, leverage, slopes))
    errors = [float(np.sum((residuals / (1 - leverage)) ** 2)) for residuals, leverage, _ in fits]
    errors[1:] = [
        error * (1 + variates.shape[1] / n) for error in errors[1:]
    ]  # when in doubt, none
    residuals, leverage, slopes = fits[int(np.argmin(errors))]
    squares = float(np.sum(residuals**2 / (1 - leverage) ** 1.5))
    size = float(np.sum(labels**4) / np.sum(labels**2)) if labels.any() else 1.0
    pseudo = _PSEUDO * size * math.exp(-squares / size / _FADE)
    return float(mean - variates.mean(axis=0) @ slopes), (squares + pseudo) / (n - 1)


def sequence(
    batches: Sequence[npt.NDArray[np.int64]],
    labels: Floats,
    variates: Floats,
    *,
    margin: float = 0.02,
    alpha: float = 0.05,
) -> list[Look]:
    """Return the state after each batch, from `FIRST_LOOK` labels on; limits only come nearer.

    Args:
        batches: the places of the questions of each batch, as `systematic_sample` drew them.
        labels: of all questions, the difference of people's verdicts; NaN where there is none.
        variates: of all questions, as `control_variates` returns them.
        margin: the difference that does not matter, for `Look.needed`.

    >>> rng = np.random.default_rng(0)
    >>> people = rng.choice([-1.0, 0.0, 1.0], 300, p=[0.1, 0.6, 0.3])
    >>> judge = np.where(rng.random(300) < 0.9, people, 0.0)
    >>> order = systematic_sample([judge], 100, rng)
    >>> look = sequence([order], people, control_variates(judge[:, None]))[-1]
    >>> [round(float(value), 2) for value in (people.mean(), look.estimate, look.low, look.high)]
    [0.27, 0.26, 0.23, 0.29]
    """
    check_alpha(alpha)
    population = len(labels)
    low, high, looks, states = -math.inf, math.inf, [], []
    for i in range(len(batches)):
        drawn = np.concatenate(batches[: i + 1]).astype(int)
        n = len(drawn)
        if n == population and n:
            mean = float(labels.mean())
            states.append(Look(n, mean, mean, mean, n))
        elif n >= FIRST_LOOK:
            looks.append(n)
            estimate, variance = _estimate(labels[drawn], variates[drawn])
            critical = critical_values(tuple(looks), population, alpha)[-1]
            reach = critical * math.sqrt(variance * (1 / n - 1 / population))
            low, high = max(low, estimate - reach), min(high, estimate + reach)
            if low > high:  # an earlier interval missed: the labels of today decide
                low, high = estimate - reach, estimate + reach
            distance = max(abs(estimate), margin - abs(estimate), 1e-9)
            needed = 1 / ((distance / critical) ** 2 / variance + 1 / population)
            states.append(Look(n, estimate, low, high, max(math.ceil(needed), n)))
    return states


def decision_of(low: float, high: float, margin: float) -> str:
    """Return what an interval of A - B shows: "better", "worse", "within the margin" or
    "undecided".

    >>> decision_of(0.01, 0.2, 0.02), decision_of(-0.015, 0.01, 0.02), decision_of(-0.1, 0.1, 0.02)
    ('better', 'within the margin', 'undecided')
    """
    if low > 0 or high < 0:
        return "better" if low > 0 else "worse"
    return "within the margin" if -margin < low and high < margin else "undecided"
