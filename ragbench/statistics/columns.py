"""Input and output of statistics: scores by measure, checked, pairs of configurations, Holm's
correction, and p-values as texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench import registry
from ragbench.array_types import Bools, Floats, Ints
from ragbench.errors import ComparisonError, ConfigError, DataError, warn_user
from ragbench.registry import named_among

TIE = 1e-12
"""Values closer than this are equal: the same cosine may differ in the last bits."""


def check_alpha(alpha: float) -> None:
    """Raise ConfigError unless `alpha` is a probability of error, between 0 and 1."""
    if not isinstance(alpha, float) or not 0 < alpha < 1:
        raise ConfigError(
            f"alpha is {alpha!r}; take a number between 0 and 1, usually 0.05 for 95 % intervals"
        )


def check_margin(margin: float) -> None:
    """Raise ConfigError unless a margin is a fraction of a measure's range."""
    if not isinstance(margin, int | float) or not 0 <= margin < 1:
        raise ConfigError(
            f"margin is {margin!r}; expected a fraction of the measure's range, from 0 to below 1, "
            "such as 0.02"
        )


class HasScores(Protocol):
    """A result."""

    @property
    def scores(self) -> pd.DataFrame: ...


Scores = pd.DataFrame | HasScores


class Column(NamedTuple):
    """The values of a measure (NaN: unscored) and their queries."""

    values: Floats
    ids: pd.Index

    def equals(self, other: Column) -> bool:
        """Return True if the other column has the same values of the same queries in the same order."""
        have_same_ids = self.ids.equals(other.ids)
        return have_same_ids and np.array_equal(self.values, other.values, equal_nan=True)


def by_measure(scores: Scores, what: str) -> dict[str, Column]:
    """Return measure -> its values by query; measures and queries are in the order of `scores`.

    Args:
        scores: a frame of tidy scores (query_id, measure, value), or a result that has one.
        what: names the scores in messages, such as "scores of 'bm25'".

    Raises:
        DataError: the scores are not tidy scores, a measure has two values of a query, or a value is
            out of bounds; `what` names the scores in the message.
    """
    frame = _tidy(scores, what)
    return _Layout.of(frame, what).table(frame, what)


def _tidy(scores: Scores, what: str) -> pd.DataFrame:
    """Return the frame of scores, which are a frame or an object with one as `scores` (a result).

    Raises:
        DataError: there is no frame, it lacks query_id, measure or value, or it is empty; `what` names
            the scores in the message.
    """
    columns = ["query_id", "measure", "value"]
    frame = scores
    if not isinstance(scores, pd.DataFrame):
        frame = getattr(scores, "scores", scores)
    if not isinstance(frame, pd.DataFrame):
        raise DataError(
            f"{what} must be a DataFrame with the columns {columns}, not {type(frame).__name__}"
        )
    if missing := [name for name in columns if name not in frame]:
        raise DataError(
            f"{what}: no column {', '.join(missing)}; expected {columns}, got {list(frame)}"
        )
    if frame.empty:
        raise DataError(f"{what} are empty: there is nothing to summarise or compare")
    return frame


