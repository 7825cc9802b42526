"""The database of replies and spending: a SQLite file, or the PostgreSQL database that
RAGBENCH_DATABASE names; what happens to a damaged file, and the advice on errors.

The database is for processes on many machines (`ragbench.store.shared`). The file is opened once
per process, and shared by its threads and by other processes of this machine.

Write-ahead logging lets many processes read while one writes; a process that must wait does so for
up to a minute. A process killed at any moment leaves a file that the next one opens, with exactly
the committed transactions. A damaged file is renamed with a warning, its readable rows are copied
to the new file, and nothing is deleted. The file must be on a local disk: SQLite's locks and shared
memory do not work over a network.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ragbench.errors import warn_user
from ragbench.files import locked
from ragbench.store.arrays import cache_folder
from ragbench.store.contract import BATCHES, SPOOLED, TABLES, Execute, StoreError

if TYPE_CHECKING:
    from ragbench.store.shared import SharedDatabase

Result = TypeVar("Result")

_BUSY_S = 60.0
_VERSION = 3
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DAMAGED_SCHEMA = re.compile(
    r"no such |malformed |unsupported file format|table \w+ has |unknown database"
)
_LOCAL = "the store needs a local disk, which RAGBENCH_CACHE_DIR may name"
_ADVICE = {
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n), or ask with less "
    "--concurrency",
    errno.ENFILE: "this machine has too many open files: end some programs",
    errno.EIO: "the disk reports an error: check it, and set RAGBENCH_CACHE_DIR to a folder on "
    "another one",
    errno.ENOSPC: "free some space there, or set RAGBENCH_CACHE_DIR to a folder on another disk",
    errno.ENOLCK: _LOCAL,
    errno.ENOSYS: _LOCAL,
    errno.ETIMEDOUT: f"another process holds it: wait for that to end; if there is none, {_LOCAL}",
}
_MEANS = {
    sqlite3.SQLITE_BUSY: errno.ETIMEDOUT,
    sqlite3.SQLITE_LOCKED: errno.ETIMEDOUT,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_PROTOCOL: errno.ENOLCK,
}

_open_files: dict[tuple[int, Path], _Database] = {}
_open_files_lock = threading.Lock()


def is_shared() -> bool:
    """Return True if replies and spending are in a PostgreSQL database instead of the file."""
    return os.environ.get("RAGBENCH_DATABASE", "").startswith(
        ("postgresql:", "postgresql+", "postgres:")
    )


def exists() -> bool:
    """Return True if there may be replies or spending: if no file exists yet, none is made to
    look.
    """
    return is_shared() or path().exists()


def path() -> Path:
    """Return the path of the file, which may not exist, in a folder that does.

    Raises:
        StoreError: the folder cannot be created.
    """
    try:
        return cache_folder() / "replies.sqlite"
    except OSError as exc:
        raise StoreError(
            f"there is no folder for the reply store ({exc}); set RAGBENCH_CACHE_DIR to a folder "
            "that can be written"
        ) from exc


def read(work: Callable[[Execute], Result], *, local: bool = False) -> Result:
    """Call `work` with a function that executes statements, and return its result.

    The statements read from the shared database, if there is one, or from the file; with `local`,
    always from the file.
    """
    if is_shared() and not local:
        return _shared_database().run(work)
    return _local_database().run(work)


def rows(query: str, values: Sequence[Any] = (), *, local: bool = False) -> list[tuple[Any, ...]]:
    """Return the rows that a query selects."""
    return read(lambda execute: execute(query, values), local=local)


def write(
    work: Callable[[Execute], Result],
    *,
    in_turn: bool = True,
    local: bool = False,
    wait: bool = True,
) -> Result:
    """Call `work` with a function that executes statements, and return its result.

    The statements are one transaction: if `work` raises, nothing is written, and no other process can
    write in between.

    Args:
        in_turn: False makes each statement in a shared database a separate transaction, which does
            not wait for the end of other writers. It does nothing for the file.
        local: use the file of this machine even if the database is shared.
        wait: False does not try again if a shared database does not answer.
    """
    if is_shared() and not local:
        return _shared_database().run(work, write=in_turn, wait=wait)

    def in_transaction(execute: Execute) -> Result:
        execute("BEGIN IMMEDIATE")  # waits until no other process writes
        try:
            result = work(execute)
        except BaseException:
            # a damaged file cannot always roll back; the first error is the one to see
            with suppress(sqlite3.Error):
                execute("ROLLBACK")
            raise
        execute("COMMIT")
        return result

    return _local_database().run(in_transaction)


def identity() -> str:
    """Return the random text that was stored in the shared database when its tables were created; "" without
    a shared database.
    """
    return _shared_database().identity if is_shared() else ""


def claimed(key: str, stop: threading.Event) -> AbstractContextManager[None]:
    """Wait for the right to send the request with this key, and hold it during the block, by a claim in the
    shared database. InterruptedError if `stop` is set during the wait.
    """
    return _shared_database().claimed(key, stop)


def _shared_database() -> SharedDatabase:
    from ragbench.store.shared import shared_database  # SQLAlchemy is for those who share

    return shared_database(os.environ["RAGBENCH_DATABASE"], os.getpid())


def _local_database() -> _Database:
    """Return the file of this machine, opened once in a process."""
    key = (os.getpid(), path())  # a forked child must not use its parent's connection
    with _open_files_lock:
        if key not in _open_files:
            _open_files[key] = _Database(key[1])
        return _open_files[key]


class _Database:
    """The SQLite file of a process, with one connection, which its threads share in turn."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = -1  # of the file that the connection is open on

    def run(self, work: Callable[[Execute], Result]) -> Result:
        """Return the result of `work`, which gets a function that executes statements.

        If the file is damaged, it is replaced by a new one, with all that can be read, and `work` is
        called once more.

        Raises:
            StoreError: the file cannot be used.
        """
        with self._lock:
            try:
                return self._run_or_replace_file(work)
            except StoreError:  # it states already what to do
                raise
            except (sqlite3.Error, OSError) as exc:
                raise StoreError(
                    f"the reply store {self._file} cannot be used "
                    f"({type(exc).__name__}: {exc}): {advice(exc)}. RAGBENCH_REPLIES=off "
                    "continues without the store, and then every request is paid for again"
                ) from exc

    def _run_or_replace_file(self, work: Callable[[Execute], Result]) -> Result:
        """Return the result of `work`; if the file is damaged, replace it, and call `work` once more."""
        try:
            return work(self._statements())
        except (sqlite3.DatabaseError, UnicodeDecodeError) as exc:
            # UnicodeDecodeError for damaged names of columns
            if not _is_damage(exc):
                raise
            self._replace_damaged_file(exc)
            return work(self._statements())

    def _statements(self) -> Execute:
        """Return a function that executes a statement, and returns its rows."""
        connection = self._current_connection()
        return lambda query, values=(): connection.execute(query, values).fetchall()

    def _current_connection(self) -> sqlite3.Connection:
        """Return a connection to the file that is at the path now, opened again if it was replaced.

        Another process may have renamed a damaged file, or the cache was deleted: a process that kept
        writing to the old file would store replies in a file that no other process reads.
        """
        inode = _inode(self._file)
        if self._connection is not None and inode != self._inode:
            self._close()
            if inode == -1:  # there is no file
                warn_user(
                    f"the reply store {self._file} was deleted: replies must be paid for again, "
                    "and what budgets had spent is forgotten",
                    RuntimeWarning,
                )
        if self._connection is None:
            # two processes that create the file at once would collide
            with locked(self._file.with_suffix(".lock"), timeout_s=_BUSY_S):
                self._connection = _connect(self._file)
                self._inode = _inode(self._file)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _replace_damaged_file(self, exc: Exception) -> None:
        """Rename the damaged file and SQLite's files next to it, take over into a new file what can
        be read, and warn. Nothing is done if another process has replaced the file.
        """
        damaged_inode = self._inode if self._connection is not None else _inode(self._file)
        self._close()
        with locked(self._file.with_suffix(".lock"), timeout_s=_BUSY_S):
            if _inode(self._file) != damaged_inode:
                return  # another process was faster: there is a new file at the path
            damaged = _move_damaged_file(self._file)
            self._connection = _connect(self._file)
            self._inode = _inode(self._file)
            n_saved, is_spending_whole = _salvage(damaged, self._connection)
        on_budgets = ""
        if not is_spending_whole:
            on_budgets = (
                "; the account of budgets is not whole: maxima of cost no longer include earlier "
                "costs"
            )
        warn_user(
            f"the reply store {self._file} is damaged ({exc}); it was moved to {damaged.name} "
            f"and {n_saved} replies were taken over from it. What could not be read must be asked "
            f"for, and paid for, again{on_budgets}",
            RuntimeWarning,
        )


