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
    """Yield the indices of the lines outside of fenced code; the fences are part of the code."""
    fence = ""  # the signs that opened the code around the line
    for i, line in enumerate(lines):
        match = _FENCE.match(line.text)
        if match is None:
            if not fence:
                yield i
            continue
        signs, rest = match.groups()
        if fence:
            if signs.startswith(fence) and not rest.strip():
                fence = ""
        elif signs[0] == "~" and not rest and not line.after_blank:
            yield i  # ~~~ below a line of text is the underline of a title, no fence
        else:
            fence = signs


def find_headings(lines: Sequence[Line]) -> list[tuple[int, int, int]]:
    """Return headings as (first line, last line, level), in order, outside fenced code.

    Level 1 is the highest. `#` headings have the level of their number of signs; in addition,
    titles underlined with `=` and `-` have levels 1 and 2. In texts without `#` headings a title
    may be underlined with any sign, at least as long as it is (reStructuredText; also with a line
    above it), and the levels are numbered in the order in which the signs first appear.
    """
    marked = []
    underlined = []
    last_of_heading = -1
    for i in outside_fences(lines):
        if i <= last_of_heading:
            continue
        if match := _ATX.match(lines[i].text):
            marked.append((i, i, len(match.group(1))))
        elif heading := _underlined(lines, i):
            underlined.append(heading)
            last_of_heading = heading[1]
    if marked:
        level_of = {"=": 1, "-": 2}
        headings = [*marked]
    else:
        level_of = {}
        headings = []
        for _, _, sign in underlined:
            level_of.setdefault(sign, len(level_of) + 1)
    for first, last, sign in underlined:
        if sign in level_of:
            headings.append((first, last, level_of[sign]))
    return sorted(headings)


def _underlined(lines: Sequence[Line], i: int) -> tuple[int, int, str] | None:
    """Return the heading (first line, last line, sign) that begins in line `i`: a title with a line
    of signs below it, and maybe the same above it; None if none begins there.
    """
    over = _UNDERLINE.match(lines[i].text)
    title = i + 1 if over else i
    if not lines[i].after_blank or title + 1 >= len(lines) or _NO_TITLE.match(lines[title].text):
        return None
    below = lines[title + 1]
    under = _UNDERLINE.match(below.text)
    if under is None or below.after_blank:
        return None
    sign = under.group(1)
    is_as_long = len(below.text) >= len(lines[title].text)
    heading = (i, title + 1, sign)
    if over is None:
        return heading if is_as_long or sign in "=-" else None
    if lines[title].after_blank or over.group(1) != sign:
        return None
    return heading if is_as_long else None
