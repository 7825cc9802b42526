"""Which chunks are asked about: deterministic, and spread as promised."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.generation import SAMPLINGS, sample_chunks
from ragbench.generation.chunk_sample import spread
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.embedders import load_embedder
from ragbench.testsets.loader import load_dataset
from ragbench.types import Chunk, Dataset, Document

FILLER = (
    " and this is filler that makes the passage long enough to be asked about by anybody at all"
)
TOPICS = {
    "cats": "The cat purrs when it is stroked, and kittens play with wool",
    "taxes": "Income tax returns are due in May, and the tax office sends reminders",
    "stars": "A neutron star is what remains of a supernova, and it spins fast",
}


def topics(copies: int = 6) -> tuple[Dataset, list[Chunk]]:
    corpus = {
        f"{name}{i}": Document(f"{name}{i}", f"{text}{FILLER} {'again ' * i}.") for name, text in TOPICS.items()
        for i in range(copies)
    }  # fmt: skip
    data = Dataset("x", "test", corpus, (), {})
    return data, chunk(data, "document")


def dated(**dates: object) -> tuple[Dataset, list[Chunk]]:
    text = " ".join(f"word{i}" for i in range(60))
    corpus = {
        name: Document(name, text, metadata={} if date is None else {"date": date})
        for name, date in dates.items()
    }
    data = Dataset("x", "test", corpus, (), {})
    return data, chunk(data, "fixed", chunk_size=60)


@pytest.mark.parametrize("how", ["random", "diverse"])
def test_a_larger_sample_begins_with_the_smaller_one(how: str) -> None:
    data, chunks = topics()
    small, large = (sample_chunks(data, chunks, n, how, seed=3) for n in (4, 9))
    assert large[:4] == small
    assert len({one.chunk_id for one in large}) == 9
    assert sample_chunks(data, chunks, 9, how, seed=3) == large


def test_diverse_meets_every_topic_before_any_twice() -> None:
    data, chunks = topics()
    first = [one.doc_id.rstrip("0123456789") for one in sample_chunks(data, chunks, 3, "diverse")]
    assert sorted(first) == sorted(TOPICS)


def test_diverse_covers_real_documents_better_than_chance() -> None:
    data = load_dataset("pydoc")
    chunks = chunk(data, "recursive", chunk_size=256)
    embedder = load_embedder("wordllama")
    everything = embedder.encode([one.text for one in chunks])

    def distance(how: str, seed: int) -> float:
        sample = sample_chunks(data, chunks, 30, how, seed=seed)
        return spread(embedder.encode([one.text for one in sample]), everything)

    by_chance = [distance("random", seed) for seed in range(5)]
    assert distance("diverse", 0) < 0.9 * min(by_chance)


def test_random_differs_by_seed() -> None:
    data, chunks = topics()
    assert sample_chunks(data, chunks, 5, "random", seed=1) != sample_chunks(
        data, chunks, 5, "random", seed=2
    )


def test_recent_takes_one_of_each_newest_document_first() -> None:
    data, chunks = dated(
        old="2019", new="2024-05-01T10:00:00+02:00", mid="2024-04", same="2024-05-01", year=2020
    )
    sampled = sample_chunks(data, chunks, 7, "recent")
    assert [one.doc_id for one in sampled] == ["new", "same", "mid", "year", "old", "new", "same"]
    assert len({one.chunk_id for one in sampled}) == 7


def test_recent_leaves_out_undated_documents_with_a_warning() -> None:
    data, chunks = dated(a="2024", b=None, c="yesterday", d=True)
    with pytest.warns(DataWarning, match="3 documents have no date"):
        assert {one.doc_id for one in sample_chunks(data, chunks, 9, "recent")} == {"a"}
    data, chunks = dated(a=None)
    with pytest.raises(DataError, match="no document has a date in 'date'"):
        sample_chunks(data, chunks, 1, "recent")


@pytest.mark.parametrize("how", ["random", "diverse"])
def test_fewer_chunks_than_wanted_are_all_taken(how: str) -> None:
    data, chunks = topics(1)
    assert len(sample_chunks(data, chunks, 100, how)) == 3


def test_fragments_are_not_sampled() -> None:
    corpus = {
        "a": Document("a", "Too short."),
        "b": Document("b", "这是一段没有空格的中文文本" * 8),
    }
    data = Dataset("x", "test", corpus, (), {})
    assert [one.doc_id for one in sample_chunks(data, chunk(data, "document"), 5, "random")] == [
        "b"
    ]
    with pytest.raises(DataError, match="none of 1 chunks has 20 words"):
        sample_chunks(data, chunk(data, "document")[:1], 5, "random")


def test_wrong_names_and_numbers_are_refused() -> None:
    data, chunks = topics(1)
    with pytest.raises(ConfigError, match="did you mean 'diverse'"):
        sample_chunks(data, chunks, 1, "divers")
    with pytest.raises(ConfigError, match="expected 1 or more"):
        sample_chunks(data, chunks, 0)
    assert tuple(sorted(SAMPLINGS)) == SAMPLINGS
