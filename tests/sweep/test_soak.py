"""Sweeps, an evaluation and a server killed at random while they share one store of replies; about three minutes."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragbench.datasets import load_dataset
from ragbench.history import add_key
from tests.sweep.test_language_models import reply_to, settings, write_grid

GRID = '[sweep]\nname = "{}"\n[fixed]\nmax_queries = 25\njudge = "openai:j"\n[axes]\nprompt = {}'
KILLING_S, LIMIT_S = 45.0, 120.0
IN_FLIGHT_S = 4.0  # workers of a killed sweep see within a moment that it is gone


def commands(folder: Path) -> dict[str, list[str]]:
    """Two sweeps and an evaluation that ask for many of the same replies, each into a folder of its own."""
    questions = list(load_dataset("pydoc").queries)[:60]
    given = [json.dumps({"query_id": one, "answer": f"It is {one}.", "contexts": []}) + "\n" for one in questions]
    found = {}
    for name, part, prompts in (("a", given[:45], ["cited", "plain"]), ("b", given[15:], ["plain", "concise"])):
        own = folder / name
        grid = write_grid(own, GRID.format(name, json.dumps(prompts)))
        (own / "answers.jsonl").write_text("".join(part), encoding="utf-8")
        found[f"sweep {name}"] = ["sweep", str(grid), "--out", str(own / "out"), "--jobs", "1"]
        found["eval"] = [
            "eval", "--test-set", "pydoc", "--system", str(own / "answers.jsonl"), "--perspective", "answer",
            "--judge", "openai:j", "--criteria", "correctness", "--output", str(own / "eval"), "--force",
        ]  # fmt: skip
    return found


def numbers(folder: Path) -> dict[str, bytes]:
    """Of the server's job by what it is, as each attempt has a folder of its own."""
    paths = [path for name in ("scores.csv", "run.trec") for path in folder.rglob(name)]
    served = folder / "served"
    return {
        str(path.name if path.is_relative_to(served) else path.relative_to(folder)): path.read_bytes() for path in paths
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


class Served(threading.Thread):
    """A server with a job of judgements, killed `max_kills` times at most and started again until it is done."""

    def __init__(self, folder: Path, deadline: float, max_kills: int = 3) -> None:
        super().__init__(daemon=True)
        self.random, self.deadline, self.max_kills = random.Random(7), deadline, max_kills
        self.kills: list[float] = []
        self.exit, self.output = -1, "the server"
        (folder / "root").mkdir(parents=True)
        self.database, self.port = str(folder / "runs.sqlite"), free_port()
        self.headers = {"X-API-Key": add_key("soak", client="acme", role="admin", database=self.database)}
        self.command = [
            "serve", "--root", str(folder / "root"), "--port", str(self.port), "--database", self.database,
            "--lease", "3",
        ]  # fmt: skip
        self.sent = False

    def run(self) -> None:
        while time.monotonic() < self.deadline:
            running = subprocess.Popen(
                [sys.executable, "-m", "ragbench", *self.command], start_new_session=True, stdout=subprocess.DEVNULL
            )
            end = time.monotonic() + self.random.uniform(12, 22) if len(self.kills) < self.max_kills else self.deadline
            while time.monotonic() < end and running.poll() is None and not self.done():
                time.sleep(0.3)
            if self.done():
                self.exit = 0
                running.terminate()
            else:
                os.killpg(running.pid, signal.SIGKILL)
                self.kills.append(time.monotonic())
            running.wait()
            if self.exit == 0:
                return

    def done(self) -> bool:
        """Send what is needed as soon as the server answers; whether its job has ended."""
        url = f"http://127.0.0.1:{self.port}"
        try:
            with httpx.Client(base_url=url, headers=self.headers, timeout=10) as client:
                if not self.sent:
                    client.post("/ingest", json={"documentId": "d", "text": "Things work as they do."})
                    cases = [
                        {
                            "id": f"c{i}",
                            "question": f"How is thing {i}?",
                            "expectedAnswer": f"As thing {i} does.",
                        }
                        for i in range(20)
                    ]
                    client.post("/api/v1/datasets?name=support", json=cases)
                    run = {"dataset": "support", "judge": True}
                    job = client.post("/api/v1/runs", json=run, headers={"Idempotency-Key": "soak"})
                    self.sent = job.status_code == 202
                return [job["state"] for job in client.get("/api/v1/jobs").json()] == ["done"]
        except (httpx.HTTPError, ValueError):
            return False


class Killed(threading.Thread):
    """A command started again and again: killed at random moments for a while, then left to its end."""

    def __init__(self, command: list[str], seed: int, until: float, deadline: float) -> None:
        super().__init__(daemon=True)
        self.command, self.random, self.until, self.deadline = command, random.Random(seed), until, deadline
        self.kills: list[float] = []
        self.starts, self.exit, self.output = 0, -1, ""

    def run(self) -> None:
        while time.monotonic() < self.deadline:
            running = subprocess.Popen(
                [sys.executable, "-m", "ragbench", *self.command],
                start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self.starts += 1
            left = (self.until if time.monotonic() < self.until else self.deadline) - time.monotonic()
            wait = self.random.uniform(2, 14) if time.monotonic() < self.until else left
            try:
                self.output, _ = running.communicate(timeout=max(wait, 0.1))
            except subprocess.TimeoutExpired:
                whole = self.random.random() < 0.5  # the group, or its leader alone
                with suppress(ProcessLookupError):
                    (os.killpg if whole else os.kill)(running.pid, signal.SIGKILL)
                running.communicate()
                self.kills.append(time.monotonic())
                time.sleep(1.5)
                continue
            self.exit = running.returncode
            if self.exit in (0, 1) and time.monotonic() >= self.until:
                return


@pytest.mark.simulation
@pytest.mark.skipif(os.name != "posix", reason="kills groups of processes")
def test_four_processes_that_are_killed_at_random_share_a_store_and_pay_once(
    loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []

    def reply(request: Any) -> Any:
        if request.body:  # one whose sender was killed while sending has none
            asked.append((json.dumps([request.body["model"], request.body["messages"]]), time.monotonic()))
        time.sleep(0.4)
        return reply_to(request, wire)

    server = loopback(reply)
    settings(monkeypatch, tmp_path / "cache of the killed", server.url, tmp_path)
    judged_by(monkeypatch)
    began = time.monotonic()
    killed: list[Killed | Served] = [Served(tmp_path / "killed" / "served", began + LIMIT_S)]
    killed += [
        Killed(command, seed, began + KILLING_S, began + LIMIT_S)
        for seed, command in enumerate(commands(tmp_path / "killed").values())
    ]
    for one in killed:
        one.start()
    for one in killed:
        one.join()
    assert [one.exit in (0, 1) for one in killed] == [True] * 4, "\n".join(one.output[-500:] for one in killed)
    kills = [at for one in killed for at in one.kills]
    times = collections.defaultdict(list)
    for prompt, at in asked:
        times[prompt].append(at)
    again = [at for own in times.values() for at in own[:-1]]
    print(f"{len(times)} prompts, {len(again)} asked again, {len(kills)} kills, {time.monotonic() - began:.0f} s")
    assert len(kills) >= 4
    assert [at for at in again if not any(abs(at - kill) < IN_FLIGHT_S for kill in kills)] == []

    settings(monkeypatch, tmp_path / "cache of the undisturbed", server.url, tmp_path)
    judged_by(monkeypatch)
    asked.clear()
    alone = Served(tmp_path / "undisturbed" / "served", time.monotonic() + LIMIT_S, max_kills=0)
    alone.run()
    assert alone.exit == 0
    for command in commands(tmp_path / "undisturbed").values():
        done = subprocess.run([sys.executable, "-m", "ragbench", *command], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr[-500:]
    assert {prompt for prompt, _ in asked} == set(times)
    assert len(asked) == len(times), "undisturbed, each is sent once"
    expected = numbers(tmp_path / "undisturbed")
    assert len(expected) >= 8
    assert numbers(tmp_path / "killed") == expected
