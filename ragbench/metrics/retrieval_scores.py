"""Runs scored: a ranking by judgements, and at every level that the labels of a test set allow; and
the best scores.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragbench.errors import DataError, DataWarning, unknown_chunk
from ragbench.metrics.retrieval import (
    DEFAULT_MEASURES,
    JudgedRun,
    Pairs,
    parse_measure,
    parse_measures,
    value_table,
)
from ragbench.metrics.spans import evidence_chunks
from ragbench.metrics.tidy import tidy
from ragbench.metrics.trec import refuse_duplicates, to_frame
from ragbench.registry import measure_of
from ragbench.types import Chunk, Dataset, Qrels, Run

# A chunk is relevant if it overlaps a piece of evidence by at least this fraction of the shorter of
# the two.
_SHARED = 0.5


def score_run(
    qrels: Qrels | pd.DataFrame | str | Path,
    run: Run | pd.DataFrame | str | Path,
    measures: str | Sequence[str] = DEFAULT_MEASURES,
) -> pd.DataFrame:
    """Score a ranking of documents: columns query_id, measure, value; by measure, then by query in
    the order of qrels.

    Values are in [0, 1], as defined in `ragbench.metrics.retrieval`. Every judged query has a row
    for each measure: 0 where the run lacks it, NaN (unscored) where its judgements are empty, as
    for an unanswerable question. Unjudged queries of the run are left out. If no query of the run
    is judged at all, or the run has chunk ids where documents are judged, there is a DataWarning.

    Args:
        qrels: {query_id: {doc_id: relevance}}, or a DataFrame with the columns query_id, doc_id,
        relevance; also
            what `read_qrels` takes: a file of TREC, a frame of PyTerrier (qid, docno, label), an
            object of ranx.
        run: {query_id: {doc_id: score}}, or a DataFrame with the columns query_id, doc_id, score;
        or as `read_run`. measures: names as in ir_measures, e.g. ["nDCG@10", "P(rel=2)@5",
        "Judged@10"]. Default: nDCG, P, R, F1, RR,
            AP and Success at 1, 3, 5 and 10, and RR and AP of the whole ranking.

    >>> score_run({"q1": {"a": 1, "b": 1}}, {"q1": {"x": 3.0, "a": 2.0}}, ["P@2", "RR"])
      query_id measure  value
    0       q1     P@2    0.5
    1       q1      RR    0.5

    Raises:
        ConfigError: a measure is not known. DataError: wrong columns, ids that are not text, a
        score or grade that is not a number, a repeated row.
    """
    parsed = parse_measures(measures)
    judged, ranked = to_frame(qrels, int), to_frame(run, float)
    data = _joined(qrels, judged, ranked)
    table = value_table(data, parsed)
    if not np.nansum(table) > 0:
        _warn_of_foreign_ids(data.query_ids, judged, ranked)
    return tidy(data.query_ids, [str(measure) for measure in parsed], table)


def _warn_of_foreign_ids(
    query_ids: Sequence[str], judged: pd.DataFrame, ranked: pd.DataFrame
) -> None:
    """Warn that no query of the run is judged, or that its ids are those of chunks where documents
    are judged.
    """
    scored = ranked["query_id"].unique().tolist()
    if scored and set(query_ids).isdisjoint(scored):
        warnings.warn(
            f"no query of the run is judged, so every measure is 0: the run has {len(scored)} "
            f"queries such as {scored[0]!r}, the qrels {len(query_ids)} such as {query_ids[0]!r}; "
            "are both of the same dataset and split?",
            DataWarning,
            stacklevel=3,
        )
    documents = set(judged["doc_id"])
    foreign = set(ranked["doc_id"]) - documents
    if chunks := sorted(doc_id for doc_id in foreign if doc_id.rpartition("#")[0] in documents):
        warnings.warn(
            f"the run has chunk ids such as {chunks[0]!r} where documents are judged, so every "
            "measure is 0; turn it into a run of documents first: to_documents(run, chunks)",
            DataWarning,
            stacklevel=3,
        )


def ceilings(
    qrels: Qrels | pd.DataFrame, measures: Sequence[str] = DEFAULT_MEASURES
) -> pd.DataFrame:
    """Return the best value that any system could reach on each query: columns query_id, measure, value,
    as in `score_run`.

    With n relevant documents R@k and AP@k reach min(k, n) / n, P@k reaches min(k, n) / k, F1@k 2
    min(k, n) / (k + n) and all others 1. It is 0 where no document is relevant and NaN where none
    is judged. Judged documents that the corpus lacks count as relevant, as in the scores.

    >>> ceilings({"q1": {"a": 1, "b": 2}, "q2": {"a": 1}}, ["R@1", "P@5"])
      query_id measure  value
    0       q1     R@1    0.5
    1       q2     R@1    1.0
    2       q1     P@5    0.4
    3       q2     P@5    0.2
    """
    parsed = parse_measures(measures)
    judged = to_frame(qrels, int)
    data = _joined(qrels, judged, to_frame({}, float))
    return tidy(
        data.query_ids, [str(measure) for measure in parsed], value_table(data, parsed, ideal=True)
    )


def _joined(qrels: Any, judged: pd.DataFrame, ranked: pd.DataFrame) -> JudgedRun:
    """Number the ids of both; queries are in their order, also those of a dictionary that have no
    judgement.
    """
    query_ids: list[str] = list(qrels) if isinstance(qrels, Mapping) else []
    query_ids = query_ids or judged["query_id"].unique().tolist()
    if not query_ids:
        raise DataError("qrels are empty: nothing is judged, so nothing can be scored")
    frames = (judged, ranked)
    queries, _ = pd.factorize(
        pd.concat(
            [pd.Series(query_ids, dtype=judged["query_id"].dtype), *(f["query_id"] for f in frames)]
        )
    )
    codes, documents = pd.factorize(pd.concat([frame["doc_id"] for frame in frames]))
    border = len(judged)
    queries = queries[len(query_ids) :].astype(np.int64)
    parts = []
    for frame, what, rows in zip(
        frames, ("qrels", "run"), (slice(border), slice(border, None)), strict=True
    ):
        pairs = Pairs(queries[rows], codes[rows].astype(np.int64), frame.iloc[:, 2].to_numpy())
        # faster than hashing; most runs are sorted almost, and timsort uses that
        ordered = np.sort(pairs.query * len(documents) + pairs.document, kind="stable")
        if np.any(ordered[1:] == ordered[:-1]):
            refuse_duplicates(frame, what)
        parts.append(pairs)
    return JudgedRun(query_ids, documents, *parts)


def score_retrieval(
    dataset: Dataset,
    run: Run,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str],
) -> pd.DataFrame:
    """Score a ranking by documents, by gold evidence and by labelled chunks: columns query_id,
    measure, value.

    The name of a measure carries its level: "nDCG@10" is about documents, "span:nDCG@10" and
    "chunk:nDCG@10" are about chunks; all are `score_run` on other judgements. By labelled chunks,
    those in `Case.relevant_chunks` are relevant with their grades. By gold evidence, a chunk is
    relevant (grade 1) if it overlaps a span of the case by at least half of the shorter of the two;
    evidence in no chunk counts as a relevant chunk that cannot be found. How many chunks are
    relevant then depends on the chunking, so compare chunkings by `score_spans` or by documents.

    Args:
        dataset: its cases' `relevant_chunks` and `evidence`, and its qrels. run: document-level
        run. chunk_run: chunk-level run; without one, documents are scored. chunks: the chunks that
        `chunk_run` ranks; needed for gold evidence. measures: names such as "nDCG@10" and
        "span:RR", of the levels in `retrieval_levels`.

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
        ConfigError: a measure is not known. DataError: ids or scores that are not what they should
        be; nothing is judged at the level of a measure; gold
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
    """Return those of "document", "span" and "chunk" that these labels and this run can be scored at.

    Chunk labels name chunks of one system: they are only used if the run holds at least one of
    them.

    >>> from ragbench.types import Case, Dataset
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "?", relevant_chunks={"d#1": 2})], {"q": {"d": 1}})
    >>> retrieval_levels(dataset, chunk_run={"q": {"d#1": 1.0}}), retrieval_levels(dataset)
    (('document', 'chunk'), ('document',))
    """
    named = {chunk.chunk_id for chunk in chunks}.union(*(chunk_run or {}).values())
    of_chunks, cases = chunk_run is not None, dataset.cases
    allowed = {
        "document": any(map(bool, dataset.qrels.values())),
        "span": of_chunks and bool(chunks) and any(case.evidence for case in cases),
        "chunk": of_chunks and any(i in named for case in cases for i in case.relevant_chunks),
    }
    return tuple(level for level, is_allowed in allowed.items() if is_allowed)


