"""Which chunks a question is answered from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from ragbench.errors import ConfigError, DataError, DataWarning, unknown_chunk
from ragbench.segments import count_tokens
from ragbench.types import Chunk, Dataset, Run


def context_chunks(dataset: Dataset, run: Run, chunks: Sequence[Chunk], k: int) -> dict[str, list[Chunk]]:
    """query_id -> the best `k` chunks of a chunk-level run, best first, for every case of the dataset.

    Equal scores keep the order of `chunks`. A case that the run lacks has an empty list.

    Raises:
        ConfigError: `k` is below 1.
        DataError: the run names a chunk that is not in `chunks`.
    """
    if k < 1:
        raise ConfigError(f"k is {k}; expected the number of chunks to answer from, 1 or more")
    position = {chunk.chunk_id: i for i, chunk in enumerate(chunks)}
    best: dict[str, list[Chunk]] = {}
    for case in dataset.cases:
        found = run.get(case.query_id, {})
        try:
            ranked = sorted(found, key=lambda chunk_id: (-found[chunk_id], position[chunk_id]))
        except KeyError as exc:
            raise DataError(unknown_chunk(exc.args[0], case.query_id, len(position))) from exc
        best[case.query_id] = [chunks[position[chunk_id]] for chunk_id in ranked[:k]]
    return best


def cut_to_budget(
    contexts: Mapping[str, Sequence[Chunk]], max_context_tokens: int | None
) -> tuple[dict[str, list[Chunk]], dict[str, tuple[str, ...]]]:
    """Contexts cut at whole chunks to a number of tokens, and the ids of what was cut, both by query_id.

    The best-ranked chunks that fit together are kept: the first chunk that does not fit ends the context, also where a
    later, shorter one would fit, so that what is kept is always the top of the ranking. Tokens are those of the
    "minilm" tokenizer, as in the measures at a context budget, for every model; the numbers and tags around the
    chunks are not counted. None keeps everything.

    Raises:
        ConfigError: the budget is below 1.
    """
    if max_context_tokens is None:
        return {query_id: list(found) for query_id, found in contexts.items()}, {}
    if max_context_tokens < 1:
        raise ConfigError(f"max_context_tokens is {max_context_tokens}; expected 1 or more, or None for no limit")
    used = {chunk.chunk_id: chunk.text for found in contexts.values() for chunk in found}
    tokens = dict(zip(used, count_tokens(list(used.values())), strict=True))
    kept: dict[str, list[Chunk]] = {}
    cut: dict[str, tuple[str, ...]] = {}
    for query_id, found in contexts.items():
        total, fitting = 0, 0
        for chunk in found:
            total += tokens[chunk.chunk_id]
            if total > max_context_tokens:
                break
            fitting += 1
        kept[query_id] = list(found[:fitting])
        cut[query_id] = tuple(chunk.chunk_id for chunk in found[fitting:])
    if starved := [query_id for query_id, found in contexts.items() if found and not kept[query_id]]:
        warnings.warn(
            f"max_context_tokens={max_context_tokens} leaves {len(starved)} of {len(contexts)} questions without any "
            f"context, first {starved[0]!r}: their best chunk alone is longer; use smaller chunks or more tokens",
            DataWarning,
            stacklevel=3,
        )
    return kept, cut
