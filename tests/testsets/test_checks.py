"""Checks of a question without a model: yes/no, the passage's own words, duplicates."""

from __future__ import annotations

import pytest

from ragbench.generation.drafts import Draft, duplicates, flaw, is_yes_no, overlap
from ragbench.retrieval.embedders import load_embedder

PASSAGE = (
    "A set object is an unordered collection of distinct hashable objects. “Sets” don’t "
    "record   element position."
)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Is a set ordered?", "It is not.", True),
        ("Isn't a set ordered?", "It keeps none.", True),
        (
            "When a list is frozen, can it change?",
            "It cannot.",
            False,
        ),  # "when" makes it look like a wh-question
        ("In Python 3, does round return an int?", "An int.", True),
        ("What does round return?", "No number at all.", True),
        ("What does round return?", "No longer a float, but an int.", False),
        ("What does round return?", "Nothing, yes.", False),
        ("Which objects can a set hold?", "Hashable ones.", False),
        ("How is a set made?", "With braces.", False),
        ("Island nations trade with whom?", "Others.", False),
        ("", "Yes.", True),
    ],
)
def test_yes_no_questions(question: str, answer: str, expected: bool) -> None:
    assert is_yes_no(question, answer) is expected


@pytest.mark.parametrize(
    "question",
    [
        "What is a set according to the passage?",
        "Which class is described in this section?",
        "What does the given example print?",
        "Which of the types mentioned above is mutable?",
    ],
)
def test_questions_about_the_passage_are_vague(question: str) -> None:
    found = flaw(Draft("", "", question, "An answer.", "A quote."), PASSAGE, 0.5)
    assert found is not None
    assert found[0] == "vague"


@pytest.mark.parametrize(
    "question", ["How does a text editor mark a section of code?", "What is a context manager?"]
)
def test_the_words_of_the_field_are_not_vague(question: str) -> None:
    assert flaw(Draft("", "", question, "An answer.", "A quote."), PASSAGE, 0.5) is None


def test_overlap_counts_runs_of_three_words() -> None:
    words = PASSAGE
    # held: "is an unordered", "an unordered collection", "unordered collection of"; not held: the
    # first and the last
    assert overlap("What is an unordered collection of what?", words) == pytest.approx(3 / 5)
    assert overlap("Which container forgets the order?", words) == 0
    assert overlap("A set?", words) == 0
    found = flaw(
        Draft("", "", "Which is an unordered collection of distinct things?", "A set.", "q"),
        words,
        0.5,
    )
    assert found is not None
    assert found[0] == "quotes_chunk"


def test_missing_items_are_named() -> None:
    assert flaw(Draft("", "", quote="q"), PASSAGE, 0.5) == (
        "incomplete",
        "it has no question and no answer",
    )


def test_duplicates_by_words_and_by_meaning() -> None:
    asked = [
        "How old was Manning when he played Super Bowl 50?",
        "How old was Peyton Manning when he played in Super Bowl 50?",
        "What is the basic unit of territorial division in Poland?",
        "What is the second level of territorial division in Poland?",
        "how old was manning, when he played super bowl 50",
    ]
    twins = duplicates(asked, ["Who sang?"], load_embedder("minilm"))
    assert [twin is not None for twin in twins] == [False, True, False, False, True]
    assert twins[4] == asked[0]
    assert duplicates([], ["Who sang?"], load_embedder("minilm")) == []
