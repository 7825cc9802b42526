"""Every request of the two interfaces that other programs were written for, as they send it."""

from __future__ import annotations

import json
import re
import sqlite3
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ragbench.service import evaluation_api
from ragbench.sweep.notebooks import packaged
from tests.service.server.conftest import CASES, DOCUMENTS, Call

SPENT = {"averageResponseTimeMs", "averageCostPerQuery", "totalCost"}
METRICS = {
    "averageAccuracy",
    "averageSemanticSimilarity",
    "averageKeywordMatch",
    "averageCitationAccuracy",
    "hallucinationRate",
    "hallucinationSource",
    "passRate",
    *SPENT,
}
RESULT = {
    "testCaseId",
    "question",
    "expectedAnswer",
    "actualAnswer",
    "semanticSimilarityScore",
    "keywordMatchScore",
    "citationAccuracyScore",
    "hallucinationScore",
    "overallScore",
    "passed",
    "responseTimeMs",
    "failureReason",
    "hallucinatedFacts",
}
CONFIG = {
    "minSemanticSimilarity": 0.1,
    "minKeywordMatch": 0.5,
    "minCitationAccuracy": 0.5,
    "maxHallucinationRate": 1,
    "useSemanticEvaluation": True,
    "useKeywordEvaluation": True,
    "useLlmAsJudge": False,
}


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
    changed = call(
        "PUT", "/evaluation/test-cases/reset", {"question": "How?", "expectedDocumentId": "other"}
    )
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
    before = datetime.now(UTC)
    done = call("POST", "/evaluation/run", {"name": "Baseline, first", "config": CONFIG})
    assert (done["status"], done["name"], done["totalTestCases"]) == (
        "completed",
        "Baseline, first",
        2,
    )
    assert done["message"] == f"Evaluation completed: {done['passedTestCases']}/2 passed"
    assert done["passRate"] == done["passedTestCases"] / 2
    found = call("GET", f"/evaluation/runs/{done['id']}")
    started, completed = (
        datetime.fromisoformat(found[name]) for name in ("startedAt", "completedAt")
    )
    assert before <= started < completed <= datetime.now(UTC)
    assert set(found["metrics"]) == METRICS
    assert all(set(row) == RESULT for row in found["results"])
    assert found["metrics"]["averageKeywordMatch"] == 1
    assert found["metrics"]["averageResponseTimeMs"] > 0
    assert found["results"][0]["expectedAnswer"] == CASES[0]["expectedAnswer"]
    assert [run["id"] for run in call("GET", "/evaluation/runs")] == [done["id"]]
    for run in (done, found, *call("GET", "/evaluation/runs")):
        assert {name: run[name] for name in SPENT} == {
            name: found["metrics"][name] for name in SPENT
        }
    assert (done["totalCost"], done["averageCostPerQuery"]) == (0, 0)  # without a model
    strict = {**CONFIG, "minSemanticSimilarity": 1, "useKeywordEvaluation": False}
    missed = call(
        "POST", "/evaluation/run", {"name": "strict", "category": "billing", "config": strict}
    )
    assert (missed["totalTestCases"], missed["passedTestCases"], missed["passRate"]) == (1, 0, 0)
    assert call("GET", "/evaluation/metrics")["totalRuns"] == 2
    call("GET", f"/evaluation/runs/{done['id']}", key="other", status=404)


@pytest.mark.parametrize(
    ("passed", "decided", "failed", "rate", "message"),
    [
        (16, 17, 1, 16 / 17, "16/22 passed, 5 not decided"),
        (16, 22, 6, 16 / 22, "16/22 passed"),
        (None, 0, 0, None, "0/22 passed, 22 not decided"),
    ],
)
def test_questions_that_no_label_decides_are_neither_passed_nor_failed(
    passed: int | None,
    decided: int,
    failed: int,
    rate: float | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation_api, "_response_ms", lambda session, row: None)
    monkeypatch.setattr(evaluation_api, "decided_of", lambda ids, database: {"a": decided})
    row = {"id": "a", "series": "s", "made_at": "2026-01-01T00:00:00+00:00", "seconds": 1.0}
    row |= {"questions": 22, "questions_passed": passed, "cost_usd": None}
    session: Any = SimpleNamespace(database="")
    run = evaluation_api._summary_of_run(session, row)
    assert (run["failedTestCases"], run["undecidedTestCases"]) == (failed, 22 - decided)
    assert run["passRate"] == rate
    assert run["message"] == f"Evaluation completed: {message}"


