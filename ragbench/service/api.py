"""/api/v1: data sets and their cases, runs and jobs, metrics over time, schedules, alerts and keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import text
from starlette.concurrency import run_in_threadpool

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import own_version
from ragbench.service import (
    QueueFullError,
    add_alert,
    add_key,
    add_schedule,
    alerts,
    api_keys,
    cancel_job,
    compare_runs,
    history,
    jobs,
    pause_schedule,
    remove_alert,
    remove_key,
    remove_schedule,
    request_job,
    schedules,
    scores_of,
    trend,
)
from ragbench.service.access import Caller, needs, too_many
from ragbench.service.bodies import AlertBody, DatasetBody, KeyBody, Name, RunBody, ScheduleBody
from ragbench.service.folders import Folder, cases_in, described, etag, folder_of, load, save_upload
from ragbench.service.history_database import connected
from ragbench.service.keys import EVERY_CLIENT
from ragbench.service.results import (
    job_document,
    known,
    place_of_run,
    records,
    run_document,
    run_row,
    shown_job,
    waited,
)
from ragbench.testsets.edits import add_case, case_record, change_case, record_case, remove_case
from ragbench.testsets.forms import save_testset
from ragbench.testsets.validation import derived_id
from ragbench.types import Dataset

Reader = Annotated[Caller, Depends(needs("reader"))]
Runner = Annotated[Caller, Depends(needs("runner"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
_TEXT = r"^[^\x00-\x1f]*$"
Client = Annotated[
    str | None, Query(max_length=80, pattern=_TEXT, description="Of a key for every client: whose data is meant.")
]
Word = Annotated[str, Query(max_length=190, pattern=_TEXT)]
Time = Annotated[str, Query(max_length=40, pattern=r"^(\d{4}-\d\d-\d\d[0-9T:.Z-]*)?$", description="ISO 8601, UTC.")]
Id = Annotated[str, Query(pattern="^[0-9a-f]{64}$")]
Key = Annotated[
    str, Header(max_length=200, pattern=r"^[\x21-\x7e]*$", description="The same key again gives the same job.")
]
Match = Annotated[str, Header(max_length=200, description="Of the case that was read; 412 where it has changed.")]
CASES = "test-cases"
"""The data set of cases that name none."""
_CASE = {"dataset": "support", "query_id": "reset", "text": "How do I reset my password?", "relevant": {"guide": 1}}
_FORMS = {
    "application/json": {"examples": {
        "cases": {"value": [{"id": "reset", "question": "How do I reset it?", "expectedAnswer": "In settings."}]},
        "recipe": {"value": {"name": "drafts", "generate": {"sample_size": 40}}},
    }},
    "application/yaml": {"schema": {"type": "string"}},
    "application/jsonl": {"schema": {"type": "string"}},
}  # fmt: skip
router = APIRouter(prefix="/api/v1")


@router.get("/health", tags=["health"])
def health(request: Request) -> dict[str, str]:
    """Whether the server and its database work; needs no key."""
    with connected(request.app.state.database) as connection:
        connection.execute(text("SELECT 1"))
    return {"status": "ok", "version": own_version()}


@router.get("/test-cases", tags=["data"])
def list_cases(
    request: Request, caller: Reader, dataset: Word = "", category: Word = "", client_id: Client = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000, offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> list[dict[str, Any]]:  # fmt: skip
    """The cases of a data set, or of all; each with the name of its data set and the ETag of its version."""
    folder = folder_of(request, caller.reads(client_id))
    names = [dataset] if dataset else folder.testsets()
    found = [(name, record) for name in names for record in cases_in(folder.testset(name)).values()]
    chosen = [one for one in found if category in ("", one[1].get("category", ""))]
    return [shown_case(name, record) for name, record in chosen[offset : offset + limit]]


@router.post("/test-cases", status_code=201, tags=["data"])
def create_case(
    request: Request, caller: Runner, record: Annotated[dict[str, Any], Body(examples=[_CASE])], response: Response,
    client_id: Client = None,
) -> dict[str, Any]:  # fmt: skip
    """Add a case, with fields as `GET /test-cases` has them, to `dataset`, which is made where it is not there."""
    folder = folder_of(request, caller.writes(client_id))
    shown = add_record(folder, str(record.pop("dataset", CASES)), record)
    response.headers["ETag"] = shown["etag"]
    return shown


@router.get("/test-cases/{case_id}", tags=["data"])
def one_case(
    request: Request, caller: Reader, case_id: str, response: Response, dataset: Word = "", client_id: Client = None
) -> dict[str, Any]:
    """A case; without `dataset` that of any data set, 409 where several have it."""
    folder = folder_of(request, caller.reads(client_id))
    name = holder_of(folder, case_id, dataset)
    shown = shown_case(name, case_record(load(folder.testset(name)), case_id))
    response.headers["ETag"] = shown["etag"]
    return shown


@router.put("/test-cases/{case_id}", tags=["data"], responses={412: {"description": "It has changed."}})
def change(
    request: Request, caller: Runner, case_id: str,
    fields: Annotated[dict[str, Any], Body(examples=[{"category": "x"}])], response: Response,
    dataset: Word = "", if_match: Match = "", client_id: Client = None,
) -> dict[str, Any]:  # fmt: skip
    """Change the fields that are given; null takes a label away."""
    folder = folder_of(request, caller.writes(client_id))
    name = holder_of(folder, case_id, str(fields.pop("dataset", "") or dataset))
    shown = change_record(folder, name, case_id, fields, if_match)
    response.headers["ETag"] = shown["etag"]
    return shown


@router.delete(
    "/test-cases/{case_id}", status_code=204, tags=["data"], responses={412: {"description": "It has changed."}}
)
def remove(
    request: Request, caller: Runner, case_id: str, dataset: Word = "", if_match: Match = "", client_id: Client = None
) -> None:
    """Take a case out of its data set."""
    folder = folder_of(request, caller.writes(client_id))
    place = folder.testset(holder_of(folder, case_id, dataset))
    check_match(case_record(load(place), case_id), if_match)
    remove_case(place, case_id, force=True)


def shown_case(name: str, record: dict[str, Any]) -> dict[str, Any]:
    """A case as the API shows it."""
    return {"dataset": name, **record, "etag": etag(record)}


def holder_of(folder: Folder, case_id: str, dataset: str = "") -> str:
    """The data set that has a case: 404 where none has, 409 where several have."""
    names = [dataset] if dataset else folder.testsets()
    found = [name for name in names if any(case.query_id == case_id for case in load(folder.testset(name)).cases)]
    if len(found) > 1:
        raise HTTPException(409, f"several datasets have this case: {', '.join(found)}; name one with ?dataset=")
    if not found:
        raise HTTPException(404, "there is no such case")
    return found[0]


def add_record(folder: Folder, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Add a case to a data set, which is made where it is not there."""
    record.setdefault("query_id", derived_id(str(record.get("text", ""))))
    case, relevant = record_case(record)
    if name not in folder.testsets():
        check_name(name)
        place, empty = folder.new_testset(name), Dataset(name, "test", {}, (), {})
        try:
            save_testset(empty, place, "jsonl")
        except DataError:
            if not place.exists():  # else another request was faster
                raise
    place = folder.testset(name)
    if any(one.query_id == case.query_id for one in load(place).cases):
        raise HTTPException(409, f"{name} has a case of this id already")
    add_case(place, case, relevant, force=True)
    return shown_case(name, case_record(load(place), case.query_id))


