"""The pages: runs, series, a run, comparisons, schedules with jobs and alerts."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from ragbench.evaluation import load_result
from ragbench.report.page import report_html
from ragbench.report.page.html import script_hash
from ragbench.service import api, trends
from ragbench.service.access import COOKIE, Session, key_of, too_many
from ragbench.service.alert_rules import raised_alerts
from ragbench.service.bodies import RunBody
from ragbench.service.history_database import Json, connected
from ragbench.service.pages import series as views
from ragbench.service.pages.html_pages import (
    FormFields,
    PageRoute,
    Runner,
    Visitor,
    page,
    redirect,
)
from ragbench.service.responses import folder_of_run, records, run_row

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_NEWEST = 20  # runs that the page of a series lists
_FOLDER = files("ragbench.service.pages") / "templates"
_REPORT_POLICY = (
    "default-src 'none'; script-src {hash}; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)


@router.get("/pages.css")
def style() -> Response:
    """Return the style of every page."""
    text = _FOLDER.joinpath("pages.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css", headers={"Cache-Control": "max-age=300"})


@router.get("/login")
def login_form(request: Request, to: str = "/") -> HTMLResponse:
    """Ask for a key."""
    return page(request, "login", to=_local(to), wrong=False)


@router.post("/login")
async def login(
    request: Request, key: Annotated[str, Form()] = "", to: Annotated[str, Form()] = "/"
) -> Response:
    """Keep the key in a cookie that no script reads and no other site's form sends."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this form came from another site; open this page by its address")
    host = request.client.host if request.client else ""
    if wait_s := request.app.state.buckets.wait_s(f"login, {host}"):
        raise too_many("logins", wait_s)
    key = key.strip()
    if await run_in_threadpool(key_of, request, key) is None:
        return page(request, "login", 401, to=_local(to), wrong=True)
    response = redirect(_local(to))
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, key, httponly=True, samesite="strict", secure=secure, max_age=30 * 86400
    )
    return response


@router.post("/logout")
def logout(who: Visitor) -> Response:
    """Forget the key in this browser."""
    response = redirect("/login")
    response.delete_cookie(COOKIE)
    return response


def _local(to: str) -> str:
    """Return an address of this server only.

    >>> _local("/runs/1?x=2"), _local("//evil.example"), _local("https://evil.example"), _local("/" + chr(92) + "evil")
    ('/runs/1?x=2', '/', '/', '/')
    """
    return (
        to if to.startswith("/") and to.isprintable() and not to.startswith(("//", "/\\")) else "/"
    )


@router.get("/")
@router.get("/admin.html")
def runs(who: Visitor, measure: str = "") -> HTMLResponse:
    """Show every series and configuration with its newest run, and whether it moved."""
    rows, count = views.overview(who, measure)
    names = views.measures_of([row["id"] for row in rows], who.database)
    return page(
        who.request,
        "runs",
        rows=rows,
        count=count,
        measure=measure,
        measures=names,
        client=who.client,
    )


@router.get("/series")
def read_series(who: Visitor, series: str, configuration: str, measure: str = "") -> HTMLResponse:
    """Show the measures of a configuration over time."""
    newest = views.configurations_of(who, series)
    if configuration not in newest:
        raise HTTPException(404, "there is no such series")
    names = views.measures_of([newest[configuration]], who.database)
    charts, marks = views.panels(who, series, configuration, measure, names)
    recent = trends.history(series=series, limit=_NEWEST * len(newest), **who.ownership)
    recent = recent[recent["configuration"] == configuration].head(_NEWEST)
    return page(
        who.request,
        "series",
        client=who.owner,
        series=series,
        configuration=configuration,
        measure=measure,
        charts=charts,
        marks=marks,
        others=[*newest],
        measures=names,
        recent=records(recent),
    )


