"""Every request of the two interfaces that other programs were written for, as they send it."""

from __future__ import annotations

import pytest

from tests.server.conftest import CASES, DOCUMENTS, Call

METRICS = {
    "averageAccuracy", "averageSemanticSimilarity", "averageKeywordMatch", "averageCitationAccuracy",
    "hallucinationRate", "averageResponseTimeMs", "averageCostPerQuery", "totalCost", "passRate",
}  # fmt: skip
RESULT = {
    "testCaseId", "question", "expectedAnswer", "actualAnswer", "semanticSimilarityScore", "keywordMatchScore",
    "citationAccuracyScore", "hallucinationScore", "overallScore", "passed", "responseTimeMs",
}  # fmt: skip
CONFIG = {
    "minSemanticSimilarity": 0.1, "minKeywordMatch": 0.5, "minCitationAccuracy": 0.5, "maxHallucinationRate": 1,
    "useSemanticEvaluation": True, "useKeywordEvaluation": True, "useLlmAsJudge": False,
}  # fmt: skip


def test_documents_are_ingested_for_the_tenant_of_the_key(call: Call) -> None:
    body = {"documentId": "guide", "text": "How to start."}
    found = call("POST", "/ingest", body, headers={"X-Tenant-Id": "acme"}, status=201)
    assert (found["documentId"], found["tenantId"]) == ("guide", "acme")
    call("POST", "/ingest", body, status=200)
    call("POST", "/ingest", body, headers={"X-Tenant-Id": "other"}, status=404)
    call("POST", "/ingest", body, key="acme reader", status=403)
    call("POST", "/ingest", body, headers={"X-Tenant-Id": "acme"}, key="*", status=200)


def test_cases_are_made_read_changed_and_removed(call: Call) -> None:
    assert call("GET", "/evaluation/test-cases") == []
    made = [call("POST", "/evaluation/test-cases", case, status=201) for case in CASES]
    assert made == call("GET", "/evaluation/test-cases") == CASES
    assert call("GET", "/evaluation/test-cases?category=billing") == CASES[1:]
    changed = call("PUT", "/evaluation/test-cases/reset", {"question": "How?", "expectedDocumentId": "other"})
    assert (
        changed
        == call("GET", "/evaluation/test-cases/reset")
        == {**CASES[0], "question": "How?", "expectedDocumentId": "other"}
    )
    call("DELETE", "/evaluation/test-cases/reset", status=204)
    call("GET", "/evaluation/test-cases/reset", status=404)
    call("POST", "/evaluation/test-cases", {"category": "billing"}, status=422)
    without_id = call("POST", "/evaluation/test-cases", {"question": "Why so?"}, status=201)
    assert without_id["id"]


def test_a_run_has_the_fields_of_the_design(call: Call) -> None:
    for doc_id, text in DOCUMENTS.items():
        call("POST", "/ingest", {"documentId": doc_id, "text": text}, status=201)
    for case in CASES:
        call("POST", "/evaluation/test-cases", case, status=201)
    done = call("POST", "/evaluation/run", {"name": "Baseline, first", "config": CONFIG})
    assert {
        "id",
        "name",
        "status",
        "totalTestCases",
        "passedTestCases",
        "failedTestCases",
        "passRate",
        "message",
    } <= set(done)
    assert (done["status"], done["name"], done["totalTestCases"]) == ("COMPLETED", "Baseline, first", 2)
    found = call("GET", f"/evaluation/runs/{done['id']}")
    assert set(found["metrics"]) == METRICS
    assert all(set(row) == RESULT for row in found["results"])
    assert found["metrics"]["averageKeywordMatch"] == 1
    assert found["metrics"]["averageResponseTimeMs"] > 0
    assert found["results"][0]["expectedAnswer"] == CASES[0]["expectedAnswer"]
    assert [run["id"] for run in call("GET", "/evaluation/runs")] == [done["id"]]
    strict = {**CONFIG, "minSemanticSimilarity": 1, "useKeywordEvaluation": False}
    missed = call("POST", "/evaluation/run", {"name": "strict", "category": "billing", "config": strict})
    assert (missed["totalTestCases"], missed["passedTestCases"], missed["passRate"]) == (1, 0, 0)
    assert call("GET", "/evaluation/metrics")["totalRuns"] == 2
    call("GET", f"/evaluation/runs/{done['id']}", key="other", status=404)


def test_a_run_that_is_not_ready_is_found_by_its_job(call: Call) -> None:
    call("POST", "/evaluation/run", {"name": "none"}, status=404)
    call("POST", "/evaluation/test-cases", CASES[0], status=201)
    call("POST", "/evaluation/run", {"name": "judged", "config": {"useLlmAsJudge": True}}, status=422)
    begun = call("POST", "/evaluation/run?wait=0", {"name": "no documents"})
    assert begun["status"] in ("PENDING", "RUNNING", "FAILED")
    while (found := call("GET", f"/evaluation/runs/{begun['id']}"))["status"] in ("PENDING", "RUNNING"):
        pass
    assert found["status"] == "FAILED"
    assert found["results"] == []
    assert "ragbench" in found["message"]


def test_the_guide_generates_and_evaluates(filled: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    body = {"client_id": "acme", "name": "First set", "sample_size": 3, "chunk_sample_strategy": "random"}
    made = filled("POST", "/api/v1/evaluation/generate", body)
    assert (made["dataset_id"], made["name"], made["client_id"]) == ("First-set", "First set", "acme")
    assert set(made) == {"dataset_id", "name", "client_id", "qa_count", "created_at"}
    assert made["qa_count"] >= 1
    listed = filled("GET", "/api/v1/evaluation/datasets?client_id=acme")
    assert [row["dataset_id"] for row in listed] == ["First-set", "support"]
    run = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": "support", "k": 7})
    assert set(run) == {
        "run_id", "dataset_id", "precision_at_k", "recall_at_k", "mrr", "faithfulness", "k", "created_at"
    }  # fmt: skip
    assert (run["k"], run["recall_at_k"], run["mrr"]) == (7, 1, 1)
    assert run["precision_at_k"] == pytest.approx(1 / 7, abs=1e-5)
    assert filled("GET", "/api/v1/evaluation/runs?dataset_id=support&limit=50") == [run]
    assert filled("GET", "/api/v1/evaluation/runs?dataset_id=other&limit=50") == []
    filled("POST", "/api/v1/evaluation/generate", {**body, "name": "x", "client_id": "other"}, status=404)
    filled("GET", "/api/v1/evaluation/datasets?client_id=other", status=404)
    filled("POST", "/api/v1/evaluation/generate", {**body, "name": "y", "chunk_sample_strategy": "recent"}, status=422)
    filled("POST", "/api/v1/evaluation/generate", {**body, "name": "support"}, status=409)
    filled("POST", "/api/v1/evaluation/runs", {"dataset_id": "none", "k": 5}, status=404)
