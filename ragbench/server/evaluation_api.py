"""/evaluation/... and /ingest: an interface that other programs were written for, over the same functions."""

from __future__ import annotations

import math
import re
from statistics import fmean
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from ragbench.datasets.testsets.edits import remove_case
from ragbench.datasets.testsets.validation import derived_id
from ragbench.errors import DataError
from ragbench.evaluation import load_result
from ragbench.history import history
from ragbench.server.api import CASES, Reader, Runner, add_record, change_record, holder_of, start_run
from ragbench.server.bodies import RunBody, Text, Word
from ragbench.server.folders import Folder, cases_in, folder_of
from ragbench.server.results import cases_of, job_document, known, place_of_run, records, run_row, waited

Tenant = Annotated[str | None, Header(alias="X-Tenant-Id", max_length=80, description="The key's own client.")]
_FIELDS = {
    "query_id": "id", "text": "question", "reference_answer": "expectedAnswer", "category": "category",
    "required_keywords": "requiredKeywords",
}  # fmt: skip
_MEASURES = {
    "averageAccuracy": "overall", "averageSemanticSimilarity": "semantic_similarity",
    "averageKeywordMatch": "required_keywords", "averageCitationAccuracy": "citation_accuracy",
    "hallucinationRate": "overall_hallucination", "passRate": "pass_rate",
}  # fmt: skip
_CASE_MEASURES = {
    "semanticSimilarityScore": "semantic_similarity", "keywordMatchScore": "required_keywords",
    "citationAccuracyScore": "citation_accuracy", "hallucinationScore": "overall_hallucination",
    "overallScore": "overall",
}  # fmt: skip
_MEANING = """averageAccuracy is the mean of overallScore, the weighted overall of each answer (measure `overall`); \
averageSemanticSimilarity is `semantic_similarity` to the expected answer, uncalibrated; averageKeywordMatch the \
fraction of required keywords in the answer; averageCitationAccuracy `citation_accuracy`; hallucinationRate the mean \
of 1 - claim support, a heuristic unless a judge was asked; costs are US dollars, null where a price is not known; \
averageResponseTimeMs is the time until the answer. null = not measured."""

router = APIRouter(tags=["evaluation"])


class CaseBody(BaseModel):
    """A test case; fields that are left out of a PUT stay as they are."""

    id: Annotated[str, Field(min_length=1, max_length=190)] | None = None
    question: Annotated[str, Field(min_length=1, examples=["How do I reset my password?"])] | None = None
    expectedAnswer: str | None = None  # noqa: N815
    requiredKeywords: list[str] | None = None  # noqa: N815
    expectedDocumentId: str | None = None  # noqa: N815
    category: str | None = None

    def record(self) -> dict[str, Any]:
        """The fields that were given, as ragbench names them."""
        given = self.model_dump(exclude_unset=True)
        record = {own: given[name] for own, name in _FIELDS.items() if name in given}
        if "expectedDocumentId" in given:
            document = given["expectedDocumentId"]
            record["relevant"] = {document: 1} if document else {}
        return record


class ConfigBody(BaseModel):
    """Which parts decide about an answer, and from which score on; one that is switched off lets every answer pass."""

    minSemanticSimilarity: float = Field(0.7, ge=0, le=1)  # noqa: N815
    minKeywordMatch: float = Field(0.6, ge=0, le=1)  # noqa: N815
    minCitationAccuracy: float = Field(0.8, ge=0, le=1)  # noqa: N815
    maxHallucinationRate: float = Field(1.0, ge=0, le=1)  # noqa: N815
    useSemanticEvaluation: bool = True  # noqa: N815
    useKeywordEvaluation: bool = True  # noqa: N815
    useLlmAsJudge: bool = Field(False, description="The judge then decides about hallucination.")  # noqa: N815


class EvaluationBody(BaseModel):
    """An evaluation of the cases of this interface."""

    name: Annotated[Text, Field(max_length=60)] = "evaluation"
    category: Word | None = None
    config: ConfigBody = Field(default_factory=lambda: ConfigBody.model_validate({}))

    def run(self) -> RunBody:
        """The same as a body of /api/v1/runs."""
        own = self.config
        thresholds = {
            "semantic": own.minSemanticSimilarity if own.useSemanticEvaluation else 0,
            "keyword": own.minKeywordMatch if own.useKeywordEvaluation else 0,
            "citation": own.minCitationAccuracy,
            "llm_hallucination" if own.useLlmAsJudge else "hallucination": own.maxHallucinationRate,
        }
        run = {"dataset": CASES, "series": self.name, "thresholds": thresholds, "judge": own.useLlmAsJudge}
        return RunBody.model_validate({**run, "categories": [self.category] if self.category else []})


