"""The application: routers, errors, limits of requests (bytes, rate, time), and the headers that
every answer has.
"""

import logging
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragbench.errors import RagbenchError, printable
from ragbench.evaluation import own_version
from ragbench.service import api, evaluation_api, guide_api
from ragbench.service.access import (
    COOKIE,
    NO_KEY,
    authenticate,
    caller_of,
    key_text,
    with_session_only,
)
from ragbench.service.keys import ApiKey, digest
from ragbench.service.pages import routes
from ragbench.service.received_uploads import Uploads
from ragbench.service.responses import without_folders
from ragbench.service.workers import Queue

_LOG = logging.getLogger("ragbench.service")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data:; connect-src 'self'; form-action "
    "'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PARTS = {"/api/v1/datasets": 1, "/ingest": 10}
"""Path -> by what `MAX_BODY` is divided there."""
MAX_BODY = 10_000_000
"""Bytes of a data set that is sent; a document may have a tenth of it, everything else a hundredth."""
MAX_RATE = 6000
"""Requests of a key in a minute; an address without a key has a twentieth of it."""
_KNOWN = 10_000
BODY_S = 60.0
"""Seconds until a body has come."""
_WORD = re.compile(r"\w{1,40}")
_REFUSED = (400, 401, 403, 404, 408, 409, 411, 413, 422, 429, 503)


class Problem(BaseModel):
    """What every answer but a success has."""

    detail: str


def create_app(
    root: Path,
    database: str = "",
    *,
    admin_key: str = "",
    queue: Queue | None = None,
) -> FastAPI:
    """Make the server of a folder and a database.

    Args:
        root: test sets, systems and results are files below it.
        database: a file or URL; "" = RAGBENCH_DATABASE, else a file in the user's data folder.
        admin_key: a key that opens everything until this process ends; "" = only the keys of `ragbench
            key`.
        queue: what works at jobs while the server runs; None = one job at a time.
    """
    queue = queue or Queue(database)

    @asynccontextmanager
    async def work_at_jobs(app: FastAPI) -> AsyncIterator[None]:
        """Let the queue work while the server runs."""
        queue.start()
        yield
        await run_in_threadpool(queue.stop)

    app = FastAPI(
        title="ragbench",
        version=own_version(),
        lifespan=work_at_jobs,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.root = root.resolve()
    app.state.database = database
    app.state.admin_key = admin_key
    app.state.queue = queue
    app.state.uploads = Uploads()
    app.add_middleware(Guard)
    app.add_exception_handler(RagbenchError, _refused)
    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)  # type: ignore[arg-type]
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": HTTPStatus(status).phrase, "model": Problem} for status in _REFUSED
    }
    for part in (api, evaluation_api, guide_api):
        app.include_router(part.router, responses=responses)
    app.include_router(routes.router)
    return app


async def _refused(request: Request, exc: Exception) -> JSONResponse:
    """Answer an error of the library: the request cannot be done, or the database cannot be
    used.
    """
    if isinstance(exc.__cause__, (SQLAlchemyError, OSError)):
        _LOG.error("%s", exc)
        return JSONResponse(
            {"detail": "the server's storage cannot be used at the moment"},
            503,
            {"Retry-After": "5"},
        )
    detail = _one_line(without_folders(str(exc), request.app.state.root))
    return JSONResponse({"detail": detail}, 422)


