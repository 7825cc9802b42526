"""The reply store in a PostgreSQL database: replies and spending for processes on many machines.

Its tables and statements are the same as in the file of a single machine (`ragbench.store.database`).

Transactions that write take turns: each waits for one lock of the database. A claim is the right of
one process to send a request. It is a lock, too, and the server releases it when the connection of
its holder ends, so that a killed process or a lost machine holds no claim.

When the database restarts, every statement is tried again with back-off for `PATIENCE_S`. The restart
ends all claims. Their holders take them again within a second; other processes make no claim for
`_GRACE_S`, since otherwise they would send requests that are on their way a second time.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from ragbench.errors import ConfigError
from ragbench.store.contract import BATCHES, TABLES, Execute, StoreError
from ragbench.store.engines import database_url, engine_of

Result = TypeVar("Result")

PATIENCE_S = 60.0
"""Seconds to wait for a database that was reached before and does not answer now."""
_FIRST_PATIENCE_S = 5.0  # for a database that this process has never reached: its URL may be wrong
_GRACE_S = 5.0  # no new claims for so long after a restart
_KEEP_S = 0.25  # between two checks of the claims' connection
_MAX_PAUSE_S = 1.0
_WRITE_LOCK = 7242  # the number of the lock that every writing transaction takes
_POLL_S = 0.1
_STOPPED = "stopped while another process sent the same request"
_CLAIMS = "CREATE TABLE IF NOT EXISTS claim (key TEXT PRIMARY KEY, holder TEXT NOT NULL)"
"""Who holds which claim, also after its connection was lost."""
_TAKE_OVER = (
    "INSERT INTO claim VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET holder = EXCLUDED.holder"
)
"""Inserts the row of a claim, or replaces the row of another holder."""
_REGISTER = f"{_TAKE_OVER} WHERE claim.holder = EXCLUDED.holder RETURNING key"
"""Inserts the row of a claim, and returns its key; nothing if there is a row of another holder."""
_READ_ONLY = "25006"
_SERVER_AGE = "SELECT EXTRACT(EPOCH FROM now() - pg_postmaster_start_time())"
_KEEP_ALIVE = (  # so that the server notices a lost machine, and releases its claims
    "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
)
_IDENTITY_TABLE = "CREATE TABLE reply_store (id TEXT NOT NULL)"
_HAS_TABLES = "SELECT 1 FROM pg_class WHERE relname = 'reply_store' AND pg_table_is_visible(oid)"
_opening = threading.Lock()
_opened: dict[tuple[str, int], SharedDatabase] = {}


class _GoneError(StoreError):
    """The database does not answer now, and may answer later."""


class SharedDatabase:
    """The reply store in the database at a URL; missing tables are created.

    Raises:
        StoreError: the database cannot be opened, read or written.
    """

    def __init__(self, url: str, process: int) -> None:
        """Connect to the database, and create its missing tables; `process` is the id of this process."""
        self._name = "of RAGBENCH_DATABASE"  # in messages, as long as the URL is not read
        # for how long statements are tried again if the database does not answer
        self._patience_s = _FIRST_PATIENCE_S
        self._gone_since: float | None = None  # since when it does not answer; None = it answers
        with self._store_errors():
            full_url = database_url(url)
            self._name = full_url.render_as_string(hide_password=True)
            self._engine = engine_of(full_url, process)
            self._autocommit_engine = self._engine.execution_options(isolation_level="AUTOCOMMIT")

        # A claim is the right to send a request, so that no two processes pay for the same reply. It is
        # a lock of a connection to the database, which ends with the connection, and a row of a table,
        # which stays until the claim is released. One connection has the locks of all claims of this
        # process.
        self._lock = threading.Lock()  # held by threads that use the attributes below
        self._holder = uuid.uuid4().hex  # the name of this process in the rows of its claims
        self._claims: sqlalchemy.Connection | None = None  # the connection; None = not open
        self._had_claims = False  # True once it was open: the next connection replaces a lost one
        self._no_claim_before = 0.0  # when the next claim may be made, by time.monotonic()
        self._keeper: threading.Thread | None = None  # opens a new connection if this one is lost
        self._held: set[str] = set()  # the keys of the claimed requests
        # of these, the keys that another process has claimed since the connection was lost
        self._not_retaken: set[str] = set()

        # a random text, stored when the tables were created: the same for all processes that use them
        self.identity = self.run(_create_tables, write=True)
        self._patience_s = PATIENCE_S  # the database works: wait longer from now on

    def run(
        self, work: Callable[[Execute], Result], *, write: bool = False, wait: bool = True
    ) -> Result:
        """Call `work` with a function that executes statements, and return its result.

        With `write`, all statements are one transaction, and other writers wait for its end;
        otherwise each statement is its own transaction.

        `work` is called again if the connection is lost in between, so calling it twice must have
        the effect of calling it once. With `wait=False` it is called once.
        """
        engine = self._engine if write else self._autocommit_engine

        def attempt() -> Result:
            with engine.begin() as connection:
                execute = partial(_execute, connection)
                if write:  # wait for the end of other writers
                    execute(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")
                return work(execute)

        if not wait:
            with self._store_errors():
                return attempt()
        never_stopped = threading.Event()
        return self._retry_while_gone(attempt, never_stopped)

    def _retry_while_gone(self, attempt: Callable[[], Result], stop: threading.Event) -> Result:
        """Return the result of `attempt`; while the database does not answer, try again with back-off.

        All threads of the process have the same deadline: `_patience_s` seconds after the first of them
        noticed that the database is gone. A call after the deadline tries once, then raises. When an
        attempt of any thread succeeds, the deadline is forgotten.

        Raises:
            InterruptedError: `stop` was set.
            StoreError: the database refused a statement, or did not answer until the deadline
                (_GoneError).
        """
        pause_s = _POLL_S
        deadline: float | None = None  # set when this call has failed once
        while True:
            try:
                with self._store_errors():
                    result = attempt()
            except _GoneError:
                now = time.monotonic()
                if self._gone_since is None:  # no other thread has noticed it yet
                    self._gone_since = now
                if deadline is None:
                    deadline = self._gone_since + self._patience_s
                if now >= deadline:
                    raise
                if stop.wait(min(pause_s, deadline - now)):
                    raise InterruptedError("stopped while the database was gone") from None
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            else:
                self._gone_since = None
                return result

    @contextmanager
    def claimed(self, key: str, stop: threading.Event) -> Iterator[None]:
        """Wait for the right to send the request with this key, and hold it during the block.

        The right, a claim, is a lock of the database and a row of the table `claim`. A holder that loses
        its connection loses the lock, but not the row. If it lives, it takes the lock again within a
        second; a dead holder leaves its row.

        Raises:
            InterruptedError: `stop` was set during the wait.
        """
        key_and_holder = (key, self._holder)  # the holder is this process
        self._wait_for_lock(key, stop)
        # a row of another holder, who did not release the claim, is not replaced
        inserted_rows = self.run(lambda execute: execute(_REGISTER, key_and_holder))
        if not inserted_rows:
            # give the other holder, if it lives, the time to take its lock again
            self._release_lock(key)
            if stop.wait(_GRACE_S):  # True if `stop` was set meanwhile
                raise InterruptedError(_STOPPED)
            # the lock is granted when the other holder is dead, or has released the claim
            self._wait_for_lock(key, stop)
            self.run(lambda execute: execute(_TAKE_OVER, key_and_holder))
        try:
            yield
        finally:
            with suppress(StoreError):  # then the next process waits for `_GRACE_S`
                query = "DELETE FROM claim WHERE key = ? AND holder = ?"
                self.run(lambda execute: execute(query, key_and_holder), wait=False)
            self._release_lock(key)

    def _wait_for_lock(self, key: str, stop: threading.Event) -> None:
        """Take the lock of a key; raises InterruptedError if `stop` is set during the wait."""
        while not self._retry_while_gone(lambda: self._try_claim(key), stop):
            if stop.wait(_POLL_S):
                raise InterruptedError(_STOPPED)

    def _release_lock(self, key: str) -> None:
        """Release the lock of a key. If the lock was lost with a connection, only its record in this
        process is deleted.
        """
        with self._lock:
            self._held.discard(key)
            self._not_retaken.discard(key)
            if self._claims is None:
                return
            query = "SELECT pg_advisory_unlock(%s)"
            try:
                self._claims.exec_driver_sql(query, (_lock_number(key),))
            except SQLAlchemyError:  # the lost connection has ended the claim
                self._drop_claims_connection()

    def _try_claim(self, key: str) -> bool:
        """Try to take the lock of a key, and return True if it succeeded.

        Return False while another thread or process holds the lock, or, after a restart of the database,
        might take its lock again.

        While this process holds any lock, a thread, the keeper, replaces the connection if it is lost.
        """
        with self._lock:
            # Another thread holds it. The server cannot tell threads apart: it would grant the lock
            # again to the connection that has it.
            if key in self._held:
                return False
            connection = self._claims_connection()
            if time.monotonic() < self._no_claim_before:  # too soon after a restart
                return False
            self._check_writable(connection)  # else the reply could not be stored
            is_granted = self._try_lock(connection, key)
            if is_granted:
                self._held.add(key)
            if self._held:
                self._ensure_keeper_runs()
            return is_granted

    def _ensure_keeper_runs(self) -> None:
        """Start the keeper, the thread of `_keep_claims`, unless it runs."""
        if self._keeper is None or not self._keeper.is_alive():
            self._keeper = threading.Thread(target=self._keep_claims, daemon=True)
            self._keeper.start()

    def _claims_connection(self) -> sqlalchemy.Connection:
        """Return the connection that holds all claims of the process. It is opened at the first call, and
        after it was lost. The caller holds `self._lock`.
        """
        if self._claims is not None:
            return self._claims
        return self._connect_and_claim_held_keys()

    def _connect_and_claim_held_keys(self) -> sqlalchemy.Connection:
        """Open the connection that holds the claims, claim the held keys again on it, and return it. Keys
        that another process has claimed since stay in `_not_retaken`.

        A restart of the database ends the claims of all processes. So that each process can claim its held
        keys again, this one makes no new claim for `_GRACE_S` seconds after a restart.
        """
        connection = self._autocommit_engine.connect()
        self._claims = connection
        try:
            connection.exec_driver_sql(_KEEP_ALIVE)
            # the seconds since the server was started
            server_age_s = float(connection.exec_driver_sql(_SERVER_AGE).scalar() or 0.0)
            self._not_retaken = set(self._held)  # the next call removes the keys that are granted
            self._retake_lost_claims(connection)
        except SQLAlchemyError:
            self._drop_claims_connection()
            raise
        if self._had_claims:  # a connection was lost, perhaps by a restart just now
            grace_s = _GRACE_S
        else:  # the process is new: only a recent restart of the server matters
            grace_s = _GRACE_S - server_age_s
        self._no_claim_before = time.monotonic() + grace_s
        self._had_claims = True
        return connection

    def _try_lock(self, connection: sqlalchemy.Connection, key: str) -> bool:
        """Return True if the database grants the lock of a key; a lost connection is forgotten."""
        query = "SELECT pg_try_advisory_lock(%s)"
        return bool(self._query_claims_connection(connection, query, _lock_number(key)))

    def _check_writable(self, connection: sqlalchemy.Connection) -> None:
        """Raise _GoneError if the database accepts no writes now, and so no reply."""
        if self._query_claims_connection(connection, "SHOW transaction_read_only") == "on":
            raise _GoneError(self._gone_message())

    def _query_claims_connection(
        self, connection: sqlalchemy.Connection, query: str, *values: int
    ) -> Any:
        """Return the value of a query on the connection of the claims, which is forgotten if lost."""
        try:
            return connection.exec_driver_sql(query, values).scalar()
        except SQLAlchemyError:
            self._drop_claims_connection()
            raise

    def _drop_claims_connection(self) -> None:
        """Close the connection of the claims, which was lost; `_held` keeps their keys."""
        lost = self._claims
        self._claims = None
        if lost is not None:
            with suppress(SQLAlchemyError):
                lost.invalidate()
                lost.close()

    def _keep_claims(self) -> None:
        """Check every `_KEEP_S` seconds that the connection of the claims works; replace a lost one.

        It is the body of a thread, which ends when no claim is left.
        """
        while True:
            time.sleep(_KEEP_S)
            with self._lock:
                if not self._held:
                    return
                with suppress(SQLAlchemyError):  # the next check tries again
                    self._reconnect_if_lost()

    def _retake_lost_claims(self, connection: sqlalchemy.Connection) -> None:
        """Try to claim the keys in `_not_retaken` again, and remove from it those that are granted."""
        for key in sorted(self._not_retaken):
            if self._try_lock(connection, key):
                self._not_retaken.discard(key)

    def _reconnect_if_lost(self) -> None:
        """Check the connection of the claims by a query. If it is lost, open a new connection, on which all
        held keys are claimed again.

        If it works, try to claim the keys in `_not_retaken` again: another process had them when this
        connection was opened.
        """
        try:
            connection = self._claims_connection()
            connection.exec_driver_sql("SELECT 1")
            self._retake_lost_claims(connection)
        except SQLAlchemyError:
            self._drop_claims_connection()
            self._connect_and_claim_held_keys()

    def _gone_message(self) -> str:
        """Return the message about a database that does not answer, or accepts no writes."""
        return (
            f"the reply store in the database {self._name} cannot be used: it did not answer, or "
            f"accepted no writes, for {self._patience_s:g} s; start it, or check RAGBENCH_DATABASE, "
            "and run the same command again: replies that this machine has received are not asked "
            "for again"
        )

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of the database into StoreError, or into _GoneError if it may answer later."""
        try:
            yield
        except ModuleNotFoundError as exc:
            raise StoreError(
                f"the database {self._name} needs a driver; pip install 'ragbench-lab[postgres]'"
            ) from exc
        except (OperationalError, InterfaceError) as exc:
            raise _GoneError(self._gone_message()) from exc
        except (SQLAlchemyError, ConfigError) as exc:
            if _sqlstate(exc) == _READ_ONLY:  # the server takes no writes now, but may later
                raise _GoneError(self._gone_message()) from exc
            raise StoreError(
                f"the reply store in the database {self._name} cannot be used: {_reason(exc)}. "
                "Without RAGBENCH_DATABASE the store is a file of this machine, and replies "
                "that it lacks are paid for again"
            ) from exc


