"""Texts of others, made fit to be sent and stored."""

from __future__ import annotations


def without_surrogates(text: str) -> str:
    """Half a surrogate pair (broken JSON escapes bring them) can neither be sent nor stored: it becomes U+FFFD.

    >>> without_surrogates("caf\\u00e9 \\ud83d\\ude00 \\ud800")
    'café 😀 \ufffd'
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
