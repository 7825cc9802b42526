"""A corpus into the system under test before it is evaluated, once, and out of it again.

What has been put there is in a file that survives a kill: nothing is put there twice.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragbench.errors import ConfigError, DataError, DataWarning, SystemsError
from ragbench.files import LineFile, locked
from ragbench.progress import NotBegun, SideBySide, progress_bar
from ragbench.systems.targets import Indexed, NotAdded, Target
from ragbench.types import Dataset, Document

T = TypeVar("T")

_LAST_WAIT_S = 5.0  # after Ctrl-C, for what is on its way
_HOPELESS = 10  # after N failures without a success the rest would fail in the same way


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
                [(kind, value)] = json.loads(line).items()
                self._take(kind, value)
            except (ValueError, TypeError, AttributeError, KeyError) as exc:
                raise DataError(
                    f"{path}, line {number}: not a line of a ledger ({exc}); name the ledger of this target"
                ) from exc

    def begin(self, before: int | None) -> None:
        """Note how much the target's index held before the first document; kept over all later runs."""
        if self.before is None and not self.added and not self.unsure:
            self._note("before", before)

    def sending(self, documents: Sequence[Document]) -> None:
        """These are about to be sent."""
        self._note("sending", {document.doc_id: _digest(document) for document in documents})

    def arrived(self, ids: Mapping[str, Any]) -> None:
        """The target holds these, under these ids."""
        self._note("added", dict(ids))

    def refused(self, doc_ids: Sequence[str]) -> None:
        """The target does not hold these, for sure."""
        self._note("refused", list(doc_ids))

    def removed(self, doc_id: str) -> None:
        """The target does not hold this any more."""
        self._note("removed", doc_id)

    def _note(self, kind: str, value: Any) -> None:
        self._file.append(json.dumps({kind: value}, ensure_ascii=False))
        self._take(kind, value)

    def _take(self, kind: str, value: Any) -> None:
        if kind == "before":
            self.before = value
        elif kind == "sending":
            self.digests.update(value)
            self.unsure.update(dict.fromkeys(value))
        elif kind in ("added", "refused", "removed"):
            self.added.update(value if kind == "added" else {})
            for doc_id in [value] if kind == "removed" else value:
                self.unsure.pop(doc_id, None)
                if kind == "removed":
                    self.added.pop(doc_id, None)
        else:
            raise KeyError(kind)


