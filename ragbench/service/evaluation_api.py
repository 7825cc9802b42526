"""/evaluation/... and /ingest: an interface that other programs were written for, over the same functions."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timedelta
from statistics import fmean
from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from ragbench.evaluation import Result
from ragbench.service import history
from ragbench.service.api import CASES, Reader, Runner, add_record, change_record, holder_of, start_run
from ragbench.service.bodies import RunBody, Text, Word
from ragbench.service.folders import Folder, cases_in, folder_of
from ragbench.service.history_database import timestamp
from ragbench.service.results import cases_of, files_of_run, job_document, known, records, run_row, waited
from ragbench.testsets.edits import remove_case
from ragbench.testsets.validation import derived_id

Tenant = Annotated[str | None, Header(alias="X-Tenant-Id", max_length=80, description="The key's own client.")]
Limit = Annotated[float, Field(ge=0, le=1)] | None
_MEASURES = {
    "averageAccuracy": "overall", "averageSemanticSimilarity": "semantic_similarity",
    "averageKeywordMatch": "required_keywords", "averageCitationAccuracy": "expected_document", "passRate": "pass_rate",
}  # fmt: skip
_CASE_MEASURES = {
    "semanticSimilarityScore": "semantic_similarity", "keywordMatchScore": "required_keywords",
    "citationAccuracyScore": "expected_document", "overallScore": "overall",
}  # fmt: skip
_MEANING = """averageAccuracy is the mean of overallScore, the weighted overall of each answer (measure `overall`); \
averageSemanticSimilarity is `semantic_similarity` to the expected answer, uncalibrated; averageKeywordMatch the \
fraction of required keywords in the answer; averageCitationAccuracy the fraction of answers whose context held the \
expected document; hallucinationRate the mean of 1 - faithfulness by the judge where one was asked, else of 1 - claim \
support, a heuristic; hallucinatedFacts are the claims that the judge, or else the heuristic, found unsupported; costs \
are US dollars, null where a price is not known; averageResponseTimeMs is the time until the answer. null = not \
measured."""

router = APIRouter(tags=["evaluation"])


class CaseBody(BaseModel):
    """A test case; fields that are left out of a PUT stay as they are."""

    model_config = ConfigDict(extra="forbid")
    query_id: Annotated[str, Field(min_length=1, max_length=190)] | None = Field(None, alias="id")
    text: Annotated[str, Field(min_length=1)] | None = Field(
        None, alias="question", examples=["How do I reset my password?"]
    )
    reference_answer: str | None = Field(None, alias="expectedAnswer")
    required_keywords: list[str] | None = Field(None, alias="requiredKeywords")
    relevant: str | None = Field(None, alias="expectedDocumentId")
    category: str | None = None

    def record(self) -> dict[str, Any]:
        """The fields that were given, as ragbench names them."""
        record = self.model_dump(exclude_unset=True)
        if "relevant" in record:
            record["relevant"] = {record["relevant"]: 1} if record["relevant"] else {}
        return record


class ConfigBody(BaseModel):
    """Which parts count, and from which score on; one that is switched off neither decides nor is in the overall."""

    model_config = ConfigDict(extra="forbid")
    semantic: Limit = Field(None, alias="minSemanticSimilarity", description="Default: 0.7.")
    keyword: Limit = Field(None, alias="minKeywordMatch", description="Default: 0.6.")
    expected_document: Limit = Field(None, alias="minCitationAccuracy", description=(
        "Default: 0.8, of 1 where the context of the answer held the expected document, else 0."
    ))  # fmt: skip
    hallucination: Limit = Field(None, alias="maxHallucinationRate", description=(
        "Default: 0.2, by the judge. Without useLlmAsJudge a heuristic decides, and only where a limit is sent."
    ))  # fmt: skip
    use_semantic: bool = Field(True, alias="useSemanticEvaluation")
    use_keyword: bool = Field(True, alias="useKeywordEvaluation")
    judge: bool = Field(False, alias="useLlmAsJudge", description="The judge then decides about hallucination.")


class EvaluationBody(BaseModel):
    """An evaluation of the cases of this interface."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[Text, Field(max_length=60)] = "evaluation"
    category: Word | None = None
    config: ConfigBody = Field(default_factory=lambda: ConfigBody.model_validate({}))

    def run(self) -> RunBody:
        """The same as a body of /api/v1/runs."""
        config = self.config
        unused = [part for part in ("semantic", "keyword") if not getattr(config, f"use_{part}")]
        limits = {part: getattr(config, part) for part in ("semantic", "keyword", "expected_document")}
        limits["llm_hallucination" if config.judge else "hallucination"] = config.hallucination
        limits = {part: limit for part, limit in limits.items() if limit is not None} | dict.fromkeys(unused, 0)
        return RunBody.model_validate({
            "dataset": CASES, "series": self.name, "preset": "phase4", "thresholds": limits,
            "weights": dict.fromkeys(unused, 0), "judge": config.judge, "criteria": ["faithfulness"],
            "categories": [self.category] if self.category else [],
        })  # fmt: skip


