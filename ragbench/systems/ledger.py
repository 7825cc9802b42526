"""What has been put into a system, kept in a file that survives a kill: nothing is put there twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.files import LineFile
from ragbench.types import Document


class Ledger:
    """The documents that a target holds by us, document id -> the target's id for it; one JSON object per line.

    A line is on the disk before the request that it announces is sent, so that after a kill `unsure` holds every
    document that may or may not have arrived. A last line that a kill cut short is dropped.
    """

    def __init__(self, path: Path) -> None:
        self.added: dict[str, Any] = {}
        self.unsure: dict[str, None] = {}
        self.digests: dict[str, str] = {}
        self.before: int | None = None
        self._file = LineFile(path)
        for number, line in enumerate(self._file.lines, 1):
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, AttributeError, KeyError) as exc:
                raise DataError(
                    f"{path}, line {number}: not a line of a ledger ({exc}); name the ledger of this target"
                ) from exc

    def begin(self, before: int | None) -> None:
        """Note how much the target's index held before the first document; kept over all later runs."""
        if self.before is None and not self.added and not self.unsure:
            self.before = before
            self._write({"before": before})

    def sending(self, documents: Sequence[Document]) -> None:
        """These are about to be sent."""
        found = {document.doc_id: digest(document) for document in documents}
        self._write({"sending": found})
        self.digests.update(found)
        self.unsure.update(dict.fromkeys(found))

    def arrived(self, ids: Mapping[str, Any]) -> None:
        """The target holds these, under these ids."""
        self._write({"added": dict(ids)})
        self.added.update(ids)
        self._settled(ids)

    def refused(self, doc_ids: Iterable[str]) -> None:
        """The target does not hold these, for sure."""
        gone = list(doc_ids)
        self._write({"refused": gone})
        self._settled(gone)

    def removed(self, doc_id: str) -> None:
        """The target does not hold this any more."""
        self._write({"removed": doc_id})
        self.added.pop(doc_id, None)
        self._settled([doc_id])

    def _settled(self, doc_ids: Iterable[str]) -> None:
        for doc_id in doc_ids:
            self.unsure.pop(doc_id, None)

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._file.append(json.dumps(entry, ensure_ascii=False))

    def _take(self, entry: dict[str, Any]) -> None:
        [(kind, value)] = entry.items()
        if kind == "before":
            self.before = value
        elif kind == "sending":
            self.digests.update(value)
            self.unsure.update(dict.fromkeys(value))
        elif kind == "added":
            self.added.update(value)
            self._settled(value)
        elif kind == "refused":
            self._settled(value)
        elif kind == "removed":
            self.added.pop(value, None)
            self._settled([value])
        else:
            raise KeyError(kind)


def digest(document: Document) -> str:
    """Digest that changes with the document, to detect changes since it was sent."""
    return hashlib.sha256(json.dumps([document.title, document.text]).encode()).hexdigest()[:16]


def documents_of(ledger: str | Path) -> dict[str, str]:
    """The target's ids of the documents that were put there, as texts -> the dataset's ids: for `match_passages`."""
    return {str(theirs): ours for ours, theirs in Ledger(Path(ledger)).added.items()}
