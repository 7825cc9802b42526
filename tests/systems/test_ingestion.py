"""ingest: every document once despite an interruption; the example of its module as it is printed."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragbench.errors import ConfigError, SystemsError
from ragbench.systems import McpSystem, ingest, ingestion, match_passages
from ragbench.types import Answer, Dataset, Document, Passage

[EXAMPLE] = re.findall(
    r"```python\n(# notes_corpus.py\n.*?)```", ingestion.__doc__ or "", re.DOTALL
)
CORPUS = {f"d{i}": Document(f"d{i}", f"Text number {i}.", title=f"Title {i}") for i in range(20)}
DATA = Dataset("demo", "test", CORPUS, [], {})


@pytest.fixture
def notes(notes_command: list[str]) -> Iterator[McpSystem]:
    pytest.importorskip("mcp")
    with McpSystem(notes_command, tool="echo") as system:
        yield system


@pytest.fixture
def put() -> Callable[[McpSystem, Dataset], dict[str, str]]:
    names: dict[str, Any] = {}
    exec(EXAMPLE, names)
    function: Callable[[McpSystem, Dataset], dict[str, str]] = names["put"]
    return function


def held(notes: McpSystem) -> Counter[str]:
    results = notes.call("nc_notes_search_notes", {"query": ""})["results"]
    return Counter(note["category"].removeprefix("ragbench ") for note in results)


def test_every_document_is_there_once_and_indexed(notes: McpSystem, put: Any) -> None:
    half = Dataset("half", "test", dict(list(CORPUS.items())[:7]), [], {})
    assert sorted(put(notes, half).values()) == sorted(half.corpus)
    ids = put(notes, DATA)
    assert sorted(ids.values()) == sorted(CORPUS)
    assert put(notes, DATA) == ids
    assert held(notes) == Counter(list(CORPUS))
    assert notes.call("nc_get_vector_sync_status", {}) == {
        "indexed_documents": 20,
        "pending_count": 0,
    }
    for note_id in ids:
        notes.call("nc_notes_delete_note", {"note_id": int(note_id)})
    assert not held(notes)


def test_after_a_refusal_the_same_call_continues(notes: McpSystem, put: Any) -> None:
    corpus = {**CORPUS, "long": Document("long", "x", title="too long")}
    with pytest.raises(
        SystemsError, match=r"'long' did not arrive: .*413: the note is too long.*again"
    ):
        put(notes, Dataset("demo", "test", corpus, [], {}))
    assert len(put(notes, DATA)) == 20
    assert held(notes) == Counter(list(CORPUS))


def test_an_application_that_ends_is_an_error(notes: McpSystem, put: Any) -> None:
    corpus = {**CORPUS, "bad": Document("bad", "x", title="poison")}
    with pytest.raises(SystemsError, match="the connection ended"):
        put(notes, Dataset("demo", "test", corpus, [], {}))


def test_the_applications_ids_lead_back_to_the_datasets(notes: McpSystem, put: Any) -> None:
    ids = put(notes, DATA)
    theirs, ours = list(ids.items())[4]
    answer = Answer("q", "x", (theirs,), passages=(Passage(theirs, "an excerpt in other words"),))
    assert list(match_passages([answer], DATA, known_as=ids).run["q"]) == [ours]


def test_as_many_as_are_wanted_are_sent_side_by_side() -> None:
    side_by_side = threading.Barrier(4, timeout=60)

    def add(document: Document) -> str:
        side_by_side.wait()
        return document.doc_id

    ids = ingest(DATA, add, lambda document: None, lambda n: n == 20, at_once=4)
    assert ids == {name: name for name in CORPUS}


def test_an_index_that_is_never_ready_ends_with_what_to_do() -> None:
    with pytest.raises(
        SystemsError, match="does not have all 20 documents after 0 s; call `ingest`"
    ):
        ingest(DATA, lambda d: d.doc_id, lambda d: None, lambda n: False, ready_timeout_s=0)


def test_no_id_is_an_error_before_more_is_sent() -> None:
    sent: list[Document] = []
    with pytest.raises(
        SystemsError, match=r"'d0' did not arrive: ConfigError.*`add` returned None; it"
    ):
        ingest(DATA, sent.append, lambda document: None, lambda n: True)
    assert len(sent) == 1


def test_a_corpus_without_documents_is_ready_at_once() -> None:
    empty = Dataset("demo", "test", {}, [], {})
    assert ingest(empty, lambda d: d.doc_id, lambda d: None, lambda n: n == 0) == {}


def test_documents_on_their_way_have_arrived_when_an_error_is_raised() -> None:
    arrived: dict[str, Document] = {}
    is_first = threading.Event()

    def add(document: Document) -> str:
        if document.doc_id == "d0" and not is_first.is_set():
            is_first.set()
            raise asyncio.CancelledError
        is_first.wait(60)
        assert document.doc_id not in arrived
        arrived[document.doc_id] = document
        return document.doc_id

    def find(document: Document) -> str | None:
        return document.doc_id if document.doc_id in arrived else None

    with pytest.raises(SystemsError, match=r"'d0' did not arrive: CancelledError.*continue"):
        ingest(DATA, add, find, lambda n: True, at_once=4)
    assert 3 <= len(arrived) < 20
    assert sorted(ingest(DATA, add, find, lambda n: True, at_once=4)) == sorted(CORPUS)


def test_no_document_at_once_is_an_error() -> None:
    with pytest.raises(ConfigError, match="at_once is 0; expected 1 or more"):
        ingest(DATA, lambda d: d.doc_id, lambda d: None, lambda n: True, at_once=0)
