"""Quotes of a judge, looked up in the documents that it was shown."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from ragbench.language import SIGN, SPACED, folded

# A number keeps its sign and its decimals: 2.5 is neither 25 nor -2.5.
_WORD = regex.compile(rf"(?<![{SPACED}.])-?\d+(?:[.,]\d+)*|{SIGN}|{SPACED}+", regex.V1)
_GAP = regex.compile(r"\[\s*(?:\.\.\.|…)\s*\]|\(\s*(?:\.\.\.|…)\s*\)|\.\.\.|…")
_MINUS = str.maketrans("\u2212\u2010\u2011\u2012\u2013\u2014", "------")


class QuoteIndex:
    """Documents in which quotes are looked up.

    Words are compared, without regard to case, forms of Unicode, line breaks and punctuation. What
    a quote leaves out is marked by "..."; its parts must follow in one document in their order.

    >>> index = QuoteIndex(["The railway opened in 1881, in May.", "Tea is grown on hills."])
    >>> index.find("the railway opened in 1881"), index.find("railway ... in May", 2)
    (1, 1)
    >>> index.find("opened in 1882"), index.find("opened in 188"), index.find("...")
    (None, None, None)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [_words(text) for text in texts]

    def find(self, quote: str, number: int = 1) -> int | None:
        """Return the number of the document that has the quote, from 1: `number` where it has it, else
        the first; None where none has.
        """
        parts = [words for part in _GAP.split(quote) if (words := _words(part)).strip()]
        if not parts:
            return None
        others = [other for other in range(1, len(self._texts) + 1) if other != number]
        for candidate in (number, *others):
            if 1 <= candidate <= len(self._texts) and _has(self._texts[candidate - 1], parts):
                return candidate
        return None


def _words(text: str) -> str:
    """Return the words of a text, each with a blank on both sides."""
    return f" {' '.join(_WORD.findall(folded(text.translate(_MINUS))))} "


def _has(text: str, parts: Sequence[str]) -> bool:
    """Return True if a text has these parts in their order."""
    start = 0
    for part in parts:
        at = text.find(part, start)
        if at < 0:
            return False
        start = at + len(part) - 1
    return True
