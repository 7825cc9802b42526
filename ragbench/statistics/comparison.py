"""Means of measures with intervals, and paired comparisons of configurations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, DataWarning, unknown
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import (
    CORRECTIONS,
    Floats,
    Pairs,
    adjusted_p_values,
    bounds_of,
    by_measure,
    check_settings,
    chosen_measures,
    group_codes,
    mean,
    nullable,
    paired,
    pairs_by_measure,
    tables_of,
)
from ragbench.statistics.frames import printed_short, short_comparison
from ragbench.statistics.intervals import (
    TIE,
    Bounds,
    bootstrap_intervals,
    bounded_intervals,
    decided,
    is_exact,
    mean_intervals,
    randomisation_p_values,
    skewness_note,
    wilson_interval,
)
from ragbench.statistics.power import detectable


def summarise(scores: pd.DataFrame, *, n_resamples: int = 10_000, alpha: float = 0.05, seed: int = 0) -> pd.DataFrame:
    """Mean of each measure with its interval: columns measure, mean, ci_low, ci_high, n_scored, n.

    `mean` is over the `n_scored` queries of `n` that are scored. The interval covers the mean over all questions like
    these with a probability of 1 - alpha. From 100 queries on it is the bias-corrected and accelerated bootstrap (BCa,
    Efron 1987), with fewer Gaffke's (2005), as for `compare`; where all values are 0 or 1 that of Wilson (1927). It
    always has a width: other values may differ even if all observed ones are equal. With none scored, mean and
    interval are pd.NA; the interval also with one, and for equal values of a measure without known bounds.

    >>> import pandas as pd
    >>> values = [0.0, 0.5, 0.5, 1.0, 1.0, None]
    >>> scores = pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> summarise(scores).round(3)
      measure  mean  ci_low  ci_high  n_scored  n
    0      RR   0.6   0.204    0.903         5  6

    Raises:
        DataError: columns are missing, a query has two values for a measure, or a value is not a number.
        ConfigError: `n_resamples`, `alpha` or `seed` is out of range.
    """
    check_settings(n_resamples, alpha, seed)
    table = by_measure(scores, "scores")
    columns = [values.dropna().to_numpy(dtype=float) for values in table.values()]
    bounds = [Bounds(*bounds_of(measure, column)) for measure, column in zip(table, columns, strict=True)]
    low, high, _ = mean_intervals(columns, bounds, alpha, n_resamples=n_resamples, seed=seed)
    for row, column in enumerate(columns):
        if len(column) > 1 and np.isin(column, (0.0, 1.0)).all():
            low[row], high[row] = wilson_interval(column, alpha)
    return pd.DataFrame(
        {
            "measure": list(table),
            "mean": nullable([mean(column) for column in columns]),
            "ci_low": nullable(low),
            "ci_high": nullable(high),
            "n_scored": [len(column) for column in columns],
            "n": [len(values) for values in table.values()],
        }
    )


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
    check_settings(10_000, alpha, 0)
    pairs = pairs_by_measure(baseline, contender, measures)
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


def compare(
    baseline: pd.DataFrame,
    contender: pd.DataFrame,
    *,
    measures: Sequence[str] | None = None,
    n_resamples: int = 10_000,
    alpha: float = 0.05,
    correction: str = "holm",
    cluster: Mapping[str, Hashable] | pd.Series | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Is `contender` better than `baseline`, by how much, and how certain is that? One row per measure.

    Columns:
        measure: in the order of `measures`, or of `baseline`.
        baseline, contender: means over the pairs used; `difference` is contender - baseline.
        ci_low, ci_high: 1 - alpha interval of the difference; `interval` is the method. "BCa": paired bootstrap over
            queries (Efron 1987), from 100 pairs of which 50 differ, unless heavily skewed. "Gaffke":
            otherwise, where BCa covers too little, the limits of Gaffke (2005), see `ragbench.statistics.intervals`;
            they always have a width. Either excludes 0 exactly where p_value < alpha. "none": one pair, or equal
            differences of a measure without known bounds.
        p_value: two-sided paired randomisation test (Fisher 1935; Smucker, Allan & Carterette 2007): the probability
            of a difference at least as large if the sign of each query's difference is random. `test` is the method:
            "sign-flip, exact" where the queries that differ have at most `n_resamples` combinations of signs,
            otherwise "sign-flip, sampled", (b + 1) / (n_resamples + 1); for values of 0 and 1 only "McNemar, exact",
            which is the exact sign-flip test in closed form, for any number of queries.
        p_adjusted: corrected for the number of measures tested here, `n_tests`. "holm" (Holm 1979) limits the
            probability of any false positive to alpha; "fdr_bh" (Benjamini & Hochberg 1995) the expected fraction of
            false positives among the differences found; "fdr_by" does so under any dependence. Testing many measures
            costs power: name those that decide.
        decision: "better" or "worse" where p_adjusted < alpha (a lower value is better where
            `registry.higher_is_better` is False), "undecided" elsewhere, which does not prove them equal; "" untested.
        effect_size: mean of the differences over their standard deviation (d_z of Cohen 1988); pd.NA if every query
            gains the same.
        wins, ties, losses: queries on which the contender is better, equal (within 1e-12), worse; where lower is
            better (`registry.higher_is_better`), a lower value wins.
        n: pairs used; queries that either side left unscored are out, and counted in `n_unpaired`.
        mde: smallest true difference that this many queries would show with a power of 0.8 in a two-sided test at alpha
            (uncorrected), from the t distribution, expected over the true deviations that these queries leave possible;
            the same as `detectable` of `required_queries`. A smaller difference that matters needs more queries,
            for any p. pd.NA where all queries differ by the same, and with fewer queries than the test needs (6 at
            alpha = 0.05).
        note: where the differences are heavily skewed (also a `DataWarning`) or all equal, the consequence.
        n_tests, n_unpaired, n_clusters, interval, test: see above and below.

    With `cluster` (query_id -> group: such as several questions from one document) whole groups are drawn and flipped,
    and the standard error is that of groups: questions from one document are not independent, and treating them as if
    they were makes intervals too short. `n_clusters` is their number (without `cluster`, n). Fewer than some
    ten groups show little: with 5, no p is below 2 / 2**5.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> result = compare(scores(0, 0.5, 0, 0, 0.5, 1), scores(1, 1, 0.5, 0.5, 1, 1))
    >>> result  # prints short; all columns are there
      measure baseline contender               difference      p   decision
    0      RR    0.333     0.833  +0.500 [-0.197, +0.790]  0.062  undecided
    >>> result[["difference", "p_value", "wins", "ties", "losses", "n"]].round(3)
       difference  p_value  wins  ties  losses  n
    0         0.5    0.062     5     1       0  6

    Raises:
        ComparisonError: the two do not have the same queries, or no measure in common.
        ConfigError: a measure that is not there, an unknown correction, a setting out of range.
        DataError: frames that are not tidy scores, or queries without a group in `cluster`.
    """
    result = compare_all(
        {"baseline": baseline, "contender": contender},
        "baseline",
        measures=measures,
        n_resamples=n_resamples,
        alpha=alpha,
        correction=correction,
        cluster=cluster,
        seed=seed,
    )
    return printed_short(result.drop(columns="name"), short_comparison)


