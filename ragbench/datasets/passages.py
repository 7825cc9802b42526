"""Texts found again in documents: exactly, with white space folded, or resembling."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from ragbench.language import words
from ragbench.types import Document, Span

_MIN_FUZZY = 40  # characters; a shorter text resembles many places
_MIN_RATIO = 90.0  # rapidfuzz's partial ratio
_MAX_VOTERS = 24  # words of a passage that choose its candidates
_MAX_CANDIDATES = 8


class Place(NamedTuple):
    """The places that hold a passage, one per document, and how they were found."""

    holders: tuple[Span, ...]
    how: str = "by id"


NOWHERE = Place((Span("", 0, 0),), "unmatched")


class Texts:
    """The corpus with white space folded, and which documents hold a word; built when a text must
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
        """Return where this document holds a text, white space folded."""
        full = self._corpus[doc_id].full_text
        if (at := full.find(text)) >= 0:
            return at, at + len(text)
        folded, offsets = self._fold(doc_id)
        folded_text = " ".join(text.split())
        at = folded.find(folded_text)
        return (offsets[at], offsets[at + len(folded_text) - 1] + 1) if at >= 0 else None

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

        folded_text = " ".join(text.split())
        if len(folded_text) < _MIN_FUZZY:
            return NOWHERE
        voters = [word for word in rarest if word in self._holding][:_MAX_VOTERS]
        votes = Counter(number for word in voters for number in self._holding[word])
        most = max(votes.values(), default=0)
        likely = [number for number in votes if votes[number] >= most / 2]
        best = 0.0
        holders: list[Span] = []
        for number in sorted(likely, key=lambda number: (-votes[number], number))[:_MAX_CANDIDATES]:
            folded, offsets = self._fold(self._ids[number])
            match = partial_ratio_alignment(folded_text, folded, score_cutoff=_MIN_RATIO)
            if match is None or match.dest_end <= match.dest_start or match.score < best:
                continue
            span = Span(
                self._ids[number], offsets[match.dest_start], offsets[match.dest_end - 1] + 1
            )
            best, holders = match.score, [*(holders if match.score == best else []), span]
        return Place(tuple(holders), "fuzzy") if holders else NOWHERE

    def _folded(self, doc_id: str) -> tuple[str, list[int]]:
        """Return a document's text with white space folded, and where each of its characters is in
        `full_text`.
        """
        words = list(re.finditer(r"\S+", self._corpus[doc_id].full_text))
        offsets: list[int] = []
        for match in words:
            offsets += range(match.start() - bool(offsets), match.end())
        return " ".join(match[0] for match in words), offsets