@router.get("/runs/{run_id}")
def read_run(who: Visitor, run_id: str) -> HTMLResponse:
    """Show a run: its report, or what the database has of it."""
    row, scores = run_row(who, run_id)
    order = {name: rank for rank, name in enumerate(views.MAIN)}
    scores = scores.assign(order=scores["measure"].map(order).fillna(len(order)))
    scores = scores.sort_values(["order", "measure"])
    with connected(who.database) as connection:
        before = (trends.previous_run(connection, row) or {"id": ""})["id"]
    missing = _missing(who, row)
    return page(who.request, "run", run=row, scores=records(scores), before=before, missing=missing)


@router.get("/runs/{run_id}/report.html")
def report(who: Visitor, run_id: str) -> HTMLResponse:
    """Show the report of a run as `report_html` writes it, in a sandbox: it shares nothing with the
    other pages.
    """
    row, _ = run_row(who, run_id)
    if missing := _missing(who, row):
        raise HTTPException(404, missing)
    text = _report(row["location"], row["content"])
    script = files("ragbench.report.page").joinpath("report.js").read_text(encoding="utf-8")
    policy = _REPORT_POLICY.format(hash=script_hash(script))
    return HTMLResponse(
        text, headers={"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"}
    )


@lru_cache(maxsize=8)
def _report(location: str, content: str) -> str:
    return report_html(load_result(location))


def _missing(who: Session, row: Json) -> str:
    """Return why the report of a run cannot be shown, "" where it can: only files below the
    server's folder are.
    """
    folder = folder_of_run(who, row)
    if folder is None:
        return "The files of this run are not in the folder that this server reads."
    try:
        content = sha256((folder / "scores.csv").read_bytes()).hexdigest()
    except OSError:
        return "The files of this run are gone."
    replaced = "The files of this run were replaced by those of a later one."
    return "" if content == row["content"] else replaced


@router.get("/compare")
def compare(
    who: Visitor, a: str = "", b: str = "", client_a: str | None = None, client_b: str | None = None
) -> HTMLResponse:
    """Compare two runs, or the newest runs of two clients."""
    recent = records(trends.history(limit=200, **who.scope))
    if client_a is not None and client_b is not None:
        newest = {row["client_id"]: row["run"] for row in reversed(recent)}
        a, b = (newest.get(who.of(client).owner, "") for client in (client_a, client_b))
        if not (a and b):
            raise HTTPException(404, "one of these clients has no run")
    comparison = views.differences(who, a, b) if a and b else None
    clients = sorted({row["client_id"] for row in recent})
    return page(
        who.request, "compare", recent=recent, a=a, b=b, comparison=comparison, clients=clients
    )


@router.get("/schedules")
def list_schedules(who: Visitor, follow: bool = False) -> HTMLResponse:
    """Show what runs, what will run, and what was alerted.

    Following, it is loaded again every few seconds while a job is under way, and has no form that
    this would empty.
    """
    jobs, rules = api.list_jobs(who), api.list_alerts(who)
    alerts = raised_alerts(limit=200, database=who.database)
    if who.client is not None:
        alerts = alerts[alerts["rule_id"].isin([rule["id"] for rule in rules])]
    busy = any(job["state"] in ("waiting", "running") for job in jobs)
    return page(
        who.request,
        "schedules",
        client=who.client,
        follow=follow,
        busy=busy,
        jobs=jobs,
        rules=rules,
        schedules=api.list_schedules(who),
        datasets=[*who.folder.testsets()],
        raised=records(alerts.head(30)),
    )


@router.post("/schedules/run")
def start_run(who: Runner, form: FormFields) -> Response:
    """Start an evaluation now."""
    try:
        body = RunBody.model_validate(
            {name: form.get(name, "") for name in ("dataset", "system", "series")}
        )
    except ValidationError as exc:
        problems = "; ".join(f"{error['loc'][-1]}: {error['msg']}" for error in exc.errors())
        raise HTTPException(422, f"the form cannot be used: {problems}") from exc
    api.start_run(who, body)
    return redirect("/schedules", follow="1", client=who.owner)
