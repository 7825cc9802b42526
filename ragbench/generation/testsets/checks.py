"""Checks of a drafted question that need no model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cached_property

import numpy as np

from ragbench.types import Embedder

_WORD = re.compile(r"\w+(?:['’]\w+)*")

# English only; in other languages the prompt and the check by a model must suffice.
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|shall|should|may|might|must)(?:n't|n’t)?"
)
_BEGINS_YES_NO = re.compile(rf"(?:^|[,:;]\s*(?:and|or|then|but)?\s*){_AUXILIARY}\s+\w", re.IGNORECASE)
_WH = re.compile(
    r"\b(?:what|which|who|whom|whose|when|where|why|how)\b|^(?:name|list|describe|explain)\b", re.IGNORECASE
)
_YES_NO_ANSWER = re.compile(r"^\W*(?:yes|no)\b(?=\W|$)(?!\s+(?:one|longer|more|other)\b)", re.IGNORECASE)
_REFERS_TO_PASSAGE = re.compile(
    r"\b(?:according to|in|from|by|does|of|as per|based on|mentioned in|described in)\s+"
    r"(?:the|this|these|that)\s+(?:given\s+|above\s+|provided\s+|following\s+)?"
    r"(?:passage|text|excerpt|section|chunk|paragraph|snippet|extract|context|document)s?\b"
    r"|\bthe\s+(?:given|above|provided|following)\s+(?:passage|text|excerpt|section|paragraph|document|example|table)\b"
    r"|\b(?:mentioned|described|shown|listed|discussed)\s+(?:above|below|here)\b",
    re.IGNORECASE,
)
_NEAR = 0.9
_N = 3


class Words:
    """A text with its words, normalised in case and typography, and the position of each."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def found(self) -> list[tuple[str, int, int]]:
        """(normalised word, start, end) in order."""
        return [(_fold(match[0]), match.start(), match.end()) for match in _WORD.finditer(self.text)]

    @cached_property
    def folded(self) -> list[str]:
        """The normalised words."""
        return [word for word, _, _ in self.found]

    @cached_property
    def trigrams(self) -> set[tuple[str, ...]]:
        """All word trigrams."""
        return set(_runs(self.folded))


def flaw(question: str, answer: str, quote: str, words: Words, max_overlap: float) -> tuple[str, str] | None:
    """State and reason of the first formal flaw; None if there is none."""
    parts = {"question": question, "answer": answer, "quote": quote}
    if missing := [name for name, text in parts.items() if not text.strip()]:
        return "incomplete", f"it has no {' and no '.join(missing)}"
    if is_yes_no(question, answer):
        return "yes_no", "it can be answered by yes or no"
    if named := _REFERS_TO_PASSAGE.search(question):
        return "vague", f"it refers to the passage: {named[0]!r}"
    fraction = overlap(question, words)
    if fraction > max_overlap:
        return "quotes_chunk", f"{fraction:.0%} of its word trigrams are in the chunk; the maximum is {max_overlap:.0%}"
    return None


def is_yes_no(question: str, answer: str) -> bool:
    """Whether the question can be answered by yes or no, by its English wording.

    >>> is_yes_no("Does a tuple compare by identity?", "It compares its items.")
    True
    >>> is_yes_no("In Python, can a set hold a list?", "Its items must be hashable.")
    True
    >>> is_yes_no("What is, and does, a context manager?", "It sets up and tears down.")
    False
    """
    return bool(_YES_NO_ANSWER.match(answer) or (_BEGINS_YES_NO.search(question) and not _WH.search(question)))


def overlap(question: str, words: Words) -> float:
    """The fraction of a question's word trigrams that the text contains, in [0, 1]; 0 for a shorter question.

    >>> overlap("Which cat sat on the mat?", Words("The cat sat on the mat."))
    0.75
    """
    runs = _runs([_fold(word) for word in _WORD.findall(question)])
    return sum(run in words.trigrams for run in runs) / len(runs) if runs else 0.0


def locate(quote: str, words: Words, from_character: int = 0) -> tuple[int, int] | None:
    """The position of a quote in a text, as [start, end) in characters; None where it is not found.

    Case, white space and punctuation may differ, and up to a tenth of the words: then the match is the stretch of text
    that has the others in order, with little between them. The first match from `from_character` on is returned.

    >>> locate("the CAT sat", Words("Yes: the cat  sat there."))
    (5, 17)
    >>> locate("the dog sat there", Words("Yes: the cat sat there.")) is None
    True
    """
    start = words.text.find(quote, from_character) if quote.strip() else -1
    if start >= 0:
        return start, start + len(quote)
    wanted = Words(quote).folded
    found = [entry for entry in words.found if entry[1] >= from_character]
    there = [word for word, _, _ in found]
    if not wanted or len(there) < _NEAR * len(wanted):
        return None
    size = len(wanted)
    for first in range(len(there) - size + 1):
        if there[first : first + size] == wanted:
            return _stretch(words.text, found[first][1], found[first + size - 1][2], quote)
    matcher = SequenceMatcher(None, there, wanted, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks or sum(block.size for block in blocks) < _NEAR * size:
        return None
    # Differing words at the ends are taken from the text, as many as the quote has there.
    first = max(0, blocks[0].a - blocks[0].b)
    last = min(len(there), blocks[-1].a + size - blocks[-1].b) - 1
    if last - first + 1 > size / _NEAR + 1:  # the words are far apart: pieces of different sentences
        return None
    return _stretch(words.text, found[first][1], found[last][2], quote)


def duplicates(
    questions: Sequence[str], known: Sequence[str], embedder: Embedder, max_similarity: float
) -> list[str | None]:
    """For each question the earlier or `known` question that is the same; None where there is none.

    Two questions are the same when they have the same words, or a cosine of at least `max_similarity`. A duplicate does
    not count as an earlier question.
    """
    if not questions:
        return []
    texts = [*known, *questions]
    vectors = np.round(embedder.encode(texts), 6)
    words = [tuple(_fold(word) for word in _WORD.findall(text)) for text in texts]
    kept = list(range(len(known)))
    first_with = {words[i]: i for i in reversed(kept)}
    result: list[str | None] = []
    for i in range(len(known), len(texts)):
        twin = first_with.get(words[i])
        if twin is None and kept:
            near = np.round(vectors[kept] @ vectors[i], 6)
            best = int(np.argmax(near))
            twin = kept[best] if near[best] >= max_similarity else None
        result.append(None if twin is None else texts[twin])
        if twin is None:
            kept.append(i)
            first_with[words[i]] = i
    return result


def _stretch(text: str, start: int, end: int, quote: str) -> tuple[int, int]:
    """Extend a match by the closing punctuation of the quote, where the text has it too."""
    tail = re.search(r"\W*$", quote.rstrip())
    for sign in tail[0] if tail else "":
        if text[end : end + 1] != sign:
            break
        end += 1
    return start, end


def _fold(word: str) -> str:
    return unicodedata.normalize("NFKC", word).replace("’", "'").casefold()


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + _N]) for i in range(len(words) - _N + 1)]
