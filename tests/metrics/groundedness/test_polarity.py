"""Denials: what they reach, and when claim and text differ in them."""

from __future__ import annotations

import pytest

from ragbench.metrics.groundedness.words import denied, opposed, polarity_differs, text_states


def test_a_negation_reaches_the_rest_of_its_clause() -> None:
    assert denied("It is not safe, but fast.") == {"safe"}
    assert denied("He didn't win.") == {"win"}
    assert denied("It is safe.") == frozenset()
    assert denied("It is not safe dry clean warm.") == {"safe", "dri", "clean"}, "three words"


def test_not_only_denies_nothing() -> None:
    assert denied("It is not only fast.") == frozenset()


@pytest.mark.parametrize(
    ("claim", "text", "differs"),
    [
        ("The bridge is safe.", "The bridge is not safe.", True),
        ("The bridge is not safe.", "The bridge is safe.", True),
        ("The bridge isn't safe.", "The bridge is not safe.", False),
        ("The bridge is safe.", "The bridge is safe.", False),
        (
            "The bridge is safe.",
            "The bridge is not safe at night. The bridge is safe by day.",
            False,
        ),
        ("The bridge is safe.", "Boats do not sink.", False),
        ("", "Not so.", False),
    ],
)
def test_polarity(claim: str, text: str, differs: bool) -> None:
    assert polarity_differs(claim, text) is differs


def test_opposites_count_where_the_word_itself_is_missing() -> None:
    assert opposed("Sales increased.", "Sales decreased.")
    assert not opposed("Sales increased.", "Sales increased, costs decreased.")


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("We know that the bridge is safe.", True),
        ("It is not true that the bridge is safe.", False),
        ("The bridge is not safe.", False),
        ("This is no joke: the bridge is safe.", True),
        ("", False),
    ],
)
def test_stated_word_for_word(text: str, stated: bool) -> None:
    assert text_states(text, "The bridge is safe") is stated