def test_a_run_that_is_not_ready_is_found_by_its_job(call: Call) -> None:
    call("POST", "/evaluation/run", {"name": "none"}, status=404)
    call("POST", "/evaluation/test-cases", CASES[0], status=201)
    call(
        "POST", "/evaluation/run", {"name": "judged", "config": {"useLlmAsJudge": True}}, status=422
    )
    begun = call("POST", "/evaluation/run?wait=0", {"name": "no documents"})
    assert begun["status"] in ("pending", "running", "failed")
    while (found := call("GET", f"/evaluation/runs/{begun['id']}"))["status"] in (
        "pending",
        "running",
    ):
        pass
    assert found["status"] == "failed"
    assert found["results"] == []
    assert "ragbench" in found["message"]


def record_answers(root: Path, **answers: dict[str, Any]) -> None:
    """Answers of a service of acme, by the id of the case, as its default system."""
    place = root / "clients" / "acme" / "systems" / "default.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"query_id": case_id, **answer}) for case_id, answer in answers.items()]
    place.write_text("\n".join(lines), encoding="utf-8")


def context(doc_id: str) -> dict[str, str]:
    return {"id": doc_id, "doc_id": doc_id, "text": DOCUMENTS[doc_id]}


RIGHT = {"answer": "Open settings and choose reset.", "contexts": [context("password")]}


@pytest.fixture
def cased(call: Call) -> Call:
    """As `call`; acme has the documents and the cases of the interface."""
    for doc_id, text in DOCUMENTS.items():
        call("POST", "/ingest", {"documentId": doc_id, "text": text}, status=201)
    for case in CASES:
        call("POST", "/evaluation/test-cases", case, status=201)
    return call


def test_citation_accuracy_is_whether_the_expected_document_was_retrieved(
    cased: Call, root: Path
) -> None:
    elsewhere = {
        "answer": "Invoices are listed in billing [1].",
        "contexts": [context("password")],
        "citations": ["1"],
    }
    record_answers(root, reset=RIGHT, invoice=elsewhere)
    done = cased("POST", "/evaluation/run", {"name": "elsewhere"})
    found = cased("GET", f"/evaluation/runs/{done['id']}")
    rows = {row["testCaseId"]: row for row in found["results"]}
    assert {name: row["citationAccuracyScore"] for name, row in rows.items()} == {
        "reset": 1,
        "invoice": 0,
    }
    assert found["metrics"]["averageCitationAccuracy"] == 0.5
    assert (rows["reset"]["passed"], rows["reset"]["failureReason"]) == (True, None)
    assert not rows["invoice"]["passed"]
    assert "billing" in rows["invoice"]["failureReason"]
    lenient = cased(
        "POST", "/evaluation/run", {"name": "lenient", "config": {"minCitationAccuracy": 0}}
    )
    assert lenient["passedTestCases"] == 2


def test_a_part_that_is_switched_off_leaves_the_overall(cased: Call, root: Path) -> None:
    record_answers(root, reset={**RIGHT, "answer": "Open settings."})
    scores = {}
    for off in ("useSemanticEvaluation", "useKeywordEvaluation", ""):
        config = {off: False} if off else {}
        done = cased(
            "POST",
            "/evaluation/run",
            {"name": f"without {off}", "category": "account", "config": config},
        )
        scores[off] = cased("GET", f"/evaluation/runs/{done['id']}")["results"][0]
    row = scores[""]
    semantic, grounded = row["semanticSimilarityScore"], 1 - row["hallucinationScore"]
    assert row["overallScore"] == pytest.approx(
        (40 * semantic + 20 * 0.5 + 20 + 20 * grounded) / 100, abs=1e-6
    )
    without = scores["useSemanticEvaluation"]["overallScore"]
    assert without == pytest.approx((20 * 0.5 + 20 + 20 * grounded) / 60, abs=1e-6)
    without = scores["useKeywordEvaluation"]["overallScore"]
    assert without == pytest.approx((40 * semantic + 20 + 20 * grounded) / 80, abs=1e-6)


