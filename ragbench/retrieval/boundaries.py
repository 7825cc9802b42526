"""Where one text may be cut (tokens, words, sentences, lines, paragraphs, headings), and windows of
tokens that fit.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ragbench.array_types import FloatArray, Ints
from ragbench.testsets.outline import Line, find_headings, lines_of
from ragbench.text import Offsets, sentence_spans

Window = tuple[int, int]
"""First token and one after the last."""


class Borders:
    """Where the text of one document may be cut, as sorted token positions, each kind found when it
    is first asked for.

    A border is found as the end of the text before it, so that tokenizers whose tokens begin with
    the space before a word are cut right, too.
    """

    def __init__(self, text: str, offsets: Offsets, *, with_headings: bool = False) -> None:
        """Find headings `with_headings`: then no border of any kind but words and tokens separates
        a heading from the text below it.
        """
        self.text, self.offsets, self.n_tokens = text, offsets, len(offsets)
        self._headings = find_headings(self._lines) if with_headings else []
        self._cuts: dict[str, list[int]] = {}

    @property
    def headings(self) -> list[str]:
        """Return one kind of border per level of heading, the highest first."""
        return [str(level) for level in sorted({level for _, _, level in self._headings})]

    def at(self, ends: npt.ArrayLike) -> Ints:
        """Return for each position in the text the token before which to cut; 0 if no cut is
        possible.

        Between tokens that share a character no cut is possible.
        """
        cuts = np.searchsorted(self.offsets[:, 0], np.asarray(ends, dtype=np.int64), side="left")
        cuts[cuts >= self.n_tokens] = 0
        cuts[self.offsets[cuts - 1, 1] > self.offsets[cuts, 0]] = 0
        return cuts

    def cuts(self, kind: str) -> list[int]:
        """Return the borders of a kind: "tokens", "words", "sentences", "lines", "paragraphs", or
        one of `headings`.
        """
        if kind not in self._cuts:
            positions = np.asarray(self._ends(kind), dtype=np.int64)
            if self._headings and kind not in ("words", "tokens"):
                starts = np.array([self._lines[first].start for first, _, _ in self._headings])
                stops = np.array([self._lines[last].end for _, last, _ in self._headings])
                block = np.searchsorted(starts, positions, side="left") - 1
                positions = positions[(block < 0) | (positions > stops[block])]
            # In order, since the positions are, so a dictionary drops repetitions; np.unique would
            # sort or hash.
            self._cuts[kind] = list(dict.fromkeys(filter(None, self.at(positions).tolist())))
        return self._cuts[kind]

    def _ends(self, kind: str) -> npt.ArrayLike:
        match kind:
            case "tokens":
                return self.offsets[1:, 0]
            case "words":
                # `\S+(?=\s)` would take the square of the length of a last word.
                return [space.start() for space in re.finditer(r"(?<=\S)\s", self.text)]
            case "sentences":
                return self.sentence_ends
            case "lines":
                return [line.end for line in self._lines]
            case "paragraphs":
                return [a.end for a, b in pairwise(self._lines) if b.after_blank]
        firsts = [first for first, _, level in self._headings if str(level) == kind and first > 0]
        return [self._lines[first - 1].end for first in firsts]

    @cached_property
    def sentence_ends(self) -> list[int]:
        return [end for _, end in sentence_spans(self.text)]

    @cached_property
    def _lines(self) -> list[Line]:
        return lines_of(self.text)


def split(borders: Borders, first: int, last: int, kinds: Sequence[str], size: int) -> list[Window]:
    """Return windows of at most `size` tokens: cut at the first kind of border, join pieces that
    fit, cut pieces that are too long at the next kind.
    """
    if last - first <= size or not kinds:
        return [(first, last)]
    cuts = borders.cuts(kinds[0])
    inner = cuts[bisect_right(cuts, first) : bisect_left(cuts, last)]
    if not inner:
        return split(borders, first, last, kinds[1:], size)
    edges = [first, *inner, last]
    windows: list[Window] = []
    current = 0
    while current < len(edges) - 1:
        following = bisect_right(edges, edges[current] + size) - 1
        if following > current:
            windows.append((edges[current], edges[following]))
        else:
            following = current + 1
            windows += split(borders, edges[current], edges[following], kinds[1:], size)
        current = following
    return windows


def split_weakest_first(borders: Borders, similarities: FloatArray, size: int) -> list[Window]:
    """Cut pieces that are too long where neighbouring sentences are least alike, until all fit."""
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
            windows += split(borders, first, last, ("words", "tokens"), size)
    return windows


def extend(
    windows: Sequence[Window], borders: Borders, name: str, size: int, overlap: int
) -> list[Window]:
    """Let each window continue into the next one by up to `overlap` tokens, itself staying within
    `size`.

    It ends at the limit, if this is the next heading or the end of the text; else at the last end of a
    sentence before the limit, or at the last cut between tokens. A window that ends no later than the
    one before is dropped.
    """
    headings = sorted(cut for kind in borders.headings for cut in borders.cuts(kind))
    kinds = ("tokens",) if name == "fixed" else ("sentences", "tokens")
    extended: list[Window] = []
    for first, last in windows:
        limit = min(last + overlap, first + size, borders.n_tokens)
        next_heading = bisect_left(headings, last)
        is_at_heading = False
        if next_heading < len(headings):
            limit = min(limit, headings[next_heading])
            is_at_heading = limit == headings[next_heading]
        end = last
        if is_at_heading or limit == borders.n_tokens:
            end = limit
        for kind in kinds:
            cuts = borders.cuts(kind)
            n_cuts = bisect_right(cuts, limit)  # up to the limit
            if end <= last and n_cuts:
                end = cuts[n_cuts - 1]
        end = max(end, last)
        if not extended or end > extended[-1][1]:
            extended.append((first, end))
    return extended
