"""A section of a notebook appears only where it has something to show."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from IPython.display import Markdown

from ragbench import report


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    objects: list[Any] = []
    monkeypatch.setattr("IPython.display.display", lambda *given: objects.extend(given))
    return objects


@pytest.mark.parametrize(
    "nothing", [(), (None,), ("",), ([],), (pd.DataFrame(), pd.Series(dtype=float))]
)
def test_without_contents_there_is_no_heading(shown: list[Any], nothing: tuple[Any, ...]) -> None:
    report.section("## Searches", "What to look for.", *nothing)
    assert shown == []


def test_heading_and_sentence_come_before_what_is_filled(shown: list[Any]) -> None:
    table = pd.DataFrame({"a": [1]})
    report.section("## Searches", "What to look for.", None, table, "words", ["one", "two"])
    texts = [each.data for each in shown if isinstance(each, Markdown)]
    assert texts == ["## Searches\n\nWhat to look for.", "words\n\n- one\n- two"]
    assert shown[1] is table


def test_contents_alone_have_no_empty_heading(shown: list[Any]) -> None:
    report.section("", "", "words")
    report.section("## Key findings", "", ["one"])
    assert [each.data for each in shown] == ["words", "## Key findings\n\n- one"]