def judge_at(url: str, llm_environment: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PROVIDER": "openai",
        "OPENAI_MODEL": "m",
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "sk-0",
    }.items():
        llm_environment.setenv(f"RAG_EVAL_{name}", value)


@pytest.fixture
def judge(loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch) -> Any:
    """A judge that finds two claims in every answer; the second is supported where the answer does
    not mention fees.
    """

    def reply(asked: Any) -> Any:
        prompt = asked.body["messages"][-1]["content"]
        first_word = re.search(r"<document-\w+>\n(\S+)", prompt)
        claims = [
            {
                "number": 1,
                "claim": "The first claim.",
                "reason": "",
                "document": 1,
                "quote": first_word[1] if first_word else "",
                "supported": True,
            }
        ]
        claims.append(
            {
                **claims[0],
                "number": 2,
                "claim": "It is free.",
                "supported": "free of charge" not in prompt,
            }
        )
        return wire.Answered(
            wire.openai(json.dumps({"faithfulness": {"claims": claims}, "relevance": {"score": 1}}))
        )

    server = loopback(reply)
    judge_at(server.url, llm_environment)
    return server


def test_with_a_judge_hallucination_is_the_judges_and_half_invented_answers_fail(
    cased: Call, root: Path, judge: Any
) -> None:
    invented = {
        "answer": "Invoices are listed in billing, free of charge.",
        "contexts": [context("billing")],
    }
    record_answers(root, reset=RIGHT, invoice=invented)
    config: dict[str, Any] = {"useLlmAsJudge": True, "minSemanticSimilarity": 0}
    done = cased("POST", "/evaluation/run", {"name": "judged", "config": config})
    found = cased("GET", f"/evaluation/runs/{done['id']}")
    rows = {row["testCaseId"]: row for row in found["results"]}
    assert {name: row["hallucinationScore"] for name, row in rows.items()} == {
        "reset": 0,
        "invoice": 0.5,
    }
    assert {name: row["hallucinatedFacts"] for name, row in rows.items()} == {
        "reset": [],
        "invoice": ["It is free."],
    }
    assert found["metrics"]["hallucinationRate"] == 0.25
    assert {name: row["passed"] for name, row in rows.items()} == {"reset": True, "invoice": False}
    assert "0.50 > 0.20" in rows["invoice"]["failureReason"]
    assert len(judge.asked) == 2
    config["maxHallucinationRate"] = 0.5
    assert (
        cased("POST", "/evaluation/run", {"name": "lenient", "config": config})["passedTestCases"]
        == 2
    )


def test_a_mean_of_hallucination_over_runs_is_of_one_source(
    cased: Call, root: Path, judge: Any
) -> None:
    assert cased("GET", "/evaluation/metrics") == {"totalRuns": 0, "totalCost": 0, "latest": None}
    invented = {
        "answer": "Invoices are listed in billing, free of charge.",
        "contexts": [context("billing")],
    }
    record_answers(root, reset=RIGHT, invoice=invented)
    cased("POST", "/evaluation/run", {"name": "by wording"})
    by_wording = cased("GET", "/evaluation/metrics")
    assert by_wording["hallucinationSource"] == "heuristic"
    assert by_wording["hallucinationRate"] == by_wording["latest"]["hallucinationRate"]
    cased("POST", "/evaluation/run", {"name": "judged", "config": {"useLlmAsJudge": True}})
    both = cased("GET", "/evaluation/metrics")
    assert (both["totalRuns"], both["hallucinationSource"]) == (2, "judge")
    assert both["hallucinationRate"] == both["latest"]["hallucinationRate"] == 0.25
    assert both["hallucinationBySource"] == {
        "judge": {"rate": 0.25, "runs": 1},
        "heuristic": {"rate": by_wording["hallucinationRate"], "runs": 1},
    }
    assert both["averageSemanticSimilarity"] == by_wording["averageSemanticSimilarity"]


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/evaluation/run", {"name": "A"}),
        ("/evaluation/test-cases", {"question": "Why?"}),
        ("/ingest", {"documentId": "d", "text": "Text."}),
        ("/api/v1/evaluation/generate", {"name": "x"}),
        ("/api/v1/evaluation/runs", {"dataset_id": 1}),
    ],
)
def test_a_body_without_its_content_type_names_the_header(
    client: TestClient, keys: dict[str, str], path: str, body: dict[str, Any], kind: str | None
) -> None:
    headers = {"X-API-Key": keys["acme runner"]} | ({"Content-Type": kind} if kind else {})
    answer = client.post(path, content=json.dumps(body), headers=headers)
    assert answer.status_code == 422
    assert "send JSON with the header Content-Type: application/json" in answer.json()["detail"]
    assert (kind or "without a Content-Type") in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (
            "/evaluation/run",
            {"name": "x", "config": {"minSemanticSimilarty": 0.9}},
            "minSemanticSimilarty",
        ),
        ("/evaluation/run", {"name": "x", "catgory": "billing"}, "catgory"),
        (
            "/evaluation/test-cases",
            {"question": "Why?", "expected_answer": "So."},
            "expected_answer",
        ),
        ("/ingest", {"documentId": "d", "text": "Text.", "metadata": {}}, "metadata"),
        ("/api/v1/evaluation/runs", {"dataset_id": 1, "k": 5, "depth": 5}, "depth"),
        ("/api/v1/evaluation/generate", {"name": "x", "size": 5}, "size"),
    ],
)
def test_an_unknown_field_is_refused(
    call: Call, path: str, body: dict[str, Any], field: str
) -> None:
    refused = call("POST", path, body, status=422)["detail"]
    assert f"{field}: Extra inputs are not permitted" in refused


