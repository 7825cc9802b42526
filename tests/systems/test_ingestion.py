"""ingest: every document once despite any interruption; and removal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataWarning, SystemsError
from ragbench.systems import (
    Indexed,
    NotAdded,
    Target,
    documents_of,
    ingest,
    load_target,
    match_passages,
    remove_ingested,
)
from ragbench.types import Answer, Dataset, Document, Passage

CORPUS = {f"d{i}": Document(f"d{i}", f"Text number {i}.", title=f"Title {i}") for i in range(20)}
DATA = Dataset("demo", "test", CORPUS, [], {})


class Store:
    """A store of notes in this process that counts what it is given."""

    def __init__(self) -> None:
        self.notes: dict[int, Document] = {}
        self.lock = threading.Lock()
        self.most = self.now = 0
        self.takes_s = 0.0

    def add(self, documents: Sequence[Document]) -> list[int]:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.takes_s)
        with self.lock:
            self.now -= 1
            made = []
            for document in documents:
                made.append(len(self.notes) + 1)
                self.notes[made[-1]] = document
        return made

    def find(self, document: Document) -> int | None:
        return next((number for number, note in self.notes.items() if note == document), None)

    def remove(self, doc_id: str, theirs: int) -> None:
        del self.notes[theirs]

    def held(self) -> Counter[str]:
        return Counter(note.doc_id for note in self.notes.values())


def test_each_document_is_put_there_once_in_batches_side_by_side(tmp_path: Path) -> None:
    store = Store()
    store.takes_s = 0.1
    target = Target("notes", store.add, batch_size=3, concurrency=4)
    done = ingest(DATA, target, tmp_path / "l.jsonl")
    assert (done.added, done.already, done.refused) == (20, 0, {})
    assert store.most == 4
    assert store.held() == Counter(list(CORPUS))
    again = ingest(DATA, target, tmp_path / "l.jsonl")
    assert (again.added, again.already, len(store.notes)) == (0, 20, 20)


def test_new_documents_are_added_and_changed_ones_are_refused(tmp_path: Path) -> None:
    store = Store()
    target = Target("notes", store.add, remove=store.remove)
    ingest(Dataset("half", "test", dict(list(CORPUS.items())[:10]), [], {}), target, tmp_path / "l.jsonl")
    assert ingest(DATA, target, tmp_path / "l.jsonl").added == 10
    changed = Dataset("new", "test", {**CORPUS, "d3": Document("d3", "Another text.")}, [], {})
    with pytest.raises(SystemsError, match="1 documents changed since they were put there, first 'd3'"):
        ingest(changed, target, tmp_path / "l.jsonl")


def test_out_again_and_the_ledger_with_it(tmp_path: Path) -> None:
    store = Store()
    target = Target("notes", store.add, remove=store.remove, concurrency=3)
    store.notes[1000] = Document("theirs", "Somebody's own note.")
    ingest(DATA, target, tmp_path / "l.jsonl")
    assert remove_ingested(target, tmp_path / "l.jsonl") == 20
    assert list(store.notes) == [1000]
    assert not (tmp_path / "l.jsonl").exists()
    with pytest.raises(ConfigError, match="there is no ledger"):
        remove_ingested(target, tmp_path / "l.jsonl")
    with pytest.raises(ConfigError, match=r"give it \[ingest.remove\]"):
        remove_ingested(Target("notes", store.add), tmp_path / "l.jsonl")


def test_what_cannot_be_removed_stays_in_the_ledger(tmp_path: Path) -> None:
    store = Store()
    target = Target("notes", store.add, remove=store.remove)
    ingest(DATA, target, tmp_path / "l.jsonl")
    gone = store.notes.pop(5)
    with pytest.raises(SystemsError, match=f"1 of 20 documents could not be removed, the first '{gone.doc_id}'"):
        remove_ingested(target, tmp_path / "l.jsonl")
    assert list(documents_of(tmp_path / "l.jsonl").values()) == [gone.doc_id]


# --- interruptions ----------------------------------------------------------------------------------------------------


class Dies(Store):
    """Keeps what it is given, and sometimes fails before it reports so."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def add(self, documents: Sequence[Document]) -> list[int]:
        made = super().add(documents)
        if len(self.notes) == self.at:
            raise ConnectionError("the connection was cut")
        return made


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_target_that_dies_after_it_took_a_document_has_it_once(tmp_path: Path, concurrency: int) -> None:
    store = Dies(at=8)
    target = Target("notes", store.add, find=store.find, concurrency=concurrency)
    with pytest.raises(SystemsError, match=r"notes failed at document .*the connection was cut; call `ingest` again"):
        ingest(DATA, target, tmp_path / "l.jsonl")
    assert 8 <= len(store.notes) < 20
    ingest(DATA, target, tmp_path / "l.jsonl")
    assert store.held() == Counter(list(CORPUS))
    assert len(documents_of(tmp_path / "l.jsonl")) == 20


