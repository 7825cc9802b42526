"""Tables of results whose rows are found by name, what they print, and what they suggest for a
column, row or method that they lack.
"""

import re
from collections.abc import Iterator, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any

import pandas as pd
from pandas.api.typing import DataFrameGroupBy
from pandas.plotting import PlotAccessor

from ragbench.errors import ConfigError, UnknownKeyError, listed, plural
from ragbench.hints.record_values import check_unpacking, is_of_frames
from ragbench.hints.similar_names import hint_of, similar
from ragbench.registry import call_of_measure, expected_measure, find_measure, measured_as

_CALLS_OF_DECISIONS = MappingProxyType(
    dict.fromkeys(
        "winner best choice better is_better significant is_significant reject conclusion verdict outcome "
        "headline summary next_step recommendation".split(),
        "rb.Results([a, b]).conclude() of two results, or table['decision']",
    )
)
_CALLS_OF_OTHER_LIBRARIES = MappingProxyType(
    {
        **dict.fromkeys(["print", "show", "summary", "tidy", "glance"], "print(table)"),
        **dict.fromkeys(["pivot_wider", "spread", "to_wide"], "table.pivot"),
        **dict.fromkeys(["pivot_longer", "gather", "unpivot", "to_long"], "table.melt"),
        **dict.fromkeys(["mutate", "with_columns", "transmute"], "table.assign"),
        **dict.fromkeys(["arrange", "sort", "order_by", "orderby"], "table.sort_values"),
        **dict.fromkeys(["summarise", "summarize"], "table.mean()"),
        **dict.fromkeys(["select", "columns_of"], "table[['measure']] with the names of columns"),
        "group_by": "table.groupby",
        **dict.fromkeys(["plot", "draw", "visualize"], "table.plot"),
        "glimpse": "table.info()",
        **dict.fromkeys(["to_pandas", "to_frame", "df"], "the table itself, a DataFrame"),
    }
)
"""Methods of tables in R, polars and others -> the one of pandas."""
_NAMES = ("measure", "name", "query_id")
_OF_QUESTIONS = "question category answer outcome passed cause reasons".split()
_OF_SYSTEMS = (
    "system name configuration config model run run_name label experiment retriever".split()
)
_MAX_HIDDEN = 8  # names of columns that do not fit into a terminal
_QUOTED = re.compile("`([^`]+)`")
_NAME = re.compile("'([^']+)'")
_METHODS_OF_NUMBERS = "mean median std var sem skew quantile corr cov".split()
"""Methods of tables that fail on columns of text."""
_OPERATORS = "__sub__ __truediv__ __lt__ __le__ __gt__ __ge__".split()
"""Operators of tables that fail on columns of text."""
_METHODS_OF_COLUMNS = (
    "sort_values set_index pivot pivot_table drop nlargest nsmallest melt explode merge".split()
)
"""Methods of tables that take names of columns."""


