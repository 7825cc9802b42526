"""The routes of /api/v1: list, read, create and delete data sets, start and read runs, jobs and
comparisons, metrics over time, schedules and alerts; how many jobs may wait.
"""

import shutil
from pathlib import Path
from typing import Annotated

import pandas as pd
from fastapi import APIRouter, HTTPException, Query, Request, Response
from sqlalchemy import text
from starlette.concurrency import run_in_threadpool

from ragbench.errors import ConfigError
from ragbench.evaluation import own_version
from ragbench.service import (
    alert_rules,
    datasets,
    job_queue,
    measure_trends,
    recorded_runs,
    run_conclusions,
    scheduler,
    sent_items,
)
from ragbench.service.access import LINE, Session, needs
from ragbench.service.bodies import RunBody
from ragbench.service.folders import CASES, NAME, cases_in, described
from ragbench.service.history_database import Json, connected
from ragbench.service.responses import (
    folder_of_run,
    job_document,
    job_response,
    records,
    run_document,
    run_row,
    wait_for_job,
)

Reader = Annotated[Session, needs("reader")]
Runner = Annotated[Session, needs("runner")]
Word = Annotated[str, Query(max_length=190, pattern=LINE)]
Id = Annotated[str, Query(pattern="^[0-9a-f]{64}$")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Wait = Annotated[int, Query(ge=0, le=600, description="Seconds to wait for the result.")]
MAX_JOBS = 100
"""Jobs that may wait, of each client."""
_FORMS = {  # content type -> form
    "application/json": "json",
    "application/yaml": "yaml",
    "text/yaml": "yaml",
    "application/x-yaml": "yaml",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
}
_CASES = [{"id": "reset", "question": "How do I reset it?", "expectedAnswer": "In settings."}]
_CONTENT: Json = {
    "application/json": {"examples": {"cases": {"value": _CASES}}},
    "application/yaml": {"schema": {"type": "string"}},
    "application/jsonl": {"schema": {"type": "string"}},
}
router = APIRouter(prefix="/api/v1", tags=["ragbench"])


@router.get("/health")
def health(request: Request) -> dict[str, str]:
    """Report whether the server and its database work; needs no key."""
    with connected(request.app.state.database) as connection:
        connection.execute(text("SELECT 1"))
    return {"status": "ok", "version": own_version()}


@router.get("/datasets")
def list_datasets(session: Reader) -> list[Json]:
    """List the data sets of a client."""
    return [described(path) for path in session.folder.testsets().values()]


@router.post(
    "/datasets",
    status_code=201,
    openapi_extra={"requestBody": {"content": _CONTENT, "required": True}},
)
async def create_dataset(
    session: Runner, name: Annotated[str, Query(max_length=80, pattern=f"^{NAME}$")]
) -> Json:
    """Save a test set, in any form of a single file: one at a time. More than 1,000 cases come as
    JSON Lines.
    """
    # `ragbench.testsets.uploads` refuses more than 1,000 cases (MAX_CASES) in JSON or YAML.
    header = session.request.headers.get("content-type", "application/json")
    content_type, _, _ = header.partition(";")
    form = _FORMS.get(content_type.strip().lower())
    if form is None:
        raise HTTPException(415, "send application/json, application/yaml or application/jsonl")
    if name == CASES:  # the data set of the cases that are sent one by one
        raise HTTPException(422, f"the cases of {CASES} are sent to /evaluation/test-cases")
    uploads = session.request.app.state.uploads
    with uploads.one_at_a_time(session.owner):  # 429 while another upload of this client is read
        content = await session.request.body()
        path = session.folder.new_testset(name)
        await uploads.save(path, content, form)
    return await run_in_threadpool(_record_and_describe, session, path)


def _record_and_describe(session: Session, path: Path) -> Json:
    """Add a test set to the database, and return its name, size and the like."""
    datasets.dataset_row(session, path, created_by=session.key.name)
    return described(path)


@router.get("/datasets/{name}")
def read_dataset(session: Reader, name: str) -> Json:
    """Read a data set with its cases."""
    if name == CASES:
        sent_items.export(session)
    path = session.folder.testset(name)
    return {**described(path), "cases": cases_in(path)}


@router.delete("/datasets/{name}", status_code=204)
def delete_dataset(session: Runner, name: str) -> None:
    """Remove a data set; the runs on it stay."""
    if name == CASES:
        n_removed = sent_items.remove(session, sent_items.CASE)
        if n_removed:
            sent_items.export(session)  # removes the file of the cases
            return
        # no case was sent, but a file may have this name
    path = session.folder.testset(name)
    if path.parent == session.folder.path:  # the test set that `ragbench init` wrote
        raise HTTPException(409, f"{path.name} is not removed by requests; delete the file")
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def submit(session: Session, command: list[str], series: str) -> Json:
    """Put a command of ragbench into the queue, and return its job; 429 where too many are waiting."""
    path = session.folder.path
    path.mkdir(parents=True, exist_ok=True)
    try:
        job_id = job_queue.request_job(
            command,
            series=series,
            folder=path,
            max_waiting=MAX_JOBS,
            **session.ownership,
        )
    except job_queue.QueueFullError as exc:
        raise HTTPException(429, f"{exc}; try again later", {"Retry-After": "30"}) from exc
    session.request.app.state.queue.wake()
    return job_document(session, job_id)


def start_run(session: Session, body: RunBody) -> Json:
    """Put an evaluation into the queue, and return its job. If `body` names a run as its baseline, the
    evaluation is compared with this run.
    """
    # writes the cases and documents in the database to files, which the job reads
    sent_items.export(session)
    baseline = ""
    if body.baseline:
        # looks only among the runs of this client, even if the key opens every client
        row, _ = run_row(session.of(session.owner), body.baseline)
        folder = folder_of_run(session, row)
        if folder is None or not folder.is_dir():
            raise ConfigError("the files of the baseline are not there any more")
        baseline = str(folder)
    command = body.command(session.folder, baseline)
    return submit(session, command, body.series or body.dataset)


async def run_job(session: Session, body: RunBody, wait: float) -> Json:
    """Put an evaluation into the queue, and return its job when it has ended, or after `wait`
    seconds.
    """
    job = await run_in_threadpool(start_run, session, body)
    return await wait_for_job(session, job, wait)


@router.post("/runs", status_code=202, responses={200: {"description": "With wait: the run."}})
async def create_run(session: Runner, body: RunBody, response: Response, wait: Wait = 0) -> Json:
    """Start an evaluation: a job. With `wait` the run, as soon as it is there; 202 and the job if
    it takes longer.
    """
    job = await run_job(session, body, wait)
    response.headers["Location"] = f"/api/v1/jobs/{job['id']}"
    if job["run"] and wait:
        response.status_code = 200
        return await run_in_threadpool(run_document, session, job["run"])
    return job


@router.get("/runs")
def list_runs(session: Reader, series: Word = "", limit: Limit = 20) -> list[Json]:
    """List the newest runs with what changed since the run before."""
    runs = recorded_runs.history(series=series, limit=limit, **session.scope)
    return records(runs.rename(columns={"run": "id"}).drop(columns=["location", "categories"]))


@router.get("/runs/{run_id}")
def read_run(session: Reader, run_id: str) -> Json:
    """Read a run: its aggregates with their intervals, and every case."""
    return run_document(session, run_id)


@router.get("/jobs")
def list_jobs(session: Reader, limit: Limit = 50) -> list[Json]:
    """List the newest jobs."""
    jobs = job_queue.jobs(limit=limit, **session.scope)
    return [job_response(session, job) for job in jobs]


@router.get("/jobs/{job_id}")
def read_job(session: Reader, job_id: str) -> Json:
    """Read a job: waiting, running, done, failed or cancelled; `run` is the id of the run that it
    recorded.
    """
    return job_document(session, job_id)


@router.delete("/jobs/{job_id}")
def cancel_job(session: Runner, job_id: str) -> Json:
    """Cancel a job that has not ended."""
    job = job_document(session, job_id)
    if not job_queue.cancel_job(job_id, **session.scope):
        raise HTTPException(409, f"the job is {job['state']} already")
    return job_document(session, job_id)


@router.get("/metrics")
def metrics(session: Reader, measure: Word = "pass_rate", series: Word = "") -> list[Json]:
    """Read a measure over runs, the oldest first, with what changed and whether it drifted."""
    try:
        return records(measure_trends.trend(measure, series=series, **session.scope))
    except ConfigError as exc:
        raise HTTPException(404, "no run has this measure in this series") from exc


@router.get("/compare")
def compare(session: Reader, a: Id, b: Id) -> Json:
    """Compare runs on the questions that both have: the conclusion (null with the reason in
    `not_possible`), differences with intervals, newly failing and fixed questions.
    """
    for run_id in (a, b):
        run_row(session, run_id)  # 404 for a run of another client
    measures = recorded_runs.compare_runs(a, b, database=session.database).reset_index()
    conclusion, problem = run_conclusions.of_runs(session, a, b)
    measures["decision"] = ""  # the conclusion decides, by one measure
    if conclusion is not None:
        is_deciding = measures["measure"] == conclusion.measure
        measures.loc[is_deciding, "decision"] = conclusion.decision
    keys = ["query_id", "question"]
    passed = _passed(session, a).merge(_passed(session, b), on=keys, suffixes=("_a", "_b"))
    newly_failing = passed[passed["value_a"] > passed["value_b"]]
    fixed = passed[passed["value_a"] < passed["value_b"]]
    return {
        "a": a,
        "b": b,
        "conclusion": None if conclusion is None else conclusion.to_dict(),
        "not_possible": problem,
        "measures": records(measures),
        "newly_failing": records(newly_failing[keys]),
        "fixed": records(fixed[keys]),
    }


def _passed(session: Session, run_id: str) -> pd.DataFrame:
    """Return which questions of a run passed: query_id, question, and value (1, 0, or NaN if nothing
    decides).
    """
    _, scores, texts = recorded_runs.scores_of(run_id, session.database)
    return scores.query("measure == 'pass_rate'").assign(question=scores["query_id"].map(texts))


@router.get("/schedules")
def list_schedules(session: Reader) -> list[Json]:
    """List the schedules: when each is due, and how its last job ended."""
    rows = scheduler.schedule_rows(**session.scope)
    for row in rows:
        del row["command"]
    return rows


@router.get("/alerts")
def list_alerts(session: Reader) -> list[Json]:
    """List the rules, how often each raised an alert, and when last."""
    return records(alert_rules.alerts(**session.scope))
