"""Scores of every chunking of one collection, by every retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from ragbench.metrics import score_spans
from ragbench.retrieval import chunk, make_retriever, retrieve
from ragbench.studies.chunking_pairs import BUDGETS, CHUNKING, SIZES
from ragbench.types import Chunk, Dataset

RETRIEVERS = ("bm25", "dense:wordllama", "hybrid:wordllama")
"""Retrievers that search every chunking."""

_SLOW_RETRIEVER = "dense:minilm"
_MEASURES = [
    *(f"span_recall@{k}" for k in (1, 3, 5, 10)),
    "span_precision@5",
    "span_iou@5",
    "span_precision_omega",
    "span_recall@250tok",
    *(f"span_recall@{tokens}tok" for tokens in BUDGETS),
]


class Chunking(NamedTuple):
    """A chunker with its size and overlap in tokens."""

    chunker: str
    size: int
    overlap: int


def list_chunkings(*, published: bool) -> list[Chunking]:
    """List the chunkings of the study: four chunkers, five sizes, fixed and recursive ones also with an
    overlap of a quarter.

    Args:
        published: add the sizes and overlaps of Smith and Troynikov (2024).
    """
    chunkings = []
    for chunker in ("fixed", "recursive"):
        for size in SIZES:
            chunkings.append(Chunking(chunker, size, overlap=0))
            chunkings.append(Chunking(chunker, size, overlap=size // 4))
    for chunker in ("sentence", "markdown"):
        for size in SIZES:
            chunkings.append(Chunking(chunker, size, overlap=0))
    if published:
        for chunker in ("fixed", "recursive"):
            for size, overlap in ((800, 400), (400, 200), (400, 0), (200, 0)):
                chunkings.append(Chunking(chunker, size, overlap))
    return chunkings


def _is_searched_by_the_slow_retriever(chunking: Chunking) -> bool:
    """Return True for the ten chunkings that `dense:minilm` searches: fixed and recursive ones of
    128 tokens or more without overlap, sentence and Markdown ones of 1,024.
    """
    if chunking.chunker in ("fixed", "recursive"):
        return chunking.overlap == 0 and chunking.size in SIZES and chunking.size >= 128
    return chunking.size == 1024


def score_chunkings(data: Dataset, chunkings: Sequence[Chunking], tokenizer: str) -> pd.DataFrame:
    """Cut the documents by every chunking, search each question by every retriever, and score the evidence
    that is found. `dense:minilm`, which is slow, searches only ten of the chunkings.

    Args:
        data: questions with gold evidence.
        chunkings: as `list_chunkings` returns them.
        tokenizer: counts the tokens of the sizes and the budgets.

    Returns:
        A row for each question, chunking and retriever, with the columns query_id, one per measure
        (float32, four digits), document (the first with gold evidence), retriever, chunker, size, overlap.
    """
    tables = []
    for chunking in chunkings:
        chunks = chunk(
            data,
            chunking.chunker,
            chunk_size=chunking.size,
            chunk_overlap=chunking.overlap,
            tokenizer=tokenizer,
        )
        retrievers = list(RETRIEVERS)
        if _is_searched_by_the_slow_retriever(chunking):
            retrievers.append(_SLOW_RETRIEVER)
        for retriever in retrievers:
            scores = _score_retriever(retriever, data, chunks, tokenizer)
            scores = scores.assign(
                retriever=retriever,
                chunker=chunking.chunker,
                size=chunking.size,
                overlap=chunking.overlap,
            )
            tables.append(scores)
    return pd.concat(tables)


def _score_retriever(
    retriever: str, data: Dataset, chunks: Sequence[Chunk], tokenizer: str
) -> pd.DataFrame:
    """Search each question in the chunks, and return a row for it: query_id, `_MEASURES`, document (the
    first with gold evidence).
    """
    run = retrieve(make_retriever(retriever, chunks), data.queries, chunks)
    scores = score_spans(data, run, chunks, tokenizer=tokenizer)
    wide = scores.pivot(index="query_id", columns="measure", values="value")[_MEASURES]
    documents = {case.query_id: case.evidence[0].doc_id for case in data}
    rounded = wide.astype("float32").round(4)
    return rounded.join(pd.Series(documents, name="document")).reset_index()


def mean_evidence(scores: pd.DataFrame) -> pd.DataFrame:
    """Compute mean evidence recall at k = 5 and at 500 tokens: chunkings down, retrievers across."""
    columns = ["span_recall@5", "span_recall@500tok"]
    return scores.pivot_table(index=CHUNKING, columns="retriever", values=columns)


def best_chunkings(means: pd.DataFrame) -> str:
    """Return a text that states for each retriever which chunking finds most evidence.

    Args:
        means: as `mean_evidence` returns them: chunkings down; measure and retriever across.
    """
    lines = []
    for retriever in means["span_recall@5"]:
        # The index holds chunker, size and overlap.
        best_at_k = means["span_recall@5", retriever].idxmax()
        best_at_budget = means["span_recall@500tok", retriever].idxmax()
        lines.append(
            f"- {retriever}: most evidence in 5 chunks by {' '.join(map(str, best_at_k))}, in 500 "
            f"tokens by {' '.join(map(str, best_at_budget))} (size, overlap)."
        )
    return "\n".join(["## Key findings", "", *lines])
