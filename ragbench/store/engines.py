"""Databases of runs by their URLs (PostgreSQL, MySQL, files of SQLite): which file is the default,
which driver is used, how a connection is set up.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from ragbench.errors import ConfigError
from ragbench.files import expanded

DRIVERS = {  # database -> driver, extra, query
    "postgresql": ("postgresql+psycopg", "postgres", {}),
    "postgres": ("postgresql+psycopg", "postgres", {}),
    "mysql": ("mysql+pymysql", "mysql", {"charset": "utf8mb4"}),
    "mariadb": ("mysql+pymysql", "mysql", {"charset": "utf8mb4"}),
}
WAIT_S = 60
_CONNECT_S = 10


def database_url(database: str = "") -> URL:
    """Return the URL of a database, as SQLAlchemy takes it.

    It is `database` or, if that is "", RAGBENCH_DATABASE or, if that is unset, a file in the user's
    data folder (which `cache clear` leaves). An address without "://" is a file of SQLite.

    >>> database_url("postgresql://reader@db.example.com/runs").drivername, database_url("runs.sqlite").database
    ('postgresql+psycopg', 'runs.sqlite')

    Raises:
        ConfigError: not the URL of a database that ragbench knows.
    """
    address = database or os.environ.get("RAGBENCH_DATABASE", "")
    if not address:
        from platformdirs import user_data_path

        default_file = user_data_path("ragbench", appauthor=False) / "history.sqlite"
        return URL.create("sqlite", database=str(default_file))
    if "://" not in address:
        return URL.create("sqlite", database=str(expanded(address)))
    try:
        url = make_url(address)
    except (SQLAlchemyError, ValueError) as exc:
        raise ConfigError(
            "the database's URL cannot be read; expected a URL such as sqlite:///runs.sqlite"
        ) from exc
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        return url
    if kind not in DRIVERS:
        raise ConfigError(
            f"a database of kind {kind!r} is not known; use sqlite, postgresql, mysql or mariadb"
        )
    driver, _, query = DRIVERS[kind]
    return url.set(drivername=driver).update_query_dict({**query, **url.query})


_engines: dict[tuple[URL, int], Engine] = {}


def engine_of(url: URL, process: int) -> Engine:
    """Return SQLAlchemy's engine, which holds the connections of a process to a database.

    Each process has its own engine, because a forked process must not use its parent's connections.
    On SQLite, a transaction with the execution option `ragbench_write` may write from its start.
    """
    # `setdefault`: threads that come here at the same moment use the same engine. The connections of
    # a second one would never be closed.
    return _engines.get((url, process)) or _engines.setdefault((url, process), _new_engine(url))


def _new_engine(url: URL) -> Engine:
    """Return SQLAlchemy's engine for a database.

    For a server it has a pool of connections. For a file of SQLite it opens a new connection each time;
    the file is created if it does not exist.
    """
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    options = {}
    if "connect_timeout" not in url.query:
        # a machine that is switched off sends no refusal: without a limit, connecting would hang
        options["connect_timeout"] = _CONNECT_S
    # The pool keeps two connections open, because PyMySQL loads the system's certificates for every
    # new connection. A kept connection is tested before use; further ones are opened without limit.
    return create_engine(
        url, pool_size=2, max_overflow=-1, pool_pre_ping=True, connect_args=options
    )


def _sqlite_engine(url: URL) -> Engine:
    """Return the engine for a file of SQLite, which is created if it does not exist, or for a database
    in memory.
    """
    if url.database not in (None, "", ":memory:"):
        file = Path(str(url.database))
        file.parent.mkdir(parents=True, exist_ok=True)
        # The file holds questions and hashes of keys, so only its user may read it. An existing file
        # is not opened here: closing it would release the locks that this process has on it.
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": WAIT_S})
    event.listen(engine, "connect", _configure_connection)
    event.listen(engine, "begin", _begin_transaction)
    return engine


def _configure_connection(connection: sqlite3.Connection, record: object) -> None:
    """Prepare a new connection to a file of SQLite; `record` is SQLAlchemy's, and is not used."""
    # None: sqlite3 itself begins no transaction. `_begin_transaction` does, so that a transaction
    # includes changes of tables, too.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys=ON")
    # The mode is stored in the file. Setting it fails while another process sets it, too.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin_transaction(connection: Connection) -> None:
    """Begin a transaction on a file of SQLite; a transaction that writes waits here until no other one
    writes.
    """
    # IMMEDIATE takes the lock for writing now. A transaction that takes the lock only after it has
    # read cannot wait for it: it fails at once if another transaction writes.
    writes = connection.get_execution_options().get("ragbench_write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