def test_where_no_one_can_know_nothing_is_sent(tmp_path: Path) -> None:
    store = Dies(at=8)
    with pytest.raises(SystemsError, match="call `ingest` again"):
        ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl")
    with pytest.raises(SystemsError, match=r"1 documents were on their way to notes .*first 'd7'"):
        ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl")
    assert len(store.notes) == 8


def test_a_target_that_goes_by_our_ids_is_simply_sent_it_again(tmp_path: Path) -> None:
    kept: dict[str, Document] = {}

    def put(documents: Sequence[Document]) -> list[str]:
        kept.update({document.doc_id: document for document in documents})
        if len(kept) == 8 and not done:
            done.append(True)
            raise ConnectionError("cut")
        return [document.doc_id for document in documents]

    done: list[bool] = []
    target = Target("notes", put, same_ids=True)
    with pytest.raises(SystemsError):
        ingest(DATA, target, tmp_path / "l.jsonl")
    ingest(DATA, target, tmp_path / "l.jsonl")
    assert kept == CORPUS


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_waits_for_what_is_on_its_way_and_the_next_call_continues(tmp_path: Path) -> None:
    store = Store()

    def slowly(documents: Sequence[Document]) -> list[int]:
        if documents[0].doc_id == "d5":
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return store.add(documents)

    target = Target("notes", slowly, concurrency=2)
    with pytest.raises(KeyboardInterrupt):
        ingest(DATA, target, tmp_path / "l.jsonl")
    before = len(store.notes)
    assert 0 < before < 20
    target = Target("notes", store.add)
    assert ingest(DATA, target, tmp_path / "l.jsonl").already == before  # without asking: all is known
    assert store.held() == Counter(list(CORPUS))


CLIENT = """
import sys
from ragbench.systems import ingest, load_target
from ragbench.types import Dataset, Document
corpus = {f"d{i}": Document(f"d{i}", f"Text number {i}.", title=f"Title {i}") for i in range(20)}
target = load_target(sys.argv[1])
print(ingest(Dataset("demo", "test", corpus, [], {}), target, sys.argv[2], poll_s=0.05).added)
target.close()
"""

SPEC = """
[http]
url = "URL/ask"
body = {query = "{query}"}
[ingest]
concurrency = 3
batch_size = 2
document = {name = "{title}", body = "{text}"}
add = {url = "URL/notes", body = {notes = "{documents}"}, id = "$.made[*].id"}
find = {url = "URL/notes/search", body = {name = "{title}"}, id = "$.found"}
status = {url = "URL/status", method = "GET", count = "$.indexed", pending = "$.queue"}
remove = {url = "URL/notes/{id}", method = "POST", body = {delete = true}}
"""


@pytest.fixture
def notes_service(loopback: Any, wire: Any, tmp_path: Path) -> Any:
    """A web service for notes whose index is behind by some polls, and the file that describes it."""

    def reply(asked: Any) -> Any:
        notes, path = server.notes, asked.path
        with server.guard:
            if path == "/notes":
                time.sleep(0.02)
                made = []
                for note in asked.body["notes"]:
                    made.append({"id": len(notes) + 100})
                    notes[len(notes) + 100] = note
                return wire.Answered({"made": made})
            if path == "/notes/search":
                found = [number for number, note in notes.items() if note["name"] == asked.body["name"]]
                return wire.Answered({"found": found})
            if path == "/status":
                server.indexed = min(len(notes), server.indexed + 7)
                return wire.Answered({"indexed": server.indexed, "queue": len(notes) - server.indexed})
            del notes[int(path.rpartition("/")[2])]
            return wire.Answered({})

    server = loopback(reply)
    server.notes, server.indexed, server.guard = {}, 0, threading.Lock()
    (tmp_path / "notes.toml").write_text(SPEC.replace("URL", server.url))
    return server


