"""The chunkings of the study, documents joined by title, and scores of every chunking."""

import pandas as pd
import pytest

import ragbench as rb
from ragbench import studies
from ragbench.studies import collections
from ragbench.studies.chunking_scores import _is_searched_by_the_slow_retriever

CORPUS = {
    "p1": {"title": "Cats", "text": "Cats sleep most of the day."},
    "p2": {"title": "Dogs", "text": "Dogs guard houses."},
    "p3": {"title": "Cats", "text": "They hunt at night."},
}


def cats_and_dogs() -> rb.Dataset:
    documents = {
        doc_id: rb.Document(doc_id, fields["text"], title=fields["title"])
        for doc_id, fields in CORPUS.items()
    }
    cases = {}
    for query_id, doc_id, quote in (("q1", "p1", "most of the day"), ("q2", "p3", "at night")):
        start = documents[doc_id].full_text.index(quote)
        evidence = (rb.Span(doc_id, start, start + len(quote)),)
        cases[query_id] = rb.Case(query_id, "When do cats sleep?", evidence=evidence)
    cases["q3"] = rb.Case("q3", "What do dogs guard?")
    return rb.Dataset.from_dicts(documents, cases)


def test_thirty_chunkings_and_eight_published_ones() -> None:
    chunkings = studies.list_chunkings(published=False)
    assert len(chunkings) == len(set(chunkings)) == 30
    assert ("recursive", 256, 64) in chunkings
    assert ("sentence", 256, 64) not in chunkings
    assert sum(map(_is_searched_by_the_slow_retriever, chunkings)) == 10
    published = studies.list_chunkings(published=True)
    assert len(published) == 38
    assert sum(map(_is_searched_by_the_slow_retriever, published)) == 10


def test_documents_of_one_title_are_joined_and_evidence_moves_along() -> None:
    joined = collections.joined_by_title(cats_and_dogs())
    assert joined.corpus["Cats"].full_text == (
        "Cats\n\nCats sleep most of the day.\n\nThey hunt at night."
    )
    quotes = {
        case.query_id: joined.corpus[span.doc_id].full_text[span.start : span.end]
        for case in joined
        for span in case.evidence
    }
    assert quotes == {"q1": "most of the day", "q2": "at night"}


@pytest.fixture
def _collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every collection cats and dogs."""
    monkeypatch.setattr(collections, "load_dataset", lambda _: cats_and_dogs())


@pytest.mark.usefixtures("_collection")
def test_only_questions_with_evidence_are_scored() -> None:
    data = studies.load_collection("cats")
    assert [case.query_id for case in data] == ["q1", "q2"]
    assert len(studies.load_collection("cats", sample=1)) == 1


@pytest.mark.usefixtures("_collection")
def test_each_chunking_is_scored_by_each_retriever() -> None:
    data = studies.load_collection("cats")
    chunkings = [c for c in studies.list_chunkings(published=False) if c[:2] == ("fixed", 64)]
    table = studies.score_chunkings(data, chunkings, "minilm")
    assert len(table) == 2 * len(chunkings) * 3  # questions, chunkings, retrievers
    assert table["span_recall@500tok"].eq(1).all()  # three short documents fit
    assert set(table["document"]) == {"p1", "p3"}
    means = studies.mean_evidence(table)
    assert means.shape == (2, 2 * 3)
    assert "- bm25: most evidence in 5 chunks by fixed 64 0" in studies.best_chunkings(means)


def test_the_best_chunking_at_k_and_at_a_budget_may_differ() -> None:
    rows = [
        ("bm25", "fixed", 64, 0, 0.2, 0.9),
        ("bm25", "fixed", 1024, 0, 0.8, 0.4),
    ]
    columns = ["retriever", "chunker", "size", "overlap", "span_recall@5", "span_recall@500tok"]
    text = studies.best_chunkings(studies.mean_evidence(pd.DataFrame(rows, columns=columns)))
    assert "in 5 chunks by fixed 1024 0, in 500 tokens by fixed 64 0" in text


@pytest.mark.usefixtures("_collection")
@pytest.mark.parametrize("sample", [0, 5])
def test_a_sample_larger_than_the_set_takes_all(sample: int) -> None:
    assert len(studies.load_collection("cats", sample=sample)) == 2