class _Layout(NamedTuple):
    """Where a frame of scores has each measure and query. Frames of the same layout, such as the frames
    of a sweep, are searched once.

    Attributes:
        measures: the column `measure` of the frame; with the next one, it tells whether another
            frame has the same layout.
        queries: the column `query_id`.
        rows: measure -> the numbers of its rows.
        indexes: measure -> the queries of these rows, in the same order.
    """

    measures: pd.Series[str]
    queries: pd.Series[str]
    rows: dict[str, npt.NDArray[np.intp]]
    indexes: dict[str, pd.Index]

    @classmethod
    def of(cls, frame: pd.DataFrame, what: str) -> _Layout:
        """Find which rows of a frame have each measure, and the queries of these rows.

        A measure with the same queries in the same order as the measure before it shares the index of
        that measure.

        Raises:
            DataError: a row has no measure or no query, or two rows have the same measure and query.
        """
        try:
            measure_codes, names = pd.factorize(frame["measure"])  # -1 if it is missing
            query_codes, ids = pd.factorize(frame["query_id"])
        except UnicodeEncodeError as exc:
            raise DataError(
                f"{what}: the id {exc.object!r} holds half of a surrogate pair; write the "
                "character itself"
            ) from exc
        lacks_code = (measure_codes < 0) | (query_codes < 0)
        _check_rows(lacks_code, frame, f"{what}: a row lacks its query_id or measure")
        pairs = pd.Index(measure_codes * len(ids) + query_codes)  # a number per measure and query
        is_repeated = pairs.duplicated()
        _check_rows(is_repeated, frame, f"{what}: two values; keep one row per query and measure")
        # Collect for each measure its rows, and the index of the queries in these rows.
        layout = cls(frame["measure"], frame["query_id"], rows={}, indexes={})
        all_queries = pd.Index(ids)
        index = all_queries
        codes_of_index = np.arange(len(ids))
        for name, rows in zip(names, _rows_by_code(measure_codes), strict=True):
            codes_of_rows = query_codes[rows]
            shares_index = np.array_equal(codes_of_rows, codes_of_index)
            if not shares_index:
                codes_of_index = codes_of_rows
                index = all_queries.take(codes_of_index)
            layout.rows[str(name)] = rows
            layout.indexes[str(name)] = index
        return layout

    def fits(self, frame: pd.DataFrame) -> bool:
        """Return True if a frame has the same measures and queries in the same order."""
        return frame["measure"].equals(self.measures) and frame["query_id"].equals(self.queries)

    def table(self, frame: pd.DataFrame, what: str) -> dict[str, Column]:
        """Return measure -> its values by query, from a frame that has this layout.

        Raises:
            DataError: a value is not a finite number, or out of bounds.
        """
        try:
            numbers = frame["value"]
            if numbers.dtype != np.float64:
                numbers = numbers.astype("Float64")
            values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as exc:
            raise DataError(f"{what}: a value is not a number: {exc}") from exc
        _check_rows(np.isinf(values), frame, f"{what}: a value is not finite")
        table = {}
        for name, rows in self.rows.items():
            column = Column(values[rows], self.indexes[name])
            check_bounds(name, column, what)
            table[name] = column
        return table


def _rows_by_code(codes: Ints) -> list[Ints]:
    """Return for each code from 0 on the numbers of the rows that have it, ascending.

    >>> [rows.tolist() for rows in _rows_by_code(np.array([0, 1, 0]))]
    [[0, 2], [1]]
    """
    sorted_rows = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    return np.split(sorted_rows, ends[:-1])


def _check_rows(is_wrong: Bools, frame: pd.DataFrame, problem: str) -> None:
    """Raise DataError with the first wrong row of a frame, if there is one."""
    if is_wrong.any():
        first = frame.loc[is_wrong, ["query_id", "measure", "value"]].iloc[0]
        raise DataError(f"{problem}: {first.to_dict()}")


def check_bounds(measure: str, column: Column, what: str) -> None:
    """Raise DataError if a value is outside of the bounds of its registered measure, or too large
    to compute with.

    >>> column = Column(np.array([0.5, 2.0]), pd.Index(["q1", "q2"]))
    >>> check_bounds("nDCG@10", column, "scores of 'bm25'")
    Traceback (most recent call last):
    ragbench.errors.DataError: scores of 'bm25': nDCG@10 of query 'q2' is 2; expected 0 to 1, or a measure of another name
    """  # noqa: E501
    lowest, highest = _allowed_range(measure)
    is_wrong = (column.values < lowest - _ROUNDING) | (column.values > highest + _ROUNDING)
    if is_wrong.any():
        first = int(is_wrong.argmax())
        raise DataError(
            f"{what}: {measure} of query {column.ids[first]!r} is {column.values[first]:g}; expected "
            f"{lowest:g} to {highest:g}, or a measure of another name"
        )


def check_all_bounds(scores: pd.DataFrame, what: str) -> None:
    """Raise DataError if a value of tidy scores is outside of the bounds of its measure, as
    `check_bounds` does for one measure; all rows are compared at once.

    >>> scores = pd.DataFrame({"query_id": ["q1", "q1"], "measure": ["RR", "AP"], "value": [0.5, 2.0]})
    >>> check_all_bounds(scores, "scores.csv")
    Traceback (most recent call last):
    ragbench.errors.DataError: scores.csv: AP of query 'q1' is 2; expected 0 to 1, or a measure of another name
    """
    measure_codes, names = pd.factorize(scores["measure"])
    ranges = np.array([_allowed_range(str(name)) for name in names]).reshape(-1, 2)
    lowest, highest = ranges[measure_codes].T  # of each row
    values = scores["value"].to_numpy(dtype=np.float64, na_value=np.nan)
    is_wrong = (values < lowest - _ROUNDING) | (values > highest + _ROUNDING)
    if is_wrong.any():
        wrong_measure = scores.loc[is_wrong, "measure"].iloc[0]
        is_measure = (scores["measure"] == wrong_measure).to_numpy()
        column = Column(values[is_measure], pd.Index(scores["query_id"][is_measure]))
        check_bounds(str(wrong_measure), column, what)  # raises


