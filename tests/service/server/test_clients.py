"""Clients whose names are alike are others; what is theirs is readable by the server's user alone."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ragbench.service import add_alert, add_key, add_schedule, raised_alerts, record
from ragbench.service.app import create_app
from ragbench.service.history_database import connected
from ragbench.service.job_queue import place_of
from ragbench.store.arrays import cache_folder
from tests.service.server.conftest import CASES
from tests.service.test_history import nights

ALIKE = ("acme", "acme-x", "acme_x", "acme.x", "acmex", "ACME")


@pytest.mark.parametrize("owner", ALIKE)
def test_a_client_sees_nothing_of_those_with_a_like_name(
    root: Path, database: str, owner: str
) -> None:
    keys = {name: add_key("k", client=name, role="admin", database=database) for name in ALIKE}
    with TestClient(create_app(root, database)) as client:

        def read(name: str, path: str) -> object:
            return client.get(path, headers={"X-API-Key": keys[name]}).json()

        headers = {"X-API-Key": keys[owner]}
        client.app.state.queue.stop()  # type: ignore[attr-defined]
        for path, body in (
            ("/evaluation/test-cases", CASES[0]),
            ("/ingest", {"documentId": "d", "text": "Text."}),
            ("/api/v1/datasets?name=support", CASES),
        ):
            assert client.post(path, json=body, headers=headers).status_code == 201
        for name in ("support", "test-cases"):
            job = client.post("/api/v1/runs", json={"dataset": name}, headers=headers)
            assert job.status_code == 202
        add_alert("failed", to=["${HOOK}"], client=owner, database=database)
        add_schedule("nightly", "0 2 * * *", ["eval"], client=owner, database=database)
        paths = [f"/api/v1/{name}" for name in ("datasets", "jobs", "alerts", "schedules")]
        for path in (*paths, "/evaluation/test-cases"):
            assert read(owner, path)
            for other in set(ALIKE) - {owner}:
                assert read(other, path) == [], (path, other)
                answer = client.get(f"{path}?client_id={owner}", headers={"X-API-Key": keys[other]})
                assert answer.status_code == 404 or path.startswith("/evaluation"), answer.text


def test_a_client_has_no_more_cases_and_documents_than_are_kept(
    root: Path, database: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragbench.service.sent_items.MAX_ITEMS", 2)
    client = TestClient(create_app(root, database))
    client.headers["X-API-Key"] = keys["acme runner"]

    def case(number: int) -> int:
        body = {"id": f"q{number}", "question": "Why?"}
        return client.post("/evaluation/test-cases", json=body).status_code

    assert [case(number) for number in (1, 2, 2, 3)] == [201, 201, 409, 429]
    assert client.delete("/evaluation/test-cases/q1").status_code == 204
    assert [case(number) for number in (3, 4)] == [201, 429]
    assert len(client.get("/evaluation/test-cases").json()) == 2
    assert len(client.get("/evaluation/test-cases?limit=1").json()) == 1
    documents = [{"documentId": name, "text": "Text."} for name in "abcb"]
    answers = [client.post("/ingest", json=document) for document in documents]
    assert [answer.status_code for answer in answers] == [201, 201, 429, 200]
    assert "may have 2 documents" in answers[2].text
    client.headers["X-API-Key"] = keys["other"]
    assert case(1) == 201


@pytest.mark.parametrize(("owner", "other"), list(permutations(ALIKE[:4], 2)))
def test_the_alerts_of_a_client_go_to_its_receivers_alone(
    database: str, owner: str, other: str
) -> None:
    add_alert("nDCG@10<1", to=["${OWNER_HOOK}"], point=True, client=owner, database=database)
    record(nights(1), client=other, database=database)
    assert raised_alerts(database=database).empty
    record(nights(1), client=owner, database=database)
    assert len(raised_alerts(database=database)) == 1


def test_no_two_clients_or_series_have_one_folder_of_results() -> None:
    names = ("a", "a-b", "a/b", "a\\b", "a:b", "%2F", "a%2Fb", "..", "-", ".-", "./", "é", "")
    row: dict[str, Any] = {
        "due_at": "2026-01-01T02:00:00.000Z",
        "cron": "0 2 * * *",
        "folder": "/root",
        "attempts": 1,
        "options": "{}",
    }
    make: Any = SimpleNamespace
    places = {
        place_of(make(**row, client_id=client, name=name, job_id="0" * 64))
        for client in names
        for name in names[:-1]
    }
    assert len(places) == len(names) * (len(names) - 1)
    top = Path("/root/results/eval")
    assert all(Path(*place.parts[: len(top.parts)]) == top for place in places)
    assert not any(part.startswith(".") for place in places for part in place.parts)


def test_the_database_and_the_cache_are_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "new" / "runs.sqlite"
    with connected(str(file)):
        modes = {path.name: path.stat().st_mode & 0o777 for path in file.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    monkeypatch.delenv("RAGBENCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cache_folder()
    folder.chmod(0o755)
    assert cache_folder().stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(shared))
    assert cache_folder().stat().st_mode & 0o777 == 0o775
