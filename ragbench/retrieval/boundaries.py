"""Where one text may be cut (tokens, words, sentences, lines, paragraphs, headings), and windows of
tokens that fit.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ragbench.testsets.outline import Line, find_headings, lines_of
from ragbench.text import sentence_spans

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragbench.text import Offsets
    from ragbench.types import FloatArray

    Window = tuple[int, int]
    """First token and one after the last."""

    Level = Callable[[], list[int]]
    """Where one kind of border cuts, as token positions in order; worked out only if it is needed."""


class Borders:
    """Where the text of one document may be cut, as sorted token positions, each kind found when it
    is first asked for.

    A border is found as the end of what comes before it, so that tokenizers whose tokens begin with
    the space before a word are cut right, too.
    """

    def __init__(self, text: str, offsets: Offsets) -> None:
        self.text = text
        self.offsets = offsets
        self.n_tokens = len(offsets)
        self._heading_blocks: list[tuple[int, int]] = []
        self._cuts: dict[str, list[int]] = {}

    def at(self, ends: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return for each position in the text the token before which to cut; 0 where no cut is
        possible.

        Between tokens that share a character no cut is possible.
        """
        cuts = np.searchsorted(self.offsets[:, 0], np.asarray(ends, dtype=np.int64), side="left")
        cuts[cuts >= self.n_tokens] = 0
        cuts[self.offsets[cuts - 1, 1] > self.offsets[cuts, 0]] = 0
        return cuts

    def _kind(self, kind: str, ends: Callable[[], npt.ArrayLike]) -> list[int]:
        if kind not in self._cuts:
            positions = np.asarray(ends(), dtype=np.int64)
            if self._heading_blocks and kind != "words":
                starts, stops = np.asarray(self._heading_blocks, dtype=np.int64).T
                block = np.searchsorted(starts, positions, side="left") - 1
                positions = positions[(block < 0) | (positions > stops[block])]
            # In order, since the positions are, so a dictionary drops what comes twice; np.unique
            # would sort or hash.
            self._cuts[kind] = list(
                dict.fromkeys(cut for cut in self.at(positions).tolist() if cut)
            )
        return self._cuts[kind]

    def tokens(self) -> list[int]:
        if "tokens" not in self._cuts:
            free = self.offsets[:-1, 1] <= self.offsets[1:, 0]
            self._cuts["tokens"] = (np.flatnonzero(free) + 1).tolist()
        return self._cuts["tokens"]

    def words(self) -> list[int]:
        return self._kind(
            "words", lambda: [word.end() for word in re.finditer(r"\S+(?=\s)", self.text)]
        )

    def sentences(self) -> list[int]:
        return self._kind("sentences", lambda: self.sentence_ends)

    @cached_property
    def sentence_ends(self) -> list[int]:
        return [end for _, end in sentence_spans(self.text)]

    def lines(self) -> list[int]:
        return self._kind("lines", lambda: [line.end for line in self._text_lines])

    def paragraphs(self) -> list[int]:
        lines = self._text_lines
        return self._kind(
            "paragraphs", lambda: [a.end for a, b in pairwise(lines) if b.after_blank]
        )

    @cached_property
    def _text_lines(self) -> list[Line]:
        return lines_of(self.text)

    @cached_property
    def _headings(self) -> list[tuple[int, int, int]]:
        return find_headings(self._text_lines)

    def headings(self) -> list[Level]:
        """Return one level of borders per level of heading, the highest first.

        From then on no border of any kind but words and tokens separates a heading from the text
        below it.
        """
        lines = self._text_lines
        self._heading_blocks = [
            (lines[first].start, lines[last].end) for first, last, _ in self._headings
        ]

        def before(level: int) -> Level:
            ends = [
                lines[first - 1].end
                for first, _, depth in self._headings
                if depth == level and first > 0
            ]
            return lambda: self._kind(f"heading {level}", lambda: ends)

        return [before(level) for level in sorted({depth for _, _, depth in self._headings})]


def split(first: int, last: int, levels: Sequence[Level], size: int) -> list[Window]:
    """Return windows of at most `size` tokens: cut at the first level, join what fits, cut what is
    too long further down.
    """
    if last - first <= size or not levels:
        return [(first, last)]
    borders = levels[0]()
    inner = borders[bisect_right(borders, first) : bisect_left(borders, last)]
    if not inner:
        return split(first, last, levels[1:], size)
    edges = [first, *inner, last]
    windows: list[Window] = []
    current = 0
    while current < len(edges) - 1:
        following = bisect_right(edges, edges[current] + size) - 1
        if following > current:
            windows.append((edges[current], edges[following]))
        else:
            following = current + 1
            windows += split(edges[current], edges[following], levels[1:], size)
        current = following
    return windows


def split_weakest_first(borders: Borders, similarities: FloatArray, size: int) -> list[Window]:
    """Cut what is too long where neighbouring sentences are least alike, until all pieces fit."""
    cuts, where = np.unique(borders.at(borders.sentence_ends[:-1]), return_index=True)
    inside = (cuts > 0) & (cuts < borders.n_tokens)
    cuts, alike = cuts[inside], similarities[where[inside]]
    windows: list[Window] = []
    waiting = [
        (0, borders.n_tokens)
    ]  # a stack, not recursion: a long document may be cut very often
    while waiting:
        first, last = waiting.pop()
        if last - first <= size:
            windows.append((first, last))
            continue
        for margin in (max(1, size // 4), 1):
            low, high = np.searchsorted(cuts, [first + margin, last - margin + 1])
            if low < high:
                cut = int(cuts[low + int(np.argmin(alike[low:high]))])
                waiting += [(cut, last), (first, cut)]
                break
        else:
            windows += split(first, last, [borders.words, borders.tokens], size)
    return windows


def extend(
    windows: Sequence[Window], borders: Borders, name: str, size: int, overlap: int
) -> list[Window]:
    """Let each window continue into the next one by up to `overlap` tokens, itself staying within
    `size`.
    """
    stops = (
        sorted(cut for level in borders.headings() for cut in level()) if name == "markdown" else []
    )
    kinds = [borders.tokens()] if name == "fixed" else [borders.sentences(), borders.tokens()]
    extended: list[Window] = []
    for first, last in windows:
        limit = min(last + overlap, first + size, borders.n_tokens)
        if (stop := bisect_left(stops, last)) < len(stops):
            limit = min(limit, stops[stop])
        reach = limit if limit == borders.n_tokens or limit in stops[stop : stop + 1] else last
        for cuts in kinds:
            if reach <= last and (n := bisect_right(cuts, limit)):
                reach = cuts[n - 1]
        reach = max(reach, last)
        if not extended or reach > extended[-1][1]:
            extended.append((first, reach))
    return extended
