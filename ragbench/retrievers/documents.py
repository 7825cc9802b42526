"""From chunks to documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragbench.errors import DataError, unknown_chunk
from ragbench.retrievers.ranking import check_k
from ragbench.types import Chunk, Queries, Run, as_queries

if TYPE_CHECKING:
    from ragbench.types import Retriever


def retrieve(
    retriever: Retriever,
    queries: Queries,
    chunks: Sequence[Chunk] | None = None,
    *,
    depth: int = 100,
    documents: int = 10,
) -> Run:
    """Search so deep that enough documents remain when several chunks of one document count once.

    `depth` chunks per query; queries whose chunks come from fewer than `documents` documents are searched deeper, all
    in one batch, until they have as many or nothing more matches.

    `queries` are {query_id: text}, those of a dataset, or texts, which are their own ids then. `chunks` are those that
    the retriever was made from; the retrievers of ragbench know theirs.

    >>> from ragbench.retrievers import BM25
    >>> chunks = [Chunk(f"a#{i}", "a", 0, 8, "cats nap") for i in range(9)] + [Chunk("b#0", "b", 0, 8, "cats eat")]
    >>> len(BM25(chunks).search({"q1": "cats"}, k=3)["q1"])
    3
    >>> len(to_documents(retrieve(BM25(chunks), {"q1": "cats"}, chunks, depth=3), chunks)["q1"])
    2
    """
    check_k(depth)
    queries = as_queries(queries)
    given: Any = getattr(retriever, "chunks", ()) if chunks is None else chunks
    doc_of = {chunk.chunk_id: chunk.doc_id for chunk in given}
    wanted = min(documents, len(set(doc_of.values())))
    run = retriever.search(queries, depth)
    while depth < len(doc_of):
        short = {
            query_id: queries[query_id]
            for query_id, found in run.items()
            if len(found) == depth and len({doc_of.get(chunk_id) for chunk_id in found}) < wanted
        }
        if not short:
            break
        depth = min(4 * depth, len(doc_of))
        run = {**run, **retriever.search(short, depth)}  # a query keeps its place
    return run


def to_documents(run: Run, chunks: Sequence[Chunk]) -> Run:
    """From chunks to documents: a document's score is that of its best chunk (MaxP, Dai & Callan 2019).

    Several chunks of one document count once, so nothing that is measured on documents exceeds 1. Documents of equal
    score are in the order in which the run has them. `retrieve` searches deep enough that k documents remain. A
    chunk id that is not in `chunks` is a DataError.

    >>> chunks = [Chunk("a#0", "a", 0, 1, "x"), Chunk("a#1", "a", 1, 2, "y"), Chunk("b#0", "b", 0, 1, "z")]
    >>> to_documents({"q1": {"a#1": 3.0, "b#0": 2.5, "a#0": 1.0}}, chunks)
    {'q1': {'a': 3.0, 'b': 2.5}}
    """
    doc_of = {chunk.chunk_id: chunk.doc_id for chunk in chunks}
    documents: Run = {}
    for query_id, found in run.items():
        best: dict[str, float] = {}
        for chunk_id, score in found.items():
            doc_id = doc_of.get(chunk_id)
            if doc_id is None:
                raise DataError(unknown_chunk(chunk_id, query_id, len(doc_of)))
            if doc_id not in best or score > best[doc_id]:
                best[doc_id] = score
        documents[query_id] = dict(sorted(best.items(), key=lambda item: -item[1]))
    return documents
