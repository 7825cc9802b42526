"""What changed in documents and questions since an earlier result."""

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
        for verb, ids in vars(self).items():
            if ids:
                named = ", ".join(map(printable, ids[:_MAX_NAMED]))
                more = f" and {len(ids) - _MAX_NAMED} more" if len(ids) > _MAX_NAMED else ""
                parts.append(f"{plural(len(ids), noun)} {verb} ({named}{more})")
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
    changed = tuple(each for each in after if each in before and before[each] != after[each])
    added = tuple(each for each in after if each not in before)
    return Edits(added, changed, tuple(each for each in before if each not in after))


def data_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return in words what changed in the data between two results; "" where nothing did.

    Args:
        before, after: their `config`, or of data without a result `config_of`.
    """
    parts = []
    corpora = [each.get("dataset", {}).get("corpus") for each in (before, after)]
    documents = [each.get("document_digests") for each in (before, after)]
    if documents[0] is not None and documents[1] is not None:
        parts.append(edits_between(documents[0], documents[1]).in_words("document"))
    elif corpora[0] != corpora[1]:
        which = "the earlier result" if documents[0] is None else "the later result"
        parts.append(_NOT_KNOWN.format(which))
    questions = [each.get("question_digests") for each in (before, after)]
    if questions[0] is not None and questions[1] is not None:
        parts.append(edits_between(questions[0], questions[1]).in_words("question"))
    elif before.get("questions") != after.get("questions"):
        texts = [each.get("questions") or {} for each in (before, after)]
        parts.append(edits_between(texts[0], texts[1]).in_words("question"))
    return "; ".join(filter(None, parts))


def config_of(dataset: Dataset) -> dict[str, Any]:
    """Return the part of a result's `config` that `data_changes` compares."""
    about = {"corpus": dataset.corpus_digest}
    return {"dataset": about, "questions": dataset.queries, **digests_of(dataset)}
