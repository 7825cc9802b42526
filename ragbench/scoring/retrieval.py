"""Retrieval scored at the finest level that the labels of a test set allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import DataError
from ragbench.metrics.chunks import check_spans, overlaps, places, ranges
from ragbench.metrics.retrieval import DEFAULT_MEASURES
from ragbench.scoring.runs import score_run

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.types import Chunk, Dataset, Qrels, Run

LEVELS = ("chunk labels", "evidence spans", "documents")

# A chunk is relevant if it and a piece of evidence share at least this part of the shorter of the two.
_SHARED = 0.5


def score_retrieval(
    dataset: Dataset,
    run: Run,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str] = DEFAULT_MEASURES,
) -> pd.DataFrame:
    """Score a ranking by chunk labels, else by evidence spans, else by documents: columns query_id, measure, value.

    `retrieval_level` says which of them it is; the whole test set is scored at one level, and by `score_run`, so
    Success@5 is "something relevant among the first five". By chunk labels, the chunks in `Case.relevant_chunks` are
    relevant with their grades. By evidence spans, those are (grade 1) that share with a span of the case at least half
    of the shorter of the two; evidence that no chunk holds counts as a relevant chunk that cannot be found. How many
    chunks are relevant then depends on the chunking, so compare chunkings by `score_spans` or at document level.

    Args:
        dataset: its cases' `relevant_chunks` and `evidence`, and its qrels.
        run: document-level run.
        chunk_run: chunk-level run; without one, documents are scored.
        chunks: the chunks that `chunk_run` ranks; needed for evidence spans.
        measures: names for `score_run`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 10, 20),))
    >>> chunks = [Chunk("d#0", "d", 0, 9, "x" * 9), Chunk("d#1", "d", 9, 30, "x" * 21)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> ranked = {"q": {"d#0": 2.0, "d#1": 1.0}}
    >>> score_retrieval(dataset, {"q": {"d": 2.0}}, chunk_run=ranked, chunks=chunks, measures=["RR", "Success@5"])
      query_id    measure  value
    0        q         RR    0.5
    1        q  Success@5    1.0

    Raises:
        ConfigError: a measure is not known.
        DataError: ids or scores that are not what they should be; nothing is judged at all.
    """
    level = retrieval_level(dataset, chunk_run=chunk_run, chunks=chunks)
    if level == "documents" or chunk_run is None:
        return score_run(dataset.qrels, run, measures)
    qrels = _labelled(dataset) if level == "chunk labels" else _by_evidence(dataset, chunks)
    return score_run(qrels, chunk_run, measures)


def retrieval_level(dataset: Dataset, *, chunk_run: Run | None = None, chunks: Sequence[Chunk] = ()) -> str:
    """The finest of `LEVELS` that these labels and this run can be scored at.

    Chunk labels name chunks of one system: they are only used if the run holds at least one of them.

    >>> from ragbench.types import Case, Dataset
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "?", relevant_chunks={"d#1": 2})], {})
    >>> retrieval_level(dataset, chunk_run={"q": {"d#1": 1.0}}), retrieval_level(dataset)
    ('chunk labels', 'documents')
    """
    if chunk_run is None:
        return "documents"
    known = {chunk.chunk_id for chunk in chunks}
    found = {chunk_id for ranked in chunk_run.values() for chunk_id in ranked} | known
    if any(chunk_id in found for case in dataset.cases for chunk_id in case.relevant_chunks):
        return "chunk labels"
    return "evidence spans" if known and any(case.evidence for case in dataset.cases) else "documents"


def _labelled(dataset: Dataset) -> Qrels:
    return {case.query_id: dict(case.relevant_chunks) for case in dataset.cases}


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
    for i, j in zip(
        span[shared >= _SHARED * shorter].tolist(), chunk[shared >= _SHARED * shorter].tolist(), strict=True
    ):
        qrels[owner[i]][chunks[j].chunk_id] = 1
        lost.discard(i)
    for i in lost:
        qrels[owner[i]][f"evidence {i} that no chunk holds"] = 1
    if len({piece.chunk_id for piece in chunks}) < len(chunks):
        raise DataError("two chunks have the same id; pass the chunks of one chunking")
    return qrels
