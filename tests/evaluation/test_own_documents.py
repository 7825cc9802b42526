"""A question that is a document of the corpus itself, as in ArguAna and Quora, and documents of
which one is enough."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import DataWarning

TEXT = "Schools should teach programming because it trains the mind."
COUNTER = "Programming trains the mind of few, so schools should not teach it."
CORPUS = {"q1": TEXT, "a": COUNTER, "b": "Storks nest on chimneys."}


def own_system(question: str) -> list[dict[str, Any]]:
    return [{"id": doc_id, "text": CORPUS[doc_id]} for doc_id in ("q1", "a", "b")]


def chunked_system(question: str) -> list[dict[str, Any]]:
    return [
        {"id": f"{doc_id}-0", "doc_id": doc_id, "text": CORPUS[doc_id]} for doc_id in ("q1", "a")
    ]


def reciprocal_rank(data: rb.Dataset, system: Any) -> list[float]:
    result = rb.evaluate(data, system, perspectives=["retrieval"])
    scores = result.scores
    return [float(value) for value in scores[scores["measure"] == "RR"]["value"]]


@pytest.mark.parametrize(
    ("question", "corpus", "qrels"),
    [
        (TEXT, CORPUS, {"a": 1}),
        (TEXT.upper(), CORPUS, {"a": 1}),
        (f"  {TEXT}\n", CORPUS, {"a": 1}),
        (TEXT.replace(" ", "  "), CORPUS, {"a": 2}),
        (TEXT, {**CORPUS, "q1": {"title": "Schools", "text": TEXT}}, {"a": 1}),
        (f"Schools {TEXT}", {**CORPUS, "q1": {"title": "Schools", "text": TEXT}}, {"a": 1}),
        (TEXT, CORPUS, {"a": 1, "q1": 0}),
        (TEXT, {**CORPUS, "c": TEXT}, {"a": 1}),
    ],
)
@pytest.mark.parametrize("system", [own_system, chunked_system])
def test_a_question_is_left_out_of_its_own_ranking_and_counted(
    question: str, corpus: Any, qrels: dict[str, int], system: Any
) -> None:
    data = rb.Dataset.from_dicts(corpus, {"q1": question}, {"q1": qrels})
    with pytest.warns(DataWarning, match="1 of 1 questions are documents of the corpus themselves"):
        assert reciprocal_rank(data, system) == [1.0]


@pytest.mark.parametrize(
    ("question", "corpus", "qrels"),
    [
        ("Why teach it?", CORPUS, {"a": 1}),  # the ids agree by chance
        (TEXT, {"7": TEXT, "q1": "Another text.", "a": COUNTER}, {"a": 1}),
        (TEXT[:-1], CORPUS, {"a": 1}),
        (TEXT, CORPUS, {"q1": 1}),  # its own document is what it looks for
        (TEXT, {"Q1": TEXT, "a": COUNTER, "b": ""}, {"a": 1}),
        (TEXT, {"q1": TEXT + " It is so.", "a": COUNTER, "b": "B."}, {"a": 1}),
        ("12", {"q1": "1", "a": COUNTER, "b": "B."}, {"a": 1}),
        (TEXT, {"q1": {"title": TEXT, "text": "Other."}, "a": COUNTER}, {"a": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore:.*documents are empty")
def test_other_questions_keep_all_of_their_ranking(
    question: str, corpus: Any, qrels: dict[str, int]
) -> None:
    data = rb.Dataset.from_dicts(corpus, {"q1": question}, {"q1": qrels})

    def search(_: str) -> list[dict[str, Any]]:
        return [{"id": doc_id} for doc_id in data.corpus]

    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        expected = 1 / (1 + list(data.corpus).index(next(iter(qrels))))
        assert reciprocal_rank(data, search) == [pytest.approx(expected)]


def test_our_own_pipeline_leaves_it_out_of_documents_and_chunks() -> None:
    data = rb.Dataset.from_dicts(CORPUS, {"q1": TEXT}, {"q1": {"a": 1}})
    with pytest.warns(DataWarning, match="left out of their own ranking"):
        result = rb.evaluate(data, "bm25", perspectives=["retrieval"])
    assert "q1" not in result.run["q1"]
    assert next(iter(result.run["q1"])) == "a"


ALTERNATIVES = {
    "one": ([["7", "8"]], ["8"], 1.0, 1.0),
    "the other": ([["7", "8"]], ["7"], 1.0, 1.0),
    "both": ([["7", "8"]], ["7", "8"], 1.0, 1.0),
    "neither": ([["7", "8"]], ["9"], 0.0, 0.0),
    "second place": ([["7", "8"]], ["9", "8"], 1.0, 0.5),
    "and": ([["7", "8"], ["9"]], ["8"], 0.5, 1.0),
    "all groups": ([["7", "8"], ["9", "1"]], ["1", "7"], 1.0, 1.0),
    "three": ([["7", "8", "9"]], ["9"], 1.0, 1.0),
}


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_one_of_the_alternatives_is_enough(name: str) -> None:
    groups, ranked, recall, rank = ALTERNATIVES[name]
    case = rb.Case("q1", "a?", metadata={"alternatives": groups})
    corpus = {doc_id: rb.Document(doc_id, f"Text {doc_id}.") for doc_id in "1789"}
    qrels = {"q1": {doc_id: 1 for group in groups for doc_id in group}}
    data = rb.Dataset("mine", "test", corpus, [case], qrels)
    result = rb.evaluate(
        data, lambda _: [{"id": each} for each in ranked], perspectives=["retrieval"]
    )
    values = result.scores.set_index("measure")["value"]
    assert (values["R@5"], values["RR"]) == (recall, rank)
    ceiling = rb.metrics.retrieval.retrieval_ceilings(data, measures=["R@5"])["value"]
    assert ceiling.tolist() == [1.0]
