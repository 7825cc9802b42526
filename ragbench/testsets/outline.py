"""The lines and headings of Markdown and of plain text in its manner (reStructuredText, pydoc)."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")


class Line(NamedTuple):
    """A line that is not blank; `end` and `text` are without the white space that ends it."""

    start: int
    end: int
    text: str
    after_blank: bool


def lines_of(text: str) -> list[Line]:
    """Return the lines of a text that are not blank."""
    lines = []
    after_blank = True  # the start of the text counts as a blank line
    for match in _LINE.finditer(text):
        line = match[1].rstrip()
        if line:
            lines.append(Line(match.start(), match.start() + len(line), line, after_blank))
        after_blank = not line
    return lines


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_UNDERLINE = re.compile(r"""([=\-*^~"'`+#_:.])\1+$""")
_NO_TITLE = re.compile(r"[-*+>|](?:\s|$)| {4}|\t")  # list item, quotation, table, indented code


def outside_fences(lines: Sequence[Line]) -> Iterator[int]:
    """Yield the indices of the lines outside of fenced code; the fences (``` or ~~~) are part of the
    code.
    """
    opening = ""  # the fence that opened the code around the line; "" outside of code
    for i, line in enumerate(lines):
        match = _FENCE.match(line.text)
        if match is None:
            if not opening:
                yield i
            continue
        fence, rest = match.groups()
        if opening:
            closes = fence.startswith(opening) and not rest.strip()
            if closes:
                opening = ""
            continue
        # ~~~ below a line of text underlines a title
        is_underline = fence[0] == "~" and not rest and not line.after_blank
        if is_underline:
            yield i
        else:
            opening = fence


def find_headings(lines: Sequence[Line]) -> list[tuple[int, int, int]]:
    """Return headings as (first line, last line, level), in order, outside fenced code.

    Level 1 is the highest. `#` headings have the level of their number of signs; in addition,
    titles underlined with `=` and `-` have levels 1 and 2. In texts without `#` headings a title
    may be underlined with any sign, at least as long as it is (reStructuredText; also with a line
    above it), and the levels are numbered in the order in which the signs first appear.
    """
    headings = []
    underlined = []
    last_of_heading = -1
    for i in outside_fences(lines):
        if i <= last_of_heading:
            continue
        if match := _ATX.match(lines[i].text):
            headings.append((i, i, len(match.group(1))))
        elif heading := _underlined_heading(lines, i):
            underlined.append(heading)
            last_of_heading = heading.last
    level_of = {"=": 1, "-": 2}
    if not headings:  # reStructuredText
        signs = dict.fromkeys(heading.sign for heading in underlined)
        level_of = {sign: level for level, sign in enumerate(signs, start=1)}
    for first, last, sign in underlined:
        if sign in level_of:
            headings.append((first, last, level_of[sign]))
    return sorted(headings)


class _Underlined(NamedTuple):
    """An underlined heading: its first line, its last line, and the sign of its underline."""

    first: int
    last: int
    sign: str


def _underlined_heading(lines: Sequence[Line], i: int) -> _Underlined | None:
    """Return the heading that begins in line `i`: a title with a line of signs below it, and maybe the
    same above it; None if none begins there.
    """
    above = _UNDERLINE.match(lines[i].text)
    n_title = i + 1 if above else i
    n_below = n_title + 1
    if not lines[i].after_blank or n_below >= len(lines):
        return None
    title = lines[n_title]
    below = lines[n_below]
    underline = _UNDERLINE.match(below.text)
    if _NO_TITLE.match(title.text) or underline is None or below.after_blank:
        return None
    sign = underline.group(1)
    if above is not None and (title.after_blank or above.group(1) != sign):
        return None
    is_as_long = len(below.text) >= len(title.text)
    may_be_short = above is None and sign in "=-"  # as in Markdown
    return _Underlined(i, n_below, sign) if is_as_long or may_be_short else None
