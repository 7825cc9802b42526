"""Replies and spending in PostgreSQL: the same as in the file, for processes that share no folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from ragbench.store import budgets, database, replies, shared, submissions
from ragbench.store.budgets import Spending
from ragbench.store.contract import StoreError
from ragbench.store.replies import Reply, Request
from tests.service.conftest import _postgresql, new_database, new_postgresql  # noqa: F401
from tests.store.test_replies import fill, reply, request


@pytest.fixture
def store(
    new_database: Callable[[str], str],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    url = new_database("postgresql")
    monkeypatch.setenv("RAGBENCH_DATABASE", url)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    yield url
    opened = shared._opened.pop((url, os.getpid()), None)
    if opened is None:
        return
    if opened._claims is not None:
        opened._claims.close()
    opened._engine.dispose()


def elsewhere(code: str, folder: Path, stdin: int | None = None) -> subprocess.Popen[str]:
    """Python code in a process with its own home, folder and cache."""
    folder.mkdir()
    own = {
        "HOME": str(folder),
        "RAGBENCH_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": str(Path.cwd()),
    }
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **own},
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
    )


def ready_elsewhere(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start code that prints "ready" and then waits for a line, and return its process once it is
    ready.
    """
    process = elsewhere(code, folder, stdin=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


_HOLDER = f"""
import sys
from ragbench.store import replies
from tests.store.test_replies import reply, request
with replies.claim({request().key!r}):
    print("ready", flush=True)
    sys.stdin.readline()
    replies.store(request(), reply())
"""


def test_what_is_stored_comes_back_and_the_first_reply_stays(store: str) -> None:
    odd = "NUL \0, backslash \\0 \\, ünï ? % %s"
    asked = Request("openai", "m", odd, system=odd, schema={"t": odd}, origin="here")
    kept = Reply(odd, odd, 2**50, 3, 0.1 + 0.2, "length")
    assert replies.lookup(asked) is None
    assert replies.store(asked, kept) == kept
    assert replies.store(asked, kept._replace(text="later")) == kept
    assert replies.lookup(asked) == kept
    moved = Request("openai", "m", odd, system=odd, schema={"t": odd}, origin="there")
    assert replies.lookup(moved) is None
    assert replies.lookup_many([moved], any_origin=True) == [kept]
    assert replies.info()["models"] == {
        "openai:m": {"replies": 1, "input_tokens": 2**50, "output_tokens": 3}
    }
    assert not database.path().exists()


def test_batches_on_their_way_are_kept(store: str) -> None:
    odd = "NUL \0, backslash \\0 \\, ünï"
    asked = tuple(Request("openai", "m", odd, schema={"t": odd}, sample=i) for i in range(2))
    batch = submissions.Batch("tag", "openai:m here", "", 1.5, 7, asked)
    submissions.put(batch)
    assert submissions.pending("openai:m here") == [batch]
    submissions.put(batch._replace(id="batch_1"))
    assert submissions.pending("openai:m here") == [batch._replace(id="batch_1")]
    assert submissions.pending("openai:m there") == []
    submissions.remove(batch)
    assert submissions.pending("openai:m here") == []


def test_a_store_is_cleared(store: str) -> None:
    fill(3)
    assert replies.clear() == 3
    assert replies.info()["replies"] == 0
    assert replies.lookup(request(2)) is None


def test_what_this_machine_had_paid_for_before_is_found(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGBENCH_DATABASE")
    fill(2)
    monkeypatch.setenv("RAGBENCH_DATABASE", store)
    replies.store(request(5), reply(5))
    assert replies.lookup_many([request(0), request(5), request(6)]) == [reply(0), reply(5), None]
    # two origins in the database do not hide the one in the file
    replies.store(request(5, origin="http://b/v1"), reply(6))
    elsewhere = [request(number, origin="http://c/v1") for number in (0, 5)]
    assert replies.lookup_many(elsewhere, any_origin=True) == [reply(0), None]


def test_processes_together_never_pass_the_maximum(store: str, tmp_path: Path) -> None:
    code = """
from ragbench.store import budgets
print(sum(budgets.reserve("b", 1.0, 20.0, 60.0, str(i)) not in (None, 0) for i in range(10)))
"""
    tasks = [elsewhere(code, tmp_path / str(i)) for i in range(3)]
    assert sum(int(task.communicate()[0]) for task in tasks) == 20
    assert budgets.spent("b") == Spending(0.0, 20.0, 0.0)
    first = budgets.reserve("c", 1.0, 2.0, -1.0, "same")  # of a process that is gone
    second = budgets.reserve("c", 1.0, 2.0, 60.0, "same")
    assert first
    assert second
    assert budgets.spent("c") == Spending(0.0, 1.0, 1.0)
    budgets.settle(second, 0.25, answered=True)
    assert budgets.spent("c") == Spending(0.25, 0.0, 0.0)


def test_a_claim_waits_for_its_holder_and_is_free_when_that_is_killed(
    store: str, tmp_path: Path
) -> None:
    key = request().key
    holder = ready_elsewhere(_HOLDER, tmp_path / "a")
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(InterruptedError), replies.claim(key, stop):
        pass
    with replies.claim(request(1).key):  # another one is free
        holder.send_signal(signal.SIGKILL)
        began = time.monotonic()
        with replies.claim(key):
            assert time.monotonic() - began < 60
    holder.communicate()


def test_threads_of_a_process_take_turns(store: str) -> None:
    inside, most = [], 0

    def one(_: int) -> None:
        nonlocal most
        with replies.claim(request().key):
            inside.append(1)
            most = max(most, len(inside))
            time.sleep(0.02)
            inside.pop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))
    assert most == 1


