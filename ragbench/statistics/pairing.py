"""Pairs of configurations: the measures that both have, the queries that both scored, groups of queries."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragbench.errors import ComparisonError, ConfigError, DataError, DataWarning
from ragbench.registry import named_among
from ragbench.statistics.columns import by_measure

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Floats = npt.NDArray[np.floating]
    Ints = npt.NDArray[np.int64]
    Groups = Mapping[str, Hashable] | pd.Series


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
        return len(self.before) > 0 and all(bool(np.isin(side, (0.0, 1.0)).all()) for side in (self.before, self.after))


Tables = Mapping[str, Mapping[str, "pd.Series[float]"]]


def tables_of(scores_by_name: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, pd.Series[float]]]:
    """name -> measure -> values by query_id."""
    return {name: by_measure(scores, f"scores of {name!r}") for name, scores in scores_by_name.items()}


def chosen_measures(tables: Tables, measures: Sequence[str] | None, baseline: str, *, depth: int = 3) -> list[str]:
    """The measures to compare by, that all configurations have; `depth` is where a warning should point."""
    shared = [measure for measure in tables[baseline] if all(measure in table for table in tables.values())]
    if measures is None:
        if not shared:
            held = "; ".join(f"{name!r} has {', '.join(table)}" for name, table in tables.items())
            raise ComparisonError(f"no measure in common: {held}")
        if left_out := sorted({measure for table in tables.values() for measure in table} - set(shared)):
            warnings.warn(
                f"{len(left_out)} measures that not all configurations have are not compared: {', '.join(left_out)}",
                DataWarning,
                stacklevel=depth,
            )
        return shared
    if isinstance(measures, str) or not list(measures):
        raise ConfigError(f"measures is a list of names such as ['nDCG@10', 'RR'], not {measures!r}")
    chosen: dict[str, None] = {}
    for name, table in tables.items():
        try:
            chosen = dict.fromkeys(named_among(measure, table) for measure in measures)
        except ConfigError as exc:
            raise ConfigError(f"scores of {name!r}: {exc}") from None
    return list(chosen)


def measure_among(scores_by_name: Mapping[str, pd.DataFrame], measure: str) -> str:
    """The measure that is meant, as the scores of the first configuration call it; as given where they lack it."""
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
        only_before, only_after = before.index.difference(after.index), after.index.difference(before.index)
        common = len(before) - len(only_before)
        raise ComparisonError(
            f"{measure}: {baseline!r} and {name!r} do not have the same queries ({len(before)} and {len(after)}, "
            f"{common or 'none'} in common); only {baseline!r} has {_first(only_before)}, only {name!r} "
            f"has {_first(only_after)}. Run both on the same dataset and split"
        )
    left, right = before.to_numpy(), after.reindex(before.index).to_numpy()
    both = ~(np.isnan(left) | np.isnan(right))
    return Pairs(left[both], right[both], before.index[both].tolist(), int((~both).sum()))


def matrix_of(scores_by_name: Mapping[str, pd.DataFrame], measure: str, *, may_be_empty: bool = False) -> pd.DataFrame:
    """Values of one measure: queries down (only those that all scored), configurations across.

    Raises:
        ComparisonError: the configurations do not have the same queries, or none that all of them scored.
        ConfigError: fewer than two configurations, or a measure that one of them lacks.
    """
    import pandas as pd

    if len(scores_by_name) < 2:
        raise ConfigError(f"{len(scores_by_name)} configurations; this needs the scores of at least 2")
    if not isinstance(measure, str):
        raise ConfigError(f"measure is the name of one measure such as 'nDCG@10', not {measure!r}")
    tables = tables_of(scores_by_name)
    first = next(iter(tables))
    [measure] = chosen_measures(tables, [measure], first)
    for name in tables:
        paired(tables, first, name, measure)
    order = tables[first][measure].index
    matrix = pd.DataFrame({name: table[measure].reindex(order) for name, table in tables.items()}).dropna()
    if matrix.empty and not may_be_empty:
        raise ComparisonError(f"{measure}: no query that all {len(tables)} configurations have scored")
    return matrix


def group_codes(query_ids: Sequence[str], cluster: Groups) -> Ints:
    """For each query the number of its group, from 0 as they come."""
    import pandas as pd

    if not isinstance(cluster, Mapping | pd.Series):
        raise ConfigError(f"cluster maps each query_id to its group (a dict or a Series), not {type(cluster).__name__}")
    groups = dict(cluster.items())
    if lacking := [query_id for query_id in query_ids if query_id not in groups or pd.isna(groups[query_id])]:
        more = " ..." if len(lacking) > 3 else ""
        raise DataError(
            f"cluster: {len(lacking)} of {len(query_ids)} queries have no group "
            f"({', '.join(map(repr, lacking[:3]))}{more}); give each query one, its own where it is alone"
        )
    codes: Ints = pd.factorize(np.array([str(groups[query_id]) for query_id in query_ids], dtype=object))[0]
    return codes


def _first(ids: pd.Index[str]) -> str:
    return ", ".join(map(repr, ids[:3])) + (" ..." if len(ids) > 3 else "") if len(ids) else "none"
