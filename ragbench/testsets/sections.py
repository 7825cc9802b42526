"""Sections of documents as evidence: from a document and a heading to characters."""

import re
from functools import lru_cache
from typing import NamedTuple

from ragbench.language import words
from ragbench.testsets.outline import find_headings, lines_of, outside_fences
from ragbench.types import Document, Span

_LONE = re.compile(r"(?![-*+>|#`]\s?|\d+[.)] |\s).*[^.,;!?]$")
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


def locate(document: Document, section: str) -> SectionMatch | None:
    """Return the section under a heading, up to the next heading of its level or a higher one; None
    without one.

    Headings are those of Markdown, titles underlined in another manner, and short lines between
    blank ones. Case, signs and the form of a link's anchor ("getting-started") take no part. The
    title of a document means all of it.

    >>> guide = Document("guide", "# Install\\nUse pip.\\n## Windows\\nUse it too.\\n# Use\\nCall it.")
    >>> span = locate(guide, "install").span
    >>> guide.full_text[span.start : span.end]
    '# Install\\nUse pip.\\n## Windows\\nUse it too.'
    """
    text = document.full_text
    if document.title and _key(document.title) == _key(section):
        return SectionMatch(Span(document.doc_id, 0, len(text)), 1)
    headings = headings_of(document)
    alike = [heading for heading in headings if _key(heading.text) == _key(section)]
    if not alike:
        return None
    start, level, _ = alike[0]
    ends = (each.start for each in headings if each.start > start and each.level <= level)
    end = start + len(text[start : next(ends, len(text))].rstrip())
    return SectionMatch(Span(document.doc_id, start, end), len(alike))


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
    """Return the headings of a document, in order: those that are marked, and short lines between
    blank ones.
    """
    return _headings(without_front_matter(document))


@lru_cache(maxsize=64)
def _headings(text: str) -> list[Heading]:
    lines = lines_of(text)
    headings = {}
    marked = set()
    for first, last, level in find_headings(lines):
        title = lines[max(first, last - 1)].text
        headings[first] = Heading(lines[first].start, level, title.strip("# \t"))
        marked |= {*range(first, last + 1)}
    for i in outside_fences(lines):
        line, is_last = lines[i], i + 1 == len(lines)
        is_alone = line.after_blank and (is_last or lines[i + 1].after_blank)
        if is_alone and i not in marked and len(line.text) <= _LONGEST and _LONE.match(line.text):
            headings[i] = Heading(line.start, 100, line.text)
    return [headings[i] for i in sorted(headings)]


def _key(text: str) -> str:
    return " ".join(words(text.replace("_", " "))) or text.strip()
