"""A corpus that stays on the disk is the one that is read into memory, and chunks of it are the
same chunks.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from ragbench.datasets import large
from ragbench.datasets.corpus import load_corpus
from ragbench.datasets.large import LargeCorpus
from ragbench.errors import DataError
from ragbench.generation import generate_answers
from ragbench.retrieval import BM25, BM25Disk, Hybrid, rerank, retrieve, to_documents
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.large_chunks import LargeChunks
from ragbench.testsets.loader import load_dataset
from ragbench.types import Chunk, Dataset


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path, lines: list[str]) -> Path:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "Do cats nap?"}\n{"_id": "q2", "text": "dog 7"}\n'
    )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td3\t1\nq2\td7\t1\n")
    return folder


def documents(n: int = 30) -> list[str]:
    lines = [
        {
            "_id": f"d{i}",
            "title": f"Título {i}" if i % 3 else "",
            "text": f"Cats nap é {i}.\n\nA dog barks {i} times. " * (i % 4),
            "metadata": {"year": i, "tags": ["a", None]},
            "extra": i % 2 or None,
        }
        for i in range(n)
    ]
    return [json.dumps(line, ensure_ascii=i % 2 == 0) for i, line in enumerate(lines)]


def both(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Dataset, Dataset]:
    small = load_dataset(folder)
    monkeypatch.setattr(large, "LARGE_BYTES", 0)
    return small, load_dataset(folder)


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_large_corpus_is_the_same_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    folder = write(tmp_path / "set", documents())
    small, big = both(folder, monkeypatch)
    assert isinstance(small.corpus, dict)
    assert isinstance(big.corpus, LargeCorpus)
    assert list(big.corpus.items()) == list(small.corpus.items())
    assert list(big.corpus) == list(small.corpus)
    assert list(big.corpus.values()) == list(small.corpus.values())
    assert [big.corpus[doc_id] for doc_id in small.corpus] == list(small.corpus.values())
    assert len(big.corpus) == 30
    assert "d29" in big.corpus
    assert "d30" not in big.corpus
    with pytest.raises(KeyError, match="nothing"):
        big.corpus["nothing"]
    assert big.fingerprint == small.fingerprint
    assert dict(pickle.loads(pickle.dumps(big.corpus))) == small.corpus
    assert dict(load_corpus(folder).corpus) == small.corpus
    assert len(list(own_cache.glob("arrays/corpus/*.kept"))) == 1, "built once"
    next(own_cache.glob("arrays/corpus/*.kept")).write_bytes(b"SQLite format 3 cut short")
    assert dict(load_dataset(folder).corpus) == small.corpus


@pytest.mark.parametrize(
    "changed",
    [
        {9: documents()[4]},
        {9: documents()[4], 20: "{"},
        {9: "{", 20: documents()[4]},
        {9: '{"_id": "x"}', 12: documents()[4], 13: documents()[4]},
        {9: documents()[4], 12: documents()[4], 15: '{"_id": 5.5}'},
        {3: '{"_id": "x", "text": 3}'},
        dict.fromkeys(range(30), ""),
    ],
)
def test_a_large_corpus_has_the_errors_of_a_small_one(
    changed: dict[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "set", [changed.get(i, line) for i, line in enumerate(documents())])
    with pytest.raises(DataError) as small:
        load_dataset(folder)
    monkeypatch.setattr(large, "LARGE_BYTES", 0)
    with pytest.raises(DataError) as big:
        load_dataset(folder)
    assert str(big.value) == str(small.value)


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_chunks_of_a_large_corpus_are_the_same_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "set", documents())
    small, big = both(folder, monkeypatch)
    for chunker in ("document", "recursive", "fixed", str.split):
        options = {"chunk_size": 9, "chunk_overlap": 3}
        expected, found = (chunk(data, chunker, **options) for data in (small, big))  # type: ignore[arg-type]
        assert isinstance(found, LargeChunks)
        assert list(found) == expected
        assert [found[i] for i in range(len(found))] == expected
        assert found[3:9] + found[-1:] == expected[3:9] + expected[-1:]
        assert list(found.ids) == [one.chunk_id for one in expected]
        assert [found.places[one.chunk_id] for one in expected] == list(range(len(expected)))
        assert dict(found.by_id) == {one.chunk_id: one for one in expected}
        for unknown in ("d3#1-2", "d3", "x#0-1", ""):
            assert unknown not in found.by_id


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_answers_from_a_large_corpus_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, big = both(write(tmp_path / "set", documents()), monkeypatch)
    made = []
    for data in (small, big):
        chunks = chunk(data, "sentence", chunk_size=9)
        runs = [retrieve(make(chunks), data, chunks, depth=5) for make in (BM25, BM25Disk)]
        runs += [Hybrid(chunks, "wordllama").search(data.queries)]
        runs += [
            rerank(
                runs[0],
                data.queries,
                chunks,
                lambda query, texts: [len(text) for text in texts],
                k=3,
            )
        ]
        answers = [
            replace(one, latency_ms={}) for one in generate_answers(data, runs[0], chunks, k=2)
        ]
        made.append((runs, to_documents(runs[1], chunks), answers))
    assert made[0] == made[1]
    with pytest.raises(DataError, match="'d3#1-2' is not an id"):
        to_documents({"q1": {"d3#1-2": 1.0}}, [Chunk.cut("d3", "text", 0, 2)])