def _allowed_range(measure: str) -> tuple[float, float]:
    """Return the smallest and the largest value that a measure may have; for one without a bound, the
    largest number that can be computed with.
    """
    # None: no bound
    low, high = registry.bounds_of(measure) if registry.find_measure(measure) else (None, None)
    return (-_MAX if low is None else low), (_MAX if high is None else high)


_ROUNDING = 1e-9
_MAX = 1e100  # its square is a number, too


def mean(values: Floats) -> float:
    """Return the mean; NaN without values."""
    return float(values.mean()) if len(values) else math.nan


def deviation(values: Floats) -> float:
    """Return the standard deviation of a sample; NaN below two values."""
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def means_of_rows(rows: Floats) -> Floats:
    """Return the mean of each row (rows, values); NaN without values."""
    means: Floats = rows.mean(axis=1) if rows.shape[1] else np.full(len(rows), math.nan)
    return means


def deviations_of_rows(rows: Floats) -> Floats:
    """Return the standard deviation of each row, a sample (rows, values); NaN below two values."""
    if rows.shape[1] < 2:
        return np.full(len(rows), math.nan)
    deviations: Floats = rows.std(axis=1, ddof=1)
    return deviations


def blocks_of_rows(columns: Sequence[Floats]) -> Iterator[tuple[list[int], Floats]]:
    """Yield columns of the same length as rows of one matrix, which can be computed at once: no more of
    them than fit into the cache of a processor.

    Yields:
        The positions in `columns` of the rows, and the matrix (rows, values).
    """
    by_length: dict[int, list[int]] = {}  # length -> positions of columns
    for i, column in enumerate(columns):
        by_length.setdefault(len(column), []).append(i)
    for length, positions in by_length.items():
        n_rows = max(1, _BLOCK // (length + 1))
        for start in range(0, len(positions), n_rows):
            block = positions[start : start + n_rows]
            yield block, np.array([columns[i] for i in block])


_BLOCK = 50_000  # numbers in a matrix that fits into the cache of a processor


def bounds_of(measure: str, *values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure; infinite if it is unbounded.

    Registered measures have the bounds of the registry, others 0 and 1. But if one of `values` is
    outside of these bounds, it is another measure of the same name: both bounds are then infinite.
    They are infinite for NaN, too, so leave unscored values out.

    >>> bounds_of("nDCG@10"), bounds_of("latency_total_ms"), bounds_of("of_my_own", np.array([3.0]))
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    # None: no bound; an unknown measure is taken as a fraction
    low, high = registry.bounds_of(measure) if registry.find_measure(measure) else (0.0, 1.0)
    lowest = -math.inf if low is None else low
    highest = math.inf if high is None else high
    for observed in values:
        if not _is_inside(observed, lowest, highest).all():
            return -math.inf, math.inf
    return lowest, highest


def _is_inside(values: Floats, lowest: float, highest: float) -> Bools:
    """Return True for each value within bounds, but for rounding; False for NaN."""
    inside: Bools = (values >= lowest - _ROUNDING) & (values <= highest + _ROUNDING)
    return inside


@dataclass(frozen=True, eq=False)
class Pairs:
    """The values of the baseline and of contenders by one measure, on the queries that the baseline and
    each of these contenders scored.

    Attributes:
        names: the contenders.
        ids: the queries, in the order of the baseline.
        unpaired: the number of other queries, which the baseline or the contender left unscored; it is
            the same for all these contenders.
        before: the values of the baseline (queries,).
        after: the values of the contenders (contenders, queries).
    """

    names: list[str]
    ids: pd.Index
    unpaired: int
    before: Floats
    after: Floats

    @cached_property
    def difference(self) -> Floats:
        """Return the values of the contenders minus the baseline's (contenders, queries)."""
        difference: Floats = self.after - self.before
        return difference

    @cached_property
    def mean_differences(self) -> Floats:
        """Return the mean difference of each contender; NaN without queries."""
        return means_of_rows(self.difference)

    @cached_property
    def deviations(self) -> Floats:
        """Return the standard deviation of each contender's differences; NaN below two queries."""
        return deviations_of_rows(self.difference)

    def is_binary(self) -> Bools:
        """Return True for each contender if all its values and all of the baseline are 0 or 1."""
        is_baseline_binary = np.isin(self.before, (0.0, 1.0)).all()
        is_contender_binary = np.isin(self.after, (0.0, 1.0)).all(axis=1)
        is_binary: Bools = np.logical_and(is_baseline_binary, is_contender_binary)
        return is_binary

    def largest_differences(self, measure: str) -> Floats:
        """Return the largest possible difference between each contender and the baseline by the bounds of
        `measure`; infinite if it is unbounded, or if one of their values is out of bounds (`bounds_of`).
        """
        lowest, highest = bounds_of(measure, self.before)
        is_inside = _is_inside(self.after, lowest, highest).all(axis=1)
        return np.where(is_inside, highest - lowest, math.inf)


Tables = Mapping[str, Mapping[str, Column]]


def tables_of(scores_by_name: Mapping[str, Scores]) -> dict[str, dict[str, Column]]:
    """Return name -> measure -> values by query, for the scores of each configuration.

    A layout knows in which rows of a frame each measure is. The configurations of a sweep have their
    rows in the same order, so that one layout fits them all.

    Raises:
        DataError: as in `by_measure`.
    """
    tables = {}
    layout = None
    for name, scores in scores_by_name.items():
        what = f"scores of {name!r}"
        frame = _tidy(scores, what)
        if layout is None or not layout.fits(frame):
            layout = _Layout.of(frame, what)
        tables[name] = layout.table(frame, what)
    return tables


def chosen_measures(tables: Tables, measures: Sequence[str] | None) -> list[str]:
    """Return the measures to compare by, each once, as the scores spell them: the given measures; if
    `measures` is None, all measures that every configuration has.

    Raises:
        ConfigError: a given measure is missing in a configuration, or has different names in two, or
            `measures` is empty.
        ComparisonError: the configurations have no measure in common.
    """
    if measures is None:
        return _shared_measures(tables)
    measures = [measures] if isinstance(measures, str) else measures
    if not any(measures):
        raise ConfigError(
            f"measures is a list of names such as ['nDCG@10', 'RR'], not {measures!r}"
        )
    chosen: list[str] = []
    for name, table in tables.items():
        try:
            # the names that the scores use, such as "nDCG@10" for a given "ndcg@10"
            names_in_table = [named_among(measure, table) for measure in measures]
        except ConfigError as exc:
            raise ConfigError(f"scores of {name!r}: {exc}") from None
        if chosen and names_in_table != chosen:
            raise ConfigError(
                f"scores of {name!r} have the measure {', '.join(names_in_table)}, others have "
                f"{', '.join(chosen)}: give a measure the same name in all scores"
            )
        chosen = names_in_table
    return list(dict.fromkeys(chosen))


def _shared_measures(tables: Tables) -> list[str]:
    """Return the measures that every configuration has, in the order of the tables. Measures that
    only some have are named in a warning.

    Raises:
        ComparisonError: the configurations have no measure in common.
    """
    all_measures = dict.fromkeys(chain.from_iterable(tables.values()))
    shared = []
    for measure in all_measures:
        if all(measure in table for table in tables.values()):
            shared.append(measure)
    if not shared:
        lists = "; ".join(f"{name!r} has {', '.join(table)}" for name, table in tables.items())
        raise ComparisonError(f"no measure in common: {lists}")
    if left_out := sorted(all_measures.keys() - shared):
        warn_user(
            f"{len(left_out)} measures that not all configurations have are not "
            f"compared: {', '.join(left_out)}"
        )
    return shared


def paired(tables: Tables, baseline: str, measure: str) -> list[Pairs]:
    """Return the values of the baseline and of all other configurations by a measure, on the queries
    that both scored. Contenders that scored the same queries are together.

    Raises:
        ComparisonError: two configurations do not have the same queries.
    """
    names = [name for name in tables if name != baseline]
    before, ids = tables[baseline][measure]
    after = np.array([_values_in_order(tables, baseline, name, measure) for name in names])
    is_paired = ~(np.isnan(before) | np.isnan(after))  # (contenders, queries)
    # contenders by the queries that they are paired on
    groups: dict[bytes, list[int]] = {}
    for i, is_scored in enumerate(is_paired):
        groups.setdefault(is_scored.tobytes(), []).append(i)
    pairs = []
    for members in groups.values():
        is_scored = is_paired[members[0]]
        pairs_of_group = Pairs(
            names=[names[i] for i in members],
            ids=ids[is_scored],
            unpaired=int((~is_scored).sum()),
            before=before[is_scored],
            after=after[np.ix_(members, is_scored)],
        )
        pairs.append(pairs_of_group)
    return pairs


def _values_in_order(tables: Tables, baseline: str, name: str, measure: str) -> Floats:
    """Return the values of a configuration by a measure, in the order of the baseline's queries.

    Raises:
        ComparisonError: the two do not have the same queries.
    """
    before = tables[baseline][measure].ids
    values, after = tables[name][measure]
    if before.equals(after):
        return values
    if len(before) != len(after) or not before.isin(after).all():
        only_before = list(before.difference(after))
        only_after = list(after.difference(before))
        raise ComparisonError(
            f"{measure}: {baseline!r} and {name!r} do not have the same queries ({len(before)} "
            f"and {len(after)}, {len(before) - len(only_before) or 'none'} in common); "
            f"only {baseline!r} has {_first_three(only_before)}, only {name!r} has "
            f"{_first_three(only_after)}. Run both on the same dataset and split"
        )
    return values[after.get_indexer(before)]  # the same queries in another order


def _first_three(ids: Sequence[object]) -> str:
    return ", ".join(repr(query_id) for query_id in ids[:3]) or "none"


def matrix_of(scores_by_name: Mapping[str, pd.DataFrame], measure: str) -> tuple[str, pd.DataFrame]:
    """Return the measure as the scores call it, and its values: a row per query that all scored, a
    column per configuration.

    Raises:
        ComparisonError: the configurations do not have the same queries, or none that all of them
            scored.
        ConfigError: there are fewer than two configurations, or one of them lacks the measure.
    """
    if len(scores_by_name) < 2:
        raise ConfigError(
            f"{len(scores_by_name)} configurations; this needs the scores of at least 2"
        )
    tables = tables_of(scores_by_name)
    first = next(iter(tables))
    [measure] = chosen_measures(tables, [measure])
    columns = {name: _values_in_order(tables, first, name, measure) for name in tables}
    matrix = pd.DataFrame(columns, index=tables[first][measure].ids).dropna()
    if matrix.empty:
        raise ComparisonError(
            f"{measure}: no query that all {len(tables)} configurations have scored"
        )
    return measure, matrix


def adjusted_p_values(p_values: Sequence[float] | Floats, n_others: int = 0) -> Floats:
    """Return p-values adjusted by Holm (1979), in the same order; NaN stays NaN and does not count as
    a test. `n_others` more tests count as if their p-values were 1.

    The i-th smallest of n p-values is multiplied by n - i + 1; none becomes smaller than a smaller
    one, or larger than 1. statsmodels' multipletests is not used: each call of it collects the
    garbage of the whole process, which costs more than everything else in a comparison.

    >>> adjusted_p_values([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted = np.array(p_values, dtype=np.float64)
    n = int((~np.isnan(adjusted)).sum())
    order = np.argsort(adjusted, kind="stable")[:n]  # NaN comes last
    factors = np.arange(n, 0, -1) + n_others
    # the running maximum: none becomes smaller than a smaller one
    adjusted[order] = np.minimum(np.maximum.accumulate(adjusted[order] * factors), 1.0)
    return adjusted


def known_number(value: Any) -> float | None:
    """Return a number for a record: None for a missing or infinite number.

    >>> known_number(float("nan")), known_number(1)
    (None, 1.0)
    """
    if pd.isna(value) or not math.isfinite(value):
        return None
    return float(value)


def p_text(p: float | None, equals: str = "") -> str:
    """Format a p-value for tables, reports and sentences, never as 0; "–" for a missing one.

    >>> p_text(0.0312), p_text(0.0312, "= "), p_text(0.00002), p_text(None), p_text(0.9996)
    ('0.031', '= 0.031', '< 0.001', '–', '1.000')
    """
    if p is None or pd.isna(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Round a table of statistics for display; p-values (columns p_...) are formatted by `p_text`.

    >>> import pandas as pd
    >>> rounded(pd.DataFrame({"difference": [0.12345], "p_value": [0.00001]}))
       difference  p_value
    0       0.123  < 0.001
    """
    names = [name for name in map(str, table) if name.startswith("p_")]
    return table.round(3).assign(**{name: table[name].map(p_text) for name in names})