def change_record(
    folder: Folder, name: str, case_id: str, fields: dict[str, Any], if_match: str = ""
) -> dict[str, Any]:
    """Change fields of a case, if its version is still the one that is named."""
    changed: dict[str, Any] = {}

    def change(record: dict[str, Any]) -> dict[str, Any]:
        check_match(record, if_match)
        changed.update({key: value for key, value in {**record, **fields}.items() if value is not None})
        return changed

    change_case(folder.testset(name), case_id, change, force=True)
    return shown_case(name, case_record(load(folder.testset(name)), case_id))


def check_match(record: dict[str, Any], if_match: str) -> None:
    """412 where a version is named, and it is another one."""
    if if_match.strip() not in ("", "*") and etag(record) not in map(str.strip, if_match.split(",")):
        raise HTTPException(412, "the case has changed since it was read; read it again", {"ETag": etag(record)})


def check_name(name: str) -> None:
    """422 where a data set cannot have this name."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as exc:
        raise HTTPException(422, f"{name!r} cannot be the name of a dataset; use letters, digits, _ - .") from exc


@router.get("/datasets", tags=["data"])
def list_datasets(request: Request, caller: Reader, client_id: Client = None) -> list[dict[str, Any]]:
    """The data sets of a client."""
    return [described(place) for place in folder_of(request, caller.reads(client_id)).testsets().values()]


@router.post(
    "/datasets", status_code=201, tags=["data"], openapi_extra={"requestBody": {"content": _FORMS, "required": True}},
    responses={202: {"description": "It is being generated: a job."}},
)  # fmt: skip
async def create_dataset(
    request: Request, caller: Runner, response: Response, name: Word = "", client_id: Client = None,
    idempotency_key: Key = "",
) -> dict[str, Any]:  # fmt: skip
    """Save a test set in any form (of a folder as {"name", "files"}), or generate one: {"name", "generate"}.

    The name is that of the query `name`, the body's `name`, or of the head of the file.
    """
    content = await request.body()
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    form = {"application/json": "json", "application/yaml": "yaml", "text/yaml": "yaml", "application/x-yaml": "yaml",
            "application/jsonl": "jsonl", "application/x-ndjson": "jsonl"}.get(kind)  # fmt: skip
    if form is None:
        raise HTTPException(415, "send application/json, application/yaml or application/jsonl")
    folder = await run_in_threadpool(folder_of, request, caller.writes(client_id))
    body = _dataset_body(content) if form == "json" else None
    if body is not None and body.generate:
        command = body.generate.command(folder, body.name)
        job = await run_in_threadpool(submit, request, caller, folder, command, body.name, idempotency_key, client_id)
        response.status_code = 202
        return job
    name = body.name if body is not None else name
    check_name(name)
    saved = partial(save_upload, folder.new_testset(name), content, form, body.files if body is not None else None)
    await run_in_threadpool(saved)
    return await run_in_threadpool(described, folder.testset(name))


def _dataset_body(content: bytes) -> DatasetBody | None:
    """A recipe or files; None where the body is a test set itself."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise HTTPException(422, "the body is not JSON") from exc
    if not isinstance(found, dict) or not {"generate", "files"} & found.keys():
        return None
    try:
        return DatasetBody.model_validate(found)
    except ValidationError as exc:
        raise RequestValidationError(exc.errors(include_url=False, include_context=False)) from exc


