"""Contexts as groundedness reads them: sentences with their words, and where each word is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ragbench.metrics.groundedness.polarity import denied
from ragbench.metrics.groundedness.words import Word, words
from ragbench.segments import sentence_spans

if TYPE_CHECKING:
    import numpy.typing as npt

_LONGEST = 60  # words: tables and lists without full stops are no sentences
_PREFIX = 5
# a line that ends within a sentence, as in plain text with a fixed width; the next one begins no item or row
_WRAPPED = re.compile(r"([^\n]{39,}[^\n.:;!?|])\n[ \t]*(?![-*+•#|>\s]|\(?\d+[.)])")


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence of a context, or a piece of a long one."""

    text: str

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return tuple(words(self.text))

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def denied(self) -> frozenset[str]:
        return denied(self.text, self.words)


@dataclass(frozen=True, eq=False)
class Page:
    """Contexts read as one: `sentences` in their order, `context_of` is the context that each is from."""

    sentences: tuple[Sentence, ...]
    context_of: tuple[int, ...]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """stem -> the sentences that hold it."""
        found: dict[str, list[int]] = {}
        for place, sentence in enumerate(self.sentences):
            for stem in sorted(sentence.stems):
                found.setdefault(stem, []).append(place)
        return found

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The pairs of stems that are adjacent somewhere."""
        return frozenset((a.stem, b.stem) for s in self.sentences for a, b in zip(s.words, s.words[1:], strict=False))

    @cached_property
    def triples(self) -> frozenset[tuple[str, str, str]]:
        """The triples of stems that are consecutive somewhere."""
        return frozenset(
            (a.stem, b.stem, c.stem)
            for s in self.sentences
            for a, b, c in zip(s.words, s.words[1:], s.words[2:], strict=False)
        )

    @cached_property
    def numbered(self) -> dict[str, int]:
        """stem -> a number for it."""
        return {stem: number for number, stem in enumerate(self.places)}

    @cached_property
    def row(self) -> npt.NDArray[np.int64]:
        """The words of the page in their order, as numbers of their stems; -1 after each sentence."""
        return np.array([n for s in self.sentences for n in (*(self.numbered[w.stem] for w in s.words), -1)])

    @cached_property
    def _by_prefix(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for stem in sorted(self.places):
            if len(stem) >= _PREFIX:
                found.setdefault(stem[:_PREFIX], []).append(stem)
        return found

    def find(self, stem: str) -> str | None:
        """The stem as the page has it: itself, or one that begins alike and is at most three letters off in length."""
        if stem in self.places:
            return stem
        if len(stem) < _PREFIX or stem[0].isdigit():
            return None
        near = [other for other in self._by_prefix.get(stem[:_PREFIX], ()) if abs(len(other) - len(stem)) <= 3]
        return near[0] if near else None


def read_page(contexts: Sequence[str]) -> Page:
    """The contexts as one page; the last hundreds are kept in memory."""
    return _page(tuple(contexts))


@lru_cache(maxsize=256)
def _page(contexts: tuple[str, ...]) -> Page:
    sentences: list[Sentence] = []
    owner: list[int] = []
    for place, context in enumerate(contexts):
        found = _sentences(context)
        sentences += found
        owner += [place] * len(found)
    return Page(tuple(sentences), tuple(owner))


def unwrapped(text: str) -> list[str]:
    """The lines of a text, with continued lines joined.

    >>> unwrapped("Use it when an exception has been raised and is\\nbeing handled:\\n- once\\n- twice")
    ['Use it when an exception has been raised and is being handled:', '- once', '- twice']
    """
    return _WRAPPED.sub(r"\1 ", text).split("\n")


@lru_cache(maxsize=2_000)
def _sentences(context: str) -> tuple[Sentence, ...]:
    found = []
    for start, end in sentence_spans(context):
        for line in unwrapped(context[start:end]):
            parts = re.findall(r"\S+", line)
            pieces = (
                [line.strip()]
                if len(parts) <= 1.5 * _LONGEST
                else [" ".join(parts[i : i + _LONGEST]) for i in range(0, len(parts), _LONGEST)]
            )
            found += [sentence for sentence in map(Sentence, pieces) if sentence.words]
    return tuple(found)
