"""Vectors of sentences and of each of their words in context, from minilm."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ragbench.embedders.minilm import cut_to_fit, token_states, tokenised
from ragbench.metrics.groundedness.words import words

if TYPE_CHECKING:
    from cachetools import LRUCache

    from ragbench.types import FloatArray

    Vectors = tuple[FloatArray, FloatArray]

_MEMORY_BYTES = 96 * 2**20
_lock = threading.Lock()


def vectors(texts: Sequence[str]) -> list[Vectors]:
    """For each text its vector (dimension,) and those of its `words` (number of words, dimension), of unit length.

    The text's is the mean over its tokens, as minilm's embedder has it; a word's the mean over its word pieces, in the
    context of the text. Words beyond the 256 tokens that the model reads have a row of zeros. The bits of a text do not
    depend on the texts next to it. The last 96 MB are in memory.
    """
    with _lock:
        memory = _memory()
        found = {text: memory.get(text) for text in dict.fromkeys(texts)}
        missing = [text for text, known in found.items() if known is None]
        for text, fresh in zip(missing, _compute(missing), strict=True):
            found[text] = memory[text] = fresh
    return [found[text] for text in texts]  # type: ignore[misc]  # all are there now


def _compute(texts: Sequence[str]) -> list[Vectors]:
    if not texts:
        return []
    ids, offsets = [], []
    for encoding in tokenised(texts):
        ids.append(cut_to_fit(encoding.ids))
        offsets.append(cut_to_fit(encoding.offsets))
    return [_pooled(*one) for one in zip(texts, token_states(ids), offsets, strict=True)]


def _pooled(text: str, states: FloatArray, offsets: Sequence[tuple[int, int]]) -> Vectors:
    starts, ends = np.array(offsets).T
    own = words(text)
    rows = np.zeros((len(own), states.shape[1]), dtype=np.float32)
    for row, word in enumerate(own):
        inside = (starts < word.end) & (ends > word.start) & (ends > starts)
        if inside.any():
            rows[row] = states[inside].mean(axis=0)
    return _unit(states.mean(axis=0, keepdims=True))[0], _unit(rows)


@lru_cache(maxsize=1)
def _memory() -> LRUCache[str, Vectors]:
    from cachetools import LRUCache

    return LRUCache(maxsize=_MEMORY_BYTES, getsizeof=lambda pair: pair[0].nbytes + pair[1].nbytes + 500)


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return unit
