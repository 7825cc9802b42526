"""score_context: every case once, labels that are there, recall of what reached the model."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.metrics.answer_similarity import words
from ragbench.metrics.context import ngram_redundancy, score_context, tfidf_redundancies
from ragbench.types import Answer, Case, Chunk, Dataset, Document, Passage, Span

TEXT = (
    "The tower opened in 1889. Gustave Eiffel built it. It stands in Paris. The tower opened "
    "in 1889 indeed."
)
BORDERS = [(0, 25), (26, 50), (51, 70), (71, len(TEXT))]
CHUNKS = [
    Chunk(f"tower#{i}", "tower", start, end, TEXT[start:end])
    for i, (start, end) in enumerate(BORDERS)
]
CORPUS = {"tower": Document("tower", TEXT), "tea": Document("tea", "Tea is picked in June.")}
CASES = [
    Case(
        "q1",
        "When?",
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
    assert all(
        list(values) == [case.query_id for case in dataset.cases] for values in table.values()
    )
    return table


def test_every_measure_by_hand() -> None:
    values = scored([Answer("q1", "...", contexts=("tower#0", "tower#3", "tower#2"))])
    own = {measure: table["q1"] for measure, table in values.items()}
    texts = [CHUNKS[i].text for i in (0, 3, 2)]
    background = [document.full_text for document in CORPUS.values()]
    assert own == {
        "ngram_redundancy": pytest.approx(
            1 / 3
        ),  # the second contains the first, the third shares nothing
        "tfidf_redundancy": tfidf_redundancies([texts], background)[0],
        "unique_token_ratio": pytest.approx(9 / 15),
        "context_recall": 0.5,
        "expected_document": 1.0,
        "fact_dispersion": 2.0,
        "context_fact_recall": 0.5,
        "context_evidence_recall": pytest.approx(25 / 49),
        "context_chunk_recall": 0.5,
    }


def test_unscored_is_nan_and_not_found_is_zero() -> None:
    values = scored(
        [
            Answer("q1", "..."),
            Answer("q2", "?", contexts=("tower#0",)),
            Answer("q3", "", error="time-out"),
        ]
    )
    for measure, table in values.items():
        expected = 0.0 if measure.endswith("recall") or measure == "expected_document" else math.nan
        assert table["q1"] == pytest.approx(expected, nan_ok=True), f"{measure} of an empty context"
        assert math.isnan(table["q3"]), f"{measure} of a failed answer"
    assert values["context_recall"]["q2"] == 1.0
    assert math.isnan(values["context_fact_recall"]["q2"])


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
    passages = (
        Passage("a", "opened in 1889"),
        Passage("b", "opened in 1889"),
        Passage("c", "by Eiffel"),
    )
    answers = [Answer("q1", "...", passages=passages), Answer("q2", "...", passages=passages[2:])]
    values = by_measure(score_context(dataset, answers))
    assert values["ngram_redundancy"]["q1"] == pytest.approx(1 / 3)
    assert values["context_fact_recall"]["q1"] == 1.0
    assert math.isnan(values["context_recall"]["q1"]), "their documents are unknown"
    assert math.isnan(values["context_evidence_recall"]["q1"])
    # no corpus: words are as rare as in all that was given
    everything = ["opened in 1889", "by Eiffel"]
    texts = [passage.text for passage in passages]
    assert values["tfidf_redundancy"]["q1"] == tfidf_redundancies([texts], everything)[0]

    matched = (Passage("a", "opened in 1889", doc_id="tower"), Passage("b", "x"))
    recall = by_measure(
        score_context(dataset, [Answer("q1", "...", passages=matched), Answer("q2", "...")])
    )
    assert recall["context_recall"] == {"q1": 0.5, "q2": 0.0}
    assert recall["expected_document"] == {"q1": 1.0, "q2": 0.0}


def of_texts(texts: list[str], **labels: Any) -> dict[str, float]:
    """The scores of one context of these texts."""
    dataset = Dataset("own", "test", {}, [Case("q", "?", **labels)], {})
    passages = tuple(Passage(f"p{i}", text) for i, text in enumerate(texts))
    frame = score_context(dataset, [Answer("q", "...", passages=passages)])
    return dict(zip(frame["measure"], frame["value"], strict=True))


@pytest.mark.parametrize(
    ("texts", "dispersion", "recall"),
    [
        ([], math.nan, 0.0),
        (["nothing"], math.nan, 0.0),
        (["in 1889 by Eiffel"], 1.0, 1.0),
        (["in 1889", "in 1889 again", "in Paris"], 2.0, 0.5),
        (["in 1889", "by G. Eiffel"], 2.0, 1.0),
        (["in 18", "89 Eiffel Tower"], 1.0, 0.5),  # a fact cut in two by a border is not held
        (["in 18890"], math.nan, 0.0),
    ],
)
def test_facts_in_the_context_by_hand(texts: list[str], dispersion: float, recall: float) -> None:
    values = of_texts(texts, gold_facts=(("1889",), ("Gustave Eiffel", "Eiffel")))
    assert values["fact_dispersion"] == pytest.approx(dispersion, nan_ok=True)
    assert values["context_fact_recall"] == recall


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        ([], math.nan),
        (["", "..."], math.nan),
        (["a b c"], 1.0),
        (["a b", "A b!"], 0.5),
        (["the red tower", "the red bridge"], 4 / 6),
    ],
)
def test_unique_token_ratio_by_hand(texts: list[str], value: float) -> None:
    assert of_texts(texts)["unique_token_ratio"] == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        ([], math.nan),
        (["a b c d"], 0.0),
        ([""], 0.0),
        (["a b c d", "a b c d"], 1.0),
        (["a b c d", "A, b; c: d!"], 1.0),
        (["a b c d", "w x y z"], 0.0),
        (["a b a b a b", "a b a"], 1.0),  # {aba, bab} and {aba}; repeats within a text do not count
        (["a b c d", "x a b c"], 1 / 2),  # abc of {abc, bcd} and {xab, abc}
        (["a b c", "w a b c d e"], 1.0),  # inside the longer one
        (["a b c d", "a b c d", "x y z"], 1 / 3),  # one pair of three
        (["a b", "a b"], 1.0),  # shorter than n: one n-gram
        (["a b", "a b c"], 0.0),
        (["...", "a b c"], 0.0),  # no words
    ],
)
def test_ngram_redundancy_by_hand(texts: list[str], value: float) -> None:
    assert ngram_redundancy(texts) == pytest.approx(value, abs=1e-9, nan_ok=True)


def test_tfidf_redundancy_by_hand() -> None:
    # "red" 2 of 2 -> 1; "tower", "bridge" 1 of 2 -> ln(3/2) + 1
    rare = math.log(3 / 2) + 1
    texts = ["red tower", "red bridge"]
    assert tfidf_redundancies([texts], texts) == [pytest.approx(1 / (1 + rare**2), abs=1e-9)]
    # background: "red" 1 of 3 -> ln(4/2) + 1; unknown words 0 of 3 -> ln 4 + 1
    red, unknown = math.log(2) + 1, math.log(4) + 1
    value = red**2 / (red**2 + unknown**2)
    assert tfidf_redundancies([texts], ["red red", "x", "y"]) == [pytest.approx(value, abs=1e-9)]


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        ([], math.nan),
        (["a"], 0.0),
        ([""], 0.0),
        (["", ""], 0.0),
        (["a b", ""], 0.0),
        (["a", "b"], 0.0),
        (["a"] * 3, 1.0),
    ],
)
def test_tfidf_redundancy_of_little(texts: list[str], value: float) -> None:
    for background in ([], ["a b c"], ["..."]):
        assert tfidf_redundancies([texts], background)[0] == pytest.approx(
            value, abs=1e-9, nan_ok=True
        )


TEXTS = st.lists(
    st.lists(
        st.sampled_from(["red", "tower", "bridge", "sea", "the", "of", "1889", "Red"]), max_size=9
    ).map(" ".join),
    max_size=5,
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(TEXTS, TEXTS)
def test_tfidf_redundancy_is_scikit_learns(texts: list[str], background: list[str]) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(texts) < 2 or not any(texts):
        return
    # scikit-learn gives no weight to what the background lacks, so it gets the texts' words with no
    # document
    vocabulary = sorted({word for text in [*texts, *background] for word in words(text)})
    vectorizer = TfidfVectorizer(analyzer=words, vocabulary=vocabulary)
    vectors = vectorizer.fit(background or texts).transform(texts)
    cosines = (vectors @ vectors.T).toarray()
    pairs = [cosines[i, j] for i, j in combinations(range(len(texts)), 2)]
    assert tfidf_redundancies([texts], background or texts)[0] == pytest.approx(
        np.mean(pairs), abs=1e-8
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(TEXTS, max_size=4))
def test_many_contexts_are_each_as_if_alone_and_in_range(contexts: list[list[str]]) -> None:
    background = ["the red tower", "the sea"]
    together = tfidf_redundancies(contexts, background)
    for texts, cosine in zip(contexts, together, strict=True):
        grams = ngram_redundancy(texts)
        assert ngram_redundancy(texts[::-1]) == pytest.approx(grams, nan_ok=True)
        assert tfidf_redundancies([texts], background) == [pytest.approx(cosine, nan_ok=True)]
        assert (
            (math.isnan(grams) and math.isnan(cosine))
            if not texts
            else 0 <= grams <= 1 and 0 <= cosine <= 1
        )


def test_nothing_given_is_changed_and_repeats_to_the_last_bit() -> None:
    answers = [Answer("q1", "...", contexts=("tower#0", "tower#3", "tower#2"))]
    pd.testing.assert_frame_equal(
        score_context(DATASET, answers, CHUNKS), score_context(DATASET, answers, CHUNKS)
    )


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


def test_a_thousand_contexts_take_seconds() -> None:
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(5000)])
    chunks = [" ".join(rng.choice(vocabulary, 150)) for _ in range(1500)]
    contexts = [[chunks[i] for i in rng.integers(0, 1500, 10)] for _ in range(1000)]
    start = time.process_time()
    for texts in contexts:
        ngram_redundancy(texts)
    tfidf_redundancies(contexts, chunks[:500])
    assert time.process_time() - start < 20


def test_the_pairs_of_very_many_texts_are_sampled() -> None:
    texts = [f"passage number {i} of an endless list" for i in range(20_000)]
    assert ngram_redundancy(texts) == ngram_redundancy(texts[::100])
    assert 0 < tfidf_redundancies([texts], texts)[0] < 1


def test_recall_is_unscored_where_any_answer_has_passages_of_unknown_documents() -> None:
    dataset = Dataset("own", "test", {}, CASES[:2], QRELS)
    answers = [Answer("q1", "...", passages=(Passage("a", "in 1889"),)), Answer("q2", "...")]
    values = by_measure(score_context(dataset, answers))
    assert all(map(math.isnan, values["context_recall"].values()))
