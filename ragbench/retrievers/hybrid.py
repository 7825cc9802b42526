"""Two searches as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.errors import ConfigError
from ragbench.retrievers.bm25 import BM25
from ragbench.retrievers.dense import Dense
from ragbench.retrievers.ranking import best, check_k, counted
from ragbench.types import Chunk, EmbedderLike, Queries, Run, as_queries

if TYPE_CHECKING:
    pass

_HYBRID_DEPTH = 100


class Hybrid:
    """BM25 and Dense together, by reciprocal rank fusion (Cormack, Clarke & Büttcher 2009).

    The score of a chunk is the sum of ``1 / (rrf_k + rank)`` over the two rankings that hold it, rank from 1: above 0
    and at most ``2 / (rrf_k + 1)``. Only ranks count, so the scales of the two need not agree. Each is searched to a
    depth of max(k, 100).

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Taxes rise in May.")]
    >>> Hybrid(chunks, "wordllama").search({"q1": "Does a cat sleep?"}, k=2)  # 2/61, and 1/62 for the second of one
    {'q1': {'a#0': 0.032787, 'b#0': 0.016129}}
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        embedder: EmbedderLike = "minilm",
        *,
        rrf_k: float = 60,
    ) -> None:
        if not rrf_k >= 0 or rrf_k == float("inf"):
            raise ConfigError(f"rrf_k is {rrf_k!r}; expected a number of 0 or more, such as 60")
        self._rrf_k = rrf_k
        self.chunks = chunks
        self._lexical = BM25(chunks)
        self._dense = Dense(chunks, embedder)
        self._place = {chunk.chunk_id: place for place, chunk in enumerate(chunks)}

    @property
    def name(self) -> str:
        return f"hybrid:{self._dense.name.partition(':')[2]}"

    def __repr__(self) -> str:
        return f"Hybrid({counted(self._place)}, {self._dense.name.partition(':')[2]!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """For each query the `k` chunks of the highest fused score, best first."""
        check_k(k)
        queries = as_queries(queries)
        depth = max(k, _HYBRID_DEPTH)
        runs = [retriever.search(queries, depth) for retriever in (self._lexical, self._dense)]
        fused: Run = {}
        for query_id in queries:
            scores: dict[str, float] = {}
            for run in runs:
                for rank, chunk_id in enumerate(run[query_id], start=1):
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + 1 / (self._rrf_k + rank)
            fused[query_id] = best(scores, self._place, k)
        return fused
