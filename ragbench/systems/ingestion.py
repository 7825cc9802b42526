"""The upload of a corpus into an application with its own documents, before it is asked.

Functions upload it: for an MCP server they call its tools, here the tools of
`notebooks/notes_app.toml`, which describes this application as the system that is evaluated:

```python
# notes_corpus.py
import ragbench as rb


def put(notes, data):  # notes = rb.load_system("notebooks/notes_app.toml", data)
    def add(document):
        note = {"title": document.title, "content": document.text, "category": f"ragbench {document.doc_id}"}
        return notes.call("nc_notes_create_note", note)["id"]

    def find(document):
        similar = notes.call("nc_notes_search_notes", {"query": document.title})["results"]
        return next((note["id"] for note in similar if note["category"] == f"ragbench {document.doc_id}"), None)

    def is_ready(n_documents):
        index = notes.call("nc_get_vector_sync_status", {})
        return index["indexed_documents"] >= n_documents and not index["pending_count"]

    return rb.systems.ingest(data, add, find, is_ready, at_once=4)
```

```python
ids = put(notes, data)  # the application's ids -> the dataset's; after an interruption, call it again
answers = rb.systems.ask(notes, data)
matched = rb.systems.match_passages(answers, data, known_as=ids)
for note_id in ids:  # take them out again
    notes.call("nc_notes_delete_note", {"note_id": int(note_id)})
```
"""

import time
from collections.abc import Callable
from typing import Any

from ragbench.errors import ConfigError, SystemsError
from ragbench.progress import ThreadedCalls, progress_bar
from ragbench.types import Dataset, Document


def ingest(
    dataset: Dataset,
    add: Callable[[Document], Any],
    find: Callable[[Document], Any],
    is_ready: Callable[[int], bool],
    *,
    at_once: int = 1,
    ready_timeout_s: float = 600.0,
) -> dict[str, str]:
    """Put every document of the dataset's corpus into an application, and wait until its index has
    all of them.

    Each document is looked for first, so that after an interruption (Ctrl-C, a kill, the end of
    the server) the same call continues, and no document is there twice. What `find` finds is not
    sent again, also where its text has changed: take it out first.

    Args:
        dataset: the dataset.
        add: sends a document, and returns the application's id of it.
        find: returns the application's id of a document that is there already, or None.
        is_ready: whether the index has at least this number of documents and none is waiting. If
            the index holds other documents, count them before the call, and add their number.
        at_once: how many documents are sent side by side.
        ready_timeout_s: how long the index is waited for, in seconds.

    Returns:
        The application's ids, as texts -> the dataset's: for `match_passages`.

    Raises:
        ConfigError: `at_once` is below 1.
        SystemsError: the application refused a document or failed, `add` returned no id, or the
            index did not have all of them in time.

    >>> notes = []
    >>> def find(document):
    ...     return notes.index(document) if document in notes else None
    >>> data = Dataset("demo", "test", {"a": Document("a", "Cats."), "b": Document("b", "Dogs.")}, [], {})
    >>> for _ in range(2):
    ...     ids = ingest(data, lambda document: notes.append(document) or len(notes) - 1, find, lambda n: True)
    >>> ids, len(notes)
    ({'0': 'a', '1': 'b'}, 2)
    """
    if at_once < 1:
        raise ConfigError(f"at_once is {at_once}; expected 1 or more")

    def find_or_add(document: Document) -> Any:
        system_id = find(document)
        if system_id is None:
            system_id = add(document)
        if system_id is None:
            raise ConfigError(
                "`add` returned None; it returns the application's id of the document"
            )
        return system_id

    ids: dict[str, str] = {}
    first_failure = ""
    calls = ThreadedCalls([*dataset.corpus.values()], find_or_add, at_once=at_once, name="ingest")
    with progress_bar(len(dataset.corpus), "ingesting", "documents") as bar:
        for document, outcome in calls:
            if not isinstance(outcome, BaseException):
                ids[str(outcome)] = document.doc_id
            else:
                calls.stop()  # and wait for those on their way, so that the next call finds them
                if not first_failure:
                    first_failure = f"document {document.doc_id!r} did not arrive: {outcome!r}"
            bar.update()
    if first_failure:
        raise SystemsError(f"{first_failure}; call `ingest` again to continue")
    _wait_until_ready(lambda: is_ready(len(ids)), len(ids), ready_timeout_s)
    return ids


def _wait_until_ready(is_ready: Callable[[], bool], n_documents: int, timeout_s: float) -> None:
    """Return as soon as an index is ready; SystemsError if it is not in time."""
    end = time.monotonic() + timeout_s
    while not is_ready():
        if time.monotonic() > end:
            raise SystemsError(
                f"the index does not have all {n_documents} documents after {timeout_s:g} s; "
                "call `ingest` again"
            )
        time.sleep(0.5)
