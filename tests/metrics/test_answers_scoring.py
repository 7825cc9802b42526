"""score_answers and abstention_table: each case once, typed states, one batch of embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.metrics import abstention_table, score_answers
from ragbench.metrics.answer_similarity import score_own
from ragbench.registry import Measure
from ragbench.types import Answer, Case, Dataset


class Letters:
    """An embedder that counts letters; it remembers what it was asked."""

    name = "letters"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked.append(list(texts))
        rows = np.array(
            [
                [text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
                for text in texts
            ]
        )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


CASES = [
    Case(
        "q1", "Where?", reference_answer="in Paris", gold_facts=(("Paris",), ("France", "French"))
    ),
    Case("q2", "When?", reference_answer="in 1889"),
    Case("q3", "Who?", gold_facts=(("Eiffel",),)),
    Case("q4", "Why?"),
    Case(
        "q5", "What colour is tomorrow?", reference_answer="unknown", expected_outcome="no_results"
    ),
]
DATASET = Dataset("mine", "test", {}, CASES, {})


def values(answers: Sequence[Answer]) -> dict[str, dict[str, float]]:
    scores = score_answers(DATASET, answers, embedder=Letters())
    assert scores["query_id"].tolist() == ["q1", "q2", "q3", "q4", "q5"] * 3
    assert scores["value"].dtype == np.float64
    by_measure: dict[str, dict[str, float]] = {}
    for query_id, measure, value in scores.itertuples(index=False):
        by_measure.setdefault(measure, {})[query_id] = value
    return by_measure


def test_each_case_once_per_measure_and_what_lacks_a_label_is_unscored() -> None:
    answers = [
        Answer("q2", "1889"),
        Answer("q1", "In Paris"),
        Answer("q3", "Gustave Eiffel"),
        Answer("q4", "So."),
    ]
    scores = values(answers)
    assert list(scores) == ["semantic_similarity", "token_f1", "gold_fact_coverage"]
    assert scores["token_f1"]["q1"] == 1.0
    assert scores["token_f1"]["q2"] == pytest.approx(2 / 3)
    assert scores["gold_fact_coverage"]["q1"] == 0.5
    assert scores["gold_fact_coverage"]["q3"] == 1.0
    assert scores["semantic_similarity"]["q1"] == 1.0
    unscored = {
        (m, q)
        for m, by_query in scores.items()
        for q, value in by_query.items()
        if math.isnan(value)
    }
    assert unscored == {
        *(("token_f1", q) for q in ("q3", "q4", "q5")),
        *(("semantic_similarity", q) for q in ("q3", "q4", "q5")),
        *(("gold_fact_coverage", q) for q in ("q2", "q4", "q5")),
    }


@pytest.mark.parametrize(
    "answer",
    [
        Answer("q1", "in Paris", error="time-out"),
        Answer("q1", "in Paris", outcome="failed"),
        Answer("q1", "no answer found in the documents", outcome="no_results"),
        Answer("q1", "I must not say.", outcome="blocked"),
    ],
)
def test_abstentions_and_failures_are_unscored(answer: Answer) -> None:
    assert all(math.isnan(by_query["q1"]) for by_query in values([answer]).values())


@pytest.mark.parametrize("outcome", [None, "success", "uncertain"])
def test_an_empty_answer_that_claims_to_be_one_scores_zero(outcome: str | None) -> None:
    scores = values([Answer("q1", "", outcome=outcome)])
    assert [scores[measure]["q1"] for measure in sorted(scores)] == [0.0, 0.0, 0.0]


def test_an_answer_to_a_question_without_one_is_not_measured_by_its_wording() -> None:
    assert all(
        math.isnan(by_query["q5"]) for by_query in values([Answer("q5", "unknown")]).values()
    )


def test_one_batch_and_each_text_once() -> None:
    model = Letters()
    score_answers(DATASET, [Answer("q1", "in Paris"), Answer("q2", "in Paris")], embedder=model)
    assert model.asked == [["in Paris", "in 1889"]]


def test_nothing_to_compare_needs_no_embedder() -> None:
    scores = score_answers(
        DATASET, [Answer("q3", "Eiffel")], embedder="no such model: it must not be loaded"
    )
    assert scores["value"].notna().sum() == 1


def test_no_answers_at_all() -> None:
    assert score_answers(DATASET, [])["value"].isna().all()


def test_default_embedder_prefers_the_right_answer() -> None:
    answers = [Answer("q1", "The tower stands in Paris."), Answer("q2", "Bananas are yellow.")]
    scores = score_answers(DATASET, answers)
    similarity = scores[scores["measure"] == "semantic_similarity"].set_index("query_id")["value"]
    assert 0 <= similarity["q2"] < 0.4 < similarity["q1"] <= 1


def test_abstention_table_counts_every_case_once() -> None:
    cases = [
        *(Case(f"a{i}", "?") for i in range(7)),
        *(Case(f"u{i}", "?", expected_outcome="no_results") for i in range(3)),
        Case("u3", "?", expected_outcome="blocked"),
    ]
    answers = [
        Answer("a0", "Yes.", outcome="success"),
        Answer("a1", "Perhaps.", outcome="uncertain"),
        Answer("a2", "Yes."),
        Answer("a3", "Nothing found.", outcome="no_results"),
        Answer("a4", "", error="time-out"),
        Answer("a6", " ", outcome="success"),
        Answer("u0", "Nothing found.", outcome="no_results"),
        Answer("u1", "Of course.", outcome="success"),
        Answer("u3", "I must not say.", outcome="blocked"),
    ]
    table = abstention_table(Dataset("mine", "test", {}, cases, {}), answers)
    expected = pd.DataFrame(
        {"answered": [3, 1], "abstained": [2, 2], "failed": [2, 1]},
        index=["answerable", "unanswerable"],
    )
    pd.testing.assert_frame_equal(table, expected)
    assert table.to_numpy().sum() == len(cases)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([Answer("q9", "?")], r"belongs to query 'q9', which Dataset\('mine'.* such as 'q1'"),
        ([Answer("q1", "?"), Answer("q1", "!")], "two answers to query 'q1'"),
    ],
)
def test_answers_that_do_not_belong_are_named(answers: list[Answer], message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_answers(DATASET, answers)
    with pytest.raises(DataError, match=message):
        abstention_table(DATASET, answers)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("It has three. [2] It is old. [1]", "It has three. It is old."),
        ("It has three [1][2].", "It has three."),
        ("It has three [1, 2], it is old.", "It has three, it is old."),
        ("d[1] is the first of [5] and x = [1]5", "d[1] is the first of [5] and x = [1]5"),
    ],
)
def test_numbers_of_citations_are_not_words_of_an_answer(text: str, without: str) -> None:
    case = Case("q", "?", reference_answer=without, gold_facts=(("2",),))
    dataset = Dataset("demo", "test", {}, [case], {})
    answer = Answer("q", text, contexts=("d#0", "d#1"), outcome="success")
    values = score_answers(dataset, [answer], embedder="wordllama").set_index("measure")["value"]
    assert values.tolist() == [1.0, 1.0, 0.0]


def test_keywords_are_scored_where_the_dataset_asks_for_them() -> None:
    cases = [Case("q1", "Where?", required_keywords=("Paris", "France")), Case("q2", "When?")]
    answers = [Answer("q1", "It is in Paris [1].", contexts=("d#0",)), Answer("q2", "In 1889.")]
    scores = score_answers(Dataset("mine", "test", {}, cases, {}), answers, embedder=Letters())
    found = scores.set_index(["measure", "query_id"])["value"]
    assert found["required_keywords", "q1"] == 0.5
    assert found["contains_all", "q1"] == 0.0
    assert math.isnan(found["required_keywords", "q2"])
    assert math.isnan(found["contains_all", "q2"])


def test_measures_of_a_user_may_have_every_value_within_their_bounds() -> None:
    dataset = Dataset("mine", "test", {}, [Case("q", "?")], {})

    def value(number: float) -> float:
        own = Measure("own", lambda case, answer, contexts: number, bounds=(0, 1))
        return float(score_own(dataset, [Answer("q", "Yes.")], [own])["value"].iloc[0])

    assert [value(number) for number in (0, 0.5, 1)] == [0, 0.5, 1]
    for number in (-0.1, 1.1):
        with pytest.raises(DataError, match=f"own is {number} .*a number from 0 to 1"):
            value(number)
