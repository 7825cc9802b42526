"""The addresses of the dashboard: runs, series, a run, comparisons, schedules with jobs and alerts,
log-in; which values each page gets.
"""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from ragbench.report.page import banner, report_html
from ragbench.report.page.html_report import script_hash
from ragbench.service import api, measure_trends, recorded_runs, run_conclusions, scheduler
from ragbench.service import datasets as data_sets
from ragbench.service.access import COOKIE, key_of
from ragbench.service.alert_rules import raised_alerts
from ragbench.service.bodies import RunBody
from ragbench.service.history_database import connected
from ragbench.service.keys import SESSION, close_session, open_session
from ragbench.service.pages import pairs
from ragbench.service.pages import series as views
from ragbench.service.pages.html_pages import (
    FormFields,
    PageRoute,
    Runner,
    Visitor,
    page,
)
from ragbench.service.responses import decided_of, records, result_of_run, run_row

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_NEWEST = 20  # runs that the page of a series lists
_CHARTS = 6
_FOLDER = files("ragbench.service.pages") / "templates"
_REPORT_POLICY = (
    "default-src 'none'; script-src {hash}; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
)


@router.get("/pages.css")
def style() -> Response:
    """Return the style of every page."""
    text = _FOLDER.joinpath("pages.css").read_text(encoding="utf-8")
    return Response(text, media_type="text/css", headers={"Cache-Control": "max-age=300"})


@router.post("/login")
def log_in(request: Request, form: FormFields) -> Response:
    """Begin a session with a key; its cookie opens nothing but these pages and the API."""
    key = key_of(request, form.get("key", ""))
    if key is None:
        raise HTTPException(401, "This key gives no access.")
    token = open_session(key.id, database=request.app.state.database)
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE,
        token,
        max_age=SESSION.seconds,
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
    return response


@router.post("/logout")
def log_out(request: Request) -> Response:
    """End the session of a browser."""
    close_session(request.cookies.get(COOKIE, ""), database=request.app.state.database)
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE)
    return response


@router.get("/")
@router.get("/admin.html")
def runs(who: Visitor, measure: str = "") -> HTMLResponse:
    """Show every series and configuration with its newest run, and whether its main measure got
    worse or better.
    """
    rows, n_configurations = measure_trends.overview(who.client, measure, database=who.database)
    with connected(who.database) as connection:
        names = views.measures_of(connection, [row["id"] for row in rows])
        due = scheduler.due_times(connection, who.client)
    for row in rows:
        row["next"] = due.get((row["client_id"], row["series"]), "")
    newest = max(rows, key=lambda row: str(row["made_at"]), default=None)
    return page(
        who.request,
        "runs",
        rows=sorted(rows, key=lambda row: row["state"].kind != "worse"),
        n_configurations=n_configurations,
        measure=measure,
        measures=names,
        client=who.client,
        newest=newest,
        charts=views.newest_panels(newest, who.database) if newest else [],
        cost_chart=views.COST_CHART,
    )


@router.get("/series")
def read_series(who: Visitor, series: str, configuration: str, measure: str = "") -> HTMLResponse:
    """Show the measures of a configuration over time (the first ones, or the one that is chosen) and its
    newest runs.
    """
    with connected(who.database) as connection:
        newest_runs = recorded_runs.newest_runs(connection, who.owner, series)
        newest_id_of = {row["configuration"]: row["id"] for row in newest_runs}
        if configuration not in newest_id_of:
            raise HTTPException(404, "there is no such series")
        names = views.measures_of(connection, [newest_id_of[configuration]])
    charts = views.panels(who, series, configuration, [measure] if measure else names[:_CHARTS])
    # The newest runs of all configurations are read, then those of this one are picked: _NEWEST if all
    # configurations ran equally often, fewer if this one ran less often.
    limit = _NEWEST * len(newest_id_of)
    recent = recorded_runs.history(series=series, limit=limit, **who.ownership)
    recent = recent[recent["configuration"] == configuration].head(_NEWEST)
    return page(
        who.request,
        "series",
        client=who.owner,
        series=series,
        configuration=configuration,
        measure=measure,
        charts=charts,
        cost_chart=views.COST_CHART,
        others=[*newest_id_of],
        measures=names,
        recent=records(recent),
        # run -> how many of its questions passed or failed
        n_decided_of=decided_of(recent["run"].tolist(), who.database),
    )


@router.get("/datasets")
def list_datasets(who: Visitor) -> HTMLResponse:
    """Show the data sets with client, size and age, and the newest run of each client."""
    return page(
        who.request,
        "datasets",
        client=who.client,
        datasets=data_sets.listed(who),
        clients=views.newest_of_clients(who),
        columns=views.OF_CLIENTS,
    )


