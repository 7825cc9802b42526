"""The tidy frame of scores that every function of this package returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ragbench.types import Case


def tidy(query_ids: Sequence[str], measures: Sequence[str], values: Any) -> pd.DataFrame:
    """query_id, measure, value; by measure, then by query. `values` has the shape (measures, queries).

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


def tidy_cases(cases: Sequence[Case], scores: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """The tidy frame of measure -> query_id -> value, in the order of the cases; NaN where a case has no value."""
    ids = [case.query_id for case in cases]
    return tidy(ids, list(scores), [[own.get(query_id, math.nan) for query_id in ids] for own in scores.values()])
