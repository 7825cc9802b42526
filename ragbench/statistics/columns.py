"""Input and output of statistics: scores by measure, pairs of configurations, p-values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench import registry
from ragbench.errors import ComparisonError, ConfigError, DataError, DataWarning
from ragbench.registry import named_among

Floats = npt.NDArray[np.floating]


def check_alpha(alpha: float) -> None:
    """Refuse what is not a probability of error."""
    if not isinstance(alpha, float) or not 0 < alpha < 1:
        raise ConfigError(
            f"alpha is {alpha!r}; take a number between 0 and 1, usually 0.05 for 95 % intervals"
        )


def check_margin(margin: float) -> None:
    """Refuse a margin that is not a fraction of a measure's range."""
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


def by_measure(scores: Scores, what: str) -> dict[str, pd.Series[float]]:
    """Map each measure to its values by query_id, NaN where unscored; both in the order of
    `scores`.
    """
    try:
        return _by_measure(scores, what)
    except UnicodeEncodeError as exc:
        raise DataError(
            f"{what}: the id {exc.object!r} holds half of a surrogate pair; write the character itself"
        ) from exc


def _by_measure(scores: Scores, what: str) -> dict[str, pd.Series[float]]:
    columns = ["query_id", "measure", "value"]
    scores = scores if isinstance(scores, pd.DataFrame) else getattr(scores, "scores", scores)
    if not isinstance(scores, pd.DataFrame):
        raise DataError(
            f"{what} must be a DataFrame with the columns {columns}, not {type(scores).__name__}"
        )
    if missing := [name for name in columns if name not in scores]:
        raise DataError(
            f"{what}: no column {', '.join(missing)}; expected {columns}, got {list(scores)}"
        )
    if scores.empty:
        raise DataError(f"{what} are empty: there is nothing to summarise or compare")
    try:
        values = scores["value"].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as exc:
        raise DataError(f"{what}: a value is not a number: {exc}") from exc
    codes, names = pd.factorize(scores["measure"])
    queries, ids = pd.factorize(scores["query_id"])
    for wrong, problem in (
        (np.isinf(values), "a value is not finite"),
        ((codes < 0) | (queries < 0), "a row lacks its query_id or measure"),
        (
            pd.Index(codes * len(ids) + queries).duplicated(),
            "two values; keep one row per query and measure",
        ),
    ):
        if wrong.any():
            row = scores[["query_id", "measure"]].assign(value=values)[wrong].iloc[0]
            raise DataError(f"{what}: {problem}: {row.to_dict()}")
    order, table = np.argsort(codes, kind="stable"), {}
    index, members = pd.Index(ids), np.arange(len(ids))
    for name, rows in zip(names, np.split(order, np.cumsum(np.bincount(codes))[:-1]), strict=True):
        if not np.array_equal(queries[rows], members):  # most measures have the same queries
            index, members = pd.Index(ids).take(queries[rows]), queries[rows]
        table[str(name)] = pd.Series(values[rows], index)
    for name, column in table.items():
        check_bounds(name, column, what)
    return table


def check_bounds(measure: str, values: pd.Series[float], what: str) -> None:
    """Refuse values (by query_id) outside of the bounds of a registered measure, and numbers that are
    too large to compute with.

    >>> check_bounds("nDCG@10", pd.Series([0.5, 2.0], index=["q1", "q2"]), "scores of 'bm25'")
    Traceback (most recent call last):
    ragbench.errors.DataError: scores of 'bm25': nDCG@10 of query 'q2' is 2; expected 0 to 1, or a measure of another name
    """  # noqa: E501
    low, high = registry.bounds_of(measure) if registry.find_measure(measure) else (None, None)
    lowest = -_MAX if low is None else low
    highest = _MAX if high is None else high
    wrong = values[(values < lowest - _ROUNDING) | (values > highest + _ROUNDING)]
    if len(wrong):
        raise DataError(
            f"{what}: {measure} of query {wrong.index[0]!r} is {wrong.iloc[0]:g}; expected "
            f"{lowest:g} to {highest:g}, or a measure of another name"
        )


_ROUNDING = 1e-9
_MAX = 1e100  # its square is a number, too


def mean(values: Floats) -> float:
    """Return the mean; NaN of nothing."""
    return float(values.mean()) if len(values) else math.nan


