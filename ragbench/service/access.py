"""Who calls: keys in a header or in the cookie of the pages, roles, clients, and how many requests
each may send.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from fastapi import Depends, Header, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool

from ragbench.service.folders import Folder
from ragbench.service.history_database import Json
from ragbench.service.keys import EVERY_CLIENT, ROLES, ApiKey, find_key

COOKIE = "ragbench_key"
"""The cookie that the pages set at login; it holds the key."""
LINE = r"^[^\x00-\x1f]*$"
"""A text without control characters."""
_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Session:
    """A request, the key of its caller, and the client whose data it is about.

    `client` None = every client's, for a key of every client ("*") that names none.
    """

    request: Request
    key: ApiKey
    client: str | None

    @property
    def owner(self) -> str:
        """Return the client whose data is changed, and whose files are read."""
        return self.client or ""

    @property
    def database(self) -> str:
        """Return the database of the server."""
        return str(self.request.app.state.database)

    @property
    def scope(self) -> Json:
        """Return the client and the database, as arguments of what reads."""
        return {"client": self.client, "database": self.database}

    @property
    def ownership(self) -> Json:
        """Return the owner and the database, as arguments of what writes."""
        return {"client": self.owner, "database": self.database}

    @property
    def root(self) -> Path:
        """Return the folder of the server."""
        return Path(self.request.app.state.root)

    @property
    def folder(self) -> Folder:
        """Return the files of the client."""
        return Folder(self.root, self.owner)

    def of(self, client: str | None) -> Session:
        """Return the session about another client; 404 for one that the key does not open, as if it
        were not there.
        """
        if self.key.client_id == EVERY_CLIENT:
            return replace(self, client=client)
        if client not in (None, self.key.client_id):
            raise HTTPException(404, f"there is no client {client!r}")
        return replace(self, client=self.key.client_id)


class Buckets:
    """Requests per minute of each name, in this process; bursts of as many at once are granted."""

    def __init__(self, per_minute: int) -> None:
        self._rate, self._size = per_minute / 60, float(per_minute)
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def wait_s(self, name: str) -> float:
        """Take one: 0 where it is granted, else the seconds until the next one is."""
        with self._lock:
            now = time.monotonic()
            left, at = self._left.get(name, (self._size, now))
            left = min(self._size, left + (now - at) * self._rate)
            if len(self._left) > 10_000:  # names that have been silent for a minute are full again
                self._left = {
                    other: entry for other, entry in self._left.items() if now - entry[1] < 60
                }
            self._left[name] = (left - 1 if left >= 1 else left, now)
            return 0.0 if left >= 1 else (1 - left) / self._rate


def too_many(reason: str, wait_s: float) -> HTTPException:
    """Return a 429 with the seconds to wait."""
    return HTTPException(
        429,
        f"too many {reason}; try again later",
        {"Retry-After": str(max(1, round(wait_s + 0.5)))},
    )


def key_of(request: Request, text: str) -> ApiKey | None:
    """Return the key that a text is; None where it opens nothing."""
    one_time = request.app.state.admin_key
    if one_time and hmac.compare_digest(text.encode(), one_time.encode()):
        return ApiKey("one-time", "one-time", EVERY_CLIENT, "admin")
    return find_key(text, database=request.app.state.database)


def csrf_token(request: Request) -> str:
    """Return what a form sends as the field `csrf_token` to change something; "" where no one is
    logged in.
    """
    key = request.cookies.get(COOKIE, "")
    return hmac.new(key.encode(), b"csrf", sha256).hexdigest() if key else ""


async def authenticate(request: Request) -> ApiKey:
    """Return the caller's key, of X-API-Key, Authorization: Bearer or the cookie; with the cookie,
    forms need a token.

    Raises:
        HTTPException: 401 without a key that opens something, 403 without the token, 429 after too
        many requests.
    """
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    header = request.headers.get("x-api-key", "") or (
        bearer.strip() if scheme.lower() == "bearer" else ""
    )
    text = header or request.cookies.get(COOKIE, "")
    key = await run_in_threadpool(key_of, request, text) if text else None
    host = request.client.host if request.client else ""
    if wait_s := request.app.state.buckets.wait_s(key.id if key else f"no key, {host}"):
        raise too_many("requests", wait_s)
    if key is None:
        detail = (
            "send a key as X-API-Key, or as Authorization: Bearer; `ragbench key add` makes one"
        )
        raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
    if not header and request.method not in _SAFE:
        token = (await request.form()).get("csrf_token") or request.headers.get("x-csrf-token", "")
        if not hmac.compare_digest(str(token).encode(), csrf_token(request).encode()):
            raise HTTPException(403, "this form has expired; load the page again")
    return key


def client_of_query(
    client_id: Annotated[
        str | None,
        Query(
            max_length=80,
            pattern=LINE,
            description="Of a key for every client: whose data is meant.",
        ),
    ] = None,
) -> str | None:
    """Return the client that the query names."""
    return client_id


def client_of_header(
    tenant: Annotated[
        str | None, Header(alias="X-Tenant-Id", max_length=80, description="The key's own client.")
    ] = None,
) -> str | None:
    """Return the client that the header names."""
    return tenant


def needs(role: str, client_of: Callable[..., Any] = client_of_query) -> Any:
    """Return a dependency: the session of a caller whose role is at least this one; 403 otherwise."""

    async def session(request: Request, client: str | None = Depends(client_of)) -> Session:
        key = await authenticate(request)
        request.state.key = key
        if ROLES.index(key.role) < ROLES.index(role):
            raise HTTPException(
                403, f"this needs a key of the role {role}; this key is of a {key.role}"
            )
        return Session(request, key, None).of(client)

    return Depends(session)