def test_http_from_a_file_until_the_index_has_all(notes_service: Any, tmp_path: Path) -> None:
    target = load_target(tmp_path / "notes.toml")
    done = ingest(DATA, target, tmp_path / "l.jsonl", poll_s=0.01)
    assert done.added == 20
    assert done.indexed == Indexed(held=20, pending=0)
    assert sorted(note["name"] for note in notes_service.notes.values()) == sorted(f"Title {i}" for i in range(20))
    assert remove_ingested(target, tmp_path / "l.jsonl") == 20
    assert notes_service.notes == {}
    target.close()


def test_a_variable_of_the_environment_goes_into_the_steps(
    notes_service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_KEY", "s3cr3t-7f3a9d")
    text = (tmp_path / "notes.toml").read_text().replace('{notes = "', '{key = "{env:NOTES_KEY}", notes = "')
    (tmp_path / "notes.toml").write_text(text)
    target = load_target(tmp_path / "notes.toml")
    assert ingest(DATA, target, tmp_path / "l.jsonl", poll_s=0.01).added == 20
    assert {asked.body["key"] for asked in notes_service.asked if asked.path == "/notes"} == {"s3cr3t-7f3a9d"}
    assert "s3cr3t" not in (tmp_path / "l.jsonl").read_text()
    target.close()


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a Unix thing")
def test_killed_in_the_middle_and_run_again_nothing_is_there_twice(notes_service: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "notes.toml"), str(tmp_path / "l.jsonl")]
    process = subprocess.Popen(command)
    while len(notes_service.notes) < 8:
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert len(notes_service.notes) < 20
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert Counter(note["name"] for note in notes_service.notes.values()) == Counter(f"Title {i}" for i in range(20))


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path: Path) -> None:
    store = Store()
    target = Target("notes", store.add, find=store.find)
    ingest(DATA, target, tmp_path / "l.jsonl")
    text = (tmp_path / "l.jsonl").read_text()
    (tmp_path / "l.jsonl").write_text(text[:-9])  # the last document's arrival
    assert ingest(DATA, target, tmp_path / "l.jsonl").already == 20
    assert store.held() == Counter(list(CORPUS))


def test_a_file_that_is_not_a_ledger_is_refused(tmp_path: Path) -> None:
    from ragbench.errors import DataError

    (tmp_path / "l.jsonl").write_text('{"_id": "d1"}\n')
    with pytest.raises(DataError, match=r"l.jsonl, line 1: not a line of a ledger"):
        ingest(DATA, Target("notes", Store().add), tmp_path / "l.jsonl")


# --- refusals, readiness ----------------------------------------------------------------------------------------------


def test_a_refused_document_is_counted_and_the_others_go_on(tmp_path: Path) -> None:
    store = Store()

    def picky(documents: Sequence[Document]) -> list[int]:
        if documents[0].doc_id in ("d4", "d9"):
            raise NotAdded("413: too long")
        return store.add(documents)

    with pytest.warns(DataWarning, match="notes refused 2 of 20 documents, the first 'd4': 413: too long"):
        done = ingest(DATA, Target("notes", picky), tmp_path / "l.jsonl")
    assert (done.added, set(done.refused)) == (18, {"d4", "d9"})


def test_who_refuses_everything_is_not_asked_a_thousand_times(tmp_path: Path) -> None:
    asked: list[str] = []

    def never(documents: Sequence[Document]) -> list[int]:
        asked.append(documents[0].doc_id)
        raise NotAdded("403")

    with pytest.raises(SystemsError, match="notes failed at document 'd9': 403"):
        ingest(DATA, Target("notes", never), tmp_path / "l.jsonl")
    assert len(asked) == 10


def test_a_server_that_is_not_there_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text(
        SPEC.replace("URL", "http://127.0.0.1:9").replace('{query}"}', '{query}"}\ntries = 1')
    )
    target = load_target(tmp_path / "notes.toml")
    with pytest.raises(SystemsError, match=r"no server answers at http://127.0.0.1:9/status"):
        ingest(DATA, target, tmp_path / "l.jsonl")
    target.close()


def test_an_index_that_never_gets_there(tmp_path: Path) -> None:
    target = Target("notes", Store().add, status=lambda: Indexed(held=12, pending=3))
    with pytest.raises(SystemsError, match=r"not ready after 0.1 s: 12 of 32 indexed, 3 pending"):
        ingest(DATA, target, tmp_path / "l.jsonl", ready_timeout_s=0.1, poll_s=0.03)


def test_what_was_in_the_index_before_is_not_counted_as_ours(tmp_path: Path) -> None:
    store, polls = Store(), iter([50, 50, 60, 69, 70])
    target = Target("notes", store.add, status=lambda: Indexed(held=next(polls)))
    assert ingest(DATA, target, tmp_path / "l.jsonl", poll_s=0.01).indexed == Indexed(held=70)


