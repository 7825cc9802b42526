"""ingest: every document once despite any interruption; removal; the example of its docstring
as it is printed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataWarning, FailureKind, RefusalError, SystemsError
from ragbench.systems import (
    IndexStatus,
    McpSystem,
    Target,
    ingest,
    ingested_ids,
    ingestion,
    match_passages,
)
from ragbench.types import Answer, Dataset, Document, Passage

CORPUS = {f"d{i}": Document(f"d{i}", f"Text number {i}.", title=f"Title {i}") for i in range(20)}
DATA = Dataset("demo", "test", CORPUS, [], {})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "_POLL_S", 0.01)


class Store:
    """A store of notes in this process that counts what it is given."""

    def __init__(self) -> None:
        self.notes: dict[int, Document] = {}
        self.lock = threading.Lock()
        self.most = self.now = 0
        self.takes_s = 0.0

    def add(self, document: Document) -> int:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(self.takes_s)
        with self.lock:
            self.now -= 1
            self.notes[len(self.notes) + 1] = document
            return len(self.notes)

    def find(self, document: Document) -> int | None:
        return next((number for number, note in self.notes.items() if note == document), None)

    def held(self) -> Counter[str]:
        return Counter(note.doc_id for note in self.notes.values())


def test_each_document_is_put_there_once_side_by_side(tmp_path: Path) -> None:
    store = Store()
    store.takes_s = 0.1
    target = Target("notes", store.add, concurrency=4)
    report = ingest(DATA, target, tmp_path / "l.jsonl")
    assert (report.n_added, report.n_before, report.refused) == (20, 0, {})
    assert store.most == 4
    assert store.held() == Counter(list(CORPUS))
    again = ingest(DATA, target, tmp_path / "l.jsonl")
    assert (again.n_added, again.n_before, len(store.notes)) == (0, 20, 20)


def test_new_documents_are_added_and_changed_ones_are_refused(tmp_path: Path) -> None:
    store = Store()
    target = Target("notes", store.add)
    ingest(
        Dataset("half", "test", dict(list(CORPUS.items())[:10]), [], {}),
        target,
        tmp_path / "l.jsonl",
    )
    assert ingest(DATA, target, tmp_path / "l.jsonl").n_added == 10
    changed = Dataset("new", "test", {**CORPUS, "d3": Document("d3", "Another text.")}, [], {})
    with pytest.raises(SystemsError, match="'d3' changed since it was put there"):
        ingest(changed, target, tmp_path / "l.jsonl")


# --- interruptions
# ----------------------------------------------------------------------------------------------------


class Dies(Store):
    """Keeps what it is given, and sometimes fails before it reports so."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def add(self, document: Document) -> int:
        number = super().add(document)
        if len(self.notes) == self.at:
            raise ConnectionError("the connection was cut")
        return number


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_target_that_dies_after_it_took_a_document_has_it_once(
    tmp_path: Path, concurrency: int
) -> None:
    store = Dies(at=8)
    target = Target("notes", store.add, find=store.find, concurrency=concurrency)
    with pytest.raises(
        SystemsError,
        match=r"notes failed at document .*the connection was cut; call `ingest` again",
    ):
        ingest(DATA, target, tmp_path / "l.jsonl")
    assert 8 <= len(store.notes) < 20
    ingest(DATA, target, tmp_path / "l.jsonl")
    assert store.held() == Counter(list(CORPUS))
    assert len(ingested_ids(tmp_path / "l.jsonl")) == 20


