"""Measures that are right or wrong: McNemar's exact test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import DataError
from ragbench.statistics.columns import check_settings, mean, nullable
from ragbench.statistics.intervals import Bounds, bounded_intervals, decided
from ragbench.statistics.pairing import chosen_measures, paired, tables_of

if TYPE_CHECKING:
    import pandas as pd


def mcnemar(
    baseline: pd.DataFrame, contender: pd.DataFrame, *, measures: Sequence[str] | None = None, alpha: float = 0.05
) -> pd.DataFrame:
    """Right or wrong: McNemar's exact test of each measure whose values are all 0 or 1.

    Only the queries on which the two differ are informative: if neither is better, each of those is as likely to be won
    by the one as by the other, so that p is the two-sided binomial probability of a split as uneven as this (McNemar
    1947). It equals the exact sign-flip test of `compare` on the same values.

    Columns:
        measure; both, baseline_only, contender_only, neither: on how many queries the value is 1.
        difference: fraction of 1 of the contender minus that of the baseline.
        ci_low, ci_high: 1 - alpha interval of it (Gaffke 2005; it excludes 0 exactly where p_value < alpha); pd.NA with
            fewer than two pairs.
        p_value: exact, two-sided; 1 where no query differs, pd.NA without pairs.
        n: pairs used; `n_unpaired` were left unscored by either side.

    Args:
        baseline: tidy scores: query_id, measure, value.
        contender: of the same queries.
        measures: None = all that both have and whose values are all 0 or 1.
        alpha: 1 minus the coverage of the interval.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(len(values)), "measure": "Success@5", "value": values})
    >>> table = mcnemar(scores(1, 1, 0, 0, 0, 0, 0), scores(1, 0, 1, 1, 1, 1, 0))
    >>> table[["both", "baseline_only", "contender_only", "neither", "difference", "p_value"]].round(3)
       both  baseline_only  contender_only  neither  difference  p_value
    0     1              1               4        1       0.429    0.375

    Raises:
        DataError: a measure that was named (or each that both have) holds other values than 0 and 1.
        ComparisonError: other queries, or no measure in common.
        ConfigError: a measure that is not there.
    """
    import pandas as pd

    check_settings(10_000, alpha, 0)
    tables = tables_of({"baseline": baseline, "contender": contender})
    chosen = chosen_measures(tables, measures, "baseline")
    pairs = {measure: paired(tables, "baseline", "contender", measure) for measure in chosen}
    others = [measure for measure, pair in pairs.items() if len(pair.before) and not pair.binary]
    if others and (measures is not None or len(others) == len(pairs)):
        raise DataError(
            f"McNemar's test is for values of 0 and 1; {others[0]!r} has others. Use `compare`, or name binary "
            "measures such as Success@5"
        )
    rows, p_values = [], []
    for measure, pair in pairs.items():
        if measure in others:
            continue
        before, after = pair.before > 0, pair.after > 0
        only_before, only_after = int((before & ~after).sum()), int((after & ~before).sum())
        both, neither = int((before & after).sum()), int((~before & ~after).sum())
        rows.append((measure, both, only_before, only_after, neither))
        p_values.append(mcnemar_p_value(only_before, only_after) if len(before) else np.nan)
    table = pd.DataFrame(rows, columns=["measure", "both", "baseline_only", "contender_only", "neither"])
    tested = [pairs[row[0]] for row in rows]
    centers = np.array([mean(pair.difference) for pair in tested])
    low, high = bounded_intervals([pair.difference for pair in tested], [Bounds(-1, 1)] * len(tested), alpha)
    low, high = decided(low, high, centers, np.array(p_values), alpha)
    return table.assign(
        difference=nullable(centers),
        ci_low=nullable(low),
        ci_high=nullable(high),
        p_value=nullable(p_values),
        n=[len(pair.before) for pair in tested],
        n_unpaired=[pair.unpaired for pair in tested],
    )


def mcnemar_p_value(only_before: int, only_after: int) -> float:
    """Two-sided exact p of a split of the queries that differ.

    >>> mcnemar_p_value(1, 4), mcnemar_p_value(0, 0)
    (0.375, 1.0)
    """
    from scipy.stats import binomtest

    differing = only_before + only_after
    return float(binomtest(only_before, differing, 0.5).pvalue) if differing else 1.0
