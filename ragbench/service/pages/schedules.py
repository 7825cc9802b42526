"""The pages of schedules, jobs and alerts: start, pause, follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ValidationError

from ragbench.service import api
from ragbench.service.alert_rules import raised_alerts
from ragbench.service.bodies import AlertBody, RunBody, ScheduleBody
from ragbench.service.pages.html_pages import Admin, Form, PageRoute, Runner, Visitor, page, redirect
from ragbench.service.responses import records
from ragbench.service.scheduler import pause_schedule

Model = TypeVar("Model", bound=BaseModel)
router = APIRouter(prefix="/schedules", route_class=PageRoute, include_in_schema=False)


@router.get("")
def overview(who: Visitor, follow: bool = False) -> HTMLResponse:
    """Show what runs, what will run, and what was alerted.

    Following, it is loaded again every few seconds while a job is under way, and has no form that this would empty.
    """
    jobs, rules = api.list_jobs(who), api.list_alerts(who)
    raised = raised_alerts(limit=200, database=who.database)
    if who.client is not None:
        raised = raised[raised["rule_id"].isin([rule["id"] for rule in rules])]
    return page(
        who.request,
        "schedules",
        client=who.client,
        jobs=jobs,
        schedules=api.list_schedules(who),
        rules=rules,
        raised=records(raised.head(30)),
        busy=any(job["state"] in ("waiting", "running") for job in jobs),
        follow=follow,
        datasets=[*who.folder.testsets()],
    )


@router.post("/run")
def start(who: Runner, form: Form) -> Response:
    """Start an evaluation now."""
    api.start_run(who, _checked(RunBody, _run(form)))
    return _back(form, follow="1")


@router.post("/add")
def add(who: Admin, form: Form) -> Response:
    """Add a schedule."""
    when = {name: form.get(name, "") for name in ("name", "cron", "zone")}
    api.create_schedule(who, _checked(ScheduleBody, {**when, "run": _run(form)}))
    return _back(form)


@router.post("/change")
def change(who: Admin, form: Form) -> Response:
    """Pause, resume or remove a schedule."""
    name, action = form.get("name", ""), form.get("do")
    if action == "remove":
        api.delete_schedule(who, name)
    else:
        pause_schedule(name, paused=action == "pause", client=who.owner, database=who.database)
    return _back(form)


@router.post("/cancel")
def cancel(who: Runner, form: Form) -> Response:
    """Cancel a job."""
    api.cancel_job(who, form.get("job", ""))
    return _back(form)


@router.post("/alerts")
def change_alerts(who: Admin, form: Form) -> Response:
    """Add a rule, or remove one."""
    if "remove" in form:
        api.delete_alert(who, form["remove"])
    else:
        fields = {"rule": form.get("rule", ""), "series": form.get("series", ""), "to": form.get("to", "").split()}
        api.create_alert(who, _checked(AlertBody, fields))
    return _back(form)


def _run(form: dict[str, str]) -> dict[str, str]:
    return {name: form.get(name, "") for name in ("dataset", "system", "series")}


def _checked(model: type[Model], fields: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(fields)
    except ValidationError as exc:
        problems = "; ".join(f"{error['loc'][-1]}: {error['msg']}" for error in exc.errors())
        raise HTTPException(422, f"the form cannot be used: {problems}") from exc


def _back(form: dict[str, str], **query: str) -> Response:
    return redirect("/schedules", **query, **({"client": form["client"]} if form.get("client") else {}))
