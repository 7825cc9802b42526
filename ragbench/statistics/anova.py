"""Analysis of variance of a sweep: the parts due to each parameter, the queries, and the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ragbench.errors import ComparisonError, ConfigError, DataError, unknown
from ragbench.statistics.columns import Floats, matrix_of, nullable, with_nullable


class _Configuration(Protocol):
    """The part of `ragbench.evaluation.Result` that is used here."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def scores(self) -> pd.DataFrame: ...


QUERY, INTERACTIONS, REST = "query", "interactions of the parameters", "query x configuration"


def anova(
    sweep: Sequence[_Configuration] | pd.DataFrame,
    *,
    measure: str = "",
    factors: Sequence[str] | None = None,
) -> pd.DataFrame:
    """The variance of the scores by source: chunker, size, retriever, model, prompt, query.

    Every query is answered by every configuration, so the total variance falls into three parts
    that add up: between configurations, between queries, and the rest (some configurations suit
    some queries). The first is split by parameter with type II sums of squares (what a parameter
    explains beyond all the others; Langsrud 2003), the usual ones for a full grid.

    Queries are random: a parameter's F compares its mean square with that of its own interaction
    with the queries (repeated measures), so that the result holds for other questions like these.
    The test assumes sphericity: all differences between configurations have the same variance over
    the queries. Degrees of freedom are therefore multiplied by `epsilon` (Greenhouse & Geisser
    1959), 1 under sphericity, at least 1 / df.

    Columns:
        source: each parameter, two that always vary together as one ("chunker + chunk_size");
        "interactions of the
            parameters" (differences of configurations beyond the sum of their parameters; without a
            full grid also what overlapping parameters share, which may be negative); "query";
            "query x configuration", the rest.
        sum_of_squares, df; share: of the total sum of squares; share_of_configurations: of the sum
        of squares between
            configurations, pd.NA for the last two, independent of the difficulty of the questions.
        f, epsilon, p_value: of the parameters and of their interactions, p with df * epsilon and
            df * (n - 1) * epsilon degrees of freedom; pd.NA where there is nothing to test against.
        n: queries that all configurations have scored; the others are left out.
        note: why a parameter has no numbers of its own.

    Args:
        sweep: finished configurations, or a frame with the columns query_id, value and one per
        factor (one row for
            each query and combination of factors).
        measure: the measure of the results; not needed for a frame.
        factors: names of parameters; None = all that vary.

    >>> import pandas as pd
    >>> rows = [("q1", "a", 128, 0.1), ("q1", "a", 512, 0.3), ("q1", "b", 128, 0.5), ("q1", "b", 512, 0.7),
    ...         ("q2", "a", 128, 0.4), ("q2", "a", 512, 0.6), ("q2", "b", 128, 0.6), ("q2", "b", 512, 1.0)]
    >>> table = anova(pd.DataFrame(rows, columns=["query_id", "retriever", "size", "value"]))
    >>> table[["source", "sum_of_squares", "share_of_configurations"]].round(3)
                               source  sum_of_squares  share_of_configurations
    0                       retriever           0.245                    0.653
    1                            size           0.125                    0.333
    2  interactions of the parameters           0.005                    0.013
    3                           query           0.125                     <NA>
    4           query x configuration           0.015                     <NA>

    Raises:
        ComparisonError: other queries, or none that all configurations have scored. ConfigError:
        fewer than two configurations, no parameter that varies, an unknown parameter or measure.
        DataError: a frame with two rows for one query and combination, or with missing columns.
    """
    if isinstance(sweep, pd.DataFrame):
        values, design = _from_frame(sweep, factors)
    else:
        values, design = _from_results(sweep, measure, factors)
    varying = {name: columns for name, columns in design.items() if columns.shape[1]}
    if not varying:
        raise ConfigError(
            f"none of these parameters varies within the sweep: {', '.join(design) or 'none given'}"
        )
    design = _merged(varying)
    n, k = values.shape
    grand = values.mean()
    centers = values.mean(axis=0)
    total = float(((values - grand) ** 2).sum())
    between = n * float(((centers - grand) ** 2).sum())
    queries = k * float(((values.mean(axis=1) - grand) ** 2).sum())
    rest = max(0.0, total - between - queries)
    everything = np.column_stack([np.ones(k), *design.values()])
    full = int(np.linalg.matrix_rank(everything))
    rows: list[tuple[Any, ...]] = []
    for factor in design:
        others = np.column_stack(
            [np.ones(k), *(own for name, own in design.items() if name != factor)]
        )
        df = full - int(np.linalg.matrix_rank(others))
        if df == 0:
            note = "confounded with the other parameters: they vary together in this sweep"
            rows.append((factor, math.nan, 0, math.nan, math.nan, math.nan, note))
            continue
        project = _projection(everything) - _projection(others)
        squares = n * float(centers @ project @ centers)
        rows.append((factor, squares, df, *_f_test(squares, df, values @ project), ""))
    beyond = np.eye(k) - _projection(everything)
    left = k - full
    own = n * float(centers @ beyond @ centers) if left else 0.0
    tested = _f_test(own, left, values @ beyond) if left else (math.nan, math.nan, math.nan)
    rows.append(
        (INTERACTIONS, between - float(np.nansum([row[1] for row in rows])), left, *tested, "")
    )
    rows.append((QUERY, queries, n - 1, math.nan, math.nan, math.nan, ""))
    rows.append((REST, rest, (n - 1) * (k - 1), math.nan, math.nan, math.nan, ""))
    table = pd.DataFrame(
        rows, columns=["source", "sum_of_squares", "df", "f", "epsilon", "p_value", "note"]
    )
    squares = table["sum_of_squares"].to_numpy(dtype=float)
    of_configurations = np.where(~table["source"].isin([QUERY, REST]), squares, math.nan)
    table = with_nullable(table, "sum_of_squares", "f", "epsilon", "p_value").assign(
        share=nullable(squares / (total if total > 0 else math.nan)),
        share_of_configurations=nullable(
            of_configurations / (between if between > 1e-15 * max(total, 1.0) else math.nan)
        ),
        n=n,
    )
    names = ["source", "sum_of_squares", "df", "share", "share_of_configurations"]
    return table[[*names, "f", "epsilon", "p_value", "n", "note"]]


