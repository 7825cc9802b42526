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
        self._cuts: dict[str, list[int]] = {}  # kind -> its borders, once asked for

    @property
    def headings(self) -> list[str]:
        """Return one kind of border per level of heading, the highest first."""
        return [str(level) for level in sorted({level for _, _, level in self._headings})]

    def at(self, ends: npt.ArrayLike) -> Ints:
        """Return for each position in the text the token before which to cut; 0 if no cut is
        possible.

        Between tokens that share a character no cut is possible.
        """
        # a row of `offsets` per token: its start and its end in the text
        token_starts, token_ends = self.offsets[:, 0], self.offsets[:, 1]
        cuts = np.searchsorted(token_starts, np.asarray(ends, dtype=np.int64), side="left")
        cuts[cuts >= self.n_tokens] = 0  # no token starts there or later: the end of the text
        shares_a_character = token_ends[cuts - 1] > token_starts[cuts]
        cuts[shares_a_character] = 0
        return cuts

    def cuts(self, kind: str) -> list[int]:
        """Return the numbers of the tokens before which a text may be cut by a kind of border: "tokens",
        "words", "sentences", "lines", "paragraphs", or one of `headings`.
        """
        if kind not in self._cuts:
            positions = np.asarray(self._cut_positions(kind), dtype=np.int64)
            if self._headings and kind not in ("words", "tokens"):
                positions = self._not_after_headings(positions)
            possible_cuts = [cut for cut in self.at(positions).tolist() if cut != 0]  # 0: no cut
            # The cuts are sorted already, so a dictionary drops repetitions; np.unique would sort
            # or hash.
            self._cuts[kind] = list(dict.fromkeys(possible_cuts))
        return self._cuts[kind]

    def _not_after_headings(self, positions: Ints) -> Ints:
        """Return the positions at which a cut separates no heading from the text below it: those
        inside a heading and at its end are left out.
        """
        # a heading is (number of its first line, number of its last line, level)
        starts = np.array([self._lines[first].start for first, _, _ in self._headings])
        ends = np.array([self._lines[last].end for _, last, _ in self._headings])
        # for each position the index of the last heading that starts before it; -1 if none does
        heading_before = np.searchsorted(starts, positions, side="left") - 1
        is_after_heading = positions > ends[heading_before]
        return positions[(heading_before < 0) | is_after_heading]

    def _cut_positions(self, kind: str) -> npt.ArrayLike:
        """Return the positions in the text at which it may be cut, in order: the ends of "words",
        "sentences", "lines" or "paragraphs", or the starts of all "tokens" but the first.

        Any other `kind` is a level of headings: then the positions are the ends of the text before
        each heading of this level.
        """
        match kind:
            case "tokens":
                token_starts = self.offsets[:, 0]
                return token_starts[1:]
            case "words":
                # The first space after each word; `\S+(?=\s)` would find the end of the word itself,
                # but takes quadratic time in the length of the last word.
                return [space.start() for space in re.finditer(r"(?<=\S)\s", self.text)]
            case "sentences":
                return self.sentence_ends
            case "lines":
                return [line.end for line in self._lines]
            case "paragraphs":
                neighbours = pairwise(self._lines)
                return [line.end for line, next_line in neighbours if next_line.after_blank]
            case _:
                return self._ends_before_headings(kind)

    def _ends_before_headings(self, level: str) -> list[int]:
        """Return the end of the line before each heading of a level; a heading in the first line
        has none.
        """
        ends = []
        for first_line, _, heading_level in self._headings:
            if str(heading_level) == level and first_line > 0:
                ends.append(self._lines[first_line - 1].end)
        return ends

    @cached_property
    def sentence_ends(self) -> list[int]:
        return [end for _, end in sentence_spans(self.text)]

    @cached_property
    def _lines(self) -> list[Line]:
        return lines_of(self.text)


def split(borders: Borders, first: int, last: int, kinds: Sequence[str], size: int) -> list[Window]:
    """Split the tokens from `first` up to `last` into windows (first, last) of at most `size` tokens.

    The text is cut at all borders of the first kind, and neighbouring pieces are joined as long as they
    fit. A piece that is too long by itself is split at the next kind, and so on. After the last kind a
    range stays one window, of any size.

    Args:
        borders: of the text.
        first, last: the range of tokens; `last` is not part of it.
        kinds: where to cut, the strongest first, such as ["paragraphs", "sentences", "words"].
        size: of a window, in tokens.
    """
    if last - first <= size or not kinds:
        return [(first, last)]
    strongest, weaker = kinds[0], kinds[1:]
    cuts = borders.cuts(strongest)
    # the cuts between the two ends, without these
    inner_cuts = cuts[bisect_right(cuts, first) : bisect_left(cuts, last)]
    if not inner_cuts:
        return split(borders, first, last, weaker, size)
    edges = [first, *inner_cuts, last]  # the pieces are between neighbouring edges
    windows: list[Window] = []
    current = 0  # the index of the edge where the next window starts
    while current < len(edges) - 1:
        # the last edge that is at most `size` tokens away
        last_that_fits = bisect_right(edges, edges[current] + size) - 1
        if last_that_fits > current:
            windows.append((edges[current], edges[last_that_fits]))
            current = last_that_fits
        else:  # the next piece is too long by itself
            windows += split(borders, edges[current], edges[current + 1], weaker, size)
            current += 1
    return windows


