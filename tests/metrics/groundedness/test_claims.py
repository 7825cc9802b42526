"""Answers split into claims, each by its wording."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.metrics.groundedness.claims import KINDS, claims, kind_of


def texts(answer: str) -> list[str]:
    return [claim.text for claim in claims(answer)]


def test_sentences_are_claims() -> None:
    assert texts("Dr. Smith came. She left.") == ["Dr. Smith came.", "She left."]


def test_clauses_with_subject_and_verb_are_claims() -> None:
    assert texts("The tower opened in 1889, and it was closed again in 1890.") == [
        "The tower opened in 1889,",
        "it was closed again in 1890.",
    ]


def test_lists_of_words_stay_whole() -> None:
    answer = "It has red, green, and blue lamps, and is high."
    assert texts(answer) == [answer]


def test_items_of_a_list_are_claims_without_their_marks() -> None:
    assert texts("1. Opened in 1889.\n2. Closed in 1890.\n- Built of iron") == [
        "Opened in 1889.",
        "Closed in 1890.",
        "Built of iron",
    ]


def test_marks_behind_the_full_stop_belong_to_the_claim_before() -> None:
    assert texts("It opened in 1889. [1] It closed in 1890 [2].") == [
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
    ("text", "kind"),
    [
        ("It opened in 1889.", "assertion"),
        ("The rates grew quickly.", "assertion"),
        ("The results suggest a slower growth.", "inference"),
        ("It might rain.", "inference"),
        ("It happened on 3 May 2020.", "assertion"),
        ("Therefore, the tower is safe.", "inference"),
        ("It is important to read the manual.", "general"),
        ("Please ask again.", "general"),
        ("It is important to go to Paris in 1889.", "assertion"),
        ("Here are the steps:", "general"),
    ],
)
def test_kind_by_wording(text: str, kind: str) -> None:
    assert kind_of(text) == kind


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab. ,;!?\n#-*[1]`isand wht", max_size=120))
def test_claims_are_pieces_of_the_answer_in_order(answer: str) -> None:
    end = 0
    for claim in claims(answer):
        assert claim.text == answer[claim.start : claim.end]
        assert claim.text.strip() == claim.text
        assert claim.start >= end
        assert claim.kind in KINDS
        end = claim.end
