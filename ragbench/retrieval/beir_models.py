"""BEIR's retrieval models as retrievers."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from ragbench.retrieval.ranks import best
from ragbench.types import Chunk, Run


def is_beir_model(candidate: object) -> TypeGuard[Any]:
    """Return True of an object with BEIR's `search(corpus, queries, top_k, ...)`, and of an
    `EvaluateRetrieval` around one.
    """
    search = getattr(getattr(candidate, "retriever", candidate), "search", None)
    return callable(search) and "corpus" in inspect.signature(search).parameters


class BeirRetriever:
    """A retrieval model of BEIR over chunks. It encodes all of them in each search.

    The score function is that of an `EvaluateRetrieval`, else "cos_sim", where the model takes one.
    """

    def __init__(self, chunks: Sequence[Chunk], model: Any) -> None:
        self.chunks = chunks
        self._search = getattr(model, "retriever", model).search
        self._options: dict[str, Any] = {}
        if "score_function" in inspect.signature(self._search).parameters:
            self._options["score_function"] = getattr(model, "score_function", "cos_sim")
        self._corpus = {chunk.chunk_id: {"title": "", "text": chunk.text} for chunk in chunks}
        self._order = {chunk_id: number for number, chunk_id in enumerate(self._corpus)}

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """Return for each query the `k` best chunk ids with their scores, best first."""
        padded = {**queries, "": "one query alone is an IndexError in beir 2.2"}
        run = self._search(self._corpus, padded, k, **self._options)
        return {query_id: best(run.get(query_id, {}), self._order, k) for query_id in queries}