class ExplainedSeries(pd.Series):
    """A column or a row of a table, which explains a key or an attribute that it lacks.

    If it is a column of `NamedRows` the names of rows are keys, too; so are other names of measures.

    >>> ExplainedSeries({"R@5": 0.5})["recall@5"], NamedRows({"measure": ["RR"], "value": [1.0]}).value["rr"]
    (np.float64(0.5), np.float64(1.0))
    >>> ExplainedSeries({"R@5": 0.5})["colour"]
    Traceback (most recent call last):
    ragbench.errors.UnknownKeyError: unknown column or row 'colour'. Known: R@5
    >>> ExplainedSeries({"R@5": 0.5}).query
    Traceback (most recent call last):
    AttributeError: this is one column or row, without 'query'; use the table itself, as in table.query
    """

    _table: "NamedRows | None" = None
    """The table that this is a column of; None for a row, and for columns of other tables."""

    @property
    def _constructor(self) -> Any:
        return ExplainedSeries

    @property
    def _constructor_expanddim(self) -> Any:
        return ExplainedFrame

    def __getitem__(self, key: Any) -> Any:
        """Return what pandas returns for the key. If pandas does not find a text, return

        - in a column of `NamedRows`: the value in the row of this name, or the values if several rows have
          it. The name of a row is its measure, `name` or query;
        - elsewhere: the value of the measure that the text means, as "recall@5" means "R@5".

        Raises:
            UnknownKeyError: nothing is found for a text or an int; KeyError for other keys.
        """
        # before pandas 3 a number that names no row was a place, with a warning
        if isinstance(key, int) and key not in self.index:
            raise UnknownKeyError(f"no row is named {key}; use .iloc[{key}] for its place")
        try:
            return super().__getitem__(key)
        except KeyError:
            if not isinstance(key, str):
                raise
        if self._table is not None:
            rows = self._table._rows_of(key)  # by other names of a measure, too
            return rows[self.name]
        measure = find_measure(key)
        if measure is not None and measure.name in self.index:
            return super().__getitem__(measure.name)
        raise UnknownKeyError(unknown_column(key, [str(name) for name in self.index]))

    def __float__(self) -> float:  # type: ignore[override]  # None in the stubs of pandas
        raise TypeError(self._not_one_value())

    def __bool__(self) -> bool:  # type: ignore[misc, override]  # final in the stubs of pandas
        raise ConfigError(self._not_one_value())

    def _not_one_value(self) -> str:
        """Return a sentence for code that takes the column or row for a single value."""
        if len(self) == 1:
            return "this is a column or row with one value; use its item()"
        if "value" in self.index:  # the row of a measure, whose other fields are no values of it
            return "this is a row of a table, not one value; use row['value']"
        values = plural(len(self), "value")
        return f"this has {values}, not one; use its mean(), all() or any(), or a value by its name"

    def __format__(self, specification: str) -> str:
        return str(self) if specification == "" else format(float(self), specification)

    def __getattr__(self, name: str) -> Any:  # type: ignore[misc]  # final in the stubs of pandas
        """Return a value of the index or an attribute.

        Raises:
            AttributeError: there is none; the message names what to use.
        """
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            hint = hint_of(name, [str(each) for each in self.index], _CALLS_OF_OTHER_LIBRARIES)
            if is_of_frames(name):
                hint = f"; use the table itself, as in table.{name}"
            raise AttributeError(
                f"this is one column or row, without {name!r}{hint}", name=name
            ) from None


class ExplainedFrame(pd.DataFrame):
    """A DataFrame that explains an attribute or a column which it lacks, also one that is a column elsewhere.
    What pandas derives from it explains itself, too.

    >>> ExplainedFrame({"p_adjusted": [0.01]}).p_value
    Traceback (most recent call last):
    AttributeError: the table has no column or attribute 'p_value'; did you mean 'p_adjusted'?
    >>> ExplainedFrame({"p_adjusted": [0.01]}).head()["p_value"]
    Traceback (most recent call last):
    ragbench.errors.UnknownKeyError: unknown column or row 'p_value'; did you mean 'p_adjusted'? Known: p_adjusted
    """

    @property
    def _constructor(self) -> Any:
        return ExplainedFrame

    def __repr__(self) -> str:
        # the last column is perhaps one that the user has added
        last_column = [str(name) for name in self.columns[-1:]]
        return frame_text(pd.DataFrame(self), last_column)

    def __getitem__(self, key: Any) -> Any:
        try:
            part = super().__getitem__(key)
            return ExplainedSeries(part) if isinstance(part, pd.Series) else part
        except KeyError as exc:
            if isinstance(key, int):
                raise UnknownKeyError(
                    f"no column is named {key}; use table.iloc[{key}] for a row"
                ) from None
            self._explain_columns(exc, key)
            raise

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
            calls = dict(_CALLS_OF_OTHER_LIBRARIES)  # attribute -> what to write instead
            if "rank" in columns:
                calls |= dict.fromkeys(["winner", "best"], "table.iloc[0]")
            if "decision" in columns:
                calls |= _CALLS_OF_DECISIONS
            if "p_value" in columns:
                calls |= dict.fromkeys(["p", "pvalue"], "table['p_value']")
            measures = columns  # a table without a row per measure may have a column per measure
            if "measure" in columns:
                measures = [str(measure) for measure in pd.DataFrame(self)["measure"].unique()]
            code = _code_for_measure(name, measures)
            if code:
                calls.setdefault(name.casefold(), code)
            raise AttributeError(
                f"the table has no column or attribute {name!r}{hint_of(name, columns, calls)}",
                name=name,
            ) from None

    @property
    def loc(self) -> Any:
        return _Locations(super().loc, self)

    def __iter__(self) -> Any:
        names = [str(column) for column in self.columns]
        is_tidy = {"measure", "value"} <= {*names}
        use = (
            "table.mean(), with the mean of each measure"
            if is_tidy
            else "its columns by their names"
        )
        check_unpacking(f"a table with the columns {', '.join(names[:5])}", len(names), use)
        return super().__iter__()

    @property
    def plot(self) -> Any:
        """Return what draws the table in pandas; a call without columns names the ones to draw."""
        return _Plot(self)

    def query(self, expr: str, **options: Any) -> Any:
        """Return the rows for which an expression is true; a column that it lacks is explained."""
        try:
            return super().query(expr, **options)
        except NameError as exc:  # a column with a sign in its name has another one in the error
            text = f"{exc} {expr}"
            self._explain_columns(KeyError(text), _QUOTED.findall(expr), _NAME.findall(str(exc)))
            raise

    def groupby(self, *args: Any, **options: Any) -> Any:
        """Group the rows as pandas does; means of the groups leave out columns of text.

        Raises:
            ConfigError: a name in the arguments is not a column.
        """
        is_by_cause = bool(args) and isinstance(args[0], str) and args[0] == "cause"
        if is_by_cause and "cause" in self and len(self) > 0 and not self["cause"].any():
            raise ConfigError(
                "no question was diagnosed, which takes documents; see rb.diagnose(result)"
            )
        try:
            groups = super().groupby(*args, **options)
        except KeyError as exc:
            self._explain_columns(exc, args, options)
            raise
        groups.__class__ = _Groups
        return groups

    def _explain_columns(self, exc: KeyError, *arguments: Any) -> None:
        """Raise UnknownKeyError if an error of pandas is about a text in the arguments that is not a column."""
        known = [str(column) for column in self.columns]
        for name in _texts_in(arguments):
            if name not in known and name in str(exc):
                hint = self._hint_of_column(name)
                text = f"unknown column {name!r}{hint}" if hint else unknown_column(name, known)
                raise UnknownKeyError(text) from None

    def _hint_of_column(self, name: str) -> str:
        """Return where the values of a column that is not in this table are, as the end of a sentence;
        "" if no table has such a column.
        """
        is_tidy = {"measure", "value"} <= {*self.columns, *self.index.names}
        if is_tidy and find_measure(name) is not None:
            return "; use scores.pivot(), with a column per measure, or result.to_frame()"
        if is_tidy and name in _OF_QUESTIONS:
            return "; use result.to_frame(), which has it"
        if name in _OF_SYSTEMS and "name" not in self.columns:
            return "; use results.scores, whose column `name` names the system of each row"
        return ""


