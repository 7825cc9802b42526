"""How long a user waits for a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ragbench import cache
from ragbench.errors import ConfigError
from ragbench.retrievers.ranking import check_k
from ragbench.retrievers.reranking import rerank
from ragbench.types import Chunk

if TYPE_CHECKING:
    from ragbench.types import Retriever


def search_latency(
    retriever: Retriever,
    queries: Mapping[str, str],
    *,
    k: int = 100,
    chunks: Sequence[Chunk] = (),
    reranker: str | Callable[..., Any] = "",
    n: int = 20,
) -> float | None:
    """Milliseconds that one question alone waits for its chunks: the median over the first `n` queries.

    Nothing comes from the cache, so a dense retriever embeds the query as it would for a user; the first query is asked
    once more before, unmeasured, because it loads the model. With a `reranker` the time includes it, over `chunks`.
    None where there is no query. The figure is the machine's: compare only figures of one machine.

    >>> from ragbench.retrievers import BM25
    >>> latency = search_latency(BM25([Chunk("a#0", "a", 0, 8, "cats nap")]), {"q1": "cats"})
    >>> 0 < latency < 10_000
    True
    """
    check_k(k)
    if n < 1:
        raise ConfigError(f"n is {n}; expected the number of queries to measure, 1 or more")
    sample = list(islice(queries.items(), n))
    if not sample:
        return None
    taken = []
    with cache.bypassed():
        for query_id, text in [sample[0], *sample]:
            start = perf_counter()
            run = retriever.search({query_id: text}, k)
            if reranker:
                rerank(run, {query_id: text}, chunks, reranker, k=k)
            taken.append(1000 * (perf_counter() - start))
    return round(median(taken[1:]), 3)
