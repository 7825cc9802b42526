"""Autocorrelation: how much the values of neighbouring questions in a file resemble each other."""

import math

import numpy as np

from ragbench.array_types import Floats
from ragbench.statistics.columns import TIE
from ragbench.statistics.thresholds import MIN_QUESTIONS

RESEMBLANCE = 3.09
"""Values depend on the ones before them if their autocorrelation exceeds this over sqrt(n): the normal
score of .999, so that 1 of 1,000 columns of independent values seem to depend."""


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

    >>> import numpy as np
    >>> n_independent(np.array([0.1, 0.3, 0.2, 0.1, 0.3, 0.2] * 2))
    12.0
    >>> round(n_independent(np.repeat([0.3, 0.1, 0.2, 0.3, 0.1, 0.2], 5)), 1)  # 6 pages, 5 questions each
    2.5
    """
    [n] = n_independent_of_rows(values[np.newaxis])
    return float(n)


def n_independent_of_rows(rows: Floats) -> Floats:
    """Return `n_independent` of each row (rows, values)."""
    n_values = rows.shape[1]
    n = np.full(len(rows), float(n_values))
    if n_values < MIN_QUESTIONS:
        return n
    residuals = rows - rows.mean(axis=1, keepdims=True)
    # sums of the products of residuals with themselves, and with their neighbours
    variances = np.vecdot(residuals, residuals)
    autocovariances = np.vecdot(residuals[:, 1:], residuals[:, :-1])
    varies = variances > n_values * TIE**2
    correlations = np.zeros(len(rows))
    correlations[varies] = autocovariances[varies] / variances[varies]
    for row in np.flatnonzero(correlations > RESEMBLANCE / math.sqrt(n_values)):
        n[row] = _n_of_dependent(residuals[row], correlations[row])
    return n


def _n_of_dependent(residuals: Floats, correlation: float) -> float:
    """Return `n_independent` of values that depend on the ones before them, by their residuals about the
    mean and their autocorrelation at lag 1.
    """
    n = len(residuals)
    unbiased = min((n * correlation + 1) / (n - 4), 1.0)  # Kendall 1954
    n_by_neighbours = n * (1 - unbiased) / (1 + unbiased)
    n_by_runs = n / _variance_inflation(residuals)
    return max(min(n_by_neighbours, n_by_runs), 2.0)


def _autocovariance(residuals: Floats, lag: int) -> float:
    """Return the sum of the products of residuals with the residuals `lag` places later."""
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