def test_two_at_the_same_ledger_are_refused(tmp_path: Path) -> None:
    def again(documents: Sequence[Document]) -> list[int]:
        ingest(DATA, Target("notes", Store().add), tmp_path / "l.jsonl")
        return []

    with pytest.raises(SystemsError, match="another process is working on"):
        ingest(DATA, Target("notes", again), tmp_path / "l.jsonl")


def test_nothing_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no documents"):
        ingest(Dataset("empty", "test", {}, [], {}), Target("notes", Store().add), tmp_path / "l.jsonl")


def test_the_targets_ids_lead_back_to_the_datasets(tmp_path: Path) -> None:
    store = Store()
    ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl")
    passages = (Passage("4", "an excerpt in other words"),)
    matched = match_passages(
        [Answer("q", "x", ("4",), passages=passages)], DATA, known_as=documents_of(tmp_path / "l.jsonl")
    )
    assert list(matched.run["q"]) == [store.notes[4].doc_id]


# --- MCP --------------------------------------------------------------------------------------------------------------


def test_one_of_several_is_found_by_our_id_in_the_path(loopback: Any, wire: Any, tmp_path: Path) -> None:
    notes = [{"id": number, "category": f"ours {doc_id}"} for number, doc_id in enumerate(['d"1', "d'2", "d1"], 7)]
    server = loopback(lambda asked: wire.Answered({"results": notes}))
    spec = SPEC.replace("URL", server.url).replace(
        'id = "$.found"', """id = '$.results[?(@.category == "ours {doc_id}")].id'"""
    )
    (tmp_path / "notes.toml").write_text(spec)
    target = load_target(tmp_path / "notes.toml")
    assert target.find is not None
    assert [target.find(Document(doc_id, "x")) for doc_id in ("d1", "d'2", "d9")] == [9, 8, None]
    target.close()


MCP = """
[mcp]
server = SERVER
tool = "echo"
[ingest]
batch_size = 4
document = {title = "{title}", text = "{text}"}
add = {tool = "add_notes", arguments = {documents = "{documents}"}, id = "$.ids"}
status = {tool = "status", count = "$.indexed"}
remove = {tool = "delete_note", arguments = {note_id = "{id}"}}
"""


def test_mcp_from_a_file(notes_command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "notes.toml").write_text(MCP.replace("SERVER", json.dumps(notes_command)))
    target = load_target(tmp_path / "notes.toml")
    done = ingest(DATA, target, tmp_path / "l.jsonl", poll_s=0.05)
    assert (done.added, done.indexed) == (20, Indexed(held=20))
    assert remove_ingested(target, tmp_path / "l.jsonl") == 20
    assert target.status is not None
    assert target.status() == Indexed(held=0)
    target.close()


def test_an_mcp_server_that_dies_in_the_middle_leaves_it_open(notes_command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "notes.toml").write_text(MCP.replace("SERVER", json.dumps(notes_command)))
    target = load_target(tmp_path / "notes.toml")
    corpus = {**dict(list(CORPUS.items())[:6]), "bad": Document("bad", "x", title="poison")}
    with pytest.raises(SystemsError, match=r"notes failed at document .*the connection ended"):
        ingest(Dataset("d", "t", corpus, [], {}), target, tmp_path / "l.jsonl")
    with pytest.raises(SystemsError, match="3 documents were on their way"):
        ingest(Dataset("d", "t", corpus, [], {}), target, tmp_path / "l.jsonl")
    target.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[http]\nurl = "http://h/"\nbody = "{query}"\n', r"has no table \[ingest\]"),
        ('[pipeline]\n[ingest]\nadd = {url = "http://h/"}\n', r"needs \[http\] or \[mcp\]"),
        ('[http]\nurl = "http://h/"\nbody = "{query}"\n[ingest]\nadd = {tool = "t"}\n', r"\[ingest.add\]: no url"),
        (
            '[http]\nurl = "http://h/"\nbody = "{query}"\n[ingest.add]\nurl = "http://h/"\nbody = {token = "s3cr3t"}\n',
            r"add.body: 'token' holds a secret",
        ),
        ('[mcp]\nserver = ["x"]\ntool = "t"\n[ingest]\nbatch_size = 0\n', "add.*field required.*batch_size is 0"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_target(tmp_path / "wrong.toml")