def test_where_no_one_can_know_nothing_is_sent(tmp_path: Path) -> None:
    store = Dies(at=8)
    with pytest.raises(SystemsError, match="call `ingest` again"):
        ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl")
    with pytest.raises(SystemsError, match=r"1 documents were on their way to notes .*first 'd7'"):
        ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl")
    assert len(store.notes) == 8


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("none"), SystemsError("none", FailureKind.UNREACHABLE)]
)
def test_a_server_that_is_not_there_has_got_nothing(tmp_path: Path, error: Exception) -> None:
    store = Store()

    def absent(document: Document) -> int:
        raise error

    with pytest.raises(SystemsError, match="notes failed at document 'd0': none"):
        ingest(DATA, Target("notes", absent), tmp_path / "l.jsonl")
    assert (
        ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl").n_added == 20
    )  # without a question


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_and_the_next_call_continues(tmp_path: Path) -> None:
    store = Store()

    def slowly(document: Document) -> int:
        if document.doc_id == "d5":
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return store.add(document)

    with pytest.raises(KeyboardInterrupt):
        ingest(DATA, Target("notes", slowly, concurrency=2), tmp_path / "l.jsonl")
    assert 0 < len(store.notes) < 20
    time.sleep(0.3)  # what was on its way arrives
    ingest(DATA, Target("notes", store.add, store.find), tmp_path / "l.jsonl")
    assert store.held() == Counter(list(CORPUS))


