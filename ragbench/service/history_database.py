"""The database of runs: where it is, opening it, and bringing its tables up to date."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ragbench.errors import ConfigError, DataError
from ragbench.store.engines import DRIVERS, WAIT_S, engine_of
from ragbench.store.engines import database_url as database_url  # a public name of ragbench.service

_LOCK = 7241  # of migrations, on a server


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
        engine = engine_of(url, os.getpid())
        _check_version(engine, shown)
        with engine.connect().execution_options(ragbench_write=write) as connection, connection.begin():
            yield connection
    except ModuleNotFoundError as exc:
        extra = next((extra for driver, extra, _ in DRIVERS.values() if driver == url.drivername), "")
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
        return _upgrade(engine_of(url, os.getpid()), shown)
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
        if not connection.execute(text(f"SELECT GET_LOCK('ragbench-{_LOCK}', {WAIT_S})")).scalar():
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