def _judgements(
    dataset: Dataset, chunk_run: Run | None, chunks: Sequence[Chunk], measures: Sequence[str]
) -> Iterator[tuple[str, Qrels, list[str]]]:
    """Yield for each level that is asked for the prefix of its names, its judgements, and its measures
    without prefix.
    """
    levels = retrieval_levels(dataset, chunk_run=chunk_run, chunks=chunks)
    names_of: dict[str, list[str]] = {}
    for name in measures:
        measure = measure_of(name)
        parsed = parse_measure(measure.name.removeprefix(f"{measure.level}:"))
        names_of.setdefault(measure.level, []).append(str(parsed))
    for level, names in names_of.items():
        if level == "document":
            yield "", dataset.qrels, names
            continue
        if level not in levels:
            lacks = (
                "gold evidence in these chunks"
                if level == "span"
                else "a labelled chunk in this run"
            )
            raise DataError(
                f"{level}:{names[0]} cannot be measured on {dataset.name!r}: no question has {lacks}"
            )
        labelled: Qrels = {case.query_id: dict(case.relevant_chunks) for case in dataset.cases}
        if level == "span":
            # Passages of other systems may have no offsets in the documents, so some unknown ids
            # are not an error.
            ranked = {i: query_id for query_id, row in (chunk_run or {}).items() for i in row}
            chunk_ids = {chunk.chunk_id for chunk in chunks}
            if len(chunk_ids) < len(chunks):
                raise DataError("two chunks have the same id; pass the chunks of one chunking")
            if ranked and chunk_ids.isdisjoint(ranked):
                raise DataError(unknown_chunk(*next(iter(ranked.items())), len(chunks)))
            labelled = evidence_chunks(dataset, chunks, _SHARED)
        yield f"{level}:", labelled, names


def retrieval_ceilings(
    dataset: Dataset,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str],
) -> pd.DataFrame:
    """Return the best value that any system could reach on each query, by the judgements of
    `score_retrieval`.

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