class DocumentBody(BaseModel):
    """A document for the retriever."""

    model_config = ConfigDict(extra="forbid")
    documentId: Annotated[str, Field(min_length=1, max_length=500)]  # noqa: N815
    text: Annotated[str, Field(min_length=1)]


def _case(record: dict[str, Any]) -> dict[str, Any]:
    documents = [doc_id for doc_id, grade in record.get("relevant", {}).items() if grade > 0]
    shown = {field.alias or name: record.get(name, "") for name, field in CaseBody.model_fields.items()}
    return {**shown, "requiredKeywords": record.get("required_keywords", []), "expectedDocumentId": (*documents, "")[0]}


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
    status = {"waiting": "pending", "done": "failed"}.get(job["state"], job["state"])
    counts = dict.fromkeys(("totalTestCases", "passedTestCases", "failedTestCases"), 0)
    message = job["output"].strip() or f"the job is {job['state']}"
    return {"id": job["id"], "name": job["series"], "status": status, **counts, "passRate": 0.0, "message": message,
            "startedAt": job["due_at"], "completedAt": job["ended_at"]}  # fmt: skip


def _summary(row: dict[str, Any]) -> dict[str, Any]:
    total, passed = row["questions"], row["questions_passed"] or 0
    started = datetime.fromisoformat(row["made_at"]) - timedelta(seconds=row["seconds"] or 0)
    return {
        "id": row["id"], "name": row["series"], "status": "completed", "totalTestCases": total,
        "passedTestCases": passed, "failedTestCases": total - passed, "passRate": passed / total if total else 0.0,
        "message": f"Evaluation completed: {passed}/{total} passed", "startedAt": timestamp(started),
        "completedAt": row["made_at"],
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
    result, (measure, facts) = files_of_run(request, row), _hallucination(row)
    times = _times(result)
    own = _records(folder_of(request, row["client_id"])) if row["dataset"] == CASES else {}
    expected = {case_id: record.get("reference_answer") for case_id, record in own.items()}
    return {
        **_summary(row), "metrics": _metrics(row, scores, times), "results": [{
            "testCaseId": case["query_id"], "question": case["question"],
            "expectedAnswer": expected.get(case["query_id"]), "actualAnswer": case["answer"],
            **{name: case["scores"].get(own) for name, own in _CASE_MEASURES.items()},
            "hallucinationScore": case["scores"].get(measure), "hallucinatedFacts": case.get(facts, []),
            "passed": case["passed"], "failureReason": "; ".join(case.get("reasons", ())) or None,
            "responseTimeMs": times.get(case["query_id"]),
        } for case in cases_of(request, row, result)],
    }  # fmt: skip


def _hallucination(row: dict[str, Any]) -> tuple[str, str]:
    """The measure that hallucination is read from, and the field of a case with the facts: the judge's if asked."""
    if json.loads(row["parameters"])["settings"].get("judge"):
        return "overall_llm_hallucination", "invented_claims"
    return "overall_hallucination", "unsupported_claims"


def _times(result: Result | None) -> dict[str, float]:
    """Milliseconds until the answer, by case; where the files of the run are there."""
    totals = {answer.query_id: answer.latency_ms.get("total") for answer in result.answers} if result else {}
    return {query_id: round(total, 3) for query_id, total in totals.items() if total is not None}


def _metrics(row: dict[str, Any], scores: Any, times: dict[str, float]) -> dict[str, Any]:
    means = dict(zip(scores["measure"], map(known, scores["mean"]), strict=True)) if len(scores) else {}
    cost = row["cost_usd"]
    return {
        **{name: means.get(measure) for name, measure in _MEASURES.items()},
        "hallucinationRate": means.get(_hallucination(row)[0]),
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
        runs.append(_metrics(row, scores, _times(files_of_run(request, row))))
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
