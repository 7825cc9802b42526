"""Citations: read, made blank, and compared with what they cite."""

from __future__ import annotations

import math

import pytest

from ragbench.generation.citations import parse_citations, without_citations
from ragbench.metrics.groundedness.checks import citation_form, cites_content

IDS = ["rail#0", "rail#3"]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("So [1].", ("rail#0",)),
        ("So [2, 1].", ("rail#3", "rail#0")),
        ("So [1-3].", ("rail#0", "rail#3", "invalid:3")),
        ("So 【2†source】.", ("rail#3",)),
        ("So [Document 2].", ("rail#3",)),
        ("So [rail#3].", ("rail#3",)),
        ("So [rail#3, rail#0].", ("rail#3", "rail#0")),
        ("So [rail#9].", ()),
        ("In `a[1]` and [1889].", ()),
        ("None.", ()),
    ],
)
def test_what_is_cited(text: str, cited: tuple[str, ...]) -> None:
    assert parse_citations(text, IDS) == cited


def test_ids_that_are_numbers_are_positions() -> None:
    assert parse_citations("So [2].", ["2", "7"]) == ("7",)


def test_marks_are_made_blank_and_places_stay() -> None:
    text = "So [1] and [rail#3] and [sic] and `x[1]`."
    blank = without_citations(text, IDS)
    assert blank == "So     and          and [sic] and `x[1]`."
    assert len(blank) == len(text)


def test_form_is_the_share_that_was_retrieved() -> None:
    assert citation_form(("rail#0", "rail#3", "invalid:7", "x"), IDS) == 0.5
    assert math.isnan(citation_form((), IDS))


def test_content_asks_for_half_of_the_weight() -> None:
    assert cites_content("Towers of iron [1].", "An iron tower.")
    assert not cites_content("Towers of iron [1].", "A bridge of stone.")
    assert not cites_content("[1]", "An iron tower.")
