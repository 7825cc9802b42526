"""Analysis of variance of a sweep: the parts due to each parameter, the queries, and the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError
from ragbench.statistics.columns import Floats, matrix_of


class _Configuration(Protocol):
    """The part of `ragbench.evaluation.Result` that is used here."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def scores(self) -> pd.DataFrame: ...


QUERY, INTERACTIONS, REST = "query", "interactions of the parameters", "query x configuration"


def anova(sweep: Sequence[_Configuration], *, measure: str) -> pd.DataFrame:
    """Split the variance of the scores by source: chunker, size, retriever, model, prompt, query.

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
        sweep: finished configurations.
        measure: the measure whose variance is split.

    >>> import pandas as pd
    >>> from ragbench.evaluation import Result
    >>> def result(retriever, size, *values):
    ...     scores = pd.DataFrame({"query_id": ["q1", "q2"], "measure": "RR", "value": values})
    ...     return Result(f"{retriever}-{size}", {"parameters": {"retriever": retriever, "size": size}}, {}, scores)
    >>> sweep = [result("a", 128, 0.1, 0.4), result("a", 512, 0.3, 0.6)]
    >>> sweep += [result("b", 128, 0.5, 0.6), result("b", 512, 0.7, 1.0)]
    >>> table = anova(sweep, measure="RR")
    >>> table[["source", "sum_of_squares", "share_of_configurations"]].round(3)
                               source  sum_of_squares  share_of_configurations
    0                       retriever           0.245                    0.653
    1                            size           0.125                    0.333
    2  interactions of the parameters           0.005                    0.013
    3                           query           0.125                     <NA>
    4           query x configuration           0.015                     <NA>

    Raises:
        ComparisonError: other queries, or none that all configurations have scored. ConfigError:
        fewer than two configurations, no parameter that varies, an unknown measure.
    """
    measure, matrix = matrix_of({result.name: result.scores for result in sweep}, measure)
    settings = {result.name: result.parameters for result in sweep}.values()
    names = list(dict.fromkeys(name for parameters in settings for name in parameters))
    levels = {name: _levels([parameters.get(name) for parameters in settings]) for name in names}
    varying = {name: columns for name, columns in levels.items() if columns.shape[1]}
    if not varying:
        raise ConfigError("no parameter varies within the sweep, so there is nothing to compare")
    design = _merged(varying)
    values = matrix.to_numpy()
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
            [np.ones(k), *(columns for name, columns in design.items() if name != factor)]
        )
        df = full - int(np.linalg.matrix_rank(others))
        if df:
            project = _projection(everything) - _projection(others)
            squares = n * float(centers @ project @ centers)
            rows.append((factor, squares, df, *_f_test(squares, df, values @ project), ""))
        else:
            note = "confounded with the other parameters: they vary together in this sweep"
            rows.append((factor, math.nan, 0, *_UNTESTED, note))
    beyond = np.eye(k) - _projection(everything)
    left = k - full
    tested = _f_test(n * float(centers @ beyond @ centers), left, values @ beyond)
    explained = float(np.nansum([row[1] for row in rows]))
    rows.append((INTERACTIONS, between - explained, left, *tested, ""))
    rows.append((QUERY, queries, n - 1, *_UNTESTED, ""))
    rows.append((REST, rest, (n - 1) * (k - 1), *_UNTESTED, ""))
    table = pd.DataFrame(
        rows, columns=["source", "sum_of_squares", "df", "f", "epsilon", "p_value", "note"]
    )
    column = table["sum_of_squares"]
    table.insert(3, "share", column / (total or math.nan))
    of_configurations = column.where(~table["source"].isin([QUERY, REST]))
    table.insert(
        4,
        "share_of_configurations",
        of_configurations / (between if between > 1e-15 * max(total, 1.0) else math.nan),
    )
    table.insert(8, "n", n)
    numbers = ["sum_of_squares", "share", "share_of_configurations", "f", "epsilon", "p_value"]
    return table.astype(dict.fromkeys(numbers, "Float64"))


_UNTESTED = (math.nan, math.nan, math.nan)


def _f_test(squares: float, df: int, parts: Floats) -> tuple[float, float, float]:
    """Compute F, epsilon and p of an effect; `parts` (queries, configurations) is the contribution of each
    query to it.
    """
    from scipy.stats import f

    n = len(parts)
    away = parts - parts.mean(axis=0)
    error, error_df = float((away**2).sum()), df * (n - 1)
    if error_df < 1 or error <= 1e-15:
        return _UNTESTED
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
                parts = {*name.split(" + "), *other.split(" + ")}
                merged = " + ".join(part for part in design if part in parts)
                merged_design = {
                    (merged if factor == other else factor): columns
                    for factor, columns in merged_design.items()
                    if factor != name
                }
    return merged_design


def _rank_with_mean(columns: Floats) -> int:
    return int(np.linalg.matrix_rank(np.column_stack([np.ones(len(columns)), columns])))


def _levels(settings: Sequence[Any]) -> Floats:
    """Return indicator columns of a parameter, one per value but the first."""
    codes, values = pd.factorize(np.array([str(value) for value in settings], dtype=object))
    columns: Floats = (codes[:, None] == np.arange(1, len(values))[None, :]).astype(np.float64)
    return columns
