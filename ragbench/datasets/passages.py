"""Finds texts again in documents: exactly, with white space and Unicode forms folded, or by how
much resemblance; `systems/passage_matches` decides which places count.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

import regex

from ragbench.folding import normal
from ragbench.language import words
from ragbench.types import Document, Span

_PART = regex.compile(
    # Letters that are as they are; a letter with its marks, or the thousands of a number; a gap. A soft
    # hyphen at the end of a line hides the gap after it.
    r"(?P<plain>[!-~]+(?!\p{M}))|(?P<gap>\s+)|(?P<letter>\xad\s*|\X)"
)
_MIN_FUZZY = 40  # characters; a shorter text resembles many places
_MIN_RATIO = 90.0  # rapidfuzz's partial ratio
_SEARCHED_WORDS = 4  # rarest words of a text: only documents with all of them are searched for it
_MAX_VOTERS = 24  # words of a passage that choose its candidates
_MAX_CANDIDATES = 8


class Place(NamedTuple):
    """The places that hold a passage, one per document in the order of the corpus, and how they
    were found: "exact", "white space", "fuzzy", "by id" or "unmatched".
    """

    holders: tuple[Span, ...]
    how: str = "by id"


NOWHERE = Place((Span("", 0, 0),), "unmatched")


class _Folded(NamedTuple):
    """A text with single blanks and letters in one form (`normal`), and where each of its characters
    begins and ends in the original text.
    """

    text: str
    starts: list[int]
    ends: list[int]


class Texts:
    """Find texts in a corpus, with white space and letters folded.

    `find(text)` returns a `Place`, `NOWHERE` for a text that no document holds or resembles. The
    index is built at the first search, and kept.
    """

    def __init__(self, corpus: Mapping[str, Document]) -> None:
        self._corpus = corpus
        self._ids = list(corpus)
        self.find = cache(self._search)
        self._folded_document = cache(self._fold_document)

    @cached_property
    def _holding(self) -> dict[str, array[int]]:
        """Return word -> the numbers of the documents that hold it."""
        holding: dict[str, array[int]] = {}
        for number, document in enumerate(self._corpus.values()):
            for word in set(words(document.full_text)):
                holding.setdefault(word, array("I")).append(number)
        return holding

    def place_in_document(self, text: str, doc_id: str) -> tuple[int, int] | None:
        """Return the first place (start, end) of a text in a document; None if it is not there.

        The unchanged text is searched for first. If it is nowhere, differences in white space and in
        the forms of letters (such as ligatures) are ignored.
        """
        document = self._corpus[doc_id].full_text
        start = document.find(text)
        if start >= 0:
            return start, start + len(text)
        folded_text = _fold(text).text
        start_in_folded = self._folded_document(doc_id).text.find(folded_text)
        if start_in_folded < 0:
            return None
        # from places in the folded text to places in the document
        span = self._original_span(doc_id, start_in_folded, start_in_folded + len(folded_text))
        return span.start, span.end

    def _original_span(self, doc_id: str, start: int, end: int) -> Span:
        """Return the span in a document of the characters from `start` to `end` of its folded text."""
        folded = self._folded_document(doc_id)
        return Span(doc_id, folded.starts[start], folded.ends[end - 1])

    def places(self, text: str, doc_id: str) -> list[Span]:
        """Return every place where a document holds a text; [] if it is not there.

        The unchanged text is searched for first. If it is nowhere, differences in white space and in
        the forms of letters (such as ligatures) are ignored.

        >>> texts = Texts({"d": Document("d", "A cat. A dog. A  cat.")})
        >>> [(span.start, span.end) for span in texts.places("A cat.", "d")]
        [(0, 6)]
        >>> [(span.start, span.end) for span in texts.places("dog.  A cat", "d")]
        [(9, 20)]
        """
        document = self._corpus[doc_id].full_text
        exact = regex.finditer(regex.escape(text), document)
        spans = [Span(doc_id, match.start(), match.end()) for match in exact]
        if spans:
            return spans
        folded_text = _fold(text).text
        if not folded_text:
            return []
        folded = regex.finditer(regex.escape(folded_text), self._folded_document(doc_id).text)
        return [self._original_span(doc_id, match.start(), match.end()) for match in folded]

    def _search(self, text: str) -> Place:
        """Return the first place of a text in each document that holds it.

        The places count as "exact" if one document or more holds the unchanged text, else they differ
        from it in "white space" or in the forms of letters. If no document holds the text, return the
        places that resemble it most, `NOWHERE` without such places.
        """
        rarest_first = self._rarest_first(text)
        spans = []
        is_exact = False
        # a document without the rarest words cannot hold the text, so it need not be searched
        for number in self._holders_of_all(rarest_first[:_SEARCHED_WORDS]):
            doc_id = self._ids[number]
            bounds = self.place_in_document(text, doc_id)
            if bounds is None:
                continue
            start, end = bounds
            spans.append(Span(doc_id, start, end))
            if self._corpus[doc_id].full_text.startswith(text, start):
                is_exact = True
        if not spans:
            return self._resembling(text, rarest_first)
        return Place(tuple(spans), "exact" if is_exact else "white space")

    def _rarest_first(self, text: str) -> list[str]:
        """Return the words of a passage, those that fewest documents hold first.

        The first and the last word are left out: they may be cut, and then be words of no document.
        """
        text_words = words(text)
        inner_words = text_words[1:-1] if len(text_words) > 3 else []
        return sorted(dict.fromkeys(inner_words), key=lambda word: len(self._holding.get(word, ())))

    def _holders_of_all(self, some_words: Sequence[str]) -> list[int]:
        """Return the numbers of the documents that hold all of these words; all numbers without words."""
        numbers = set(range(len(self._ids)))
        for word in some_words:
            numbers.intersection_update(self._holding.get(word, ()))
        return sorted(numbers)

    def _resembling(self, text: str, rarest_first: Sequence[str]) -> Place:
        """Return the places that resemble a text most, by rapidfuzz's partial ratio; `NOWHERE` for a
        short text, or if no place resembles it enough.

        Only the few documents that share most of its rare words are compared.
        """
        from rapidfuzz.fuzz import partial_ratio_alignment

        folded_text = _fold(text).text
        if len(folded_text) < _MIN_FUZZY:
            return NOWHERE
        best_score = 0.0
        holders: list[Span] = []  # the places with the best score
        for number in self._sharing_most(rarest_first):
            doc_id = self._ids[number]
            document = self._folded_document(doc_id).text
            # `dest_start` and `dest_end` bound the most similar part of the document.
            match = partial_ratio_alignment(folded_text, document, score_cutoff=_MIN_RATIO)
            if match is None or match.dest_end <= match.dest_start or match.score < best_score:
                continue
            if match.score > best_score:
                best_score = match.score
                holders = []
            holders.append(self._original_span(doc_id, match.dest_start, match.dest_end))
        return Place(tuple(holders), "fuzzy") if holders else NOWHERE

    def _sharing_most(self, rarest_first: Sequence[str]) -> list[int]:
        """Return the numbers of the few documents that are likely to resemble a passage, the best first.

        They hold at least half as many of the passage's rarest words as the document that holds most.
        `rarest_first` has the words of the passage.
        """
        # `self._holding`: word -> the numbers of the documents that hold it
        rare_words = [word for word in rarest_first if word in self._holding][:_MAX_VOTERS]
        n_shared: Counter[int] = Counter()  # number of a document -> rare words that it holds
        for word in rare_words:
            n_shared.update(self._holding[word])
        most = max(n_shared.values(), default=0)
        likely = [number for number in n_shared if n_shared[number] >= most / 2]
        likely.sort(key=lambda number: (-n_shared[number], number))
        return likely[:_MAX_CANDIDATES]

    def _fold_document(self, doc_id: str) -> _Folded:
        """Return a document's text, folded."""
        return _fold(self._corpus[doc_id].full_text)


def _fold(text: str) -> _Folded:
    """Return a text in the form in which texts are compared, with the place in `text` that each
    character of this form comes from.

    A gap (white space) becomes one blank; it is left out at the beginning and the end of the text.
    Letters get one form by `normal`, such as full-width letters, ligatures and letters with separate
    accents; capitals stay. Lengths may differ: a ligature becomes several characters, and a letter with
    its marks may become one.
    """
    parts: list[str] = []
    starts: list[int] = []  # for each folded character, where its origin in `text` starts
    ends: list[int] = []  # and where its origin ends
    for match in _PART.finditer(text):
        start, end = match.span()
        kind = match.lastgroup  # the group that matched: "gap", "plain" or "letter"
        part = normal(match[0])
        if kind == "gap":
            is_inside = start > 0 and end < len(text)
            part = " " if is_inside else ""
            start = end - 1  # the one blank comes from the last character of the gap
        parts.append(part)
        if kind == "plain":  # as many characters as before
            starts += range(start, end)
            ends += range(start + 1, end + 1)
        else:
            starts += [start] * len(part)
            ends += [end] * len(part)
    return _Folded("".join(parts), starts, ends)
