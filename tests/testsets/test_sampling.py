"""Which chunks are asked about: at random, and the same ones for a seed."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.generation import sample_chunks
from ragbench.types import Chunk


def chunks_of(*texts: str) -> list[Chunk]:
    return [Chunk(f"d{i}#0", f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]


CHUNKS = chunks_of(*(f"passage {i} " + "of many words " * 8 for i in range(18)))


def test_a_larger_sample_begins_with_the_smaller_one() -> None:
    small, large = (sample_chunks(CHUNKS, n, seed=3) for n in (4, 9))
    assert large[:4] == small
    assert len({chunk.chunk_id for chunk in large}) == 9
    assert sample_chunks(CHUNKS, 9, seed=3) == large
    assert sample_chunks(CHUNKS, 9, seed=4) != large


def test_fewer_chunks_than_wanted_are_all_taken() -> None:
    assert len(sample_chunks(CHUNKS[:3], 100)) == 3


def test_fragments_are_not_sampled() -> None:
    chunks = chunks_of("Too short.", "这是一段没有空格的中文文本" * 8)
    assert sample_chunks(chunks, 5) == chunks[1:]
    with pytest.raises(DataError, match="none of 1 chunks has 20 words"):
        sample_chunks(chunks[:1], 5)
    with pytest.raises(ConfigError, match="expected 1 or more"):
        sample_chunks(CHUNKS, 0)