def _reason(exc: SQLAlchemyError | ConfigError) -> str:
    """Return in words why the database cannot be used."""
    if isinstance(exc, ConfigError):
        return str(exc)
    reason = "it refuses a statement; check the rights of its user"
    if isinstance(exc, DBAPIError):
        reason += f" (SQLSTATE {_sqlstate(exc)})"
    return reason


def _sqlstate(exc: Exception) -> str | None:
    """Return PostgreSQL's code for an error, such as "25006"; None if the server reported none."""
    return getattr(exc.orig, "sqlstate", None) if isinstance(exc, DBAPIError) else None


def shared_database(url: str, process: int) -> SharedDatabase:
    """Return the database of a URL for a process; a forked one must not use its parent's
    connections.
    """
    with _opening:
        if (url, process) not in _opened:
            _opened[url, process] = SharedDatabase(url, process)
        return _opened[url, process]


def _create_tables(execute: Execute) -> str:
    """Create the missing tables, and return the database's identity: a random text stored with them."""
    if not execute(_HAS_TABLES):
        # from SQLite's types to PostgreSQL's; the type of the key first, as it has INTEGER in it
        tables = TABLES.replace("INTEGER PRIMARY KEY", "BIGSERIAL PRIMARY KEY")
        tables = tables.replace("INTEGER", "BIGINT")
        tables = tables.replace("REAL", "DOUBLE PRECISION")
        statements = tables + _IDENTITY_TABLE
        for statement in statements.split(";"):
            execute(statement)
        execute("INSERT INTO reply_store VALUES (?)", (uuid.uuid4().hex,))
    execute(BATCHES)
    execute(_CLAIMS)
    [[identity]] = execute("SELECT id FROM reply_store")
    return str(identity)


