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
    lines, after_blank = [], True  # the start of the text counts as a blank line
    for match in _LINE.finditer(text):
        if line := match[1].rstrip():
            lines.append(Line(match.start(), match.start() + len(line), line, after_blank))
        after_blank = not line
    return lines


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_UNDERLINE = re.compile(r"""([=\-*^~"'`+#_:.])\1+$""")
_NO_TITLE = re.compile(r"[-*+>|](?:\s|$)| {4}|\t")  # list item, quotation, table, indented code


def outside_fences(lines: Sequence[Line]) -> Iterator[int]:
    """Yield the numbers of the lines that are not of fenced code."""
    fence = ""
    for i, line in enumerate(lines):
        if match := _FENCE.match(line.text):
            mark, rest = match.groups()
            if not fence and mark[0] == "~" and not rest and not line.after_blank:
                yield i  # the underline of a title
            elif not fence:
                fence = mark
            elif mark.startswith(fence) and not rest.strip():
                fence = ""
        elif not fence:
            yield i


def find_headings(lines: Sequence[Line]) -> list[tuple[int, int, int]]:
    """Return headings as (first line, last line, level), outside fenced code.

    Level 1 is the highest. `#` headings have the level of their number of signs; in addition,
    titles underlined with `=` and `-` have levels 1 and 2. In texts without `#` headings a title
    may be underlined with any sign, at least as long as it is (reStructuredText; also with a line
    above it), the levels being numbered as they turn up.
    """
    signs = []
    underlined = []
    last_title = -1  # the last line of the heading before
    for i in outside_fences(lines):
        if i <= last_title:
            continue
        if match := _ATX.match(lines[i].text):
            signs.append((i, i, len(match.group(1))))
        elif heading := _underlined(lines, i):
            underlined.append(heading)
            last_title = heading[1]
    if signs:
        fixed = {"=": 1, "-": 2}
        return sorted(
            [
                *signs,
                *((first, last, fixed[sign]) for first, last, sign in underlined if sign in fixed),
            ]
        )
    order: dict[str, int] = {}
    return [
        (first, last, order.setdefault(sign, len(order) + 1)) for first, last, sign in underlined
    ]


def _underlined(lines: Sequence[Line], i: int) -> tuple[int, int, str] | None:
    """Return the heading (first line, last line, sign) that begins in line i: a lone title and the
    line below it.
    """
    over = _UNDERLINE.match(lines[i].text)
    title = i + 1 if over else i
    if not lines[i].after_blank or title + 1 >= len(lines) or _NO_TITLE.match(lines[title].text):
        return None
    below = lines[title + 1]
    under = _UNDERLINE.match(below.text)
    if not under or below.after_blank or (over and lines[title].after_blank):
        return None
    sign, as_long = under.group(1), len(below.text) >= len(lines[title].text)
    if over:
        return (i, title + 1, sign) if as_long and over.group(1) == sign else None
    return (i, title + 1, sign) if as_long or sign in "=-" else None