def _move_damaged_file(file: Path) -> Path:
    """Rename a damaged file and SQLite's files next to it; return the new path, which no file had."""
    damaged = file.with_name(f"{file.stem}.damaged-{time.strftime('%Y%m%d-%H%M%S')}.sqlite")
    while damaged.exists():
        damaged = damaged.with_name(f"{damaged.stem}x.sqlite")
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{file}{suffix}").rename(f"{damaged}{suffix}")
    return damaged


def _connect(file: Path) -> sqlite3.Connection:
    """Return a connection to the file, which is created with its tables if it does not exist.

    Raises:
        StoreError: the file has the format of another version of ragbench.
    """
    # Prompts, documents and answers are private; SQLite's other files get the same
    # permissions.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    file.chmod(0o600)
    connection = sqlite3.connect(
        file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    # A text with a flipped bit may not be UTF-8. It is decoded all the same: the checksum of its row
    # shows that it is damaged.
    connection.text_factory = _decode_leniently
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # a paid reply survives a loss of power, too
        _create_missing_tables(connection, file)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_missing_tables(connection: sqlite3.Connection, file: Path) -> None:
    """Create the tables in a new file, and those that files of an earlier ragbench do not have.

    Raises:
        StoreError: the file has the format of another version of ragbench.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:  # a new file
        connection.executescript(
            f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version={_VERSION}; COMMIT;"
        )
    elif version != _VERSION:
        raise StoreError(
            f"the reply store {file} has format {version}, this ragbench reads {_VERSION}: "
            "use the ragbench that wrote it, or set RAGBENCH_CACHE_DIR to another folder, where "
            "every reply must be paid for again"
        )
    connection.execute(BATCHES)
    connection.execute(SPOOLED)


def _is_damage(exc: Exception) -> bool:
    """Return True if an error means that the file is damaged."""
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # the lowest byte is the kind of error
    if code == sqlite3.SQLITE_ERROR:
        # our statements are right: a missing table or column was damaged in the schema
        return _DAMAGED_SCHEMA.match(str(exc)) is not None
    return code in _DAMAGED or isinstance(exc, UnicodeDecodeError)


def _inode(file: Path) -> int:
    """Return the number of the file at a path, which a new file in its place does not have; -1 if
    there is none.
    """
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return -1


def _decode_leniently(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def advice(exc: Exception) -> str:
    """Return a way out of an error of SQLite or of the operating system."""
    return _ADVICE.get(
        _errno_of_cause(exc), "set RAGBENCH_CACHE_DIR to a folder that can be written"
    )


def _errno_of_cause(exc: Exception) -> int:
    """Return the number in `errno` for the cause of an error; 0 if it is not known."""
    # the lowest byte of SQLite's code is the kind of error; the others, its details, are dropped
    sqlite_code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if isinstance(exc, TimeoutError):
        return errno.ETIMEDOUT
    if sqlite_code == sqlite3.SQLITE_CANTOPEN:
        return _errno_of_opening()
    return getattr(exc, "errno", None) or _MEANS.get(sqlite_code, 0)


def _errno_of_opening() -> int:
    """Try to open four files, and return the number of the error, such as EMFILE; 0 without an error.

    SQLite opens up to four files at once, and reports no reason if it cannot.
    """
    try:
        with ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(open(os.devnull))
    except OSError as exc:
        return exc.errno or 0
    return 0


class _Salvaged(NamedTuple):
    """The number of replies that were read from a damaged file, and True if all spending was."""

    n_replies: int
    is_spending_whole: bool


def _salvage(damaged: Path, into: sqlite3.Connection) -> _Salvaged:
    """Copy what can still be read from a damaged file: replies, spending, batches, and the keys of the
    replies that the shared database lacks (the table "spooled").

    Each table is read from its first row on and from its last row back, up to the damage. A row that is
    reached from both sides is copied once, and counts once.

    Args:
        damaged: the damaged file.
        into: a connection to the new file.
    """
    n_replies = 0
    is_spending_whole = False
    for order in ("ASC", "DESC"):
        for table in ("reply", "spending", "batch", "spooled"):
            # `n_copied` counts only rows that the new file did not have yet
            n_copied, reached_end = _copy_rows(damaged, into, table, order)
            if table == "reply":
                n_replies += n_copied
            if table == "spending" and reached_end:
                is_spending_whole = True
    return _Salvaged(n_replies, is_spending_whole)


def _copy_rows(damaged: Path, into: sqlite3.Connection, table: str, order: str) -> tuple[int, bool]:
    """Copy the rows of a table from a damaged file, up to the first row that cannot be read.

    Rows that `into` has already stay. `order` is "ASC" to begin with the first row, "DESC" to begin with
    the last.

    Returns:
        The number of new rows, and True if all rows could be read.
    """
    n_copied = 0
    try:
        with closing(sqlite3.connect(f"{damaged.as_uri()}?mode=ro", uri=True)) as source:
            source.text_factory = _decode_leniently
            query = f"SELECT * FROM {table} ORDER BY rowid {order}"  # nosec B608: names of ours
            for row in source.execute(query):
                # A row that came through with flipped bits is recognised by its checksum when it is
                # looked up.
                with suppress(sqlite3.Error):
                    marks = ",".join("?" * len(row))
                    done = into.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
                    n_copied += done.rowcount  # 0 if the row was there already
    except (sqlite3.Error, UnicodeError):
        return n_copied, False
    return n_copied, True
