"""Replies and spending in a PostgreSQL database: the tables and statements of the file, for
processes on many machines.

Transactions that write take their turn by a lock of the database, as on the file. A claim is a lock
that the server gives back when the connection of its holder ends, so that a killed process, or a
machine that is gone, holds none.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy.exc import SQLAlchemyError

from ragbench.errors import ConfigError
from ragbench.store.contract import BATCHES, TABLES, Execute, StoreError
from ragbench.store.engines import database_url, engine_of

Result = TypeVar("Result")

_TURN = 7242  # the lock of those who write
_POLL_S = 0.1
_GONE = (
    "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
)
_OWN = "CREATE TABLE reply_store (id TEXT NOT NULL)"
_THERE = "SELECT 1 FROM pg_class WHERE relname = 'reply_store' AND pg_table_is_visible(oid)"
_opening = threading.Lock()
_opened: dict[tuple[str, int], SharedDatabase] = {}


class SharedDatabase:
    """The database of a URL, whose tables are made when there are none.

    Raises:
        StoreError: it cannot be opened, read or written.
    """

    def __init__(self, url: str, process: int) -> None:
        self._shown = "of RAGBENCH_DATABASE"
        self._claims: sqlalchemy.Connection | None = None
        self._held: set[str] = set()
        self._lock = threading.Lock()
        with self._errors():
            named = database_url(url)
            self._shown = named.render_as_string(hide_password=True)
            self._engine = engine_of(named, process)
            self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self.identity = self.run(_made, write=True)

    def run(self, work: Callable[[Execute], Result], *, write: bool = False) -> Result:
        """Return what `work` returns; to `write` in a transaction for which others wait, else with
        a transaction for each statement. Text has no NUL there, so it is escaped by a backslash.
        """
        with self._errors(), (self._engine if write else self._single).begin() as connection:

            def execute(query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                escaped = tuple(map(_escaped, values))
                cursor = connection.exec_driver_sql(query.replace("?", "%s"), escaped)
                return [tuple(map(_plain, row)) for row in cursor] if cursor.returns_rows else []

            if write:
                execute(f"SELECT pg_advisory_xact_lock({_TURN})")
            return work(execute)

    @contextmanager
    def claimed(self, key: str, stop: threading.Event) -> Iterator[None]:
        """Hold the right to send the request with this key. Ends the wait with InterruptedError
        when `stop` is set.
        """
        while not self._claim(key):
            if stop.wait(_POLL_S):
                raise InterruptedError("stopped while another process sent the same request")
        try:
            yield
        finally:
            with (
                self._lock,
                suppress(SQLAlchemyError, AttributeError),
            ):  # it went with the connection otherwise
                self._held.discard(key)
                self._claims.exec_driver_sql("SELECT pg_advisory_unlock(%s)", (_number(key),))  # type: ignore[union-attr]

    def _claim(self, key: str) -> bool:
        with self._lock, self._errors():
            if key in self._held:  # the server would give it to this process again
                return False
            try:
                if self._claims is None:  # one for all claims of the process
                    self._claims = self._single.connect()
                    self._claims.exec_driver_sql(_GONE)
                if self._claims.exec_driver_sql(
                    "SELECT pg_try_advisory_lock(%s)", (_number(key),)
                ).scalar():
                    self._held.add(key)
            except SQLAlchemyError:
                self._claims = None
                raise
            return key in self._held

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as exc:
            raise StoreError(
                f"the database {self._shown} needs a driver; pip install 'ragbench-lab[postgres]'"
            ) from exc
        except (SQLAlchemyError, ConfigError) as exc:
            reason, _, _ = str(getattr(exc, "orig", None) or exc).strip().partition("\n")
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