@router.get("/datasets/{name}", tags=["data"])
def one_dataset(request: Request, caller: Reader, name: str, client_id: Client = None) -> dict[str, Any]:
    """A data set with its cases."""
    place = folder_of(request, caller.reads(client_id)).testset(name)
    return {**described(place), "cases": [shown_case(name, record) for record in cases_in(place).values()]}


@router.delete("/datasets/{name}", status_code=204, tags=["data"])
def remove_dataset(request: Request, caller: Runner, name: str, client_id: Client = None) -> None:
    """Remove a data set; the runs on it stay."""
    place = folder_of(request, caller.writes(client_id)).testset(name)
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)


def submit(
    request: Request, caller: Caller, folder: Folder, command: list[str], series: str, key: str, client_id: str | None
) -> dict[str, Any]:
    """Put a command into the queue: its job; 429 where too many are waiting."""
    state, client = request.app.state, caller.writes(client_id)
    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        job_id = request_job(
            command, series=series, key=key, client=client, folder=folder.path, max_waiting=state.max_jobs,
            database=state.database,
        )  # fmt: skip
    except QueueFullError as exc:
        raise too_many("waiting jobs", 30) from exc
    state.queue.wake()
    return job_document(request, job_id, client)


def start_run(request: Request, caller: Caller, body: RunBody, key: str, client_id: str | None) -> dict[str, Any]:
    """Put an evaluation into the queue: its job."""
    folder = folder_of(request, caller.writes(client_id))
    command = command_of(request, body, folder, caller.writes(client_id))
    return submit(request, caller, folder, command, body.series or body.dataset, key, client_id)


