"""The database of runs: where it is, opening it, and bringing its tables up to date."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, insert, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ragbench.errors import ConfigError, DataError
from ragbench.files import expanded

_DRIVERS = {  # database -> driver, extra, query
    "postgresql": ("postgresql+psycopg", "postgres", {}),
    "postgres": ("postgresql+psycopg", "postgres", {}),
    "mysql": ("mysql+pymysql", "mysql", {"charset": "utf8mb4"}),
    "mariadb": ("mysql+pymysql", "mysql", {"charset": "utf8mb4"}),
}
_WAIT_S = 60
_LOCK = 7241  # of migrations, on a server


def database_url(database: str = "") -> URL:
    """What is named, else RAGBENCH_DATABASE, else a file in the user's data folder (which `cache clear` leaves).

    >>> database_url("postgresql://reader@db.example.com/runs").drivername, database_url("runs.sqlite").database
    ('postgresql+psycopg', 'runs.sqlite')

    Raises:
        ConfigError: not the URL of a database that ragbench knows.
    """
    given = database or os.environ.get("RAGBENCH_DATABASE", "")
    if not given:
        from platformdirs import user_data_path

        return URL.create("sqlite", database=str(user_data_path("ragbench", appauthor=False) / "history.sqlite"))
    if "://" not in given:
        return URL.create("sqlite", database=str(expanded(given)))
    try:
        url = make_url(given)
    except (SQLAlchemyError, ValueError) as exc:
        raise ConfigError("the database's URL cannot be read; expected such as sqlite:///runs.sqlite") from exc
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite":
        return url
    if kind not in _DRIVERS:
        raise ConfigError(f"a database of kind {kind!r} is not known; use sqlite, postgresql, mysql or mariadb")
    driver, _, query = _DRIVERS[kind]
    return url.set(drivername=driver).update_query_dict({**query, **url.query})


@contextmanager
def connected(database: str = "", *, write: bool = False) -> Iterator[Connection]:
    """A connection in a transaction, to a database whose tables are up to date; committed where the block succeeds.

    Raises:
        ConfigError: the URL is wrong, its driver is missing, or its tables are older than this ragbench.
        DataError: it cannot be opened, read or written.
    """
    url = database_url(database)
    shown = url.render_as_string(hide_password=True)
    try:
        engine = _engine(url, os.getpid())
        _check_version(engine, shown)
        with engine.connect().execution_options(ragbench_write=write) as connection, connection.begin():
            yield connection
    except ModuleNotFoundError as exc:
        extra = next((extra for driver, extra, _ in _DRIVERS.values() if driver == url.drivername), "")
        raise ConfigError(f"{shown} needs a driver; pip install 'ragbench-lab[{extra}]'") from exc
    except (SQLAlchemyError, OSError) as exc:
        reason = str(getattr(exc, "orig", None) or exc).strip().splitlines()
        raise DataError(f"the database {shown} cannot be used: {reason[0] if reason else type(exc).__name__}") from exc


def upgrade(database: str = "") -> tuple[str, str]:
    """Bring the tables up to date; any number of processes may do so at once. The versions before and after.

    Raises:
        ConfigError, DataError: as `connected`.
    """
    url = database_url(database)
    shown = url.render_as_string(hide_password=True)
    try:
        return _upgrade(_engine(url, os.getpid()), shown)
    except (SQLAlchemyError, OSError) as exc:
        raise DataError(f"the database {shown} cannot be upgraded: {getattr(exc, 'orig', None) or exc}") from exc


def _upgrade(engine: Engine, shown: str, to: str = "head") -> tuple[str, str]:

    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    logging.getLogger("alembic").setLevel(logging.WARNING)
    opened = engine.connect().execution_options(ragbench_write=True)
    with opened as connection, connection.begin():
        _lock_migrations(connection)
        before = _version(connection)
        if before and before not in _versions():
            raise _newer(before, shown)
        config.attributes["connection"] = connection
        command.upgrade(config, to)
        after = _version(connection)
    _current.pop((os.getpid(), str(engine.url)), None)
    return before, after


def _lock_migrations(connection: Connection) -> None:
    """One at a time, until the connection is closed: MySQL would let go before the version is committed.

    On SQLite the transaction is the lock: it began with the right to write.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    elif connection.dialect.name != "sqlite":
        connection.detach()  # from the pool, which would keep it open
        if not connection.execute(text(f"SELECT GET_LOCK('ragbench-{_LOCK}', {_WAIT_S})")).scalar():
            raise DataError("another process has been upgrading this database for a minute; try again later")


_current: dict[tuple[int, str], bool] = {}


def _check_version(engine: Engine, shown: str) -> None:
    """Tables of an empty database and of a file are made and upgraded; those of a server only by its users."""
    key = (os.getpid(), str(engine.url))
    if key in _current and (engine.dialect.name != "sqlite" or Path(str(engine.url.database)).exists()):
        return
    with engine.connect() as connection:
        version = _version(connection)
    if version != _versions()[-1] and engine.dialect.name != "sqlite":
        with engine.connect() as connection:  # another process may be making the tables, MySQL shows them one by one
            _lock_migrations(connection)
            version = _version(connection)
    if version and version not in _versions():
        raise _newer(version, shown)
    if version != _versions()[-1]:
        if version and engine.dialect.name != "sqlite":
            raise ConfigError(f"the tables of {shown} are of version {version}; run `ragbench history upgrade`")
        _upgrade(engine, shown)
    _current[key] = True


def _version(connection: Connection) -> str:
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")


@lru_cache(maxsize=1)
def _versions() -> list[str]:
    """Versions of the tables, oldest first; the names of the migrations begin with them."""
    return sorted(path.name[:4] for path in (Path(__file__).parent / "migrations" / "versions").glob("0*.py"))


def _newer(version: str, shown: str) -> ConfigError:
    return ConfigError(f"the tables of {shown} are of version {version}, which this ragbench does not know: update it")


_engines: dict[tuple[URL, int], Engine] = {}


def _engine(url: URL, process: int) -> Engine:  # a forked process must not use its parent's connections
    # Of threads that come first at the same moment all use one: connections of another would never be closed.
    return _engines.get((url, process)) or _engines.setdefault((url, process), _new_engine(url))


def _new_engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        # PyMySQL loads the system's certificates for every new connection: 25 ms
        return create_engine(url, pool_size=2, max_overflow=-1, pool_pre_ping=True)
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _WAIT_S})

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # so that transactions begin below, and hold changes of tables too
        connection.execute("PRAGMA foreign_keys=ON")
        with suppress(sqlite3.OperationalError):  # another process is switching it; it stays with the file
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and then writes fails at once where another writes: it must wait at its start.
        write = connection.get_execution_options().get("ragbench_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def add_once(connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, unless one with its id is there or another process is faster."""
    if connection.execute(select(table.c.id).where(table.c.id == row["id"])).first():
        return
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(insert(table), row)


def now() -> str:
    """The time as the tables hold it."""
    return timestamp(datetime.now(UTC))


def timestamp(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, so that text sorts by time.

    >>> timestamp(datetime.fromisoformat("2026-03-29T02:30:00+02:00"))
    '2026-03-29T00:30:00.000Z'
    """
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def content_id(*parts: Any) -> str:
    """SHA-256 of plain data.

    >>> content_id("a", {"b": 1})[:12]
    '3d6f51e1fd24'
    """
    return sha256(canonical(parts).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Plain data as JSON, equal for equal data."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
