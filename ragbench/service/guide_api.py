"""/api/v1/evaluation/...: an interface that other programs were written for, over the same functions."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import column, select, table
from starlette.concurrency import run_in_threadpool

from ragbench.service import tables
from ragbench.service.api import Client, Reader, Runner, start_run, submit
from ragbench.service.bodies import GenerateBody, RunBody, Text
from ragbench.service.folders import clients_in, described, folder_of, load
from ragbench.service.history_database import canonical, connected, timestamp
from ragbench.service.records import number_of_dataset
from ragbench.service.results import known, waited

Wait = Annotated[int, Query(ge=0, le=600, description="Seconds to wait; 504 with the job's id if it takes longer.")]

Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
_SHOWN = ("dataset_id", "precision_at_k", "recall_at_k", "mrr", "faithfulness", "k", "created_at")
_RUNS = table("evaluation_runs", *map(column, ("id", "record", "client_id", *_SHOWN)))

router = APIRouter(prefix="/api/v1/evaluation", tags=["evaluation of the guide"])


class GuideDataset(BaseModel):
    """What to generate, from the documents that were sent to /ingest."""

    model_config = ConfigDict(extra="forbid")
    client_id: Annotated[str, Field(max_length=80)] | None = Field(None, description="The key's own client.")
    name: Text
    sample_size: int = Field(50, ge=1, le=10_000)
    chunk_sample_strategy: Literal["random", "diverse", "recent"] = "random"


class GuideRun(BaseModel):
    """What to evaluate."""

    model_config = ConfigDict(extra="forbid")
    dataset_id: Number
    k: int = Field(5, ge=1, le=1000)


@router.post("/generate")
async def generate(request: Request, caller: Runner, body: GuideDataset, wait: Wait = 300) -> dict[str, Any]:
    """Generate a data set of question-answer pairs.

    The model that RAG_EVAL_* names for the server writes them; without one they are known-item questions, which have
    no reference answers, and the strategy is random.
    """
    client = caller.writes(body.client_id)
    name = re.sub(r"[^\w-]+", "-", body.name, flags=re.ASCII)[:80].strip("-") or "dataset"
    recipe = GenerateBody(
        sample_size=body.sample_size, strategy=body.chunk_sample_strategy, seed=0,
        model=bool(os.environ.get("RAG_EVAL_PROVIDER")),
    )  # fmt: skip
    folder = folder_of(request, client)
    command = await run_in_threadpool(recipe.command, folder, name, body.name)
    job = await run_in_threadpool(submit, request, caller, folder, command, name, "", body.client_id)
    _check_done(await waited(request, job["id"], client, wait))
    return await run_in_threadpool(_dataset, request, folder.testset(name), client)


@router.get("/datasets")
def datasets(request: Request, caller: Reader, client_id: Client = None) -> list[dict[str, Any]]:
    """The data sets of a client; a key of every client that names none sees those of all."""
    client = caller.reads(client_id)
    owners = clients_in(request.app.state.root) if client is None else [client]
    return [_dataset(request, place, one) for one in owners for place in folder_of(request, one).testsets().values()]


@router.post("/runs")
async def create_run(
    request: Request, caller: Runner, body: GuideRun, wait: Wait = 300, client_id: Client = None
) -> dict[str, Any]:
    """Evaluate the default system of the data set's client at depth k, by the targets of the guide.

    mrr is the mean reciprocal rank of the first relevant document; faithfulness the judge's where RAG_EVAL_PROVIDER
    names one for the server, else claim support by wording, a heuristic. null = not measured.
    """
    place, client = await run_in_threadpool(_place, request, caller.reads(client_id), body.dataset_id)
    started = RunBody.model_validate({
        "dataset": place, "k": [body.k], "preset": "guide", "criteria": ["faithfulness"],
        "judge": bool(os.environ.get("RAG_EVAL_PROVIDER")),
    })  # fmt: skip
    job = await run_in_threadpool(start_run, request, caller, started, "", client)
    job = await waited(request, job["id"], client, wait)
    _check_done(job)
    [run] = await run_in_threadpool(_runs, request, _RUNS.c.record == job["run"])
    return run


@router.get("/runs")
def runs(
    request: Request, caller: Reader, dataset_id: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50, client_id: Client = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The newest runs."""
    wanted = {"dataset_id": dataset_id, "client_id": caller.reads(client_id)}
    return _runs(request, *(_RUNS.c[name] == value for name, value in wanted.items() if value is not None), limit=limit)


def _check_done(job: dict[str, Any]) -> None:
    if job["state"] in ("waiting", "running"):
        raise HTTPException(504, f"job {job['id']} is still {job['state']}; see /api/v1/jobs/{job['id']}")
    if job["state"] != "done":
        raise HTTPException(422, job["output"].strip()[-500:])


def _dataset(request: Request, place: Path, client: str) -> dict[str, Any]:
    data, created = load(place), described(place)["created_at"]
    pairs = [{"question": case.text, "answer": case.reference_answer} for case in data.cases]
    with connected(request.app.state.database, write=True) as connection:
        number = number_of_dataset(
            connection, client, data.name, created_at=timestamp(datetime.fromisoformat(created)),
            qa_pairs=canonical(pairs),
        )  # fmt: skip
    return {"dataset_id": number, "name": data.name, "client_id": client, "qa_count": len(pairs), "created_at": created}


def _place(request: Request, client: str | None, number: int) -> tuple[str, str]:
    """The name of the test set with a number, and its client."""
    of = tables.dataset.c
    with connected(request.app.state.database) as connection:
        row = connection.execute(select(of.client_id, of.name).where(of.id == number)).first()
    if row is not None and client in (None, row.client_id):
        for place, path in folder_of(request, row.client_id).testsets().items():
            if load(path).name == row.name:
                return place, row.client_id
    raise HTTPException(404, f"there is no dataset {number}; GET /api/v1/evaluation/datasets lists them")


def _runs(request: Request, *where: Any, limit: int = 1) -> list[dict[str, Any]]:
    wanted = select(_RUNS.c.id.label("run_id"), *(_RUNS.c[name] for name in _SHOWN)).where(*where)
    with connected(request.app.state.database) as connection:
        rows = connection.execute(wanted.order_by(_RUNS.c.created_at.desc(), _RUNS.c.id).limit(limit)).mappings()
        return [{name: known(value) for name, value in row.items()} for row in rows]
