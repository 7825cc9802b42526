"""Sweeps and evaluations killed at random while they share one store of replies; three minutes at most."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragbench.datasets import load_dataset
from tests.sweep.test_language_models import reply_to, settings, write_grid

GRID = '[sweep]\nname = "{}"\n[fixed]\nmax_queries = 25\njudge = "openai:j"\n[axes]\nprompt = {}'
KILLING_S, LIMIT_S = 45.0, 120.0
IN_FLIGHT_S = 4.0  # workers of a killed sweep see within a moment that it is gone


def commands(folder: Path) -> dict[str, list[str]]:
    """Two sweeps and two evaluations that ask for many of the same replies, each into a folder of its own."""
    questions = list(load_dataset("pydoc").queries)[:60]
    given = [json.dumps({"query_id": one, "answer": f"It is {one}.", "contexts": []}) + "\n" for one in questions]
    found = {}
    for name, part, prompts in (("a", given[:45], ["cited", "plain"]), ("b", given[15:], ["plain", "concise"])):
        own = folder / name
        grid = write_grid(own, GRID.format(name, json.dumps(prompts)))
        (own / "answers.jsonl").write_text("".join(part), encoding="utf-8")
        found[f"sweep {name}"] = ["sweep", str(grid), "--out", str(own / "out"), "--jobs", "1"]
        found[f"eval {name}"] = [
            "eval", "--test-set", "pydoc", "--system", str(own / "answers.jsonl"), "--perspective", "answer",
            "--judge", "openai:j", "--criteria", "correctness", "--output", str(own / "eval"), "--force",
        ]  # fmt: skip
    return found


def numbers(folder: Path) -> dict[str, bytes]:
    paths = [path for name in ("scores.csv", "run.trec") for path in folder.rglob(name)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


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
        time.sleep(0.15)
        return reply_to(request, wire)

    server = loopback(reply)
    settings(monkeypatch, tmp_path / "cache of the killed", server.url, tmp_path)
    began = time.monotonic()
    killed = [
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
    asked.clear()
    for command in commands(tmp_path / "undisturbed").values():
        done = subprocess.run([sys.executable, "-m", "ragbench", *command], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr[-500:]
    assert {prompt for prompt, _ in asked} == set(times)
    assert len(asked) == len(times), "undisturbed, each is sent once"
    expected = numbers(tmp_path / "undisturbed")
    assert len(expected) >= 8
    assert numbers(tmp_path / "killed") == expected
