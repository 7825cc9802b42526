"""Keys for the server: who may read, run or administer, and for which client; sessions of browsers.
Only their SHA-256 is stored.
"""

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pandas as pd
from sqlalchemy import delete, insert, select, union, update

from ragbench.errors import ConfigError, check_known
from ragbench.service.history_database import (
    chosen_row,
    connected,
    current_timestamp,
    read_frame,
    read_rows,
    timestamp,
    write,
)
from ragbench.service.tables import api_key, dataset, item, run, schedule, session

EVERY_CLIENT = "*"
ROLES = ("reader", "runner", "admin")
SESSION = timedelta(hours=12)
"""A browser is logged out when it was silent for so long."""
_COLUMNS = "id name client_id role created_at".split()
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_KEY = re.compile(r"rb_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class ApiKey:
    """A key without its secret: whose data it opens, and for what. `client_id` "*" means every client."""

    id: str
    name: str
    client_id: str
    role: str


def add_key(name: str, *, client: str = "", role: str = "reader", database: str = "") -> str:
    """Make a key and return it; it cannot be shown again.

    Args:
        client: whose data it opens; "*" = everyone's.
        role: "reader", "runner" (also starts evaluations) or "admin" (also schedules, alerts,
            keys).

    Raises:
        ConfigError: the role cannot be used, or this client has a key of this name.
        DataError: the database cannot be used.
    """
    check_known("role", ROLES, role)
    if not name.strip():
        raise ConfigError("a key needs a name, such as the name of its user")
    key_id = secrets.token_hex(6)
    key = f"rb_{key_id}_{secrets.token_urlsafe(32)}"
    has_name = (api_key.c.client_id == client, api_key.c.name == name)
    if read_rows(database, select(api_key.c.id).where(*has_name)):
        raise ConfigError(
            f"client {client!r} already has a key {name!r}; remove it first, or choose another name"
        )
    row = {
        "client_id": client,
        "name": name,
        "id": key_id,
        "role": role,
        "sha256": digest(key),
        "created_at": current_timestamp(),
    }
    write(database, insert(api_key).values(row))
    return key


def clients_of(database: str = "") -> set[str]:
    """Return the clients that have a key, a run, a data set, a schedule, or sent something."""
    tables = api_key, run, dataset, schedule, item
    columns = [table.c.client_id for table in tables]
    query = union(*(select(column).where(column != EVERY_CLIENT) for column in columns))
    return {row.client_id for row in read_rows(database, query)}


def find_key(key: str, *, database: str = "") -> ApiKey | None:
    """Return the key that a text is; None if it is not a key.

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    return read_key(match[1], key, database=database)


def read_key(key_id: str, key: str = "", *, database: str = "") -> ApiKey | None:
    """Return the key of an id; None without one, or if it is another than `key` ("" = any)."""
    for row in read_rows(database, select(api_key).where(api_key.c.id == key_id)):
        if not key or hmac.compare_digest(digest(key), row.sha256):
            return ApiKey(row.id, row.name, row.client_id, row.role)
    return None


def open_session(key_id: str, *, database: str = "") -> str:
    """Begin a session of a browser with a key and return its token, of which the SHA-256 is stored."""
    token = secrets.token_urlsafe(32)
    row = {"id": digest(token), "key_id": key_id, "used_at": current_timestamp()}
    with connected(database, write=True) as connection:
        connection.execute(delete(session).where(session.c.used_at < _ago(SESSION)))
        connection.execute(insert(session), row)
    return token


def find_session(token: str, *, database: str = "") -> str:
    """Return the id of the key that a session belongs to; "" if there is no such session, or it was not
    used for 12 hours.

    This use is recorded if the last record is older than a minute, or lies in the future because a
    clock was set back.
    """
    if not _TOKEN.fullmatch(token):
        return ""
    is_session = session.c.id == digest(token)
    is_recent = session.c.used_at >= _ago(SESSION)
    query = select(session.c.key_id, session.c.used_at).where(is_session, is_recent)
    rows = read_rows(database, query)
    if not rows:
        return ""
    [row] = rows
    is_up_to_date = _ago(timedelta(minutes=1)) <= row.used_at <= current_timestamp()
    if not is_up_to_date:
        write(database, update(session).where(is_session).values(used_at=current_timestamp()))
    return str(row.key_id)


def close_session(token: str, *, database: str = "") -> None:
    """End a session."""
    write(database, delete(session).where(session.c.id == digest(token)))


def api_keys(*, database: str = "") -> pd.DataFrame:
    """Return the keys without their secrets: id, name, client_id, role, created_at.

    Raises:
        ConfigError, DataError: the database cannot be used.
    """
    query = select(*(api_key.c[name] for name in _COLUMNS))
    return read_frame(database, query.order_by(api_key.c.client_id, api_key.c.name))


def remove_key(named: str, *, client: str | None = None, database: str = "") -> None:
    """Remove a key, by its name or id; it and its sessions open nothing from then on.

    Args:
        client: only one of this client; None = of any.

    Raises:
        ConfigError: no key, or several, are meant.
    """
    query = select(api_key)
    if client is not None:
        query = query.where(api_key.c.client_id == client)
    key = chosen_row("key", named, read_rows(database, query))
    write(database, delete(api_key).where(api_key.c.id == key.id))


def _ago(span: timedelta) -> str:
    """Return the time so long ago, as the tables hold it."""
    return timestamp(datetime.now(UTC) - span)


def digest(key: str) -> str:
    """Return the SHA-256 of a key or a token, in hex."""
    return sha256(key.encode()).hexdigest()
