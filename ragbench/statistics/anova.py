"""Which knob matters at all: the variance of a sweep, split by parameter, query and what is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ragbench.errors import ComparisonError, ConfigError, DataError, unknown
from ragbench.statistics.columns import nullable
from ragbench.statistics.pairing import matrix_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    Floats = npt.NDArray[np.floating]


class _Configuration(Protocol):
    """What is read of a result: see `ragbench.evaluation.Result`."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def scores(self) -> pd.DataFrame: ...


QUERY, INTERACTIONS, REST = "query", "interactions of the parameters", "query x configuration"


def anova(
    sweep: Sequence[_Configuration] | pd.DataFrame, *, measure: str = "", factors: Sequence[str] | None = None
) -> pd.DataFrame:
    """How much of the variance of the scores is chunker, size, retriever, model, prompt, query.

    Every query is answered by every configuration, so the total variance falls into three parts that add up: between
    configurations, between queries, and the rest (some configurations suit some queries). The first is split by
    parameter with type II sums of squares (what a parameter explains beyond all the others; Langsrud 2003), which for
    a full grid are the plain ones.

    Queries are random: a parameter's F compares its mean square with that of its own interaction with the queries
    (repeated measures), so that a parameter is called real only if it would be with other questions like these. That
    test supposes that all differences between configurations scatter alike over the queries; one noisy configuration
    breaks this and makes it see effects that are not there. Degrees of freedom are therefore multiplied by `epsilon`
    (Greenhouse & Geisser 1959), 1 where they do scatter alike, at least 1 / df.

    Columns:
        source: each parameter, two that always vary together as one ("chunker + chunk_size"); "interactions of the
            parameters" (what configurations differ by beyond the sum of their parameters; without a full grid also
            what overlapping parameters share, which may be negative); "query"; "query x configuration", the rest.
        sum_of_squares, df; share: of the total sum of squares; share_of_configurations: of what configurations differ
            by, pd.NA for the last two: which knob matters, however hard the questions are.
        f, epsilon, p_value: of the parameters and of their interactions, p with df * epsilon and
            df * (n - 1) * epsilon degrees of freedom; pd.NA where there is nothing to test against.
        n: queries that all configurations have scored; the others are out.
        note: why a parameter has no numbers of its own, where it has none.

    Args:
        sweep: finished configurations, or a frame with the columns query_id, value and one per factor (one row for
            each query and combination of factors).
        measure: which measure of the results; not needed for a frame.
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
        ComparisonError: other queries, or none that all configurations have scored.
        ConfigError: fewer than two configurations, no parameter that varies, an unknown parameter or measure.
        DataError: a frame with two rows for one query and combination, or with missing columns.
    """
    import pandas as pd

    if isinstance(sweep, pd.DataFrame):
        values, design = _from_frame(sweep, factors)
    else:
        values, design = _from_results(sweep, measure, factors)
    n, k = values.shape
    grand = values.mean()
    centers = values.mean(axis=0)
    total = float(((values - grand) ** 2).sum())
    between = n * float(((centers - grand) ** 2).sum())
    queries = k * float(((values.mean(axis=1) - grand) ** 2).sum())
    rest = max(0.0, total - between - queries)
    everything = np.column_stack([np.ones(k), *design.values()])
    full = _rank(everything)
    rows: list[tuple[Any, ...]] = []
    for factor in design:
        others = np.column_stack([np.ones(k), *(own for name, own in design.items() if name != factor)])
        df = full - _rank(others)
        if df == 0:
            note = "cannot be told apart from the other parameters together: they vary together in this sweep"
            rows.append((factor, math.nan, 0, math.nan, math.nan, math.nan, note))
            continue
        project = _projection(everything) - _projection(others)
        squares = n * float(centers @ project @ centers)
        rows.append((factor, squares, df, *_f_test(squares, df, values @ project), ""))
    beyond = np.eye(k) - _projection(everything)
    apart = between - float(np.nansum([row[1] for row in rows]))
    left = k - full
    own = n * float(centers @ beyond @ centers) if left else 0.0
    tested = _f_test(own, left, values @ beyond) if left else (math.nan, math.nan, math.nan)
    rows.append((INTERACTIONS, apart, left, *tested, ""))
    rows.append((QUERY, queries, n - 1, math.nan, math.nan, math.nan, ""))
    rows.append((REST, rest, (n - 1) * (k - 1), math.nan, math.nan, math.nan, ""))
    return _table(rows, total, between, n)