def frame_text(frame: pd.DataFrame, always: Sequence[str]) -> str:
    """Return the text of a table for a terminal. If the terminal is too narrow for all columns, the first
    ones are shown, where pandas would show as many of the first as of the last ones, and the others are named.

    Args:
        frame: a plain DataFrame.
        always: columns that are shown wherever they are in the table, the most important first. If even
            these do not fit, the last of them are left out.
    """
    all_text = repr(frame)
    if not _lacks_columns(all_text):
        return all_text
    names = [str(name) for name in frame]
    required = [names.index(name) for name in always if name in names]
    shown: list[int] = []  # places of the columns
    text = ""
    for n_required in range(len(required), 0, -1):
        shown = sorted(required[:n_required])
        text = repr(frame.iloc[:, shown])
        if not _lacks_columns(text):
            break
    for place in range(len(names)):
        wider = sorted({*shown, place})
        wider_text = repr(frame.iloc[:, wider])
        if _lacks_columns(wider_text):
            break
        shown = wider
        text = wider_text
    if not text or _lacks_columns(text):  # not even one column fits
        return all_text
    hidden = [name for place, name in enumerate(names) if place not in shown]
    listed_names = ", ".join(hidden[:_MAX_HIDDEN])
    if len(hidden) > _MAX_HIDDEN:
        listed_names += ", ..."
    return f"{text}\n[{plural(len(hidden), 'more column')}: {listed_names}]"


def _lacks_columns(text: str) -> bool:
    """Return True if the text of a table has three dots in place of some columns."""
    header = text.partition("\n")[0]
    return "..." in header.split()


def _code_for_measure(name: str, measures: list[str]) -> str:
    """Return the code to write in place of an attribute that names a measure: "table['nDCG@10']" if the
    table has it, else the call that computes it; "" if the name means no measure.

    Args:
        name: the attribute, such as "ndcg".
        measures: the measures in the table.
    """
    # the beginning of a measure in the table, such as "ndcg" of "nDCG@10"
    for measure in measures:
        if measure.casefold().startswith(name.casefold()):
            return f"table[{measure!r}]"
    # another tool's name of a measure in the table, such as "recall" for "R@5"
    measure_in_table = measured_as(name, measures)
    if measure_in_table:
        return f"table[{measure_in_table!r}]"
    # the name of a measure that is not in the table
    computable = expected_measure(name)
    return call_of_measure(computable) if computable else ""


