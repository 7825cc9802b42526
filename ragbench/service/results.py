"""Runs and jobs as the API shows them."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import Result, load_result
from ragbench.evaluation.schema import plain
from ragbench.service import jobs, run_of, scores_of

_ID = 64
_ENDED = ("done", "failed", "cancelled")
_OWN = ("id", "client_id", "series", "state", "due_at", "ended_at", "attempts", "exit_code", "run")


def records(frame: Any) -> list[dict[str, Any]]:
    """A frame as JSON has it: no NaN, times as text."""
    return [{name: known(value) for name, value in row.items()} for row in frame.to_dict("records")]


def known(value: Any) -> Any:
    """A value as JSON has it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    value = value.item() if hasattr(value, "item") else value
    return (
        None
        if value is None or str(value) == "<NA>" or (isinstance(value, float) and not math.isfinite(value))
        else value
    )


def run_row(request: Request, run_id: str, client: str | None) -> tuple[dict[str, Any], Any]:
    """The row of a run of this client and its scores per measure; 404 otherwise.

    Raises:
        HTTPException: 404.
    """
    try:
        if len(run_id) != _ID or not run_id.isalnum():
            raise ConfigError("no id")
        row, scores, _ = run_of(run_id, request.app.state.database)
    except ConfigError as exc:
        raise HTTPException(404, "there is no such run") from exc
    if client is not None and row["client_id"] != client:
        raise HTTPException(404, "there is no such run")
    return dict(row), scores


def place_of_run(request: Request, row: dict[str, Any]) -> Path | None:
    """The folder of a run, where it is below the root."""
    place = Path(row["location"]).resolve() if row["location"] else None
    return place if place is not None and place.is_relative_to(request.app.state.root) else None


def run_document(request: Request, run_id: str, client: str | None) -> dict[str, Any]:
    """A run with its aggregates and every case; what only its files hold is None where they are not below the root."""
    row, scores = run_row(request, run_id, client)
    names = ("id", "client_id", "series", "configuration", "dataset", "fingerprint", "made_at", "passed", "questions",
             "questions_passed", "cost_usd", "seconds")  # fmt: skip
    shown = scores.drop(columns="case_values", errors="ignore")
    return {
        **{name: row[name] for name in names},
        "measures": records(shown),
        "cases": cases_of(request, row, files_of_run(request, row)),
    }


def files_of_run(request: Request, row: dict[str, Any]) -> Result | None:
    """The result that a run recorded, from its files, where they are there."""
    place = place_of_run(request, row)
    try:
        return load_result(place) if place is not None and place.is_dir() else None
    except DataError:
        return None


def cases_of(request: Request, row: dict[str, Any], result: Result | None) -> list[dict[str, Any]]:
    """The cases of a run, from its files or, where they are not there, from the database."""
    if result is not None:
        return [plain(asdict(case)) for case in result.report.cases]
    _, values, texts = scores_of(row["id"], request.app.state.database)
    scores: dict[str, dict[str, Any]] = {query_id: {} for query_id in texts}
    for query_id, measure, value in values[["query_id", "measure", "value"]].itertuples(index=False, name=None):
        scores[query_id][measure] = known(value)
    return [
        {"query_id": query_id, "question": text, "answer": None, "passed": None, "scores": scores[query_id]}
        for query_id, text in texts.items()
    ]


def job_document(request: Request, job_id: str, client: str | None) -> dict[str, Any]:
    """A job of this client; 404 otherwise."""
    found = jobs(client=client, job_id=job_id, database=request.app.state.database) if job_id.isalnum() else []
    if not found:
        raise HTTPException(404, "there is no such job")
    return shown_job(request, found[0])


def shown_job(request: Request, job: dict[str, Any]) -> dict[str, Any]:
    """A job without the places of files."""
    output = (job["output"] or "").replace(f"{request.app.state.root}/", "")
    return {**{name: job[name] for name in _OWN}, "output": output}


async def waited(request: Request, job_id: str, client: str | None, seconds: float) -> dict[str, Any]:
    """A job when it has ended, or after so long."""
    end, pause = time.monotonic() + seconds, 0.05
    while True:
        job = await run_in_threadpool(job_document, request, job_id, client)
        if job["state"] in _ENDED or time.monotonic() >= end:
            return job
        await anyio.sleep(pause)
        pause = min(1.0, pause * 1.5)
