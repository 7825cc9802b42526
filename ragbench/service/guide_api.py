"""/api/v1/evaluation/...: an interface that other programs were written for, over the same
functions.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field
from sqlalchemy import column, select, table
from starlette.concurrency import run_in_threadpool

from ragbench.errors import ConfigError
from ragbench.service import sent_items
from ragbench.service.access import Session
from ragbench.service.api import Limit, Reader, Runner, run_job, submit
from ragbench.service.bodies import Body, RunBody, Text
from ragbench.service.datasets import dataset_row, dataset_rows, iso_time
from ragbench.service.folders import load, testset_name
from ragbench.service.history_database import Json, read_rows
from ragbench.service.responses import waited
from ragbench.service.tables import dataset

Wait = Annotated[
    int,
    Query(ge=0, le=600, description="Seconds to wait; 504 with the job's id if it takes longer."),
]
_COLUMNS = (
    "dataset_id precision_at_k recall_at_k mrr faithfulness claim_support k created_at"
).split()
_RUNS = table("evaluation_runs", *map(column, ("id", "record", "client_id", *_COLUMNS)))

router = APIRouter(prefix="/api/v1/evaluation", tags=["evaluation of the guide"])


class GuideDataset(Body):
    """What to generate, from the documents that were sent to /ingest."""

    client_id: Annotated[str, Field(max_length=80)] | None = None
    """The key's own client."""
    name: Text
    sample_size: int = Field(50, ge=1, le=10_000)
    chunk_sample_strategy: Literal["random", "diverse", "recent"] = "random"


class GuideRun(Body):
    """What to evaluate."""

    dataset_id: Annotated[int, Field(ge=1, lt=2**31)]
    k: int = Field(5, ge=1, le=1000)


@router.post("/generate")
async def generate(session: Runner, body: GuideDataset, wait: Wait = 300) -> Json:
    """Generate a data set of question-answer pairs.

    The model that RAG_EVAL_* names for the server writes them; without one they are known-item
    questions, whose answers are sentences of the documents, and the strategy is random. sample_size
    is the number of pairs; `note` tells why there are fewer.
    """
    session = session.of(body.client_id if body.client_id is not None else session.client)
    job = await run_in_threadpool(_start_generation, session, body)
    _check_done(await waited(session, job, wait))
    path = session.folder.testset(job["series"])
    row = await run_in_threadpool(dataset_row, session, path, created_by=session.key.name)
    if row["qa_count"] < body.sample_size:
        row["note"] = (
            f"{row['qa_count']} of {body.sample_size} pairs: the documents hold no other passage "
            "for a question which can be answered from it alone"
        )
    return row


def _start_generation(session: Session, body: GuideDataset) -> Json:
    name = re.sub(r"[^\w-]+", "-", body.name, flags=re.ASCII)[:80].strip("-") or "dataset"
    sent_items.export(session)
    path, corpus = session.folder.new_testset(name), session.folder.corpus
    if not corpus.is_file():
        raise ConfigError(
            f"{session.owner or 'the default client'} has no documents yet; send them to /ingest "
            "with a key of this client, or with its name as X-Tenant-Id"
        )
    size, strategy = body.sample_size, body.chunk_sample_strategy
    options = ["--seed=0", f"--name={body.name}"]
    if os.environ.get("RAG_EVAL_PROVIDER"):
        command = ["generate", str(corpus), f"--output={path.with_suffix('')}", "--llm=env"]
        command += [f"--questions={size}", f"--sample={strategy}"]
    elif strategy == "random":
        output = f"--output={path.with_suffix('.yaml')}"
        command = ["draft", f"--docs={corpus}", f"--limit={size}", output]
    else:
        raise ConfigError(
            f"the strategy {strategy!r} needs a language model; set RAG_EVAL_PROVIDER, or choose "
            "random"
        )
    return submit(session, ["testset", *command, *options], name)


@router.get("/datasets")
def list_datasets(session: Reader) -> list[Json]:
    """List the data sets of a client; an all-clients key without a client sees every client's."""
    return dataset_rows(session)


@router.post("/runs")
async def create_run(session: Runner, body: GuideRun, wait: Wait = 300) -> Json:
    """Evaluate the default system of the data set's client at depth k, by the targets of the guide.

    mrr is the mean reciprocal rank of the first relevant document; faithfulness the judge's, null
    unless RAG_EVAL_PROVIDER names one for the server; claim_support a heuristic by wording, which is
    no faithfulness. null = not measured.
    """
    owner, path = await run_in_threadpool(_testset, session, body.dataset_id)
    fields = {"dataset": testset_name(path), "ks": [body.k], "preset": "guide"}
    judge = {"judge": bool(os.environ.get("RAG_EVAL_PROVIDER")), "criteria": ["faithfulness"]}
    job = await run_job(owner, RunBody.model_validate(fields | judge), wait)
    _check_done(job)
    [row] = await run_in_threadpool(_runs, owner, _RUNS.c.record == job["run"])
    return row


@router.get("/runs")
def list_runs(
    session: Reader,
    dataset_id: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    limit: Limit = 50,
) -> list[Json]:
    """List the newest runs."""
    values = {"dataset_id": dataset_id, "client_id": session.client}
    where = [_RUNS.c[name] == value for name, value in values.items() if value is not None]
    return _runs(session, *where, limit=limit)


def _check_done(job: Json) -> None:
    if job["state"] in ("waiting", "running"):
        raise HTTPException(
            504, f"job {job['id']} is still {job['state']}; see /api/v1/jobs/{job['id']}"
        )
    if job["state"] != "done":
        raise HTTPException(422, job["output"].strip()[-500:])


def _testset(session: Session, number: int) -> tuple[Session, Path]:
    """Return the session of the client of the test set with a number, and its path."""
    query = select(dataset.c.client_id, dataset.c.name).where(dataset.c.id == number)
    for row in read_rows(session.database, query):
        if session.client in (None, row.client_id):
            owner = session.of(row.client_id)
            for path in owner.folder.testsets().values():
                if load(path).name == row.name:
                    return owner, path
    raise HTTPException(
        404, f"there is no dataset {number}; GET /api/v1/evaluation/datasets lists them"
    )


def _runs(session: Session, *where: Any, limit: int = 1) -> list[Json]:
    query = select(_RUNS.c.id.label("run_id"), *(_RUNS.c[name] for name in _COLUMNS)).where(*where)
    query = query.order_by(_RUNS.c.created_at.desc(), _RUNS.c.id).limit(limit)
    rows = [row._asdict() for row in read_rows(session.database, query)]
    return [{**row, "created_at": iso_time(row["created_at"])} for row in rows]
