"""The pages: runs, series, a run, comparisons."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from ragbench.evaluation import load_result
from ragbench.report.page import report_html
from ragbench.report.page.html import script_hash
from ragbench.service import history
from ragbench.service.access import COOKIE, caller_of, too_many
from ragbench.service.pages import series as views
from ragbench.service.pages.rendering import PageRoute, Visitor, page, redirect
from ragbench.service.results import place_of_run, records, run_row

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_NEWEST = 20  # runs that the page of a series lists
_FOLDER = files("ragbench.service.pages") / "templates"
_REPORT_POLICY = (
    "default-src 'none'; script-src {hash}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-scripts"
)


@router.get("/pages.css")
def style() -> Response:
    """The style of every page."""
    text = _FOLDER.joinpath("pages.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css", headers={"Cache-Control": "max-age=300"})


@router.get("/login")
def login_form(request: Request, to: str = "/") -> HTMLResponse:
    """Ask for a key."""
    return page(request, "login", None, to=_local(to), wrong=False)


@router.post("/login")
async def login(request: Request, key: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "/") -> Response:
    """Keep the key in a cookie that no script reads and no other site's form sends."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this form came from another site; open this page by its address")
    host = request.client.host if request.client else ""
    if wait_s := request.app.state.buckets.wait_s(f"login, {host}"):
        raise too_many("logins", wait_s)
    if await run_in_threadpool(caller_of, request, key.strip()) is None:
        return page(request, "login", None, status=401, to=_local(to), wrong=True)
    answer = RedirectResponse(_local(to), 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, key.strip(), httponly=True, samesite="strict", secure=secure, max_age=30 * 86400)
    return answer


@router.post("/logout")
def logout(who: Visitor) -> Response:
    """Forget the key in this browser."""
    answer = redirect("/login")
    answer.delete_cookie(COOKIE)
    return answer


def _local(to: str) -> str:
    """An address of this server only.

    >>> _local("/runs/1?x=2"), _local("//evil.example"), _local("https://evil.example"), _local("/" + chr(92) + "evil")
    ('/runs/1?x=2', '/', '/', '/')
    """
    return to if to.startswith("/") and to.isprintable() and not to.startswith(("//", "/\\")) else "/"


@router.get("/")
@router.get("/admin.html")
def runs(request: Request, who: Visitor, measure: str = "", client: str | None = None) -> HTMLResponse:
    """Every series and configuration with its newest run, and whether it moved."""
    of, database = who.reads(client or None), request.app.state.database
    rows, count = views.overview(of, database, measure)
    names = views.measures_of([row["id"] for row in rows], database)
    return page(request, "runs", who, rows=rows, count=count, measure=measure, measures=names, client=of)


@router.get("/series")
def one_series(
    request: Request, who: Visitor, series: str, configuration: str, client: str = "", measure: str = ""
) -> HTMLResponse:
    """The measures of a configuration over time."""
    of, database = who.reads(client) or "", request.app.state.database
    newest = views.lines_of(of, series, database)
    if configuration not in newest:
        raise HTTPException(404, "there is no such series")
    names = views.measures_of([newest[configuration]], database)
    charts, marks = views.panels(of, series, configuration, database, measure, names)
    recent = history(series=series, client=of, limit=_NEWEST * len(newest), database=database)
    own = records(recent[recent["configuration"] == configuration].head(_NEWEST))
    return page(
        request, "series", who, client=of, series=series, configuration=configuration, charts=charts, marks=marks,
        others=[*newest], measure=measure, measures=names, recent=own,
    )  # fmt: skip


@router.get("/runs/{run_id}")
def one_run(request: Request, who: Visitor, run_id: str) -> HTMLResponse:
    """A run: its report, or what the database has of it."""
    row, scores = run_row(request, run_id, who.reads())
    order = {name: place for place, name in enumerate(views.MAIN)}
    rows = sorted(
        records(scores.drop(columns="case_values")),
        key=lambda one: (order.get(one["measure"], len(order)), one["measure"]),
    )
    before = views.run_before(row, request.app.state.database)
    return page(request, "run", who, run=row, scores=rows, before=before, missing=_missing(request, row))


@router.get("/runs/{run_id}/report.html")
def report(request: Request, who: Visitor, run_id: str) -> HTMLResponse:
    """The report of a run as `report_html` writes it, in a sandbox: it shares nothing with the other pages."""
    row, _ = run_row(request, run_id, who.reads())
    if missing := _missing(request, row):
        raise HTTPException(404, missing)
    text = _report(row["location"], row["content"])
    script = files("ragbench.report.page").joinpath("report.js").read_text(encoding="utf-8")
    policy = _REPORT_POLICY.format(hash=script_hash(script))
    return HTMLResponse(text, headers={"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"})


@lru_cache(maxsize=8)
def _report(location: str, content: str) -> str:
    return report_html(load_result(location))


def _missing(request: Request, row: Any) -> str:
    """Why the report of a run cannot be shown, "" where it can: its files are read below the server's folder only."""
    place = place_of_run(request, row)
    if place is None:
        return "The files of this run are not in the folder that this server reads."
    try:
        found = sha256((place / "scores.csv").read_bytes()).hexdigest()
    except OSError:
        return "The files of this run are gone."
    return "" if found == row["content"] else "The files of this run were replaced by those of a later one."


@router.get("/compare")
def compare(
    request: Request, who: Visitor, a: str = "", b: str = "", client_a: str | None = None, client_b: str | None = None
) -> HTMLResponse:
    """Two runs, or the newest runs of two clients."""
    database = request.app.state.database
    recent = records(history(client=who.reads(), limit=200, database=database))
    if client_a is not None and client_b is not None:
        a, b = (next((row["run"] for row in recent if row["client_id"] == who.reads(name)), "")
                for name in (client_a, client_b))  # fmt: skip
        if not (a and b):
            raise HTTPException(404, "one of these clients has no run")
    found = views.differences(request, who, a, b) if a and b else None
    clients = sorted({row["client_id"] for row in recent})
    return page(request, "compare", who, recent=recent, a=a, b=b, found=found, clients=clients)
