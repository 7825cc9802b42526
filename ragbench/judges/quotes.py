"""Quotes of a judge, looked up in the documents that it was shown: which differences of a quote
from the text are tolerated.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

from ragbench.folding import folded
from ragbench.language import SIGN, SPACED

# A number keeps its sign and its decimals: 2.5 is neither 25 nor -2.5.
_WORD = regex.compile(rf"(?<![{SPACED}.])-?\d+(?:[.,]\d+)*|{SIGN}|{SPACED}+", regex.V1)
_GAP = regex.compile(r"\[\s*(?:\.\.\.|…)\s*\]|\(\s*(?:\.\.\.|…)\s*\)|\.\.\.|…")
_MINUS = str.maketrans("\u2212\u2010\u2011\u2012\u2013\u2014", "------")


class QuoteIndex:
    """Documents in which quotes are looked up.

    Words are compared, without regard to case, forms of Unicode, line breaks and punctuation. A quote
    marks omissions by "..."; its parts must follow in one document in their order.

    >>> index = QuoteIndex(["The railway opened in 1881, in May.", "Tea is grown on hills."])
    >>> index.find("the railway opened in 1881"), index.find("railway ... in May", 2)
    (1, 1)
    >>> index.find("opened in 1882"), index.find("opened in 188"), index.find("...")
    (None, None, None)
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = [_words(text) for text in texts]

    def find(self, quote: str, number: int = 1) -> int | None:
        """Return the number (from 1) of a document that has the quote; None if no document has it.

        It is `number` if that document has the quote, else the first that has it.
        """
        # the parts between omissions; one without words, as before a "..." at the start, is left out
        parts = [_words(part) for part in _GAP.split(quote)]
        parts = [words for words in parts if words.strip()]
        if not parts:
            return None
        # the order in which documents are looked at
        numbers = list(range(1, len(self._texts) + 1))
        if number in numbers:
            numbers.insert(0, number)  # first the one that the judge named
        for each in numbers:
            if _has_in_order(self._texts[each - 1], parts):
                return each
        return None


def _words(text: str) -> str:
    """Return the words of a text, each with a blank on both sides, so that a part of a word is not found.

    Case and forms of Unicode are folded, and all dashes are a minus; punctuation is left out.
    """
    return f" {' '.join(_WORD.findall(folded(text.translate(_MINUS))))} "


def _has_in_order(text: str, parts: Sequence[str]) -> bool:
    """Return True if a text has these parts one after the other. Each part begins and ends with a blank,
    and neighbouring parts may share one.
    """
    search_from = 0
    for part in parts:
        start = text.find(part, search_from)
        if start < 0:
            return False
        search_from = start + len(part) - 1  # the blank at the end may begin the next part
    return True
