"""Answer measures: SQuAD's own numbers, words of many scripts, facts on word borders."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.metrics.answer_similarity import (
    gold_fact_coverage,
    keyword_coverage,
    missing_keywords,
    semantic_similarity,
    stated_facts,
    token_f1,
)


def as_squad_counts(answer: str, reference: str) -> float:
    """Token F1 put together independently, from the paper's description, for ASCII."""

    def words(text: str) -> list[str]:
        kept = "".join(sign for sign in text.lower() if sign not in string.punctuation)
        return [word for word in re.sub(r"\b(a|an|the)\b", " ", kept).split() if word]

    found, wanted = Counter(words(answer)), Counter(words(reference))
    same = sum(min(found[word], wanted[word]) for word in wanted)
    return 2 * same / (found.total() + wanted.total())


@pytest.mark.parametrize(
    ("answer", "reference", "value"),
    [
        ("Paris", "Paris", 1.0),
        ("the Paris!", "paris", 1.0),
        ("London", "Paris", 0.0),
        ("in Paris, France", "Paris", 2 * (1 / 3) * 1 / (1 / 3 + 1)),
        ("no no no", "no", 2 * (1 / 3) * 1 / (1 / 3 + 1)),
        ("", "Paris", 0.0),
        ("Paris", "", 0.0),
        ("", "", 1.0),
        ("the", "the", 1.0),
        ("**", "//", 0.0),
        ("**", "**", 1.0),
        ("state-of-the-art", "stateoftheart", 1.0),
        ("STRASSE", "Straße", 1.0),
        ("«été»", "e\u0301te\u0301", 1.0),
        ("１２", "12", 1.0),
        ("北京市", "北京", 2 * (2 / 3) * 1 / (2 / 3 + 1)),
        ("東京です。", "東京", 2 * (2 / 4) * 1 / (2 / 4 + 1)),
    ],
)
def test_token_f1_by_hand(answer: str, reference: str, value: float) -> None:
    assert token_f1(answer, reference) == pytest.approx(value, abs=1e-15)


WORDS = st.lists(
    st.sampled_from(
        ["a", "The", "an", "cat", "Cat!", "cat-flap", "3.5", "$3", "it's", "dog", "..."]
    ),
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(WORDS, WORDS)
def test_token_f1_is_squads_for_ascii(answer: list[str], reference: list[str]) -> None:
    left, right = (
        " ".join(["word", *answer]),
        " ".join(["word", *reference]),
    )  # SQuAD leaves empty texts open
    assert token_f1(left, right) == pytest.approx(as_squad_counts(left, right), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20))
def test_token_f1_is_symmetric_and_in_range_for_any_text(left: str, right: str) -> None:
    value = token_f1(left, right)
    assert 0.0 <= value <= 1.0
    assert value == token_f1(right, left)
    assert token_f1(left, left) == 1.0


@pytest.mark.parametrize(
    ("answer", "fact", "stated"),
    [
        ("It was Gustave Eiffel.", ("gustave eiffel",), True),
        ("It was Gustave\nEiffel.", ("gustave eiffel",), True),
        ("It was Gustave-Eiffel", ("Gustave Eiffel",), True),
        ("It was Eiffel", ("Gustave Eiffel", "Eiffel"), True),
        ("Eiffel Gustave", ("Gustave Eiffel",), False),
        ("concatenate", ("cat",), False),
        ("cats", ("cat",), False),
        ("in 1889.", ("1889",), True),
        ("in 18890", ("1889",), False),
        ("3.5 km", ("3",), False),
        ("3.5 km", ("3.5",), True),
        ("3.5km", ("3.5 km",), True),
        ("version 3.11.2", ("3.11",), False),
        ("at -3 degrees", ("3",), False),
        ("at \u22123 degrees", ("-3",), True),
        ("pages 3-5", ("5",), True),
        ("13", ("3",), False),
        ("1,000 people", ("1000",), True),
        ("1000 people", ("1,000",), True),
        ("items 1,2,3", ("2",), True),
        ("12,345,678.9", ("12345678.9",), True),
        ("call __init__ first", ("__init__",), True),
        ("call __init__() first", ("init",), False),
        ("use `**` here", ("**",), True),
        ("use * here", ("**",), False),
        ("use ** here", ("*",), False),
        ("首都は東京です", ("東京",), True),
        ("STRASSE", ("Straße",), True),
        ("", ("x",), False),
        ("anything", ("",), False),
        ("anything", (" ",), False),
    ],
)
def test_a_fact_is_stated_or_not(answer: str, fact: tuple[str, ...], stated: bool) -> None:
    assert gold_fact_coverage(answer, [fact]) == float(stated)


def test_coverage_is_a_fraction_of_facts() -> None:
    assert (
        gold_fact_coverage("a cat and a dog", [("cat",), ("dog", "hound"), ("cow",), ("dog",)])
        == 0.75
    )


def test_without_facts_there_is_nothing_to_score() -> None:
    assert math.isnan(gold_fact_coverage("a cat", []))


