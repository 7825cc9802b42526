"""The pages of schedules, jobs and alerts: start, pause, follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ValidationError

from ragbench.service import api, pause_schedule, raised_alerts
from ragbench.service.bodies import AlertBody, RunBody, ScheduleBody
from ragbench.service.folders import folder_of
from ragbench.service.pages.rendering import Admin, Form, PageRoute, Runner, Visitor, page, redirect
from ragbench.service.results import records

Body = TypeVar("Body", bound=BaseModel)
router = APIRouter(prefix="/schedules", route_class=PageRoute, include_in_schema=False)


@router.get("")
def overview(request: Request, who: Visitor, client: str | None = None, follow: bool = False) -> HTMLResponse:
    """What runs, what will run, and what was alerted.

    Following, it is loaded again every few seconds while a job is under way, and has no form that this would empty.
    """
    of, database = who.reads(client or None), request.app.state.database
    jobs = api.list_jobs(request, who, 50, of)
    rules = api.list_alerts(request, who, of)
    own = {rule["id"] for rule in rules}
    every = records(raised_alerts(limit=200, database=database))
    raised = [one for one in every if one["rule_id"] in own or of is None][:30]
    return page(
        request, "schedules", who, client=of, jobs=jobs, schedules=api.list_schedules(request, who, of), rules=rules,
        raised=raised, busy=any(job["state"] in ("waiting", "running") for job in jobs),
        follow=follow, datasets=[*folder_of(request, of).testsets()],
    )  # fmt: skip


@router.post("/run")
def start(request: Request, who: Runner, form: Form) -> Response:
    """Start an evaluation now."""
    api.start_run(request, who, _checked(RunBody, _run(form)), "", _client(form))
    return _back(form, follow="1")


@router.post("/add")
def add(request: Request, who: Admin, form: Form) -> Response:
    """Add a schedule."""
    when = {name: form.get(name, "") for name in ("name", "cron", "zone")}
    api.create_schedule(request, who, _checked(ScheduleBody, {**when, "run": _run(form)}), _client(form))
    return _back(form)


@router.post("/change")
def change(request: Request, who: Admin, form: Form) -> Response:
    """Pause, resume or remove a schedule."""
    client, name = _client(form), form.get("name", "")
    if form.get("do") == "remove":
        api.delete_schedule(request, who, name, client)
    else:
        paused, of = form.get("do") == "pause", who.writes(client)
        pause_schedule(name, paused=paused, client=of, database=request.app.state.database)
    return _back(form)


@router.post("/cancel")
def cancel(request: Request, who: Runner, form: Form) -> Response:
    """Cancel a job."""
    api.cancel(request, who, form.get("job", ""), _client(form))
    return _back(form)


@router.post("/alerts")
def change_alerts(request: Request, who: Admin, form: Form) -> Response:
    """Add a rule, or remove one."""
    if "remove" in form:
        api.delete_alert(request, who, form["remove"], _client(form))
        return _back(form)
    fields = {"rule": form.get("rule", ""), "series": form.get("series", ""), "to": form.get("to", "").split()}
    api.create_alert(request, who, _checked(AlertBody, fields), _client(form))
    return _back(form)


def _run(form: dict[str, str]) -> dict[str, str]:
    return {name: form.get(name, "") for name in ("dataset", "system", "series")}


def _checked(model: type[Body], fields: Mapping[str, Any]) -> Body:
    try:
        return model.model_validate(fields)
    except ValidationError as exc:
        wrong = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in exc.errors())
        raise HTTPException(422, f"the form cannot be used: {wrong}") from exc


def _client(form: dict[str, str]) -> str | None:
    return form.get("client") or None


def _back(form: dict[str, str], **query: str) -> Response:
    return redirect("/schedules", **query, **({"client": form["client"]} if form.get("client") else {}))