CLIENT = """
import sys
from collections import Counter
from pathlib import Path
from ragbench.systems import Target, ingest
from ragbench.types import Dataset, Document

store = Path(sys.argv[1])

def add(document):
    with store.open("a") as file:
        file.write(document.doc_id + "\\n")
    return document.doc_id.upper()

def find(document):
    return document.doc_id.upper() if document.doc_id in store.read_text().split() else None

corpus = {f"d{i}": Document(f"d{i}", f"Text number {i}.") for i in range(200)}
target = Target("notes", add, find, concurrency=3)
print(ingest(Dataset("demo", "test", corpus, [], {}), target, sys.argv[2]).n_added)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a Unix thing")
def test_killed_in_the_middle_and_run_again_nothing_is_there_twice(tmp_path: Path) -> None:
    store = tmp_path / "store.txt"
    store.touch()
    command = [sys.executable, "-c", CLIENT, str(store), str(tmp_path / "l.jsonl")]
    process = subprocess.Popen(command)
    while len(store.read_text().split()) < 8:
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert len(store.read_text().split()) < 200
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert Counter(store.read_text().split()) == Counter(f"d{i}" for i in range(200))


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path: Path) -> None:
    store = Store()
    target = Target("notes", store.add, find=store.find)
    ingest(DATA, target, tmp_path / "l.jsonl")
    text = (tmp_path / "l.jsonl").read_text()
    (tmp_path / "l.jsonl").write_text(text[:-9])  # the last document's arrival
    assert ingest(DATA, target, tmp_path / "l.jsonl").n_before == 20
    assert store.held() == Counter(list(CORPUS))


def test_a_file_that_is_not_a_ledger_is_refused(tmp_path: Path) -> None:
    from ragbench.errors import DataError

    (tmp_path / "l.jsonl").write_text('{"_id": "d1"}\n')
    with pytest.raises(DataError, match=r"l.jsonl, line 1: not a line of a ledger"):
        ingest(DATA, Target("notes", Store().add), tmp_path / "l.jsonl")


# --- refusals, readiness
# ----------------------------------------------------------------------------------------------


def test_a_refused_document_is_counted_and_the_others_go_on(tmp_path: Path) -> None:
    store = Store()

    def picky(document: Document) -> int:
        if document.doc_id in ("d4", "d9"):
            raise RefusalError("413: too long")
        return store.add(document)

    with pytest.warns(
        DataWarning, match="notes refused 2 of 20 documents, the first 'd4': 413: too long"
    ):
        report = ingest(DATA, Target("notes", picky), tmp_path / "l.jsonl")
    assert (report.n_added, set(report.refused)) == (18, {"d4", "d9"})


def test_who_refuses_everything_is_not_asked_a_thousand_times(tmp_path: Path) -> None:
    asked: list[str] = []

    def never(document: Document) -> int:
        asked.append(document.doc_id)
        raise RefusalError("403")

    with pytest.raises(SystemsError, match="notes failed at document 'd9': 403"):
        ingest(DATA, Target("notes", never), tmp_path / "l.jsonl")
    assert len(asked) == 10


def test_an_index_that_never_gets_there(tmp_path: Path) -> None:
    target = Target("notes", Store().add, status=lambda: IndexStatus(held=12, pending=3))
    with pytest.raises(SystemsError, match=r"not ready after 0.1 s: 12 of 32 indexed, 3 pending"):
        ingest(DATA, target, tmp_path / "l.jsonl", ready_timeout_s=0.1)


def test_what_was_in_the_index_before_is_not_counted_as_ours(tmp_path: Path) -> None:
    store, polls = Store(), iter([50, 50, 60, 69, 70])
    target = Target("notes", store.add, status=lambda: IndexStatus(held=next(polls)))
    assert ingest(DATA, target, tmp_path / "l.jsonl").index == IndexStatus(held=70)


def test_two_at_the_same_ledger_are_refused(tmp_path: Path) -> None:
    def again(document: Document) -> int:
        ingest(DATA, Target("notes", Store().add), tmp_path / "l.jsonl")
        return 0

    with pytest.raises(SystemsError, match="another process is working on"):
        ingest(DATA, Target("notes", again), tmp_path / "l.jsonl")


def test_nothing_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no documents"):
        ingest(
            Dataset("empty", "test", {}, [], {}), Target("notes", Store().add), tmp_path / "l.jsonl"
        )


def test_the_targets_ids_lead_back_to_the_datasets(tmp_path: Path) -> None:
    store = Store()
    ingest(DATA, Target("notes", store.add), tmp_path / "l.jsonl")
    passages = (Passage("4", "an excerpt in other words"),)
    matched = match_passages(
        [Answer("q", "x", ("4",), passages=passages)],
        DATA,
        known_as=ingested_ids(tmp_path / "l.jsonl"),
    )
    assert list(matched.run["q"]) == [store.notes[4].doc_id]


# --- the example, with tools of an MCP server
# -------------------------------------------------------------------------

[EXAMPLE] = re.findall(
    r"```python\n(# ingest_notes.py\n.*?)```", ingestion.__doc__ or "", re.DOTALL
)


@pytest.fixture
def notes(notes_command: list[str]) -> Iterator[Any]:
    """The application, and the target of the example."""
    pytest.importorskip("mcp")
    names: dict[str, Any] = {}
    exec(EXAMPLE, names)
    with McpSystem(notes_command, tool="echo") as system:
        yield names["notes_target"](system)


def test_a_corpus_goes_into_the_notes_application(notes: Any, tmp_path: Path) -> None:
    report = ingest(DATA, notes, tmp_path / "l.jsonl")
    assert (report.n_added, report.index) == (20, IndexStatus(held=20, pending=0))
    assert sorted(ingested_ids(tmp_path / "l.jsonl").values()) == sorted(CORPUS)
    assert (notes.find(CORPUS["d1"]), notes.find(Document("x", "", "nothing"))) != (None, None)


def test_a_note_that_the_application_refuses_is_not_there(notes: Any, tmp_path: Path) -> None:
    corpus = {**CORPUS, "long": Document("long", "x", title="too long")}
    with pytest.warns(
        DataWarning, match="notes refused 1 of 21 documents, the first 'long': .*413"
    ):
        ingest(Dataset("d", "t", corpus, [], {}), notes, tmp_path / "l.jsonl")
    assert "long" not in ingested_ids(tmp_path / "l.jsonl").values()


def test_an_application_that_dies_in_the_middle_leaves_it_open(notes: Any, tmp_path: Path) -> None:
    corpus = {**dict(list(CORPUS.items())[:6]), "bad": Document("bad", "x", title="poison")}
    with pytest.raises(SystemsError, match=r"notes failed at document .*the connection ended"):
        ingest(Dataset("d", "t", corpus, [], {}), notes, tmp_path / "l.jsonl")
    with pytest.raises(SystemsError, match=r"documents were on their way to notes"):
        ingest(
            Dataset("d", "t", corpus, [], {}),
            dataclasses.replace(notes, find=None),
            tmp_path / "l.jsonl",
        )
