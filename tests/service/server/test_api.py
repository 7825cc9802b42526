"""The API, by its sentences in the issue."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from ragbench.service import add_alert, add_schedule, made_up_nights, record
from tests.service.server.conftest import CASES, Call

API = "/api/v1"
NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/yaml", "cases:\n- {id: q1, query: Why?}\n"),
        ("application/jsonl", '{"testset": "x"}\n{"query_id": "q1", "text": "Why?"}\n'),
        (
            "application/json",
            '{"test_cases": [{"query": "Why?", "expected_answer": "So.", "expected_sources": []}]}',
        ),
    ],
)
def test_data_sets_come_in_any_form(
    call: Call, client: TestClient, keys: dict[str, str], kind: str, content: str
) -> None:
    headers = {"X-API-Key": keys["acme runner"], "Content-Type": kind}
    answer = client.post(f"{API}/datasets?name=mine", content=content, headers=headers)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["name"], answer.json()["questions"]) == ("mine", 1)
    assert (
        client.post(f"{API}/datasets?name=mine", content=content, headers=headers).status_code
        == 409
    )
    assert [case["text"] for case in call("GET", f"{API}/datasets/mine")["cases"]] == ["Why?"]
    call("DELETE", f"{API}/datasets/mine", status=204)
    assert call("GET", f"{API}/datasets") == []


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/yaml", "corpus: /etc\ncases:\n- {id: q1, query: Why?}\n"),
        (
            "application/jsonl",
            '{"testset": "x", "corpus": "../../"}\n{"query_id": "q1", "text": "Why?"}\n',
        ),
    ],
)
def test_a_body_names_no_place_outside_the_root(
    client: TestClient, keys: dict[str, str], root: Path, kind: str, content: str
) -> None:
    headers = {"X-API-Key": keys["acme runner"], "Content-Type": kind}
    answer = client.post(f"{API}/datasets?name=up", content=content, headers=headers)
    assert answer.status_code == 422, answer.text
    assert not [*root.rglob("*.jsonl")]


def test_names_of_requests_are_no_paths(filled: Call, root: Path) -> None:
    outside = root.parent / "secret.toml"
    outside.write_text("[pipeline]\n")
    (root / "systems").mkdir()
    (root / "systems" / "linked.toml").symlink_to(outside)
    (root / "clients" / "acme" / "testsets" / "linked.jsonl").symlink_to(
        root.parent / "secret.jsonl"
    )
    for system in (
        "../secret",
        "/etc/passwd",
        "os:system",
        "http://localhost/",
        "secret.toml/../x",
    ):
        filled("POST", f"{API}/runs", {"dataset": "support", "system": system}, status=422)
    for system in ("linked", "secret", "..x"):
        filled(
            "POST",
            f"{API}/runs",
            {"dataset": "support", "system": system},
            status=404 if system != "..x" else 422,
        )
    for dataset in ("../secret", "/etc/passwd", "pydoc:x"):
        filled("POST", f"{API}/runs", {"dataset": dataset}, status=422)
    filled("POST", f"{API}/runs", {"dataset": "linked"}, status=404)
    for field in ("baseline", "corpus", "output"):
        filled("POST", f"{API}/runs", {"dataset": "support", field: "/etc"}, status=422)
    filled("GET", f"{API}/datasets/..%2f..%2fsecret", status=404)


def test_a_run_is_waited_for_and_read(filled: Call) -> None:
    body = {
        "dataset": "support",
        "series": "nightly",
        "targets": {"nDCG@5": 0.5},
        "thresholds": {"semantic": 0.1},
    }
    run = filled("POST", f"{API}/runs?wait=60", body)
    assert (run["series"], run["passed"], run["questions"], len(run["cases"])) == (
        "nightly",
        True,
        2,
        2,
    )
    assert {row["measure"]: row["mean"] for row in run["measures"]}["nDCG@5"] == 1
    assert run["cases"][0]["answer"]
    [listed] = filled("GET", f"{API}/runs?series=nightly")
    assert listed["id"] == run["id"]
    [job] = filled("GET", f"{API}/jobs")
    assert (job["state"], job["run"], job["exit_code"]) == ("done", run["id"], 0)
    filled("DELETE", f"{API}/jobs/{job['id']}", status=409)
    again = filled("POST", f"{API}/runs?wait=60", {**body, "baseline": run["id"]})
    assert again["passed"], "nothing is worse than in the baseline"
    one = filled("POST", f"{API}/runs?wait=60", {"dataset": "support", "categories": ["billing"]})
    assert one["questions"] == 1
    found = filled("GET", f"{API}/compare?a={run['id']}&b={again['id']}")
    assert found["newly_failing"] == found["fixed"] == []
    assert {row["measure"] for row in found["measures"]} >= {"nDCG@10"}
    filled("GET", f"{API}/metrics?measure=no_such", status=404)
    assert len(filled("GET", f"{API}/metrics?measure=nDCG@5&series=nightly")) == 2


def test_a_run_that_cannot_be_made_is_a_failed_job_that_states_why(call: Call, root: Path) -> None:
    call("POST", f"{API}/datasets?name=support", CASES, status=201)
    job = call("POST", f"{API}/runs?wait=60", {"dataset": "support"}, status=202)
    assert (job["state"], job["run"]) == ("failed", "")
    assert "ragbench:" in job["output"]
    assert str(root) not in job["output"]


def test_the_trend_has_a_verdict(client: TestClient, call: Call, database: str) -> None:
    record([(night, None) for night in made_up_nights()], database=database)
    found = call("GET", f"{API}/metrics?measure=pass_rate", key="*")
    assert len(found) == 50
    assert found[-1]["note"]
    run = call("GET", f"{API}/runs?limit=1", key="*")[0]
    assert call("GET", f"{API}/runs/{run['id']}", key="*")["cases"][0]["scores"], (
        "its files are nowhere"
    )


def test_schedules_and_alerts_are_those_of_the_client(
    filled: Call, root: Path, database: str
) -> None:
    add_schedule("nightly", "0 2 * * *", ["eval"], client="acme", folder=root, database=database)
    add_alert("pass_rate<0.8", client="acme", database=database)
    [schedule], [rule] = filled("GET", f"{API}/schedules"), filled("GET", f"{API}/alerts")
    assert (schedule["name"], schedule["last_state"], schedule["last_exit_code"]) == (
        "nightly",
        "",
        None,
    )
    assert (rule["rule"], rule["raised"], rule["last"]) == ("pass_rate<0.8", 0, "")
    for kind in ("schedules", "alerts"):
        assert filled("GET", f"{API}/{kind}", key="other") == []
        assert len(filled("GET", f"{API}/{kind}", key="*")) == 1


def test_a_request_that_cannot_be_used_is_refused(filled: Call) -> None:
    filled("POST", f"{API}/runs", {"dataset": "support", "baseline": "0" * 64}, status=404)
    filled("POST", f"{API}/runs", {"dataset": "support", "max_cost": False}, status=422)
    filled("POST", f"{API}/runs", {"dataset": "support"}, key="acme reader", status=403)


def test_an_administrator_of_every_client_may_name_one(filled: Call) -> None:
    assert filled("GET", f"{API}/datasets?client_id=acme", key="*")[0]["name"] == "support"
    assert filled("GET", f"{API}/datasets", key="*") == []
    filled("GET", f"{API}/datasets?client_id=other", status=404)
    filled("GET", f"{API}/datasets?client_id=..", key="*", status=404)


def test_more_waiting_jobs_than_allowed_are_429(
    client: TestClient, filled: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.app.state.queue.stop()  # type: ignore[attr-defined]
    monkeypatch.setattr("ragbench.service.api.MAX_JOBS", 2)
    made = [filled("POST", f"{API}/runs", {"dataset": "support"}, status=202) for _ in range(2)]
    filled("POST", f"{API}/runs", {"dataset": "support"}, status=429)
    assert filled("DELETE", f"{API}/jobs/{made[0]['id']}")["state"] == "cancelled"
    filled("POST", f"{API}/runs", {"dataset": "support"}, status=202)


def test_the_test_set_of_an_initialised_folder_is_served_and_stays(
    client: TestClient, root: Path, keys: dict[str, str], call: Call
) -> None:
    (root / "tests.yaml").write_text("cases:\n- {id: q1, query: Why?}\n")
    (root / "clients" / "acme").mkdir(parents=True)
    [mine] = call("GET", f"{API}/datasets?client=", key="*")
    assert (mine["name"], mine["questions"]) == ("tests", 1)
    assert call("GET", f"{API}/datasets") == [], "it is that of the commands"
    refused = call("DELETE", f"{API}/datasets/tests?client=", key="*", status=409)
    assert "delete the file" in refused["detail"]
    assert (root / "tests.yaml").is_file()


def test_a_client_has_no_more_data_sets_than_are_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragbench.service.folders import Folder

    monkeypatch.setattr("ragbench.service.folders._TESTSETS", 2)
    for name in ("one", "two"):
        Folder(root, "acme").new_testset(name).write_text("")
    with pytest.raises(HTTPException, match="a client may have 2 datasets") as refused:
        Folder(root, "acme").new_testset("three")
    assert refused.value.status_code == 429
    Folder(root, "other").new_testset("three")


def test_the_files_of_a_client_come_before_those_of_all(root: Path) -> None:
    from ragbench.service.folders import Folder

    for path in ("systems/prod.toml", "clients/acme/systems/prod.jsonl", "tests.yaml"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / "systems" / "folder.toml").mkdir()
    (root / "testsets").mkdir()
    (root / "testsets" / "tests.jsonl").write_text("")
    assert Folder(root, "acme").system("prod").endswith("clients/acme/systems/prod.jsonl")
    assert Folder(root, "").system("prod").endswith("prod.toml")
    with pytest.raises(Exception, match="unknown system 'folder'"):
        Folder(root, "").system("folder")
    assert Folder(root, "").testset("tests").name == "tests.jsonl"
