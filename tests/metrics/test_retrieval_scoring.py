"""score_retrieval: every level that the labels allow, and names that carry it."""

from __future__ import annotations

import math

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.metrics import score_retrieval, score_run
from ragbench.metrics.ranking_measures import DEFAULT_MEASURES
from ragbench.metrics.retrieval_levels import retrieval_levels
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
    assert retrieval_levels(dataset, chunk_run=RANKED, chunks=CHUNKS) == ("document",)
    found = score_retrieval(
        dataset, DOCUMENTS, chunk_run=RANKED, chunks=CHUNKS, measures=DEFAULT_MEASURES
    )
    assert found.equals(score_run(QRELS, DOCUMENTS))


def test_by_chunk_labels_with_their_grades() -> None:
    cases = [
        Case("q1", "?", relevant_chunks={"d#1": 2, "d#4": 1}),
        Case("q2", "?", evidence=(Span("d", 0, 5),)),
    ]
    dataset = Dataset("mine", "test", {}, cases, QRELS)
    assert retrieval_levels(dataset, chunk_run=RANKED) == ("document", "chunk")
    ideal = 2 + 1 / math.log2(3)
    found = values(dataset, "chunk:RR", "chunk:Success@5", "chunk:R@5", "chunk:nDCG@5")
    assert found["chunk:RR"][0] == 0.5
    assert found["chunk:Success@5"][0] == 1.0
    assert found["chunk:R@5"][0] == 0.5
    assert found["chunk:nDCG@5"][0] == pytest.approx(2 / math.log2(3) / ideal)
    assert all(math.isnan(own[1]) for own in found.values()), "q2 has no chunk label"


def test_by_evidence_at_least_half_of_the_shorter_is_shared() -> None:
    cases = [
        Case(
            "q1", "?", evidence=(Span("d", 5, 9), Span("d", 14, 21))
        ),  # d#0 whole; d#1 6 of 7, d#2 1 of 7
        Case("q2", "?", evidence=(Span("d", 0, 3), Span("gone", 0, 9))),
    ]
    dataset = Dataset("mine", "test", {}, cases, QRELS)
    assert retrieval_levels(dataset, chunk_run=RANKED, chunks=CHUNKS) == ("document", "span")
    found = values(dataset, "span:R@5", "SPAN:rr", "span:P@3", "RR")
    thirds = [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert found == {
        "span:R@5": [1.0, 0.5],
        "span:RR": [0.5, 1.0],
        "span:P@3": thirds,
        "RR": [1.0, 1.0],
    }


def test_a_long_span_makes_every_chunk_inside_it_relevant() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q1", "?", evidence=(Span("d", 0, 44),))], {})
    assert values(dataset, "span:R@5") == {
        "span:R@5": [2 / 4]
    }  # d#0 to d#3; of d#4 4 of 10 characters


def test_without_a_chunk_run_documents_are_scored() -> None:
    cases = [Case("q1", "?", relevant_chunks={"d#1": 1}, evidence=(Span("d", 0, 5),))]
    dataset = Dataset("mine", "test", {}, cases, {"q1": {"d": 1}})
    assert retrieval_levels(dataset) == ("document",)
    assert retrieval_levels(dataset, chunk_run={"q1": {"other": 1.0}}) == ("document",), (
        "labels of another system"
    )
    assert score_retrieval(dataset, DOCUMENTS, measures=["RR"])["value"].tolist() == [1.0]


def test_chunks_of_two_chunkings_are_refused() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q1", "?", evidence=(Span("d", 0, 5),))], {})
    with pytest.raises(DataError, match="two chunks have the same id"):
        score_retrieval(
            dataset,
            DOCUMENTS,
            chunk_run=RANKED,
            chunks=[*CHUNKS, CHUNKS[0]],
            measures=["span:RR"],
        )
    with pytest.raises(DataError, match="query 'q1': 'other#0' is not an id of the 6 chunks"):
        score_retrieval(
            dataset,
            DOCUMENTS,
            chunk_run={"q1": {"other#0": 1.0}},
            chunks=CHUNKS,
            measures=["span:RR"],
        )


def test_each_level_has_the_same_measures_under_names_of_its_own() -> None:
    cases = [
        Case("q1", "?", relevant_chunks={"d#1": 1}, evidence=(Span("d", 0, 5),)),
        Case("q2", "?"),
    ]
    dataset = Dataset("mine", "test", {}, cases, QRELS)
    expected = [
        f"{prefix}{name}" for prefix in ("", "span:", "chunk:") for name in DEFAULT_MEASURES
    ]
    found = score_retrieval(dataset, DOCUMENTS, chunk_run=RANKED, chunks=CHUNKS, measures=expected)
    assert list(found["measure"].unique()) == expected
    documents = found[~found["measure"].str.contains(":")]
    assert documents.equals(score_run(QRELS, DOCUMENTS)), (
        "labels of chunks never change the scores of documents"
    )


def test_a_level_without_labels_is_refused() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q1", "?")], {"q1": {"d": 1}})
    with pytest.raises(
        DataError, match="span:nDCG@5 cannot be measured on 'mine': no question has gold evidence"
    ):
        values(dataset, "span:nDCG@5")
    with pytest.raises(ConfigError, match="unknown measure 'spam:nDCG@5'"):
        values(dataset, "spam:nDCG@5")


def test_exactly_half_of_a_chunk_is_enough() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q2", "?", evidence=(Span("d", 5, 40),))], {})
    assert values(dataset, "span:RR") == {"span:RR": [1.0]}


def test_chunk_ids_next_to_a_document_that_is_found_are_no_reason_to_warn() -> None:
    table = score_run({"q": {"d": 1}}, {"q": {"d#1": 2.0, "d": 1.0}}, ["RR"])
    assert table["value"].tolist() == [0.5]
