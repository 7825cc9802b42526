"""/evaluation/... and /ingest, an interface that other programs were written for (preset phase4):
single test cases, runs, metrics and documents, with the names of its fields.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated

import pandas as pd
from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from ragbench.datasets.jsonl import json_line
from ragbench.datasets.raw_records import document_line
from ragbench.errors import DataError
from ragbench.evaluation import Result, load_result
from ragbench.language import n_words
from ragbench.service import sent_items
from ragbench.service.access import TENANT, Session, needs
from ragbench.service.api import Limit, Wait, run_job
from ragbench.service.bodies import Body, RunBody, Text, Word
from ragbench.service.folders import CASES
from ragbench.service.history_database import Json, timestamp
from ragbench.service.recorded_runs import newest_decided, newest_means
from ragbench.service.responses import (
    cases_of,
    decided_of,
    files_of_run,
    job_document,
    records,
    result_of_run,
    run_row,
)
from ragbench.testsets.cases import derived_id
from ragbench.testsets.edits import record_entry
from ragbench.testsets.fields import without_none
from ragbench.types import Document

Reader = Annotated[Session, needs("reader", TENANT)]
Runner = Annotated[Session, needs("runner", TENANT)]
Fraction = Annotated[float, Field(ge=0, le=1)] | None
_MEASURES = {
    "averageAccuracy": "overall",
    "averageSemanticSimilarity": "semantic_similarity",
    "averageKeywordMatch": "required_keywords",
    "averageCitationAccuracy": "expected_document",
    "passRate": "pass_rate",
}
_HALLUCINATION = {"judge": "overall_llm_hallucination", "heuristic": "overall_hallucination"}
_FACTS = {"judge": "invented_claims", "heuristic": "unsupported_claims"}
_CASE_MEASURES = {
    "semanticSimilarityScore": "semantic_similarity",
    "keywordMatchScore": "required_keywords",
    "citationAccuracyScore": "expected_document",
    "overallScore": "overall",
}
_CASE_COUNTS = ("totalTestCases", "passedTestCases", "failedTestCases", "undecidedTestCases")
_MEANING = """averageAccuracy is the mean of overallScore, the weighted overall of each answer (measure `overall`); \
averageSemanticSimilarity is `semantic_similarity` to the expected answer, uncalibrated; averageKeywordMatch the \
fraction of required keywords in the answer; averageCitationAccuracy the fraction of answers whose context held \
the expected document; hallucinationRate the mean of 1 - faithfulness by the judge (hallucinationSource "judge") \
where one was asked, else of 1 - claim support ("heuristic"), and a mean over runs is of one source only; \
undecidedTestCases are neither passed nor failed, as no label decides them, and passRate is the fraction \
passed of the others; hallucinatedFacts are the claims that the judge, or else the heuristic, found unsupported; \
costs are US dollars, \
null where a price is not known; averageResponseTimeMs is the time until the answer. null = not measured."""

router = APIRouter(tags=["evaluation"])


class CaseBody(Body):
    """A test case; fields that are left out of a PUT stay as they are."""

    id: Annotated[str, Field(min_length=1, max_length=190)] | None = None
    question: Annotated[str, Field(min_length=1)] | None = Field(
        None, examples=["How do I reset my password?"]
    )
    expectedAnswer: str | None = ""  # noqa: N815
    requiredKeywords: list[str] | None = Field([])  # noqa: N815
    expectedDocumentId: str | None = ""  # noqa: N815
    category: str | None = ""


class ConfigBody(Body):
    """Which parts count, and from which score on; one that is switched off neither decides nor is
    in the overall.
    """

    minSemanticSimilarity: Fraction = None  # noqa: N815
    """Default: 0.7."""
    minKeywordMatch: Fraction = None  # noqa: N815
    """Default: 0.6."""
    minCitationAccuracy: Fraction = None  # noqa: N815
    """Default: 0.8, of 1 where the context of the answer held the expected document, else 0."""
    maxHallucinationRate: Fraction = None  # noqa: N815
    """Default: 0.2, by the judge. Without useLlmAsJudge a heuristic decides, where a limit is sent."""
    useSemanticEvaluation: bool = True  # noqa: N815
    useKeywordEvaluation: bool = True  # noqa: N815
    useLlmAsJudge: bool = False  # noqa: N815
    """The judge then decides about hallucination."""


class EvaluationBody(Body):
    """An evaluation of the cases of this interface."""

    name: Annotated[Text, Field(max_length=60)] = "evaluation"
    category: Word | None = None
    config: ConfigBody = Field(default_factory=lambda: ConfigBody.model_validate({}))

    def run(self) -> RunBody:
        """Return this evaluation as a body of /api/v1/runs."""
        config = self.config
        hallucination = "llm_hallucination" if config.useLlmAsJudge else "hallucination"
        thresholds = without_none(
            {
                "semantic": config.minSemanticSimilarity,
                "keyword": config.minKeywordMatch,
                "expected_document": config.minCitationAccuracy,
                hallucination: config.maxHallucinationRate,  # a maximum, as lower is better
            }
        )
        unused = []
        if not config.useSemanticEvaluation:
            unused.append("semantic")
        if not config.useKeywordEvaluation:
            unused.append("keyword")
        # a threshold of 0 always passes, and a weight of 0 counts nothing
        without_part = dict.fromkeys(unused, 0.0)
        thresholds |= without_part
        fields = {
            "dataset": CASES,
            "series": self.name,
            "preset": "phase4",  # the thresholds of this interface, in evaluation/presets.toml
            "criteria": ["faithfulness"],
            "thresholds": thresholds,
            "weights": without_part,
            "judge": config.useLlmAsJudge,
            "categories": [self.category] if self.category else [],
        }
        return RunBody.model_validate(fields)


class DocumentBody(Body):
    """A document for the retriever."""

    documentId: Annotated[str, Field(min_length=1, max_length=500)]  # noqa: N815
    text: Annotated[str, Field(min_length=1)]


def _case_of_line(line: str) -> Json:
    """Return a case as this interface shows it, from its line; a field that it lacks is empty."""
    record = json.loads(line)
    empty = CaseBody.model_validate({}).model_dump()
    return {**empty, "id": record.pop("query_id"), **record}


def _line_of_case(record: Json) -> str:
    """Return the line of a case, which a test set may have; empty fields are left out."""
    fields = {name: value for name, value in record.items() if value and name != "id"}
    line = {"query_id": record["id"], **fields}
    record_entry(line)
    return json_line(line)


@router.get("/evaluation/test-cases")
def list_cases(
    session: Reader,
    category: str = "",
    limit: Annotated[int, Query(ge=1, le=sent_items.MAX_ITEMS)] = sent_items.MAX_ITEMS,
) -> list[Json]:
    """List the test cases of the data set `test-cases`, in the order in which they came."""
    if not category:
        lines = sent_items.lines(session, sent_items.CASE, limit=limit)
        return [_case_of_line(line) for line in lines]
    # the category is within the stored line, so all cases are read to filter by it
    all_cases = map(
        _case_of_line, sent_items.lines(session, sent_items.CASE, limit=sent_items.MAX_ITEMS)
    )
    of_category = (case for case in all_cases if case["category"] == category)
    return list(islice(of_category, limit))


@router.post("/evaluation/test-cases", status_code=201)
def create_case(session: Runner, body: CaseBody) -> Json:
    """Add a test case; without `id` it gets one made from its question."""
    if not body.question:
        raise HTTPException(422, "question is missing")
    case_id = body.id or derived_id(body.question)
    line = _line_of_case({**body.model_dump(), "id": case_id})
    if not sent_items.add(session, sent_items.CASE, case_id, line):
        raise HTTPException(409, "there is a case of this id already")
    return _case_of_line(line)


@router.get("/evaluation/test-cases/{case_id}")
def read_case(session: Reader, case_id: str) -> Json:
    """Read a test case."""
    for line in sent_items.lines(session, sent_items.CASE, case_id):
        return _case_of_line(line)
    raise HTTPException(404, "there is no such case")


@router.put("/evaluation/test-cases/{case_id}")
def update_case(session: Runner, case_id: str, body: CaseBody) -> Json:
    """Change the fields that are given; the id stays."""

    def changed(line: str) -> str:
        return _line_of_case(
            {**_case_of_line(line), **body.model_dump(exclude_unset=True), "id": case_id}
        )

    return _case_of_line(sent_items.change(session, sent_items.CASE, case_id, changed))


@router.delete("/evaluation/test-cases/{case_id}", status_code=204)
def delete_case(session: Runner, case_id: str) -> None:
    """Remove a test case."""
    if not sent_items.remove(session, sent_items.CASE, case_id):
        raise HTTPException(404, "there is no such case")


@router.post("/evaluation/run")
async def create_run(session: Runner, body: EvaluationBody, wait: Wait = 300) -> Json:
    """Evaluate the test cases. If it takes longer than `wait`, the status is running, and `id` is
    the id of its job.
    """
    job = await run_job(session, body.run(), wait)
    return await run_in_threadpool(_job_summary, session, job)


def _job_summary(session: Session, job: Json) -> Json:
    """Return a job as the interface shows it: the summary of its run; if it has no run (yet), its state, with
    counts of 0.
    """
    if job["run"]:
        row, _ = run_row(session, job["run"])
        return _summary_of_run(session, row)
    return {
        "id": job["id"],
        "name": job["series"],
        # a job that is done and has recorded no run has failed
        "status": {"waiting": "pending", "done": "failed"}.get(job["state"], job["state"]),
        **dict.fromkeys(_CASE_COUNTS, 0),
        "passRate": None,
        "message": job["output"].strip() or f"the job is {job['state']}",
        "startedAt": job["due_at"],
        "completedAt": job["ended_at"],
        **dict.fromkeys(("averageResponseTimeMs", "averageCostPerQuery", "totalCost")),  # None
    }


def _summary_of_run(session: Session, row: Json) -> Json:
    """Return a single run in the fields of the interface."""
    decided = decided_of([row["id"]], session.database)
    return _summary(session, row, decided.get(row["id"], 0))


def _summary(session: Session, row: Json, decided: int) -> Json:
    """Return a run in the fields of the interface; `decided` questions of it passed or failed."""
    total, passed = row["questions"], row["questions_passed"] or 0
    message = f"Evaluation completed: {passed}/{total} passed"
    if decided < total:
        message += f", {total - decided} not decided"
    started = datetime.fromisoformat(row["made_at"]) - timedelta(seconds=row["seconds"] or 0)
    return {
        "id": row["id"],
        "name": row["series"],
        "status": "completed",
        "totalTestCases": total,
        "passedTestCases": passed,
        "failedTestCases": decided - passed,
        "undecidedTestCases": total - decided,
        "passRate": passed / decided if decided else None,
        "message": message,
        "startedAt": timestamp(started),
        "completedAt": row["made_at"],
        **_spent(row, _response_ms(session, row)),
    }


@router.get("/evaluation/runs")
def list_runs(session: Reader, limit: Limit = 50) -> list[Json]:
    """List the newest runs."""
    newest = newest_decided(limit=limit, **session.scope)
    return [_summary(session, row, decided) for row, decided in newest]


@router.get(
    "/evaluation/runs/{run_id}", description=f"A run, by its id or the id of its job. {_MEANING}"
)
def read_run(session: Reader, run_id: str) -> Json:
    """Read a run with its metrics, and the result of each case. What is not known is None, such as an
    expected answer.
    """
    try:
        row, scores = run_row(session, run_id)
    except HTTPException:  # not the id of a run: of a job?
        job = job_document(session, run_id)
        if not job["run"]:
            return {**_job_summary(session, job), "metrics": None, "results": []}
        row, scores = run_row(session, job["run"])
    result = result_of_run(session, row)
    times = _response_times(result)
    expected_answers = _expected_answers(session, row)
    source = _hallucination_source(row)  # "judge" or "heuristic"
    results = []
    for case in cases_of(session, row, result):
        query_id = case["query_id"]
        case_result = _case_result(case, source, expected_answers.get(query_id))
        case_result["responseTimeMs"] = times.get(query_id)
        results.append(case_result)
    means = {score["measure"]: score["mean"] for score in records(scores)}
    metrics = _metrics(row, means, _mean(times))
    return {**_summary_of_run(session, row), "metrics": metrics, "results": results}


def _expected_answers(session: Session, row: Json) -> dict[str, str | None]:
    """Return query id -> the expected answer of the cases that were sent one by one; {} for a run of
    another data set.
    """
    if row["dataset"] != CASES:
        return {}
    owner = session.of(row["client_id"])
    answers = {}
    for line in sent_items.lines(owner, sent_items.CASE):
        case = json.loads(line)
        answers[case["query_id"]] = case.get("expectedAnswer")
    return answers


def _case_result(case: Json, source: str, expected_answer: str | None) -> Json:
    """Return the result of a case in the fields of the interface, without its response time.

    `source` is who measured its hallucination: "judge" or "heuristic".
    """
    scores = case["scores"]
    return {
        "testCaseId": case["query_id"],
        "question": case["question"],
        "expectedAnswer": expected_answer,
        "actualAnswer": case["answer"],
        **{field: scores.get(measure) for field, measure in _CASE_MEASURES.items()},
        "hallucinationScore": scores.get(_HALLUCINATION[source]),
        "hallucinatedFacts": case.get(_FACTS[source], []),
        "passed": case["passed"],
        "failureReason": "; ".join(case.get("reasons", ())) or None,
    }


def _hallucination_source(row: Json) -> str:
    """Return who measured the hallucination of a run: "judge" where one was asked, else "heuristic"."""
    is_judged = json.loads(row["parameters"])["settings"].get("judge")
    return "judge" if is_judged else "heuristic"


def _response_times(result: Result | None) -> dict[str, float]:
    """Return the milliseconds until each answer, by case; {} if the files of the run are gone."""
    times = {}
    for answer in result.answers if result else ():
        total_ms = answer.latency_ms.get("total")
        if total_ms is not None:
            times[answer.query_id] = round(total_ms, 3)
    return times


def _mean(times: Mapping[str, float]) -> float | None:
    """Return the mean time; None if there is no time."""
    if not times:
        return None
    return round(sum(times.values()) / len(times), 3)


@lru_cache(maxsize=1000)
def _mean_time(folder: Path, content: str) -> float | None:
    """Return the mean time until an answer, read once while the files are the same."""
    return _mean(_response_times(load_result(folder)))


def _metrics(row: Json, means: Json, response_ms: float | None) -> Json:
    """Return the means of a run in the fields of the interface."""
    source = _hallucination_source(row)
    return {
        **{field: means.get(measure) for field, measure in _MEASURES.items()},
        "hallucinationRate": means.get(_HALLUCINATION[source]),
        "hallucinationSource": source,
        **_spent(row, response_ms),
    }


def _spent(row: Json, response_ms: float | None) -> Json:
    """Return the time and the US dollars that the answers of a run took; None if they are not known."""
    cost = row["cost_usd"]
    return {
        "averageResponseTimeMs": response_ms,
        "averageCostPerQuery": None if cost is None else cost / max(1, row["questions"]),
        "totalCost": cost,
    }


def _response_ms(session: Session, row: Json) -> float | None:
    """Return the mean time until an answer of a run, where its files are there."""
    with suppress(DataError, OSError):
        if folder := files_of_run(session, row):
            return _mean_time(folder, row["content"])
    return None


@router.get(
    "/evaluation/metrics",
    description=f"Means over the newest 50 runs, and the newest run's. {_MEANING}",
)
def metrics(session: Reader) -> Json:
    """Read metrics over runs."""
    measures = [*_MEASURES.values(), *_HALLUCINATION.values()]
    newest = newest_means(measures, limit=50, **session.scope)
    runs = [_metrics(row, means, _response_ms(session, row)) for row, means in newest]
    if not runs:
        return {"totalRuns": 0, "totalCost": 0.0, "latest": None}
    frame = pd.DataFrame(runs)
    sources = frame.pop("hallucinationSource")  # "judge" or "heuristic" for each run
    numbers = frame.astype(float)
    rates = numbers["hallucinationRate"].groupby(sources).agg(rate="mean", runs="count")
    rates_of_source = {}
    for row in records(rates.reset_index()):
        rates_of_source[row.pop("hallucinationSource")] = row
    # the mean over all runs is of one source only: the judge's, if any run has one
    source = "judge" if "judge" in set(sources) else "heuristic"
    numbers.loc[sources != source, "hallucinationRate"] = None
    [means] = records(numbers.mean().to_frame().T)
    return {
        "totalRuns": len(runs),
        **means,
        "hallucinationSource": source,
        "hallucinationBySource": rates_of_source,
        "totalCost": numbers["totalCost"].sum(),
        "latest": runs[0],
    }


@router.post(
    "/ingest",
    status_code=201,
    tags=["documents"],
    responses={200: {"description": "It was replaced."}},
)
def ingest(session: Runner, body: DocumentBody, response: Response) -> Json:
    """Add a document, or replace the one of this id; data sets without documents are evaluated with
    these.
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")
    document = Document(body.documentId, body.text, metadata={"date": date})
    line = json_line(document_line(document))
    if not sent_items.add(session, sent_items.DOCUMENT, body.documentId, line):
        sent_items.change(session, sent_items.DOCUMENT, body.documentId, lambda _: line)
        response.status_code = 200
    words = round(n_words(body.text))
    return {
        "documentId": body.documentId,
        "tenantId": session.owner,
        "status": "INGESTED",
        "words": words,
    }
