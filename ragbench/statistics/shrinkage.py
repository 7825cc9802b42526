"""The gain that the best of several configurations can be expected to keep on new questions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.errors import DataError
from ragbench.statistics.columns import Floats

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

    The best of many is partly the luckiest. Empirical Bayes estimates how lucky: the true gains are
    taken for the observed ones, drawn together until their variance is what is left of the observed
    variance without that of sampling; errors with the covariance of the observed means are added
    again and again; and the mean error of the configuration that wins each time, where that is not
    the baseline, is taken off the observed gain. Configurations that answer alike have alike errors,
    so that their number alone does not count.

    On the five collections of the chunking study (100 to 124 configurations; 40 random questions
    choose among 2, 3, 4, 8, 16 or 38 of them, and the others measure; 400 times) the mean of promised
    minus real gain is +.006 to +.038 by `observed`; by `expected` it was -.006 to +.010, and up to
    +.013 in one of 25 cells of a second run of 200.

    It supposes that the winner was chosen by these gains; where `observed` is not above 0, nothing is
    promised and it is returned as it is.

    Args:
        gains: a row per configuration other than the baseline (the index names them), a column per
            question that all have scored; paired differences from the baseline, larger is better.
        seed: of the draws.

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
    name, observed = str(gains.index[best]), float(means[best])
    if observed <= 0:
        return ExpectedGain(name, observed, observed)
    with_baseline = np.vstack([np.zeros(values.shape[1]), values])
    errors = np.cov(with_baseline) / values.shape[1]
    supposed = _drawn_together(with_baseline.mean(axis=1), errors)
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_normal(np.zeros(len(errors)), errors, _DRAWS, method="eigh")
    winners = (supposed + drawn).argmax(axis=1)
    luck = drawn[np.arange(_DRAWS), winners][winners > 0]
    return ExpectedGain(name, observed, observed - float(luck.mean()) if len(luck) else observed)


def _drawn_together(means: Floats, errors: Floats) -> Floats:
    """Return means that vary about their mean as much as true ones: less by the variance of errors."""
    n = len(means)
    of_errors = (np.trace(errors) - errors.sum() / n) / (n - 1)
    observed = means.var(ddof=1)
    if observed <= 0:
        return means
    fraction = max(observed - of_errors, 0.0) / observed
    together: Floats = means.mean() + np.sqrt(fraction) * (means - means.mean())
    return together
