"""The reply store: nothing paid is lost or repeated when it is killed, damaged, shared or imported."""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.files import locked
from ragbench.store import budgets, database, replies, submissions
from ragbench.store.contract import StoreError
from ragbench.store.replies import Reply, Request


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test alone."""
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def request(number: int = 0, **changed: Any) -> Request:
    fields: dict[str, Any] = {
        "provider": "openai",
        "model": "m",
        "prompt": f"prompt {number}",
        "origin": "http://a/v1",
    }
    return Request(**{**fields, **changed})


def reply(number: int = 0, **changed: Any) -> Reply:
    return Reply(f"reply {number}", "m-2026", 10 + number, 5, 0.25, "stop")._replace(**changed)


def fill(count: int) -> None:
    for number in range(count):
        replies.store(request(number), reply(number))


# --- keys
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"provider": "ollama"},
        {"model": "n"},
        {"prompt": "p"},
        {"system": ""},
        {"max_tokens": 511},
        {"temperature": 0.1},
        {"schema": {}},
        {"schema": {"a": 1}},
        {"sample": 1},
        {"origin": "http://b/v1"},
    ],
    ids=str,
)
def test_every_field_is_part_of_the_key(changed: dict[str, Any]) -> None:
    assert request(**changed).key != request().key
    assert (request(**changed).portable == request().portable) == ("origin" in changed)


def test_what_means_the_same_has_the_same_key() -> None:
    assert request(temperature=0).key == request(temperature=0.0).key
    assert request(schema={"a": 1, "b": 2}).key == request(schema={"b": 2, "a": 1}).key


@given(*[st.text(max_size=5)] * 4)
@settings(max_examples=100, deadline=None)
def test_texts_do_not_run_into_each_other(a: str, b: str, c: str, d: str) -> None:
    same = request(system=a, prompt=b).key == request(system=c, prompt=d).key
    assert same == ((a, b) == (c, d))


# --- store and lookup
# ------------------------------------------------------------------------------------------------


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    latency_s=st.floats(0, 1e6),
    count=st.integers(0, 2**40),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_is_stored_comes_back(folder: Path, text: str, latency_s: float, count: int) -> None:
    asked = request(prompt=text, system=text, schema={"t": text})
    kept = Reply(text, text, count, count, latency_s, "length")
    replies.clear()
    assert replies.lookup(asked) is None
    assert replies.store(asked, kept) == kept
    assert replies.lookup(asked) == kept


def test_many_are_looked_up_in_order(folder: Path) -> None:
    fill(1_200)
    asked = [request(number) for number in reversed(range(-3, 1_200))]
    assert (
        replies.lookup_many(asked)
        == [reply(number) for number in reversed(range(1_200))] + [None] * 3
    )


def test_the_first_reply_is_kept(folder: Path) -> None:
    replies.store(request(), reply(1))
    assert replies.store(request(), reply(2)) == reply(1)
    assert replies.lookup(request()) == reply(1)


def test_a_lookup_creates_no_file(folder: Path) -> None:
    assert replies.lookup(request()) is None
    assert replies.info()["replies"] == 0
    assert replies.clear() == 0
    assert budgets.spent("b") == (0.0, 0.0, 0.0)
    assert not (folder / "replies.sqlite").exists()


def test_another_origin_counts_only_when_asked_and_when_it_is_the_only_one(folder: Path) -> None:
    replies.store(request(), reply())
    elsewhere = request(origin="http://b/v1")
    assert replies.lookup(elsewhere) is None
    assert replies.lookup_many([elsewhere], any_origin=True) == [reply()]
    replies.store(request(origin="http://c/v1"), reply(2))
    assert replies.lookup_many([elsewhere], any_origin=True) == [None]
    assert replies.lookup_many([request()], any_origin=True) == [
        reply()
    ]  # the exact one goes first


def test_info_by_model_and_clear(folder: Path) -> None:
    fill(3)
    replies.store(request(provider="ollama", model="llama3.1:8b"), reply())
    found = replies.info()
    assert found["replies"] == 4
    assert found["models"]["openai:m"] == {"replies": 3, "input_tokens": 33, "output_tokens": 15}
    assert found["bytes"] > 0
    budgets.reserve("b", 1.0, 5.0, 60)
    assert replies.clear() == 4
    assert budgets.spent("b").open == 1.0  # what was spent is not forgotten


# --- killed, shared, damaged
# -----------------------------------------------------------------------------------------

WRITER = """
import sys
from ragbench.store import replies
from ragbench.store.replies import Reply, Request
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    replies.store(Request("openai", "m", f"prompt {number}", origin="http://a/v1"),
                  Reply(f"reply {number}", "m-2026", 10 + number, 5, 0.25, "stop"))
    print(number, flush=True)
