"""A corpus into the system under test before it is evaluated, once.

What has been put there is in a file that survives a kill: nothing is put there twice.

`rb.systems.ingest` puts a corpus into a system, waits until its index has all of it, resumes after
an interruption without putting anything there twice, and `ingested_ids` names what is there. A
`Target` is made of functions; with an MCP server they are calls of its tools
(`notebooks/notes_app.toml` describes this one as the system that is evaluated):

```python
# ingest_notes.py
from ragbench.systems import IndexStatus, Target


def notes_target(notes):  # notes = rb.load_system("notebooks/notes_app.toml", data)
    def add(document):
        note = {"title": document.title, "content": document.text, "category": f"ragbench {document.doc_id}"}
        return notes.call("nc_notes_create_note", note)["id"]

    def find(document):  # after an interruption: did it arrive?
        found = notes.call("nc_notes_search_notes", {"query": document.title})["results"]
        return next((one["id"] for one in found if one["category"] == f"ragbench {document.doc_id}"), None)

    def status():
        index = notes.call("nc_get_vector_sync_status", {})
        return IndexStatus(held=index["indexed_documents"], pending=index["pending_count"])

    return Target("notes", add, find, status, concurrency=4)
```

```python
rb.systems.ingest(data, notes_target(notes), "notes.ledger.jsonl")  # once; call it again after an interruption
answers = rb.systems.ask(notes, data)
ours = rb.systems.ingested_ids("notes.ledger.jsonl")  # the application's ids -> the dataset's
matched = rb.systems.match_passages(answers, data, known_as=ours)
for note_id in ours:  # take it out again, and delete the ledger
    notes.call("nc_notes_delete_note", {"note_id": int(note_id)})
```
"""

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.errors import (
    ConfigError,
    DataError,
    DataWarning,
    FailureKind,
    RefusalError,
    SystemsError,
)
from ragbench.files import LineFile, locked
from ragbench.progress import ThreadedCalls, progress_bar
from ragbench.types import Dataset, Document

_N_HOPELESS = 10  # after N refusals without a success the rest would be refused, too
_POLL_S = 1.0
_NOT_CONNECTED = "ConnectError ConnectTimeout ConnectionRefusedError".split()  # of httpx and Python


class IndexStatus(NamedTuple):
    """How many documents (or chunks) an index has, and how many still wait; None where the target
    does not say.
    """

    held: int | None = None
    pending: int | None = None


@dataclass(frozen=True)
class Target:
    """Where documents go, as functions.

    `add` sends a document and returns the target's id of it; it raises `RefusalError` where the
    target refused for sure. `find` returns the target's id of a document that may be there, or
    None. `status` is that of the index. `concurrency` documents are on their way at a time.
    """

    name: str
    add: Callable[[Document], Any]
    find: Callable[[Document], Any] | None = None
    status: Callable[[], IndexStatus] | None = None
    concurrency: int = 1


@dataclass(frozen=True)
class IngestionReport:
    """What `ingest` did: how many documents it put there, how many were there before, which were
    refused and why.

    `index` is the last status of the target's index.
    """

    n_added: int
    n_before: int
    refused: Mapping[str, str]
    index: IndexStatus


class _Ledger:
    """What happened last to each document: it is being sent, was added, or is absent; one JSON list
    per line.

    A line is on the disk before the request that it announces is sent, so that after a kill every
    document that may or may not have arrived is known. A last line that a kill cut short is
    dropped.
    """

    def __init__(self, path: Path) -> None:
        self.checksums: dict[str, str] = {}
        self._last: dict[str, tuple[str, Any]] = {}
        self._file = LineFile(path)
        for number, line in enumerate(self._file.lines, 1):
            try:
                self._take(*json.loads(line))
            except (ValueError, TypeError) as exc:
                raise DataError(
                    f"{path}, line {number}: not a line of a ledger ({exc}); name the "
                    "ledger of this target"
                ) from exc

    def note(self, event: str, doc_id: str, value: Any = None) -> None:
        """Write down an event; its value is the document's checksum, then the target's id of it."""
        self._file.append(json.dumps([event, doc_id, value], ensure_ascii=False))
        self._take(event, doc_id, value)

    def last(self, event: str) -> dict[str, Any]:
        """Return the documents to which this happened last, document id -> value."""
        return {doc_id: value for doc_id, (kind, value) in self._last.items() if kind == event}

    def _take(self, event: str, doc_id: str, value: Any) -> None:
        if event not in ("index before", "sending", "added", "absent"):
            raise ValueError(event)
        self._last[doc_id] = event, value
        if event == "sending":
            self.checksums[doc_id] = value