def _texts_in(arguments: Any) -> Iterator[str]:
    """Yield the texts in nested tuples, lists and values of dicts."""
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, dict):
        yield from _texts_in(list(arguments.values()))
    elif isinstance(arguments, list | tuple):
        for each in arguments:
            yield from _texts_in(each)


def _method_without_texts(owner: type[Any], name: str) -> Any:
    """Return the method `name` of a class of pandas, but leaving out columns of text unless
    `numeric_only` is given.
    """
    method = getattr(owner, name)

    @wraps(method)
    def without_texts(table: Any, *args: Any, numeric_only: bool = True, **options: Any) -> Any:
        if isinstance(table, _Groups):
            table.refuse_mixed_measures()
        return method(table, *args, numeric_only=numeric_only, **options)

    return without_texts


def _method_with_hints(name: str) -> Any:
    """Return the method `name` of DataFrame with a better error for an unknown column: a ConfigError that
    suggests the column that is meant.
    """
    method = getattr(pd.DataFrame, name)

    @wraps(method)
    def method_with_hints(table: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(table, *args, **options)
        except KeyError as exc:
            table._explain_columns(exc, args, options)  # raises it if a column is unknown
            raise

    return method_with_hints


class _Plot(PlotAccessor):
    """The plots of a table of measures, which would draw all its numbers by the numbers of its rows."""

    def __init__(self, table: pd.DataFrame) -> None:
        super().__init__(table)
        self._columns = set(table.columns)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Draw the table as pandas does.

        Raises:
            ConfigError: no columns are named, and the table has a column of measures; the message has
                a call that draws such a table.
        """
        names_columns = any(options.get(name) is not None for name in ("x", "y", "column", "by"))
        if not (args or names_columns) and "measure" in self._columns:
            call = ""
            if "difference" in self._columns:
                call = "table.plot.barh(x='measure', y='difference')"
            elif {"value", "query_id"} <= self._columns:
                call = "table['nDCG@10'].plot(kind='box')"
            elif "value" in self._columns:
                call = "table.plot.barh(x='measure', y='value')"
            if call:
                raise ConfigError(f"name the columns to draw, as in {call}")
        return super().__call__(*args, **options)


class _Groups(DataFrameGroupBy):  # type: ignore[type-arg]  # pandas itself has no such arguments
    """Groups of rows, whose means leave out columns of text."""

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except KeyError as exc:
            self.obj._explain_columns(exc, key)
            raise

    def aggregate(self, *args: Any, **options: Any) -> Any:
        try:
            return super().aggregate(*args, **options)
        except TypeError:  # a column of text has no mean
            numbers = self.obj.select_dtypes(["number", "bool"]).columns
            return self[list(numbers)].aggregate(*args, **options)

    agg = aggregate

    def refuse_mixed_measures(self) -> None:
        """Raise ConfigError if the table has several measures and is not grouped by them: a mean over
        several measures has no meaning. That a single group may have only one is not looked at.
        """
        names = self.keys if isinstance(self.keys, list) else [self.keys]
        if not {"measure", "value"} <= {*self.obj.columns} or "measure" in names:
            return
        if self.obj["measure"].nunique() > 1:
            keys = [*names, "measure"]
            raise ConfigError(
                f"the groups have values of several measures; use table.groupby({keys})['value'].mean()"
            )

    def __getattr__(self, name: str) -> Any:
        """Return a column of the groups.

        Raises:
            AttributeError: there is none.
        """
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            hint = "groups have mean(), agg(['mean', 'std']) and others of pandas"
            raise AttributeError(f"groups have no {name!r}; {hint}", name=name) from None


def _operator_with_hint(name: str) -> Any:
    """Return the operator `name` of DataFrame with a better error for a table with columns of text."""
    operator = getattr(pd.DataFrame, name)

    @wraps(operator)
    def operator_with_hint(table: Any, other: Any) -> Any:
        try:
            return operator(table, other)
        except TypeError as exc:
            has_numbers_only = table.select_dtypes(exclude=["number", "bool"]).empty
            if has_numbers_only:
                raise
            raise ConfigError(
                "the table has columns of text; use rb.compare(a, b) for a difference, else a column of "
                "numbers, such as table['value']"
            ) from exc

    return operator_with_hint


for _name in _OPERATORS:
    setattr(ExplainedFrame, _name, _operator_with_hint(_name))
for _name in _METHODS_OF_NUMBERS:
    setattr(ExplainedFrame, _name, _method_without_texts(pd.DataFrame, _name))
    setattr(_Groups, _name, _method_without_texts(DataFrameGroupBy, _name))
for _name in _METHODS_OF_COLUMNS:
    setattr(ExplainedFrame, _name, _method_with_hints(_name))


class NamedRows(ExplainedFrame):
    """A DataFrame with a column `measure`, `name` or `query_id`, by whose values `table["nDCG@10"]` and
    `table.loc["nDCG@10"]` are a row, or the rows of this name.

    >>> table = NamedRows({"measure": ["RR", "AP"], "value": [1.0, 0.5]})
    >>> table["rr"]["measure"], table["value"].tolist(), float(table.loc["AP", "value"])
    ('RR', [1.0, 0.5], 0.5)
    >>> table["recall"]
    Traceback (most recent call last):
    ragbench.errors.UnknownKeyError: unknown column or row 'recall'. Known: measure, value, RR, AP
    """

    def __getitem__(self, key: Any) -> Any:
        """Return a column or rows of the table, as a DataFrame does. Two more keys are possible:

        - a text that is not a column: the row, or rows, of the measure, name or query of this text;
        - a condition on questions (query_id -> True or False): the rows of the questions for which it
          is True, although the table has another index.

        Raises:
            ConfigError: neither a column nor a row has the name.
        """
        if isinstance(key, str) and key not in self.columns:
            return self._rows_of(key)
        if isinstance(key, pd.Series) and self._is_by_question(key):
            # a question that the condition does not mention is not selected
            key = self["query_id"].map(key).fillna(False).astype(bool)
        part = super().__getitem__(key)
        if isinstance(part, ExplainedSeries):  # a column, in which rows are found by name
            part._table = self
        return part

    def _is_by_question(self, condition: "pd.Series[Any]") -> bool:
        """Return True for a condition on questions, such as `result["nDCG@10"] < 0.5`, which selects their
        rows in a table that has another index.
        """
        is_condition = condition.index.name == "query_id" and condition.dtype == bool
        return is_condition and "query_id" in self.columns and self.index.name != "query_id"

    def _rows_of(self, key: str) -> Any:
        """Return the row that has this name in the column measure, name or query_id; if several rows
        have it, a table of these rows.

        Raises:
            UnknownKeyError: no row has the name.
        """
        frame = pd.DataFrame(self)
        measure = find_measure(key)
        registered_name = measure.name if measure else key
        known = [str(column) for column in frame]
        for column in _NAMES:
            if column not in frame:
                continue
            names = list(dict.fromkeys(frame[column].astype(str)))
            for name in (key, registered_name):
                if name in names:
                    rows = frame[frame[column] == name]
                    return ExplainedSeries(rows.iloc[0]) if len(rows) == 1 else ExplainedFrame(rows)
            known += names
        if key == "p" and "p_value" in frame:  # the heading in the printed table
            raise UnknownKeyError("unknown column or row 'p'; use table['p_value']")
        raise UnknownKeyError(unknown_column(key, known))


class PropertyTable(NamedRows):
    """The table that a property of a record returns: calling it says that it is no method.

    >>> PropertyTable({"measure": ["RR"]})()
    Traceback (most recent call last):
    TypeError: this is a table, not a function: leave out the parentheses
    """

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("this is a table, not a function: leave out the parentheses")


class _Locations:
    """`loc` of a table, which explains a name that it lacks; rows of `NamedRows` are found by their names."""

    def __init__(self, locations: Any, table: ExplainedFrame) -> None:
        self._locations = locations
        self._table = table

    def __getitem__(self, key: Any) -> Any:
        """Return what `loc` of pandas returns; if it finds nothing, the rows whose measure, name or query
        is the key.

        The key may also be a name and a column, as in `table.loc["nDCG@10", "value"]`.
        """
        try:
            return self._locations[key]
        except KeyError as exc:
            keys = key if isinstance(key, tuple) else (key,)
            if not isinstance(self._table, NamedRows):
                self._table._explain_columns(exc, keys)
            if not isinstance(self._table, NamedRows) or not isinstance(keys[0], str):
                raise
        rows = self._table._rows_of(keys[0])
        return rows[keys[1]] if len(keys) > 1 else rows

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
    return f"unknown column or row {name!r}{hint} Known: {listed(known)}"
