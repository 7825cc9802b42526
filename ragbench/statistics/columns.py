"""Input and output of statistics: settings, scores by measure, pairs of configurations, p-values,
nullable numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench import registry
from ragbench.errors import ComparisonError, ConfigError, DataError, DataWarning
from ragbench.registry import named_among

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.int64]
Groups = Mapping[str, Hashable] | pd.Series


def check_settings(alpha: float, n_resamples: int = 10_000, seed: int = 0) -> None:
    if not isinstance(n_resamples, int) or n_resamples < 100:
        raise ConfigError(
            f"n_resamples is {n_resamples!r}; take a whole number from 100, usually 10000"
        )
    if not isinstance(alpha, float) or not 0 < alpha < 1:
        raise ConfigError(
            f"alpha is {alpha!r}; take a number between 0 and 1, usually 0.05 for 95 % intervals"
        )
    if not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"seed is {seed!r}; take a whole number from 0")


def by_measure(scores: pd.DataFrame, what: str) -> dict[str, pd.Series[float]]:
    """Measure -> values by query_id, NaN where unscored; both in the order of `scores`."""
    wanted = ["query_id", "measure", "value"]
    if not isinstance(scores, pd.DataFrame):
        raise DataError(
            f"{what} must be a DataFrame with the columns {wanted}, not {type(scores).__name__}"
        )
    if lacking := [name for name in wanted if name not in scores.columns]:
        raise DataError(
            f"{what}: no column {', '.join(lacking)}; expected {wanted}, "
            f"found {list(scores.columns)}"
        )
    if scores.empty:
        raise DataError(f"{what} are empty: there is nothing to summarise or compare")
    values = scores["value"].infer_objects()
    if not pd.api.types.is_numeric_dtype(
        values
    ):  # numbers together with None or pd.NA are kept as objects
        for value in values[values.notna()]:
            if not isinstance(value, Real):
                raise DataError(
                    f"{what}: value {value!r} is not a number; the column is of type {values.dtype}"
                )
        values = values.where(values.notna(), None).astype("Float64")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise DataError(
            f"{what}: value {numbers[row]} of query {scores['query_id'].iloc[row]!r} is not finite"
        )
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
                f"{what}: query {twice!r} has two values for {measure!r}; keep one row per query "
                "and measure"
            )
        table[str(measure)] = column
    return table


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def nullable(values: Sequence[float] | Floats) -> pd.api.extensions.ExtensionArray:
    numbers = np.asarray(values, dtype=np.float64)
    return pd.arrays.FloatingArray(np.nan_to_num(numbers), np.isnan(numbers))


def with_nullable(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The frame with these columns as numbers that may be pd.NA."""
    return frame.assign(**{name: nullable(frame[name].to_numpy(dtype=float)) for name in names})


