"""What changed in documents and questions since an earlier result, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.errors import plural, printable
from ragbench.types import Dataset

MAX_DOCUMENTS = 10_000
"""A result keeps a digest of each document of a corpus of at most this many."""

_MAX_NAMED = 3
_NOT_KNOWN = (
    "documents changed; which ones is not known, because {} keeps no digest of each document"
)


@dataclass(frozen=True)
class Edits:
    """The ids of added, changed and removed questions or documents."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def in_words(self, noun: str) -> str:
        """Return the edits in words; "" if there are none.

        >>> Edits(("a.md",), (), ("b.md", "c.md")).in_words("document")
        '1 document added (a.md), 2 documents removed (b.md, c.md)'
        """
        parts = []
        edits = {"added": self.added, "changed": self.changed, "removed": self.removed}
        for verb, ids in edits.items():
            if ids:
                names = ", ".join(map(printable, ids[:_MAX_NAMED]))
                if len(ids) > _MAX_NAMED:
                    names += f" and {len(ids) - _MAX_NAMED} more"
                parts.append(f"{plural(len(ids), noun)} {verb} ({names})")
        return ", ".join(parts)


def digests_of(dataset: Dataset) -> dict[str, Any]:
    """Return the digests of a dataset that a result keeps for comparison with later data: of its
    questions, and of its documents unless there are more than `MAX_DOCUMENTS`.
    """
    digests: dict[str, Any] = {"question_digests": dataset.question_digests}
    if len(dataset.corpus) <= MAX_DOCUMENTS:
        digests["document_digests"] = dataset.document_digests
    return digests


def edits_between(before: Mapping[str, str], after: Mapping[str, str]) -> Edits:
    """Return what changed between two mappings id -> digest.

    >>> edits_between({"a": "1", "b": "2"}, {"b": "3", "c": "4"})
    Edits(added=('c',), changed=('b',), removed=('a',))
    """
    added = tuple(each for each in after if each not in before)
    changed = tuple(each for each in after if each in before and before[each] != after[each])
    removed = tuple(each for each in before if each not in after)
    return Edits(added, changed, removed)


def data_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return in words what changed in the data between two results; "" where nothing did.

    Args:
        before, after: their `config`, or of data without a result `config_of`.
    """
    old_questions = before.get("question_digests")
    new_questions = after.get("question_digests")
    # where a result has no digests of its questions, the texts alone are compared
    if old_questions is None or new_questions is None:
        old_questions = before.get("questions") or {}
        new_questions = after.get("questions") or {}
    questions = edits_between(old_questions, new_questions).in_words("question")
    return "; ".join(filter(None, [_document_changes(before, after), questions]))


def _document_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return in words what changed in the documents between two results; "" where nothing did.

    Without digests of single documents, only whether any document changed is known.
    """
    old_documents = before.get("document_digests")
    new_documents = after.get("document_digests")
    if old_documents is not None and new_documents is not None:
        return edits_between(old_documents, new_documents).in_words("document")
    # the digest of all documents together
    old_corpus = before.get("dataset", {}).get("corpus")
    new_corpus = after.get("dataset", {}).get("corpus")
    if old_corpus == new_corpus:
        return ""
    return _NOT_KNOWN.format("the earlier result" if old_documents is None else "the later result")


def config_of(dataset: Dataset) -> dict[str, Any]:
    """Return the part of a result's `config` that `data_changes` compares."""
    about = {"corpus": dataset.corpus_digest}
    return {"dataset": about, "questions": dataset.queries, **digests_of(dataset)}
