"""Search by learned sparse vectors (SPLADE), one of each text, and by late interaction (ColBERT), with
a vector for each token of a text; both by sentence-transformers, exact over all chunks.
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
        """Encode all chunks, or take their vectors from the cache."""
        self.name, self.chunks = f"sparse:{model}", chunks
        self._weights = Weights(model, "SparseEncoder")
        self._chunk_ids = checked_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        # a sparse matrix, one row per chunk, is kept as the three arrays of its CSR format
        with store.arrays("sparse", store.digest(self._weights.identity, *texts)) as kept:
            if not kept:  # not in the cache, which keeps the arrays that are put into it
                matrix = self._encode(texts, "document")
                kept |= {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
                kept["words"] = np.array(matrix.shape[1])
        from scipy.sparse import csr_matrix

        csr_arrays = (kept["data"], kept["indices"], kept["indptr"])
        vectors = csr_matrix(csr_arrays, shape=(len(texts), int(kept["words"])))
        self._by_word = vectors.T.tocsr()  # a row per word, a column per chunk

    def __repr__(self) -> str:
        return f"Sparse({counted(self._chunk_ids)}, {self._weights.name!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest score, best first."""
        check_k(k)
        queries = as_queries(queries)
        if not queries:
            return {}
        query_vectors = self._encode(list(queries.values()), "query")

        def candidates(start: int, end: int) -> Candidates:
            """Return the pairs of these queries and chunks that may be among the best `k`."""
            scores = (query_vectors[start:end] @ self._by_word).tocsr()
            # a score of 0 is no match
            scores.eliminate_zeros()
            return best_of_sparse(scores, k)

        return ranked(queries, self._chunk_ids, candidates, k)

    def _encode(self, texts: Sequence[str], role: str) -> Any:
        """Return a sparse matrix of float64 (SciPy, CSR): a row per text, a column per word of the
        model's vocabulary. `role` is "query" or "document".
        """
        from scipy.sparse import csr_matrix, vstack

        blocks = []
        for tensor in _encoded_blocks(self._weights, texts, role):
            sparse = tensor.coalesce().cpu()  # of torch, in COO format
            rows, columns = sparse.indices().numpy()
            values = sparse.values().numpy().astype(np.float64)
            blocks.append(csr_matrix((values, (rows, columns)), shape=tuple(sparse.shape)))
        return vstack(blocks).tocsr()


class Late:
    """Search by late interaction, as ColBERT (Khattab & Zaharia 2020): the score is the sum, over
    the tokens of the query, of the highest product of their vector with the vector of a token of
    the chunk.

    `model` is a `MultiVectorEncoder` of sentence-transformers: a folder, or a name on the hub, such as
    "lightonai/GTE-ModernColBERT-v1". The vectors of chunks are kept in the cache: 0.5 kB for each
    token of 128 components.
    """

    def __init__(self, chunks: Sequence[Chunk], model: str) -> None:
        """Encode all chunks, or take their vectors from the cache."""
        self.name, self.chunks = f"late:{model}", chunks
        self._weights = Weights(model, "MultiVectorEncoder")
        self._chunk_ids = checked_ids(chunks)
        texts = [chunk.text for chunk in chunks]
        with store.arrays("late", store.digest(self._weights.identity, *texts)) as kept:
            if not kept:  # not in the cache, which keeps the arrays that are put into it
                vectors_by_chunk = self._encode(texts, "document")
                n_vectors = [len(vectors) for vectors in vectors_by_chunk]
                kept["vectors"] = np.concatenate(vectors_by_chunk)
                # the row of the first vector of each chunk
                kept["starts"] = np.cumsum([0, *n_vectors])[:-1]
        self._vectors = kept["vectors"]  # one row per token, of all chunks one after the other
        self._starts = kept["starts"]  # of each chunk: the row of its first token

    def __repr__(self) -> str:
        return f"Late({counted(self._chunk_ids)}, {self._weights.name!r})"

    def search(self, queries: Queries, k: int = 10) -> Run:
        """Return for each query the `k` chunks of the highest score, best first."""
        check_k(k)
        queries = as_queries(queries)
        token_vectors = self._encode(list(queries.values()), "query")  # of each query
        n_chunks = len(self._chunk_ids)

        def candidates(start: int, end: int) -> Candidates:
            """Return all pairs of these queries and the chunks, each with its score."""
            rows = np.repeat(np.arange(end - start), n_chunks)
            columns = np.tile(np.arange(n_chunks), end - start)
            scores = [self._scores(tokens) for tokens in token_vectors[start:end]]
            return Candidates(rows, columns, np.concatenate(scores))

        return ranked(queries, self._chunk_ids, candidates, k)

    def _scores(self, tokens: FloatArray) -> Floats:
        """Return the score of each chunk for one query; `tokens` has a vector per token of it."""
        products = tokens @ self._vectors.T  # tokens of the query x tokens of all chunks
        # for each token of the query the highest product within each chunk
        best_in_chunk = np.maximum.reduceat(products, self._starts, axis=1)
        scores: Floats = best_in_chunk.sum(axis=0, dtype=np.float64)
        return scores

    def _encode(self, texts: Sequence[str], role: str) -> list[FloatArray]:
        """Return an array for each text, one row per token; `role` is "query" or "document"."""
        arrays: list[FloatArray] = []
        for block in _encoded_blocks(self._weights, texts, role, convert_to_numpy=True):
            arrays += [np.asarray(vectors, dtype=np.float32) for vectors in block]
        return arrays


def _encoded_blocks(
    weights: Weights, texts: Sequence[str], role: str, **options: bool
) -> Iterator[Any]:
    """Yield the vectors of a model for each block of 256 texts, which it encodes in the `role` of a
    "query" or a "document". `options` are options of its encode function.
    """
    model = weights.model
    encode = model.encode_query if role == "query" else model.encode_document
    with progress_bar(len(texts), f"encoding with {weights.name}", "texts") as bar:
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            block = list(texts[start : start + _TEXTS_AT_ONCE])
            yield encode(block, show_progress_bar=False, **options)
            bar.update(len(block))
