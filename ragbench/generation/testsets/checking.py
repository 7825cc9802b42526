"""What can be told about a drafted question without asking a model again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cached_property

import numpy as np

from ragbench.types import Embedder

_WORD = re.compile(r"\w+(?:['’]\w+)*")

# English; in other languages the prompt and the check by a model are all there is.
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|shall|should|may|might|must)(?:n't|n’t)?"
)
_BEGINS_YES_NO = re.compile(rf"(?:^|[,:;]\s*(?:and|or|then|but)?\s*){_AUXILIARY}\s+\w", re.IGNORECASE)
_WH = re.compile(
    r"\b(?:what|which|who|whom|whose|when|where|why|how)\b|^(?:name|list|describe|explain)\b", re.IGNORECASE
)
_SAYS_YES_NO = re.compile(r"^\W*(?:yes|no)\b(?=\W|$)(?!\s+(?:one|longer|more|other)\b)", re.IGNORECASE)
_SPEAKS_OF_ITSELF = re.compile(
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
    """A text with its words, folded so that typography does not tell them apart, and where each stands."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def found(self) -> list[tuple[str, int, int]]:
        """(folded word, start, end) in order."""
        return [(_fold(match[0]), match.start(), match.end()) for match in _WORD.finditer(self.text)]

    @cached_property
    def folded(self) -> list[str]:
        """The folded words."""
        return [word for word, _, _ in self.found]

    @cached_property
    def triples(self) -> set[tuple[str, ...]]:
        """All runs of three words."""
        return set(_runs(self.folded))


def flaw(question: str, answer: str, quote: str, words: Words, max_overlap: float) -> tuple[str, str] | None:
    """State and reason of the first flaw of form; None if there is none."""
    missing = [
        name for name, text in (("question", question), ("answer", answer), ("quote", quote)) if not text.strip()
    ]
    if missing:
        return "incomplete", f"it has no {' and no '.join(missing)}"
    if is_yes_no(question, answer):
        return "yes_no", "it can be answered by yes or no"
    if named := _SPEAKS_OF_ITSELF.search(question):
        return "vague", f"it speaks of the passage: {named[0]!r}"
    share = overlap(question, words)
    if share > max_overlap:
        return "quotes_chunk", f"{share:.0%} of its word triples stand in the chunk; at most {max_overlap:.0%} may"
    return None


def is_yes_no(question: str, answer: str) -> bool:
    """Whether yes or no would be an answer, told by English wording.

    >>> is_yes_no("Does a tuple compare by identity?", "It compares its items.")
    True
    >>> is_yes_no("In Python, can a set hold a list?", "Its items must be hashable.")
    True
    >>> is_yes_no("What is, and does, a context manager?", "It sets up and tears down.")
    False
    """
    if _SAYS_YES_NO.match(answer):
        return True
    return bool(_BEGINS_YES_NO.search(question)) and not _WH.search(question)


def overlap(question: str, words: Words) -> float:
    """The share of a question's runs of three words that the text holds, in [0, 1]; 0 for a shorter question.

    >>> overlap("Which cat sat on the mat?", Words("The cat sat on the mat."))
    0.75
    """
    runs = _runs([_fold(word) for word in _WORD.findall(question)])
    return sum(run in words.triples for run in runs) / len(runs) if runs else 0.0


def locate(quote: str, words: Words, from_character: int = 0) -> tuple[int, int] | None:
    """Where a quote stands in a text, as [start, end) in characters; None where it does not.

    Case, white space and punctuation may differ. Where the words are not all the same, the stretch of text counts in
    which nine tenths of the quote's words stand in order, with little between them. Nothing before `from_character` is
    looked at. The first place counts.

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
    blocks = [
        block for block in SequenceMatcher(None, there, wanted, autojunk=False).get_matching_blocks() if block.size
    ]
    if not blocks or sum(block.size for block in blocks) < _NEAR * size:
        return None
    # What differs at the ends is taken from the text, as many words as the quote has there.
    first = max(0, blocks[0].a - blocks[0].b)
    last = min(len(there), blocks[-1].a + size - blocks[-1].b) - 1
    if last - first + 1 > size / _NEAR + 1:  # the words stand there, but far apart: pieces of different sentences
        return None
    return _stretch(words.text, found[first][1], found[last][2], quote)


def duplicates(
    questions: Sequence[str], known: Sequence[str], embedder: Embedder, max_similarity: float
) -> list[str | None]:
    """For each question the earlier one, or the one among `known`, that asks the same; None where there is none.

    Two questions ask the same when they have the same words, or a cosine of `max_similarity` or more. What is itself a
    duplicate does not count as earlier.
    """
    if not questions:
        return []
    vectors = np.round(embedder.encode([*known, *questions]), 6)
    kept = list(range(len(known)))
    texts = [*known, *questions]
    words = [tuple(_fold(word) for word in _WORD.findall(text)) for text in texts]
    first_with: dict[tuple[str, ...], int] = {}
    for i in kept:
        first_with.setdefault(words[i], i)
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
            first_with.setdefault(words[i], i)
    return result


def _stretch(text: str, start: int, end: int, quote: str) -> tuple[int, int]:
    """With the closing signs of the quote, where the text has them too."""
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