def split_weakest_first(borders: Borders, similarities: FloatArray, size: int) -> list[Window]:
    """Split a document into windows of at most `size` tokens, in order: a piece that is too long is
    cut between the two sentences that are least similar.

    `similarities` has one value for each border between two sentences. Neither side of a cut gets
    less than a quarter of `size`, if a border allows that. A single sentence that is too long is cut
    between words, else between tokens.
    """
    token_after_sentence = borders.at(borders.sentence_ends[:-1])
    # `sentence_of_cut`: the number of the sentence that ends at each cut, which is also the index of
    # its similarity with the next sentence. If several sentences end before one token, the first counts.
    cuts, sentence_of_cut = np.unique(token_after_sentence, return_index=True)
    is_inside = (cuts > 0) & (cuts < borders.n_tokens)
    similarity_at_cut = similarities[sentence_of_cut[is_inside]]
    cuts = cuts[is_inside]
    windows: list[Window] = []
    # a stack, not recursion: a long document may be cut very often
    waiting = [(0, borders.n_tokens)]
    while waiting:
        first, last = waiting.pop()
        if last - first <= size:
            windows.append((first, last))
            continue
        quarter = max(1, size // 4)
        cut = _weakest_cut(cuts, similarity_at_cut, first, last, quarter)
        if cut is None:  # no cut leaves a quarter of `size` on both sides: take any cut inside
            cut = _weakest_cut(cuts, similarity_at_cut, first, last, 1)
        if cut is None:  # a single sentence
            windows += split(borders, first, last, ("words", "tokens"), size)
        else:
            waiting.append((cut, last))
            waiting.append((first, cut))  # on top of the stack: windows come in order
    return windows


def _weakest_cut(
    cuts: Ints, similarities: FloatArray, first: int, last: int, min_side: int
) -> int | None:
    """Return the cut of the lowest similarity that leaves at least `min_side` tokens of the window
    from `first` up to `last` on both sides; None if there is no such cut.

    `cuts` is sorted, and `similarities` has the value of each cut.
    """
    # cuts[low:high] are those from first + min_side up to and with last - min_side
    low, high = np.searchsorted(cuts, [first + min_side, last - min_side + 1])
    if low == high:
        return None
    return int(cuts[low + int(np.argmin(similarities[low:high]))])


def extend(
    windows: Sequence[Window], borders: Borders, name: str, size: int, overlap: int
) -> list[Window]:
    """Return the windows, each continued into the next one by up to `overlap` tokens, but to no more than
    `size` tokens in all.

    A window does not continue past the next heading. A window that then ends no later than the one before
    it holds nothing new, and is dropped.

    Args:
        windows: (first token, one after the last).
        borders: of the text.
        name: of the chunker, which decides where a window may end (`_last_cut`).
    """
    # the tokens before which a heading begins
    headings = sorted(cut for level in borders.headings for cut in borders.cuts(level))
    headings_and_end = [*headings, borders.n_tokens]
    extended: list[Window] = []
    for first, last in windows:
        limit = min(last + overlap, first + size)
        # the first heading at or after the end of the window, or the end of the text
        next_heading = headings_and_end[bisect_left(headings_and_end, last)]
        if limit >= next_heading:
            end = next_heading
        else:
            end = _last_cut(borders, name, last, limit)
        if not extended or end > extended[-1][1]:
            extended.append((first, end))
    return extended


def _last_cut(borders: Borders, name: str, last: int, limit: int) -> int:
    """Return the new end of a window that ends at the token `last` and may be extended up to `limit`.

    It is the last end of a sentence between the two (not for the chunker "fixed"), else the last cut
    between tokens; `last` if there is neither.
    """
    kinds = ("tokens",) if name == "fixed" else ("sentences", "tokens")
    for kind in kinds:
        cuts = borders.cuts(kind)
        n_up_to_limit = bisect_right(cuts, limit)
        if n_up_to_limit and cuts[n_up_to_limit - 1] > last:
            return cuts[n_up_to_limit - 1]
    return last
