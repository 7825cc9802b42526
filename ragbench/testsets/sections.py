"""Sections of documents as evidence: from a document and a heading to characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ragbench.types import Document, Span

_NEAR = 85
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
    """A section that was found. `heading` is its text; `nearly`, that it is not quite the one asked
    for; `alike`, how many have it."""

    span: Span
    heading: str
    nearly: bool
    alike: int


def locate(
    document: Document, section: str, known: dict[str, list[Heading]] | None = None
) -> SectionMatch | None:
    """Return the section under a heading, up to the next heading of its level or a higher one; None
    without one.

    Headings are those of Markdown, titles underlined in another manner, and short lines between
    blank ones. Case, signs and the form of a link's anchor ("getting-started") take no part; a near
    miss (85 of 100 by rapidfuzz) counts, an exact one comes first. The title of a document means
    all of it. `known` keeps headings for the next call.

    >>> guide = Document("guide", "# Install\\nUse pip.\\n## Windows\\nUse it too.\\n# Use\\nCall it.")
    >>> span = locate(guide, "install").span
    >>> guide.full_text[span.start : span.end]
    '# Install\\nUse pip.\\n## Windows\\nUse it too.'
    """
    text = document.full_text
    if document.title and _key(document.title) == _key(section):
        return SectionMatch(Span(document.doc_id, 0, len(text)), document.title, False, 1)
    known = {} if known is None else known
    if document.doc_id not in known:
        known[document.doc_id] = headings_of(document)
    headings = known[document.doc_id]
    found = [
        number for number, heading in enumerate(headings) if _key(heading.text) == _key(section)
    ]
    nearly = not found
    if nearly and (near := _nearest(section, headings)) is not None:
        found = [near]
    if not found:
        return None
    own = headings[found[0]]
    end = next((h.start for h in headings[found[0] + 1 :] if h.level <= own.level), len(text))
    end = own.start + len(text[own.start : end].rstrip())
    return SectionMatch(Span(document.doc_id, own.start, end), own.text, nearly, len(found))


def front_matter(document: Document) -> str:
    """Return the fields in YAML or TOML between two lines of --- or +++ at the head of a text, ""
    without any.
    """
    found = _FRONT_MATTER.match(document.full_text, len(document.full_text) - len(document.text))
    return found[0] if found else ""


def front_title(document: Document) -> str:
    """Return the title in the front matter.

    >>> front_title(Document("a", "---\\ntitle: 'npm audit'\\nsection: 1\\n---\\n\\nText."))
    'npm audit'
    """
    found = _TITLE.search(front_matter(document))
    return found[1] if found else ""


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
    found = {}
    fenced: set[int] = set()
    for token, content in pairwise(tokens):
        if token.type == "fence" and token.map:
            fenced |= set(range(*token.map))
        if token.type == "heading_open" and token.map and content.content:
            found[token.map[0]] = Heading(starts[token.map[0]], int(token.tag[1:]), content.content)
    lowest = max((heading.level for heading in found.values()), default=0)
    for line, heading in _lone_lines(text, starts, lowest).items():
        if line not in fenced and line - 1 not in found:
            found.setdefault(line, heading)
    return [found[line] for line in sorted(found)]


def _lone_lines(text: str, starts: Sequence[int], lowest: int) -> dict[int, Heading]:
    """Return short lines between blank ones, and titles underlined with any sign (levels as the
    signs turn up).
    """
    lines = [
        text[start:end].rstrip()
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
    ]
    levels: dict[str, int] = {}
    found = {}
    for number, line in enumerate(lines):
        if not line or len(line) > _LONGEST or line[0].isspace() or _UNDERLINE.match(line):
            continue
        before = lines[number - 1] if number else ""
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if (under := _UNDERLINE.match(after)) and (not before or _UNDERLINE.match(before)):
            level = levels.setdefault(under.group(1), lowest + len(levels) + 1)
            found[number] = Heading(starts[number], level, line)
        elif (
            not before
            and not after
            and line[-1] not in ".,;!?"
            and not re.match(r"[-*+>|#`]\s?|\d+[.)] ", line)
        ):
            found[number] = Heading(starts[number], lowest + 100, line)
    return found


def _nearest(section: str, headings: Sequence[Heading]) -> int | None:
    from rapidfuzz import fuzz, process

    keys = [_key(heading.text) for heading in headings]
    near = process.extractOne(_key(section), keys, scorer=fuzz.ratio, score_cutoff=_NEAR)
    return near[2] if near else None


def _key(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold())) or text.strip()
