"""score_retrieval: the finest level that the labels allow."""

from __future__ import annotations

import math

import pytest

from ragbench.errors import DataError
from ragbench.scoring import retrieval_level, score_retrieval, score_run
from ragbench.types import Case, Chunk, Dataset, Run, Span

CHUNKS = [Chunk(f"d#{i}", "d", 10 * i, 10 * i + 10, "x" * 10) for i in range(6)]
DOCUMENTS: Run = {"q1": {"d": 2.0}, "q2": {"d": 1.0}}
RANKED: Run = {"q1": {"d#5": 5.0, "d#1": 4.0, "d#0": 3.0}, "q2": {"d#0": 1.0}}
QRELS = {"q1": {"d": 1}, "q2": {"d": 1}}


def values(dataset: Dataset, *measures: str) -> dict[str, list[float]]:
    frame = score_retrieval(dataset, DOCUMENTS, chunk_run=RANKED, chunks=CHUNKS, measures=measures)
    return {str(name): own.tolist() for name, own in frame.groupby("measure", sort=False)["value"]}


def test_by_documents_where_there_is_nothing_finer() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q1", "?"), Case("q2", "?")], QRELS)
    assert retrieval_level(dataset, chunk_run=RANKED, chunks=CHUNKS) == "documents"
    found = score_retrieval(dataset, DOCUMENTS, chunk_run=RANKED, chunks=CHUNKS)
    assert found.equals(score_run(QRELS, DOCUMENTS))


def test_by_chunk_labels_with_their_grades() -> None:
    cases = [Case("q1", "?", relevant_chunks={"d#1": 2, "d#4": 1}), Case("q2", "?", evidence=(Span("d", 0, 5),))]
    dataset = Dataset("mine", "test", {}, cases, QRELS)
    assert retrieval_level(dataset, chunk_run=RANKED) == "chunk labels"
    ideal = 2 + 1 / math.log2(3)
    found = values(dataset, "RR", "Success@5", "R@5", "nDCG@5")
    assert found["RR"][0] == 0.5
    assert found["Success@5"][0] == 1.0
    assert found["R@5"][0] == 0.5
    assert found["nDCG@5"][0] == pytest.approx(2 / math.log2(3) / ideal)
    assert all(math.isnan(own[1]) for own in found.values()), "q2 has no chunk label"


def test_by_evidence_at_least_half_of_the_shorter_is_shared() -> None:
    cases = [
        Case("q1", "?", evidence=(Span("d", 5, 9), Span("d", 14, 21))),  # d#0 whole; d#1 6 of 7, d#2 1 of 7
        Case("q2", "?", evidence=(Span("d", 0, 3), Span("gone", 0, 9))),
    ]
    dataset = Dataset("mine", "test", {}, cases, QRELS)
    assert retrieval_level(dataset, chunk_run=RANKED, chunks=CHUNKS) == "evidence spans"
    found = values(dataset, "R@5", "RR", "P@3")
    assert found == {"R@5": [1.0, 0.5], "RR": [0.5, 1.0], "P@3": [pytest.approx(2 / 3), pytest.approx(1 / 3)]}


def test_a_long_span_makes_every_chunk_inside_it_relevant() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q1", "?", evidence=(Span("d", 0, 44),))], {})
    assert values(dataset, "R@5") == {"R@5": [2 / 4]}  # d#0 to d#3; of d#4 4 of 10 characters


def test_without_a_chunk_run_documents_are_scored() -> None:
    cases = [Case("q1", "?", relevant_chunks={"d#1": 1}, evidence=(Span("d", 0, 5),))]
    dataset = Dataset("mine", "test", {}, cases, {"q1": {"d": 1}})
    assert retrieval_level(dataset) == "documents"
    assert retrieval_level(dataset, chunk_run={"q1": {"other": 1.0}}) == "documents", "labels of another system"
    assert score_retrieval(dataset, DOCUMENTS, measures=["RR"])["value"].tolist() == [1.0]


def test_chunks_of_two_chunkings_are_refused() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q1", "?", evidence=(Span("d", 0, 5),))], {})
    with pytest.raises(DataError, match="two chunks have the same id"):
        score_retrieval(dataset, DOCUMENTS, chunk_run=RANKED, chunks=[*CHUNKS, CHUNKS[0]])
