"""The SQLite file of replies and spending: opened once per process, shared by its threads and by other processes.

Write-ahead logging lets many processes read while one writes; a process that must wait does so for up to a minute. A
process killed at any moment leaves a file that the next one opens: what was committed is there, what was not is not. A
file that turns out to be damaged is renamed with a warning, what can still be read of it is taken over, and nothing is
deleted.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from ragbench.cache.arrays import cache_folder
from ragbench.files import locked

Result = TypeVar("Result")

_BUSY_S = 60.0
_VERSION = 1
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TABLES = """
CREATE TABLE reply (
    key TEXT PRIMARY KEY, portable TEXT NOT NULL,
    provider TEXT NOT NULL, model TEXT NOT NULL, origin TEXT NOT NULL,
    system TEXT, prompt TEXT NOT NULL, max_tokens INTEGER NOT NULL, temperature REAL NOT NULL,
    schema TEXT, sample INTEGER NOT NULL,
    text TEXT NOT NULL, served TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    latency_s REAL NOT NULL, finish TEXT NOT NULL, created REAL NOT NULL, proof TEXT NOT NULL
);
CREATE INDEX reply_portable ON reply (portable);
CREATE TABLE spending (
    id INTEGER PRIMARY KEY, budget TEXT NOT NULL, bound REAL NOT NULL, actual REAL, expires REAL NOT NULL
);
CREATE INDEX spending_budget ON spending (budget);
"""

_shared: dict[tuple[int, Path], _Database] = {}
_shared_lock = threading.Lock()


class StoreError(OSError):
    """The reply store cannot be opened, read or written; the message states what to do."""


def path() -> Path:
    """Where the file is, whether it exists or not; its folder exists."""
    try:
        return cache_folder() / "replies.sqlite"
    except OSError as exc:
        raise StoreError(
            f"there is no folder for the reply store ({exc}); set RAGBENCH_CACHE_DIR to a folder that can be written"
        ) from exc


def read(work: Callable[[sqlite3.Connection], Result]) -> Result:
    """What `work` returns, given the connection."""
    return _open()._run(work)


def rows(query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """What a query finds."""
    return read(lambda connection: connection.execute(query, values).fetchall())


def write(work: Callable[[sqlite3.Connection], Result]) -> Result:
    """As `read`, in a transaction that holds the right to write from its start: all of `work` is done, or nothing."""

    def in_transaction(connection: sqlite3.Connection) -> Result:
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
        except BaseException:
            with suppress(sqlite3.Error):  # a damaged file cannot always roll back; the first error is the one to see
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return result

    return _open()._run(in_transaction)


def _open() -> _Database:
    key = (os.getpid(), path())  # a forked child must not use its parent's connection
    with _shared_lock:
        if key not in _shared:
            _shared[key] = _Database(key[1])
        return _shared[key]


class _Database:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = -1

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock:
            try:
                try:
                    return work(self._connected())
                except sqlite3.DatabaseError as exc:
                    if not _is_damage(exc):
                        raise
                    self._set_aside(exc)
                    return work(self._connected())
            except StoreError:
                raise
            except (sqlite3.Error, OSError) as exc:
                raise StoreError(
                    f"the reply store {self._file} cannot be used ({type(exc).__name__}: {exc}). Free some space "
                    "there, or set RAGBENCH_CACHE_DIR to a folder that can be written; RAGBENCH_REPLIES=off continues "
                    "without the store, and then every request is paid for again"
                ) from exc

    def _connected(self) -> sqlite3.Connection:
        # Another process may have renamed a damaged file, or the cache was deleted: a process that kept writing to
        # the old file would store replies where they are not looked for.
        if self._connection is not None and _inode(self._file) != self._inode:
            self._close()
        if self._connection is None:
            with locked(self._file.with_suffix(".lock")):  # two processes that create the file at once would collide
                self._connection = _connect(self._file)
                self._inode = _inode(self._file)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _set_aside(self, exc: sqlite3.DatabaseError) -> None:
        seen = self._inode if self._connection is not None else _inode(self._file)
        self._close()
        with locked(self._file.with_suffix(".lock")):
            if _inode(self._file) != seen:
                return  # another process was faster
            damaged = self._file.with_name(f"{self._file.stem}.damaged-{time.strftime('%Y%m%d-%H%M%S')}.sqlite")
            while damaged.exists():
                damaged = damaged.with_name(f"{damaged.stem}x.sqlite")
            for suffix in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    Path(f"{self._file}{suffix}").rename(f"{damaged}{suffix}")
            self._connection = _connect(self._file)
            self._inode = _inode(self._file)
            saved = _salvage(damaged, self._connection)
        warnings.warn(
            f"the reply store {self._file} is damaged ({exc}); it was moved to {damaged.name} and {saved} replies were "
            "taken over from it. What could not be read must be asked for, and paid for, again",
            RuntimeWarning,
            stacklevel=2,
        )


def _connect(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version={_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise StoreError(
                f"the reply store {file} has format {version}, this ragbench knows {_VERSION}: update ragbench, or set "
                "RAGBENCH_CACHE_DIR to another folder"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _is_damage(exc: sqlite3.DatabaseError) -> bool:
    return getattr(exc, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return -1


def _salvage(damaged: Path, into: sqlite3.Connection) -> int:
    """Take over the replies that can still be read, from the first row on and from the last one back."""
    saved = 0
    for order in ("ASC", "DESC"):
        for table, columns in (("reply", 19), ("spending", 5)):
            with suppress(sqlite3.Error), closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)) as source:
                places = ",".join("?" * columns)
                for row in source.execute(f"SELECT * FROM {table} ORDER BY rowid {order}"):
                    # A row that came through with flipped bits is recognised by its proof when it is looked up.
                    with suppress(sqlite3.Error):
                        done = into.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", row)
                        saved += done.rowcount if table == "reply" else 0
    return saved
