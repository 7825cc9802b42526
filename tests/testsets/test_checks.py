"""Checks of a question without a model: yes/no, the passage's own words, the place of a quote,
duplicates.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.generation.drafts import Words, duplicates, flaw, is_yes_no, locate, overlap
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
    found = flaw(question, "An answer.", "A quote.", Words(PASSAGE), 0.5)
    assert found is not None
    assert found[0] == "vague"


@pytest.mark.parametrize(
    "question", ["How does a text editor mark a section of code?", "What is a context manager?"]
)
def test_the_words_of_the_field_are_not_vague(question: str) -> None:
    assert flaw(question, "An answer.", "A quote.", Words(PASSAGE), 0.5) is None


def test_overlap_counts_runs_of_three_words() -> None:
    words = Words(PASSAGE)
    # held: "is an unordered", "an unordered collection", "unordered collection of"; not held: the
    # first and the last
    assert overlap("What is an unordered collection of what?", words) == pytest.approx(3 / 5)
    assert overlap("Which container forgets the order?", words) == 0
    assert overlap("A set?", words) == 0
    found = flaw("Which is an unordered collection of distinct things?", "A set.", "q", words, 0.5)
    assert found is not None
    assert found[0] == "quotes_chunk"


def test_missing_items_are_named() -> None:
    assert flaw("", "", "q", Words(PASSAGE), 0.5) == (
        "incomplete",
        "it has no question and no answer",
    )


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("an unordered collection", "an unordered collection"),
        ('"SETS" don\'t record element position.', "Sets” don’t record   element position."),
        ("A set object is an unordered collection of distinct hashable things.",
         "A set object is an unordered collection of distinct hashable objects."),
        ("This set object is an unordered collection of distinct hashable objects",
         "A set object is an unordered collection of distinct hashable objects"),
        ("A set object is an ordered collection of equal hashable things.", None),
        ("A set object is one unordered collection of distinct hashable objects. Sets don't "
         "record element position",
         PASSAGE[:-1]),
        ("A set object ... element position", None),
        ("", None),
        ("...", None),
    ],
)  # fmt: skip
def test_a_quote_is_located_or_not_found(quote: str, expected: str | None) -> None:
    place = locate(quote, Words(PASSAGE))
    assert (PASSAGE[slice(*place)] if place else None) == expected


def test_the_first_place_counts_but_not_in_the_title() -> None:
    text = "A cat.\n\nA cat. A cat."
    assert locate("A cat.", Words(text)) == (0, 6)
    assert locate("A cat.", Words(text), 8) == (8, 14)
    assert locate("a  CAT", Words(text), 8) == (8, 13)


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1, max_size=80), st.data())
def test_any_exact_piece_is_found_verbatim(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    quote = text[start : data.draw(st.integers(start + 1, len(text)))]
    place = locate(quote, Words(text))
    assert (place is not None and text[slice(*place)] == quote) if quote.strip() else place is None


def test_duplicates_by_words_and_by_meaning() -> None:
    asked = [
        "How old was Manning when he played Super Bowl 50?",
        "How old was Peyton Manning when he played in Super Bowl 50?",
        "What is the basic unit of territorial division in Poland?",
        "What is the second level of territorial division in Poland?",
        "how old was manning, when he played super bowl 50",
    ]
    twins = duplicates(asked, ["Who sang?"], load_embedder("minilm"), 0.92)
    assert [twin is not None for twin in twins] == [False, True, False, False, True]
    assert twins[4] == asked[0]
    assert duplicates(["WHO sang"], ["Who sang?"], load_embedder("minilm"), 1.0) == ["Who sang?"]
    assert duplicates([], ["Who sang?"], load_embedder("minilm"), 0.9) == []
