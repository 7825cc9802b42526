"""score_context: every case once, labels that are there, recall of what reached the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.metrics.context import expected_unique_ratio, tfidf_redundancy
from ragbench.scoring import context_ceilings, diversity_verdicts, score_context
from ragbench.types import Answer, Case, Chunk, Dataset, Document, Passage, Span

TEXT = "The tower opened in 1889. Gustave Eiffel built it. It stands in Paris. The tower opened in 1889 indeed."
BORDERS = [(0, 25), (26, 50), (51, 70), (71, len(TEXT))]
CHUNKS = [Chunk(f"tower#{i}", "tower", start, end, TEXT[start:end]) for i, (start, end) in enumerate(BORDERS)]
CORPUS = {"tower": Document("tower", TEXT), "tea": Document("tea", "Tea is picked in June.")}
CASES = [
    Case(
        "q1",
        "When?",
        query_type="faq",
        gold_facts=(("1889",), ("Eiffel",)),
        evidence=(Span("tower", 0, 25), Span("tower", 26, 50)),
        expected_chunks=("tower#0", "tower#1"),
    ),
    Case("q2", "Where?"),
    Case("q3", "Who?", gold_facts=(("Eiffel",),), evidence=(Span("tower", 26, 50),)),
]
QRELS = {"q1": {"tower": 2, "tea": 1, "sea": 0}, "q2": {"tower": 1}, "q3": {"tower": 1}}
DATASET = Dataset("mine", "test", CORPUS, CASES, QRELS)


def by_measure(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for query_id, measure, value in frame.itertuples(index=False):
        table.setdefault(measure, {})[query_id] = value
    return table


def scored(answers: Sequence[Answer], dataset: Dataset = DATASET) -> dict[str, dict[str, float]]:
    table = by_measure(score_context(dataset, answers, CHUNKS))
    assert all(list(values) == [case.query_id for case in dataset.cases] for values in table.values())
    return table


def test_every_measure_by_hand() -> None:
    values = scored([Answer("q1", "...", contexts=("tower#0", "tower#3", "tower#2"))])
    own = {measure: table["q1"] for measure, table in values.items()}
    texts = [CHUNKS[i].text for i in (0, 3, 2)]
    background = [document.full_text for document in CORPUS.values()]
    assert own == {
        "ngram_redundancy": pytest.approx(1 / 3),  # the second contains the first, the third shares nothing
        "tfidf_redundancy": tfidf_redundancy(texts, background=background),
        "unique_token_ratio": pytest.approx(9 / 15),
        "context_recall": 0.5,
        "expected_document": 1.0,
        "fact_dispersion": 2.0,
        "context_fact_recall": 0.5,
        "context_evidence_recall": pytest.approx(25 / 49),
        "context_chunk_recall": 0.5,
        "diversity_fits": 1.0,
    }


def test_unscored_is_nan_and_not_found_is_zero() -> None:
    values = scored([Answer("q1", "..."), Answer("q2", "?", contexts=("tower#0",)), Answer("q3", "", error="time-out")])
    for measure, table in values.items():
        expected = 0.0 if measure.endswith("recall") or measure == "expected_document" else math.nan
        assert table["q1"] == pytest.approx(expected, nan_ok=True), f"{measure} of an empty context"
        assert math.isnan(table["q3"]), f"{measure} of a failed answer"
    assert values["context_recall"]["q2"] == 1.0
    assert math.isnan(values["context_fact_recall"]["q2"])
    assert math.isnan(values["diversity_fits"]["q2"])


def test_no_answers_leave_every_case_unscored() -> None:
    values = scored([])
    assert values
    assert all(math.isnan(value) for table in values.values() for value in table.values())


def test_only_labels_that_the_dataset_has_make_rows() -> None:
    bare = Dataset("bare", "test", CORPUS, [Case("q1", "?")], {"q1": {"tower": 1}})
    assert list(scored([Answer("q1", "...", contexts=("tower#0",))], bare)) == [
        "ngram_redundancy",
        "tfidf_redundancy",
        "unique_token_ratio",
        "context_recall",
        "expected_document",
    ]


def test_passages_of_a_system_with_documents_of_its_own() -> None:
    dataset = Dataset("own", "test", {}, [CASES[0], CASES[1]], QRELS)
    passages = (Passage("a", "opened in 1889"), Passage("b", "opened in 1889"), Passage("c", "by Eiffel"))
    answers = [Answer("q1", "...", passages=passages), Answer("q2", "...", passages=passages[2:])]
    values = by_measure(score_context(dataset, answers))
    assert values["ngram_redundancy"]["q1"] == pytest.approx(1 / 3)
    assert values["context_fact_recall"]["q1"] == 1.0
    assert math.isnan(values["context_recall"]["q1"]), "their documents are unknown"
    assert math.isnan(values["context_evidence_recall"]["q1"])
    # no corpus: words are as rare as in all that was given
    everything = ["opened in 1889", "by Eiffel"]
    texts = [passage.text for passage in passages]
    assert values["tfidf_redundancy"]["q1"] == tfidf_redundancy(texts, background=everything)

    matched = (Passage("a", "opened in 1889", doc_id="tower"), Passage("b", "x"))
    recall = by_measure(score_context(dataset, [Answer("q1", "...", passages=matched), Answer("q2", "...")]))
    assert recall["context_recall"] == {"q1": 0.5, "q2": 0.0}
    assert recall["expected_document"] == {"q1": 1.0, "q2": 0.0}


def test_verdicts_are_those_of_the_redundancy() -> None:
    answers = [Answer("q1", "...", contexts=("tower#0", "tower#3")), Answer("q2", "...")]
    table = diversity_verdicts(DATASET, answers, CHUNKS)
    redundancy = scored(answers)["tfidf_redundancy"]
    assert table["query_id"].tolist() == ["q1", "q2"]
    assert table["query_type"].tolist() == ["faq", ""]
    assert table["verdict"].tolist() == ["fitting", ""]
    np.testing.assert_allclose(table["diversity"], [1 - redundancy["q1"], math.nan])


def test_context_ceilings_depend_on_the_length() -> None:
    answers = [Answer("q1", "...", contexts=("tower#0", "tower#1")), Answer("q2", "...")]
    frame = context_ceilings(DATASET, answers, CHUNKS)
    assert frame.to_dict("records") == [
        {"query_id": "q1", "measure": "unique_token_ratio", "value": expected_unique_ratio(9)}
    ]


def test_nothing_given_is_changed_and_repeats_to_the_last_bit() -> None:
    answers = [Answer("q1", "...", contexts=("tower#0", "tower#3", "tower#2"))]
    pd.testing.assert_frame_equal(score_context(DATASET, answers, CHUNKS), score_context(DATASET, answers, CHUNKS))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([Answer("q9", "...")], "'q9', which"),
        ([Answer("q1", "a"), Answer("q1", "b")], "two answers to query 'q1'"),
        ([Answer("q1", "a", contexts=("tower#9",))], r"'tower#9', whose text is not there"),
    ],
)
def test_answers_of_other_questions_are_refused(answers: list[Answer], message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_context(DATASET, answers, CHUNKS)