def test_the_sample_test_cases_pass_with_the_defaults(call: Call) -> None:
    sample = json.loads((packaged() / "sample-test-cases.json").read_text(encoding="utf-8"))
    accounts = (
        f"{sample[0]['expectedAnswer']} A mail with a link confirms the new password "
        "within minutes."
    )
    payments = f"{sample[1]['expectedAnswer']} Payments by bank transfer take three working days."
    call("POST", "/ingest", {"documentId": "accounts", "text": accounts}, status=201)
    call("POST", "/ingest", {"documentId": "payments", "text": payments}, status=201)
    made = [call("POST", "/evaluation/test-cases", case, status=201) for case in sample]
    assert made == sample
    config = {
        "minSemanticSimilarity": 0.7,
        "minKeywordMatch": 0.6,
        "minCitationAccuracy": 0.8,
        "maxHallucinationRate": 0.2,
    }
    done = call("POST", "/evaluation/run", {"name": "First evaluation run", "config": config})
    assert done["message"] == "Evaluation completed: 2/2 passed"


def test_the_guide_generates_and_evaluates(filled: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_EVAL_PROVIDER", raising=False)
    body = {
        "client_id": "acme",
        "name": "First set",
        "sample_size": 3,
        "chunk_sample_strategy": "random",
    }
    made = filled("POST", "/api/v1/evaluation/generate", body)
    assert (made["dataset_id"], made["name"], made["client_id"]) == (2, "First set", "acme")
    assert set(made) == {"dataset_id", "name", "client_id", "qa_count", "created_at"}
    assert made["qa_count"] >= 1
    listed = filled("GET", "/api/v1/evaluation/datasets?client_id=acme")
    assert [(row["dataset_id"], row["name"]) for row in listed] == [
        (2, "First set"),
        (1, "support"),
    ]
    run = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": 1, "k": 7})
    assert set(run) == {
        "run_id",
        "dataset_id",
        "precision_at_k",
        "recall_at_k",
        "mrr",
        "faithfulness",
        "claim_support",
        "k",
        "created_at",
    }
    assert run["faithfulness"] is None  # without a judge; the heuristic has its own name
    assert 0 < run["claim_support"] <= 1
    assert (run["dataset_id"], run["k"], run["recall_at_k"], run["mrr"]) == (1, 7, 1, 1)
    assert isinstance(run["run_id"], int)
    assert run["precision_at_k"] == pytest.approx(1 / 7, abs=1e-5)
    drafted = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": 2, "k": 5})
    assert (drafted["dataset_id"], drafted["k"]) == (2, 5)
    assert filled("GET", "/api/v1/evaluation/runs?limit=50") == [drafted, run]
    assert filled("GET", "/api/v1/evaluation/runs?dataset_id=1&limit=50") == [run]
    assert filled("GET", "/api/v1/evaluation/runs?dataset_id=99&limit=50") == []
    filled(
        "POST",
        "/api/v1/evaluation/generate",
        {**body, "name": "x", "client_id": "other"},
        status=404,
    )
    filled("GET", "/api/v1/evaluation/datasets?client_id=other", status=404)
    filled(
        "POST",
        "/api/v1/evaluation/generate",
        {**body, "name": "y", "chunk_sample_strategy": "recent"},
        status=422,
    )
    filled("POST", "/api/v1/evaluation/generate", {**body, "name": "support"}, status=409)
    filled("POST", "/api/v1/evaluation/runs", {"dataset_id": 99, "k": 5}, status=404)
    filled("POST", "/api/v1/evaluation/runs", {"dataset_id": 1, "k": 5}, key="other", status=404)
    assert filled("GET", "/api/v1/evaluation/runs", key="other") == []


@pytest.fixture
def writer(loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch) -> Any:
    """A model that writes two questions about each document, and finds every draft good."""
    asks = {
        "password": ("How is a new password confirmed?", "After which time does the mail come?"),
        "billing": ("Which file holds my past payments?", "How long does a transfer take?"),
    }

    def reply(asked: Any) -> Any:
        prompt = asked.body["messages"][-1]["content"]
        if "Decide two things" in prompt:
            return wire.Answered(
                wire.openai(json.dumps({"reason": "", "clear": True, "supported": True}))
            )
        name = "password" if "reset your password" in prompt else "billing"
        quote = DOCUMENTS[name].split(".")[1].strip() + "."
        cases = [{"quote": quote, "question": ask, "answer": quote} for ask in asks[name]]
        return wire.Answered(wire.openai(json.dumps({"cases": cases})))

    server = loopback(reply)
    judge_at(server.url, llm_environment)
    return server


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_the_sample_size_of_the_guide_is_the_number_of_pairs(
    filled: Call, writer: Any, size: int
) -> None:
    body = {"name": f"set of {size}", "sample_size": size}
    made = filled("POST", "/api/v1/evaluation/generate", body)
    assert made["qa_count"] == min(size, 4)
    assert ("note" in made) is (size > 4)
    cases = filled("GET", f"/api/v1/datasets/set-of-{size}")["cases"]
    assert len(cases) == made["qa_count"]


@pytest.mark.parametrize("k", [1, 3, 4, 5, 10])
def test_the_guide_evaluates_at_the_depth_that_was_sent(filled: Call, k: int) -> None:
    [dataset] = filled("GET", "/api/v1/evaluation/datasets")
    run = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": dataset["dataset_id"], "k": k})
    assert (run["k"], run["recall_at_k"]) == (k, 1)
    assert run["precision_at_k"] == pytest.approx(1 / k, abs=1e-5)


def test_a_superuser_of_the_guide_names_no_client(filled: Call) -> None:
    [dataset] = filled("GET", "/api/v1/evaluation/datasets", key="*")
    assert (dataset["client_id"], dataset["name"]) == ("acme", "support")
    run = filled(
        "POST", "/api/v1/evaluation/runs", {"dataset_id": dataset["dataset_id"], "k": 3}, key="*"
    )
    assert filled("GET", "/api/v1/evaluation/runs", key="*") == [run]
    assert filled("GET", "/api/v1/evaluation/runs") == [run]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/evaluation/datasets?client_id={}",
        "/api/v1/evaluation/runs?client_id={}",
        "/api/v1/datasets?client_id={}",
        "/api/v1/runs?client_id={}",
        "/datasets?client={}",
        "/?client={}",
    ],
)
def test_a_misspelt_client_of_a_superuser_is_named(
    filled: Call, client: TestClient, keys: dict[str, str], path: str
) -> None:
    headers = {"X-API-Key": keys["*"]}
    answer = client.get(path.format("acne"), headers=headers)
    assert answer.status_code == 404
    assert "nknown client 'acne'; did you mean 'acme'?" in unescape(answer.text)
    assert client.get(path.format("acme"), headers=headers).status_code == 200


