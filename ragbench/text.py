"""Texts of others, made fit to be sent and stored."""

from __future__ import annotations

STARTS_FORMULA = "=+-@\t\r\n|%'＝＋－＠"
"""Formulas that spreadsheets run begin so (OWASP, "CSV Injection"), full-width ones too; and our own apostrophe."""


def without_surrogates(text: str) -> str:
    """Half a surrogate pair (broken JSON escapes bring them) can neither be sent nor stored: it becomes U+FFFD.

    >>> without_surrogates("caf\\u00e9 \\ud83d\\ude00 \\ud800")
    'café 😀 \ufffd'
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def shielded(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: an apostrophe comes before what begins like one.

    >>> shielded("=HYPERLINK(1)"), shielded("q1"), unshielded(shielded("'-1"))
    ("'=HYPERLINK(1)", 'q1', "'-1")
    """
    risky = any(start.startswith(tuple(STARTS_FORMULA)) for start in (text, text.lstrip()))
    return f"'{text}" if risky else text


def unshielded(cell: str) -> str:
    """The text before `shielded`."""
    return cell[1:] if cell[:1] == "'" and shielded(cell[1:]) != cell[1:] else cell
