"""Which chunks are asked about: the same ones for a seed, and spread as promised."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.generation import SAMPLINGS, sample_chunks
from ragbench.types import Chunk, Dataset, Document


def data_of(texts: dict[str, str], **dates: str) -> tuple[Dataset, list[Chunk]]:
    corpus = {
        name: Document(name, text, metadata={"date": dates[name]} if name in dates else {})
        for name, text in texts.items()
    }
    chunks = [Chunk(f"{name}#0", name, 0, len(text), text) for name, text in texts.items()]
    return Dataset("mine", "test", corpus, [], {}), chunks


MANY = data_of({f"d{i}": f"passage {i} " + "of many words " * 8 for i in range(18)})
FILLER = (
    " and this is filler that makes the passage long enough to be asked about by anybody at all"
)
TOPICS = {
    "cats": "The cat purrs when it is stroked, and kittens play with wool",
    "taxes": "Income tax returns are due in May, and the tax office sends reminders",
    "stars": "A neutron star is what remains of a supernova, and it spins fast",
}


@pytest.mark.parametrize("how", ["random", "diverse"])
def test_a_larger_sample_begins_with_the_smaller_one(how: str) -> None:
    small, large = (sample_chunks(*MANY, n, how, seed=3) for n in (4, 9))
    assert large[:4] == small
    assert len({chunk.chunk_id for chunk in large}) == 9
    assert sample_chunks(*MANY, 9, how, seed=3) == large
    assert sample_chunks(*MANY, 9, seed=3) != sample_chunks(*MANY, 9, seed=4)


def test_diverse_meets_every_topic_before_any_twice() -> None:
    texts = {
        f"{k}{i}": f"{text}{FILLER} {'again ' * i}." for k, text in TOPICS.items() for i in range(6)
    }
    sampled = sample_chunks(*data_of(texts), 3, "diverse")
    assert sorted(chunk.doc_id.rstrip("0123456789") for chunk in sampled) == sorted(TOPICS)


def test_recent_takes_one_of_each_newest_document_first_and_none_without_a_date() -> None:
    dates = {
        "old": "2019",
        "new": "2024-05-01T10:00:00+02:00",
        "mid": "2024-04",
        "bad": "yesterday",
    }
    data, chunks = data_of(dict.fromkeys((*dates, "none"), 2 * FILLER), **dates)
    twice = [*chunks, Chunk("new#1", "new", 0, len(FILLER), 2 * FILLER)]
    sampled = sample_chunks(data, twice, 9, "recent")
    assert [chunk.doc_id for chunk in sampled] == ["new", "mid", "old", "new"]
    assert len({chunk.chunk_id for chunk in sampled}) == 4
    with pytest.raises(DataError, match="no document has a date"):
        sample_chunks(data, chunks[-1:], 1, "recent")


@pytest.mark.parametrize("how", SAMPLINGS[:2])
def test_fewer_chunks_than_wanted_are_all_taken(how: str) -> None:
    data, chunks = MANY
    assert len(sample_chunks(data, chunks[:3], 100, how)) == 3


def test_fragments_are_not_sampled() -> None:
    data, chunks = data_of({"a": "Too short.", "b": "这是一段没有空格的中文文本" * 8})
    assert sample_chunks(data, chunks, 5) == chunks[1:]
    with pytest.raises(DataError, match="none of 1 chunks has 20 words"):
        sample_chunks(data, chunks[:1], 5)
    with pytest.raises(ConfigError, match="expected 1 or more"):
        sample_chunks(*MANY, 0)
    with pytest.raises(ConfigError, match="did you mean 'diverse'"):
        sample_chunks(*MANY, 1, "divers")
