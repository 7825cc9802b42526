"""`ragbench tune`: a judge behind a server whose errors depend on the wording, and what is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.types import Answer, Case, Dataset

N = 36
RIGHT = [i % 3 != 0 for i in range(N)]
CASES = [Case(f"q{i}", f"What is {i}?", reference_answer=f"It is {i}.") for i in range(N)]
DATA = Dataset("n", "test", {}, CASES, {})


@pytest.fixture
def sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    answers = [
        Answer(f"q{i}", f"It is {i if RIGHT[i] else i + 1}.", outcome="success") for i in range(N)
    ]
    items = rb.labelling.draw_items([rb.evaluate(DATA, answers)], "correctness", dataset=DATA, n=N)
    path = rb.labelling.label_sheet(items, tmp_path / "labels.csv")
    rows = rb.labelling.read_sheet(path)
    numbers = rows["query_id"].str.removeprefix("q").astype(int)
    words = numbers.map(lambda i: "yes" if RIGHT[i] else "no")
    rows.assign(verdict=words).drop(columns="value").to_csv(path, index=False)
    return path


@pytest.fixture
def serve(loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A judge that compares answer and reference where its prompt holds a phrase; else it says yes."""

    def part(prompt: str, kind: str) -> str:
        found = re.search(rf"<{kind}-\w+>\n(.*?)\n</{kind}-", prompt, re.DOTALL)
        assert found is not None
        return found[1]

    def start(phrase: str) -> Any:
        def reply(asked: Any) -> Any:
            prompt = asked.body["messages"][-1]["content"]
            is_right = part(prompt, "answer") == part(prompt, "reference")
            verdict = is_right if phrase in prompt else True
            text = json.dumps({"correctness": {"reason": "r", "verdict": verdict}})
            return wire.Answered(wire.openai(text))

        server = loopback(reply)
        llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", f"{server.url}/v1")
        llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "sk-none")
        return server

    return start


def tune(*options: str) -> Any:
    command = ["tune", "openai:gpt-5-mini", "--labels", "labels.csv", *options]
    return CliRunner().invoke(app, command)


def test_a_judge_behind_a_server_is_tuned_within_its_bounds(sheet: Path, serve: Any) -> None:
    server = serve("choose the lower level")
    planned = tune("--dry-run")
    assert planned.exit_code == 0, planned.output
    assert f"requests to send: {6 * N}" in planned.output
    assert re.search(r"\$|USD|dollars", planned.output)
    refused = tune("--max-requests", "100")
    assert refused.exit_code == 2
    assert f"tuning takes {6 * N} requests" in refused.output
    assert server.asked == []
    assert not Path("tuned.toml").exists()

    done = tune()
    assert done.exit_code == 0, done.output
    assert len(server.asked) == 6 * N
    assert "Agreement before tuning: 0.667; after it" in done.output
    assert "not used for the choice: 1.000 [" in done.output
    assert "use it with --criteria tuned.toml" in done.output
    [tuned] = rb.judges.load_criteria("tuned.toml")
    assert "choose the lower level" in tuned.question
    again = tune("--json")
    record = json.loads(again.output)
    assert (record["after"], record["n_labels"], len(record["candidates"])) == (1.0, N, 6)
    assert len(server.asked) == 6 * N, "every reply is stored"


def test_a_judge_that_no_wording_helps_is_left_as_it_is(sheet: Path, serve: Any) -> None:
    serve("no prompt holds this")
    done = tune()
    assert "Nothing was gained: keep the criterion as it is." in done.output


def test_an_own_wording_is_tried(sheet: Path, serve: Any) -> None:
    serve("Compare the numbers")
    done = tune("--wording", "Compare the numbers: does the answer agree with the reference?")
    assert done.exit_code == 0, done.output
    assert "wording 1" in done.output
    assert "not used for the choice: 1.000 [" in done.output


def test_the_maximum_cost_ends_it(sheet: Path, serve: Any) -> None:
    server = serve("choose the lower level")
    done = tune("--max-cost", "0.0000001")
    assert done.exit_code == 2
    assert "36 of 36 requests failed, the first: " in done.output
    assert "budget" in done.output
    assert server.asked == []
    assert not Path("tuned.toml").exists(), "what failed is no disagreement"
