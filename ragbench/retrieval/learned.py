"""Search by models that keep more than one vector of a text: learned sparse vectors (SPLADE) and late
interaction (ColBERT), both by sentence-transformers, exact over all chunks.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import FloatArray, Floats
from ragbench.progress import progress_bar
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.ranks import (
    Candidates,
    best_of_sparse,
    check_k,
    checked_ids,
    counted,
    ranked,
)
from ragbench.retrieval.weights import Weights
from ragbench.types import Chunk, Run

_TEXTS_AT_ONCE = 256


class Sparse:
    """Search by learned sparse vectors, such as SPLADE (Formal et al. 2021): the score is the product
    of the vectors of query and chunk, over the words of the model's vocabulary. Chunks of the score
    0 are not returned, so a result can be shorter than k.

    `model` is a `SparseEncoder` of sentence-transformers: a folder, or a name on the hub, such as
    "naver/splade-cocondenser-ensembledistil". The vectors of chunks are kept in the cache.
    """

    def __init__(self, chunks: Sequence[Chunk], model: str) -> None:
        self.name, self.chunks = f"sparse:{model}", chunks
        self._weights = Weights(model, "SparseEncoder")
        self._chunk_ids = checked_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        with store.arrays("sparse", store.digest(self._weights.identity, *texts)) as kept:
            if not kept:
                matrix = self._encode(texts, "document")
                kept |= {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
                kept["words"] = np.array(matrix.shape[1])
        from scipy.sparse import csr_matrix

        parts = (kept["data"], kept["indices"], kept["indptr"])
        vectors = csr_matrix(parts, shape=(len(texts), int(kept["words"])))
        self._by_word = vectors.T.tocsr()  # a row per word, a column per chunk

    def __repr__(self) -> str:
        return f"Sparse({counted(self._chunk_ids)}, {self._weights.name!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest score, best first."""
        check_k(k)
        queries = as_queries(queries)
        if not queries:
            return {}
        asked = self._encode(list(queries.values()), "query")

        def candidates(start: int, end: int) -> Candidates:
            scores = (asked[start:end] @ self._by_word).tocsr()
            scores.eliminate_zeros()
            return best_of_sparse(scores, k)

        return ranked(queries, self._chunk_ids, candidates, k)

    def _encode(self, texts: Sequence[str], role: str) -> Any:
        """Return one row per text, a sparse matrix of float64."""
        from scipy.sparse import csr_matrix, vstack

        parts = []
        for block in _encoded(self._weights, texts, role):
            rows = block.coalesce().cpu()
            ends = rows.indices().numpy()
            values = rows.values().numpy().astype(np.float64)
            parts.append(csr_matrix((values, (ends[0], ends[1])), shape=tuple(rows.shape)))
        return vstack(parts).tocsr()


class Late:
    """Search by late interaction, as ColBERT (Khattab & Zaharia 2020): the score is the sum, over
    the tokens of the query, of the highest product of their vector with the vector of a token of
    the chunk.

    `model` is a `MultiVectorEncoder` of sentence-transformers: a folder, or a name on the hub, such as
    "lightonai/GTE-ModernColBERT-v1". The vectors of chunks are kept in the cache: 0.5 kB for each
    token of 128 components.
    """

    def __init__(self, chunks: Sequence[Chunk], model: str) -> None:
        self.name, self.chunks = f"late:{model}", chunks
        self._weights = Weights(model, "MultiVectorEncoder")
        self._chunk_ids = checked_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        with store.arrays("late", store.digest(self._weights.identity, *texts)) as kept:
            if not kept:
                rows = self._encode(texts, "document")
                kept["vectors"] = np.concatenate(rows)
                kept["starts"] = np.cumsum([0, *map(len, rows)])[:-1]
        self._vectors, self._starts = kept["vectors"], kept["starts"]

    def __repr__(self) -> str:
        return f"Late({counted(self._chunk_ids)}, {self._weights.name!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest score, best first."""
        check_k(k)
        queries = as_queries(queries)
        asked = self._encode(list(queries.values()), "query")
        n_chunks = len(self._chunk_ids)

        def candidates(start: int, end: int) -> Candidates:
            scores = np.concatenate([self._scores(tokens) for tokens in asked[start:end]])
            rows = np.repeat(np.arange(end - start), n_chunks)
            return rows, np.tile(np.arange(n_chunks), end - start), scores

        return ranked(queries, self._chunk_ids, candidates, k)

    def _scores(self, tokens: FloatArray) -> Floats:
        """Return the score of each chunk for the vectors of a query's tokens."""
        products = tokens @ self._vectors.T
        best = np.maximum.reduceat(products, self._starts, axis=1)
        scores: Floats = best.sum(axis=0, dtype=np.float64)
        return scores

    def _encode(self, texts: Sequence[str], role: str) -> list[FloatArray]:
        """Return for each text one row per token."""
        blocks = _encoded(self._weights, texts, role, convert_to_numpy=True)
        return [np.asarray(each, dtype=np.float32) for block in blocks for each in block]


def _encoded(weights: Weights, texts: Sequence[str], role: str, **options: bool) -> Iterator[Any]:
    """Yield the vectors that a model makes of each block of texts, in the `role` of a "query" or a "document"."""
    model = weights.model
    encode = model.encode_query if role == "query" else model.encode_document
    with progress_bar(len(texts), f"encoding with {weights.name}", "texts") as bar:
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            block = list(texts[start : start + _TEXTS_AT_ONCE])
            yield encode(block, show_progress_bar=False, **options)
            bar.update(len(block))
