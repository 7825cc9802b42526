"""The gain that the best of several configurations can be expected to keep on new questions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.errors import DataError

_DRAWS = 2000


class ExpectedGain(NamedTuple):
    """The configuration `name` with the largest mean gain over the baseline, its `observed` gain, and
    the `expected` one on new questions.
    """

    name: str
    observed: float
    expected: float


def expected_gain(gains: pd.DataFrame, *, seed: int = 0) -> ExpectedGain:
    """Compute how much of the observed gain of the best configuration to expect on new questions.

    The best of many is partly the luckiest. Its luck is estimated by empirical Bayes, and subtracted
    from the observed gain:

    1. Estimate true gains: shrink the observed gains towards their mean, until their variance is the
       observed variance minus the variance of sampling.
    2. Many times, add random errors, with the covariance of the observed mean gains, and let the best
       configuration win.
    3. The luck is the mean error of the winners; draws in which the baseline wins are left out.

    Configurations with similar answers have similar errors, so that more of them do not mean more luck.
    The winner must have been chosen by these gains. If `observed` is 0 or less, `expected` equals
    `observed`.

    Args:
        gains: a row per configuration other than the baseline (the index names them), a column per
            question that all have scored; paired differences from the baseline, larger is better.
        seed: seed of the draws.

    >>> rng = np.random.default_rng(0)
    >>> luck = pd.DataFrame(rng.normal(0, 0.3, (20, 40)), index=[f"arm{i}" for i in range(20)])
    >>> best = expected_gain(luck)  # 20 configurations that are as good as the baseline
    >>> best.name, round(best.observed, 2), round(best.expected, 2)
    ('arm1', 0.09, 0.0)

    Raises:
        DataError: no configuration, fewer than two questions, or a missing gain.
    """
    values = gains.to_numpy(dtype=float)
    if not len(values) or values.shape[1] < 2 or np.isnan(values).any():
        raise DataError(
            f"gains of {len(values)} configurations on {values.shape[1]} questions, "
            f"{np.isnan(values).sum()} of them missing; expected a gain of each of one or more "
            "configurations on each of two or more questions"
        )
    means = values.mean(axis=1)
    best = int(means.round(12).argmax())
    name = str(gains.index[best])
    observed = float(means[best])
    if observed <= 0:
        return ExpectedGain(name, observed, observed)
    return ExpectedGain(name, observed, observed - _expected_luck(values, seed))


def _expected_luck(gains: Floats, seed: int) -> float:
    """Estimate how much of the best configuration's mean gain is luck; 0 if the baseline always wins.

    The best of many was lucky, too. So the choice is repeated with random errors: true gains are
    estimated, errors with the covariance of the observed means are added, and the luck is the mean
    error of the winners.

    Args:
        gains: the gains over the baseline (configurations, questions).
        seed: the seed of the errors.
    """
    n_questions = gains.shape[1]
    with_baseline = np.vstack([np.zeros(n_questions), gains])  # the baseline is row 0
    covariance = np.cov(with_baseline) / n_questions  # of the means
    true_gains = _shrunk(with_baseline.mean(axis=1), covariance)
    rng = np.random.default_rng(seed)
    errors = rng.multivariate_normal(np.zeros(len(covariance)), covariance, _DRAWS, method="eigh")
    winners = (true_gains + errors).argmax(axis=1)
    errors_of_winners = errors[np.arange(_DRAWS), winners]
    luck = errors_of_winners[winners > 0]  # a winning baseline is not chosen for its luck
    return float(luck.mean()) if len(luck) else 0.0


def _shrunk(means: Floats, covariance: Floats) -> Floats:
    """Estimate true means from observed means, which vary more because of their errors.

    The means are moved towards their common mean until their variance is the observed variance minus
    the variance of the errors, which have this covariance.
    """
    n = len(means)
    # of errors about their mean, as `variance` is of the means about theirs
    variance_of_errors = (np.trace(covariance) - covariance.sum() / n) / (n - 1)
    variance = means.var(ddof=1)
    if variance <= 0:
        return means
    fraction = max(variance - variance_of_errors, 0.0) / variance
    shrunk: Floats = means.mean() + np.sqrt(fraction) * (means - means.mean())
    return shrunk
