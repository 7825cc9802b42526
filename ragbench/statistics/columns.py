"""What goes into statistics and what comes out: tidy scores as columns by measure, settings, nullable numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

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
    if not pd.api.types.is_numeric_dtype(values):  # numbers beside None or pd.NA are kept as objects
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


# Measures without an upper bound: milliseconds, dollars, tokens, counts.
_UNBOUNDED = re.compile(r".*_(ms|s|usd|tokens|chars|words|chunks|count)|chunks|tokens|words|cost|n_.*")


def bounds_of(measure: str, *values: Floats) -> tuple[float, float]:
    """The least and the largest value of a measure: 0 and 1, infinite for times, costs and counts.

    Infinite as well where `values` go beyond 0 and 1: a measure of this name is then another one.

    >>> bounds_of("nDCG@10"), bounds_of("latency_total_ms")
    ((0.0, 1.0), (-inf, inf))
    """
    inside = all(side.min() >= -1e-9 and side.max() <= 1 + 1e-9 for side in values if len(side))
    return (0.0, 1.0) if inside and not _UNBOUNDED.fullmatch(measure) else (-math.inf, math.inf)
