"""Tables of results whose rows are found by name."""

from typing import Any

import pandas as pd

from ragbench.errors import ConfigError, unknown
from ragbench.registry import find_measure


class NamedRows(pd.DataFrame):
    """A DataFrame with a column `measure` or `name`, by whose values `table["nDCG@10"]` is a row, or the
    rows of this name.

    >>> table = NamedRows({"measure": ["RR", "AP"], "value": [1.0, 0.5]})
    >>> table["rr"]["measure"], table["value"].tolist()
    ('RR', [1.0, 0.5])
    >>> table["recall"]
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown column or row 'recall'. Known: measure, value, RR, AP
    """

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str) or key in self.columns:
            return super().__getitem__(key)
        frame = pd.DataFrame(self)
        known = [str(column) for column in frame]
        for column in ("measure", "name"):
            if column in known:
                names = list(dict.fromkeys(frame[column].astype(str)))
                measure = find_measure(key)
                for name in (key, measure.name if measure else key):
                    if name in names:
                        rows = frame[frame[column] == name]
                        return rows.iloc[0] if len(rows) == 1 else rows
                known += names
        raise ConfigError(unknown("column or row", key, known))
