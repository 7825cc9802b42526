"""Runs scored by judgements: tidy scores, and the best possible scores."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ragbench.errors import DataError, DataWarning
from ragbench.metrics.columns import Columns, evaluate_columns, refuse_duplicates
from ragbench.metrics.retrieval import (
    DEFAULT_MEASURES,
    ceiling,
    checked_qrels,
    checked_run,
    evaluate,
    parse_measures,
)
from ragbench.scoring.tidy import tidy

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from ragbench.types import Qrels, Run


def score_run(
    qrels: Qrels | pd.DataFrame, run: Run | pd.DataFrame, measures: Sequence[str] = DEFAULT_MEASURES
) -> pd.DataFrame:
    """Score a ranking of documents: columns query_id, measure, value; by measure, then by query in the order of qrels.

    Values are in [0, 1], as defined in `ragbench.metrics.retrieval`. Every judged query has a row for each measure:
    0 where the run lacks it, NaN (unscored) where its judgements are empty, as for an unanswerable question. Unjudged
    queries of the run are left out. If no query of the run is judged at all, or the run has chunk ids where documents
    are judged, there is a DataWarning.

    Args:
        qrels: {query_id: {doc_id: relevance}}, or a DataFrame with the columns query_id, doc_id, relevance.
        run: {query_id: {doc_id: score}}, or a DataFrame with the columns query_id, doc_id, score.
        measures: names as in ir_measures, e.g. ["nDCG@10", "R@5", "RR"]. Default: nDCG, P, R, F1, RR, AP and Success
            at 1, 3, 5 and 10, and RR and AP of the whole ranking.

    >>> score_run({"q1": {"a": 1, "b": 1}}, {"q1": {"x": 3.0, "a": 2.0}}, ["P@2", "RR"])
      query_id measure  value
    0       q1     P@2    0.5
    1       q1      RR    0.5

    Raises:
        ConfigError: a measure is not known.
        DataError: wrong columns, ids that are not text, a score or grade that is not a number, a repeated row.
    """
    parsed = parse_measures(measures)
    if _is_frame(qrels) or _is_frame(run):
        if _is_frame(qrels):
            judgements = _columns(cast("pd.DataFrame", qrels), "qrels", "relevance")
            query_ids = judgements.query_id.unique().tolist()
        else:
            nested = checked_qrels(cast("Qrels", qrels))
            judgements, query_ids = _flat(nested), list(nested)
        if not query_ids:
            raise DataError("qrels are empty: nothing is judged, so nothing can be scored")
        found = (
            _columns(cast("pd.DataFrame", run), "run", "score")
            if _is_frame(run)
            else _flat(checked_run(cast("Run", run)))
        )
        table, scored = evaluate_columns(query_ids, judgements, found, parsed)
    else:
        judged, ranked = checked_qrels(cast("Qrels", qrels)), checked_run(cast("Run", run))
        by_measure = evaluate(judged, ranked, [str(measure) for measure in parsed])
        query_ids, scored = list(judged), list(ranked)
        table = np.array([[*values.values()] for values in by_measure.values()], dtype=np.float64)
    if scored and set(query_ids).isdisjoint(scored):
        warnings.warn(
            f"no query of the run is judged, so every measure is 0: the run has {len(scored)} queries such as "
            f"{scored[0]!r}, the qrels {len(query_ids)} such as {query_ids[0]!r}; are both of the "
            "same dataset and split?",
            DataWarning,
            stacklevel=2,
        )
    if not np.nansum(table) > 0:
        documents, unjudged = _document_ids(qrels), _document_ids(run) - _document_ids(qrels)
        if chunks := sorted(doc_id for doc_id in unjudged if doc_id.rpartition("#")[0] in documents):
            warnings.warn(
                f"the run has chunk ids such as {chunks[0]!r} where documents are judged, so every measure is 0; "
                "turn it into a run of documents first: to_documents(run, chunks)",
                DataWarning,
                stacklevel=2,
            )
    return tidy(query_ids, [str(measure) for measure in parsed], table)


def ceilings(qrels: Qrels | pd.DataFrame, measures: Sequence[str] = DEFAULT_MEASURES) -> pd.DataFrame:
    """The best value that any system could reach on each query: columns query_id, measure, value, as in `score_run`.

    With n relevant documents R@k and AP@k reach min(k, n) / n, P@k reaches min(k, n) / k, F1@k 2 min(k, n) / (k + n)
    and all others 1. It is 0 where no document is relevant and NaN where none is judged. Judged documents that the
    corpus lacks count as relevant, as in the scores.

    >>> ceilings({"q1": {"a": 1, "b": 2}, "q2": {"a": 1}}, ["R@1", "P@5"])
      query_id measure  value
    0       q1     R@1    0.5
    1       q2     R@1    1.0
    2       q1     P@5    0.4
    3       q2     P@5    0.2
    """
    parsed = parse_measures(measures)
    if _is_frame(qrels):
        columns = _columns(cast("pd.DataFrame", qrels), "qrels", "relevance")
        refuse_duplicates(columns, "qrels")
        nested: Qrels = {}
        for query_id, doc_id, grade in zip(columns.query_id, columns.doc_id, columns.value.tolist(), strict=True):
            nested.setdefault(query_id, {})[doc_id] = int(grade)
    else:
        nested = cast("Qrels", qrels)
    nested = checked_qrels(nested)
    counts = [sum(grade > 0 for grade in grades.values()) if grades else None for grades in nested.values()]
    table = [[np.nan if n is None else ceiling(measure, n) for n in counts] for measure in parsed]
    return tidy(list(nested), [str(measure) for measure in parsed], table)


def _is_frame(records: object) -> bool:
    return hasattr(records, "columns") and hasattr(records, "iloc")  # without loading pandas for dictionaries


def _columns(frame: pd.DataFrame, what: str, value: str) -> Columns:
    """The validated columns of a table; errors name the row."""
    import pandas as pd

    def plain(value: object) -> object:
        return value.item() if isinstance(value, np.generic) else value

    wanted = ["query_id", "doc_id", value]
    if lacking := [name for name in wanted if name not in frame.columns]:
        raise DataError(
            f"{what}: no column {', '.join(map(repr, lacking))}; expected {wanted}, "
            f"found {list(map(str, frame.columns))}; rename with frame.rename(columns={{...}})"
        )
    for name in wanted[:2]:
        ids = frame[name]
        if isinstance(ids.dtype, pd.CategoricalDtype):
            text = pd.api.types.infer_dtype(ids.cat.categories, skipna=False) in {"string", "empty"}
        else:  # a column of the type `str` need not be checked item by item
            text = ids.dtype != object and pd.api.types.is_string_dtype(ids.dtype)
            text = text or pd.api.types.infer_dtype(ids, skipna=False) in {"string", "empty"}
        if len(ids) and (not text or (ids.dtype != object and ids.hasnans)):
            row = next((i for i, item in enumerate(ids) if not isinstance(item, str)), 0)
            raise DataError(
                f"{what}: {name} {plain(ids.iloc[row])!r} in row {row} is not text; drop rows without an id and make "
                f"the others text with frame.astype({{{name!r}: str}})"
            )
    whole = value == "relevance"
    column = frame[value].infer_objects()  # whole numbers kept as objects are whole numbers
    fits = pd.api.types.is_integer_dtype(column) if whole else pd.api.types.is_numeric_dtype(column)
    if len(frame) == 0:
        return Columns(frame["query_id"], frame["doc_id"], np.zeros(0))
    if fits and not column.hasnans:
        numbers: npt.NDArray[Any] = column.to_numpy(dtype=np.int64 if whole else np.float64)
        if whole or np.isfinite(numbers).all():
            return Columns(frame["query_id"], frame["doc_id"], numbers)
    kind = Integral if whole else Real
    wrong = (not isinstance(number, kind) or not math.isfinite(number) for number in frame[value])
    row = next((i for i, is_wrong in enumerate(wrong) if is_wrong), 0)
    raise DataError(
        f"{what}: {value} {plain(frame[value].iloc[row])!r} in row {row} (query {frame['query_id'].iloc[row]!r}, "
        f"document {frame['doc_id'].iloc[row]!r}) is not {'a whole number' if whole else 'a finite number'}; "
        f"the column is of type {column.dtype}"
        + ("" if fits else f", convert it with frame.astype({{{value!r}: {'int' if whole else 'float'}}})")
    )


def _flat(nested: Mapping[str, Mapping[str, float]]) -> Columns:
    import pandas as pd

    counts = [len(documents) for documents in nested.values()]
    query_ids = np.repeat(np.array(list(nested), dtype=object), counts)
    documents = [doc_id for inner in nested.values() for doc_id in inner]
    values = np.array([value for inner in nested.values() for value in inner.values()])
    return Columns(pd.Series(query_ids, dtype=object), pd.Series(documents, dtype=object), values)


def _document_ids(records: Qrels | Run | pd.DataFrame) -> set[str]:
    if isinstance(records, Mapping):
        return {doc_id for documents in records.values() for doc_id in documents}
    return set(records["doc_id"])