class DocumentBody(BaseModel):
    """A document for the retriever."""

    documentId: Annotated[str, Field(min_length=1, max_length=500)]  # noqa: N815
    text: Annotated[str, Field(min_length=1)]


def _case(record: dict[str, Any]) -> dict[str, Any]:
    documents = [doc_id for doc_id, grade in record.get("relevant", {}).items() if grade > 0]
    shown = {name: record.get(own, [] if own == "required_keywords" else "") for own, name in _FIELDS.items()}
    return {**shown, "expectedDocumentId": documents[0] if documents else ""}


def _records(folder: Folder) -> dict[str, dict[str, Any]]:
    """The cases of this interface, by id."""
    return cases_in(folder.testset(CASES)) if CASES in folder.testsets() else {}


@router.get("/evaluation/test-cases")
def list_cases(request: Request, caller: Reader, category: str = "", tenant: Tenant = None) -> list[dict[str, Any]]:
    """The test cases: those of the data set `test-cases`."""
    found = _records(folder_of(request, caller.reads(tenant))).values()
    return [_case(record) for record in found if category in ("", record.get("category", ""))]


@router.post("/evaluation/test-cases", status_code=201)
def create_case(request: Request, caller: Runner, body: CaseBody, tenant: Tenant = None) -> dict[str, Any]:
    """Add a test case; without `id` it gets one made from its question."""
    record = {name: value for name, value in body.record().items() if value is not None}
    if "text" not in record:
        raise HTTPException(422, "question is missing")
    record.setdefault("query_id", derived_id(record["text"]))
    return _case(add_record(folder_of(request, caller.writes(tenant)), CASES, record))


@router.get("/evaluation/test-cases/{case_id}")
def one_case(request: Request, caller: Reader, case_id: str, tenant: Tenant = None) -> dict[str, Any]:
    """A test case."""
    if (record := _records(folder_of(request, caller.reads(tenant))).get(case_id)) is None:
        raise HTTPException(404, "there is no such case")
    return _case(record)


@router.put("/evaluation/test-cases/{case_id}")
def change_case(
    request: Request, caller: Runner, case_id: str, body: CaseBody, tenant: Tenant = None
) -> dict[str, Any]:
    """Change the fields that are given; the id stays."""
    folder = folder_of(request, caller.writes(tenant))
    fields = {name: value for name, value in body.record().items() if name != "query_id"}
    return _case(change_record(folder, holder_of(folder, case_id, CASES), case_id, fields))


@router.delete("/evaluation/test-cases/{case_id}", status_code=204)
def delete_case(request: Request, caller: Runner, case_id: str, tenant: Tenant = None) -> None:
    """Remove a test case."""
    folder = folder_of(request, caller.writes(tenant))
    remove_case(folder.testset(holder_of(folder, case_id, CASES)), case_id, force=True)


@router.post("/evaluation/run")
async def run(
    request: Request, caller: Runner, body: EvaluationBody, tenant: Tenant = None,
    wait: Annotated[int, Query(ge=0, le=600, description="Seconds to wait for the result.")] = 300,
) -> dict[str, Any]:  # fmt: skip
    """Evaluate the test cases. Where it takes longer than `wait` the status is RUNNING, and `id` that of its job."""
    client = caller.writes(tenant)
    job = await run_in_threadpool(start_run, request, caller, body.run(), "", tenant)
    job = await waited(request, job["id"], client, wait)
    return await run_in_threadpool(_of_job, request, job, client)


def _of_job(request: Request, job: dict[str, Any], client: str | None) -> dict[str, Any]:
    if job["run"]:
        return _summary(run_row(request, job["run"], client)[0])
    status = {"waiting": "PENDING", "running": "RUNNING", "cancelled": "CANCELLED"}.get(job["state"], "FAILED")
    counts = dict.fromkeys(("totalTestCases", "passedTestCases", "failedTestCases"), 0)
    message = job["output"].strip() or f"the job is {job['state']}"
    return {"id": job["id"], "name": job["series"], "status": status, **counts, "passRate": 0.0, "message": message}


