"""Connections to the database of runs, transactions, how a row is found by a part of its id, and
the forms of times and ids; the tables are in `tables`.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import (
    CompoundSelect,
    Connection,
    Engine,
    Executable,
    Row,
    Select,
    Table,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.service import tables
from ragbench.store.engines import DRIVERS, WAIT_S, engine_of
from ragbench.store.engines import database_url as database_url  # a public name of ragbench.service

Json = dict[str, Any]
"""Plain data: the row of a table, or what a request sends and gets."""
_LOCK = 7241  # a name among the locks of a server


@contextmanager
def connected(database: str = "", *, write: bool = False) -> Iterator[Connection]:
    """Open a transaction on a database that has the tables; it is committed where the block
    succeeds.

    Raises:
        ConfigError: the URL is wrong, its driver is missing, or its tables are of another version.
        DataError: it cannot be opened, read or written.
    """
    url = database_url(database)
    name = url.render_as_string(hide_password=True)
    try:
        engine = engine_of(url, os.getpid())
        _create_tables_once(engine, name)
        with (
            engine.connect().execution_options(ragbench_write=write) as connection,
            connection.begin(),
        ):
            yield connection
    except ModuleNotFoundError as exc:
        extras = {driver: extra for driver, extra, _ in DRIVERS.values()}
        package = f"ragbench-lab[{extras.get(url.drivername, '')}]"
        raise ConfigError(f"{name} needs a driver; pip install '{package}'") from exc
    except (SQLAlchemyError, OSError) as exc:
        # the first line of the driver's own message, which SQLAlchemy keeps in `orig`
        reason, _, _ = str(getattr(exc, "orig", None) or exc).strip().partition("\n")
        raise DataError(f"the database {name} cannot be used: {reason}") from exc


def read_rows(database: str, query: Select[Any] | CompoundSelect[Any]) -> Sequence[Row[Any]]:
    """Return the rows of a query, in a separate transaction."""
    with connected(database) as connection:
        return connection.execute(query).all()


def read_frame(database: str, query: Select[Any]) -> pd.DataFrame:
    """Return the rows of a query as a frame, in a separate transaction."""
    with connected(database) as connection:
        return pd.read_sql(query, connection)


def chosen_row(what: str, text: str, rows: Sequence[Row[Any]]) -> Row[Any]:
    """Return the row that a text means: by its name, its id, or the first six or more signs of its id.
    `what` is the kind of the rows in messages, such as "schedule".

    Raises:
        ConfigError: none, or several, are meant.
    """
    if not rows:
        raise ConfigError(f"there is no {what} yet")
    may_be_id = len(text) >= 6
    matches = [row for row in rows if text == row.name or (may_be_id and row.id.startswith(text))]
    if not matches:
        raise ConfigError(unknown(what, text, [row.name for row in rows]))
    if len(matches) > 1:
        ids = ", ".join(f"{row.id[:12]} (of client {row.client_id!r})" for row in matches)
        raise ConfigError(f"{text!r} is {len(matches)} {what}s; name one by its id: {ids}")
    return matches[0]


def write(database: str, statement: Executable) -> int:
    """Change rows, in a separate transaction; return how many."""
    with connected(database, write=True) as connection:
        return connection.execute(statement).rowcount


_ready: set[Engine] = set()
"""The databases whose tables were checked by this process."""


def _create_tables_once(engine: Engine, name: str) -> None:
    """Create the tables of an empty database. If this process has called it before, do nothing.

    Args:
        engine: connects to the database.
        name: the database in messages.

    Raises:
        ConfigError: the database has tables of another version.
    """
    is_file = engine.dialect.name == "sqlite"
    # the file was deleted since the last call: its tables have to be created again
    was_deleted = is_file and not Path(str(engine.url.database)).exists()
    if engine in _ready and not was_deleted:
        return
    with engine.connect() as connection:
        version = _version(connection)
    if not version:
        version = _create_tables(engine)
    if version != tables.VERSION:
        raise ConfigError(
            f"the tables of {name} are of version {version}, this ragbench has {tables.VERSION}: "
            "use the ragbench that made them, or another database (`ragbench history import "
            "results/` fills it)"
        )
    _ready.add(engine)


def _create_tables(engine: Engine) -> str:
    """Create the tables, unless another process was faster; return their version."""
    with (
        engine.connect().execution_options(ragbench_write=True) as connection,
        connection.begin(),
    ):
        _lock(connection)
        # another process may have created the tables since they were looked for
        version = _version(connection) or tables.VERSION
        tables.metadata.create_all(connection)
        if not _version(connection):
            connection.execute(insert(tables.version).values(version_num=version))
    return version


def _lock(connection: Connection) -> None:
    """Let one process at a time create tables, until the connection is closed.

    On SQLite the transaction is the lock: it began with the right to write. PostgreSQL holds the lock
    until the transaction ends. On MySQL each new table ends the transaction, so the connection holds
    the lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    elif connection.dialect.name != "sqlite":
        connection.detach()  # from the pool, which would keep it open, and so keep the lock
        if not connection.execute(text(f"SELECT GET_LOCK('ragbench-{_LOCK}', {WAIT_S})")).scalar():
            raise DataError(
                "another process has been creating these tables for a minute; try again later"
            )


def _version(connection: Connection) -> str:
    """Return the version of the tables of a database; "" for an empty database."""
    if not inspect(connection).has_table(tables.version.name):
        return ""
    return connection.execute(select(tables.version.c.version_num)).scalar() or ""


def add_once(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row, unless one with its id is there or another process is faster; return True if
    it was new.
    """
    if not connection.execute(select(table.c.id).where(table.c.id == row["id"])).first():
        # An IntegrityError: another process has inserted it meanwhile. The nested transaction alone
        # is rolled back then, not the caller's.
        with suppress(IntegrityError), connection.begin_nested():
            connection.execute(insert(table), row)
            return True
    return False


def replace_row(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Change the row with this id, or insert it."""
    if not connection.execute(update(table).where(table.c.id == row["id"]).values(row)).rowcount:
        connection.execute(insert(table), row)


def current_timestamp() -> str:
    """Return the time as the tables hold it."""
    return timestamp(datetime.now(UTC))


def timestamp(at: datetime) -> str:
    """Return ISO 8601 in UTC with milliseconds, so that text sorts by time.

    >>> timestamp(datetime.fromisoformat("2026-03-29T02:30:00+02:00"))
    '2026-03-29T00:30:00.000Z'
    """
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def content_id(*parts: Any) -> str:
    """Return the SHA-256 of plain data.

    >>> content_id("a", {"b": 1})[:12]
    '3d6f51e1fd24'
    """
    return sha256(canonical(parts).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Return plain data as JSON, equal for equal data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
