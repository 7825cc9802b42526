"""Many requests at once: tenants, two servers on one PostgreSQL, and servers and children that are
killed.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from ragbench.service import add_key
from ragbench.service.job_queue import jobs, request_job
from ragbench.service.workers import Queue
from tests.service.conftest import _postgresql, new_database  # noqa: F401
from tests.service.server.conftest import CASES, DOCUMENTS, Call

_WAIT = 60


def foreign_requests(client: TestClient, own: dict[str, str]) -> list[tuple[str, str]]:
    """Every operation of the API that names something, with the ids of another client."""
    document = client.get("/api/v1/openapi.json").json()
    found = []
    for path, operations in document["paths"].items():
        for name in re.findall(r"{(\w+)}", path):
            filled = path.replace(
                f"{{{name}}}", own["dataset" if path.startswith("/api/v1/datasets") else name]
            )
            found += [(method.upper(), filled) for method in operations]
    assert len(found) > 8
    return found


def fuzz_tenants(client: TestClient, filled: Call, keys: dict[str, str], number: int) -> None:
    run = filled("POST", "/api/v1/runs?wait=60", {"dataset": "support"})
    filled("POST", "/evaluation/test-cases", CASES[0], status=201)
    own = {
        "case_id": "reset", "name": "support", "dataset": "support", "run_id": run["id"],
        "job_id": filled("GET", "/api/v1/jobs")[0]["id"],
    }  # fmt: skip
    requests, draw = foreign_requests(client, own), random.Random(0)
    queries = [
        "",
        "?client_id=acme",
        "?dataset=support",
        "?client_id=*",
        "?client_id=other&dataset=support",
    ]
    kept = ("/api/v1/datasets/support", "/evaluation/test-cases", "/api/v1/jobs", "/api/v1/runs")
    before = [filled("GET", path, key="acme admin") for path in kept]
    for _ in range(number):
        method, path = draw.choice(requests)
        other = draw.choice([path, f"{path}%00", f"{path}/../{own['dataset']}"])
        query, headers = draw.choice(queries), {"X-API-Key": keys["other"]}
        if draw.random() < 0.3:
            headers["X-Tenant-Id"] = "acme"
        sent: Any = {} if method in ("POST", "PUT") else None
        answer = client.request(method, other + query, json=sent, headers=headers)
        allowed = (404,) if other == path else (404, 405)
        assert answer.status_code in allowed, f"{method} {other}{query}: {answer.text}"
        assert "password" not in answer.text
    assert before == [filled("GET", path, key="acme admin") for path in kept]


def test_what_another_client_has_is_not_found(
    client: TestClient, filled: Call, keys: dict[str, str]
) -> None:
    fuzz_tenants(client, filled, keys, 60)


@pytest.mark.simulation
def test_ten_thousand_requests_with_foreign_ids(
    client: TestClient, filled: Call, keys: dict[str, str]
) -> None:
    fuzz_tenants(client, filled, keys, 10_000)


@contextmanager
def serving(
    root: Path, database: str, *options: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A real server in a process of its own."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    command = [
        "serve",
        "--port",
        str(port),
        "--root",
        str(root),
        "--database",
        database,
        *options,
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "ragbench", *command], stdout=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(_WAIT * 10):
            assert process.poll() is None, "the server ended"
            try:
                if httpx.get(f"{url}/api/v1/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield url, process
    finally:
        process.kill()
        process.wait()


@pytest.mark.simulation
def test_two_servers_on_one_database(tmp_path: Path, new_database: Callable[[str], str]) -> None:  # noqa: F811
    database, root = new_database("postgresql"), tmp_path / "root"
    root.mkdir()
    key = add_key("load", client="acme", role="runner", database=database)
    with (
        serving(root, database, "--jobs", "0") as (one, _),
        serving(root, database, "--jobs", "0") as (two, _),
    ):
        clients = [
            httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=_WAIT)
            for url in (one, two) * 4
        ]
        assert clients[0].post("/api/v1/datasets?name=support", json=CASES).status_code == 201

        def send(number: int) -> tuple[int, str]:
            client, path = clients[number % 8], "/api/v1/runs"
            if number % 3 == 0:  # 200 of 600: 25 keys, 8 times each
                headers = {"Idempotency-Key": f"key {number // 3 % 25}".replace(" ", "-")}
                answer = client.post(path, json={"dataset": "support"}, headers=headers)
                return answer.status_code, answer.json().get("id", "")
            paths = (
                "/api/v1/runs",
                "/api/v1/jobs",
                "/api/v1/test-cases",
                "/api/v1/datasets",
                "/api/v1/health",
            )
            return client.get(paths[number % 5]).status_code, ""

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, range(600)))
        for client in clients:
            client.close()
    assert Counter(status for status, _ in answers) == {200: 400, 202: 200}
    made = Counter(job_id for _, job_id in answers if job_id)
    assert sorted(made.values()) == [8] * 25
    assert len(jobs(limit=1000, database=database)) == 25


def filled_root(root: Path) -> Path:
    """The folder of client acme with one data set that has its documents."""
    folder = root / "clients" / "acme" / "testsets"
    folder.mkdir(parents=True)
    labels = [
        {"query_id": one["id"], "text": one["question"], "relevant": {one["expectedDocumentId"]: 1}}
        for one in CASES
    ]
    documents = [{"doc_id": doc_id, "text": text} for doc_id, text in DOCUMENTS.items()]
    lines = [json.dumps(line) for line in [*labels, *documents]]
    (folder / "support.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "support.jsonl"


def children(process: subprocess.Popen[bytes]) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended may still be listed."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")


def wanted_jobs(root: Path, database: str, number: int) -> list[str]:
    place = filled_root(root)
    command = [
        "eval",
        f"--test-set={place}",
        "bm25",
        "--perspective=retrieval",
        "--suite=smoke",
    ]
    return [
        request_job(
            command,
            series=f"s{i}",
            client="acme",
            folder=root / "clients" / "acme",
            database=database,
        )
        for i in range(number)
    ]


def check_each_ended_once(database: str, made: list[str]) -> None:
    found = {job["id"]: job for job in jobs(limit=1000, database=database)}
    assert {found[job_id]["state"] for job_id in made} == {"done"}, found
    from ragbench.service import history

    recorded = Counter(history(limit=0, database=database)["series"])
    assert sorted(recorded.values()) == [1] * len(made)


def until_all_ended(database: str, made: list[str], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        states = Counter(job["state"] for job in jobs(limit=1000, database=database))
        if states["done"] + states["failed"] >= len(made):
            return
        time.sleep(0.5)
    raise AssertionError(f"{states} after {seconds} s")


@pytest.mark.simulation
def test_killed_servers_and_children_leave_every_job_ended_once(tmp_path: Path) -> None:
    root, database, draw = tmp_path / "root", str(tmp_path / "runs.sqlite"), random.Random(0)
    made = wanted_jobs(root, database, 6)
    options = ("--jobs", "2", "--lease", "6")
    for _ in range(4):
        with serving(root, database, *options) as (_, server):
            time.sleep(draw.uniform(1, 6))
            victims = [*children(server), server.pid]
            os.kill(draw.choice(victims), signal.SIGKILL)
            time.sleep(1)
            begun = children(server)
        time.sleep(1)
        assert not [pid for pid in begun if alive(pid)], "children end with their server"
    with serving(root, database, *options):
        until_all_ended(database, made, 240)
    killed = [job for job in jobs(limit=1000, database=database) if job["state"] == "failed"]
    assert len(killed) <= 4, "only a job whose own process was killed fails"
    done = [job_id for job_id in made if job_id not in {job["id"] for job in killed}]
    check_each_ended_once(database, done)


def test_a_job_that_takes_more_memory_than_it_may_fails_alone(tmp_path: Path) -> None:
    database = str(tmp_path / "runs.sqlite")
    [made] = wanted_jobs(tmp_path, database, 1)
    queue = Queue(database, memory_mb=60)
    queue.start()
    until_all_ended(database, [made], 60)
    queue.stop()
    [job] = jobs(database=database)
    assert (job["state"], job["run"]) == ("failed", "")
    assert job["output"]


def test_sigterm_returns_the_job_and_another_server_does_it(tmp_path: Path) -> None:
    root, database = tmp_path / "root", str(tmp_path / "runs.sqlite")
    [made] = wanted_jobs(root, database, 1)
    with serving(root, database, "--grace", "0") as (_, server):
        while jobs(database=database)[0]["state"] == "waiting":
            time.sleep(0.05)
        server.terminate()
        assert server.wait(30) in (0, -signal.SIGTERM)
    [job] = jobs(database=database)
    assert (job["state"], job["attempts"]) == ("waiting", 0)
    with serving(root, database):
        until_all_ended(database, [made], 120)
    check_each_ended_once(database, [made])
