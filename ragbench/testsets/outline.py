"""Which lines of Markdown and of plain text (reStructuredText, pydoc) are headings, and of which
level; lines of code are none.
"""

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
        fence, rest = match.groups() if match is not None else ("", "")
        if opening:  # the line is code, or the fence that ends it
            closes = fence.startswith(opening) and not rest.strip()
            if closes:
                opening = ""
            continue
        # ~~~ below a line of text underlines a title
        is_underline = fence.startswith("~") and not rest and not line.after_blank
        if fence and not is_underline:
            opening = fence
        else:
            yield i


def find_headings(lines: Sequence[Line]) -> list[tuple[int, int, int]]:
    """Return the headings outside fenced code as (first line, last line, level), in order; level 1 is
    the highest.

    In Markdown a heading with `#` has the level of its number of signs, and a title underlined with
    `=` or `-` has level 1 or 2. A text without a `#` heading counts as reStructuredText: a title may
    be underlined with any sign, and the signs get the levels 1, 2, ... in the order in which they
    first appear.
    """
    headings = []
    underlined = []
    last_of_heading = -1
    for i in outside_fences(lines):
        if i <= last_of_heading:  # part of the heading above
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
    """Return the underlined heading that begins in line `i`; None if no such heading begins there.

    It is a title with a line of signs below it, and maybe a line of the same signs above it.
    """
    overline = _UNDERLINE.match(lines[i].text)
    title_number = i + 1 if overline else i
    last_number = title_number + 1
    if not lines[i].after_blank or last_number >= len(lines):
        return None
    title = lines[title_number]
    last = lines[last_number]
    underline = _UNDERLINE.match(last.text)
    if underline is None or last.after_blank or _NO_TITLE.match(title.text):
        return None
    sign = underline.group(1)
    if overline is not None and (title.after_blank or overline.group(1) != sign):
        return None
    is_as_long = len(last.text) >= len(title.text)
    may_be_short = overline is None and sign in "=-"  # as in Markdown
    if not is_as_long and not may_be_short:
        return None
    return _Underlined(i, last_number, sign)
