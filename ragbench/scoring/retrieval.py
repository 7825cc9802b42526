"""Runs scored: a ranking by judgements, and at every level that the labels of a test set allow; and the best scores."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.errors import DataError, DataWarning, unknown_chunk
from ragbench.metrics.chunks import check_spans, overlaps, places, ranges
from ragbench.metrics.columns import Columns, evaluate_columns, refuse_duplicates
from ragbench.metrics.retrieval import (
    DEFAULT_MEASURES,
    FAMILIES,
    ceiling,
    checked_qrels,
    checked_run,
    evaluate,
    parse_measure,
    parse_measures,
)
from ragbench.registry import is_ranking_measure, measure_of
from ragbench.scoring.tidy import tidy
from ragbench.types import Chunk, Dataset, Qrels, Run

LEVELS = ("document", "span", "chunk")

# A chunk is relevant if it overlaps a piece of evidence by at least this fraction of the shorter of the two.
_SHARED = 0.5


def score_run(
    qrels: Qrels | pd.DataFrame | str | Path,
    run: Run | pd.DataFrame | str | Path,
    measures: Sequence[str] = DEFAULT_MEASURES,
) -> pd.DataFrame:
    """Score a ranking of documents: columns query_id, measure, value; by measure, then by query in the order of qrels.

    Values are in [0, 1], as defined in `ragbench.metrics.retrieval`. Every judged query has a row for each measure:
    0 where the run lacks it, NaN (unscored) where its judgements are empty, as for an unanswerable question. Unjudged
    queries of the run are left out. If no query of the run is judged at all, or the run has chunk ids where documents
    are judged, there is a DataWarning.

    Args:
        qrels: {query_id: {doc_id: relevance}}, or a DataFrame with the columns query_id, doc_id, relevance; also
            what `read_qrels` takes: a file of TREC, a frame of PyTerrier (qid, docno, label), an object of ranx.
        run: {query_id: {doc_id: score}}, or a DataFrame with the columns query_id, doc_id, score; or as `read_run`.
        measures: names as in ir_measures, e.g. ["nDCG@10", "P(rel=2)@5", "Judged@10"]. Default: nDCG, P, R, F1, RR,
            AP and Success at 1, 3, 5 and 10, and RR and AP of the whole ranking.

    >>> score_run({"q1": {"a": 1, "b": 1}}, {"q1": {"x": 3.0, "a": 2.0}}, ["P@2", "RR"])
      query_id measure  value
    0       q1     P@2    0.5
    1       q1      RR    0.5

    Raises:
        ConfigError: a measure is not known.
        DataError: wrong columns, ids that are not text, a score or grade that is not a number, a repeated row.
    """
    parsed = parse_measures(measures)
    qrels, run = _ours(qrels, "relevance"), _ours(run, "score")
    if any(measure.rel != 1 or measure.name not in FAMILIES for measure in parsed):
        qrels, run = _nested(qrels, "qrels", "relevance"), _nested(run, "run", "score")
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
    nested = checked_qrels(_nested(_ours(qrels, "relevance"), "qrels", "relevance"))
    table = [
        [ceiling(m, sum(g >= m.rel for g in grades.values())) if grades else np.nan for grades in nested.values()]
        for m in parsed
    ]
    return tidy(list(nested), [str(measure) for measure in parsed], table)


def _ours(given: Any, value: str) -> Any:
    """A frame with our names of columns, nested dictionaries as they are, and what other tools have as the latter."""
    if isinstance(given, Mapping):
        return given
    from ragbench.scoring.trec import read_qrels, read_run, renamed

    if _is_frame(given):
        return given.rename(columns=renamed(given.columns, value))
    if not (hasattr(given, "to_dict") or isinstance(given, str | Path)):
        return given
    return read_run(given) if value == "score" else read_qrels(given)


def _nested(given: Any, what: str, value: str) -> Any:
    if not _is_frame(given):
        return given
    columns = _columns(given, what, value)
    refuse_duplicates(columns, what)
    nested: dict[str, dict[str, Any]] = {}
    for query_id, doc_id, number in zip(columns.query_id, columns.doc_id, columns.value.tolist(), strict=True):
        nested.setdefault(query_id, {})[doc_id] = int(number) if value == "relevance" else number
    return nested


def _is_frame(records: object) -> bool:
    return hasattr(records, "columns") and hasattr(records, "iloc")  # without loading pandas for dictionaries


def _columns(frame: pd.DataFrame, what: str, value: str) -> Columns:
    """The validated columns of a table; errors name the row."""

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
    counts = [len(documents) for documents in nested.values()]
    query_ids = np.repeat(np.array(list(nested), dtype=object), counts)
    documents = [doc_id for inner in nested.values() for doc_id in inner]
    values = np.array([value for inner in nested.values() for value in inner.values()])
    return Columns(pd.Series(query_ids, dtype=object), pd.Series(documents, dtype=object), values)


def _document_ids(records: Any) -> set[str]:
    if isinstance(records, Mapping):
        return {doc_id for documents in records.values() for doc_id in documents}
    return set(records["doc_id"])


def score_retrieval(
    dataset: Dataset,
    run: Run,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Score a ranking by documents, by gold evidence and by labelled chunks: columns query_id, measure, value.

    The name of a measure carries its level: "nDCG@10" is about documents, "span:nDCG@10" and "chunk:nDCG@10" are about
    chunks; all are `score_run` on other judgements. By labelled chunks, those in `Case.relevant_chunks` are relevant
    with their grades. By gold evidence, a chunk is relevant (grade 1) if it overlaps a span of the case by at least
    half of the shorter of the two; evidence in no chunk counts as a relevant chunk that cannot be found. How many
    chunks are relevant then depends on the chunking, so compare chunkings by `score_spans` or by documents.

    Args:
        dataset: its cases' `relevant_chunks` and `evidence`, and its qrels.
        run: document-level run.
        chunk_run: chunk-level run; without one, documents are scored.
        chunks: the chunks that `chunk_run` ranks; needed for gold evidence.
        measures: names such as "nDCG@10" and "span:RR"; None means those of `score_run` at each of `retrieval_levels`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 10, 20),))
    >>> chunks = [Chunk("d#0", "d", 0, 9, "x" * 9), Chunk("d#1", "d", 9, 30, "x" * 21)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> ranked = {"q": {"d#0": 2.0, "d#1": 1.0}}
    >>> score_retrieval(dataset, {"q": {"d": 2.0}}, chunk_run=ranked, chunks=chunks, measures=["RR", "span:RR"])
      query_id  measure  value
    0        q       RR    1.0
    1        q  span:RR    0.5

    Raises:
        ConfigError: a measure is not known.
        DataError: ids or scores that are not what they should be; nothing is judged at the level of a measure; gold
            evidence is asked for, and none of the chunks of `chunk_run` is among `chunks`.
    """
    frames = []
    for prefix, qrels, names in _judgements(dataset, chunk_run, chunks, measures):
        ranked = chunk_run if prefix and chunk_run is not None else run
        frame = score_run(qrels, ranked, names)
        frames.append(frame.assign(measure=prefix + frame["measure"]) if prefix else frame)
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def retrieval_levels(
    dataset: Dataset, *, chunk_run: Run | None = None, chunks: Sequence[Chunk] = ()
) -> tuple[str, ...]:
    """Those of `LEVELS` that these labels and this run can be scored at.

    Chunk labels name chunks of one system: they are only used if the run holds at least one of them.

    >>> from ragbench.types import Case, Dataset
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "?", relevant_chunks={"d#1": 2})], {"q": {"d": 1}})
    >>> retrieval_levels(dataset, chunk_run={"q": {"d#1": 1.0}}), retrieval_levels(dataset)
    (('document', 'chunk'), ('document',))
    """
    known = {chunk.chunk_id for chunk in chunks}
    found = {chunk_id for ranked in (chunk_run or {}).values() for chunk_id in ranked} | known
    there = {
        "document": any(map(bool, dataset.qrels.values())),
        "span": chunk_run is not None and bool(known) and any(case.evidence for case in dataset.cases),
        "chunk": chunk_run is not None
        and any(chunk_id in found for case in dataset.cases for chunk_id in case.relevant_chunks),
    }
    return tuple(level for level in LEVELS if there[level])


