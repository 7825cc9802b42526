"""Who calls the server: how a key is sent, which role a route needs, and whose data a request is
about; `keys` stores the keys.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends, Header, HTTPException, Query, Request
from starlette.concurrency import run_in_threadpool

from ragbench.errors import unknown
from ragbench.service.folders import Folder, clients_in
from ragbench.service.history_database import Json
from ragbench.service.keys import (
    EVERY_CLIENT,
    ROLES,
    ApiKey,
    clients_of,
    digest,
    find_key,
    find_session,
    read_key,
)

LINE = r"^[^\x00-\x1f]*$"
"""A text without control characters."""
NO_KEY = "send a key as X-API-Key, or as Authorization: Bearer; `ragbench key add` makes one"
COOKIE = "ragbench"
"""The cookie with the session of a browser."""
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
        """Return the client and the database, as arguments of functions that read."""
        return {"client": self.client, "database": self.database}

    @property
    def ownership(self) -> Json:
        """Return the owner and the database, as arguments of functions that write."""
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
        """Return this session with another client, whose data it is about.

        A client that the key does not open gives 404, as if it did not exist. `client` is None for
        the key's client or, if the key opens every client, for all of them.
        """
        if self.key.client_id == EVERY_CLIENT:
            return replace(self, client=client)
        if client not in (None, self.key.client_id):
            own = self.key.client_id or "the default client"
            raise HTTPException(
                404, f"there is no client {client!r} for this key, which belongs to {own}"
            )
        return replace(self, client=self.key.client_id)


def key_of(request: Request, text: str) -> ApiKey | None:
    """Return the key that a text is; None if it opens nothing."""
    admin_key = request.app.state.admin_key
    if admin_key and hmac.compare_digest(text.encode(), admin_key.encode()):
        return _key_of_process(admin_key)
    return find_key(text, database=request.app.state.database)


def key_of_session(request: Request, token: str) -> ApiKey | None:
    """Return the key that a browser logged in with; None if its session is over."""
    database = request.app.state.database
    key_id = find_session(token, database=database)
    if not key_id:
        return None
    admin_key = request.app.state.admin_key  # in no table; "" = this process has none
    if admin_key and key_id == digest(admin_key):
        return _key_of_process(admin_key)
    return read_key(key_id, database=database)


def _key_of_process(text: str) -> ApiKey:
    """Return the key that `ragbench serve` made for this process alone: it opens everything."""
    return ApiKey(digest(text), "one-time", EVERY_CLIENT, "admin")


async def authenticate(request: Request) -> ApiKey | None:
    """Return the caller's key, of X-API-Key, Authorization: Bearer, or the session of a browser.

    A browser sends its session with the forms of other sites, too: those are refused.

    Raises:
        HTTPException: 403 for a form of another site.
    """
    if text := key_text(request):
        return await run_in_threadpool(key_of, request, text)
    token = request.cookies.get(COOKIE, "")
    is_from_browser = token != "" or request.scope["path"] == "/login"
    is_form = is_from_browser and request.method not in _SAFE
    if is_form and not _is_of_this_site(request):
        raise HTTPException(403, "this form came from another site; open this page by its address")
    if not token:
        return None
    return await run_in_threadpool(key_of_session, request, token)


def key_text(request: Request) -> str:
    """Return the key that a request was sent with, in X-API-Key or Authorization: Bearer; "" without
    one. It may open nothing.
    """
    if text := request.headers.get("x-api-key", ""):
        return text
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def with_session_only(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request with the session of a browser as their only cookie.

    FastAPI parses every cookie of every request, and Python before 3.11.10 takes quadratic time to
    unquote one. No session is quoted.
    """
    kept = []
    for name, value in headers:
        if name != b"cookie":
            kept.append((name, value))
            continue
        for cookie in value.split(b";"):
            cookie_name, _, content = cookie.partition(b"=")
            is_session = cookie_name.strip() == COOKIE.encode()
            is_quoted = content.strip().startswith(b'"')
            if is_session and not is_quoted:
                kept.append((name, cookie.strip()))
    return kept


def caller_of(request: Request) -> str:
    """Return the address that a request comes from, by which callers are counted.

    Of an IPv6 address it is the network, the first 64 bits: one caller has all addresses in it.
    """
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # such as the name of a test client
        return host
    if isinstance(address, IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, 64), strict=False))


def _is_of_this_site(request: Request) -> bool:
    """Return True if the page that sent a request is one of this server."""
    try:
        origin = urlsplit(request.headers.get("origin", "")).netloc
    except ValueError:  # such as http://[::1
        return False
    return origin == request.headers.get("host")


CLIENT_ID: Any = Query(
    None,
    alias="client_id",
    max_length=80,
    pattern=LINE,
    description="Of a key for every client: whose data is meant.",
)
TENANT: Any = Header(None, alias="X-Tenant-Id", max_length=80, description="The key's own client.")


def needs(role: str, client_of: Any = CLIENT_ID) -> Any:
    """Return a dependency of FastAPI that gives a route the session of a caller with at least this role.

    The session is about the client that the request names, else about the key's client or, for a key
    of every client, about all of them. The request ends with 401 without a key, with 403 for a lesser
    role, and with 404 for a client that the key does not open, or that is read and does not exist.

    Args:
        client_of: the parameter of the request, or the dependency, that names the client.
    """

    async def session_of(request: Request, client: str | None = client_of) -> Session:
        key = request.state.key
        if key is None:
            raise HTTPException(401, NO_KEY, {"WWW-Authenticate": "Bearer"})
        if ROLES.index(key.role) < ROLES.index(role):
            raise HTTPException(
                403, f"this needs a key of the role {role}; this key has the role {key.role}"
            )
        session = Session(request, key, client=None).of(client)  # 404 if the key does not open it
        is_reading = request.method in _SAFE
        if client and is_reading and key.client_id == EVERY_CLIENT:
            await run_in_threadpool(_check_client, session)
        return session

    return Depends(session_of)


def _check_client(session: Session) -> None:
    """Raise 404 for a client without a folder, a key and a row: a key of every client opens any name,
    also one that is misspelt.
    """
    known = {*clients_in(session.root), *clients_of(session.database)}
    if session.owner not in known:
        raise HTTPException(404, unknown("client", session.owner, sorted(known)))
