"""Input and output of statistics: settings, tidy scores as columns by measure, nullable numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from ragbench import registry
from ragbench.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Floats = npt.NDArray[np.floating]


def check_settings(n_resamples: int, alpha: float, seed: int) -> None:
    if not isinstance(n_resamples, int) or n_resamples < 100:
        raise ConfigError(f"n_resamples is {n_resamples!r}; take a whole number from 100, usually 10000")
    if not isinstance(alpha, float) or not 0 < alpha < 1:
        raise ConfigError(f"alpha is {alpha!r}; take a number between 0 and 1, usually 0.05 for 95 % intervals")
    if not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"seed is {seed!r}; take a whole number from 0")


def by_measure(scores: pd.DataFrame, what: str) -> dict[str, pd.Series[float]]:
    """Measure -> values by query_id, NaN where unscored; both in the order of `scores`."""
    import pandas as pd

    wanted = ["query_id", "measure", "value"]
    if not isinstance(scores, pd.DataFrame):
        raise DataError(f"{what} must be a DataFrame with the columns {wanted}, not {type(scores).__name__}")
    if lacking := [name for name in wanted if name not in scores.columns]:
        raise DataError(f"{what}: no column {', '.join(lacking)}; expected {wanted}, found {list(scores.columns)}")
    if scores.empty:
        raise DataError(f"{what} are empty: there is nothing to summarise or compare")
    values = scores["value"].infer_objects()
    if not pd.api.types.is_numeric_dtype(values):  # numbers together with None or pd.NA are kept as objects
        for value in values[values.notna()]:
            if not isinstance(value, Real):
                raise DataError(f"{what}: value {value!r} is not a number; the column is of type {values.dtype}")
        values = values.where(values.notna(), None).astype("Float64")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise DataError(f"{what}: value {numbers[row]} of query {scores['query_id'].iloc[row]!r} is not finite")
    codes, measures = pd.factorize(scores["measure"])
    if codes.min() < 0 or scores["query_id"].isna().any():
        row = int(np.flatnonzero((codes < 0) | scores["query_id"].isna())[0])
        raise DataError(f"{what}: row {row} lacks its query_id or measure")
    queries = pd.Index(scores["query_id"])
    table = {}
    for code, measure in enumerate(measures):
        column = pd.Series(numbers[codes == code], index=queries[codes == code])
        if not column.index.is_unique:
            twice = column.index[column.index.duplicated()][0]
            raise DataError(
                f"{what}: query {twice!r} has two values for {measure!r}; keep one row per query and measure"
            )
        table[str(measure)] = column
    return table


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def nullable(values: Sequence[float] | Floats) -> pd.api.extensions.ExtensionArray:
    import pandas as pd

    numbers = np.asarray(values, dtype=np.float64)
    return pd.arrays.FloatingArray(np.nan_to_num(numbers), np.isnan(numbers))


def with_nullable(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The frame with these columns as numbers that may be pd.NA."""
    return frame.assign(**{name: nullable(frame[name].to_numpy(dtype=float)) for name in names})


def bounds_of(measure: str, *values: Floats) -> tuple[float, float]:
    """The smallest and the largest value of a measure, infinite where there is none.

    Registered measures have those of the registry, others 0 and 1. Infinite where `values` go beyond: then it is
    another measure of the same name.

    >>> bounds_of("nDCG@10"), bounds_of("latency_total_ms"), bounds_of("of_my_own", np.array([3.0]))
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    low, high = registry.bounds_of(measure) if registry.find_measure(measure) else (0.0, 1.0)
    bounds = -math.inf if low is None else low, math.inf if high is None else high
    inside = all(side.min() >= bounds[0] - 1e-9 and side.max() <= bounds[1] + 1e-9 for side in values if side.size)
    return bounds if inside else (-math.inf, math.inf)