def test_a_lost_connection_is_replaced(store: str) -> None:
    with replies.claim(request().key):
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
            "pg_backend_pid() AND datname = "
        )
        database.rows(f"{ended} current_database()")
    with replies.claim(request().key):
        fill(1)
    assert replies.lookup(request()) == reply()


def test_a_database_that_cannot_be_reached_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_FIRST_PATIENCE_S", 0.3)
    monkeypatch.setenv("RAGBENCH_DATABASE", "postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(StoreError, match="cannot be used") as caught:
        replies.lookup(request())
    assert "secret" not in str(caught.value)


def test_many_that_come_first_make_the_tables_once(store: str) -> None:
    together = threading.Barrier(8)

    def first(process: int) -> str:
        together.wait(10)
        opened = shared.SharedDatabase(store, -process)
        opened._engine.dispose()
        return opened.identity

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(first, range(1, 9)))) == 1
    replies.info()


@pytest.fixture
def server(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """A PostgreSQL server of this test alone, which it may stop and start."""
    server = Server(*new_postgresql(tmp_path_factory))
    server.start()
    monkeypatch.setenv("RAGBENCH_DATABASE", server.url)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    yield server
    if opened := shared._opened.pop((server.url, os.getpid()), None):
        opened._drop_claims_connection()
        opened._engine.dispose()
    server.stop()


class Server:
    def __init__(self, url: str, run: Callable[[], subprocess.Popen[bytes]]) -> None:
        self.url, self._run = url, run

    def start(self) -> None:
        self._process = self._run()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)


_WORKER = """
import sys
from ragbench.llms import generate_many
from ragbench.llms.providers import stored_llm
replies = generate_many(stored_llm("openai:m"), [f"prompt {i}" for i in range(40)], concurrency=8)
print([reply.error for reply in replies if reply.error], len({reply.text for reply in replies}))
"""


def test_nothing_is_asked_twice_or_given_up_when_the_database_restarts(
    server: Server, tmp_path: Path, loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    asked = []
    enough = threading.Event()

    def answer(request: Any) -> Any:
        prompt = request.body["messages"][-1]["content"]
        asked.append(prompt)
        if len(asked) == 12:
            enough.set()
        time.sleep(0.5)
        return wire.Answered(wire.openai(f"Reply to {prompt}"))

    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", loopback(answer).url)
    llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "sk-none")
    llm_environment.setenv("RAGBENCH_DATABASE", server.url)
    workers = [elsewhere(_WORKER, tmp_path / str(i)) for i in range(3)]  # three machines
    assert enough.wait(60)
    server.stop()
    time.sleep(2)
    server.start()
    for worker in workers:
        assert worker.communicate(timeout=120)[0] == "[] 40\n"
    assert sorted(asked) == sorted(f"prompt {i}" for i in range(40))


def test_what_the_database_does_not_take_is_kept_here_and_moved_later(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "PATIENCE_S", 0.3)
    fill(1)
    server.stop()
    with pytest.warns(RuntimeWarning, match="until the shared database takes them") as caught:
        assert replies.store(request(7), reply(7)) == reply(7)
    message = str(caught[0].message)
    assert "did not answer, or accepted no writes, for 0.3 s" in message
    assert "connection" not in message  # as the driver words it
    with pytest.raises(StoreError, match="did not answer"), replies.claim(request(8).key):
        pass
    server.start()
    assert replies.lookup(request(7)) == reply(7)
    assert database.rows("SELECT key FROM reply", local=True) == []
    assert database.rows("SELECT key FROM spooled", local=True) == []
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "another machine"))
    assert replies.lookup_many([request(0), request(7)]) == [reply(0), reply(7)]