def _table(rows: list[tuple[Any, ...]], total: float, between: float, n: int) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame(rows, columns=["source", "sum_of_squares", "df", "f", "epsilon", "p_value", "note"])
    squares = table["sum_of_squares"].to_numpy(dtype=float)
    knobs = ~table["source"].isin([QUERY, REST]).to_numpy()
    share = squares / total if total > 0 else squares * math.nan
    among = np.where(knobs, squares / between, math.nan) if between > 1e-15 * max(total, 1.0) else squares * math.nan
    table["sum_of_squares"] = nullable(squares)
    table["share"] = nullable(share)
    table["share_of_configurations"] = nullable(among)
    for name in ("f", "epsilon", "p_value"):
        table[name] = nullable(table[name].to_numpy(dtype=float))
    table["n"] = n
    names = ["source", "sum_of_squares", "df", "share", "share_of_configurations"]
    names += ["f", "epsilon", "p_value", "n", "note"]
    return table[names]


def _f_test(squares: float, df: int, parts: Floats) -> tuple[float, float, float]:
    """F, epsilon and p of an effect; `parts` (queries, configurations) is what each query contributes to it."""
    from scipy.stats import f

    n = len(parts)
    away = parts - parts.mean(axis=0)
    error, error_df = float((away**2).sum()), df * (n - 1)
    if error_df < 1 or error <= 1e-15:
        return math.nan, math.nan, math.nan
    scatter = away.T @ away
    epsilon = min(1.0, max(1 / df, float(np.trace(scatter)) ** 2 / (df * float((scatter**2).sum()))))
    ratio = (squares / df) / (error / error_df)
    return ratio, epsilon, float(f.sf(ratio, df * epsilon, error_df * epsilon))


def _rank(matrix: Floats) -> int:
    return int(np.linalg.matrix_rank(matrix))


def _projection(matrix: Floats) -> Floats:
    projection: Floats = matrix @ np.linalg.pinv(matrix)
    return projection


def _told_apart(design: dict[str, Floats]) -> dict[str, Floats]:
    """Parameters of which one says what the other is (256 tokens always by the recursive chunker) become one."""
    apart = dict(design)
    for name in design:
        for other in list(apart):
            if name not in apart or other == name:
                continue
            both = np.column_stack([apart[other], apart[name]])
            if _rank(_with_mean(both)) == _rank(_with_mean(apart[other])):
                merged = " + ".join(own for own in design if own in {*name.split(" + "), *other.split(" + ")})
                apart = {(merged if own == other else own): columns for own, columns in apart.items() if own != name}
    return apart


def _with_mean(columns: Floats) -> Floats:
    return np.column_stack([np.ones(len(columns)), columns])


def _levels(settings: Sequence[Any]) -> Floats:
    """Indicator columns of a parameter, one per value but the first."""
    import pandas as pd

    codes, values = pd.factorize(np.array([str(value) for value in settings], dtype=object))
    columns: Floats = (codes[:, None] == np.arange(1, len(values))[None, :]).astype(np.float64)
    return columns


def _from_results(
    results: Sequence[_Configuration], measure: str, factors: Sequence[str] | None
) -> tuple[Floats, dict[str, Floats]]:
    if not measure:
        raise ConfigError("measure is empty: name the measure whose variance is to be split, such as 'nDCG@10'")
    matrix = matrix_of({result.name: result.scores for result in results}, measure)
    settings = {result.name: result.parameters for result in results}
    names = list(dict.fromkeys(name for own in settings.values() for name in own))
    for factor in factors or ():
        if factor not in names:
            raise ConfigError(unknown("parameter", factor, names))
    chosen = list(factors) if factors is not None else names
    design = {name: _levels([settings[str(config)].get(name) for config in matrix]) for name in chosen}
    return matrix.to_numpy(), _varying(design)


def _from_frame(frame: Any, factors: Sequence[str] | None) -> tuple[Floats, dict[str, Floats]]:
    if lacking := [name for name in ("query_id", "value", *(factors or ())) if name not in frame.columns]:
        raise DataError(f"no column {', '.join(lacking)}; found {list(frame.columns)}")
    chosen = list(factors) if factors is not None else [n for n in frame.columns if n not in {"query_id", "value"}]
    if not chosen:
        raise ConfigError("no factor: the frame needs a column for each parameter beside query_id and value")
    if frame.duplicated(["query_id", *chosen]).any():
        raise DataError(f"two rows for one query and combination of {', '.join(chosen)}; keep one, or name all factors")
    wide = frame.assign(**{name: frame[name].astype(str) for name in chosen})
    wide = wide.pivot(index="query_id", columns=chosen, values="value").dropna()
    if wide.empty:
        raise ComparisonError("no query that all combinations of the factors have scored")
    if wide.shape[1] < 2:
        raise ConfigError("there is one configuration only: no variance between configurations to split")
    labels = [column if isinstance(column, tuple) else (column,) for column in wide.columns]
    design = {name: _levels([label[i] for label in labels]) for i, name in enumerate(chosen)}
    return wide.to_numpy(dtype=float), _varying(design)


def _varying(design: dict[str, Floats]) -> dict[str, Floats]:
    varying = {name: columns for name, columns in design.items() if columns.shape[1]}
    if not varying:
        raise ConfigError(f"none of these parameters varies within the sweep: {', '.join(design) or 'none given'}")
    return _told_apart(varying)
