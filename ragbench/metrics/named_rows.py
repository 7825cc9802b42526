"""Tables of results whose rows are found by name, and that explain a name which they lack."""

from types import MappingProxyType
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError
from ragbench.hints import hint_of, similar
from ragbench.registry import find_measure, measured_as

_OF_DECISIONS = MappingProxyType(
    dict.fromkeys(
        "winner best choice better is_better is_significant reject".split(), "table['decision']"
    )
)
_NAMES = ("measure", "name", "query_id")
_MAX_NAMES = 30  # in a message


class ExplainedFrame(pd.DataFrame):
    """A DataFrame that explains an attribute which it lacks, also one that is a column elsewhere.

    >>> ExplainedFrame({"p_adjusted": [0.01]}).p_value
    Traceback (most recent call last):
    AttributeError: the table has no column or attribute 'p_value'; did you mean 'p_adjusted'?
    """

    def __getattr__(self, name: str) -> Any:  # type: ignore[misc]  # final in the stubs of pandas
        """Return a column or an attribute of the frame.

        Raises:
            AttributeError: there is none; the message suggests the nearest name, or what to write
                instead ("table.iloc[0]" for `table.winner`).
        """
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            columns = [str(column) for column in self.columns]
            calls = dict.fromkeys(["print", "show", "summary"], "print(table)")
            if "rank" in columns:
                calls |= dict.fromkeys(["winner", "best"], "table.iloc[0]")
            if "decision" in columns:
                calls |= _OF_DECISIONS
            if "measure" in columns:
                for measure in pd.DataFrame(self)["measure"].unique():
                    if str(measure).casefold().startswith(name.casefold()):
                        calls.setdefault(name.casefold(), f"table[{measure!r}]")
            raise AttributeError(
                f"the table has no column or attribute {name!r}{hint_of(name, columns, calls)}",
                name=name,
            ) from None


class NamedRows(ExplainedFrame):
    """A DataFrame with a column `measure`, `name` or `query_id`, by whose values `table["nDCG@10"]` and
    `table.loc["nDCG@10"]` are a row, or the rows of this name.

    >>> table = NamedRows({"measure": ["RR", "AP"], "value": [1.0, 0.5]})
    >>> table["rr"]["measure"], table["value"].tolist(), float(table.loc["AP", "value"])
    ('RR', [1.0, 0.5], 0.5)
    >>> table["recall"]
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown column or row 'recall'. Known: measure, value, RR, AP
    """

    @property
    def loc(self) -> Any:
        return _Locations(super().loc, self)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str) or key in self.columns:
            return super().__getitem__(key)
        return self._rows_of(key)

    def _rows_of(self, key: str) -> Any:
        """Return the row of a name in one of the columns `_NAMES`, or its rows if there are several.

        Raises:
            ConfigError: no row has the name.
        """
        frame = pd.DataFrame(self)
        known = [str(column) for column in frame]
        measure = find_measure(key)
        for column in _NAMES:
            if column in known:
                names = list(dict.fromkeys(frame[column].astype(str)))
                for name in (key, measure.name if measure else key):
                    if name in names:
                        rows = frame[frame[column] == name]
                        return rows.iloc[0] if len(rows) == 1 else rows
                known += names
        raise ConfigError(unknown_column(key, known))


class PropertyTable(NamedRows):
    """The table that a property of a record returns: calling it says that it is no method.

    >>> PropertyTable({"measure": ["RR"]})()
    Traceback (most recent call last):
    TypeError: this is a table, not a function: leave out the parentheses
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("this is a table, not a function: leave out the parentheses")


class _Locations:
    """`loc` of a table by whose names rows are found."""

    def __init__(self, locations: Any, table: NamedRows) -> None:
        self._locations = locations
        self._table = table

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._locations[key]
        except KeyError:
            name, *columns = key if isinstance(key, tuple) else (key,)
            if not isinstance(name, str):
                raise
        rows = self._table._rows_of(name)
        return rows[columns[0]] if columns else rows

    def __setitem__(self, key: Any, value: Any) -> None:
        self._locations[key] = value

    def __call__(self, axis: Any = None) -> Any:
        return self._locations(axis)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locations, name)


def unknown_column(name: str, known: list[str]) -> str:
    """Return the text of an error about a column or row that a table lacks."""
    near = measured_as(name, known) or similar(name, known)
    hint = f"; did you mean {near!r}?" if near else "."
    listed = ", ".join(known[:_MAX_NAMES])
    if len(known) > _MAX_NAMES:
        listed += ", ..."
    return f"unknown column or row {name!r}{hint} Known: {listed}"