@pytest.mark.parametrize("fact", ["cat", ()])
def test_a_fact_must_be_a_sequence_of_wordings(fact: Any) -> None:
    with pytest.raises(DataError, match="a gold fact is a sequence of wordings"):
        gold_fact_coverage("a cat", [fact])


def test_similarity_by_hand() -> None:
    left = np.array([[1, 0], [1, 0], [1, 0], [0, 0], [2, 0]], dtype=np.float32)
    right = np.array([[1, 0], [0, 1], [-1, 0], [1, 0], [1, 1]], dtype=np.float32)
    assert semantic_similarity(left, right).tolist() == [1.0, 0.0, 0.0, 0.0, 0.707107]


def test_similarity_of_nothing_is_nothing() -> None:
    assert semantic_similarity(np.zeros((0, 3)), np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize(
    ("answer", "wording", "stated"),
    [
        ("The default is None.", "=None", False),
        ("Write def f(x = None).", "=None", True),
        ("It is 2 ** n.", "2**n", True),
        ("It is 2 * n, or 2/n.", "2 ** n", False),
        ("Use C.", "C++", False),
        ("Use C++.", "c++", True),
        ("It gives n+10.", "n+1", False),
        ("It gives (n + 1).", "n+1", True),
        ("AT & T paid.", "AT&T", True),
        ("It happens after the sign.", "*after* the sign", True),
        ("It takes *args only.", "**kwargs", False),
        ("It takes **kwargs.", "**kwargs", True),
        ("A a b c = 1", "a b = 1", False),
        ("a\n b =1", "a b = 1", True),
    ],
)
def test_operators_are_part_of_a_wording(answer: str, wording: str, stated: bool) -> None:
    assert gold_fact_coverage(answer, [[wording]]) == float(stated)


@pytest.mark.parametrize(
    ("answer", "keywords", "share", "missing"),
    [
        ("Reset it under Settings.", ["settings", "reset"], 1.0, []),
        ("Reset it under Settings.", ["settings", "log in"], 0.5, ["log in"]),
        ("concatenate", ["cat"], 0.0, ["cat"]),
        ("resets", ["reset"], 0.0, ["reset"]),
        ("3.5 km", ["3", "3.5"], 0.5, ["3"]),
        ("a b", ["a", "a", "c"], 0.5, ["c"]),
        ("", ["a"], 0.0, ["a"]),
        ("a", [], math.nan, []),
    ],
)
def test_keywords_by_hand(
    answer: str, keywords: list[str], share: float, missing: list[str]
) -> None:
    assert keyword_coverage(answer, keywords) == pytest.approx(share, nan_ok=True)
    assert missing_keywords(answer, keywords) == missing


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["cat", "dog", "3", "log in", "C++"]), min_size=1, max_size=5),
    st.text(max_size=12),
)
def test_an_answer_of_all_keywords_contains_them(keywords: list[str], between: str) -> None:
    answer = f" {between} ; ".join(keywords)
    assert keyword_coverage(f"{'; '.join(keywords)}; {answer}", keywords) == 1.0
    assert keyword_coverage(answer, keywords) == pytest.approx(
        1 - len(missing_keywords(answer, keywords)) / len(set(keywords))
    )


def test_a_text_is_not_a_list_of_keywords() -> None:
    for function in (keyword_coverage, missing_keywords):
        with pytest.raises(DataError, match="keywords are a sequence"):
            function("a cat", "cat")


def test_stated_facts_by_fact() -> None:
    assert stated_facts("in 1889", [["1889"], ["Eiffel"], ["x", "In 1889"]]) == [True, False, True]
    assert stated_facts("in 1889", []) == []


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Employees get 15 days paid vacation per year.", True),
        ("Everyone has 15 days of paid vacation.", True),
        ("They get 15 days of fully paid vacation.", False),  # more than two words between
        ("They get 15 days without vacation.", False),
        ("They never get 15 days paid vacation.", False),
        ("They get 15 days or 20 days vacation.", False),
        ("They get 15 days. A vacation is longer.", False),
        ("Their vacation is 15 days.", False),  # another order
    ],
)
def test_words_may_lie_between_those_of_a_fact_with_a_number(text: str, stated: bool) -> None:
    assert stated_facts(text, [["15 days vacation"]]) == [stated]


@pytest.mark.parametrize(
    ("text", "fact", "stated"),
    [
        ("It is the end of the world.", "end of world", True),
        ("It returns an asynchronous iterator.", "returns an iterator", False),
        ("There were 15 unpaid days.", "15 days", False),  # two words are in a row
    ],
)
def test_only_function_words_may_lie_between_those_of_other_facts(
    text: str, fact: str, stated: bool
) -> None:
    assert stated_facts(text, [[fact]]) == [stated]


def test_keywords_stay_words_in_a_row() -> None:
    assert missing_keywords("15 days paid vacation", ["15 days vacation"]) == ["15 days vacation"]
