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


INTERACTIONS = "interactions of the parameters"


def anova(sweep: Sequence[_Configuration], *, measure: str) -> pd.DataFrame:
    """Split the variance between configurations by parameter: chunker, size, retriever, model, prompt.

    By type II sums of squares (what a parameter explains beyond all the others; Langsrud 2003), the
    usual ones for a full grid, where the shares add up to 1.

    Queries are random: a parameter's F compares its mean square with that of its own interaction
    with the queries (repeated measures), so that the result holds for other questions like these.
    The test assumes sphericity: all differences between configurations have the same variance over
    the queries. Degrees of freedom are therefore multiplied by `epsilon` (Greenhouse & Geisser
    1959), 1 under sphericity, at least 1 / df.

    Columns:
        source: each parameter, two that always vary together as one ("chunker + chunk_size"), and
            "interactions of the parameters" (differences of configurations beyond the sum of their
            parameters).
        sum_of_squares, df; share: of the sum of squares between configurations; f, epsilon, p_value
            with df * epsilon and df * (n - 1) * epsilon degrees of freedom. pd.NA where there is
            nothing to test, as of a parameter that is confounded with the others together.
        n: queries that all configurations have scored; the others are left out.

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
    >>> anova(sweep, measure="RR")[["source", "sum_of_squares", "share"]].round(3)
                               source  sum_of_squares  share
    0                       retriever           0.245  0.653
    1                            size           0.125  0.333
    2  interactions of the parameters           0.005  0.013

    Raises:
        ComparisonError: other queries, or none that all configurations have scored. ConfigError:
        fewer than two configurations, no parameter that varies, an unknown measure.
    """
    measure, matrix = matrix_of({result.name: result.scores for result in sweep}, measure)
    settings = {result.name: result.parameters for result in sweep}.values()
    names = list(dict.fromkeys(name for parameters in settings for name in parameters))
    factors = {name: [str(parameters.get(name)) for parameters in settings] for name in names}
    varying = {name: values for name, values in factors.items() if len({*values}) > 1}
    if not varying:
        raise ConfigError("no parameter varies within the sweep, so there is nothing to compare")
    design = {name: _levels(values) for name, values in _merged(varying).items()}
    values = matrix.to_numpy()
    n, k = values.shape
    full = _projection([np.ones(k), *design.values()])
    projections = {
        factor: full
        - _projection([np.ones(k), *(part for name, part in design.items() if name != factor)])
        for factor in design
    }
    projections[INTERACTIONS] = np.eye(k) - full
    rows = [(source, *_effect(values @ part, part)) for source, part in projections.items()]
    columns = ["source", "sum_of_squares", "df", "f", "epsilon", "p_value"]
    table = pd.DataFrame(rows, columns=columns)
    centers = values.mean(axis=0)
    between = n * float(((centers - centers.mean()) ** 2).sum())
    is_flat = between <= 1e-15 * max(1.0, float((values**2).sum()))
    table.insert(3, "share", table["sum_of_squares"] / (math.nan if is_flat else between))
    numbers = ["sum_of_squares", "share", "f", "epsilon", "p_value"]
    return table.assign(n=n).astype(dict.fromkeys(numbers, "Float64"))


def _effect(parts: Floats, project: Floats) -> tuple[float, int, float, float, float]:
    """Return sum of squares, df, F, epsilon and p of an effect; `parts` (queries, configurations) is
    the contribution of each query to it.
    """
    from scipy.stats import f

    n, df = len(parts), round(float(np.trace(project)))
    squares = n * float((parts.mean(axis=0) ** 2).sum()) if df else math.nan
    away = parts - parts.mean(axis=0)
    error, error_df = float((away**2).sum()), df * (n - 1)
    if error_df < 1 or error <= 1e-15:
        return squares, df, math.nan, math.nan, math.nan
    scatter = away.T @ away
    epsilon = min(
        1.0, max(1 / df, float(np.trace(scatter)) ** 2 / (df * float((scatter**2).sum())))
    )
    ratio = (squares / df) / (error / error_df)
    return squares, df, ratio, epsilon, float(f.sf(ratio, df * epsilon, error_df * epsilon))


def _projection(columns: Sequence[Floats]) -> Floats:
    matrix = np.column_stack(columns)
    projection: Floats = matrix @ np.linalg.pinv(matrix)
    return projection


def _merged(factors: dict[str, list[str]]) -> dict[str, list[str]]:
    """Merge a parameter into one that determines it (such as 256 tokens always by the recursive
    chunker).
    """
    merged = dict(factors)
    for name in factors:
        for other in list(merged):
            if name not in merged or other == name:
                continue
            pairs = {*zip(merged[other], merged[name], strict=True)}
            if len(pairs) == len({*merged[other]}):
                parts = f"{name} + {other}".split(" + ")
                both = " + ".join(part for part in factors if part in parts)
                merged = {
                    (both if factor == other else factor): values
                    for factor, values in merged.items()
                    if factor != name
                }
    return merged


def _levels(values: Sequence[str]) -> Floats:
    """Return indicator columns of a parameter, one per value but the first."""
    codes, unique = pd.factorize(np.array(values, dtype=object))
    columns: Floats = (codes[:, None] == np.arange(1, len(unique))[None, :]).astype(np.float64)
    return columns
