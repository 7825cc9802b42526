"""Sections of documents as evidence: from a document and a heading to characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ragbench.language import words
from ragbench.types import Document, Span

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_UNDERLINE = re.compile(r"""([=\-*^~"'`+#_:.])\1{2,}\s*$""")
_TILDES = re.compile(
    r"(?<=\S[\r\n])~{3,}(?=[ \t]*(?:[\r\n]|$))"
)  # below a title: to Markdown a fence
_LONGEST = 100
_FRONT_MATTER = re.compile(
    r"(?ms)(---|\+\+\+)[ \t]*\r?\n(?=\s*(?:#[^\n]*\n\s*)*[\w\"'-]+[ \t]*[:=]).*?^\1[ \t]*\r?$"
)
_TITLE = re.compile(r"""(?mi)^title[ \t]*[:=][ \t]*["']?(.*?)["']?[ \t]*\r?$""")


class Heading(NamedTuple):
    """A heading at character `start`; level 1 is the highest."""

    start: int
    level: int
    text: str


class SectionMatch(NamedTuple):
    """A section of a document, and how many of its headings are the same."""

    span: Span
    alike: int


def locate(
    document: Document, section: str, headings_by_id: dict[str, list[Heading]] | None = None
) -> SectionMatch | None:
    """Return the section under a heading, up to the next heading of its level or a higher one; None
    without one.

    Headings are those of Markdown, titles underlined in another manner, and short lines between
    blank ones. Case, signs and the form of a link's anchor ("getting-started") take no part. The
    title of a document means all of it. `headings_by_id` keeps headings for the next call.

    >>> guide = Document("guide", "# Install\\nUse pip.\\n## Windows\\nUse it too.\\n# Use\\nCall it.")
    >>> span = locate(guide, "install").span
    >>> guide.full_text[span.start : span.end]
    '# Install\\nUse pip.\\n## Windows\\nUse it too.'
    """
    text = document.full_text
    if document.title and _key(document.title) == _key(section):
        return SectionMatch(Span(document.doc_id, 0, len(text)), 1)
    headings_by_id = {} if headings_by_id is None else headings_by_id
    if document.doc_id not in headings_by_id:
        headings_by_id[document.doc_id] = headings_of(document)
    headings = headings_by_id[document.doc_id]
    numbers = [i for i, heading in enumerate(headings) if _key(heading.text) == _key(section)]
    if not numbers:
        return None
    start, level, _ = headings[numbers[0]]
    following = headings[numbers[0] + 1 :]
    end = next((heading.start for heading in following if heading.level <= level), len(text))
    end = start + len(text[start:end].rstrip())
    return SectionMatch(Span(document.doc_id, start, end), len(numbers))


def front_matter(document: Document) -> str:
    """Return the fields in YAML or TOML between two lines of --- or +++ at the head of a text, ""
    without any.
    """
    match = _FRONT_MATTER.match(document.full_text, len(document.full_text) - len(document.text))
    return match[0] if match else ""


def front_title(document: Document) -> str:
    """Return the title in the front matter.

    >>> front_title(Document("a", "---\\ntitle: 'npm audit'\\nsection: 1\\n---\\n\\nText."))
    'npm audit'
    """
    match = _TITLE.search(front_matter(document))
    return match[1] if match else ""


def without_front_matter(document: Document) -> str:
    """Return the full text with blanks in place of its front matter, so that offsets stay."""
    start, fields = len(document.full_text) - len(document.text), front_matter(document)
    blank = re.sub(r"[^\r\n]", " ", fields)
    return document.full_text[:start] + blank + document.full_text[start + len(fields) :]


def headings_of(document: Document) -> list[Heading]:
    """Return the headings of a document, in order."""
    from markdown_it import MarkdownIt

    text = without_front_matter(document)
    starts = [match.start() for match in _LINE.finditer(text)]
    tokens = MarkdownIt("commonmark").parse(_TILDES.sub(lambda line: " " * len(line.group()), text))
    by_line = {}
    fenced: set[int] = set()
    for token, content in pairwise(tokens):
        if token.type == "fence" and token.map:
            fenced |= set(range(*token.map))
        if token.type == "heading_open" and token.map and content.content:
            by_line[token.map[0]] = Heading(
                starts[token.map[0]], int(token.tag[1:]), content.content
            )
    lowest = max((heading.level for heading in by_line.values()), default=0)
    for line, heading in _lone_lines(text, starts, lowest).items():
        if line not in fenced and line - 1 not in by_line:
            by_line.setdefault(line, heading)
    return [by_line[line] for line in sorted(by_line)]


def _lone_lines(text: str, starts: Sequence[int], lowest: int) -> dict[int, Heading]:
    """Return short lines between blank ones, and titles underlined with any sign (levels as the
    signs turn up).
    """
    lines = [
        text[start:end].rstrip()
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
    ]
    levels: dict[str, int] = {}
    by_line = {}
    for number, line in enumerate(lines):
        if not line or len(line) > _LONGEST or line[0].isspace() or _UNDERLINE.match(line):
            continue
        before = lines[number - 1] if number else ""
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if (under := _UNDERLINE.match(after)) and (not before or _UNDERLINE.match(before)):
            level = levels.setdefault(under.group(1), lowest + len(levels) + 1)
            by_line[number] = Heading(starts[number], level, line)
        elif (
            not before
            and not after
            and line[-1] not in ".,;!?"
            and not re.match(r"[-*+>|#`]\s?|\d+[.)] ", line)
        ):
            by_line[number] = Heading(starts[number], lowest + 100, line)
    return by_line


def _key(text: str) -> str:
    return " ".join(words(text.replace("_", " "))) or text.strip()
