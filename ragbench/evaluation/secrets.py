"""Texts that may hold secrets, before they are written anywhere."""

from functools import lru_cache

from ragbench.metrics.safety import leakage_findings


@lru_cache(maxsize=50_000)
def masked(text: str) -> str:
    """Return the text with personal data, secrets and internal ids masked: at most two characters
    of each are left.

    Without the extra `safety` phone numbers, cards and accounts stay.

    >>> masked("Write to ana.ruiz@firm.com.")
    'Write to an***.'
    """
    return _without(text, ())


@lru_cache(maxsize=50_000)
def masked_id(text: str) -> str:
    """Return the id of a passage with secrets and personal data masked; a record number is what an id is
    made of, and stays.

    >>> masked_id("INC-22314"), masked_id("mail of ana.ruiz@firm.com#3")
    ('INC-22314', 'mail of an***#3')
    """
    return _without(text, ("record_id", "document_id"))


def _without(text: str, harmless: tuple[str, ...]) -> str:
    parts, last = [], 0
    for finding in leakage_findings(text, partial=True):
        if finding.kind in harmless:
            continue
        parts += [text[last : finding.start], finding.masked]
        last = finding.end
    return "".join([*parts, text[last:]]) if parts else text
