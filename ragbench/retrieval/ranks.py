"""Functions of all retrievers: the exact top k, and checks of chunks and of k."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ragbench.array_types import FloatArray, Floats, Ints
from ragbench.errors import ConfigError, DataError
from ragbench.types import Chunk, Run

Candidates = tuple[Ints, Ints, FloatArray | Floats]
"""Row of the query in its block, number of the chunk, score: three arrays of one length."""

SEARCH_CALLS = {
    **dict.fromkeys(
        ["invoke", "retrieve", "get_relevant_documents", "query", "run", "similarity_search"],
        "retriever.search(queries, k), or rb.retrieve(retriever, queries)",
    ),
    **dict.fromkeys(
        ["index", "add", "fit", "build", "save", "load"],
        "rb.make_retriever(name, chunks), which indexes all chunks at once",
    ),
}
"""Methods of retrievers elsewhere -> the call here."""

_DECIMALS = 6
_BLOCK_SCORES = 8_000_000  # scores held at once: 32 MB of float32
QUERIES_AT_ONCE = 2_000  # of a dense search: each block of them reads all vectors
_SLACK = 2e-5  # more than rounding to 6 decimals and float32 together can move a score of about 1


def ranked(
    queries: Mapping[str, str],
    chunk_ids: Sequence[str],
    candidates: Callable[[int, int], Candidates],
    k: int,
    *,
    block: int = 0,
) -> Run:
    """Return the exact top k of each query, equal scores in the order of the chunks.

    `candidates(start, end)` returns, for a block of queries, all pairs that could be among the best
    k once rounded. Blocks are as large as the memory for their scores allows, or of `block`
    queries.
    """
    ids = list(queries)
    run: Run = {query_id: {} for query_id in ids}
    step = block or max(1, _BLOCK_SCORES // max(1, len(chunk_ids)))
    for start in range(0, len(ids) if chunk_ids else 0, step):
        end = min(start + step, len(ids))
        rows, columns, scores = candidates(start, end)
        values = np.round(np.asarray(scores, dtype=np.float64), _DECIMALS)
        values += 0.0  # turns -0.0, which would be printed as such, into 0.0
        # by query, then by score from the highest, then by the number of the chunk
        order = np.lexsort((columns, -values, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        n_queries = end - start
        # the candidates of query i are at first_place[i] up to first_place[i + 1]
        first_place = np.searchsorted(rows, np.arange(n_queries + 1)).tolist()
        found_ids = [chunk_ids[column] for column in columns.tolist()]
        found_scores = values.tolist()
        for row in range(n_queries):
            first = first_place[row]
            best = slice(first, min(first + k, first_place[row + 1]))
            query_id = ids[start + row]
            run[query_id] = dict(zip(found_ids[best], found_scores[best], strict=True))
    return run


def best_of_sparse(scores: Any, k: int) -> Candidates:
    """Return every pair that may be among the best `k` of its query once scores are rounded.

    `scores` is a sparse matrix in CSR format, queries x chunks. A pair that it does not hold is no
    match.
    """
    kept = []  # for each query the places of its candidates in `scores.data`
    for start, end in pairwise(scores.indptr.tolist()):
        of_query = scores.data[start:end]
        if len(of_query) <= k:
            kept.append(np.arange(start, end))
        else:
            kth_place = len(of_query) - k
            kth_best = np.partition(of_query, kth_place)[kth_place]
            kept.append(start + np.flatnonzero(of_query >= _floor(kth_best)))
    rows = np.repeat(np.arange(len(kept)), [len(places) for places in kept])
    all_places = np.concatenate(kept)
    return rows, scores.indices[all_places], scores.data[all_places]


def best_of_products(asked: FloatArray, vectors: FloatArray, k: int) -> Candidates:
    """Return the candidates among all products of queries and chunks: every pair that may be among the
    best k of its query once products are rounded, in no order. Computed a block of chunks at a time.
    """
    step = max(k, _BLOCK_SCORES // max(1, len(asked)))  # chunks per block
    # for each query a lower bound of its k-th best product, from the blocks so far
    kth = np.full(len(asked), -np.inf, dtype=np.float32)
    rows, columns = np.empty((2, 0), dtype=np.int64)
    values = np.empty(0, dtype=np.float32)
    for start in range(0, len(vectors), step):
        with np.errstate(invalid="ignore"):  # set by some BLAS kernels for finite vectors too
            scores = asked @ vectors[start : start + step].T
        n = scores.shape[1]
        if k < n:
            kth_of_block = np.partition(scores, n - k, axis=1)[:, n - k]
            kth = np.maximum(kth, kth_of_block)
        new_rows, new_columns = np.nonzero(scores >= _floor(kth)[:, None])
        rows, columns = np.append(rows, new_rows), np.append(columns, new_columns + start)
        values = np.append(values, scores[new_rows, new_columns])
        if n == len(vectors):  # one block was enough
            break
        # a query with k candidates or more: the k-th best of them raises its bound
        order = np.lexsort((-values, rows))
        first_of_query = np.searchsorted(rows[order], np.arange(len(asked) + 1))
        full = np.flatnonzero(np.diff(first_of_query) >= k)
        kth_candidate = values[order][first_of_query[full] + k - 1]
        kth[full] = np.maximum(kth[full], kth_candidate)
        kept = values >= _floor(kth)[rows]
        rows, columns, values = rows[kept], columns[kept], values[kept]
    return rows, columns, values


def _floor(kth: FloatArray) -> FloatArray:
    """Return a bound a little below the k-th best score: a lower score cannot become equal to the
    k-th best by rounding.
    """
    return np.asarray(kth - _SLACK * np.maximum(1.0, np.abs(kth)), dtype=np.float32)


def best(scores: Mapping[str, float], place: Mapping[str, int], k: int) -> dict[str, float]:
    """Return the `k` highest scores, rounded to 6 decimals, best first; equal ones in the order of
    `place` (chunk_id -> its place among the chunks).
    """
    rounded = {chunk_id: round(float(score), _DECIMALS) for chunk_id, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], place[item[0]]))[:k])


def checked_ids(chunks: Sequence[Chunk]) -> Sequence[str]:
    """Return the ids of the chunks; DataError if they are not unique."""
    # `LargeChunks`, read from the disk, have `ids`, which are unique
    ids: Sequence[str] = getattr(chunks, "ids", ()) or [chunk.chunk_id for chunk in chunks]
    if isinstance(ids, list) and len(set(ids)) < len(ids):
        repeated, times = Counter(ids).most_common(1)[0]
        raise DataError(
            f"chunk id {repeated!r} occurs {times} times in {len(ids)} chunks; expected unique ids"
        )
    return ids


def check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ConfigError(f"k is {k!r}; expected a whole number of 1 or more")


def counted(chunk_ids: Sequence[str] | Mapping[str, int]) -> str:
    """Return the number of chunks in words, such as "1 chunk" or "2,000 chunks"."""
    return f"{len(chunk_ids):,} chunk{'' if len(chunk_ids) == 1 else 's'}"
