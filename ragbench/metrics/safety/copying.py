"""Where a text repeats another one word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_WORD = re.compile(r"\w+")
_SHORTEST_WHOLE = 12
_NEARLY_WHOLE = 0.9


def copied_runs(text: str, contexts: Sequence[str], min_words: int) -> list[tuple[int, int, int]]:
    """(start, end, words) of the longest runs of words of `text` that are in one of `contexts`, in order.

    A run counts from `min_words` words, or from 90 % of a context that has 12 words or more. Words are compared by case
    folding; punctuation and white space do not matter. Overlapping runs of several contexts become one.

    >>> copied_runs("He said: one two three four five!", ["one, two, three, four, five, six"], 5)
    [(9, 32, 5)]
    """
    words = [(match.group().casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]
    spans: list[tuple[int, int]] = []
    for context in contexts:
        other = [match.casefold() for match in _WORD.findall(context)]
        needed = min_words
        if len(other) >= _SHORTEST_WHOLE:
            needed = min(min_words, max(_SHORTEST_WHOLE, int(_NEARLY_WHOLE * len(other))))
        spans += _runs([word for word, _, _ in words], other, needed)
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return [(words[first][1], words[last - 1][2], last - first) for first, last in merged]


def _runs(words: list[str], other: list[str], needed: int) -> Iterator[tuple[int, int]]:
    """Word positions [first, last) of the runs of at least `needed` words."""
    if len(words) < needed or len(other) < needed:
        return
    grams = {tuple(other[i : i + needed]) for i in range(len(other) - needed + 1)}
    first = 0
    while first <= len(words) - needed:
        if tuple(words[first : first + needed]) not in grams:
            first += 1
            continue
        last = first + needed
        while last < len(words) and tuple(words[last - needed + 1 : last + 1]) in grams:
            last += 1
        yield first, last
        first = last