def _f_test(squares: float, df: int, parts: Floats) -> tuple[float, float, float]:
    """F, epsilon and p of an effect; `parts` (queries, configurations) is the contribution of each
    query to it.
    """
    from scipy.stats import f

    n = len(parts)
    away = parts - parts.mean(axis=0)
    error, error_df = float((away**2).sum()), df * (n - 1)
    if error_df < 1 or error <= 1e-15:
        return math.nan, math.nan, math.nan
    scatter = away.T @ away
    epsilon = min(
        1.0, max(1 / df, float(np.trace(scatter)) ** 2 / (df * float((scatter**2).sum())))
    )
    ratio = (squares / df) / (error / error_df)
    return ratio, epsilon, float(f.sf(ratio, df * epsilon, error_df * epsilon))


def _projection(matrix: Floats) -> Floats:
    projection: Floats = matrix @ np.linalg.pinv(matrix)
    return projection


def _merged(design: dict[str, Floats]) -> dict[str, Floats]:
    """Merge confounded parameters (such as 256 tokens always by the recursive chunker) into one."""
    merged_design = dict(design)
    for name in design:
        for other in list(merged_design):
            if name not in merged_design or other == name:
                continue
            both = np.column_stack([merged_design[other], merged_design[name]])
            if _rank_with_mean(both) == _rank_with_mean(merged_design[other]):
                merged = " + ".join(
                    own for own in design if own in {*name.split(" + "), *other.split(" + ")}
                )
                merged_design = {
                    (merged if own == other else own): columns
                    for own, columns in merged_design.items()
                    if own != name
                }
    return merged_design


def _rank_with_mean(columns: Floats) -> int:
    return int(np.linalg.matrix_rank(np.column_stack([np.ones(len(columns)), columns])))


def _levels(settings: Sequence[Any]) -> Floats:
    """Indicator columns of a parameter, one per value but the first."""
    codes, values = pd.factorize(np.array([str(value) for value in settings], dtype=object))
    columns: Floats = (codes[:, None] == np.arange(1, len(values))[None, :]).astype(np.float64)
    return columns


def _from_results(
    results: Sequence[_Configuration], measure: str, factors: Sequence[str] | None
) -> tuple[Floats, dict[str, Floats]]:
    if not measure:
        raise ConfigError(
            "measure is empty: name the measure whose variance is to be split, such as 'nDCG@10'"
        )
    matrix = matrix_of({result.name: result.scores for result in results}, measure)
    settings = {result.name: result.parameters for result in results}
    names = list(dict.fromkeys(name for own in settings.values() for name in own))
    for factor in factors or ():
        if factor not in names:
            raise ConfigError(unknown("parameter", factor, names))
    chosen = list(factors) if factors is not None else names
    design = {
        name: _levels([settings[str(config)].get(name) for config in matrix]) for name in chosen
    }
    return matrix.to_numpy(), design


def _from_frame(frame: Any, factors: Sequence[str] | None) -> tuple[Floats, dict[str, Floats]]:
    if lacking := [
        name for name in ("query_id", "value", *(factors or ())) if name not in frame.columns
    ]:
        raise DataError(f"no column {', '.join(lacking)}; found {list(frame.columns)}")
    chosen = (
        list(factors)
        if factors is not None
        else [n for n in frame.columns if n not in {"query_id", "value"}]
    )
    if not chosen:
        raise ConfigError(
            "no factor: the frame needs a column for each parameter, in addition to query_id and "
            "value"
        )
    if frame.duplicated(["query_id", *chosen]).any():
        raise DataError(
            f"two rows for one query and combination of {', '.join(chosen)}; keep one, or name "
            "all factors"
        )
    wide = frame.assign(**{name: frame[name].astype(str) for name in chosen})
    wide = wide.pivot(index="query_id", columns=chosen, values="value").dropna()
    if wide.empty:
        raise ComparisonError("no query that all combinations of the factors have scored")
    if wide.shape[1] < 2:
        raise ConfigError(
            "there is one configuration only: no variance between configurations to split"
        )
    labels = [column if isinstance(column, tuple) else (column,) for column in wide.columns]
    design = {name: _levels([label[i] for label in labels]) for i, name in enumerate(chosen)}
    return wide.to_numpy(dtype=float), design
