"""Means of measures with bootstrap intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ragbench.statistics.columns import by_measure, check_settings, mean, nullable
from ragbench.statistics.intervals import wilson_interval
from ragbench.statistics.resampling import bootstrap_intervals

if TYPE_CHECKING:
    import pandas as pd


def summarise(scores: pd.DataFrame, *, n_resamples: int = 10_000, alpha: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Mean of each measure with its bootstrap interval: columns measure, mean, ci_low, ci_high, n_scored, n.

    `mean` is over the `n_scored` queries of `n` that are scored. The interval covers the mean over all questions like
    these with a probability of 1 - alpha: bias-corrected and accelerated bootstrap over queries (BCa, Efron 1987). If
    all values are equal it has no width, save where all are 0 or 1: for shares the interval is that of Wilson (1927),
    because a bootstrap of 30 right answers knows of no wrong one. With none scored, mean and interval are pd.NA; with
    one, the interval is: one query says nothing about the others.

    >>> import pandas as pd
    >>> values = [0.0, 0.5, 0.5, 1.0, 1.0, None]
    >>> scores = pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> summarise(scores).round(3)
      measure  mean  ci_low  ci_high  n_scored  n
    0      RR   0.6     0.2      0.9         5  6

    Raises:
        DataError: columns are missing, a query has two values for a measure, or a value is no number.
        ConfigError: `n_resamples`, `alpha` or `seed` is out of range.
    """
    import pandas as pd

    check_settings(n_resamples, alpha, seed)
    table = by_measure(scores, "scores")
    columns = [values.dropna().to_numpy(dtype=float) for values in table.values()]
    low, high = bootstrap_intervals(columns, n_resamples, alpha, seed)
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
