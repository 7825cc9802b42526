"""Text of PDF and DOCX files: how lines are joined, divided words and running heads undone, and
headings found; as in Markdown.
"""

import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ragbench.errors import require

EXTRA = "documents"
"""The extra with the readers of these files: `pip install 'ragbench-lab[documents]'`."""

_BROKEN = "\ufffe"  # pdfium writes this sign for a hyphen and the line end after it
_HYPHENS = ("-", "\u2010", "\u00ad")
_MARGIN = 2  # lines at the top and at the bottom of a page that may repeat
_REPEATED = 3  # a line in the margin of this many pages is a running header or footer
_SHORT = 0.75  # a shorter line, as part of the usual length, may end a paragraph or be a heading
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
    """Join the texts of printed pages into one text of paragraphs (see `text_of_pdf`): without
    running heads, and without the hyphens of words that are divided between lines.

    U+FFFE in a page is a hyphen and the line end after it, as pdfium writes them.

    >>> text_of_pages(["News 1\\nThe line was re\\ufffebuilt by a well-", "News 2\\nknown engineer. It is well-known."])
    'The line was rebuilt by a well-known engineer. It is well-known.'
    """
    lines = list(_without_margins([_lines_of_page(page) for page in pages]))
    if not lines:
        return ""
    word_counts = _count_words(lines)
    usual_length = _length_of_full_line(lines)
    padded = [*lines, "", ""]
    parts = []
    # each line with the next two, "" after the last line
    for line, following, after_next in zip(lines, padded[1:-1], padded[2:], strict=True):
        ends_paragraph = _ends_paragraph(line, following, usual_length)
        # a heading is a paragraph of its own, so this line ends one
        if ends_paragraph or _is_heading(following, usual_length, before=line, after=after_next):
            parts.append(f"{line}\n\n")
        else:  # the paragraph continues
            parts.append(_ready_to_join(line, following, word_counts))
    return "".join(parts).strip()


def _lines_of_page(page: str) -> list[str]:
    """Return the lines of a page, with ligatures as letters and pdfium's sign for a divided word as a
    hyphen at the end of a line.
    """
    text = _LIGATURE.sub(lambda sign: unicodedata.normalize("NFKC", sign[0]), page)
    return text.replace(_BROKEN, "-\n").splitlines()


def _count_words(lines: Sequence[str]) -> Counter[str]:
    """Count the words of a document, casefolded, without those that are divided between lines."""
    without_divided_words = _DIVIDED.sub(" ", "\n".join(lines))
    return Counter(_WORD.findall(without_divided_words.casefold()))