def _summary(row: dict[str, Any]) -> dict[str, Any]:
    total, passed = row["questions"], row["questions_passed"] or 0
    return {
        "id": row["id"], "name": row["series"], "status": "COMPLETED", "totalTestCases": total,
        "passedTestCases": passed, "failedTestCases": total - passed, "passRate": passed / total if total else 0.0,
        "message": f"{passed} of {total} test cases passed", "createdAt": row["made_at"],
    }  # fmt: skip


@router.get("/evaluation/runs")
def list_runs(
    request: Request, caller: Reader, limit: Annotated[int, Query(ge=1, le=1000)] = 50, tenant: Tenant = None
) -> list[dict[str, Any]]:
    """The newest runs."""
    found = history(limit=limit, client=caller.reads(tenant), database=request.app.state.database)
    return [_summary(row) for row in records(found.rename(columns={"run": "id"}))]


@router.get("/evaluation/runs/{run_id}", description=f"A run, by its id or that of its job. {_MEANING}")
def one_run(request: Request, caller: Reader, run_id: str, tenant: Tenant = None) -> dict[str, Any]:
    """A run with its metrics and results."""
    client = caller.reads(tenant)
    try:
        row, scores = run_row(request, run_id, client)
    except HTTPException:
        job = job_document(request, run_id, client)
        if not job["run"]:
            return {**_of_job(request, job, client), "metrics": None, "results": []}
        row, scores = run_row(request, job["run"], client)
    cases, times = cases_of(request, row), _times(request, row)
    own = _records(folder_of(request, row["client_id"])) if row["dataset"] == CASES else {}
    expected = {case_id: record.get("reference_answer") for case_id, record in own.items()}
    return {
        **_summary(row), "metrics": _metrics(row, scores, times), "results": [{
            "testCaseId": case["query_id"], "question": case["question"],
            "expectedAnswer": expected.get(case["query_id"]), "actualAnswer": case["answer"],
            **{name: case["scores"].get(measure) for name, measure in _CASE_MEASURES.items()},
            "passed": case["passed"], "responseTimeMs": times.get(case["query_id"]),
        } for case in cases],
    }  # fmt: skip


def _times(request: Request, row: dict[str, Any]) -> dict[str, float]:
    """Milliseconds until the answer, by case; where the files of the run are there."""
    place = place_of_run(request, row)
    try:
        answers = load_result(place).answers if place is not None else ()
    except DataError:
        answers = ()
    found = {answer.query_id: (answer.latency_ms or {}).get("total") for answer in answers}
    return {query_id: round(value, 3) for query_id, value in found.items() if value is not None}


def _metrics(row: dict[str, Any], scores: Any, times: dict[str, float]) -> dict[str, Any]:
    means = dict(zip(scores["measure"], map(known, scores["mean"]), strict=True)) if len(scores) else {}
    cost = row["cost_usd"]
    return {
        **{name: means.get(measure) for name, measure in _MEASURES.items()},
        "averageResponseTimeMs": round(fmean(times.values()), 3) if times else None,
        "averageCostPerQuery": None if cost is None else cost / max(1, row["questions"]), "totalCost": cost,
    }  # fmt: skip


@router.get("/evaluation/metrics", description=f"Means over the newest 50 runs, and the newest run's. {_MEANING}")
def metrics(request: Request, caller: Reader, tenant: Tenant = None) -> dict[str, Any]:
    """Metrics over runs."""
    client = caller.reads(tenant)
    found = history(limit=50, client=client, database=request.app.state.database)
    runs = []
    for run_id in found["run"]:
        row, scores = run_row(request, run_id, client)
        runs.append(_metrics(row, scores, _times(request, row)))
    names = runs[0] if runs else {}
    values = {name: [run[name] for run in runs if run[name] is not None] for name in names}
    total = math.fsum(values.get("totalCost", ()))
    means = {name: fmean(each) if each else None for name, each in values.items()} | {"totalCost": total}
    return {"totalRuns": len(runs), **means, "latest": runs[0] if runs else None}


@router.post("/ingest", status_code=201, tags=["documents"], responses={200: {"description": "It was replaced."}})
def ingest(
    request: Request, caller: Runner, body: DocumentBody, response: Response, tenant: Tenant = None
) -> dict[str, Any]:
    """Add a document, or replace the one of this id; data sets without documents are evaluated with these."""
    client = caller.writes(tenant)
    if not folder_of(request, client).ingest(body.documentId, body.text):
        response.status_code = 200
    words = len(re.findall(r"\w+", body.text))
    return {"documentId": body.documentId, "tenantId": client, "status": "INGESTED", "words": words}
