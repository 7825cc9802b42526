"""Texts found again in documents: exactly, with white space and Unicode forms folded, or resembling."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import regex

from ragbench.language import normal, words
from ragbench.types import Document, Span

_PART = regex.compile(
    # Letters that are as they are; a letter with its marks, or the thousands of a number; a gap. A soft
    # hyphen at the end of a line hides the gap after it.
    r"(?P<plain>[!-~]+(?!\p{M}))|(?P<gap>\s+)|(?P<letter>\xad\s*|\X)"
)
_MIN_FUZZY = 40  # characters; a shorter text resembles many places
_MIN_RATIO = 90.0  # rapidfuzz's partial ratio
_MAX_VOTERS = 24  # words of a passage that choose its candidates
_MAX_CANDIDATES = 8


class Place(NamedTuple):
    """The places that hold a passage, one per document, and how they were found."""

    holders: tuple[Span, ...]
    how: str = "by id"


NOWHERE = Place((Span("", 0, 0),), "unmatched")


class _Folded(NamedTuple):
    """A text with single blanks and letters in one form (`normal`), and where each of its characters
    begins and ends in the text that it was made from.
    """

    text: str
    starts: list[int]
    ends: list[int]


class Texts:
    """The corpus with white space and letters folded, and which documents hold a word; built when a text must
    be found.
    """

    def __init__(self, corpus: Mapping[str, Document]) -> None:
        self._corpus, self._ids = corpus, list(corpus)
        self.find, self._fold = cache(self._search), cache(self._folded)

    @cached_property
    def _holding(self) -> dict[str, array[int]]:
        holding: dict[str, array[int]] = {}
        for number, document in enumerate(self._corpus.values()):
            for word in set(words(document.full_text)):
                holding.setdefault(word, array("I")).append(number)
        return holding

    def within(self, text: str, doc_id: str) -> tuple[int, int] | None:
        """Return where this document holds a text, white space and letters folded."""
        full = self._corpus[doc_id].full_text
        if (at := full.find(text)) >= 0:
            return at, at + len(text)
        folded = self._fold(doc_id)
        folded_text = _fold(text).text
        at = folded.text.find(folded_text)
        if at < 0:
            return None
        return folded.starts[at], folded.ends[at + len(folded_text) - 1]

    def places(self, text: str, doc_id: str) -> list[Span]:
        """Return every place where this document holds a text: as it is, else with white space and
        letters folded.

        >>> texts = Texts({"d": Document("d", "A cat. A dog. A  cat.")})
        >>> [(span.start, span.end) for span in texts.places("A cat.", "d")]
        [(0, 6)]
        >>> [(span.start, span.end) for span in texts.places("dog.  A cat", "d")]
        [(9, 20)]
        """
        full = self._corpus[doc_id].full_text
        exact = [match.start() for match in regex.finditer(regex.escape(text), full)]
        if exact:
            return [Span(doc_id, at, at + len(text)) for at in exact]
        folded = self._fold(doc_id)
        folded_text = _fold(text).text
        if not folded_text:
            return []
        found = regex.finditer(regex.escape(folded_text), folded.text)
        return [
            Span(doc_id, folded.starts[match.start()], folded.ends[match.end() - 1])
            for match in found
        ]

    def _search(self, text: str) -> Place:
        """Return where the corpus holds a text."""
        text_words = words(text)
        # the outer two may be cut in the middle
        inner = dict.fromkeys(text_words[1:-1] if len(text_words) > 3 else ())
        rarest = sorted(inner, key=lambda word: len(self._holding.get(word, ())))
        candidates = set(range(len(self._ids)))
        for word in rarest[:4]:
            candidates.intersection_update(self._holding.get(word, ()))
        spans = [
            Span(self._ids[i], *span)
            for i in sorted(candidates)
            if (span := self.within(text, self._ids[i])) is not None
        ]
        if not spans:
            return self._resembling(text, rarest)
        exact = any(
            self._corpus[span.doc_id].full_text.startswith(text, span.start) for span in spans
        )
        return Place(tuple(spans), "exact" if exact else "white space")

    def _resembling(self, text: str, rarest: Sequence[str]) -> Place:
        from rapidfuzz.fuzz import partial_ratio_alignment

        folded_text = _fold(text).text
        if len(folded_text) < _MIN_FUZZY:
            return NOWHERE
        voters = [word for word in rarest if word in self._holding][:_MAX_VOTERS]
        votes = Counter(number for word in voters for number in self._holding[word])
        most = max(votes.values(), default=0)
        likely = [number for number in votes if votes[number] >= most / 2]
        best = 0.0
        holders: list[Span] = []
        for number in sorted(likely, key=lambda number: (-votes[number], number))[:_MAX_CANDIDATES]:
            folded = self._fold(self._ids[number])
            match = partial_ratio_alignment(folded_text, folded.text, score_cutoff=_MIN_RATIO)
            if match is None or match.dest_end <= match.dest_start or match.score < best:
                continue
            start, end = folded.starts[match.dest_start], folded.ends[match.dest_end - 1]
            span = Span(self._ids[number], start, end)
            best, holders = match.score, [*(holders if match.score == best else []), span]
        return Place(tuple(holders), "fuzzy") if holders else NOWHERE

    def _folded(self, doc_id: str) -> _Folded:
        """Return a document's text, folded."""
        return _fold(self._corpus[doc_id].full_text)


def _fold(text: str) -> _Folded:
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _PART.finditer(text):
        part = normal(match[0])
        if match.lastgroup == "gap":
            part = " " if match.start() > 0 and match.end() < len(text) else ""
        if part and match.lastgroup == "plain":
            starts += range(match.start(), match.end())
            ends += range(match.start() + 1, match.end() + 1)
        else:
            starts += [match.end() - 1 if part == " " else match.start()] * len(part)
            ends += [match.end()] * len(part)
        parts.append(part)
    return _Folded("".join(parts), starts, ends)
