"""Sweeps, an evaluation and a server share a store of replies and are killed in flight; three
minutes at most.
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from ragbench.service import add_key
from ragbench.testsets.loader import load_dataset
from tests.sweep.test_language_models import reply_to, settings, write_grid

GRID = '[sweep]\nname = "{}"\n[fixed]\nlimit = 15\njudge = "openai:j"\n[axes]\nprompt = {}'
KILLING_S, LIMIT_S = (
    40.0,
    150.0,
)  # idle, two cores need less than 180 s for all; the limit is for hanging
REPLY_S = 0.4
MOMENT_S = (
    2.0  # within it a reply is stored, and workers of a killed sweep or server see that it is gone
)


class Asked(NamedTuple):
    """A request: what was asked, by which command, and when (s)."""

    prompt: str
    name: str
    at: float


class Provider:
    """A model that takes its time. A command is known by its key."""

    def __init__(self, wire: Any) -> None:
        self.wire, self.seconds = wire, REPLY_S
        self.asked: list[Asked] = []
        self.flying: collections.Counter[str] = collections.Counter()
        self.lock = threading.Lock()

    def __call__(self, request: Any) -> Any:
        name = request.headers["authorization"].removeprefix("Bearer ")
        if request.body:  # one whose sender was killed while sending has none
            prompt = json.dumps([request.body["model"], request.body["messages"]])
            self.asked.append(Asked(prompt, name, time.monotonic()))
        with self.lock:
            self.flying[name] += 1
        time.sleep(self.seconds)
        with self.lock:
            self.flying[name] -= 1
        return reply_to(request, self.wire)


def commands(folder: Path) -> dict[str, list[str]]:
    """Two sweeps and an evaluation that ask for many of the same replies, each into a folder of its
    own.
    """
    questions = list(load_dataset("pydoc").queries)[:36]
    given = [
        json.dumps({"query_id": one, "answer": f"It is {one}.", "contexts": []}) + "\n"
        for one in questions
    ]
    found = {}
    for name, part, prompts in (
        ("a", given[:26], ["cited", "plain"]),
        ("b", given[10:], ["plain", "concise"]),
    ):
        own = folder / name
        grid = write_grid(own, GRID.format(name, json.dumps(prompts)))
        (own / "answers.jsonl").write_text("".join(part), encoding="utf-8")
        found[f"sweep-{name}"] = ["sweep", str(grid), "--output", str(own / "out"), "--jobs", "1"]
        found["eval"] = [
            "eval",
            "--test-set",
            "pydoc",
            str(own / "answers.jsonl"),
            "--perspective",
            "answer",
            "--judge",
            "openai:j",
            "--criteria",
            "correctness",
            "--output",
            str(own / "eval"),
            "--force",
        ]
    return found


def numbers(folder: Path) -> dict[str, bytes]:
    """Of the server's job by what it is, as each attempt has a folder of its own."""
    paths = [path for name in ("scores.csv", "run.trec") for path in folder.rglob(name)]
    served = folder / "served"
    return {
        str(
            path.name if path.is_relative_to(served) else path.relative_to(folder)
        ): path.read_bytes()
        for path in paths
    }


