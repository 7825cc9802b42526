"""Means of measures with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ragbench.statistics.columns import bounds_of, by_measure, check_settings, mean, nullable
from ragbench.statistics.intervals import Bounds, mean_intervals, wilson_interval

if TYPE_CHECKING:
    import pandas as pd


def summarise(scores: pd.DataFrame, *, n_resamples: int = 10_000, alpha: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Mean of each measure with its interval: columns measure, mean, ci_low, ci_high, n_scored, n.

    `mean` is over the `n_scored` queries of `n` that are scored. The interval covers the mean over all questions like
    these with a probability of 1 - alpha. From 100 queries on it is the bias-corrected and accelerated bootstrap (BCa,
    Efron 1987), with fewer Gaffke's (2005), as for `compare`; where all values are 0 or 1 that of Wilson (1927). It
    always has a width: other values may differ even if all observed ones are equal. With none scored, mean and
    interval are pd.NA; the interval also with one, and for equal values of a measure without known bounds.

    >>> import pandas as pd
    >>> values = [0.0, 0.5, 0.5, 1.0, 1.0, None]
    >>> scores = pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> summarise(scores).round(3)
      measure  mean  ci_low  ci_high  n_scored  n
    0      RR   0.6   0.204    0.903         5  6

    Raises:
        DataError: columns are missing, a query has two values for a measure, or a value is not a number.
        ConfigError: `n_resamples`, `alpha` or `seed` is out of range.
    """
    import pandas as pd

    check_settings(n_resamples, alpha, seed)
    table = by_measure(scores, "scores")
    columns = [values.dropna().to_numpy(dtype=float) for values in table.values()]
    bounds = [Bounds(*bounds_of(measure, column)) for measure, column in zip(table, columns, strict=True)]
    low, high, _ = mean_intervals(columns, bounds, alpha, n_resamples=n_resamples, seed=seed)
    for row, column in enumerate(columns):
        if len(column) > 1 and np.isin(column, (0.0, 1.0)).all():
            low[row], high[row] = wilson_interval(column, alpha)
    return pd.DataFrame(
        {
            "measure": list(table),
            "mean": nullable([mean(column) for column in columns]),
            "ci_low": nullable(low),
            "ci_high": nullable(high),
            "n_scored": [len(column) for column in columns],
            "n": [len(values) for values in table.values()],
        }
    )