def command_of(request: Request, body: RunBody, folder: Folder, client: str) -> list[str]:
    """The command of an evaluation, compared with the run that is its baseline."""
    if not body.baseline:
        return body.command(folder)
    place = place_of_run(request, run_row(request, body.baseline, client)[0])
    if place is None or not place.is_dir():
        raise ConfigError("the files of the baseline are not there any more")
    return body.command(folder, str(place))


@router.post("/runs", status_code=202, tags=["runs"], responses={200: {"description": "With wait: the run."}})
async def create_run(
    request: Request, caller: Runner, body: RunBody, response: Response, idempotency_key: Key = "",
    wait: Annotated[int, Query(ge=0, le=600, description="Seconds to wait for the result.")] = 0,
    client_id: Client = None,
) -> dict[str, Any]:  # fmt: skip
    """Start an evaluation: a job. With `wait` the run, as soon as it is there; 202 and the job if it takes longer."""
    job = await run_in_threadpool(start_run, request, caller, body, idempotency_key, client_id)
    response.headers["Location"] = f"/api/v1/jobs/{job['id']}"
    if wait:
        job = await waited(request, job["id"], caller.writes(client_id), wait)
        if job["run"]:
            response.status_code = 200
            return await run_in_threadpool(run_document, request, job["run"], caller.writes(client_id))
    return job


