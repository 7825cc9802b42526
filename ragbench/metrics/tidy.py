"""The tidy frame of scores that every function of this package returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ragbench.types import Case


def tidy(query_ids: Sequence[str], measures: Sequence[str], values: Any) -> pd.DataFrame:
    """Return query_id, measure, value; by measure, then by query. `values` has the shape (measures, queries).

    >>> tidy(["q1", "q2"], ["RR"], [[1.0, 0.5]])
      query_id measure  value
    0       q1      RR    1.0
    1       q2      RR    0.5
    """
    return pd.DataFrame(
        {
            "query_id": pd.Index(list(query_ids), dtype="str").take(np.tile(np.arange(len(query_ids)), len(measures))),
            "measure": pd.Index(list(measures), dtype="str").take(np.repeat(np.arange(len(measures)), len(query_ids))),
            "value": np.asarray(values, dtype=np.float64).ravel(),
        }
    )


def tidy_cases(cases: Sequence[Case], measures: Iterable[str], rows: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Return the tidy frame of query_id -> measure -> value, in the order of the cases; NaN where there is no value."""
    names, ids = list(measures), [case.query_id for case in cases]
    values = [[rows.get(query_id, {}).get(name, np.nan) for query_id in ids] for name in names]
    return tidy(ids, names, values)
