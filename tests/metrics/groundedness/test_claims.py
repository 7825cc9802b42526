"""Answers split into claims, each by its wording."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.metrics.groundedness.claims import claims, is_inference


def test_sentences_are_claims() -> None:
    assert claims("Dr. Smith came. She left.") == ["Dr. Smith came.", "She left."]


def test_lists_of_words_stay_whole() -> None:
    answer = "It has red, green, and blue lamps, and is high."
    assert claims(answer) == [answer]


def test_items_of_a_list_are_claims_without_their_marks() -> None:
    assert claims("1. Opened in 1889.\n2. Closed in 1890.\n- Built of iron") == [
        "Opened in 1889.",
        "Closed in 1890.",
        "Built of iron",
    ]


def test_marks_behind_the_full_stop_belong_to_the_claim_before() -> None:
    assert claims("It opened.\n[2]\nIt closed.") == ["It opened. [2]", "It closed."]
    assert claims("It opened in 1889. [1] It closed in 1890 [2].") == [
        "It opened in 1889. [1]",
        "It closed in 1890 [2].",
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  \n ",
        "Why is it so?",
        "# Heading",
        "```python\nx = 1\n```",
        "Good question!",
        "Sure!",
        "[1]",
        "| --- | --- |",
    ],
)
def test_what_claims_nothing(answer: str) -> None:
    assert claims(answer) == []


@pytest.mark.parametrize(
    ("text", "is_claim"),
    [
        ("It opened in 1889.", True),
        ("The results suggest a slower growth.", True),
        ("It is important to read the manual.", False),
        ("Please ask again.", False),
        ("It is important to go to Paris in 1889.", True),
        ("Here are the steps:", False),
    ],
)
def test_general_remarks_are_no_claims(text: str, is_claim: bool) -> None:
    assert bool(claims(text)) == is_claim


def test_a_sentence_that_is_wrapped_is_one_claim() -> None:
    wrapped = "The tower was opened to the public in the spring\nof 1889. It is high."
    assert claims(wrapped) == [
        "The tower was opened to the public in the spring of 1889.",
        "It is high.",
    ]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab. ,;!?\n#-*[1]`isand wht", max_size=120))
def test_claims_are_stripped_and_not_empty(answer: str) -> None:
    assert all(claim and claim.strip() == claim for claim in claims(answer))


@pytest.mark.parametrize(
    ("claim", "inference"),
    [
        ("The tower may be open.", True),
        ("It might rain.", True),
        ("Probably nobody came.", True),
        ("The study suggests a link.", True),
        ("It opened in May 1889.", False),
        ("May is warm.", False),
        ("The pilot could not land.", False),
        ("The tower is open.", False),
    ],
)
def test_a_hedged_claim_is_an_inference(claim: str, inference: bool) -> None:
    assert is_inference(claim) is inference
