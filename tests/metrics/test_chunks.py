"""Chunk statistics of a dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from ragbench.errors import DataError
from ragbench.metrics.chunk_statistics import score_chunks
from ragbench.retrieval.chunkers import chunk
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
    # a: 9 tokens in sentences of 8, 8 and 14 characters: cosines 1 and 0; b: 5 tokens, "Head" and
    # "Body of b."
    assert found["coherence"] == pytest.approx((0.5 + 0) / 2)
    assert math.isnan(found.pop("boundary_cuts"))
    del found["coherence"]
    assert found == pytest.approx(
        {"chunks": 2, "tokens_mean": 7, "tokens_median": 7, "tokens_p95": 8.8, "overlap_ratio": 0}
    )


def test_sentences() -> None:
    found = statistics(chunk(DATASET, "sentence", chunk_size=3))
    assert (
        found["boundary_cuts"] == 0.25
    )  # "Body of b." has four tokens and is cut once: 2 of 8 borders
    assert math.isnan(found["coherence"])


def test_overlapping_windows() -> None:
    found = statistics([Chunk("a#0", "a", 0, 8, "One two."), Chunk("a#1", "a", 4, 12, "two. Six")])
    assert found["overlap_ratio"] == 1 - 12 / 16
    assert found["tokens_mean"] == 3
    assert found["boundary_cuts"] == pytest.approx(
        2 / 3
    )  # 8 is a sentence's end, 4 and 12 lie inside


TILED = "Aaaa bbb. Cccc ddd. Eeee."  # sentences 0-9, 10-19 and 20-25


def tiles(*borders: tuple[int, int]) -> dict[str, float]:
    """Statistics of these parts of that text, whose sentences have the vectors (1, 0), (0, 1) and
    (0.6, 0.8).
    """

    class Embedder:
        name = "given"

        def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            vectors = {"Aaaa bbb.": (1.0, 0.0), "Cccc ddd.": (0.0, 1.0), "Eeee.": (0.6, 0.8)}
            return np.array([vectors[text] for text in texts], dtype=np.float32).reshape(-1, 2)

    dataset = Dataset(
        "demo", "test", {"d": Document("d", TILED), "e": Document("e", TILED)}, [], {}
    )
    chunks = [Chunk(f"d#{i}", "d", a, b, TILED[a:b]) for i, (a, b) in enumerate(borders)]
    frame = score_chunks(dataset, chunks, embedder=Embedder())
    return dict(zip(frame["measure"], frame["value"], strict=True))


@pytest.mark.parametrize(
    ("borders", "cuts"),
    [
        ([(0, 9), (10, 25)], 0),
        ([(0, 14), (15, 25)], 1),
        ([(0, 14), (10, 25)], 0.5),  # overlap: ends at 14, begins at 10
        ([(0, 4), (5, 9), (10, 25)], 0.5),
        ([(0, 25)], math.nan),  # the ends of the document are not boundaries
    ],
)
def test_boundary_cuts(borders: list[tuple[int, int]], cuts: float) -> None:
    assert tiles(*borders)["boundary_cuts"] == pytest.approx(cuts, nan_ok=True)


@pytest.mark.parametrize(
    ("borders", "coherence"),
    [
        ([(0, 25)], 0.4),  # the cosines are 0 and 0.8
        ([(10, 25)], 0.8),
        ([(0, 18)], math.nan),  # holds one sentence as a whole
        ([(3, 25)], 0.8),
        ([(22, 25)], math.nan),  # begins after the last sentence does
        ([(0, 25), (10, 25), (10, 19)], 0.6),
    ],
)
def test_coherence(borders: list[tuple[int, int]], coherence: float) -> None:
    assert tiles(*borders)["coherence"] == pytest.approx(coherence, nan_ok=True)


def test_overlap_of_chunks() -> None:
    assert tiles((0, 10), (10, 20), (20, 25))["overlap_ratio"] == 0
    assert tiles((0, 10), (5, 15), (10, 20))["overlap_ratio"] == 1 - 20 / 30
    assert tiles((5, 15), (0, 20), (20, 25))["overlap_ratio"] == 1 - 25 / 35
    assert tiles((0, 10), (0, 10))["overlap_ratio"] == 0.5
    both = [Chunk("d#0", "d", 0, 10, TILED[:10]), Chunk("e#0", "e", 0, 10, TILED[:10])]
    dataset = Dataset(
        "demo", "test", {"d": Document("d", TILED), "e": Document("e", TILED)}, [], {}
    )
    assert score_chunks(dataset, both).set_index("measure")["value"]["overlap_ratio"] == 0


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
        (
            Chunk("b#0", "b", 0, 4, "Body"),
            "differs from the text of document 'b' from character 0 to 4",
        ),
    ],
)
def test_chunks_of_another_dataset(wrong: Chunk, message: str) -> None:
    with pytest.raises(DataError, match=message):
        statistics([wrong])
