"""Sampling of the chunks to draft questions from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragbench.errors import ConfigError, DataError
from ragbench.language import n_words
from ragbench.types import Chunk

MIN_WORDS = 20
"""A chunk with fewer words is a heading or a fragment."""


def sample_chunks(chunks: Sequence[Chunk], n: int, *, seed: int = 0) -> list[Chunk]:
    """Draw `n` chunks to draft questions from, uniformly, or all where there are fewer; chunks of
    fewer than 20 words are left out.

    A larger `n` with the same seed begins with the chunks of a smaller one, so only the additional
    ones are requested.

    Raises:
        ConfigError: a number below 1.
        DataError: no chunk is long enough.
    """
    if n < 1:
        raise ConfigError(f"the number of chunks to sample is {n}; expected 1 or more")
    usable = [chunk for chunk in chunks if n_words(chunk.text) >= MIN_WORDS]
    if not usable:
        raise DataError(f"none of {len(chunks)} chunks has {MIN_WORDS} words; use larger chunks")
    order = np.random.default_rng(seed).permutation(len(usable))
    return [usable[i] for i in order[:n]]
