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
        values = (
            np.round(np.asarray(scores, dtype=np.float64), _DECIMALS) + 0.0
        )  # -0.0 would print as such
        order = np.lexsort((columns, -values, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        first = np.searchsorted(rows, np.arange(end - start + 1)).tolist()
        found_ids = [chunk_ids[column] for column in columns.tolist()]
        found_scores = values.tolist()
        for row in range(end - start):
            best = slice(first[row], min(first[row] + k, first[row + 1]))
            run[ids[start + row]] = dict(zip(found_ids[best], found_scores[best], strict=True))
    return run


def best_of_sparse(scores: Any, k: int) -> Candidates:
    """Return the candidates among the scores that a sparse block (queries x chunks) holds; all
    others are no match.
    """
    kept = []
    for start, end in pairwise(scores.indptr.tolist()):
        row = scores.data[start:end]
        if len(row) <= k:
            kept.append(np.arange(start, end))
        else:
            kth = np.partition(row, len(row) - k)[len(row) - k]
            kept.append(start + np.flatnonzero(row >= _floor(kth)))
    rows = np.repeat(np.arange(len(kept)), [len(part) for part in kept])
    places = np.concatenate(kept)
    return rows, scores.indices[places], scores.data[places]


def best_of_products(asked: FloatArray, vectors: FloatArray, k: int) -> Candidates:
    """Return the candidates among all products of queries and chunks: every pair that may be among the
    best k of its query once products are rounded, in no order. Computed a block of chunks at a time.
    """
    step = max(k, _BLOCK_SCORES // max(1, len(asked)))
    kth = np.full(len(asked), -np.inf, dtype=np.float32)  # of the blocks so far
    rows, columns = np.empty((2, 0), dtype=np.int64)
    values = np.empty(0, dtype=np.float32)
    for start in range(0, len(vectors), step):
        with np.errstate(invalid="ignore"):  # set by some BLAS kernels for finite vectors too
            scores = asked @ vectors[start : start + step].T
        n = scores.shape[1]
        if k < n:
            kth = np.maximum(kth, np.partition(scores, n - k, axis=1)[:, n - k])
        new_rows, new_columns = np.nonzero(scores >= _floor(kth)[:, None])
        rows, columns = np.append(rows, new_rows), np.append(columns, new_columns + start)
        values = np.append(values, scores[new_rows, new_columns])
        if n == len(vectors):
            break
        # a query with k candidates or more: the k-th best of them raises its bound
        order = np.lexsort((-values, rows))
        first_of_query = np.searchsorted(rows[order], np.arange(len(asked) + 1))
        full = np.flatnonzero(np.diff(first_of_query) >= k)
        kth[full] = np.maximum(kth[full], values[order][first_of_query[full] + k - 1])
        kept = values >= _floor(kth)[rows]
        rows, columns, values = rows[kept], columns[kept], values[kept]
    return rows, columns, values


def _floor(kth: FloatArray) -> FloatArray:
    """Return the score below which none can come up to the k-th best by rounding."""
    return np.asarray(kth - _SLACK * np.maximum(1.0, np.abs(kth)), dtype=np.float32)


def best(scores: Mapping[str, float], place: Mapping[str, int], k: int) -> dict[str, float]:
    rounded = {chunk_id: round(float(score), _DECIMALS) for chunk_id, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], place[item[0]]))[:k])


def checked_ids(chunks: Sequence[Chunk]) -> Sequence[str]:
    """Return the ids of the chunks, which must be unique; those that are read from the disk are."""
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
    return f"{len(chunk_ids):,} chunk{'' if len(chunk_ids) == 1 else 's'}"
