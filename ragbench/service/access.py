"""Who calls: keys in a header or in the cookie of the pages, roles, and how many requests each may send."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from ragbench.service import ROLES, find_key
from ragbench.service.keys import EVERY_CLIENT

COOKIE = "ragbench_key"
"""The cookie that the pages set at login; it holds the key."""
_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Caller:
    """Who a request is from. `client` "*" is an administrator of every client."""

    client: str
    role: str
    key_id: str

    def reads(self, named: str | None = None) -> str | None:
        """The client whose data is read; None = every client's. Another one's is 404, as if it were not there."""
        return named if self.client == EVERY_CLIENT else self._own(named)

    def writes(self, named: str | None = None) -> str:
        """The client whose data is changed: the key's own, or the one that an administrator of every client names."""
        return (named or "") if self.client == EVERY_CLIENT else self._own(named)

    def _own(self, named: str | None) -> str:
        if named not in (None, self.client):
            raise HTTPException(404, f"there is no client {named!r}")
        return self.client


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
                self._left = {one: entry for one, entry in self._left.items() if now - entry[1] < 60}
            self._left[name] = (left - 1 if left >= 1 else left, now)
            return 0.0 if left >= 1 else (1 - left) / self._rate


def too_many(reason: str, wait_s: float) -> HTTPException:
    """429, with the seconds to wait."""
    return HTTPException(429, f"too many {reason}; try again later", {"Retry-After": str(max(1, round(wait_s + 0.5)))})


def caller_of(request: Request, key: str) -> Caller | None:
    """Who a key is of; None where it opens nothing. For the login of the pages, too."""
    one_time = request.app.state.admin_key
    if one_time and hmac.compare_digest(sha256(key.encode()).digest(), sha256(one_time.encode()).digest()):
        return Caller(EVERY_CLIENT, "admin", "one-time")
    found = find_key(key, database=request.app.state.database)
    return None if found is None else Caller(found.client_id, found.role, found.id)


def csrf_token(request: Request) -> str:
    """What a form that changes something sends as the field `csrf_token`; "" where nobody is logged in."""
    key = request.cookies.get(COOKIE, "")
    return hmac.new(key.encode(), b"csrf", sha256).hexdigest() if key else ""


async def caller(request: Request) -> Caller:
    """The caller, by X-API-Key, Authorization: Bearer or the cookie; with the cookie, forms need their token.

    Raises:
        HTTPException: 401 without a key that opens something, 403 without the token, 429 after too many requests.
    """
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    sent = request.headers.get("x-api-key", "") or (bearer.strip() if scheme.lower() == "bearer" else "")
    key = sent or request.cookies.get(COOKIE, "")
    found = await run_in_threadpool(caller_of, request, key) if key else None
    host = request.client.host if request.client else ""
    if wait_s := request.app.state.buckets.wait_s(found.key_id if found else f"no key, {host}"):
        raise too_many("requests", wait_s)
    if found is None:
        detail = "send a key as X-API-Key, or as Authorization: Bearer; `ragbench key add` makes one"
        raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
    if not sent and request.method not in _SAFE:
        given = (await request.form()).get("csrf_token") or request.headers.get("x-csrf-token", "")
        if not hmac.compare_digest(str(given).encode(), csrf_token(request).encode()):
            raise HTTPException(403, "this form has expired; load the page again")
    return found


def needs(role: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller, whose role has to be at least this one; 403 otherwise."""

    async def allowed(request: Request) -> Caller:
        found = await caller(request)
        if ROLES.index(found.role) < ROLES.index(role):
            raise HTTPException(403, f"this needs a key of the role {role}; this key is of a {found.role}")
        return found

    return allowed