def compare_all(
    scores_by_name: Mapping[str, pd.DataFrame],
    baseline: str,
    *,
    measures: Sequence[str] | None = None,
    n_resamples: int = 10_000,
    alpha: float = 0.05,
    correction: str = "holm",
    cluster: Mapping[str, Hashable] | pd.Series | None = None,
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
    check_settings(n_resamples, alpha, seed)
    if correction not in CORRECTIONS:
        raise ConfigError(unknown("correction", correction, CORRECTIONS))
    if baseline not in scores_by_name:
        raise ConfigError(unknown("baseline", baseline, map(str, scores_by_name)))
    if len(scores_by_name) < 2:
        raise ConfigError(f"nothing to compare {baseline!r} with: give the scores of at least one other configuration")
    tables = tables_of(scores_by_name)
    chosen = chosen_measures(tables, measures, baseline)
    rows = [(name, measure) for name in tables if name != baseline for measure in chosen]
    pairs = [paired(tables, baseline, name, measure) for name, measure in rows]
    units = []
    for pair in pairs:
        codes = np.arange(len(pair.before)) if cluster is None else group_codes(pair.query_ids, cluster)
        sums = pair.difference if cluster is None else np.bincount(codes, pair.difference).astype(np.float64)
        units.append(_Units(sums, np.bincount(codes).astype(np.float64), cluster is not None))
    differences = [pair.difference for pair in pairs]
    p_values, tests = _p_values(pairs, units, n_resamples, seed)
    ranges = [bounds_of(measure, pair.before, pair.after) for (_, measure), pair in zip(rows, pairs, strict=True)]
    widths = [Bounds(low - high, high - low) for low, high in ranges]
    values = [unit.values for unit in units]
    low, high, intervals = mean_intervals(values, widths, alpha, n_resamples=n_resamples, seed=seed)
    for row, unit in enumerate(units):
        if intervals[row] == "BCa" and unit.grouped:
            [low[row]], [high[row]] = bootstrap_intervals([unit.sums], n_resamples, alpha, seed, sizes=[unit.sizes])
    low, high = decided(low, high, np.array([mean(difference) for difference in differences]), p_values, alpha)
    notes = [skewness_note(own) if len(own) else "" for own in values]
    if skewed := [(*row, note) for row, note in zip(rows, notes, strict=True) if "skewed" in note]:
        name, measure, note = skewed[0]
        more = f" (and {len(skewed) - 1} more, see the column note)" if len(skewed) > 1 else ""
        warnings.warn(f"the differences of {name!r} in {measure} are {note}{more}", DataWarning, stacklevel=2)
    gains = [d if higher_is_better(measure) else -d for d, (_, measure) in zip(differences, rows, strict=True)]
    effects = []
    for own in differences:
        deviation = float(own.std(ddof=1)) if len(own) > 1 else math.nan
        equal = 0.0 if len(own) and np.abs(own).max() <= TIE else math.nan
        effects.append(equal if deviation <= TIE else float(own.mean()) / deviation if len(own) else math.nan)
    adjusted = adjusted_p_values(p_values, correction)
    result = pd.DataFrame(
        {
            "name": [name for name, _ in rows],
            "measure": [measure for _, measure in rows],
            "baseline": nullable([mean(pair.before) for pair in pairs]),
            "contender": nullable([mean(pair.after) for pair in pairs]),
            "difference": nullable([mean(difference) for difference in differences]),
            "ci_low": nullable(low),
            "ci_high": nullable(high),
            "p_value": nullable(p_values),
            "p_adjusted": nullable(adjusted),
            "decision": [_decision(gain, p, alpha) for gain, p in zip(gains, adjusted, strict=True)],
            "effect_size": nullable(effects),
            "wins": [int((gain > TIE).sum()) for gain in gains],
            "ties": [int((np.abs(gain) <= TIE).sum()) for gain in gains],
            "losses": [int((gain < -TIE).sum()) for gain in gains],
            "n": [len(difference) for difference in differences],
            "mde": nullable(
                [detectable(float(own.std(ddof=1)), len(own), alpha) if len(own) > 1 else math.nan for own in values]
            ),
            "n_tests": int((~np.isnan(p_values)).sum()),
            "n_unpaired": [pair.unpaired for pair in pairs],
            "n_clusters": [len(unit.sums) for unit in units],
            "interval": intervals,
            "test": tests,
            "note": notes,
        }
    )
    return printed_short(result, short_comparison)


def _decision(gain: Floats, p_adjusted: float, alpha: float) -> str:
    if math.isnan(p_adjusted):
        return ""
    if p_adjusted >= alpha:
        return "undecided"
    return "better" if gain.mean() > 0 else "worse"


class _Units(NamedTuple):
    """The units of resampling: the queries, or the groups of queries with the sums of their differences."""

    sums: Floats
    sizes: Floats
    grouped: bool

    @property
    def values(self) -> Floats:
        """One number per unit whose mean is the difference, and whose spread is that of the difference.

        For groups of different sizes: linearised, as in the sandwich estimate of a ratio's variance.
        """
        if not self.grouped:
            return self.sums
        center = self.sums.sum() / self.sizes.sum()
        linear: Floats = center + (self.sums - center * self.sizes) / self.sizes.mean()
        return linear


def _p_values(pairs: Sequence[Pairs], units: Sequence[_Units], n_resamples: int, seed: int) -> tuple[Floats, list[str]]:
    p_values = np.full(len(units), math.nan)
    tests = ["none"] * len(units)
    flipped = []
    for row, (pair, unit) in enumerate(zip(pairs, units, strict=True)):
        if pair.binary and not unit.grouped:
            p_values[row] = mcnemar_p_value(int((unit.sums < 0).sum()), int((unit.sums > 0).sum()))
            tests[row] = "McNemar, exact"
        elif len(unit.sums):
            flipped.append(row)
            tests[row] = f"sign-flip, {'exact' if is_exact(unit.sums, n_resamples) else 'sampled'}"
    p_values[flipped] = randomisation_p_values([units[row].sums for row in flipped], n_resamples, seed)
    return p_values, tests