@router.get("/sweep")
def read_sweep(who: Visitor, series: str) -> HTMLResponse:
    """Show the decision of a sweep: the conclusion of its results."""
    conclusion, problem = run_conclusions.of_sweep(who, series)
    return page(
        who.request,
        "sweep",
        client=who.owner,
        series=series,
        conclusion=None if conclusion is None else conclusion.to_dict(),
        problem=problem,
    )


@router.get("/runs/{run_id}")
def read_run(who: Visitor, run_id: str) -> HTMLResponse:
    """Show a run: its measures, its verdict, and links to its report and to the run before it."""
    row, scores = run_row(who, run_id)
    with connected(who.database) as connection:
        previous = recorded_runs.previous_run(connection, row)
    result = result_of_run(who, row)
    n_decided = decided_of([run_id], who.database).get(run_id)  # questions that passed or failed
    return page(
        who.request,
        "run",
        run=row,
        scores=records(scores),
        before=previous["id"] if previous else "",
        n_decided=n_decided,
        verdict=None if result is None else banner(result),
    )


@router.get("/runs/{run_id}/report.html")
def report(who: Visitor, run_id: str) -> HTMLResponse:
    """Show the report of a run as `report_html` writes it, in a sandbox: it shares nothing with the
    other pages.
    """
    row, _ = run_row(who, run_id)
    if (result := result_of_run(who, row)) is None:
        raise HTTPException(404, "the files of this run are not in the folder of this server")
    script = files("ragbench.report.page").joinpath("report.js").read_text(encoding="utf-8")
    policy = _REPORT_POLICY.format(hash=script_hash(script))
    return HTMLResponse(report_html(result), headers={"Content-Security-Policy": policy})


@router.get("/compare")
def compare(who: Visitor, a: str = "", b: str = "") -> HTMLResponse:
    """Compare two runs; without both, show which runs can be compared with `a`, or with each other."""
    newest = records(recorded_runs.history(limit=200, **who.scope))
    groups = pairs.comparable_runs(newest, a)
    comparison = None
    if a and b:
        before, _ = run_row(who, a)
        after, _ = run_row(who, b)
        comparison = api.compare(who, a, b)
        comparison |= {"before": before, "after": after}
        comparison["groups"] = pairs.by_perspective(comparison.pop("measures"))
        comparison["questions"] = pairs.question_rows(who, before, after)
    return page(who.request, "compare", groups=groups, a=a, b=b, comparison=comparison)


@router.get("/schedules")
def list_schedules(who: Visitor, follow: bool = False) -> HTMLResponse:
    """Show the jobs that run, the schedules, and the alerts.

    With `follow` the page is loaded again every few seconds while a job is under way, and has no form
    that this would empty.
    """
    return _schedules_page(who, follow=follow)


def _schedules_page(
    who: Visitor,
    *,
    follow: bool = False,
    status: int = 200,
    problem: str = "",
    form: Mapping[str, str] = MappingProxyType({}),
) -> HTMLResponse:
    """Show the page of jobs, schedules and alerts.

    After a form was refused, the page shows the `problem`, and the fields as they were sent
    (`form`).
    """
    jobs = api.list_jobs(who)
    rules = api.list_alerts(who)
    alerts = raised_alerts(limit=200, database=who.database)
    if who.client is not None:  # only of the rules that this client may see
        alerts = alerts[alerts["rule_id"].isin([rule["id"] for rule in rules])]
    busy = any(job["state"] in ("waiting", "running") for job in jobs)
    return page(
        who.request,
        "schedules",
        status,
        problem=problem,
        form=form,
        client=who.client,
        follow=follow,
        busy=busy,
        jobs=jobs,
        rules=rules,
        schedules=api.list_schedules(who),
        overdue=scheduler.overdue(**who.scope),
        datasets=[*who.folder.testsets()],
        raised=records(alerts.head(30)),
    )


@router.post("/schedules/run")
def start_run(who: Runner, form: FormFields) -> Response:
    """Start an evaluation now, and follow it on the page of schedules; a form that is refused is shown
    again with the problem.
    """
    fields = {name: form.get(name, "") for name in ("dataset", "system", "series")}
    try:
        api.start_run(who, RunBody.model_validate(fields))
    except ValidationError as exc:
        problem = "; ".join(f"{error['loc'][-1]}: {error['msg']}" for error in exc.errors())
        return _schedules_page(who, status=422, problem=problem, form=form)
    except HTTPException as exc:
        return _schedules_page(who, status=exc.status_code, problem=exc.detail, form=form)
    query = urlencode({"follow": 1, "client": who.owner})
    return RedirectResponse(f"/schedules?{query}", 303)
