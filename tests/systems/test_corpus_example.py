"""A corpus goes into an application as help("ragbench.systems") shows it: every document once, despite an
interruption, and out again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragbench import systems
from ragbench.errors import RefusalError, SystemsError
from ragbench.systems import McpSystem, match_passages
from ragbench.types import Answer, Dataset, Document, Passage

pytest.importorskip("mcp")

[EXAMPLE] = re.findall(r"```python\n(# notes_corpus.py\n.*?)```", systems.__doc__ or "", re.DOTALL)
CORPUS = {f"d{i}": Document(f"d{i}", f"Text number {i}.", title=f"Title {i}") for i in range(20)}
DATA = Dataset("demo", "test", CORPUS, [], {})


@pytest.fixture
def notes(notes_command: list[str]) -> Iterator[McpSystem]:
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
    assert list(put(notes, half).values()) == list(half.corpus)
    ids = put(notes, DATA)
    assert list(ids.values()) == list(CORPUS)
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
    with pytest.raises(RefusalError, match="413: the note is too long"):
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