def bounds_of(measure: str, *values: Floats) -> tuple[float, float]:
    """The smallest and the largest value of a measure, infinite where there is none.

    Registered measures have those of the registry, others 0 and 1. Infinite where `values` go
    beyond: then it is another measure of the same name.

    >>> bounds_of("nDCG@10"), bounds_of("latency_total_ms"), bounds_of("of_my_own", np.array([3.0]))
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    low, high = registry.bounds_of(measure) if registry.find_measure(measure) else (0.0, 1.0)
    bounds = -math.inf if low is None else low, math.inf if high is None else high
    inside = all(
        side.min() >= bounds[0] - 1e-9 and side.max() <= bounds[1] + 1e-9
        for side in values
        if side.size
    )
    return bounds if inside else (-math.inf, math.inf)


class Pairs(NamedTuple):
    """The values of both on the queries that both scored, in the order of the baseline.

    `unpaired` is the number of queries that either side left unscored.
    """

    before: Floats
    after: Floats
    query_ids: list[str]
    unpaired: int

    @property
    def difference(self) -> Floats:
        return self.after - self.before

    @property
    def binary(self) -> bool:
        """Whether all values are 0 or 1."""
        return len(self.before) > 0 and all(
            bool(np.isin(side, (0.0, 1.0)).all()) for side in (self.before, self.after)
        )


Tables = Mapping[str, Mapping[str, "pd.Series[float]"]]


def tables_of(scores_by_name: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.Series[float]]]:
    """name -> measure -> values by query_id."""
    return {
        name: by_measure(scores, f"scores of {name!r}") for name, scores in scores_by_name.items()
    }


def chosen_measures(
    tables: Tables, measures: Sequence[str] | None, baseline: str, *, depth: int = 3
) -> list[str]:
    """The measures to compare by, that all configurations have; `depth` is where a warning should
    point.
    """
    shared = [
        measure
        for measure in tables[baseline]
        if all(measure in table for table in tables.values())
    ]
    if measures is None:
        if not shared:
            held = "; ".join(f"{name!r} has {', '.join(table)}" for name, table in tables.items())
            raise ComparisonError(f"no measure in common: {held}")
        if left_out := sorted(
            {measure for table in tables.values() for measure in table} - set(shared)
        ):
            warnings.warn(
                f"{len(left_out)} measures that not all configurations have are not "
                f"compared: {', '.join(left_out)}",
                DataWarning,
                stacklevel=depth,
            )
        return shared
    if isinstance(measures, str) or not list(measures):
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


def measure_among(scores_by_name: Mapping[str, pd.DataFrame], measure: str) -> str:
    """The measure that is meant, as the scores of the first configuration call it; as given where
    they lack it.
    """
    first = next(iter(scores_by_name.values()), None)
    known = set(first["measure"]) if first is not None and "measure" in first else set()
    try:
        return named_among(measure, map(str, known))
    except ConfigError:
        return measure


def paired(tables: Tables, baseline: str, name: str, measure: str) -> Pairs:
    """The values of both on the queries that both scored."""
    before, after = tables[baseline][measure], tables[name][measure]
    if len(before) != len(after) or not before.index.isin(after.index).all():
        only_before, only_after = (
            before.index.difference(after.index),
            after.index.difference(before.index),
        )
        common = len(before) - len(only_before)
        raise ComparisonError(
            f"{measure}: {baseline!r} and {name!r} do not have the same queries ({len(before)} "
            f"and {len(after)}, {common or 'none'} in common); only {baseline!r} "
            f"has {_first(only_before)}, only {name!r} has {_first(only_after)}. Run both on the "
            "same dataset and split"
        )
    left, right = before.to_numpy(), after.reindex(before.index).to_numpy()
    both = ~(np.isnan(left) | np.isnan(right))
    return Pairs(left[both], right[both], before.index[both].tolist(), int((~both).sum()))


def pairs_by_measure(
    baseline: pd.DataFrame, contender: pd.DataFrame, measures: Sequence[str] | None
) -> dict[str, Pairs]:
    """Measure -> the values of both; of each measure that is named, or that both have."""
    tables = tables_of({"baseline": baseline, "contender": contender})
    chosen = chosen_measures(tables, measures, "baseline", depth=4)
    return {measure: paired(tables, "baseline", "contender", measure) for measure in chosen}


def matrix_of(
    scores_by_name: Mapping[str, pd.DataFrame], measure: str, *, may_be_empty: bool = False
) -> pd.DataFrame:
    """Values of one measure: queries down (only those that all scored), configurations across.

    Raises:
        ComparisonError: the configurations do not have the same queries, or none that all of them
        scored. ConfigError: fewer than two configurations, or a measure that one of them lacks.
    """
    if len(scores_by_name) < 2:
        raise ConfigError(
            f"{len(scores_by_name)} configurations; this needs the scores of at least 2"
        )
    if not isinstance(measure, str):
        raise ConfigError(f"measure is the name of one measure such as 'nDCG@10', not {measure!r}")
    tables = tables_of(scores_by_name)
    first = next(iter(tables))
    [measure] = chosen_measures(tables, [measure], first)
    for name in tables:
        paired(tables, first, name, measure)
    order = tables[first][measure].index
    matrix = pd.DataFrame(
        {name: table[measure].reindex(order) for name, table in tables.items()}
    ).dropna()
    if matrix.empty and not may_be_empty:
        raise ComparisonError(
            f"{measure}: no query that all {len(tables)} configurations have scored"
        )
    return matrix


def group_codes(query_ids: Sequence[str], cluster: Groups) -> Ints:
    """For each query the number of its group, from 0 as they come."""
    if not isinstance(cluster, Mapping | pd.Series):
        raise ConfigError(
            f"cluster maps each query_id to its group (a dict or a Series), "
            f"not {type(cluster).__name__}"
        )
    groups = dict(cluster.items())
    if lacking := [
        query_id for query_id in query_ids if query_id not in groups or pd.isna(groups[query_id])
    ]:
        more = " ..." if len(lacking) > 3 else ""
        raise DataError(
            f"cluster: {len(lacking)} of {len(query_ids)} queries have no group "
            f"({', '.join(map(repr, lacking[:3]))}{more}); give each query one, its own where it "
            "is alone"
        )
    codes: Ints = pd.factorize(
        np.array([str(groups[query_id]) for query_id in query_ids], dtype=object)
    )[0]
    return codes


def _first(ids: pd.Index[str]) -> str:
    return ", ".join(map(repr, ids[:3])) + (" ..." if len(ids) > 3 else "") if len(ids) else "none"


CORRECTIONS = ("holm", "bonferroni", "fdr_bh", "fdr_by", "none")


def adjusted_p_values(p_values: Sequence[float] | Floats, correction: str = "holm") -> Floats:
    """Adjusted p-values, in the order given; what is NaN stays NaN and does not count as a test.

    Not by statsmodels' multipletests: each call of it collects the garbage of the whole process,
    which costs more than everything else in a comparison.

    "holm" (Holm 1979): the i-th smallest of n is multiplied by n - i + 1, and none is smaller than
    one before it; "bonferroni": each by n; "fdr_bh", "fdr_by": Benjamini & Hochberg 1995, Benjamini
    & Yekutieli 2001, by scipy; "none". At most 1.

    >>> adjusted_p_values([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    tested = ~np.isnan(values)
    own, n = values[tested], int(tested.sum())
    if correction == "none" or not n:
        return values
    if correction == "holm":
        order = np.argsort(own, kind="stable")
        adjusted = np.empty(n)
        adjusted[order] = np.maximum.accumulate(own[order] * np.arange(n, 0, -1))
    elif correction == "bonferroni":
        adjusted = own * n
    else:
        from scipy.stats import false_discovery_control

        adjusted = false_discovery_control(own, method=correction.removeprefix("fdr_"))
    result = values.copy()
    result[tested] = np.minimum(adjusted, 1.0)
    return result


def p_text(p: float | None, equals: str = "") -> str:
    """A p-value as every table, report and sentence prints it, never as 0; "–" where there is none.

    >>> p_text(0.0312), p_text(0.0312, "= "), p_text(0.00002), p_text(None), p_text(0.9996)
    ('0.031', '= 0.031', '< 0.001', '–', '1.000')
    """
    if p is None or pd.isna(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{equals}{p:.3f}"


def rounded(table: pd.DataFrame, digits: int = 3) -> pd.DataFrame:
    """A table of statistics to look at: numbers rounded, p-values (columns p_...) as `p_text` has
    them.

    >>> import pandas as pd
    >>> rounded(pd.DataFrame({"difference": [0.12345], "p_value": [0.00001]}))
       difference  p_value
    0       0.123  < 0.001
    """
    shown = table.round(digits)
    for name in table.columns:
        if str(name).startswith("p_"):
            shown[name] = [p_text(p) for p in table[name]]
    return shown
