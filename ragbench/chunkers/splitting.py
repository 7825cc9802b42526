"""Cut a run of tokens into windows that fit. Everything here counts in tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ragbench.chunkers.borders import Borders, Level
    from ragbench.types import FloatArray

    Window = tuple[int, int]
    """First token and one after the last."""


def split(first: int, last: int, levels: Sequence[Level], size: int) -> list[Window]:
    """Windows of at most `size` tokens: cut at the first level, join what fits, cut what is too long further down."""
    if last - first <= size or not levels:
        return [(first, last)]
    borders = levels[0]()
    inner = borders[bisect_right(borders, first) : bisect_left(borders, last)]
    if not inner:
        return split(first, last, levels[1:], size)
    edges = [first, *inner, last]
    windows: list[Window] = []
    here = 0
    while here < len(edges) - 1:
        there = bisect_right(edges, edges[here] + size) - 1
        if there > here:
            windows.append((edges[here], edges[there]))
        else:
            there = here + 1
            windows += split(edges[here], edges[there], levels[1:], size)
        here = there
    return windows


def split_weakest_first(borders: Borders, similarities: FloatArray, size: int) -> list[Window]:
    """Cut what is too long where neighbouring sentences are least alike, until all pieces fit."""
    cuts, where = np.unique(borders.at(borders.sentence_ends[:-1]), return_index=True)
    inside = (cuts > 0) & (cuts < borders.n_tokens)
    cuts, alike = cuts[inside], similarities[where[inside]]
    windows: list[Window] = []
    waiting = [(0, borders.n_tokens)]  # a stack, not recursion: a long document may be cut very often
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


def extend(windows: Sequence[Window], borders: Borders, name: str, size: int, overlap: int) -> list[Window]:
    """Let each window continue into the next one by up to `overlap` tokens, itself staying within `size`."""
    stops = sorted(cut for level in borders.headings() for cut in level()) if name == "markdown" else []
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
