"""What all retrievers share: the exact top k, and what they ask of chunks and of k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import ConfigError, DataError
from ragbench.types import Chunk, Run

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragbench.types import FloatArray

    Rows = npt.NDArray[np.int64]

_DECIMALS = 6
_BLOCK_SCORES = 8_000_000  # scores held at once: 32 MB of float32
_BLOCK_PAIRS = 20_000  # candidates scored exactly at once
_SLACK = 2e-5  # more than rounding to 6 decimals and float32 together can move a score of about 1


def ranked(
    queries: Mapping[str, str],
    chunk_ids: list[str],
    scores: Callable[[int, int], FloatArray],
    k: int,
    *,
    positive: bool = False,
    exact: Callable[[Rows, Rows], npt.NDArray[np.float64]] | None = None,
) -> Run:
    """The exact top k of `scores(start, end)` (a block of queries x all chunks), equal ones in the order of the chunks.

    Candidates are all chunks that could be among the best k once rounded; these are scored by `exact(rows, columns)`
    where that is given, rounded, sorted, and cut.
    """
    ids = list(queries)
    n = len(chunk_ids)
    run: Run = {query_id: {} for query_id in ids}
    if n == 0:
        return run
    step = max(1, _BLOCK_SCORES // n)
    for start in range(0, len(ids), step):
        block = scores(start, min(start + step, len(ids)))
        candidates = np.ones(block.shape, dtype=bool)
        if k < n:
            kth = np.partition(block, n - k, axis=1)[:, n - k : n - k + 1]
            candidates = block >= kth - _SLACK * np.maximum(1.0, np.abs(kth))
        if positive:
            candidates &= block > 0
        rows, columns = np.nonzero(candidates)
        values = np.asarray(block[rows, columns], dtype=np.float64)
        if exact is not None:
            for part in _parts(len(rows)):
                values[part] = exact(start + rows[part], columns[part])
        values = np.round(values, _DECIMALS) + 0.0  # -0.0 would print as such
        order = np.lexsort((columns, -values, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        first = np.searchsorted(rows, np.arange(len(block) + 1))
        found_ids = [chunk_ids[column] for column in columns.tolist()]
        found_scores = values.tolist()
        for row in range(len(block)):
            best = slice(first[row], min(first[row] + k, first[row + 1]))
            run[ids[start + row]] = dict(zip(found_ids[best], found_scores[best], strict=True))
    return run


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK_PAIRS) for start in range(0, n, _BLOCK_PAIRS))


def best(scores: Mapping[str, float], place: Mapping[str, int], k: int) -> dict[str, float]:
    rounded = {chunk_id: round(float(score), _DECIMALS) for chunk_id, score in scores.items()}
    return dict(sorted(rounded.items(), key=lambda item: (-item[1], place[item[0]]))[:k])


def checked_ids(chunks: Sequence[Chunk]) -> list[str]:
    ids = [chunk.chunk_id for chunk in chunks]
    if len(set(ids)) != len(ids):
        repeated, times = Counter(ids).most_common(1)[0]
        raise DataError(f"chunk id {repeated!r} occurs {times} times in {len(ids)} chunks; expected unique ids")
    return ids


def stranger(chunk_id: str, query_id: str, n: int) -> str:
    return (
        f"the run has chunk {chunk_id!r} for query {query_id!r}, which is not among the {n} chunks given; "
        "give the chunks that were searched"
    )


def check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ConfigError(f"k is {k!r}; expected a whole number of 1 or more")


def counted(chunk_ids: Sequence[str] | Mapping[str, int]) -> str:
    return f"{len(chunk_ids):,} chunk{'' if len(chunk_ids) == 1 else 's'}"
