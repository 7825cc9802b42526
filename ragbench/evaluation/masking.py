"""Texts that may hold secrets, before they are written anywhere."""

from __future__ import annotations

from functools import lru_cache

from ragbench.metrics.safety import leakage_findings


@lru_cache(maxsize=50_000)
def masked(text: str) -> str:
    """The text with personal data, secrets and internal ids masked: at most two characters of each are left.

    >>> masked("Write to ana.ruiz@firm.com.")
    'Write to an***.'
    """
    parts, last = [], 0
    for finding in leakage_findings(text):
        parts += [text[last : finding.start], finding.masked]
        last = finding.end
    return "".join([*parts, text[last:]]) if parts else text