@router.get("/runs", tags=["runs"])
def list_runs(
    request: Request, caller: Reader, dataset: Word = "", series: Word = "", before: Time = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 20, client_id: Client = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The newest runs, the newest first, and what changed since the run before; `before` is the made_at of one."""
    found = history(
        series=series, dataset=dataset, before=before, limit=limit, client=caller.reads(client_id),
        database=request.app.state.database,
    )  # fmt: skip
    return records(found.rename(columns={"run": "id"}).drop(columns="location"))


@router.get("/runs/{run_id}", tags=["runs"])
def one_run(request: Request, caller: Reader, run_id: str, client_id: Client = None) -> dict[str, Any]:
    """A run: its aggregates with their intervals, and every case."""
    return run_document(request, run_id, caller.reads(client_id))


@router.get("/jobs", tags=["runs"])
def list_jobs(
    request: Request, caller: Reader, limit: Annotated[int, Query(ge=1, le=1000)] = 50, client_id: Client = None
) -> list[dict[str, Any]]:
    """The newest jobs."""
    found = jobs(client=caller.reads(client_id), limit=limit, database=request.app.state.database)
    return [shown_job(request, job) for job in found]


@router.get("/jobs/{job_id}", tags=["runs"])
def one_job(request: Request, caller: Reader, job_id: str, client_id: Client = None) -> dict[str, Any]:
    """A job: waiting, running, done, failed or cancelled; `run` is the id of what it recorded."""
    return job_document(request, job_id, caller.reads(client_id))


@router.delete("/jobs/{job_id}", tags=["runs"])
def cancel(request: Request, caller: Runner, job_id: str, client_id: Client = None) -> dict[str, Any]:
    """Cancel a job that has not ended."""
    client = caller.reads(client_id)
    job = job_document(request, job_id, client)
    if not cancel_job(job_id, client=client, database=request.app.state.database):
        raise HTTPException(409, f"the job is {job['state']} already")
    return job_document(request, job_id, client)


@router.get("/metrics", tags=["runs"])
def metrics(
    request: Request, caller: Reader, measure: Word = "pass_rate", series: Word = "",
    from_: Annotated[Time, Query(alias="from")] = "",
    to: Time = "", client_id: Client = None,
) -> dict[str, Any]:  # fmt: skip
    """A measure over runs: aggregates of its means, its points, and the trend's verdict per configuration."""
    database, client = request.app.state.database, caller.reads(client_id)
    frame = _found(lambda: trend(measure, series=series, client=client, database=database))
    times = frame["made_at"].dt.strftime("%Y-%m-%dT%H:%M:%S.%f")
    frame = frame[(times >= from_) & ((times < to) if to else True)]
    means = frame["mean"].dropna()
    lines = [
        {"series": name, "configuration": configuration, "runs": len(rows), "newest": records(rows.tail(1))[0],
         "verdict": next((note for note in reversed([*rows["note"]]) if note), "")}
        for (name, configuration), rows in frame.groupby(["series", "configuration"])
    ]  # fmt: skip
    return {
        "measure": measure, "runs": len(frame), "mean": known(means.mean()), "lowest": known(means.min()),
        "highest": known(means.max()), "lines": lines,
        "points": records(frame[["run", "made_at", "series", "configuration", "mean", "ci_low", "ci_high"]]),
    }  # fmt: skip


def _found(read: Callable[[], Any]) -> Any:
    """404 where the history does not have what is named."""
    try:
        return read()
    except ConfigError as exc:
        raise HTTPException(404, "no run has this measure in this series") from exc


@router.get("/compare", tags=["runs"])
def compare(request: Request, caller: Reader, a: Id, b: Id, client_id: Client = None) -> dict[str, Any]:
    """Two runs by the questions that both have: differences with intervals, newly failing and fixed questions."""
    database = request.app.state.database
    for run_id in (a, b):
        run_row(request, run_id, caller.reads(client_id))
    frame = compare_runs(a, b, database=database)
    passed = []
    for run_id in (a, b):
        _, scores, texts = scores_of(run_id, database)
        rows = scores[scores["measure"] == "pass_rate"]
        pairs = zip(rows["query_id"], rows["value"], strict=True)
        passed.append({(query_id, texts[query_id]): value for query_id, value in pairs})
    both = [key for key in passed[0] if key in passed[1]]
    return {
        "a": a, "b": b, "measures": records(frame.reset_index()),
        "newly_failing": [{"query_id": key[0], "question": key[1]} for key in both if passed[0][key] > passed[1][key]],
        "fixed": [{"query_id": key[0], "question": key[1]} for key in both if passed[0][key] < passed[1][key]],
    }  # fmt: skip


@router.get("/schedules", tags=["schedules"])
def list_schedules(request: Request, caller: Reader, client_id: Client = None) -> list[dict[str, Any]]:
    """The schedules: when each is due, and how its last job ended."""
    found = schedules(client=caller.reads(client_id), database=request.app.state.database)
    return records(found.drop(columns="command"))


@router.post("/schedules", status_code=201, tags=["schedules"])
def create_schedule(request: Request, caller: Admin, body: ScheduleBody, client_id: Client = None) -> dict[str, Any]:
    """Add a schedule, or replace the one of this name; its runs are called by its name."""
    client, database = caller.writes(client_id), request.app.state.database
    folder = folder_of(request, client)
    command = command_of(request, body.run, folder, client)
    folder.path.mkdir(parents=True, exist_ok=True)
    add_schedule(body.name, body.cron, command, zone=body.zone, client=client, folder=folder.path, database=database)
    if body.paused:
        pause_schedule(body.name, client=client, database=database)
    found = schedules(client=client, database=database)
    return records(found[found["name"] == body.name].drop(columns="command"))[0]


@router.delete("/schedules/{name}", status_code=204, tags=["schedules"])
def delete_schedule(request: Request, caller: Admin, name: str, client_id: Client = None) -> None:
    """Remove a schedule and its jobs; its runs stay."""
    client, database = caller.writes(client_id), request.app.state.database
    if name not in [*schedules(client=client, database=database)["name"]]:
        raise HTTPException(404, "there is no such schedule")
    remove_schedule(name, client=client, database=database)


@router.get("/alerts", tags=["alerts"])
def list_alerts(request: Request, caller: Reader, client_id: Client = None) -> list[dict[str, Any]]:
    """The rules, how often each raised an alert, and when last."""
    found, client = alerts(database=request.app.state.database), caller.reads(client_id)
    return records(found if client is None else found[found["client_id"] == client])


@router.post("/alerts", status_code=201, tags=["alerts"])
def create_alert(request: Request, caller: Admin, body: AlertBody, client_id: Client = None) -> dict[str, Any]:
    """Add a rule. `to` refers to variables of the server's environment.

    With a key of one client, these begin with RAGBENCH_ALERT_ and the client's name in capitals.
    """
    client = caller.writes(client_id)
    prefix = "${RAGBENCH_ALERT_" + "".join(c if c.isalnum() else "_" for c in client.upper())
    if caller.client != EVERY_CLIENT and not all(one.startswith((f"{prefix}_", f"{prefix}}}")) for one in body.to):
        raise HTTPException(403, f"this key may only name variables that begin with {prefix[2:]}_")
    made = add_alert(
        body.rule, to=body.to, series=body.series, point=body.point, client=client, database=request.app.state.database
    )
    return {"id": made, "rule": body.rule, "series": body.series, "client_id": client}


@router.delete("/alerts/{rule_id}", status_code=204, tags=["alerts"])
def delete_alert(request: Request, caller: Admin, rule_id: str, client_id: Client = None) -> None:
    """Remove a rule; what it raised stays listed."""
    found, client = alerts(database=request.app.state.database), caller.reads(client_id)
    own = found[(found["id"] == rule_id) & ((found["client_id"] == client) if client is not None else True)]
    if own.empty:
        raise HTTPException(404, "there is no such alert")
    remove_alert(rule_id, database=request.app.state.database)


@router.get("/keys", tags=["keys"])
def list_keys(request: Request, caller: Admin, client_id: Client = None) -> list[dict[str, Any]]:
    """The keys, without what is secret."""
    return records(api_keys(client=caller.reads(client_id), database=request.app.state.database))


@router.post("/keys", status_code=201, tags=["keys"])
def create_key(request: Request, caller: Admin, body: KeyBody, client_id: Client = None) -> dict[str, str]:
    """Make a key; it is shown this once."""
    client, database = caller.writes(client_id), request.app.state.database
    if client and client != EVERY_CLIENT:
        folder_of(request, client)
    key = add_key(body.name, client=client, role=body.role, expires=body.expires, database=database)
    found = api_keys(client=client, database=database)
    key_id = str(found[found["name"] == body.name]["id"].iloc[0])
    return {"id": key_id, "name": body.name, "client_id": client, "key": key}


@router.delete("/keys/{key_id}", status_code=204, tags=["keys"])
def delete_key(request: Request, caller: Admin, key_id: str, client_id: Client = None) -> None:
    """Remove a key, by its id: it opens nothing from then on."""
    client, database = caller.reads(client_id), request.app.state.database
    if key_id not in [*api_keys(client=client, database=database)["id"]]:
        raise HTTPException(404, "there is no such key")
    remove_key(key_id, client=client, database=database)
