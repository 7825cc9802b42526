"""Vectors of sentences and of each of their words in context, from the minilm embedder's own model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench.embedders import load_model
from ragbench.metrics.groundedness.words import words
from ragbench.segments import load_tokenizer

if TYPE_CHECKING:
    from cachetools import LRUCache

    from ragbench.types import FloatArray

    Vectors = tuple[FloatArray, FloatArray]

_MOST_TOKENS = 256  # what the model reads
_STEP = 32
_BATCH = 16
_MEMORY_BYTES = 96 * 2**20
_lock = threading.Lock()


def vectors(texts: Sequence[str]) -> list[Vectors]:
    """For each text its vector (dimension,) and those of its `words` (number of words, dimension), of unit length.

    The text's is the mean over its tokens, as minilm's embedder has it; a word's the mean over its word pieces, in the
    context of the text. Words beyond the 256 tokens that the model reads have a row of zeros. Texts go through the
    model together with others of the same length, filled up to a multiple of 32 tokens: so their bits do not depend on
    their neighbours (measured: all equal, where they differ in most texts otherwise). The last 96 MB are in memory.
    """
    with _lock:
        memory = _memory()
        found = {text: memory.get(text) for text in dict.fromkeys(texts)}
        missing = [text for text, known in found.items() if known is None]
        for text, fresh in _compute(missing):
            found[text] = memory[text] = fresh
    return [found[text] for text in texts]  # type: ignore[misc]  # all are there now


def _compute(texts: Sequence[str]) -> Iterator[tuple[str, Vectors]]:
    if not texts:
        return
    import torch

    groups: dict[int, list[tuple[str, list[int], list[tuple[int, int]]]]] = {}
    encodings = load_tokenizer("minilm").encode_batch([text.encode("utf-8", "replace").decode() for text in texts])
    for text, encoding in zip(texts, encodings, strict=True):
        ids, offsets = encoding.ids, encoding.offsets
        if len(ids) > _MOST_TOKENS:
            ids, offsets = [*ids[: _MOST_TOKENS - 1], ids[-1]], [*offsets[: _MOST_TOKENS - 1], offsets[-1]]
        groups.setdefault(-(-len(ids) // _STEP) * _STEP, []).append((text, ids, offsets))
    for length, group in sorted(groups.items()):
        for first in range(0, len(group), _BATCH):
            batch = group[first : first + _BATCH]
            tokens = torch.tensor([ids + [0] * (length - len(ids)) for _, ids, _ in batch])
            mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for _, ids, _ in batch])
            with torch.inference_mode():
                states = _model()(input_ids=tokens, attention_mask=mask).last_hidden_state.numpy()
            for (text, ids, offsets), row in zip(batch, states, strict=True):
                yield text, _pooled(text, row[: len(ids)], offsets)


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
def _model() -> Any:
    return load_model("minilm")[0].auto_model


@lru_cache(maxsize=1)
def _memory() -> LRUCache[str, Vectors]:
    from cachetools import LRUCache

    return LRUCache(maxsize=_MEMORY_BYTES, getsizeof=lambda pair: pair[0].nbytes + pair[1].nbytes + 500)


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return unit