def _judgements(
    dataset: Dataset, chunk_run: Run | None, chunks: Sequence[Chunk], measures: Sequence[str] | None
) -> Iterator[tuple[str, Qrels, list[str]]]:
    """For each level that is asked for: the prefix of its names, its judgements, and its measures without prefix."""
    levels = retrieval_levels(dataset, chunk_run=chunk_run, chunks=chunks)
    wanted: dict[str, list[str]] = {level: [*DEFAULT_MEASURES] for level in levels or ("document",)}
    if measures is not None:
        wanted = {}
        for name in measures:
            found = measure_of(name) if is_ranking_measure(name) else None
            level, rest = (found.level, found.name.rpartition(":")[2]) if found else ("document", name)
            wanted.setdefault(level, []).append(str(parse_measure(rest)))
    for level, names in wanted.items():
        if level == "document":
            yield "", dataset.qrels, names
        elif level not in levels:
            what = "gold evidence in these chunks" if level == "span" else "a labelled chunk in this run"
            raise DataError(f"{level}:{names[0]} cannot be measured on {dataset.name!r}: no question has {what}")
        else:
            # Passages of other systems may have no offsets in the documents, so some unknown ids are not an error.
            named = [(chunk_id, query_id) for query_id, found in (chunk_run or {}).items() for chunk_id in found]
            known = {chunk.chunk_id for chunk in chunks}
            if level == "span" and named and known.isdisjoint(chunk_id for chunk_id, _ in named):
                raise DataError(unknown_chunk(*named[0], len(chunks)))
            labelled = {case.query_id: dict(case.relevant_chunks) for case in dataset.cases}
            yield f"{level}:", labelled if level == "chunk" else _by_evidence(dataset, chunks), names


