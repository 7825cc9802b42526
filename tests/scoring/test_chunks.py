"""Chunk statistics of a dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from ragbench.chunkers import chunk
from ragbench.errors import DataError
from ragbench.scoring.chunks import score_chunks
from ragbench.types import Chunk, Dataset, Document


class LengthEmbedder:
    """Texts of equal length are alike, all others are not."""

    name = "length"

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.calls += 1
        return np.eye(100, dtype=np.float32)[[len(text) for text in texts]].reshape(len(texts), 100)


DATASET = Dataset(
    "demo",
    "test",
    {
        "a": Document("a", "One two. Six ten. Eleven twelve."),
        "b": Document("b", "Body of b.", title="Head"),
        "c": Document("c", ""),
    },
    [],
    {},
)


def statistics(chunks: list[Chunk]) -> dict[str, float]:
    frame = score_chunks(DATASET, chunks, embedder=LengthEmbedder())
    assert list(frame.columns) == ["measure", "value"]
    return dict(zip(frame["measure"], frame["value"], strict=True))


def test_documents() -> None:
    found = statistics(chunk(DATASET, "document"))
    # a: 9 tokens in sentences of 8, 8 and 14 characters: cosines 1 and 0; b: 5 tokens, "Head" and "Body of b."
    assert found["coherence"] == pytest.approx((0.5 + 0) / 2)
    assert math.isnan(found.pop("boundary_cuts"))
    del found["coherence"]
    assert found == pytest.approx(
        {"chunks": 2, "tokens_mean": 7, "tokens_median": 7, "tokens_p95": 8.8, "overlap_ratio": 0}
    )


def test_sentences() -> None:
    found = statistics(chunk(DATASET, "sentence", chunk_size=3))
    assert found["boundary_cuts"] == 0.25  # "Body of b." has four tokens and is cut once: 2 of 8 borders
    assert math.isnan(found["coherence"])


def test_overlapping_windows() -> None:
    found = statistics([Chunk("a#0", "a", 0, 8, "One two."), Chunk("a#1", "a", 4, 12, "two. Six")])
    assert found["overlap_ratio"] == 1 - 12 / 16
    assert found["tokens_mean"] == 3
    assert found["boundary_cuts"] == pytest.approx(2 / 3)  # 8 is a sentence's end, 4 and 12 lie inside


def test_no_chunks() -> None:
    found = statistics([])
    assert found.pop("chunks") == 0
    assert all(math.isnan(value) for value in found.values())


def test_all_sentences_in_one_batch() -> None:
    embedder = LengthEmbedder()
    score_chunks(DATASET, chunk(DATASET, "document"), embedder=embedder)
    assert embedder.calls == 1


def test_default_embedder() -> None:
    frame = score_chunks(DATASET, chunk(DATASET, "document"))
    assert -1 <= frame.set_index("measure")["value"]["coherence"] <= 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Chunk("z#0", "z", 0, 1, "x"), "'z', which is not in the corpus of 'demo'"),
        (Chunk("b#0", "b", 0, 4, "Body"), "differs from the text of document 'b' from character 0 to 4"),
    ],
)
def test_chunks_of_another_dataset(wrong: Chunk, message: str) -> None:
    with pytest.raises(DataError, match=message):
        statistics([wrong])
