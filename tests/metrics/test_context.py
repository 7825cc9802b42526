"""Context measures: by hand, against scikit-learn, and what holds for any texts."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.datasets import load_dataset
from ragbench.errors import ConfigError, DataError
from ragbench.metrics.answers import words
from ragbench.metrics.context import (
    DIVERSITY_FOR,
    context_fact_recall,
    diversity_verdict,
    expected_unique_ratio,
    fact_dispersion,
    ngram_redundancies,
    ngram_redundancy,
    tfidf_redundancies,
    tfidf_redundancy,
    unique_token_ratio,
    words_in,
)


@pytest.mark.parametrize(
    ("texts", "n", "value"),
    [
        ([], 3, math.nan),
        (["a b c d"], 3, 0.0),
        ([""], 3, 0.0),
        (["a b c d", "a b c d"], 3, 1.0),
        (["a b c d", "A, b; c: d!"], 3, 1.0),
        (["a b c d", "w x y z"], 3, 0.0),
        (["a b c d", "x a b c"], 3, 1 / 2),  # abc of {abc, bcd} and {xab, abc}
        (["a b c", "w a b c d e"], 3, 1.0),  # inside the longer one
        (["a b c d", "a b c d", "x y z"], 3, 1 / 3),  # one pair of three
        (["a b", "a b"], 3, 1.0),  # shorter than n: one n-gram
        (["a b", "a b c"], 3, 0.0),
        (["...", "a b c"], 3, 0.0),  # no words
        (["a b a b a b", "a b"], 2, 1.0),  # {ab, ba} and {ab}; repeats within a text do not count
        (["a b c", "c b a"], 1, 1.0),
    ],
)
def test_ngram_redundancy_by_hand(texts: list[str], n: int, value: float) -> None:
    assert ngram_redundancy(texts, n=n) == pytest.approx(value, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_the_length_of_an_ngram_is_checked(n: Any) -> None:
    with pytest.raises(ConfigError, match="length of an n-gram"):
        ngram_redundancy(["a b c"], n=n)


def test_a_text_is_not_a_context() -> None:
    with pytest.raises(DataError, match="put it in a list"):
        ngram_redundancies(["a b c"])
    with pytest.raises(DataError, match="put it in a list"):
        tfidf_redundancies(["a b c"])


def test_tfidf_redundancy_by_hand() -> None:
    # own df: "red" 2 of 2 -> 1; "tower", "bridge" 1 of 2 -> ln(3/2) + 1
    rare = math.log(3 / 2) + 1
    assert tfidf_redundancy(["red tower", "red bridge"]) == pytest.approx(1 / (1 + rare**2), abs=1e-9)
    # background: "red" 1 of 3 -> ln(4/2) + 1; unknown words 0 of 3 -> ln 4 + 1
    red, unknown = math.log(2) + 1, math.log(4) + 1
    value = tfidf_redundancy(["red tower", "red bridge"], background=["red", "x", "y"])
    assert value == pytest.approx(red**2 / (red**2 + unknown**2), abs=1e-9)


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
        assert tfidf_redundancy(texts, background=background) == pytest.approx(value, abs=1e-9, nan_ok=True)


TEXTS = st.lists(
    st.lists(st.sampled_from(["red", "tower", "bridge", "sea", "the", "of", "1889", "Red"]), max_size=9).map(" ".join),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_tfidf_redundancy_is_scikit_learns(texts: list[str], background: list[str]) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if len(texts) < 2 or not any(texts):
        return
    # scikit-learn gives no weight to what the background lacks, so it gets the texts' words with no document
    vocabulary = sorted({word for text in [*texts, *background] for word in words(text)})
    vectorizer = TfidfVectorizer(analyzer=words, vocabulary=vocabulary)
    vectors = vectorizer.fit(background or texts).transform(texts)
    cosines = (vectors @ vectors.T).toarray()
    pairs = [cosines[i, j] for i, j in combinations(range(len(texts)), 2)]
    assert tfidf_redundancy(texts, background=background) == pytest.approx(np.mean(pairs), abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, max_size=4), st.integers(1, 4))
def test_many_contexts_are_each_as_if_alone_and_in_range(contexts: list[list[str]], n: int) -> None:
    together = list(zip(ngram_redundancies(contexts, n=n), tfidf_redundancies(contexts), strict=True))
    for texts, (grams, cosine) in zip(contexts, together, strict=True):
        assert grams == pytest.approx(ngram_redundancy(texts, n=n), nan_ok=True)
        assert cosine == pytest.approx(tfidf_redundancy(texts), nan_ok=True)
        assert (math.isnan(grams) and math.isnan(cosine)) if not texts else 0 <= grams <= 1 and 0 <= cosine <= 1
        assert ngram_redundancy(texts[::-1], n=n) == pytest.approx(grams, nan_ok=True)


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
    facts = [["1889"], ["Gustave Eiffel", "Eiffel"]]
    assert fact_dispersion(texts, facts) == pytest.approx(dispersion, nan_ok=True)
    assert context_fact_recall(texts, facts) == recall


def test_without_facts_there_is_nothing_to_score() -> None:
    assert math.isnan(fact_dispersion(["a"], []))
    assert math.isnan(context_fact_recall(["a"], []))


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
    assert unique_token_ratio(texts) == pytest.approx(value, nan_ok=True)


def test_words_are_counted_as_they_are_compared() -> None:
    assert words_in(["It's 1,000 m.", "北京", ""]) == 6


def test_the_usual_ratio_falls_with_length() -> None:
    values = [expected_unique_ratio(n) for n in (1, 8, 25, 100, 400, 1600, 10**6)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
    assert expected_unique_ratio(131) == pytest.approx(0.7, abs=0.001)
    with pytest.raises(ConfigError, match="number of words"):
        expected_unique_ratio(0)


def test_the_usual_ratio_is_that_of_real_passages_of_different_documents(shared_data: Path) -> None:
    texts = [document.text for document in load_dataset(shared_data / "squad").corpus.values()]
    order = np.random.default_rng(0).permutation(len(texts))
    read = [word for i in order for word in words(texts[i])[:120]]
    for n in (50, 100, 400, 1600):
        seen = [len(set(read[i : i + n])) / n for i in range(0, 30_000, 1600)]
        assert float(np.median(seen)) == pytest.approx(expected_unique_ratio(n), abs=0.05)


@pytest.mark.parametrize(
    ("diversity", "query_type", "verdict"),
    [
        (0.90, "faq", "fitting"),
        (0.91, "faq", "too diverse"),
        (0.0, "faq", "fitting"),
        (0.39, "comparison", "too uniform"),
        (0.40, "comparison", "fitting"),
        (0.96, "comparison", "too diverse"),
        (1.0, "research", "fitting"),
        (0.59, "research", "too uniform"),
        (0.5, "", ""),
        (0.5, "of my own", ""),
        (math.nan, "faq", ""),
    ],
)
def test_verdicts_on_diversity(diversity: float, query_type: str, verdict: str) -> None:
    assert diversity_verdict(diversity, query_type) == verdict


def test_more_diversity_is_wanted_from_faq_to_research() -> None:
    borders = [DIVERSITY_FOR[name] for name in ("faq", "comparison", "research")]
    assert borders == sorted(borders)
    assert [border.high for border in borders] == sorted(border.high for border in borders)


def test_a_thousand_contexts_take_seconds() -> None:
    import time

    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(5000)])
    chunks = [" ".join(rng.choice(vocabulary, 150)) for _ in range(1500)]
    contexts = [[chunks[i] for i in rng.integers(0, 1500, 10)] for _ in range(1000)]
    start = time.process_time()
    ngram_redundancies(contexts)
    tfidf_redundancies(contexts, background=chunks[:500])
    assert time.process_time() - start < 20


def test_the_pairs_of_very_many_texts_are_sampled() -> None:
    texts = [f"passage number {i} of an endless list" for i in range(20_000)]
    assert ngram_redundancies([texts]) == ngram_redundancies([texts[::20]])
    assert 0 < tfidf_redundancies([texts], background=texts)[0] < 1
