"""/api/v1/evaluation/...: an interface that other programs were written for, over the same functions."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from ragbench.history import history
from ragbench.server.api import Client, Reader, Runner, Word, start_run, submit
from ragbench.server.bodies import GenerateBody, Name, RunBody, Text
from ragbench.server.folders import described, folder_of
from ragbench.server.results import known, run_row, waited

Wait = Annotated[int, Query(ge=0, le=600, description="Seconds to wait; 504 with the job's id if it takes longer.")]

router = APIRouter(prefix="/api/v1/evaluation", tags=["evaluation of the guide"])


class GuideDataset(BaseModel):
    """What to generate, from the documents that were sent to /ingest."""

    client_id: Annotated[str, Field(max_length=80)] | None = Field(None, description="The key's own client.")
    name: Text
    sample_size: int = Field(50, ge=1, le=10_000)
    chunk_sample_strategy: Literal["random", "diverse", "recent"] = "random"


class GuideRun(BaseModel):
    """What to evaluate."""

    dataset_id: Name
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
    command = await run_in_threadpool(recipe.command, folder, name)
    job = await run_in_threadpool(submit, request, caller, folder, command, name, "", body.client_id)
    _check_done(await waited(request, job["id"], client, wait))
    return {**await run_in_threadpool(_dataset, folder.testset(name), client), "name": body.name}


@router.get("/datasets")
def datasets(request: Request, caller: Reader, client_id: Client = None) -> list[dict[str, Any]]:
    """The data sets of a client."""
    client = caller.reads(client_id)
    return [_dataset(place, client) for place in folder_of(request, client).testsets().values()]


@router.post("/runs")
async def create_run(
    request: Request, caller: Runner, body: GuideRun, wait: Wait = 300, client_id: Client = None
) -> dict[str, Any]:
    """Evaluate the default system at depth k.

    mrr is the mean reciprocal rank of the first relevant document; faithfulness the judge's where one was asked, else
    claim support by wording, a heuristic. null = not measured.
    """
    client = caller.writes(client_id)
    started = RunBody.model_validate({"dataset": body.dataset_id, "k": [body.k]})
    job = await run_in_threadpool(start_run, request, caller, started, "", client_id)
    job = await waited(request, job["id"], client, wait)
    _check_done(job)
    return await run_in_threadpool(_run, request, job["run"], client)


@router.get("/runs")
def runs(
    request: Request, caller: Reader, dataset_id: Word = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50, client_id: Client = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The newest runs."""
    client = caller.reads(client_id)
    found = history(dataset=dataset_id, limit=limit, client=client, database=request.app.state.database)
    return [_run(request, run_id, client) for run_id in found["run"]]


def _check_done(job: dict[str, Any]) -> None:
    if job["state"] in ("waiting", "running"):
        raise HTTPException(504, f"job {job['id']} is still {job['state']}; see /api/v1/jobs/{job['id']}")
    if job["state"] != "done":
        raise HTTPException(422, job["output"].strip()[-500:])


def _dataset(place: Path, client: str | None) -> dict[str, Any]:
    found = described(place)
    return {"dataset_id": found["name"], "name": found["name"], "client_id": client or "",
            "qa_count": found["questions"], "created_at": found["created_at"]}  # fmt: skip


def _run(request: Request, run_id: str, client: str | None) -> dict[str, Any]:
    row, scores = run_row(request, run_id, client)
    means = dict(zip(scores["measure"], map(known, scores["mean"]), strict=True))
    depths = sorted(int(name[2:]) for name in means if re.fullmatch(r"P@\d+", name))
    k = 5 if len(depths) > 2 else max(depths, default=0)  # 5 is measured in any case
    faithfulness = means.get("llm_faithfulness")
    return {
        "run_id": run_id, "dataset_id": row["dataset"], "precision_at_k": means.get(f"P@{k}"),
        "recall_at_k": means.get(f"R@{k}"), "mrr": means.get("RR"), "k": k, "created_at": row["made_at"],
        "faithfulness": means.get("claim_support") if faithfulness is None else faithfulness,
    }  # fmt: skip
