"""The application: routers, errors, limits of requests, and the headers that every answer has."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint

from ragbench.errors import RagbenchError
from ragbench.evaluation import own_version
from ragbench.service import api, evaluation_api, guide_api
from ragbench.service.pages import routes
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
_STATUSES = {
    400: "The body cannot be parsed.",
    401: "No key, or one that opens nothing.",
    403: "The key's role does not allow it.",
    404: "There is none, or it is another client's.",
    409: "It is there already, or has ended.",
    411: "The length of the body is not known.",
    413: "The body is too long.",
    422: "What was sent cannot be used.",
    429: "Too many waiting jobs; see Retry-After.",
    503: "The storage cannot be used at the moment.",
}


class Problem(BaseModel):
    """What every answer but a success has."""

    detail: str | list[dict[str, Any]]


def create_app(
    root: Path,
    database: str = "",
    *,
    admin_key: str = "",
    max_body: int = 10_000_000,
    max_jobs: int = 100,
    queue: Queue | None = None,
) -> FastAPI:
    """Make the server of a folder and a database.

    Args:
        root: test sets, systems and results are files below it.
        database: a file or URL; "" = RAGBENCH_DATABASE, else a file in the user's data folder.
        admin_key: one that opens everything until this process ends; "" = only those of
            `ragbench key`.
        max_body: bytes of a request.
        max_jobs: that may wait, of each client.
        queue: what works at jobs while the server runs; None = one job at a time.
    """
    queue = queue or Queue(database)

    @asynccontextmanager
    async def working(app: FastAPI) -> AsyncIterator[None]:
        queue.start()
        yield
        await run_in_threadpool(queue.stop)

    urls = {"openapi_url": "/api/v1/openapi.json", "docs_url": None, "redoc_url": None}
    app = FastAPI(title="ragbench", version=own_version(), lifespan=working, **urls)  # type: ignore[arg-type]
    app.state.root = root.resolve()
    app.state.database = database
    app.state.admin_key = admin_key
    app.state.queue = queue
    app.state.max_jobs = max_jobs
    app.add_middleware(BaseHTTPMiddleware, dispatch=partial(_guard, max_body))
    app.add_exception_handler(RagbenchError, _refused)
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "model": Problem} for status, text in _STATUSES.items()
    }
    for part in (api, evaluation_api, guide_api):
        app.include_router(part.router, responses=responses)
    app.include_router(routes.router)
    return app


async def _refused(request: Request, exc: Exception) -> JSONResponse:
    """Answer an error of the library: what was requested cannot be done, or the database cannot be
    used.
    """
    if isinstance(exc.__cause__, (SQLAlchemyError, OSError)):
        _LOG.error("%s", exc)
        return JSONResponse(
            {"detail": "the server's storage cannot be used at the moment"},
            503,
            {"Retry-After": "5"},
        )
    return JSONResponse({"detail": str(exc).replace(f"{request.app.state.root}/", "")}, 422)


async def _guard(max_body: int, request: Request, answer: RequestResponseEndpoint) -> Response:
    """Refuse bodies that are too long or of unknown length, and add the headers."""
    length = request.headers.get("content-length", "0")
    response: Response
    if "transfer-encoding" in request.headers:
        response = JSONResponse({"detail": "send the body with its Content-Length"}, 411)
    elif not length.isdigit() or int(length) > max_body:
        response = JSONResponse({"detail": f"the body is longer than {max_body} bytes"}, 413)
    else:
        response = await answer(request)
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