def _execute(
    connection: sqlalchemy.Connection, query: str, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """Execute a statement with "?" for each value, and return its rows; [] if it returns none.

    The statement has no other "?" and no "%". A text in `values` may have any character: NUL, which
    PostgreSQL does not store, is escaped in the database.
    """
    storable_values = tuple(map(_escape_nul, values))
    cursor = connection.exec_driver_sql(query.replace("?", "%s"), storable_values)
    if not cursor.returns_rows:
        return []
    return [tuple(map(_unescape_nul, row)) for row in cursor]


def _lock_number(key: str) -> int:
    """Return the number of the lock of a key: its first 64 bits, as a signed integer."""
    return int(key[:16], 16) - 2**63


def _escape_nul(value: Any) -> Any:
    """Escape NUL in a text by a backslash, since PostgreSQL stores no NUL; return other values
    unchanged.
    """
    if not isinstance(value, str):
        return value
    return value.replace("\\", "\\\\").replace("\0", "\\0")


def _unescape_nul(value: Any) -> Any:
    """Return the value that `_escape_nul` got."""
    if isinstance(value, str) and "\\" in value:
        return re.sub(r"\\(.)", _unescape_character, value)
    return value


def _unescape_character(escape: re.Match[str]) -> str:
    return "\0" if escape[1] == "0" else escape[1]
