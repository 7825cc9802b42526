"""Means of measures with intervals, and paired comparisons of configurations."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, unknown
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
    tables_of,
)
from ragbench.statistics.frames import printed_short, short_comparison
from ragbench.statistics.intervals import (
    TIE,
    Bounds,
    Intervals,
    mean_intervals,
    score_interval,
    sign_flip_p_values,
    wilson_interval,
)
from ragbench.statistics.power import Pilot


def summarise(scores: pd.DataFrame, *, alpha: float = 0.05) -> pd.DataFrame:
    """Compute the mean of each measure with its interval: columns measure, mean, ci_low, ci_high,
    n_scored, n.

    `mean` is over the `n_scored` queries of `n` that are scored. The interval covers the mean over
    all questions like these with a probability of 1 - alpha: Gaffke's (2005) with the bounds of the
    registry, as for `compare`; where all values are 0 or 1 that of Wilson (1927); without bounds
    Student's t. Within bounds it always has a width: other values may differ even if all observed
    ones are equal. With none scored, mean and interval are pd.NA; the interval also with one, and
    for equal values of a measure without known bounds.

    >>> import pandas as pd
    >>> values = [0.0, 0.5, 0.5, 1.0, 1.0, None]
    >>> scores = pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> summarise(scores).round(3)
      measure  mean  ci_low  ci_high  n_scored  n
    0      RR   0.6   0.201    0.908         5  6

    Raises:
        DataError: columns are missing, a query has two values for a measure, or a value is not a
        number. ConfigError: `alpha` is out of range.
    """
    check_settings(alpha)
    table = by_measure(scores, "scores")
    columns = [values.dropna().to_numpy(dtype=float) for values in table.values()]
    bounds = [
        Bounds(*bounds_of(measure, column)) for measure, column in zip(table, columns, strict=True)
    ]
    low, high, *_ = mean_intervals(columns, bounds, alpha)
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


def mcnemar_p_value(only_before: int, only_after: int) -> float:
    """Compute the two-sided exact p of a split of the queries that differ (McNemar 1947).

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
    """Compare `contender` with `baseline`: is it better, by how much, and how certain is that? One
    row per measure.

    Columns:
        measure: in the order of `measures`, or of `baseline`. baseline, contender: means over the
        pairs used; `difference` is contender - baseline. ci_low, ci_high: 1 - alpha interval of the
        difference, valid for every distribution within the bounds of the
            measure (see `ragbench.statistics.intervals`); `interval` is the method: "Gaffke";
            "score" (Tango 1998) for values of 0 and 1 of which each side won a query; "t"
            (Student's) for measures without bounds; "none": one pair, or equal differences of a
            measure without bounds.
        p_value: the smallest alpha at which that interval excludes 0, so that both always agree.
        p_adjusted: corrected for the number of measures tested here, `n_tests`. "holm" (Holm 1979)
        limits the
            probability of any false positive to alpha; "fdr_bh" (Benjamini & Hochberg 1995) the
            expected fraction of false positives among the differences found; "fdr_by" does so under
            any dependence. Testing many measures costs power: name those that decide.
        decision: "better" or "worse" where p_adjusted < alpha (a lower value is better where
            `registry.higher_is_better` is False), "undecided" elsewhere, which does not prove them
            equal; "" untested.
        effect_size: mean of the differences over their standard deviation (d_z of Cohen 1988);
        pd.NA if every query
            gains the same.
        wins, ties, losses: queries on which the contender is better, equal (within 1e-12), worse;
        where lower is
            better (`registry.higher_is_better`), a lower value wins.
        n: pairs used; queries that either side left unscored are out, and counted in `n_unpaired`.
        p_sign_flip: two-sided paired randomisation test (Fisher 1935; Smucker, Allan & Carterette
        2007), for
            comparison with other work. It tests whether gains and losses are symmetric, not whether
            their mean is 0: where losses are rare and large it is often wrong, so it decides
            nothing. Exact where the queries that differ have at most `n_resamples` combinations of
            signs.
        mde: smallest true difference for which as many queries lead to a decision (uncorrected)
        with a probability of
            0.8; the same as `detectable` of `required_queries`. A smaller difference that matters
            needs more queries, for any p. pd.NA where there is none, and where all queries differ
            by the same.
        n_tests, n_unpaired, n_clusters: see above and below.

    With `cluster` (query_id -> group: such as several questions from one document) the sums of
    groups are the values, within the bounds of the largest group: questions from one document are
    not independent, and treating them as if they were makes intervals too short. `n_clusters` is
    their number (without `cluster`, n).

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> result = compare(scores(0, 0.5, 0, 0, 0.5, 1), scores(1, 1, 0.5, 0.5, 1, 1))
    >>> result  # prints short; all columns are there
      measure baseline contender               difference      p   decision
    0      RR    0.333     0.833  +0.500 [-0.208, +0.794]  0.201  undecided
    >>> result[["difference", "p_sign_flip", "wins", "ties", "losses", "n"]].round(3)
       difference  p_sign_flip  wins  ties  losses  n
    0         0.5        0.062     5     1       0  6

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
    """`compare` each configuration with the one named `baseline`: its columns after `name`, that of
    the contender.

    Rows come by contender in the given order, then by measure. p-values are adjusted over all of
    them together.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": list("abcd"), "measure": "RR", "value": values})
    >>> runs = {"bm25": scores(0, 0.5, 0, 0), "dense": scores(1, 1, 0.5, 0.5), "none": scores(0, 0, 0, 0)}
    >>> compare_all(runs, "bm25")[["name", "difference", "p_value", "p_adjusted"]].round(3)
        name  difference  p_value  p_adjusted
    0  dense       0.625    0.301       0.603
    1   none      -0.125      1.0         1.0
    """
    check_settings(alpha, n_resamples, seed)
    if correction not in CORRECTIONS:
        raise ConfigError(unknown("correction", correction, CORRECTIONS))
    if baseline not in scores_by_name:
        raise ConfigError(unknown("baseline", baseline, map(str, scores_by_name)))
    if len(scores_by_name) < 2:
        raise ConfigError(
            f"nothing to compare {baseline!r} with: give the scores of at least one other "
            "configuration"
        )
    tables = tables_of(scores_by_name)
    chosen = chosen_measures(tables, measures, baseline)
    rows = [(name, measure) for name in tables if name != baseline for measure in chosen]
    pairs = [paired(tables, baseline, name, measure) for name, measure in rows]
    pilots = [Pilot.of(pair, measure) for pair, (_, measure) in zip(pairs, rows, strict=True)]
    values = [pair.difference for pair in pairs]
    if cluster is not None:
        for row, pair in enumerate(pairs):
            values[row], pilots[row] = _clustered(pair, pilots[row], cluster)
    found = difference_intervals(values, pilots, alpha)
    adjusted = adjusted_p_values(found.p, correction)
    result = pd.DataFrame(
        [_row(pair, measure) for pair, (_, measure) in zip(pairs, rows, strict=True)]
    )
    result = result.assign(
        name=[name for name, _ in rows],
        ci_low=nullable(found.low),
        ci_high=nullable(found.high),
        p_value=nullable(found.p),
        p_adjusted=nullable(adjusted),
        decision=[
            ""
            if math.isnan(p)
            else "undecided"
            if p >= alpha
            else "better"
            if gain > 0
            else "worse"
            for p, gain in zip(adjusted, result["gain"], strict=True)
        ],
        mde=nullable([pilot.detectable(alpha) for pilot in pilots]),
        n_tests=int((~np.isnan(found.p)).sum()),
        n_clusters=[pilot.n for pilot in pilots],
        interval=found.method,
        p_sign_flip=nullable(sign_flip_p_values(values, n_resamples, seed)),
    )
    for column in ("baseline", "contender", "difference", "effect_size"):
        result[column] = nullable(result[column].to_numpy(dtype=float))
    return printed_short(result[["name", *_COLUMNS]], short_comparison)


_COLUMNS = [
    "measure",
    "baseline",
    "contender",
    "difference",
    "ci_low",
    "ci_high",
    "p_value",
    "p_adjusted",
    "decision",
    "effect_size",
    "wins",
    "ties",
    "losses",
    "n",
    "mde",
    "n_tests",
    "n_unpaired",
    "n_clusters",
    "interval",
    "p_sign_flip",
]


def _row(pair: Pairs, measure: str) -> dict[str, object]:
    """Describe the differences of a pair of configurations, but for what is decided from them."""
    difference = pair.difference
    gain = difference if higher_is_better(measure) else -difference
    deviation = float(difference.std(ddof=1)) if len(difference) > 1 else math.nan
    if deviation > TIE:
        effect = mean(difference) / deviation
    else:
        effect = 0.0 if len(difference) and np.abs(difference).max() <= TIE else math.nan
    return {
        "measure": measure,
        "baseline": mean(pair.before),
        "contender": mean(pair.after),
        "difference": mean(difference),
        "gain": mean(gain),
        "effect_size": effect,
        "wins": int((gain > TIE).sum()),
        "ties": int((np.abs(gain) <= TIE).sum()),
        "losses": int((gain < -TIE).sum()),
        "n": len(difference),
        "n_unpaired": pair.unpaired,
    }


def _clustered(
    pair: Pairs, pilot: Pilot, cluster: Mapping[str, Hashable] | pd.Series
) -> tuple[Floats, Pilot]:
    """Return a value for each group whose mean is the difference, and what these values tell about
    others.

    The sum of a group over the mean size of groups lies within the bounds of a query times the
    largest size over the mean size.
    """
    codes = group_codes(pair.query_ids, cluster)
    sizes = np.bincount(codes)
    values: Floats = (
        np.bincount(codes, pair.difference) / sizes.mean() if len(sizes) else pair.difference
    )
    deviation = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    width = pilot.width * sizes.max(initial=1) / max(sizes.mean(), 1) if len(sizes) else pilot.width
    return values, Pilot(len(values), deviation, float(width))


def difference_intervals(
    values: Sequence[Floats], pilots: Sequence[Pilot], alpha: float
) -> Intervals:
    """Compute the interval of each mean difference: Tango's where both sides won a query by 0/1
    values.
    """
    found = mean_intervals(values, [Bounds(-pilot.width, pilot.width) for pilot in pilots], alpha)
    for row, (column, pilot) in enumerate(zip(values, pilots, strict=True)):
        wins, losses = int((column > 0).sum()), int((column < 0).sum())
        if pilot.differing is not None and wins and losses:
            found.low[row], found.high[row], found.p[row] = score_interval(
                wins, losses, pilot.n, alpha
            )
            found.method[row] = "score"
    return found