"""


def writer(start: int, end: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(start), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_write_concurrently(folder: Path) -> None:
    processes = [writer(start, start + 100) for start in (0, 50, 100)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert replies.lookup_many([request(number) for number in range(200)]) == [
        reply(number) for number in range(200)
    ]
    assert replies.info()["replies"] == 200


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a Unix thing")
@pytest.mark.parametrize("after", [1, 7, 40])
def test_what_a_killed_process_had_stored_is_there(folder: Path, after: int) -> None:
    process = writer(0, 100_000)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(after)]
    process.kill()
    lines += process.communicate()[0].splitlines(keepends=True)
    whole = [int(line) for line in lines if line.endswith("\n")]
    assert replies.lookup_many([request(number) for number in whole]) == [
        reply(number) for number in whole
    ]
    with database._local_database()._lock:
        assert database.rows("PRAGMA integrity_check") == [("ok",)]


def test_a_file_that_is_not_a_database_is_moved_not_deleted(folder: Path) -> None:
    folder.mkdir()
    (folder / "replies.sqlite").write_bytes(b"somebody's notes" * 100)
    with pytest.warns(
        RuntimeWarning,
        match=r"is damaged .* it was moved to replies\.damaged-.*\.sqlite and 0 replies",
    ):
        replies.store(request(), reply())
    assert replies.lookup(request()) == reply()
    damaged = [path.name for path in folder.glob("replies.damaged-*.sqlite")]
    assert len(damaged) == 1
    assert (folder / damaged[0]).read_bytes().startswith(b"somebody's notes")


def overwritten(folder: Path, start: float, end: float) -> None:
    """Garbage over a part of the file, as a broken disk leaves it, once no process has it open."""
    database._local_database()._close()
    file = folder / "replies.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.seek(int(size * start))
        opened.write(os.urandom(int(size * (end - start))))


def test_what_can_still_be_read_of_a_damaged_file_is_taken_over(folder: Path) -> None:
    batch = submissions.Batch("tag", "openai:m here", "batch_1", 1.5, 7, (request(7_000),))
    submissions.put(batch)
    fill(400)
    budgets.reserve("b", 1.0, 5.0, 60)
    overwritten(folder, 0.5, 0.55)

    def go_on() -> list[Reply | None]:
        for number in range(400):
            replies.store(request(1_000 + number), reply())
        return replies.lookup_many([request(number) for number in range(400)])

    with pytest.warns(RuntimeWarning, match=r"and \d+ replies were taken over") as caught:
        found = go_on()
    assert len([w for w in caught if "was moved to" in str(w.message)]) == 1
    assert submissions.pending() == [batch]
    right = [number for number in range(400) if found[number] == reply(number)]
    assert len(right) > 100
    assert all(found[number] in (None, reply(number)) for number in range(400))  # never a wrong one
    assert replies.lookup_many([request(1_000 + n) for n in range(400)]) == [reply()] * 400


def test_a_reply_with_a_flipped_bit_counts_as_missing_and_is_replaced(folder: Path) -> None:
    fill(2)
    database.write(
        lambda execute: execute("UPDATE reply SET text = 'reply 9' WHERE prompt = 'prompt 1'")
    )
    with pytest.warns(RuntimeWarning, match="1 replies in .* do not match their checksums"):
        assert replies.lookup_many([request(0), request(1)]) == [reply(0), None]
    assert replies.store(request(1), reply(1)) == reply(1)
    assert replies.lookup(request(1)) == reply(1)


def test_a_store_that_was_deleted_meanwhile_is_begun_anew(folder: Path) -> None:
    fill(1)
    for file in folder.glob("replies.sqlite*"):
        file.unlink()
    assert replies.lookup(request(0)) is None
    with pytest.warns(RuntimeWarning, match="was deleted: .* what budgets had spent is forgotten"):
        replies.store(request(1), reply(1))
    assert writer(1, 2).communicate(timeout=30) == ("1\n", "")
    assert replies.info()["replies"] == 1


def test_a_store_of_a_newer_ragbench_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    with sqlite3.connect(folder / "replies.sqlite") as connection:
        connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(
        StoreError, match="has format 7, this ragbench reads 3: use the ragbench that wrote it"
    ):
        replies.lookup(request())


def test_a_forked_child_opens_the_store_for_itself(folder: Path) -> None:
    fill(1)
    code = (
        "import os, sys; from ragbench.store import replies; from ragbench.store.replies import "
        "Request;asked = Request('openai', 'm', 'prompt 0', origin='http://a/v1'); assert "
        "replies.lookup(asked);child = os.fork();"
        "found = replies.lookup(asked);"
        "os._exit(0 if found else 1) if child == 0 else sys.exit(os.waitpid(child, 0)[1])"
    )
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60).returncode == 0


def test_a_claim_is_held_by_one_and_given_back_by_the_dead(folder: Path) -> None:
    order: list[str] = []

    def other() -> None:
        with replies.claim("k"):
            order.append("other")

    with replies.claim("k"):
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.2)
        order.append("first")
    thread.join(timeout=10)
    assert order == ["first", "other"]
    code = "import os; from ragbench.store import replies\nwith replies.claim('k'): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 9
    start = time.perf_counter()
    with replies.claim("k"):
        assert time.perf_counter() - start < 20  # the dead process is noticed


def test_waiting_for_a_claim_can_be_stopped(folder: Path) -> None:
    stop = threading.Event()
    stop.set()
    with replies.claim("k"), pytest.raises(InterruptedError), replies.claim("k", stop):
        pass


def test_of_two_replies_in_one_statement_the_first_is_kept(folder: Path) -> None:
    both = [(request(1), reply(1)), (request(1), reply(2))]
    kept = database.write(
        lambda connection: replies._insert_replies(connection, both), in_turn=False
    )
    assert kept == [reply(1), reply(1)]
    assert replies.lookup(request(1)) == reply(1)


# --- on another machine
# -----------------------------------------------------------------------------------------------


def test_a_copy_of_the_file_plays_on_another_machine(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(600)
    odd = request(
        prompt="ünï\u2028\n\x00",
        system="s",
        schema={"a": [1]},
        temperature=0.7,
        sample=3,
        origin="",
    )
    replies.store(odd, reply(7, text="\u2028\r\n", finish="length"))
    database._local_database()._close()
    theirs = tmp_path / "colleague"
    theirs.mkdir()
    shutil.copy(replies.info()["file"], theirs)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(theirs))
    assert replies.info()["replies"] == 601
    assert replies.lookup(odd) == reply(7, text="\u2028\r\n", finish="length")


# --- the ledger
# ------------------------------------------------------------------------------------------------------


def test_reservations_settle_to_what_was_spent(folder: Path) -> None:
    first = budgets.reserve("b", 0.4, 1.0, 60)
    second = budgets.reserve("b", 0.4, 1.0, 60)
    assert first
    assert second
    assert budgets.reserve("b", 0.4, 1.0, 60) == 0  # 0.8 are on their way: wait and see
    budgets.settle(first, 0.1)
    assert budgets.spent("b") == (0.1, 0.4, 0.0)
    third = budgets.reserve("b", 0.4, 1.0, 60)
    assert third
    for number in (second, third):
        budgets.settle(number, 0.4)
    assert budgets.spent("b").settled == pytest.approx(0.9)
    assert budgets.reserve("b", 0.4, 1.0, 60) is None
    assert budgets.reserve("another", 0.4, 1.0, 60)


def test_a_clock_that_jumps_lets_no_budget_pass_its_maximum(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(1)
    monkeypatch.setattr("time.time", lambda: 1e9 + draw.uniform(-1e7, 1e7))
    numbers = [budgets.reserve("b", 1.0, 5.0, 60.0, str(number)) for number in range(20)]
    reserved = [number for number in numbers if number]
    assert len(reserved) == 5
    assert sum(budgets.spent("b")) == 5.0
    for number in reserved:
        budgets.settle(number, 0.5)
    assert budgets.spent("b") == (2.5, 0.0, 0.0)


def test_what_a_killed_process_had_reserved_is_apart_until_the_same_request_is_answered(
    folder: Path,
) -> None:
    assert budgets.reserve("b", 0.4, 1.0, lasts_s=-1.0, request="k")
    assert budgets.spent("b") == (0.0, 0.0, 0.4)
    assert (
        "0.4000 reserved by requests whose process was killed" in budgets.spent("b").lost_in_words
    )
    assert budgets.reserve("b", 0.7, 1.0, 60) is None
    for number, answered in ((0.0, False), (0.1, True)):  # refused, then answered
        reservation = budgets.reserve("b", 0.4, 1.0, 60, "k")
        assert reservation
        budgets.settle(reservation, number, answered=answered)
        assert budgets.spent("b") == (number, 0.0, 0.0 if answered else 0.4)
    assert budgets.spent("b").lost_in_words == ""


# --- damage, errors and permissions
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["text", "prompt", "key", "schema", "checksum", "portable"])
def test_a_flipped_bit_damages_its_row_alone(folder: Path, tmp_path: Path, column: str) -> None:
    fill(3)
    found = f"SELECT {column} FROM reply WHERE prompt = 'prompt 1'"
    value = database.rows(found)[0][0] or "{}"
    flipped = bytes([value.encode()[0] ^ 0x80]) + value.encode()[1:]  # no UTF-8 any more
    database.write(
        lambda execute: execute(
            f"UPDATE reply SET {column} = CAST(? AS TEXT) WHERE prompt = 'prompt 1'", [flipped]
        )
    )
    asked = [request(number) for number in range(3)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = replies.lookup_many(asked)
        assert replies.info()["replies"] == 3
    assert any("do not match their checksums" in str(one.message) for one in caught) == (
        column in ("text", "checksum")  # the rest is in the key, or in the index alone
    )
    assert [got[0], got[2]] == [reply(0), reply(2)]
    assert replies.store(asked[1], reply(1)) == reply(1)
    assert replies.lookup_many(asked) == [reply(number) for number in range(3)]


def test_paid_replies_are_on_the_disk(folder: Path) -> None:
    fill(1)
    assert database.rows("PRAGMA synchronous") == [(2,)]


def test_the_loss_of_the_account_is_reported(folder: Path) -> None:
    folder.mkdir()
    (folder / "replies.sqlite").write_bytes(b"somebody's notes" * 100)
    with pytest.warns(RuntimeWarning, match="the account of budgets is not whole"):
        fill(1)


@pytest.mark.skipif(os.name == "nt", reason="permissions of Unix")
def test_nobody_else_may_read_it(folder: Path) -> None:
    old = os.umask(0)
    try:
        fill(1)
    finally:
        os.umask(old)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.glob("replies.sqlite*")} == {0o600}


def test_a_lock_that_is_never_released_is_not_waited_for_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_S", 0.2)
    with (
        locked(folder / "replies.lock"),
        pytest.raises(StoreError, match=r"held for 0.2 s.*local disk"),
    ):
        fill(1)
    fill(1)
    monkeypatch.setattr(replies, "_LONGEST_CLAIM_S", 0.2)
    lock = folder / "locks" / f"reply-{request().key}.lock"
    with (
        locked(lock),
        pytest.raises(StoreError, match=r"held for 0.2 s.*local disk"),
        replies.claim(request().key),
    ):
        pass


def test_a_store_that_another_process_writes_for_ever_has_its_own_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_S", 0.2)
    fill(1)
    with sqlite3.connect(folder / "replies.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"is locked.*another process holds it: wait"):
            fill(2)
        other.execute("ROLLBACK")
    other.close()


@pytest.mark.parametrize(
    "number", [errno.EMFILE, errno.EIO, errno.ENOSPC, errno.ENOSYS], ids=errno.errorcode.get
)
def test_each_error_of_the_system_has_its_own_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(database, "_connect", fails)
    advice = {
        errno.EMFILE: "ulimit -n",
        errno.EIO: "check it",
        errno.ENOSPC: "free some",
        errno.ENOSYS: "local disk",
    }
    with pytest.raises(StoreError, match=advice[number]):
        fill(1)


@pytest.mark.skipif(os.name == "nt", reason="limits of Unix")
def test_too_many_open_files_have_their_own_advice(folder: Path) -> None:
    code = (
        "import os, resource, filelock; from ragbench.store import replies;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); held = []\n"
        "try:\n  while True: held.append(os.open(os.devnull, os.O_RDONLY))\n"
        "except OSError: [os.close(one) for one in held[:{free}]]\n"
        "try: replies.database.rows('SELECT 1')\n"
        "except OSError as exc: print(exc)"
    )
    for free in (0, 2):  # the lock, the database
        run = subprocess.run(
            [sys.executable, "-c", code.format(free=free)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "too many files are open" in run.stdout, (free, run.stdout, run.stderr[-500:])


@pytest.mark.parametrize("flips", [20, pytest.param(600, marks=pytest.mark.simulation)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_flipped_bit_anywhere_never_ends_the_store(
    folder: Path, tmp_path: Path, flips: int
) -> None:
    fill(12)
    asked, right = (
        [request(number) for number in range(12)],
        [reply(number) for number in range(12)],
    )
    overwritten(folder, 0, 0)  # all of it in the file
    file, chance = folder / "replies.sqlite", random.Random(17)
    whole, lost = file.read_bytes(), []
    for _ in range(flips):
        database._local_database()._close()
        for old in folder.glob("replies.*sqlite*"):
            old.unlink()
        place = chance.choice([*range(56), *range(64, len(whole))])  # but the number of the format
        file.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        got = replies.lookup_many(asked)
        lost.append(got.count(None))
        assert all(found in (None, expected) for found, expected in zip(got, right, strict=True)), (
            place
        )
        again = [replies.store(one, expected) for one, expected in zip(asked, right, strict=True)]
        assert again == replies.lookup_many(asked) == right, place
    assert sum(lost) <= 2 * flips