def test_faithfulness_of_the_guide_is_the_judges_where_a_provider_is_configured(
    filled: Call, root: Path, judge: Any
) -> None:
    invented = {
        "answer": "Invoices are listed in billing, free of charge.",
        "contexts": [context("billing")],
    }
    record_answers(root, reset=RIGHT, invoice=invented)
    run = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": dataset_of(filled), "k": 5})
    assert run["faithfulness"] == 0.75
    assert run["claim_support"] not in (None, 0.75)
    assert len(judge.asked) >= 2


def dataset_of(call: Call) -> int:
    return int(call("GET", "/api/v1/evaluation/datasets")[0]["dataset_id"])


def test_the_tables_of_the_guide_can_be_queried(filled: Call, database: str) -> None:
    run = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": dataset_of(filled), "k": 3})
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        [row] = connection.execute(
            "SELECT r.id, r.dataset_id, r.precision_at_k, r.recall_at_k, r.mrr, r.faithfulness, "
            "r.claim_support, r.k, r.detailed_results, r.created_at, d.name, d.client_id, d.qa_pairs, "
            "d.created_by FROM evaluation_runs r JOIN evaluation_datasets d ON r.dataset_id = "
            "d.id WHERE d.client_id = 'acme' ORDER BY r.created_at"
        )
    named = {name: row[name] for name in run if name not in ("run_id", "created_at")}
    assert named | {"run_id": row["id"], "created_at": run["created_at"]} == run
    assert row["created_at"] == run["created_at"].replace("T", " ").removesuffix("Z")
    assert row["created_by"] == "runner"  # the name of the key that sent it
    assert (row["name"], row["client_id"]) == ("support", "acme")
    assert {pair["question"]: pair["answer"] for pair in json.loads(row["qa_pairs"])} == {
        case["question"]: case["expectedAnswer"] for case in CASES
    }
    assert json.loads(row["detailed_results"])["P@3"] == run["precision_at_k"]


