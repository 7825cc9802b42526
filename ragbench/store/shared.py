"""Replies and spending in a PostgreSQL database: the tables and statements of the file, for
processes on many machines.

Transactions that write take their turn by a lock of the database, as on the file. A claim is a lock
that the server gives back when the connection of its holder ends, so that a killed process, or a
machine that is gone, holds none.

A database that restarts is waited for: every statement is tried again with back-off for
`PATIENCE_S`. Its restart ends all claims, whose holders take them again within a second, while
everyone else makes no claim for `_GRACE_S`: else a request that is on its way would be sent twice.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from ragbench.errors import ConfigError
from ragbench.store.contract import BATCHES, TABLES, Execute, StoreError
from ragbench.store.engines import database_url, engine_of

Result = TypeVar("Result")

PATIENCE_S = 60.0
"""How long a database that has been reached before is waited for when it is gone."""
_FIRST_PATIENCE_S = 5.0  # for a database that this process has never reached: its URL may be wrong
_GRACE_S = 5.0
_KEEP_S = 1.0
_LONGEST_PAUSE_S = 1.0
_TURN = 7242  # the lock of those who write
_POLL_S = 0.1
_AGE = "SELECT EXTRACT(EPOCH FROM now() - pg_postmaster_start_time())"
_GONE = (
    "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
)
_OWN = "CREATE TABLE reply_store (id TEXT NOT NULL)"
_THERE = "SELECT 1 FROM pg_class WHERE relname = 'reply_store' AND pg_table_is_visible(oid)"
_opening = threading.Lock()
_opened: dict[tuple[str, int], SharedDatabase] = {}


class _GoneError(StoreError):
    """The database does not answer now; it may later."""


class SharedDatabase:
    """The database of a URL, whose tables are made when there are none.

    Raises:
        StoreError: it cannot be opened, read or written.
    """

    def __init__(self, url: str, process: int) -> None:
        self._shown = "of RAGBENCH_DATABASE"
        self._patience_s = _FIRST_PATIENCE_S
        self._gone_since: float | None = None
        self._claims: sqlalchemy.Connection | None = None
        self._had_claims = False
        self._no_claim_before = 0.0
        self._keeper: threading.Thread | None = None
        self._held: set[str] = set()
        self._lock = threading.Lock()
        with self._errors():
            named = database_url(url)
            self._shown = named.render_as_string(hide_password=True)
            self._engine = engine_of(named, process)
            self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self.identity = self.run(_made, write=True)
        self._patience_s = PATIENCE_S

    def run(self, work: Callable[[Execute], Result], *, write: bool = False) -> Result:
        """Return what `work` returns; to `write` in a transaction for which others wait, else with
        a transaction for each statement. Text has no NUL there, so it is escaped by a backslash.

        `work` is called again where the database is gone in between: it must mean the same twice.
        """

        def attempt() -> Result:
            with (self._engine if write else self._single).begin() as connection:

                def execute(query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                    escaped = tuple(map(_escaped, values))
                    cursor = connection.exec_driver_sql(query.replace("?", "%s"), escaped)
                    if not cursor.returns_rows:
                        return []
                    return [tuple(map(_plain, row)) for row in cursor]

                if write:
                    execute(f"SELECT pg_advisory_xact_lock({_TURN})")
                return work(execute)

        return self._patiently(attempt, threading.Event())

    def _patiently(self, attempt: Callable[[], Result], stop: threading.Event) -> Result:
        """Return what `attempt` returns; while the database is gone, try again with back-off.

        The threads of a process share one patience: once it is over, each tries once.

        Raises:
            InterruptedError: `stop` was set.
        """
        pause_s = _POLL_S
        deadline: float | None = None
        while True:
            try:
                with self._errors():
                    result = attempt()
            except _GoneError:
                now = time.monotonic()
                if self._gone_since is None:
                    self._gone_since = now
                if deadline is None:
                    deadline = self._gone_since + self._patience_s
                if now >= deadline:
                    raise
                if stop.wait(min(pause_s, deadline - now)):
                    raise InterruptedError("stopped while the database was gone") from None
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._gone_since = None
                return result

    @contextmanager
    def claimed(self, key: str, stop: threading.Event) -> Iterator[None]:
        """Hold the right to send the request with this key. Ends the wait with InterruptedError
        when `stop` is set.
        """
        while not self._patiently(lambda: self._claim(key), stop):
            if stop.wait(_POLL_S):
                raise InterruptedError("stopped while another process sent the same request")
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(key)
                if self._claims is not None:
                    query = "SELECT pg_advisory_unlock(%s)"
                    try:
                        self._claims.exec_driver_sql(query, (_number(key),))
                    except SQLAlchemyError:  # the claim went with the connection
                        self._forget_claims()

    def _claim(self, key: str) -> bool:
        """Try to claim a key; False while another one holds it, or might take its claim again."""
        with self._lock:
            if key in self._held:  # the server would give it to this process again
                return False
            connection = self._connected_claims()
            if time.monotonic() < self._no_claim_before:
                return False
            if self._locked(connection, key):
                self._held.add(key)
            if self._held and (self._keeper is None or not self._keeper.is_alive()):
                self._keeper = threading.Thread(target=self._keep_claims, daemon=True)
                self._keeper.start()
            return key in self._held

    def _connected_claims(self) -> sqlalchemy.Connection:
        """Return the connection of all claims of the process; a new one takes again those that
        ended with the one before it. For the holder of the lock.
        """
        if self._claims is not None:
            return self._claims
        connection = self._single.connect()
        self._claims = connection
        try:
            connection.exec_driver_sql(_GONE)
            age_s = float(connection.exec_driver_sql(_AGE).scalar() or 0.0)
            for key in self._held:
                self._locked(connection, key)
        except SQLAlchemyError:
            self._forget_claims()
            raise
        grace_s = _GRACE_S if self._had_claims else _GRACE_S - age_s
        self._no_claim_before = time.monotonic() + grace_s
        self._had_claims = True
        return connection

    def _locked(self, connection: sqlalchemy.Connection, key: str) -> bool:
        """Return True if the database grants the lock of a key; a lost connection is forgotten."""
        query = "SELECT pg_try_advisory_lock(%s)"
        try:
            return bool(connection.exec_driver_sql(query, (_number(key),)).scalar())
        except SQLAlchemyError:
            self._forget_claims()
            raise

    def _forget_claims(self) -> None:
        lost, self._claims = self._claims, None
        if lost is not None:
            with suppress(SQLAlchemyError):
                lost.invalidate()
                lost.close()

    def _keep_claims(self) -> None:
        """Look after the connection of the claims as long as there are any."""
        while True:
            time.sleep(_KEEP_S)
            with self._lock:
                if not self._held:
                    return
                with suppress(SQLAlchemyError):  # the next turn tries again
                    try:
                        self._connected_claims().exec_driver_sql("SELECT 1")
                    except SQLAlchemyError:
                        self._forget_claims()
                        self._connected_claims()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as exc:
            raise StoreError(
                f"the database {self._shown} needs a driver; pip install 'ragbench-lab[postgres]'"
            ) from exc
        except (OperationalError, InterfaceError) as exc:
            raise _GoneError(
                f"the reply store in the database {self._shown} cannot be used: it did not answer "
                f"for {self._patience_s:g} s; start it, or check RAGBENCH_DATABASE, and run the "
                "same command again: replies that have come are not asked for again"
            ) from exc
        except (SQLAlchemyError, ConfigError) as exc:
            reason = "it refuses a statement; check the rights of its user"
            if isinstance(exc, ConfigError):
                reason = str(exc)
            elif isinstance(exc, DBAPIError):
                reason += f" (SQLSTATE {getattr(exc.orig, 'sqlstate', None)})"
            raise StoreError(
                f"the reply store in the database {self._shown} cannot be used: {reason}. "
                "Without RAGBENCH_DATABASE the store is a file of this machine, and what it has "
                "not is paid for again"
            ) from exc


def shared_database(url: str, process: int) -> SharedDatabase:
    """Return the database of a URL for a process; a forked one must not use its parent's
    connections.
    """
    with _opening:
        if (url, process) not in _opened:
            _opened[url, process] = SharedDatabase(url, process)
        return _opened[url, process]


def _made(execute: Execute) -> str:
    """Return the identity of the database, whose tables are there then."""
    if not execute(_THERE):
        tables = TABLES.replace("INTEGER PRIMARY KEY", "BIGSERIAL PRIMARY KEY").replace(
            "INTEGER", "BIGINT"
        )
        for statement in (tables.replace("REAL", "DOUBLE PRECISION") + _OWN).split(";"):
            execute(statement)
        execute("INSERT INTO reply_store VALUES (?)", (uuid.uuid4().hex,))
    execute(BATCHES)
    return str(execute("SELECT id FROM reply_store")[0][0])


def _number(key: str) -> int:
    return int(key[:16], 16) - 2**63


def _escaped(value: Any) -> Any:
    return value.replace("\\", "\\\\").replace("\0", "\\0") if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    if isinstance(value, str) and "\\" in value:
        return re.sub(r"\\(.)", lambda found: "\0" if found[1] == "0" else found[1], value)
    return value
