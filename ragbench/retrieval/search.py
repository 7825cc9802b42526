"""Searches with a retriever: how deep, what a user's retriever may return, and how scores of chunks
become scores of documents.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragbench.errors import (
    ConfigError,
    DataError,
    ModelError,
    RagbenchError,
    abridged,
    unknown_chunk,
)
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.ranks import check_k
from ragbench.types import Chunk, Retriever, Run, chunks_by_id


def retrieve(
    retriever: Retriever,
    queries: Queries,
    chunks: Sequence[Chunk] | None = None,
    *,
    depth: int = 100,
    documents: int = 10,
) -> Run:
    """Search so deep that enough documents remain when several chunks of one document count once.

    The first search returns `depth` chunks per query. Queries whose chunks come from fewer than
    `documents` documents are searched deeper, all in one batch, until they have as many or nothing
    more matches.

    `queries` are {query_id: text}, the queries of a dataset, or texts, which are then their own ids.
    `chunks` are those that the retriever was made from; the retrievers of ragbench know theirs.

    >>> from ragbench.retrieval import BM25
    >>> chunks = [Chunk(f"a#{i}", "a", 0, 8, "cats nap") for i in range(9)] + [Chunk("b#0", "b", 0, 8, "cats eat")]
    >>> len(BM25(chunks).search({"q1": "cats"}, k=3)["q1"])
    3
    >>> len(to_documents(retrieve(BM25(chunks), {"q1": "cats"}, chunks, depth=3), chunks)["q1"])
    2
    """
    if not hasattr(retriever, "search"):
        raise ConfigError(
            f"{abridged(repr(retriever), 60)} does not search; expected a retriever, as in "
            "rb.retrieve(rb.make_retriever('bm25', chunks), queries)"
        )
    check_k(depth)
    queries = as_queries(queries)
    searched: Any = getattr(retriever, "chunks", ()) if chunks is None else chunks
    by_id = chunks_by_id(searched)
    # documents that each query needs; a small corpus has fewer than `documents`
    n_expected = _n_documents(searched, documents)
    run = _searched_and_checked(retriever, queries, depth)
    while depth < len(by_id):
        to_search_deeper: dict[str, str] = {}
        for query_id, scores in run.items():
            may_match_more = len(scores) == depth  # else the search has returned all its matches
            if not may_match_more:
                continue
            # None for a chunk that is not among `chunks`
            doc_ids = {getattr(by_id.get(chunk_id), "doc_id", None) for chunk_id in scores}
            if len(doc_ids) < n_expected:
                to_search_deeper[query_id] = queries[query_id]
        if not to_search_deeper:
            break
        depth = min(4 * depth, len(by_id))
        deeper = _searched_and_checked(retriever, to_search_deeper, depth)
        run = {**run, **deeper}  # deeper results replace earlier ones, in the same order
    return run


def _n_documents(chunks: Sequence[Chunk], limit: int) -> int:
    """Return the number of documents that the chunks are of, at most `limit`: counting ends there."""
    doc_ids = set[str]()
    for chunk in chunks:
        doc_ids.add(chunk.doc_id)
        if len(doc_ids) >= limit:
            break
    return len(doc_ids)


def _searched_and_checked(retriever: Retriever, queries: Mapping[str, str], k: int) -> Run:
    """Return the run of a retriever, which may be the user's.

    Raises:
        ModelError: the search of a user's retriever failed.
        ConfigError: the search returned something else than query_id -> chunk_id -> finite score.
    """
    call = f"retriever {type(retriever).__name__}: search({len(queries)} queries, k={k})"
    try:
        run: Any = retriever.search(queries, k)
    except (RagbenchError, MemoryError):
        raise
    except Exception as exc:
        is_ours = type(retriever).__module__.startswith("ragbench.")
        if is_ours:
            raise
        raise ModelError(f"{call} failed: {type(exc).__name__}: {exc}") from exc
    _check_run(run, call)
    return run  # type: ignore[no-any-return]


def _check_run(run: Any, call: str) -> None:
    """Raise ConfigError if the value of a search is not query_id -> chunk_id -> finite score; `call`
    is the search in the words of the message.
    """
    is_run = isinstance(run, Mapping) and all(
        isinstance(scores, Mapping) for scores in run.values()
    )
    if not is_run:
        raise ConfigError(
            f"{call} returned {run!r:.80}; expected {{query_id: {{chunk_id: score}}}}"
        )
    for query_id, scores in run.items():
        for chunk_id, score in scores.items():
            if not isinstance(score, float | int | np.number) or not math.isfinite(score):
                raise ConfigError(
                    f"{call} returned the score {score!r} for chunk {chunk_id!r} of query "
                    f"{query_id!r}; expected a finite number, or leave the chunk out"
                )


def to_documents(run: Run, chunks: Sequence[Chunk]) -> Run:
    """Turn chunks into documents: a document has the score of its best chunk (MaxP, Dai & Callan
    2019).

    Several chunks of one document count once, so nothing that is measured on documents exceeds 1.
    Documents of equal score are in the order in which the run has them. `retrieve` searches deep
    enough that k documents remain. A chunk id that is not in `chunks` is a DataError.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "x"), Chunk("a#1", "a", 1, 2, "y"), Chunk("b#0", "b", 0, 1, "z")]
    >>> to_documents({"q1": {"a#1": 3.0, "b#0": 2.5, "a#0": 1.0}}, chunks)
    {'q1': {'a': 3.0, 'b': 2.5}}
    """
    by_id = chunks_by_id(chunks)
    documents: Run = {}
    for query_id, scores in run.items():
        best: dict[str, float] = {}
        for chunk_id, score in scores.items():
            chunk = by_id.get(chunk_id)
            if chunk is None:
                raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))
            best[chunk.doc_id] = max(score, best.get(chunk.doc_id, score))
        documents[query_id] = dict(sorted(best.items(), key=lambda item: -item[1]))
    return documents