def executed(server: Server, *statements: str) -> list[Any]:
    """Execute statements, each in its own transaction, and return the rows of the last one."""
    url = server.url
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        return [*result] if result.returns_rows else []


_CLAIMS = (
    "locktype = 'advisory' AND granted AND objsubid = 1 "
    f"AND (classid::bigint << 32 | objid::bigint) <> {shared._WRITE_LOCK}"
)


@pytest.mark.parametrize("comes", ["before", "after"])
def test_a_claim_whose_connection_alone_is_lost_stays_with_its_holder(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    replies.lookup(request())
    holder = ready_elsewhere(_HOLDER, tmp_path / "a")
    is_refused, is_granted = threading.Event(), threading.Event()
    claim = shared.SharedDatabase._try_claim

    def observed_claim(opened: shared.SharedDatabase, key: str) -> bool:
        has_lock = claim(opened, key)
        (is_granted if has_lock else is_refused).set()
        return has_lock

    monkeypatch.setattr(shared.SharedDatabase, "_try_claim", observed_claim)

    def reply_after_claim() -> Reply | None:
        with replies.claim(request().key):
            return replies.lookup(request())

    with ThreadPoolExecutor(1) as pool:
        if comes == "before":
            waiting = pool.submit(reply_after_claim)
            assert is_refused.wait(60)
        holder.send_signal(signal.SIGSTOP)  # so that it does not take its claim again at once
        executed(server, f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE {_CLAIMS}")
        if comes == "after":
            waiting = pool.submit(reply_after_claim)
        assert is_granted.wait(60)
        time.sleep(0.5)  # time enough to send the request
        holder.send_signal(signal.SIGCONT)
        holder.communicate("store it\n", timeout=60)
        assert waiting.result(60) == reply()


@pytest.mark.parametrize("fault", ["read-only", "full"])
def test_nothing_is_bought_while_the_database_takes_no_reply(
    server: Server, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(shared, "PATIENCE_S", 0.3)
    fill(1)
    begin, end = {
        "read-only": (
            ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"],
            [
                "SET default_transaction_read_only = off",
                "ALTER SYSTEM RESET default_transaction_read_only",
                "SELECT pg_reload_conf()",
            ],
        ),
        "full": (
            [
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$",
                "CREATE TRIGGER fail BEFORE INSERT ON reply EXECUTE FUNCTION fail()",
            ],
            ["DROP TRIGGER fail ON reply"],
        ),
    }[fault]
    executed(server, *begin)
    while fault == "read-only" and executed(server, "SHOW transaction_read_only") != [("on",)]:
        time.sleep(0.05)
    with pytest.warns(RuntimeWarning, match="until the shared database takes them"):
        assert replies.store(request(7), reply(7)) == reply(7)
    with pytest.raises(StoreError, match="accepted no writes"), replies.claim(request(8).key):
        pass
    assert replies.lookup(request(7)) == reply(7)
    executed(server, *end)
    while fault == "read-only" and executed(server, "SHOW transaction_read_only") != [("off",)]:
        time.sleep(0.05)
    with replies.claim(request(8).key):
        assert database.rows("SELECT key FROM spooled", local=True) == []
    assert replies.lookup_many([request(0), request(7)]) == [reply(0), reply(7)]


_STORER = """
import sys, threading
from ragbench.store import replies
from tests.store.test_replies import reply, request
replies.lookup(request())
print("ready", flush=True)
sys.stdin.readline()
for number in range(4):
    threading.Thread(target=replies.store, args=(request(number), reply(number))).start()
"""


def test_a_reply_outlives_a_process_that_is_killed_while_the_database_is_gone(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies.lookup(request())
    storer = ready_elsewhere(_STORER, tmp_path / "a")
    assert storer.stdin
    server.stop()
    storer.stdin.write("\n")
    storer.stdin.flush()
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "a" / "cache"))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(database.rows("SELECT key FROM spooled", local=True)) == 4:
            break
        time.sleep(0.05)
    storer.kill()
    storer.communicate()
    server.start()
    wanted = [request(number) for number in range(4)]
    assert replies.lookup_many(wanted) == [reply(number) for number in range(4)]
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "another machine"))
    assert replies.lookup_many(wanted) == [reply(number) for number in range(4)]