def deviation(values: Floats) -> float:
    """Return the standard deviation of a sample; NaN below two values."""
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def bounds_of(measure: str, *values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest value of a measure, infinite where there is none.

    Registered measures have those of the registry, others 0 and 1. Infinite where `values` go
    beyond: then it is another measure of the same name.

    >>> bounds_of("nDCG@10"), bounds_of("latency_total_ms"), bounds_of("of_my_own", np.array([3.0]))
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    low, high = registry.bounds_of(measure) if registry.find_measure(measure) else (0.0, 1.0)
    bounds = -math.inf if low is None else low, math.inf if high is None else high
    seen = np.concatenate([np.empty(0), *values])
    inside = ((seen >= bounds[0] - 1e-9) & (seen <= bounds[1] + 1e-9)).all()
    return bounds if inside else (-math.inf, math.inf)


class Pairs(NamedTuple):
    """Values of both on the queries that both scored, in the order of the baseline.

    `unpaired` is the number of queries that either side left unscored, `ids` are those of the others.
    """

    before: Floats
    after: Floats
    unpaired: int
    ids: pd.Index

    @property
    def difference(self) -> Floats:
        return self.after - self.before

    @property
    def binary(self) -> bool:
        """Return True if all values are 0 or 1."""
        return bool(np.isin([self.before, self.after], (0.0, 1.0)).all())


Tables = Mapping[str, Mapping[str, "pd.Series[float]"]]


def tables_of(scores_by_name: Mapping[str, Scores]) -> dict[str, dict[str, pd.Series[float]]]:
    """Map name to measure to values by query_id."""
    return {
        name: by_measure(scores, f"scores of {name!r}") for name, scores in scores_by_name.items()
    }


def chosen_measures(tables: Tables, measures: Sequence[str] | None) -> list[str]:
    """Return the measures to compare by, that all configurations have."""
    every = dict.fromkeys(measure for table in tables.values() for measure in table)
    shared = [name for name in every if all(name in table for table in tables.values())]
    if measures is None:
        if not shared:
            lists = "; ".join(f"{name!r} has {', '.join(table)}" for name, table in tables.items())
            raise ComparisonError(f"no measure in common: {lists}")
        if left_out := sorted(every.keys() - shared):
            warnings.warn(
                f"{len(left_out)} measures that not all configurations have are not "
                f"compared: {', '.join(left_out)}",
                DataWarning,
                stacklevel=3,
            )
        return shared
    measures = [measures] if isinstance(measures, str) else measures
    if not any(measures):
        raise ConfigError(
            f"measures is a list of names such as ['nDCG@10', 'RR'], not {measures!r}"
        )
    chosen: dict[str, None] = {}
    for name, table in tables.items():
        try:
            chosen = dict.fromkeys(named_among(measure, table) for measure in measures)
        except ConfigError as exc:
            raise ConfigError(f"scores of {name!r}: {exc}") from None
    return list(chosen)


def paired(tables: Tables, baseline: str, name: str, measure: str) -> Pairs:
    """Pair the values of both on the queries that both scored."""
    before, after = tables[baseline][measure], tables[name][measure]
    same = before.index.equals(after.index)
    if not same and (len(before) != len(after) or not before.index.isin(after.index).all()):
        alone = [
            list(before.index.difference(after.index)),
            list(after.index.difference(before.index)),
        ]
        first, second = (", ".join(map(repr, ids[:3])) or "none" for ids in alone)
        raise ComparisonError(
            f"{measure}: {baseline!r} and {name!r} do not have the same queries ({len(before)} "
            f"and {len(after)}, {len(before) - len(alone[0]) or 'none'} in common); "
            f"only {baseline!r} has {first}, only {name!r} has {second}. Run both on the same "
            "dataset and split"
        )
    left, right = before.to_numpy(), (after if same else after.reindex(before.index)).to_numpy()
    both = ~(np.isnan(left) | np.isnan(right))
    return Pairs(left[both], right[both], int((~both).sum()), before.index[both])


def matrix_of(scores_by_name: Mapping[str, pd.DataFrame], measure: str) -> tuple[str, pd.DataFrame]:
    """Return the measure as the scores call it, and its values: queries down (only those that all
    scored), configurations across.

    Raises:
        ComparisonError: the configurations do not have the same queries, or none that all of them
            scored.
        ConfigError: fewer than two configurations, or a measure that one of them lacks.
    """
    if len(scores_by_name) < 2:
        raise ConfigError(
            f"{len(scores_by_name)} configurations; this needs the scores of at least 2"
        )
    tables = tables_of(scores_by_name)
    first = next(iter(tables))
    [measure] = chosen_measures(tables, [measure])
    for name in tables:
        paired(tables, first, name, measure)
    order = tables[first][measure].index
    columns = {name: table[measure].reindex(order) for name, table in tables.items()}
    matrix = pd.DataFrame(columns).dropna()
    if matrix.empty:
        raise ComparisonError(
            f"{measure}: no query that all {len(tables)} configurations have scored"
        )
    return measure, matrix


def adjusted_p_values(p_values: Sequence[float] | Floats, n_others: int = 0) -> Floats:
    """Adjust p-values by Holm (1979), in the order given; what is NaN stays NaN and does not count
    as a test. `n_others` more tests count as if their p-values were 1.

    The i-th smallest of n is multiplied by n - i + 1, and none is smaller than one before it; at
    most 1. Not by statsmodels' multipletests: each call of it collects the garbage of the whole
    process, which costs more than everything else in a comparison.

    >>> adjusted_p_values([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted = np.array(p_values, dtype=np.float64)
    n = int((~np.isnan(adjusted)).sum())
    order = np.argsort(adjusted, kind="stable")[:n]  # NaN comes last
    factors = np.arange(n, 0, -1) + n_others
    adjusted[order] = np.minimum(np.maximum.accumulate(adjusted[order] * factors), 1.0)
    return adjusted


def known_number(value: Any) -> float | None:
    """Return a number as records have it: None where there is none, or it is not finite.

    >>> known_number(float("nan")), known_number(1)
    (None, 1.0)
    """
    return None if pd.isna(value) or not math.isfinite(value) else float(value)


def p_text(p: float | None, equals: str = "") -> str:
    """Format a p-value for tables, reports and sentences, never as 0; "–" where there is none.

    >>> p_text(0.0312), p_text(0.0312, "= "), p_text(0.00002), p_text(None), p_text(0.9996)
    ('0.031', '= 0.031', '< 0.001', '–', '1.000')
    """
    if p is None or pd.isna(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """Round a table of statistics to look at it; p-values (columns p_...) as `p_text` has them.

    >>> import pandas as pd
    >>> rounded(pd.DataFrame({"difference": [0.12345], "p_value": [0.00001]}))
       difference  p_value
    0       0.123  < 0.001
    """
    names = [name for name in map(str, table) if name.startswith("p_")]
    return table.round(3).assign(**{name: table[name].map(p_text) for name in names})
