"""Paired comparison of configurations, measure by measure."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import ComparisonError, ConfigError, DataWarning, unknown
from ragbench.statistics.columns import by_measure, check_settings, mean, nullable
from ragbench.statistics.resampling import TIE, bootstrap_intervals, randomisation_p_values

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Floats = npt.NDArray[np.floating]

POWER = 0.8
CORRECTIONS = ("holm", "bonferroni", "fdr_bh", "fdr_by", "none")


def compare(
    baseline: pd.DataFrame,
    contender: pd.DataFrame,
    *,
    measures: Sequence[str] | None = None,
    n_resamples: int = 10_000,
    alpha: float = 0.05,
    correction: str = "holm",
    seed: int = 0,
) -> pd.DataFrame:
    """Is `contender` better than `baseline`, by how much, and how sure is that? One row per measure.

    Columns:
        measure: in the order of `measures`, or of `baseline`.
        baseline, contender: means over the pairs used; `difference` is contender - baseline.
        ci_low, ci_high: 1 - alpha interval of the difference, paired BCa bootstrap over queries.
        p_value: two-sided paired randomisation test (Fisher 1935; Smucker, Allan & Carterette 2007): how often the
            difference is at least as large if the sign of each query's difference is left to chance. Exact where the
            queries that differ have at most `n_resamples` combinations of signs, otherwise (b + 1) / (n_resamples + 1).
        p_adjusted: corrected for the number of measures tested here; "holm" (Holm 1979) holds the chance of any
            false alarm at alpha. Testing many measures costs power: name those that you mean to decide by.
        effect_size: mean of the differences over their standard deviation (d_z of Cohen 1988); pd.NA if every query
            gains the same.
        wins, ties, losses: queries on which the contender is better, equal (within 1e-12), worse.
        n: pairs used; queries that either side left unscored are out.
        mde: smallest difference that this many queries would show with a power of 0.8 in a two-sided test at alpha
            (uncorrected): (z(1 - alpha/2) + z(0.8)) * standard deviation of the differences / sqrt(n). A difference
            that matters to you but is below it needs more queries, whatever p says.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> result = compare(scores(0, 0.5, 0, 0, 0.5, 1), scores(1, 1, 0.5, 0.5, 1, 1))
    >>> result[["difference", "p_value", "wins", "ties", "losses", "n"]].round(3)
       difference  p_value  wins  ties  losses  n
    0         0.5    0.062     5     1       0  6

    Raises:
        ComparisonError: the two do not hold the same queries, or no measure in common.
        ConfigError: a measure that is not there, an unknown correction, a setting out of range.
        DataError: frames that are not tidy scores.
    """
    result = compare_all(
        {"baseline": baseline, "contender": contender},
        "baseline",
        measures=measures,
        n_resamples=n_resamples,
        alpha=alpha,
        correction=correction,
        seed=seed,
    )
    return result.drop(columns="name")


def compare_all(
    scores_by_name: Mapping[str, pd.DataFrame],
    baseline: str,
    *,
    measures: Sequence[str] | None = None,
    n_resamples: int = 10_000,
    alpha: float = 0.05,
    correction: str = "holm",
    seed: int = 0,
) -> pd.DataFrame:
    """`compare` each configuration with the one named `baseline`: its columns after `name`, that of the contender.

    Rows come by contender in the given order, then by measure. p-values are adjusted over all of them together.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": list("abcd"), "measure": "RR", "value": values})
    >>> runs = {"bm25": scores(0, 0.5, 0, 0), "dense": scores(1, 1, 0.5, 0.5), "none": scores(0, 0, 0, 0)}
    >>> compare_all(runs, "bm25")[["name", "difference", "p_value", "p_adjusted"]]
        name  difference  p_value  p_adjusted
    0  dense       0.625    0.125        0.25
    1   none      -0.125      1.0         1.0
    """
    import pandas as pd

    check_settings(n_resamples, alpha, seed)
    if correction not in CORRECTIONS:
        raise ConfigError(unknown("correction", correction, CORRECTIONS))
    if baseline not in scores_by_name:
        raise ConfigError(unknown("baseline", baseline, map(str, scores_by_name)))
    if len(scores_by_name) < 2:
        raise ConfigError(f"nothing to compare {baseline!r} with: give the scores of at least one other configuration")
    tables = {name: by_measure(scores, f"scores of {name!r}") for name, scores in scores_by_name.items()}
    chosen = _chosen_measures(tables, measures, baseline)
    rows = [(name, measure) for name in tables if name != baseline for measure in chosen]
    pairs = [_paired(tables, baseline, name, measure) for name, measure in rows]
    differences = [after - before for before, after in pairs]
    low, high = bootstrap_intervals(differences, n_resamples, alpha, seed)
    p_values = randomisation_p_values(differences, n_resamples, seed)
    deviations = [difference.std(ddof=1) if len(difference) > 1 else math.nan for difference in differences]
    return pd.DataFrame(
        {
            "name": [name for name, _ in rows],
            "measure": [measure for _, measure in rows],
            "baseline": nullable([mean(before) for before, _ in pairs]),
            "contender": nullable([mean(after) for _, after in pairs]),
            "difference": nullable([mean(difference) for difference in differences]),
            "ci_low": nullable(low),
            "ci_high": nullable(high),
            "p_value": nullable(p_values),
            "p_adjusted": nullable(_adjusted(p_values, correction, alpha)),
            "effect_size": nullable([_effect(d, s) for d, s in zip(differences, deviations, strict=True)]),
            "wins": [int((difference > TIE).sum()) for difference in differences],
            "ties": [int((np.abs(difference) <= TIE).sum()) for difference in differences],
            "losses": [int((difference < -TIE).sum()) for difference in differences],
            "n": [len(difference) for difference in differences],
            "mde": nullable([_detectable(s, len(d), alpha) for d, s in zip(differences, deviations, strict=True)]),
        }
    )


def _chosen_measures(
    tables: Mapping[str, Mapping[str, pd.Series[float]]], measures: Sequence[str] | None, baseline: str
) -> list[str]:
    """The measures to compare by, that all configurations have."""
    shared = [measure for measure in tables[baseline] if all(measure in table for table in tables.values())]
    if measures is None:
        if not shared:
            held = "; ".join(f"{name!r} has {', '.join(table)}" for name, table in tables.items())
            raise ComparisonError(f"no measure in common: {held}")
        if left_out := sorted({measure for table in tables.values() for measure in table} - set(shared)):
            warnings.warn(
                f"{len(left_out)} measures that not all configurations have are not compared: {', '.join(left_out)}",
                DataWarning,
                stacklevel=3,
            )
        return shared
    if isinstance(measures, str) or not list(measures):
        raise ConfigError(f"measures is a list of names such as ['nDCG@10', 'RR'], not {measures!r}")
    for name, table in tables.items():
        for measure in measures:
            if measure not in table:
                raise ConfigError(f"scores of {name!r}: {unknown('measure', measure, table)}")
    return list(dict.fromkeys(measures))


def _paired(
    tables: Mapping[str, Mapping[str, pd.Series[float]]], baseline: str, name: str, measure: str
) -> tuple[Floats, Floats]:
    """The values of both on the queries that both scored, in the order of the baseline."""
    before, after = tables[baseline][measure], tables[name][measure]
    if len(before) != len(after) or not before.index.isin(after.index).all():
        only_before, only_after = before.index.difference(after.index), after.index.difference(before.index)
        raise ComparisonError(
            f"{measure}: {baseline!r} and {name!r} do not hold the same queries ({len(before)} and {len(after)}, "
            f"{len(before) - len(only_before)} in common); only {baseline!r} has {_first(only_before)}, only {name!r} "
            f"has {_first(only_after)}. Run both on the same dataset and split"
        )
    left, right = before.to_numpy(), after.reindex(before.index).to_numpy()
    both = ~(np.isnan(left) | np.isnan(right))
    return left[both], right[both]


def _first(ids: pd.Index[str]) -> str:
    return ", ".join(map(repr, ids[:3])) + (" ..." if len(ids) > 3 else "") if len(ids) else "none"


def _adjusted(p_values: Floats, correction: str, alpha: float) -> Floats:
    tested = ~np.isnan(p_values)
    if correction == "none" or not tested.any():
        return p_values
    from statsmodels.stats.multitest import multipletests

    adjusted = p_values.copy()
    adjusted[tested] = multipletests(p_values[tested], alpha=alpha, method=correction)[1]
    return adjusted


def _effect(difference: Floats, deviation: float) -> float:
    if len(difference) < 2:
        return math.nan
    if deviation <= TIE:
        return 0.0 if np.abs(difference).max() <= TIE else math.nan
    return float(difference.mean() / deviation)


def _detectable(deviation: float, n: int, alpha: float) -> float:
    from scipy.stats import norm

    return float((norm.ppf(1 - alpha / 2) + norm.ppf(POWER)) * deviation / math.sqrt(n)) if n > 1 else math.nan