def test_the_coverage_by_citations_that_the_guide_asks_for_is_a_setting(
    filled: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = []
    for value in ("", "0.25"):
        monkeypatch.setenv("RAG__MIN_CITATION_COVERAGE", value)
        filled("POST", "/api/v1/evaluation/runs", {"dataset_id": dataset_of(filled), "k": 5})
        newest = filled("GET", "/api/v1/runs")[0]
        rows = {
            row["measure"]: row for row in filled("GET", f"/api/v1/runs/{newest['id']}")["measures"]
        }
        targets.append(rows["citation_coverage"]["target"])
        assert rows["RR"]["target"] == 0.8
    assert targets == [0.7, 0.25]
    monkeypatch.setenv("RAG__MIN_CITATION_COVERAGE", "most")
    refused = filled(
        "POST", "/api/v1/evaluation/runs", {"dataset_id": dataset_of(filled), "k": 5}, status=422
    )
    assert "RAG__MIN_CITATION_COVERAGE is 'most'" in refused["detail"]


def test_a_judge_that_answers_nothing_fails_the_run_with_its_first_reason(
    cased: Call, root: Path, loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    record_answers(root, reset=RIGHT, invoice=RIGHT)
    server = loopback(
        lambda asked: wire.Answered({"error": {"message": "no such key"}}, status=401)
    )
    judge_at(server.url, llm_environment)
    done = cased("POST", "/evaluation/run", {"name": "judged", "config": {"useLlmAsJudge": True}})
    assert done["status"] == "failed"
    assert "401" in done["message"]
    assert cased("GET", f"/evaluation/runs/{done['id']}")["status"] == "failed"


def test_symptoms_lead_to_a_sentence_with_the_cause(
    call: Call, monkeypatch: pytest.MonkeyPatch, llm_environment: pytest.MonkeyPatch
) -> None:
    body = {"name": "First"}
    refused = call("POST", "/api/v1/evaluation/generate", body, status=422)["detail"]
    assert "acme has no documents yet; send them to /ingest" in refused
    other = {**body, "client_id": "other"}
    refused = call("POST", "/api/v1/evaluation/generate", other, status=404)["detail"]
    assert refused == "there is no client 'other' for this key, which belongs to acme"
    for doc_id, text in DOCUMENTS.items():
        call("POST", "/ingest", {"documentId": doc_id, "text": text}, status=201)
    llm_environment.setenv("RAG_EVAL_PROVIDER", "ollama")
    llm_environment.setenv("RAG_EVAL_OLLAMA_BASE_URL", "http://127.0.0.1:9")
    refused = call("POST", "/api/v1/evaluation/generate", body, status=422)["detail"]
    assert "127.0.0.1" in refused
    assert "ollama serve" in refused or "no server" in refused