def _digest(document: Document) -> str:
    """Changes with the document, to detect changes since it was sent."""
    return hashlib.sha256(json.dumps([document.title, document.text]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Ingested:
    """What `ingest` did: how many documents it put there, how many were there before, which were refused and why.

    `indexed` is the target's last word on its index, and `seconds` how long all of it took.
    """

    added: int
    already: int
    refused: Mapping[str, str] = field(default_factory=dict)
    indexed: Indexed = field(default_factory=Indexed)
    seconds: float = 0.0


def ingest(
    dataset: Dataset,
    target: Target,
    ledger: str | Path,
    *,
    ready_timeout_s: float = 600.0,
    poll_s: float = 1.0,
) -> Ingested:
    """Put every document of the dataset's corpus into the target, and wait until its index has all of them.

    What `ledger` (a file of this target, made at the first call) has as put there is not put there again. A call that
    was interrupted (Ctrl-C, a kill, the end of the server) is resumed by the same call: documents that may or may not
    have arrived are looked for with the target's `find`, or sent again where it uses our ids; where it can do neither,
    nothing is sent, and the error names them.

    Documents that the target refuses are in `refused`, with one DataWarning. The index has all when nothing is pending
    and its count has grown by the number of documents since the first call, as far as the target's `status` reports
    either; without a `status` nothing is waited for.

    Raises:
        ConfigError: nothing to put there, or a number out of range.
        SystemsError: the target failed in the middle, documents changed since they were sent, or the index did not have
            all of them within `ready_timeout_s`; what is there is in the ledger, so call it again.

    >>> import tempfile
    >>> from ragbench.systems.targets import Target
    >>> notes = []
    >>> target = Target("notes", add=lambda documents: [notes.append(one) or len(notes) for one in documents])
    >>> data = Dataset("demo", "test", {"a": Document("a", "Cats."), "b": Document("b", "Dogs.")}, [], {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, again = (ingest(data, target, f"{folder}/notes.jsonl") for _ in range(2))
    >>> first.added, again.added, again.already, len(notes)
    (2, 0, 2, 2)
    """
    if not dataset.corpus:
        raise ConfigError(f"{dataset.name!r} has no documents that could be put into {target.name}")
    if not ready_timeout_s > 0 or not poll_s > 0:
        raise ConfigError(f"ready_timeout_s {ready_timeout_s} and poll_s {poll_s} must be above 0")
    start = time.monotonic()
    with _locked(Path(ledger)) as book:
        _check_unchanged(dataset, book)
        _settle_unsure(dataset, target, book)
        waiting = [document for document in dataset.corpus.values() if document.doc_id not in book.added]
        already = len(dataset.corpus) - len(waiting)
        if waiting:
            book.begin(_status(target).held if target.status else None)
        refused = _add(waiting, target, book)
        there = sum(doc_id in book.added for doc_id in dataset.corpus)
        if refused:
            doc_id, reason = next(iter(refused.items()))
            warnings.warn(
                f"{target.name} refused {len(refused)} of {len(waiting)} documents, the first {doc_id!r}: {reason}",
                DataWarning,
                stacklevel=2,
            )
        indexed = _wait(target, book, ready_timeout_s, poll_s) if target.status and there else Indexed()
    return Ingested(len(waiting) - len(refused), already, refused, indexed, time.monotonic() - start)


def remove_ingested(target: Target, ledger: str | Path) -> int:
    """Take out of the target what `ingest` put there, and delete the ledger: how many documents that were.

    After an interruption, call it again to continue.

    Raises:
        ConfigError: the target cannot remove, or there is no such ledger.
        SystemsError: some could not be removed; they stay in the ledger.
    """
    path = Path(ledger)
    if target.remove is None:
        raise ConfigError(f"{target.name} does not state how a document is removed; give it [ingest.remove]")
    if not path.exists():
        raise ConfigError(f"there is no ledger {path}; it is the file that `ingest` was given")
    remove = target.remove
    with _locked(path) as book:
        theirs = dict(book.added)
        unsure = list(book.unsure)
        failures: dict[str, str] = {}
        batches = [[doc_id] for doc_id in theirs]

        def done(batch: list[str], found: Any) -> bool:
            if isinstance(found, Exception):
                failures[batch[0]] = str(found)
            else:
                book.removed(batch[0])
            return len(failures) < _HOPELESS

        _at_once(batches, lambda batch: remove(batch[0], theirs[batch[0]]), done, target, "removing")
        if failures:
            doc_id, reason = next(iter(failures.items()))
            raise SystemsError(
                f"{target.name}: {len(failures)} of {len(theirs)} documents could not be removed, the first "
                f"{doc_id!r}: {reason}; call it again for these"
            )
        if unsure:
            raise SystemsError(
                f"{target.name}: {len(unsure)} documents may or may not have arrived, first {unsure[0]!r}; "
                "run `ingest` again first, which settles that"
            )
        path.unlink()
    return len(theirs)


def documents_of(ledger: str | Path) -> dict[str, str]:
    """The target's ids of the documents that were put there, as texts -> the dataset's ids: for `match_passages`."""
    return {str(theirs): ours for ours, theirs in Ledger(Path(ledger)).added.items()}


def _check_unchanged(dataset: Dataset, book: Ledger) -> None:
    changed = [
        doc_id
        for doc_id, document in dataset.corpus.items()
        if doc_id in book.added and book.digests.get(doc_id) not in (None, _digest(document))
    ]
    if changed:
        raise SystemsError(
            f"{len(changed)} documents changed since they were put there, first {changed[0]!r}; take the old ones out "
            "with `remove_ingested`, then put all there again"
        )


def _settle_unsure(dataset: Dataset, target: Target, book: Ledger) -> None:
    """What was on its way when the last call ended: there or not?"""
    open_ones = [dataset.corpus[doc_id] for doc_id in book.unsure if doc_id in dataset.corpus]
    if not open_ones or target.same_ids:
        return
    if target.find is None:
        raise SystemsError(
            f"{len(open_ones)} documents were on their way to {target.name} when the last call ended, first "
            f"{open_ones[0].doc_id!r}, and may or may not have arrived. Let it be found out with [ingest.find], "
            "set same_ids = true where the target uses our ids, or empty the target and delete the ledger"
        )
    for document in open_ones:
        try:
            theirs = target.find(document)
        except Exception as exc:  # a target may raise anything
            raise SystemsError(f"{target.name} could not say whether it has {document.doc_id!r}: {exc}") from exc
        if theirs is None:
            book.refused([document.doc_id])
        else:
            book.arrived({document.doc_id: theirs})


def _add(waiting: Sequence[Document], target: Target, book: Ledger) -> dict[str, str]:
    """Send all, batch by batch; which were refused, and why."""
    size = target.batch_size
    batches = [list(waiting[start : start + size]) for start in range(0, len(waiting), size)]
    refused: dict[str, str] = {}
    lost: list[str] = []
    arrived = 0

    def done(batch: list[Document], found: Any) -> bool:
        nonlocal arrived
        ids = [document.doc_id for document in batch]
        if isinstance(found, NotAdded):
            book.refused(ids)
            if not found.stop:
                refused.update(dict.fromkeys(ids, str(found)))
            if found.stop or (not arrived and len(refused) >= _HOPELESS * size):
                lost.append(f"{ids[0]!r}: {found}")
        elif isinstance(found, Exception):
            lost.append(f"{ids[0]!r}: {found}")
        else:
            book.arrived(dict(zip(ids, found, strict=True)))
            arrived += len(ids)
        return not lost

    _at_once(batches, target.add, done, target, "documents", before=book.sending)
    if lost:
        raise SystemsError(f"{target.name} failed at document {lost[0]}; call `ingest` again to continue")
    return refused


def _status(target: Target) -> Indexed:
    try:
        return target.status() if target.status else Indexed()
    except Exception as exc:  # a target may raise anything
        raise SystemsError(f"{target.name} could not say how far its index is: {exc}") from exc


def _wait(target: Target, book: Ledger, ready_timeout_s: float, poll_s: float) -> Indexed:
    """Until the index has all, or the time is over."""
    end = time.monotonic() + ready_timeout_s
    wanted = len(book.added) + (book.before or 0)
    while True:
        found = _status(target)
        if not found.pending and (found.held is None or found.held >= wanted):
            return found
        if time.monotonic() + poll_s > end:
            state = f"{found.held} of {wanted} indexed" if found.held is not None else "its index reports no count"
            more = f", {found.pending} pending" if found.pending is not None else ""
            raise SystemsError(
                f"{target.name} is not ready after {ready_timeout_s:g} s: {state}{more}; all documents are there, so "
                "call `ingest` again to wait on, or raise ready_timeout_s"
            )
        time.sleep(poll_s)


def _at_once(
    batches: Sequence[list[T]],
    call: Callable[[list[T]], Any],
    done: Callable[[list[T], Any], bool],
    target: Target,
    label: str,
    *,
    before: Callable[[list[T]], None] = lambda batch: None,
) -> None:
    """Call each batch, side by side. `before` and `done`, with what the call gave or raised, run in this thread.

    Once `done` returns False, or Ctrl-C comes, nothing more is sent, and those on their way are waited for a little.
    """
    work = SideBySide(batches, call, at_once=target.concurrency, name=target.name, before=before)
    with progress_bar(sum(map(len, batches)), f"{target.name}: {label}") as bar:
        try:
            for batch, found in work:
                bar.update(len(batch))
                if isinstance(found, BaseException) and not isinstance(found, Exception):
                    raise found
                if not done(batch, found):
                    work.stop()
        except BaseException:
            for batch, found in work.interrupted(_LAST_WAIT_S):
                done(batch, NotAdded(str(found)) if isinstance(found, NotBegun) else found)
            raise


@contextmanager
def _locked(path: Path) -> Iterator[Ledger]:
    """The ledger, for this process alone."""
    try:
        with locked(path.with_name(f"{path.name}.lock"), timeout_s=0):
            yield Ledger(path)
    except TimeoutError as exc:
        raise SystemsError(f"another process is working on {path}; wait until it has ended") from exc
