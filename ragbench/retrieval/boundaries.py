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
        token_starts, token_ends = self.offsets[:, 0], self.offsets[:, 1]
        cuts = np.searchsorted(token_starts, np.asarray(ends, dtype=np.int64), side="left")
        cuts[cuts >= self.n_tokens] = 0
        shares_a_character = token_ends[cuts - 1] > token_starts[cuts]
        cuts[shares_a_character] = 0
        return cuts

    def cuts(self, kind: str) -> list[int]:
        """Return the borders of a kind: "tokens", "words", "sentences", "lines", "paragraphs", or
        one of `headings`.
        """
        if kind not in self._cuts:
            positions = np.asarray(self._ends(kind), dtype=np.int64)
            if self._headings and kind not in ("words", "tokens"):
                positions = self._outside_headings(positions)
            possible_cuts = [cut for cut in self.at(positions).tolist() if cut != 0]
            # The cuts are sorted already, so a dictionary drops repetitions; np.unique would sort
            # or hash.
            self._cuts[kind] = list(dict.fromkeys(possible_cuts))
        return self._cuts[kind]

    def _outside_headings(self, positions: Ints) -> Ints:
        """Return the positions that separate no heading from the text below it."""
        starts = np.array([self._lines[first].start for first, _, _ in self._headings])
        ends = np.array([self._lines[last].end for _, last, _ in self._headings])
        heading_before = np.searchsorted(starts, positions, side="left") - 1  # -1: none
        is_outside = (heading_before < 0) | (positions > ends[heading_before])
        return positions[is_outside]

    def _ends(self, kind: str) -> npt.ArrayLike:
        """Return the positions in the text where pieces of a kind end, in order: words, sentences,
        lines, paragraphs, or the sections before headings of the level `kind`.
        """
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
    """Split the tokens from `first` up to `last` into windows of at most `size` tokens.

    Cuts at the borders of `kinds[0]` and joins neighbouring pieces as long as they fit; a piece that
    is too long by itself is split at the next kind. Without kinds the range stays one window, of any
    size.
    """
    if last - first <= size or not kinds:
        return [(first, last)]
    strongest, weaker = kinds[0], kinds[1:]
    cuts = borders.cuts(strongest)
    inner_cuts = cuts[bisect_right(cuts, first) : bisect_left(cuts, last)]
    if not inner_cuts:
        return split(borders, first, last, weaker, size)
    edges = [first, *inner_cuts, last]
    windows: list[Window] = []
    current = 0  # the index of the edge where the next window starts
    while current < len(edges) - 1:
        last_that_fits = bisect_right(edges, edges[current] + size) - 1
        if last_that_fits > current:
            windows.append((edges[current], edges[last_that_fits]))
            current = last_that_fits
        else:
            windows += split(borders, edges[current], edges[current + 1], weaker, size)
            current += 1
    return windows


def split_weakest_first(borders: Borders, similarities: FloatArray, size: int) -> list[Window]:
    """Split a document into windows of at most `size` tokens, in order: a piece that is too long is
    cut between the two sentences that are least alike.

    `similarities` has one value for each border between two sentences. Neither side of a cut gets
    less than a quarter of `size` if there is such a border. A single sentence that is too long is
    cut between words, then tokens.
    """
    cuts, sentence_of_cut = np.unique(borders.at(borders.sentence_ends[:-1]), return_index=True)
    inside = (cuts > 0) & (cuts < borders.n_tokens)
    similarity_at_cut = similarities[sentence_of_cut[inside]]
    cuts = cuts[inside]
    windows: list[Window] = []
    # a stack, not recursion: a long document may be cut very often
    waiting = [(0, borders.n_tokens)]
    while waiting:
        first, last = waiting.pop()
        if last - first <= size:
            windows.append((first, last))
            continue
        for smallest_side in (max(1, size // 4), 1):
            low, high = np.searchsorted(cuts, [first + smallest_side, last - smallest_side + 1])
            if low < high:
                weakest = low + int(np.argmin(similarity_at_cut[low:high]))
                cut = int(cuts[weakest])
                waiting.append((cut, last))
                waiting.append((first, cut))  # on top of the stack: windows come in order
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
