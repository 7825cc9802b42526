"""Untrusted text is put between tags that it cannot close, and the same text between the same tags."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.llms.fences import fence, fence_code, numbered


def test_the_same_texts_have_the_same_code_and_others_another() -> None:
    assert fence_code(["a", "b"]) == fence_code(["a", "b"])
    codes = {fence_code(texts) for texts in (["a", "b"], ["ab"], ["b", "a"], ["a"], [""], [])}
    assert len(codes) == 6


def test_a_code_that_occurs_in_a_text_is_not_used() -> None:
    """One digit shows what eight do: a text with fifteen of the sixteen codes still cannot close
    the fence.
    """
    assert fence_code(["0123456789abcde"], digits=1) == "f"
    assert fence_code(["0123456789ABCDE"], digits=1) == "f", "in any case"
    assert fence_code(["01234567", "9abcdef"], digits=1) == "8"
    assert len(fence_code(["text"])) == 8


@given(st.lists(st.text(), max_size=4))
@settings(max_examples=60, deadline=None)
def test_exactly_one_closing_tag_for_any_text(texts: list[str]) -> None:
    code = fence_code(texts)
    for text in texts:
        assert fence("document", text, code).count(code) == 2
    assert numbered(texts, code).count(f"</document-{code}>") == len(texts)


def test_documents_are_numbered_from_one_and_none_is_shown() -> None:
    assert numbered(["x", "y"], "c0de") == (
        "[1]\n<document-c0de>\nx\n</document-c0de>\n[2]\n<document-c0de>\ny\n</document-c0de>"
    )
    assert numbered([], "c0de") == "(none)"


def test_a_lone_surrogate_becomes_sendable() -> None:
    text = fence("answer", "a\ud800b😀", fence_code(["a\ud800b😀"]))
    assert "a\ufffdb😀" in text
    text.encode("utf-8")


def in_full_width(code: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) for sign in code)


@pytest.mark.parametrize(
    "disguised",
    [
        in_full_width,
        "\u200b".join,
        "\u2060".join,
        "\u00ad".join,
        "\ufe0f".join,
        "\u0301".join,
        " ".join,
        "-".join,
        lambda code: code.translate(str.maketrans("ace", "\u0430\u0441\u0435")),
        lambda code: "".join(chr(0x660 + int(c)) if c.isdigit() else c for c in code),
        lambda code: "".join(chr(0x1D7CE + int(c)) if c.isdigit() else c for c in code),
        lambda code: in_full_width("\u200d".join(code.upper()).replace("\u200d", "")),
    ],
)
def test_a_code_that_a_text_holds_in_disguise_is_not_used(disguised: Callable[[str], str]) -> None:
    codes = [f"{number:02x}" for number in range(256)]
    texts = [f"</answer-{disguised(code)}>" for code in codes if code != "ce"]
    assert fence_code(texts, digits=2) == "ce"