def _invalid(request: Request, exc: RequestValidationError) -> JSONResponse:
    """Answer an invalid request in one sentence, without the values that were sent."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip()
    is_json = content_type == "application/json" or content_type.endswith("+json")
    errors_of_body = [error["type"] for error in exc.errors() if error["loc"] == ("body",)]
    if errors_of_body and not is_json:
        problem = _problem_of_body(content_type, is_missing=errors_of_body == ["missing"])
        detail = f"the body {problem}; send JSON with the header Content-Type: application/json"
        return JSONResponse({"detail": _one_line(detail)}, 422)
    problems = []
    for error in exc.errors()[:5]:
        names = [str(part) for part in error["loc"]]
        place = ".".join(name for name in names if _WORD.fullmatch(name))
        problems.append(f"{place}: {error['msg']}")
    return JSONResponse({"detail": _one_line("; ".join(problems))}, 422)


def _problem_of_body(content_type: str, *, is_missing: bool) -> str:
    """Return the problem of a body that is not JSON, to follow "the body"."""
    if is_missing:
        return "is missing"
    return f"was sent as {content_type!r}" if content_type else "was sent without a Content-Type"


async def _failed(request: Request, exc: Exception) -> JSONResponse:
    """Answer an error of the server, whose log has the reason; the connection ends with it."""
    headers = {**_HEADERS, "Connection": "close"}
    return JSONResponse({"detail": "the server failed; its log has the reason"}, 500, headers)


def _one_line(text: str) -> str:
    """Return a text that any encoding holds."""
    return printable(text.encode(errors="replace").decode())[:500]


@dataclass
class Guard:
    """The check that every request passes before a byte of its body is read.

    It refuses too many requests, a body without a key, and a body that is too long or of unknown
    length; a body has a deadline. Every answer gets the headers.

    `counts` are the numbers of requests by key, and by address without a key; `attempts` are the
    numbers, by address, of keys and sessions that open nothing or are being looked up. `known` are
    the SHA-256 of keys and sessions that opened something: an attacker at the same address does not
    shut them out.
    """

    app: ASGIApp
    counts: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)
    since: float = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by the application or with the reason why it is refused. (`scope`, `receive`
        and `send` are as in ASGI: the head of the request, and functions for the messages.)
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = {**scope, "headers": with_session_only(scope["headers"])}
        request = Request(scope)
        answer = self.app
        try:
            await self.check(request)
        except HTTPException as exc:
            answer = JSONResponse({"detail": exc.detail}, exc.status_code, exc.headers)
        except RagbenchError as exc:
            answer = await _refused(request, exc)
        await answer(scope, _in_time(receive), _with_headers(send))

    async def check(self, request: Request) -> None:
        """Store the key of a request in its state, or refuse the request without reading its body.

        Raises:
            HTTPException: 429 for too many requests, 411 or 413 for a body of unknown length or that
                is too long, 401 for a body without a key.
        """
        address = caller_of(request)
        is_minute_over = time.monotonic() > self.since + 60
        if is_minute_over:
            self.counts.clear()
            self.attempts.clear()  # which `find_key` counts
            self.since = time.monotonic()
        key = await self.find_key(request, address)  # raises 429 after too many failed attempts
        request.state.key = key
        if key:
            _count(self.counts, key.id, MAX_RATE)
        else:
            _count(self.counts, address, MAX_RATE // 20)  # a twentieth without a key
        length = _length_of_body(request)  # raises 411 and 413
        if key is None and length > 0 and request.scope["path"] != "/login":
            raise HTTPException(401, NO_KEY, {"WWW-Authenticate": "Bearer"})

    async def find_key(self, request: Request, address: str) -> ApiKey | None:
        """Return the key of a request; None if it has no key, or a key that opens nothing.

        Failed attempts (keys and sessions that open nothing) are counted by address. After too many,
        a request is refused (429) before the database is asked, unless its key opened something
        before.
        """
        secret = key_text(request) or request.cookies.get(COOKIE, "")
        if not secret:
            return await authenticate(request)
        secret_id = digest(secret)
        if secret_id not in self.known:
            _count(self.attempts, address, MAX_RATE // 20)
        key = await authenticate(request)
        if key is None:
            self.known.discard(secret_id)
        elif secret_id not in self.known:
            self.attempts[address] -= 1  # it opened something, so this was no failed attempt
            if len(self.known) == _KNOWN:
                self.known.clear()
            self.known.add(secret_id)
        return key


def _length_of_body(request: Request) -> int:
    """Return the length of a body that is not read yet, in bytes.

    Raises:
        HTTPException: 411 if it is unknown, 413 if the body is too long for its path.
    """
    if "transfer-encoding" in request.headers:
        raise HTTPException(411, "send the body with its Content-Length")
    max_body = MAX_BODY // _PARTS.get(request.scope["path"], 100)
    length = request.headers.get("content-length", "0")
    # the number of digits comes first: reading very long numbers takes time
    if not length.isdecimal() or len(length) > 15 or int(length) > max_body:
        raise HTTPException(413, f"the body is longer than {max_body} bytes")
    return int(length)


def _in_time(receive: Receive) -> Receive:
    """Return a `receive` that raises 408 if the whole body has not come within `BODY_S` seconds."""
    end = anyio.current_time() + BODY_S

    async def receive_in_time() -> Message:
        nonlocal end
        try:
            with anyio.fail_after(end - anyio.current_time()):
                message = await receive()
        except TimeoutError:
            detail = f"the body took longer than {BODY_S:g} s"
            raise HTTPException(408, detail, {"Connection": "close"}) from None
        is_complete = not message.get("more_body")
        if is_complete:
            end = math.inf  # later messages tell when the client leaves
        return message

    return receive_in_time


def _with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers of every answer."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _count(counts: Counter[str], caller: str, limit: int) -> None:
    """Count a request of a caller; 429 for more than `limit` of them in a minute."""
    counts[caller] += 1
    if counts[caller] > limit:
        detail = f"more than {limit} requests in a minute"
        raise HTTPException(429, detail, {"Retry-After": "60"})