def _by_evidence(dataset: Dataset, chunks: Sequence[Chunk]) -> Qrels:
    spans = [span for case in dataset.cases for span in case.evidence]
    check_spans(spans)
    place = places([*spans, *chunks])
    truth, held = ranges(spans, place), ranges(chunks, place)
    qrels: Qrels = {case.query_id: {} for case in dataset.cases}
    owner = [case.query_id for case in dataset.cases for _ in case.evidence]
    lost = set(range(len(spans)))
    span, chunk = overlaps(truth, held)
    shared = np.minimum(truth[1][span], held[1][chunk]) - np.maximum(truth[0][span], held[0][chunk])
    shorter = np.minimum((truth[1] - truth[0])[span], (held[1] - held[0])[chunk])
    enough = shared >= _SHARED * shorter
    for i, j in zip(span[enough].tolist(), chunk[enough].tolist(), strict=True):
        qrels[owner[i]][chunks[j].chunk_id] = 1
        lost.discard(i)
    for i in lost:
        qrels[owner[i]][f"evidence {i} that no chunk holds"] = 1
    if len({piece.chunk_id for piece in chunks}) < len(chunks):
        raise DataError("two chunks have the same id; pass the chunks of one chunking")
    return qrels


def retrieval_ceilings(
    dataset: Dataset,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str] | None = None,
) -> pd.DataFrame:
    """The best value that any system could reach on each query, by the judgements of `score_retrieval`.

    Columns query_id, measure, value, as from `ceilings`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 0, 9), Span("d", 20, 30)))
    >>> chunks = [Chunk("d#0", "d", 0, 15, "x" * 15), Chunk("d#1", "d", 15, 30, "x" * 15)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> best = retrieval_ceilings(dataset, chunk_run={"q": {"d#0": 1.0}}, chunks=chunks, measures=["R@1", "span:R@1"])
    >>> best["value"].tolist()
    [1.0, 0.5]
    """
    frames = [
        (frame := ceilings(qrels, names)).assign(measure=prefix + frame["measure"])
        for prefix, qrels, names in _judgements(dataset, chunk_run, chunks, measures)
    ]
    return pd.concat(frames, ignore_index=True)
