"""The exact top k of every search, the rounding of scores and the order of equal ones, and checks
of chunks and of k.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ragbench.array_types import FloatArray, Floats, Ints
from ragbench.errors import ConfigError, DataError
from ragbench.types import Chunk, Run


class Candidates(NamedTuple):
    """Pairs of a query and a chunk with their scores, as three arrays of one length."""

    rows: Ints  # the number of the query in its block
    columns: Ints  # the number of the chunk
    scores: FloatArray | Floats


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
    """Return query_id -> chunk_id -> score: the best k chunks of each query, best first. Equal scores are
    in the order of the chunks.

    Args:
        queries: query_id -> text; only their order counts here.
        chunk_ids: of all chunks, by their numbers.
        candidates: called as candidates(start, end); returns, for the queries from number `start` up to
            `end`, the scores of all pairs (query, chunk) that could be among the best k once rounded.
        k: the number of chunks.
        block: for how many queries at once `candidates` is called; 0 means as many as the memory for
            their scores allows.
    """
    query_ids = list(queries)
    run: Run = {query_id: {} for query_id in query_ids}
    if not chunk_ids:
        return run
    step = block or max(1, _BLOCK_SCORES // len(chunk_ids))
    for start in range(0, len(query_ids), step):
        ids_of_block = query_ids[start : start + step]
        n_queries = len(ids_of_block)
        best_of_block = _best_of_each_query(candidates(start, start + n_queries), n_queries, k)
        for query_id, (chunk_numbers, scores) in zip(ids_of_block, best_of_block, strict=True):
            best_ids = [chunk_ids[number] for number in chunk_numbers]
            run[query_id] = dict(zip(best_ids, scores, strict=True))
    return run


def _best_of_each_query(
    found: Candidates, n_queries: int, k: int
) -> Iterator[tuple[list[int], list[float]]]:
    """Yield for each query of a block the numbers of its best `k` chunks and their rounded scores."""
    scores = np.round(np.asarray(found.scores, dtype=np.float64), _DECIMALS)
    scores += 0.0  # turns -0.0, which would be printed as such, into 0.0
    # by query, then by score from the highest, then by the number of the chunk
    order = np.lexsort((found.columns, -scores, found.rows))
    sorted_columns = found.columns[order].tolist()
    sorted_scores = scores[order].tolist()
    # the candidates of query i are at first_places[i] up to first_places[i + 1]
    first_places = np.searchsorted(found.rows[order], np.arange(n_queries + 1)).tolist()
    for first, after_last in pairwise(first_places):
        best_k = slice(first, min(first + k, after_last))
        yield sorted_columns[best_k], sorted_scores[best_k]


def best_of_sparse(scores: Any, k: int) -> Candidates:
    """Return every pair that may be among the best `k` of its query once scores are rounded.

    `scores` is a sparse matrix in CSR format, queries x chunks. A pair that it does not hold is no
    match.
    """
    places_by_query = []  # the places of a query's candidates in `scores.data`
    for start, end in pairwise(scores.indptr.tolist()):
        scores_of_query = scores.data[start:end]
        if len(scores_of_query) <= k:
            places_by_query.append(np.arange(start, end))
            continue
        # in rising order, the k-th best has this place
        kth_place = len(scores_of_query) - k
        kth_best = np.partition(scores_of_query, kth_place)[kth_place]
        is_candidate = scores_of_query >= _lowest_possible_tie(kth_best)
        places_by_query.append(start + np.flatnonzero(is_candidate))
    n_candidates = [len(places) for places in places_by_query]
    rows = np.repeat(np.arange(len(n_candidates)), n_candidates)
    places = np.concatenate(places_by_query)
    return Candidates(rows, scores.indices[places], scores.data[places])


def best_of_products(query_vectors: FloatArray, vectors: FloatArray, k: int) -> Candidates:
    """Return the candidates among all products of queries and chunks: every pair that may be among the
    best k of its query once products are rounded, in no order.

    Computed a block of chunks at a time, so that not all products are in memory at once.
    """
    chunks_per_block = max(k, _BLOCK_SCORES // max(1, len(query_vectors)))
    # For each query a lower bound of its k-th best product, from the blocks so far. Each block raises
    # it twice: by its own k-th best product, and by the k-th best of all candidates so far.
    bounds = np.full(len(query_vectors), -np.inf, dtype=np.float32)
    rows, columns = np.empty((2, 0), dtype=np.int64)
    scores = np.empty(0, dtype=np.float32)
    for start in range(0, len(vectors), chunks_per_block):
        with np.errstate(invalid="ignore"):  # set by some BLAS kernels for finite vectors too
            products = query_vectors @ vectors[start : start + chunks_per_block].T
        n_chunks = products.shape[1]
        if k < n_chunks:
            # for each query the k-th best of this block: the k-th best of all is not lower
            kth_of_block = np.partition(products, n_chunks - k, axis=1)[:, n_chunks - k]
            bounds = np.maximum(bounds, kth_of_block)
        new_rows, new_columns = np.nonzero(products >= _lowest_possible_tie(bounds)[:, None])
        rows = np.append(rows, new_rows)
        columns = np.append(columns, new_columns + start)
        scores = np.append(scores, products[new_rows, new_columns])
        is_only_block = n_chunks == len(vectors)
        if is_only_block:
            break
        bounds = _raised_bounds(bounds, rows, scores, k)
        # earlier candidates that are now below the bound of their query are dropped
        kept = scores >= _lowest_possible_tie(bounds)[rows]
        rows, columns, scores = rows[kept], columns[kept], scores[kept]
    return Candidates(rows, columns, scores)


def _raised_bounds(bounds: FloatArray, rows: Ints, scores: FloatArray, k: int) -> FloatArray:
    """Return the lower bounds of the queries' k-th best scores, raised to the k-th best candidate of
    each query that has `k` candidates or more.

    `rows` and `scores` have the query and the score of each candidate.
    """
    raised = bounds.copy()
    order = np.lexsort((-scores, rows))  # by query, then by score from the highest
    first_of_query = np.searchsorted(rows[order], np.arange(len(bounds) + 1))
    n_candidates = np.diff(first_of_query)
    with_k = np.flatnonzero(n_candidates >= k)  # these queries
    kth_candidate = scores[order][first_of_query[with_k] + k - 1]
    raised[with_k] = np.maximum(bounds[with_k], kth_candidate)
    return raised


def _lowest_possible_tie(kth: FloatArray) -> FloatArray:
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
    """Raise ConfigError if `k` is not a whole number of 1 or more."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ConfigError(f"k is {k!r}; expected a whole number of 1 or more")


def counted(chunk_ids: Sequence[str] | Mapping[str, int]) -> str:
    """Return the number of chunks in words, such as "1 chunk" or "2,000 chunks"."""
    return f"{len(chunk_ids):,} chunk{'' if len(chunk_ids) == 1 else 's'}"