def _length_of_full_line(lines: Sequence[str]) -> int:
    """Return the length that one line in ten reaches or exceeds."""
    lengths = sorted(map(len, lines))
    return lengths[len(lengths) * 9 // 10]


def _without_margins(pages: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of all pages without blank lines and without running heads and feet.

    A running head or foot repeats at the top or the bottom of pages, or differs there in the page
    number alone.
    """
    pages_of_text = [[line.strip() for line in page if line.strip()] for page in pages]
    # For each page: row -> forms of its line, for the rows at the top and the bottom. A line has two
    # forms: unchanged, and with its numbers relative to the number of the page, so that "Page 3" on
    # page 3 equals "Page 4" on page 4.
    margins = [_margin(page, number) for number, page in enumerate(pages_of_text)]
    n_pages_with: Counter[str] = Counter()  # form of a line -> number of pages with it in a margin
    for margin in margins:
        forms_on_page = set().union(*margin.values())
        n_pages_with.update(forms_on_page)
    # a line on this many pages is a running head or foot; in a short document, a line on all pages
    min_pages = max(2, min(_REPEATED, len(pages_of_text)))
    for page, margin in zip(pages_of_text, margins, strict=True):
        for row, line in enumerate(page):
            forms = margin.get(row, set())  # none in the middle of a page
            is_repeated = any(n_pages_with[form] >= min_pages for form in forms)
            if not is_repeated:
                yield line


def _ready_to_join(line: str, following: str, word_counts: Counter[str]) -> str:
    """Return a line so that the following line of its paragraph can be put right after it: "the" ->
    "the ", "engi-" -> "engi".

    A blank is added, but not after a hyphen, nor between scripts without blanks. The hyphen of a
    divided word is left out.
    """
    ends_in_hyphen = line.endswith(_HYPHENS) and not line[-2:-1].isspace()
    if not ends_in_hyphen:
        needs_blank = not (_is_wide(line[-1:]) and _is_wide(following[:1]))
        return f"{line} " if needs_blank else line
    is_soft_hyphen = line[-1] == "\u00ad"
    if is_soft_hyphen or _is_divided_word(line, following, word_counts):
        return line[:-1]
    return line


def _is_divided_word(line: str, following: str, word_counts: Counter[str]) -> bool:
    """Return True if the hyphen at the end of a line divides a word, as in "engi-" and "neer";
    False if it joins a compound, as in "well-" and "known".

    A word that the document also has without the hyphen ("engineer") is divided. Otherwise there are
    three signs of a compound: the document also has it in one line ("well-known"), the document has
    both parts as words, or the second part does not begin with a small letter. Without such a sign the
    word is divided.
    """
    # the letters before the hyphen; a search for letters at the end would take quadratic time, so they
    # are matched in the reversed line
    left_reversed = _LETTERS.match(line[-2::-1])
    left = left_reversed[0][::-1] if left_reversed else ""
    right_match = _LETTERS.match(following)
    right = right_match[0] if right_match else ""
    if word_counts[f"{left}{right}".casefold()] > 0:
        return True
    if left == "" or not right[:1].islower():  # a name follows: "Aix-" and "Marseille"
        return False
    is_known_with_hyphen = word_counts[f"{left}-{right}".casefold()] > 0
    are_words = word_counts[left.casefold()] > 0 and word_counts[right.casefold()] > 0
    return not (is_known_with_hyphen or are_words)


def _margin(page: Sequence[str], number: int) -> dict[int, set[str]]:
    """Return row -> the forms of its line (as it is, and with relative numbers), for the first and
    the last rows of page `number`.
    """
    rows = range(len(page))
    return {
        row: {page[row], _relative(page[row], number)}
        for row in {*rows[:_MARGIN], *rows[-_MARGIN:]}
    }


def _relative(line: str, page: int) -> str:
    """Return a line whose numbers are replaced by their distances from a page number, so that
    "Page 7" on page 7 and "Page 8" on page 8 are equal.
    """
    return re.sub(r"\d{1,5}", lambda number: f"#{int(number[0]) - page}", line)


def _ends_paragraph(line: str, following: str, usual_length: int) -> bool:
    """Return True if a paragraph ends with a line: the line is short, and it ends a sentence or the
    following line begins one.
    """
    if len(line) >= _SHORT * usual_length or line.endswith(_HYPHENS):
        return not following
    return bool(_END.search(line) or _BEGIN.match(following) or following[:1].isupper())


def _is_heading(line: str, usual_length: int, *, before: str, after: str) -> bool:
    """Return True for a short line without punctuation at its end, between the end of a sentence in
    the line `before` and the start of another in the line `after`.
    """
    if len(line) >= _SHORT * usual_length or _END.search(line):
        return False
    if not line[:1].isalnum() or line[:1].islower():
        return False
    return bool(_END.search(before)) and after[:1].isupper()


def _is_wide(sign: str) -> bool:
    """Return True if words of this script have no blanks between them."""
    return (
        sign != ""
        and unicodedata.east_asian_width(sign) in "WF"
        and not "\uac00" <= sign <= "\ud7a3"
    )


def text_of_docx(content: bytes) -> str:
    """Return the text of a DOCX file: headings marked with #, blank lines between paragraphs, a
    line per table row (and one more for each further paragraph in a cell).

    Raises:
        MissingExtraError: python-docx is not installed.
        ValueError: the file is damaged.
    """
    docx = require("docx", EXTRA)
    try:
        blocks = list(docx.Document(io.BytesIO(content)).iter_inner_content())
    except Exception as exc:  # of a damaged archive there are many kinds
        raise ValueError(f"{type(exc).__name__}: {exc}") from exc
    texts = []
    for block in blocks:
        is_table = hasattr(block, "rows")
        texts.append(_text_of_table(block) if is_table else _text_of_paragraph(block))
    return "\n\n".join(filter(None, texts))


def _text_of_table(table: Any) -> str:
    """Return a line for each row of a DOCX table: its cells with blanks between them. Several paragraphs
    in a cell stay on lines of their own.
    """
    rows = []
    for row in table.rows:
        cells = [_plain(cell.text) for cell in row.cells]
        rows.append(" ".join(filter(None, cells)))
    return "\n".join(rows)


def _text_of_paragraph(paragraph: Any) -> str:
    """Return a DOCX paragraph with the sign of Markdown for its style: "# " for a title, "- " for a
    list; "" if it is empty.
    """
    text = _plain(paragraph.text)
    if not text:
        return ""
    style = str(paragraph.style.name)
    if style == "Title":
        return f"# {text}"
    if re.fullmatch(r"Heading [1-9]", style):
        level = int(style.removeprefix("Heading "))
        return f"{'#' * level} {text}"
    if style.startswith("List"):
        return f"- {text}"
    return text


def _plain(text: str) -> str:
    return text.replace("\u00ad", "").replace("\f", " ").strip()
