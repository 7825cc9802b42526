"""Text of HTML pages, with headings as in Markdown; which tags are left out, such as menus and
forms.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

_SKIPPED = re.compile("^(script|style|template|noscript|svg|nav|header|footer|form|button|head)$")
_HEADINGS = re.compile("^h[1-6]$")
_BLOCKS = re.compile(
    "^(address|article|blockquote|dd|details|div|dl|dt|figcaption|figure|hr|main|ol|p|section|"
    "summary|table|tr|ul)$"
)
_LINE_GAP = re.compile(r"[ \t]*\n[ \t\n]*")


def text_of_html(page: bytes) -> str:
    """Return the text of a page: headings marked with #, blank lines between blocks, `pre` between
    fences.

    Scripts, styles and what surrounds the text (navigation, header, footer, forms) are left out.
    The encoding is the one that the page declares, else UTF-8, else Windows-1252.

    >>> text_of_html(b"<nav>Home</nav><h2>Use</h2><p>Call <b>it</b>.<ul><li>once<li>twice</ul><pre>f()</pre>")
    '## Use\\n\\nCall it.\\n\\n- once\\n- twice\\n\\n```\\nf()\\n```'
    """
    from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        soup = BeautifulSoup(page, "html.parser")
    _remove_what_is_no_text(soup)
    _write_tags_as_markdown(soup)
    parts = []
    # the texts between fenced blocks and, because of the group, the blocks themselves
    for part in re.split(r"(?ms)(^```\n.*?^```$)", soup.get_text()):
        is_code = part.startswith("```")
        # outside of code, white space with a line break becomes one line break or one blank line
        parts.append(part if is_code else _LINE_GAP.sub(_line_breaks_of, part))
    return "".join(parts).strip()


def _remove_what_is_no_text(soup: BeautifulSoup) -> None:
    """Remove skipped tags, comments and declarations; outside of `pre`, leave one blank of each gap."""
    from bs4.element import NavigableString

    for tag in soup(_SKIPPED):
        tag.decompose()
    for text in soup.find_all(string=True):
        is_comment_or_declaration = type(text) is not NavigableString  # they are subclasses of it
        if is_comment_or_declaration:
            text.extract()
        elif text.find_parent("pre") is None:
            text.replace_with(re.sub(r"\s+", " ", text))


def _write_tags_as_markdown(soup: BeautifulSoup) -> None:
    """Put the line breaks and signs that Markdown has for each tag into the text of the page."""
    for tag in soup("pre"):
        code = tag.get_text().strip("\n")
        tag.replace_with(f"\n\n```\n{code}\n```\n\n")
    for tag in soup(_HEADINGS):
        level = int(tag.name.removeprefix("h"))
        heading = " ".join(tag.get_text(" ").split()).rstrip(" ¶#")
        tag.replace_with(f"\n\n{'#' * level} {heading}\n\n")
    for tag in soup("br"):
        tag.replace_with("\n")
    for tag in soup("li"):
        tag.insert(0, "\n- ")
    for tag in soup(["td", "th"]):
        tag.append(" ")
    for tag in soup(_BLOCKS):
        tag.insert_before("\n\n")
        tag.insert_after("\n\n")


def _line_breaks_of(gap: re.Match[str]) -> str:
    """Return the line breaks that replace a match of `_LINE_GAP`: a blank line if it has several line
    breaks, else one line break.
    """
    return "\n\n" if gap[0].count("\n") > 1 else "\n"