def judged_by(patch: pytest.MonkeyPatch) -> None:
    """The judge of the server."""
    patch.setenv("RAG_EVAL_PROVIDER", "openai")
    patch.setenv("RAG_EVAL_OPENAI_MODEL", "j")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Killed(threading.Thread):
    """A command started again and again: killed while a request of its own is in flight, later left
    to its end.
    """

    max_kills = 100

    def __init__(self, name: str, command: list[str], provider: Provider, killing_s: float) -> None:
        super().__init__(daemon=True)
        self.name, self.command, self.provider, self.random = (
            name,
            command,
            provider,
            random.Random(name),
        )
        self.until, self.deadline = (time.monotonic() + seconds for seconds in (killing_s, LIMIT_S))
        self.kills: list[float] = []
        self.exit, self.output = -1, ""

    def run(self) -> None:
        environment = {**os.environ, "RAG_EVAL_OPENAI_API_KEY": self.name}
        while time.monotonic() < self.deadline and self.exit not in (0, 1):
            with tempfile.TemporaryFile("w+") as output:
                running = subprocess.Popen(
                    [sys.executable, "-m", "ragbench", *self.command],
                    start_new_session=True,
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                self.attend(running)
                output.seek(0)
                self.output = output.read()[-500:]

    def attend(self, running: subprocess.Popen[bytes]) -> None:
        """Until it is killed or over."""
        flew = 0.0
        after = self.random.uniform(0, 3 * REPLY_S)
        while not self.over(running) and time.monotonic() < self.deadline:
            time.sleep(0.02 if flew else 0.1)
            flies = self.provider.flying[self.name] > 0
            flew = flew or flies * time.monotonic()
            hit = flies and time.monotonic() > flew + after
            if hit and time.monotonic() < self.until and len(self.kills) < self.max_kills:
                break
        else:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
            return
        with suppress(ProcessLookupError):  # the group, or its leader alone
            (os.killpg if self.random.random() < 0.5 else os.kill)(running.pid, signal.SIGKILL)
        self.kills.append(time.monotonic())
        running.wait()
        time.sleep(0.5)

    def over(self, running: subprocess.Popen[bytes]) -> bool:
        """Whether it ended by itself."""
        if running.poll() is None:
            return False
        self.exit = running.returncode
        return True


class Served(Killed):
    """A server with a job of judgements; a job is given up when its workers died five times."""

    max_kills = 3

    def __init__(self, folder: Path, provider: Provider, killing_s: float) -> None:
        (folder / "root").mkdir(parents=True)
        self.database, self.port = str(folder / "runs.sqlite"), free_port()
        self.headers = {
            "X-API-Key": add_key("soak", client="acme", role="admin", database=self.database)
        }
        self.sent, self.next = False, 0.0
        words = [
            "serve",
            "--root",
            str(folder / "root"),
            "--port",
            str(self.port),
            "--database",
            self.database,
        ]
        super().__init__("served", [*words, "--lease", "3"], provider, killing_s)

    def over(self, running: subprocess.Popen[bytes]) -> bool:
        """Send what is needed as soon as the server answers; it ends with its job."""
        if time.monotonic() < self.next or not self.done():
            return super().over(running)
        running.terminate()
        self.exit = 0 if running.wait() in (0, -signal.SIGTERM) else 2
        return True

    def done(self) -> bool:
        self.next = time.monotonic() + 0.5
        url = f"http://127.0.0.1:{self.port}"
        try:
            with httpx.Client(base_url=url, headers=self.headers, timeout=10) as client:
                if not self.sent:
                    for i in range(12):
                        text = f"Thing {i} is as it is: the thing {i} works as thing {i} does."
                        client.post("/ingest", json={"documentId": f"d{i}", "text": text})
                    cases = [
                        {
                            "id": f"c{i}",
                            "question": f"How is thing {i}?",
                            "expectedAnswer": f"As thing {i} does.",
                        }
                        for i in range(12)
                    ]
                    client.post("/api/v1/datasets?name=support", json=cases)
                    run = {"dataset": "support", "judge": True}
                    job = client.post("/api/v1/runs", json=run, headers={"Idempotency-Key": "soak"})
                    self.sent = job.status_code == 202
                return [job["state"] for job in client.get("/api/v1/jobs").json()] == ["done"]
        except (httpx.HTTPError, ValueError):
            return False


def finished(folder: Path, provider: Provider, killing_s: float) -> list[Killed]:
    """All four, at the same time, to their ends."""
    running: list[Killed] = [Served(folder / "served", provider, killing_s)]
    running += [
        Killed(name, command, provider, killing_s) for name, command in commands(folder).items()
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert [one.exit in (0, 1) for one in running] == [True] * 4, "\n".join(
        one.output for one in running
    )
    return running


@pytest.mark.simulation
@pytest.mark.skipif(os.name != "posix", reason="kills groups of processes")
def test_four_processes_that_are_killed_at_random_share_a_store_and_pay_once(
    loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, began = Provider(wire), time.monotonic()
    server = loopback(provider)
    settings(monkeypatch, tmp_path / "cache of the killed", server.url, tmp_path)
    judged_by(monkeypatch)
    kills = {one.name: one.kills for one in finished(tmp_path / "killed", provider, KILLING_S)}
    times = collections.defaultdict(list)
    for one in provider.asked:
        times[one.prompt].append(one)
    again = [one for own in times.values() for one in own[:-1]]
    n_kills, by = (
        sum(map(len, kills.values())),
        collections.Counter(one.name for one in provider.asked),
    )
    print(
        f"{len(times)} prompts, {len(again)} asked again, {n_kills} "
        f"kills, {time.monotonic() - began:.0f} s; {by}"
    )
    assert n_kills >= 4
    assert again, "no request in flight was hit"
    in_flight = [
        any(one.at - MOMENT_S < kill < one.at + REPLY_S + MOMENT_S for kill in kills[one.name])
        for one in again
    ]
    assert [one for one, was in zip(again, in_flight, strict=True) if not was] == []

    settings(monkeypatch, tmp_path / "cache of the undisturbed", server.url, tmp_path)
    judged_by(monkeypatch)
    provider.asked, provider.seconds = [], 0.0
    finished(tmp_path / "undisturbed", provider, 0.0)
    print(f"{time.monotonic() - began:.0f} s")
    assert {one.prompt for one in provider.asked} == set(times)
    assert len(provider.asked) == len(times), "undisturbed, each is sent once"
    expected = numbers(tmp_path / "undisturbed")
    assert len(expected) >= 8
    assert numbers(tmp_path / "killed") == expected
