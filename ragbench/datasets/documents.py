"""Text of PDF and DOCX files, with lines, hyphens and pages undone and headings as in Markdown."""

import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ragbench.errors import require

EXTRA = "documents"
"""What installs the readers of these files: `pip install 'ragbench-lab[documents]'`."""

_BROKEN = "\ufffe"  # with which pdfium replaces a hyphen and the end of its line
_HYPHENS = ("-", "\u2010", "\u00ad")
_MARGIN = 2  # lines at the top and at the bottom of a page that may repeat
_REPEATED = 3  # pages
_SHORT = 0.75  # of the usual length of a line: the last one of a paragraph, or a heading
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_END = re.compile(r"[.!?:;…。！？][\"'”’)\]]*$")
_BEGIN = re.compile(r"\d|[•◦▪‣·–*]\s|\(?\w{1,3}[.)]\s")  # of a listed item, or a numbered heading
_DIVIDED = re.compile(r"(?:(?<![^\W\d_])[^\W\d_]+)?[-\u2010\u00ad]\n[^\W\d_]*")
_LETTERS = re.compile(r"[^\W\d_]*")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")


def text_of_pdf(content: bytes) -> str:
    """Return the text of a PDF file in the order in which it is written, a blank line between
    paragraphs; "" of scans.

    Lines are joined, and words that were divided between them; a hyphen stays where the document
    has the word with it, or its two parts as words. Lines that repeat at the top or bottom of
    pages, such as the number of the page, are left out.

    Raises:
        MissingExtraError: pypdfium2 is not installed.
        ValueError: the file is damaged, or needs a password.
    """
    pdfium = require("pypdfium2", EXTRA)
    try:
        file = pdfium.PdfDocument(content)
        pages = [file[number].get_textpage().get_text_range() for number in range(len(file))]
        file.close()
    except pdfium.PdfiumError as exc:
        raise ValueError(str(exc)) from exc
    return text_of_pages(pages)


def text_of_pages(pages: Sequence[str]) -> str:
    """Return one text from those of printed pages, see `text_of_pdf`.

    >>> text_of_pages(["News 1\\nThe line was re\\ufffebuilt by a well-", "News 2\\nknown engineer. It is well-known."])
    'The line was rebuilt by a well-known engineer. It is well-known.'
    """
    texts = (
        _LIGATURE.sub(lambda sign: unicodedata.normalize("NFKC", sign[0]), page) for page in pages
    )
    lines = list(_without_margins([text.replace(_BROKEN, "-\n").splitlines() for text in texts]))
    words = Counter(_WORD.findall(_DIVIDED.sub(" ", "\n".join(lines)).casefold()))
    usual = sorted(map(len, lines))[len(lines) * 9 // 10] if lines else 0
    parts = []
    for line, following, after in zip(lines, [*lines[1:], ""], [*lines[2:], "", ""], strict=False):
        is_last = _is_last(line, following, usual) or _is_heading(line, following, after, usual)
        parts += [line, "\n\n"] if is_last else _joined(line, following, words)
    return "".join(parts).strip()


def _without_margins(pages: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of all pages without those that repeat at top and bottom, apart from the
    number of the page.
    """
    margins: list[
        dict[int, set[str]]
    ] = []  # of each page: place of a line -> the line, and with relative numbers
    pages = [[line.strip() for line in page if line.strip()] for page in pages]
    for number, page in enumerate(pages):
        places = {*range(_MARGIN), *range(len(page) - _MARGIN, len(page))} & {*range(len(page))}
        margins.append({row: {page[row], _relative(page[row], number)} for row in places})
    counts = Counter(key for margin in margins for key in set().union(*margin.values()))
    least = max(2, min(_REPEATED, len(pages)))
    for page, margin in zip(pages, margins, strict=True):
        yield from (
            line
            for row, line in enumerate(page)
            if all(counts[key] < least for key in margin.get(row, ()))
        )


def _relative(line: str, page: int) -> str:
    """Return a line with its numbers as distances from that of the page."""
    return re.sub(r"\d{1,5}", lambda number: f"#{int(number[0]) - page}", line)


def _is_last(line: str, following: str, usual: int) -> bool:
    """Return True if a paragraph ends with a line: it is short, and a sentence ends with it, or
    another begins.
    """
    if len(line) >= _SHORT * usual or line.endswith(_HYPHENS):
        return not following
    return bool(_END.search(line) or _BEGIN.match(following) or following[:1].isupper())


def _is_heading(before: str, line: str, after: str, usual: int) -> bool:
    """Return True if a short line between two sentences is none."""
    is_short = (
        len(line) < _SHORT * usual
        and not _END.search(line)
        and line[:1].isalnum()
        and not line[:1].islower()
    )
    return is_short and bool(_END.search(before)) and after[:1].isupper()


def _joined(line: str, following: str, words: Counter[str]) -> list[str]:
    """Return a line and what is between it and the next, without the hyphen that divides a word
    between them.
    """
    if not line.endswith(_HYPHENS) or line[-2:-1].isspace():
        wide = _is_wide(line[-1:]) and _is_wide(following[:1])
        return [line, "" if wide else " "]
    before = _LETTERS.match(line[-2::-1])  # backwards: a search for the end takes the square
    left = before[0][::-1] if before else ""
    after = _LETTERS.match(following)
    right = after[0] if after else ""
    joined, pair = (words[f"{left}{hyphen}{right}".casefold()] for hyphen in ("", "-"))
    is_pair = pair > 0 or min(words[left.casefold()], words[right.casefold()]) > 0
    is_divided = joined > 0 or (left != "" and right[:1].islower() and not is_pair)
    keep = line[-1] != "\u00ad" and not is_divided
    return [line if keep else line[:-1]]


def _is_wide(sign: str) -> bool:
    """Return True if words of this script have no blanks between them."""
    return (
        sign != ""
        and unicodedata.east_asian_width(sign) in "WF"
        and not "\uac00" <= sign <= "\ud7a3"
    )


def text_of_docx(content: bytes) -> str:
    """Return the text of a DOCX file: headings marked with #, blank lines between paragraphs, a
    line per table row.

    Raises:
        MissingExtraError: python-docx is not installed.
        ValueError: the file is damaged.
    """
    docx = require("docx", EXTRA)
    try:
        blocks = list(docx.Document(io.BytesIO(content)).iter_inner_content())
    except Exception as exc:  # of a damaged archive there are many kinds
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc
    return "\n\n".join(filter(None, map(_block, blocks)))


def _block(block: Any) -> str:
    """Return the text of a paragraph or a table."""
    if hasattr(block, "rows"):
        return "\n".join(
            " ".join(filter(None, (_plain(cell.text) for cell in row.cells))) for row in block.rows
        )
    text, style = _plain(block.text), str(block.style.name)
    level = 1 if style == "Title" else int(style[8:]) if re.fullmatch(r"Heading \d", style) else 0
    listed = "- " if style.startswith("List") and text else ""
    return f"{'#' * level} {text}" if level and text else listed + text


def _plain(text: str) -> str:
    return text.replace("\u00ad", "").replace("\f", " ").strip()
