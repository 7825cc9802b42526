"""From chunks to documents."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.errors import DataError
from ragbench.retrievers.ranking import stranger
from ragbench.types import Chunk, Run


def to_documents(run: Run, chunks: Sequence[Chunk]) -> Run:
    """From chunks to documents: a document's score is that of its best chunk (MaxP, Dai & Callan 2019).

    Several chunks of one document count once, so nothing that is measured on documents exceeds 1. Documents of equal
    score stand in the order in which the run has them. Search deep enough in chunks that k documents remain. A chunk id
    that is not in `chunks` is a DataError.

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
                raise DataError(stranger(chunk_id, query_id, len(doc_of)))
            if doc_id not in best or score > best[doc_id]:
                best[doc_id] = score
        documents[query_id] = dict(sorted(best.items(), key=lambda item: -item[1]))
    return documents
