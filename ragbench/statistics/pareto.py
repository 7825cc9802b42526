"""Pareto front of quality and costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.registry import higher_is_better

if TYPE_CHECKING:
    import pandas as pd


def pareto_front(table: pd.DataFrame, quality: str, costs: str | Sequence[str]) -> pd.Series[bool]:
    """The rows that no other row dominates (at least as good in everything and better in something).

    The quality is better when higher (or lower, by `registry.higher_is_better`), every cost when lower. A row
    with an unknown quality or cost is not on the front and dominates none; of equal rows all are on it.

    Args:
        table: one row per configuration.
        quality: the column of the quality.
        costs: the columns of the costs, such as "search_ms" or ["cost_usd", "generate_ms", "chunks"].

    Returns:
        A Series of True and False with the index of `table`, named "on_front".

    >>> import pandas as pd
    >>> board = pd.DataFrame({"nDCG@10": [0.5, 0.7, 0.6, 0.7], "search_ms": [1, 9, 9, None], "chunks": [9, 9, 5, 1]})
    >>> pareto_front(board, "nDCG@10", "search_ms").tolist()
    [True, True, False, False]
    >>> pareto_front(board, "nDCG@10", ["search_ms", "chunks"]).tolist()
    [True, True, True, False]

    Raises:
        ConfigError: no cost, or a column that is not there.
        DataError: a column without numbers.
    """
    import pandas as pd

    names = [costs] if isinstance(costs, str) else list(costs)
    if not names:
        raise ConfigError("costs is empty: name at least one column of what the quality costs")
    for name in (quality, *names):
        if name not in table.columns:
            raise ConfigError(unknown("column", name, map(str, table.columns)))
    try:
        columns = [pd.to_numeric(table[name]).to_numpy(dtype=float, na_value=np.nan) for name in (quality, *names)]
    except (TypeError, ValueError) as exc:
        raise DataError(f"{', '.join([quality, *names])}: a column without numbers: {exc}") from exc
    if higher_is_better(quality):
        columns[0] = -columns[0]
    less = np.column_stack(columns)
    known = ~np.isnan(less).any(axis=1)
    beaten = [
        bool(np.any(known & (less <= row).all(axis=1) & (less < row).any(axis=1))) if ok else True
        for row, ok in zip(less, known, strict=True)
    ]
    return pd.Series(~np.array(beaten, dtype=bool), index=table.index, name="on_front")
