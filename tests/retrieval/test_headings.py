"""Headings of Markdown and reStructuredText."""

from __future__ import annotations

import pytest

from ragbench.testsets.outline import find_headings, lines_of


def headings(text: str) -> list[tuple[str, int]]:
    lines = lines_of(text)
    return [
        (" / ".join(line.text for line in lines[a : b + 1]), level)
        for a, b, level in find_headings(lines)
    ]


def test_atx() -> None:
    assert headings(
        "# One\ntext\n## Two ##\n   ### Three\n####### no\n#no\n    # code\n###### Six\n#"
    ) == [
        ("# One", 1),
        ("## Two ##", 2),
        ("   ### Three", 3),
        ("###### Six", 6),
        ("#", 1),
    ]


def test_setext() -> None:
    assert headings("One\n===\n\ntext\n\nTwo\n---\ntext") == [("One / ===", 1), ("Two / ---", 2)]


def test_setext_next_to_atx_has_its_own_level() -> None:
    assert headings("Two\n---\n\n# One\n\n### Three") == [
        ("Two / ---", 2),
        ("# One", 1),
        ("### Three", 3),
    ]


def test_restructured_text_levels_in_order_of_appearance() -> None:
    text = "Top\n***\n\nSub\n===\n\nSubsub\n------\n\nSub again\n=========\n"
    assert [level for _, level in headings(text)] == [1, 2, 3, 2]


def test_line_above_and_below() -> None:
    assert headings("=====\nTitle\n=====\n\ntext") == [("===== / Title / =====", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# comment\n```",
        "~~~python\n# comment\n```\n# comment\n~~~~",
        "```\n# never closed",
        "two lines\nof text\n---\nand a rule",
        "text\n\n---\n\ntext",
        "- item\n---",
        "| a | b |\n|---|---|",
        "---\nname: front matter\n---",
        "too long a title\n***",
        "Title\n\n=====",
        "=====  =====\na      b\n=====  =====",
        "",
    ],
)
def test_not_a_heading(text: str) -> None:
    assert headings(text) == []


def test_fence_ends() -> None:
    assert headings("```\n# no\n```\n# Yes") == [("# Yes", 1)]


def test_lines_know_the_headings_above() -> None:
    lines = lines_of("a\r\nb  \r\n\r\nc\n \nd\re")
    assert [(line.text, line.after_blank) for line in lines] == [
        ("a", True),
        ("b", False),
        ("c", True),
        ("d", True),
        ("e", False),
    ]
    assert [(line.start, line.end) for line in lines] == [
        (0, 1),
        (3, 4),
        (10, 11),
        (14, 15),
        (16, 17),
    ]
