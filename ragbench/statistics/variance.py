"""Variance components of a mean (questions, answers, judgements), and what would reduce it at which cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.statistics.columns import Floats, bounds_of, check_settings, nullable, with_nullable
from ragbench.statistics.intervals import Bounds, mean_intervals

LEVELS = ("query", "generation", "judge sample")


@dataclass(frozen=True)
class Costs:
    """The cost of one answer and of one verdict: US dollars and seconds (of one request; `at_once` in parallel)."""

    generation_usd: float = 0.0
    judgement_usd: float = 0.0
    generation_s: float = 0.0
    judgement_s: float = 0.0
    at_once: int = 1


@dataclass(frozen=True, eq=False)
class SampleSummary:
    """The result of `summarise_samples`.

    `mean` with `ci_low`, `ci_high`: over all questions like these, with new answers and new verdicts.
    `rerun_low`, `rerun_high`: prediction interval (1 - alpha) of the mean of the same questions if everything were
    answered and judged again. `components`: source, variance, share, per_query (draws within one of the level above, on
    average), in_mean (its part of the variance of the mean); rows query, generation, judge sample, and judge where
    there are several. `alpha` is that of the intervals.
    """

    mean: float
    ci_low: float | None
    ci_high: float | None
    rerun_low: float | None
    rerun_high: float | None
    n_queries: int
    components: pd.DataFrame
    alpha: float = 0.05


def summarise_samples(
    samples: pd.DataFrame, *, n_resamples: int = 10_000, alpha: float = 0.05, seed: int = 0
) -> SampleSummary:
    """Mean, interval and variance components of repeated answers and verdicts.

    `samples` has the columns query_id, generation (number of the answer), judge_sample (number of the verdict on it)
    and value; NaN is unscored and left out. A column `judge` may name the judge. The mean is that of the queries'
    means, which are those of their answers' means: all queries have the same weight.

    The interval is that of `summarise` over the queries' means, which is a hierarchical bootstrap: queries are drawn
    with replacement, each with all its answers and verdicts as they are. It counts every source once (Davison &
    Hinkley 1997, section 3.8): the means of the drawn queries differ by their questions, their answers and their
    verdicts alike. Drawing answers and verdicts again below would count their noise twice; with two answers of one
    verdict each it makes the interval up to 1.4 times too long.

    Components by the method of moments for nested random effects, also unbalanced (Searle, Casella & McCulloch 1992,
    section 3.6; ANOVA type I), negative ones set to 0. A level without repetition has none (pd.NA): with one answer per
    query, what the answers vary is inside the query's component. That of `judge` needs two judges of the same queries:
    how much the judges' means differ beyond chance; more samples do not reveal the bias of one judge. It is not part
    of the intervals, which are for these judges.

    >>> import pandas as pd
    >>> rows = [("q1", 0, 0, 1.0), ("q1", 0, 1, 0.5), ("q1", 1, 0, 0.5), ("q1", 1, 1, 0.5),
    ...         ("q2", 0, 0, 0.0), ("q2", 0, 1, 0.0), ("q2", 1, 0, 0.5), ("q2", 1, 1, 0.0)]
    >>> found = summarise_samples(pd.DataFrame(rows, columns=["query_id", "generation", "judge_sample", "value"]))
    >>> found.mean
    0.375
    >>> found.components[["source", "variance", "share"]].round(4)
             source  variance   share
    0         query    0.1094  0.6364
    1    generation       0.0     0.0
    2  judge sample    0.0625  0.3636

    Raises:
        DataError: a column is missing, no value is scored, or a sample is repeated.
        ConfigError: a setting out of range.
    """
    check_settings(n_resamples, alpha, seed)
    frame = _checked(samples)
    judges = _judges(frame)
    if judges is not None:  # differences between judges are not noise of single verdicts
        by_judge = frame.groupby("judge")["value"].transform("mean")
        frame["value"] += frame["value"].mean() - by_judge
    nested = _moments(frame)
    queries, mean = nested.query_means, float(nested.query_means.mean())
    bounds = Bounds(*bounds_of("", frame["value"].to_numpy()))
    low, high, _ = mean_intervals([queries], [bounds], alpha, n_resamples=n_resamples, seed=seed)
    within = nested.within_mean
    rerun = _normal(1 - alpha / 2) * math.sqrt(2 * within) if within is not None else None
    table = _components(nested, judges)
    return SampleSummary(
        mean,
        None if math.isnan(low[0]) else float(low[0]),
        None if math.isnan(high[0]) else float(high[0]),
        None if rerun is None else mean - rerun,
        None if rerun is None else mean + rerun,
        len(queries),
        table,
        alpha,
    )


def variance_reduction(summary: SampleSummary, costs: Costs) -> pd.DataFrame:
    """What would narrow the interval most, and at what cost: each number doubled, one at a time.

    The variance of the mean is, with Q queries of g answers of j verdicts each,
    query / Q + generation / (Q g) + judge sample / (Q g j) + judge / (number of judges); from this follows the half
    width that each option would have (normal approximation). New answers have to be judged, too. The verdicts of all
    judges on an answer count in j.

    Columns:
        option: "as it is", "twice the queries", "twice the answers", "twice the verdicts", "another judge".
        queries, generations, judge_samples, judges: their numbers (the middle two on average).
        half_width: of the interval; pd.NA where it is unknown (no repetition at that level, or one judge only).
        narrower: fraction of the present half width that would be saved.
        usd, minutes: cost of the additional work.
        narrower_per_usd, narrower_per_minute: pd.NA where it costs nothing. Best first by the former, then by
        `narrower`.

    >>> import pandas as pd
    >>> rows = [(f"q{i}", g, j, (i % 2 + (g + i // 2) % 2) / 2) for i in range(8) for g in range(2) for j in range(2)]
    >>> found = summarise_samples(pd.DataFrame(rows, columns=["query_id", "generation", "judge_sample", "value"]))
    >>> table = variance_reduction(found, Costs(generation_usd=0.01, judgement_usd=0.02, judgement_s=3.0))
    >>> table[["option", "narrower", "usd", "minutes"]].round(3)
                   option  narrower   usd  minutes
    0   twice the queries     0.293  0.80      1.6
    1   twice the answers      0.25  0.80      1.6
    2  twice the verdicts       0.0  0.64      1.6
    3       another judge      <NA>  0.64      1.6
    4            as it is       0.0  0.00      0.0

    Raises:
        ConfigError: a negative cost, or fewer than one request at once.
    """
    numbers = (costs.generation_usd, costs.judgement_usd, costs.generation_s, costs.judgement_s)
    if any(not math.isfinite(number) or number < 0 for number in numbers) or costs.at_once < 1:
        raise ConfigError(f"{costs}: costs are numbers from 0, and at least one request runs at once")
    parts = summary.components.set_index("source")
    variances = parts["variance"].astype(float)
    variance = {source: float(variances.get(source, math.nan)) for source in (*LEVELS, "judge")}
    queries = float(summary.n_queries)
    draws = {str(source): float(number) for source, number in parts["per_query"].items()}
    answers, verdicts, judges = draws["generation"], draws["judge sample"], draws.get("judge", 1.0)
    options = {
        "as it is": (1, 1, 1, 0),
        "twice the queries": (2, 1, 1, 0),
        "twice the answers": (1, 2, 1, 0),
        "twice the verdicts": (1, 1, 2, 0),
        "another judge": (1, 1, 1, 1),
    }
    now = _half_width(variance, (queries, answers, verdicts, judges), summary.alpha)
    rows = []
    for option, (q, g, j, more) in options.items():
        design = (queries * q, answers * g, verdicts * j * (1 + more / judges), judges + more)
        known = {
            "twice the answers": variance["generation"],
            "twice the verdicts": variance["judge sample"],
            "another judge": variance["judge"],
        }.get(option, 0.0)
        half = math.nan if math.isnan(known) else _half_width(variance, design, summary.alpha)
        new_answers = queries * answers * (q * g - 1)
        new_verdicts = queries * answers * verdicts * (q * g * j - 1 + more / judges)
        usd = new_answers * costs.generation_usd + new_verdicts * costs.judgement_usd
        minutes = (new_answers * costs.generation_s + new_verdicts * costs.judgement_s) / 60 / costs.at_once
        rows.append((option, *design, half, 1 - half / now if now else math.nan, usd, minutes))
    names = ["option", "queries", "generations", "judge_samples", "judges", "half_width", "narrower", "usd", "minutes"]
    table = pd.DataFrame(rows, columns=names)
    for unit in ("usd", "minutes"):
        price = table[unit].where(table[unit] > 0)
        table[f"narrower_per_{unit.removesuffix('s')}"] = (table["narrower"] / price).astype("Float64")
    table["_last"] = table["option"] == "as it is"
    keys = ["_last", "narrower_per_usd", "narrower"]
    table = table.sort_values(keys, ascending=[True, False, False], ignore_index=True, kind="stable")
    return with_nullable(table, "half_width", "narrower").drop(columns="_last")


@dataclass(frozen=True)
class _Nested:
    """Moments of values nested in generations nested in queries; None where a level has no repetition."""

    query_means: Floats
    query: float | None
    generation: float | None
    sample: float | None
    generations: float  # per query, on average
    verdicts: float  # per generation, on average

    @property
    def within_mean(self) -> float | None:
        """Variance of the mean that these very queries have by answers and verdicts alone."""
        n = len(self.query_means)
        if self.generation is None and self.sample is None:
            return None
        return ((self.generation or 0.0) + (self.sample or 0.0) / self.verdicts) / (n * self.generations)


def _checked(samples: pd.DataFrame) -> pd.DataFrame:
    wanted = ["query_id", "generation", "judge_sample", "value"]
    if not isinstance(samples, pd.DataFrame) or (lacking := [name for name in wanted if name not in samples.columns]):
        found = lacking if isinstance(samples, pd.DataFrame) else type(samples).__name__
        raise DataError(f"samples must be a DataFrame with the columns {wanted} (and perhaps judge); lacking: {found}")
    key = [*wanted[:3], *(["judge"] if "judge" in samples else [])]
    if samples.duplicated(key).any():
        twice = samples.loc[samples.duplicated(key), key].iloc[0].to_dict()
        raise DataError(f"samples: {twice} is repeated")
    frame = samples[[*key, "value"]].copy()
    frame["value"] = pd.to_numeric(frame["value"], errors="coerce").astype(float)
    scored: pd.DataFrame = frame[np.isfinite(frame["value"])].copy()
    if scored.empty:
        raise DataError("samples: no value is scored")
    return scored


def _moments(frame: pd.DataFrame) -> _Nested:
    by_generation = frame.groupby(["query_id", "generation"], sort=False)["value"]
    cells = by_generation.agg(["mean", "size"]).reset_index()
    squares = float(((frame["value"] - by_generation.transform("mean")) ** 2).sum())
    total, n_cells = len(frame), len(cells)
    own = frame.groupby("query_id", sort=False)["value"]
    n_queries = own.ngroups
    spread_cells = float(((by_generation.transform("mean") - own.transform("mean")) ** 2).sum())
    spread_queries = float(((own.transform("mean") - frame["value"].mean()) ** 2).sum())
    size = cells["size"].to_numpy(dtype=float)
    per_query = cells.groupby("query_id", sort=False)["size"].sum().to_numpy(dtype=float)
    concentrated = float((size**2 / cells.groupby("query_id")["size"].transform("sum").to_numpy(dtype=float)).sum())
    sample = squares / (total - n_cells) if total > n_cells else None
    generation = query = None
    if n_cells > n_queries:
        k1 = (total - concentrated) / (n_cells - n_queries)
        generation = max(0.0, (spread_cells / (n_cells - n_queries) - (sample or 0.0)) / k1)
    if n_queries > 1:
        k2 = (concentrated - float((size**2).sum()) / total) / (n_queries - 1)
        k3 = (total - float((per_query**2).sum()) / total) / (n_queries - 1)
        query = max(0.0, (spread_queries / (n_queries - 1) - (sample or 0.0) - k2 * (generation or 0.0)) / k3)
    means = cells.groupby("query_id", sort=False)["mean"].mean().to_numpy(dtype=float)
    return _Nested(means, query, generation, sample, n_cells / n_queries, total / n_cells)


def _judges(frame: pd.DataFrame) -> tuple[float, int] | None:
    """Variance between judges, beyond chance, and their number; None with one."""
    if "judge" not in frame or frame["judge"].nunique() < 2:
        return None
    table = frame.pivot_table(index="query_id", columns="judge", values="value", aggfunc="mean").dropna()
    q, j = table.shape
    if q < 2 or j < 2:
        return None
    values = table.to_numpy()
    means = values.mean(axis=0)
    residual = values - values.mean(axis=1, keepdims=True) - means + values.mean()
    chance = float((residual**2).sum()) / ((q - 1) * (j - 1))
    return max(0.0, float(means.var(ddof=1)) - chance / q), j


def _components(nested: _Nested, judges: tuple[float, int] | None) -> pd.DataFrame:
    n, g, j = float(len(nested.query_means)), nested.generations, nested.verdicts
    rows = [
        ("query", nested.query, n, n),
        ("generation", nested.generation, g, n * g),
        ("judge sample", nested.sample, j, n * g * j),
    ]
    if judges is not None:
        rows.append(("judge", judges[0], float(judges[1]), float(judges[1])))
    variance = np.array([math.nan if row[1] is None else row[1] for row in rows])
    total = float(np.nansum(variance))
    return pd.DataFrame(
        {
            "source": [row[0] for row in rows],
            "variance": nullable(variance),
            "share": nullable(variance / total if total else variance * math.nan),
            "per_query": [row[2] for row in rows],
            "in_mean": nullable(variance / np.array([row[3] for row in rows])),
        }
    )


def _half_width(variance: dict[str, float], design: tuple[float, float, float, float], alpha: float) -> float:
    q, g, j, judges = design
    parts = (variance["query"] / q, variance["generation"] / (q * g), variance["judge sample"] / (q * g * j))
    return _normal(1 - alpha / 2) * math.sqrt(float(np.nansum([*parts, variance["judge"] / judges])))


def _normal(level: float) -> float:
    from scipy.stats import norm

    return float(norm.ppf(level))
