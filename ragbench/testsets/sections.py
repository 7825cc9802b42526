"""Sections of documents as evidence: from a heading to its characters, up to where a section ends,
and front matter left out; `outline` finds the headings.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from ragbench.language import words
from ragbench.testsets.outline import find_headings, lines_of, outside_fences
from ragbench.types import Document, Span

_LONE = re.compile(r"(?![-*+>|#`]\s?|\d+[.)] |\s).*[^.,;!?]$")
_LONGEST = 100  # characters of a heading that is not marked
LONE_LEVEL = 100
"""The level of a heading that is not marked: a short line between blank ones. It is below all others."""
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
    """A section of a document, and the number of headings of the document with the same text."""

    span: Span
    alike: int


def locate(document: Document, section: str) -> SectionMatch | None:
    """Return the section under a heading, up to the next heading of its level or a higher one; None
    if the document has no such heading.

    A heading is marked as in Markdown, underlined with any sign, or a short line between blank ones.
    The comparison ignores case and signs, so that the anchor of a link ("getting-started") equals its
    heading. The title of a document stands for the whole document. If several headings are equal, the
    section of the first is returned; `alike` in the result is their number.

    >>> guide = Document("guide", "# Install\\nUse pip.\\n## Windows\\nUse it too.\\n# Use\\nCall it.")
    >>> span = locate(guide, "install").span
    >>> guide.full_text[span.start : span.end]
    '# Install\\nUse pip.\\n## Windows\\nUse it too.'
    """
    text = document.full_text
    section_words = _comparable(section)
    if document.title and _comparable(document.title) == section_words:
        return SectionMatch(Span(document.doc_id, 0, len(text)), 1)
    headings = headings_of(document)
    alike = [heading for heading in headings if _comparable(heading.text) == section_words]
    if not alike:
        return None
    start, level, _ = alike[0]
    later = [each.start for each in headings if each.start > start and each.level <= level]
    next_heading = later[0] if later else len(text)
    end = start + len(text[start:next_heading].rstrip())
    return SectionMatch(Span(document.doc_id, start, end), len(alike))


def front_matter(document: Document) -> str:
    """Return the fields in YAML or TOML between two lines of --- or +++ at the head of a text, ""
    without any.
    """
    match = _FRONT_MATTER.match(document.full_text, len(document.full_text) - len(document.text))
    return match[0] if match else ""


def front_title(document: Document) -> str:
    """Return the title in the front matter, "" without one.

    >>> front_title(Document("a", "---\\ntitle: 'npm audit'\\nsection: 1\\n---\\n\\nText."))
    'npm audit'
    """
    match = _TITLE.search(front_matter(document))
    return match[1] if match else ""


def without_front_matter(document: Document) -> str:
    """Return the full text with blanks in place of its front matter (the fields at its head), so that
    offsets stay.
    """
    start = len(document.full_text) - len(document.text)
    fields = front_matter(document)
    blank = re.sub(r"[^\r\n]", " ", fields)
    return document.full_text[:start] + blank + document.full_text[start + len(fields) :]


def headings_of(document: Document) -> list[Heading]:
    """Return the headings of a document, in order: marked ones, and short lines between blank ones,
    which have `LONE_LEVEL`.
    """
    return _headings(without_front_matter(document))


@lru_cache(maxsize=64)
def _headings(text: str) -> list[Heading]:
    """Return the headings of a text, as `headings_of` does; [] if it has none."""
    lines = lines_of(text)
    headings: dict[int, Heading] = {}  # index of a heading's first line in `lines` -> heading
    marked_lines: set[int] = set()
    for first, last, level in find_headings(lines):
        title_line = max(first, last - 1)  # a heading may have a line above and below its title
        title = lines[title_line].text
        headings[first] = Heading(lines[first].start, level, title.strip("# \t"))
        marked_lines.update(range(first, last + 1))
    for i in outside_fences(lines):
        line = lines[i]
        is_before_blank = i + 1 == len(lines) or lines[i + 1].after_blank
        is_alone = line.after_blank and is_before_blank
        is_short = len(line.text) <= _LONGEST and _LONE.match(line.text) is not None
        if is_alone and is_short and i not in marked_lines:
            headings[i] = Heading(line.start, LONE_LEVEL, line.text)
    return [headings[i] for i in sorted(headings)]


def _comparable(text: str) -> str:
    """Return the words of a heading in the form in which headings are compared."""
    return " ".join(words(text.replace("_", " "))) or text.strip()