def ingest(
    dataset: Dataset,
    target: Target,
    ledger: str | Path,
    *,
    ready_timeout_s: float = 600.0,
) -> IngestionReport:
    """Put every document of the dataset's corpus into the target, and wait until its index has all
    of them.

    What `ledger` (a file of this target, made at the first call) has as put there is not put there
    again. A call that was interrupted (Ctrl-C, a kill, the end of the server) is resumed by the
    same call: documents that may or may not have arrived are looked for with the target's `find`;
    without it, nothing is sent, and the error names them.

    Documents that the target refuses are in `refused`, with one DataWarning. The index has all when
    nothing is pending and its count has grown by the number of documents since the first call, as
    far as the target's `status` reports either; without a `status` nothing is waited for.

    Raises:
        ConfigError: nothing to put there.
        SystemsError: the target failed in the middle, documents changed since they were sent, or
            the index did not have all of them within `ready_timeout_s`; what is there is in the
            ledger, so call it again.

    >>> import tempfile
    >>> notes = []
    >>> target = Target("notes", add=lambda document: notes.append(document) or len(notes))
    >>> data = Dataset("demo", "test", {"a": Document("a", "Cats."), "b": Document("b", "Dogs.")}, [], {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, again = (ingest(data, target, f"{folder}/notes.jsonl") for _ in range(2))
    >>> first.n_added, again.n_added, again.n_before, len(notes)
    (2, 0, 2, 2)
    """
    corpus = dataset.corpus
    if not corpus:
        raise ConfigError(f"{dataset.name!r} has no documents that could be put into {target.name}")
    path = Path(ledger)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path.with_name(f"{path.name}.lock"), timeout_s=0))
        except TimeoutError as exc:
            reason = f"another process is working on {path}; wait until it has ended"
            raise SystemsError(reason) from exc
        book = _Ledger(path)
        _settle(corpus, target, book)
        added = book.last("added")
        waiting = [document for doc_id, document in corpus.items() if doc_id not in added]
        if target.status and not book.last("index before"):
            book.note("index before", "", target.status().held or 0)
        refused = _add(waiting, target, book)
        for doc_id, reason in [*refused.items()][:1]:
            counts = f"{target.name} refused {len(refused)} of {len(waiting)} documents"
            warnings.warn(f"{counts}, the first {doc_id!r}: {reason}", DataWarning, stacklevel=2)
        index = _wait(target, book, ready_timeout_s)
    return IngestionReport(len(waiting) - len(refused), len(corpus) - len(waiting), refused, index)


def ingested_ids(ledger: str | Path) -> dict[str, str]:
    """Return the target's ids of the documents, as texts -> the dataset's ids: for
    `match_passages`.
    """
    return {str(theirs): doc_id for doc_id, theirs in _Ledger(Path(ledger)).last("added").items()}


def _checksum(document: Document) -> str:
    return hashlib.sha256(json.dumps([document.title, document.text]).encode()).hexdigest()[:16]


def _settle(corpus: Mapping[str, Document], target: Target, book: _Ledger) -> None:
    """Refuse documents that changed, and find out whether what was on its way when the last call
    ended is there.
    """
    for doc_id in book.last("added"):
        if doc_id in corpus and book.checksums[doc_id] != _checksum(corpus[doc_id]):
            raise SystemsError(
                f"{doc_id!r} changed since it was put there; empty the target, "
                "delete the ledger and begin again"
            )
    unsure = [corpus[doc_id] for doc_id in book.last("sending") if doc_id in corpus]
    for document in unsure:
        if target.find is None:
            raise SystemsError(
                f"{len(unsure)} documents were on their way to {target.name} when the last call "
                f"ended, first {document.doc_id!r}; give the target `find`, or "
                "empty it and delete the ledger"
            )
        theirs = target.find(document)
        book.note("absent" if theirs is None else "added", document.doc_id, theirs)


def _add(waiting: list[Document], target: Target, book: _Ledger) -> dict[str, str]:
    """Send all, side by side; return which were refused, and why."""
    refused: dict[str, str] = {}
    error, n_arrived = "", 0
    calls = ThreadedCalls(
        waiting,
        target.add,
        at_once=target.concurrency,
        name=target.name,
        before=lambda document: book.note("sending", document.doc_id, _checksum(document)),
    )
    with progress_bar(len(waiting), target.name, "documents") as bar:
        for document, outcome in calls:
            bar.update()
            if not isinstance(outcome, BaseException):
                book.note("added", document.doc_id, outcome)
                n_arrived += 1
                continue
            is_refused = isinstance(outcome, RefusalError)
            refused |= {document.doc_id: str(outcome)} if is_refused else {}
            is_unreachable = getattr(outcome, "failure", None) is FailureKind.UNREACHABLE
            if is_refused or is_unreachable or type(outcome).__name__ in _NOT_CONNECTED:
                book.note("absent", document.doc_id)
            if not is_refused or (not n_arrived and len(refused) >= _N_HOPELESS):
                error = error or f"{target.name} failed at document {document.doc_id!r}: {outcome}"
                calls.stop()
    if error:
        raise SystemsError(f"{error}; call `ingest` again to continue")
    return refused


def _wait(target: Target, book: _Ledger, ready_timeout_s: float) -> IndexStatus:
    """Wait until the index has all."""
    end = time.monotonic() + ready_timeout_s
    expected = len(book.last("added")) + sum(book.last("index before").values())
    while target.status:
        index = target.status()
        if not index.pending and (index.held is None or index.held >= expected):
            return index
        if time.monotonic() + _POLL_S > end:
            state = f"{index.held} of {expected} indexed, {index.pending} pending"
            raise SystemsError(
                f"{target.name} is not ready after {ready_timeout_s:g} s: {state}; call `ingest` "
                "again"
            )
        time.sleep(_POLL_S)
    return IndexStatus()
