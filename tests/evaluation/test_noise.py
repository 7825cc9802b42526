"""The noise of a gate: how often the same system, evaluated again, gets another verdict."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.evaluation import load_targets
from ragbench.evaluation.noise import verdict_noise
from ragbench.types import Case, Completion, Dataset, Document

CORPUS = {
    "rail": Document(
        "rail", "The railway of the valley was opened in the year 1881 after ten years of work."
    )
}
CASES = tuple(
    Case(f"q{i}", f"When was line {i} opened?", reference_answer="In 1881.") for i in range(5)
)
DATA = Dataset("rail", "test", CORPUS, CASES, {case.query_id: {"rail": 1} for case in CASES})
SYSTEM = rb.FunctionSystem(
    lambda question: {"answer": "In 1881.", "contexts": [{"id": "rail"}]}, name="constant"
)
pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")


class Wavering:
    """A judge whose verdict is false with this probability, on each request anew."""

    name = "wavering"

    def __init__(self, flips: float, seed: int = 0) -> None:
        self.flips, self.random = flips, random.Random(seed)

    def generate(self, prompt: str, **options: object) -> Completion:
        verdict = self.random.random() >= self.flips
        return Completion(
            json.dumps({"correctness": {"reason": "r", "verdict": verdict}}), self.name
        )


def noise(judge: Any, cases: int, runs: int) -> dict[str, dict[str, Any]]:
    data = DATA.select([case.query_id for case in CASES[:cases]])
    targets = load_targets(fail_under="llm_correctness=0.5")
    options: dict[str, Any] = {
        "perspectives": ["answer"],
        "criteria": ["correctness"],
        "embedder": "wordllama",
        "targets": targets,
    }
    table = verdict_noise(data, SYSTEM, runs, judge=judge, **options)
    return {
        str(row["of"]): {str(name): value for name, value in row.items()}
        for row in table.to_dict("records")
    }


@pytest.mark.simulation
def test_a_judge_that_flips_27_percent_of_the_verdicts_is_reported_so() -> None:
    of_gate = noise(Wavering(0.27), 1, 150)[
        "gate"
    ]  # one question: the gate's verdict is the judge's
    assert of_gate["verdicts"] == 150
    assert of_gate["rate"] == pytest.approx(0.27, abs=0.07)
    assert of_gate["ci_low"] <= 0.27 <= of_gate["ci_high"]
    assert of_gate["ci_high"] - of_gate["ci_low"] == pytest.approx(0.14, abs=0.01)


def test_a_judge_that_flips_verdicts_on_questions_is_reported_so() -> None:
    found = noise(Wavering(0.27), 5, 30)["questions"]
    assert found["verdicts"] == 150
    assert found["flips"] / 150 == found["rate"] == pytest.approx(0.27, abs=0.07)
    assert found["ci_low"] <= 0.27 <= found["ci_high"]


def test_a_judge_that_never_flips_has_no_noise() -> None:
    assert {of: row["flips"] for of, row in noise(Wavering(0.0), 5, 4).items()} == {
        "gate": 0,
        "questions": 0,
    }


def test_one_evaluation_cannot_differ() -> None:
    with pytest.raises(ConfigError, match="1 evaluations"):
        noise(Wavering(0.0), 1, 1)


def test_the_command_asks_again_each_time_and_writes_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system whose answer changes from call to call, and one that is always the same."""
    (tmp_path / "systems_of_this_test.py").write_text(
        "from itertools import count\n"
        "calls = count()\n"
        "def changing(question):\n"
        "    return {'answer': 'In 1881.', 'contexts': [{'id': 'rail.md' if next(calls) % 2 else "
        "'x'}]}\n"
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rail.md").write_text(CORPUS["rail"].text)
    cases = [{"id": "q1", "query": "When was it opened?", "relevant": {"rail.md": 1}}]
    (tmp_path / "tests.yaml").write_text(json.dumps({"cases": cases}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RAGBENCH_YES", "1")
    command = (
        "eval --test-set tests.yaml --docs docs --perspective retrieval --fail-under R@5=0.5 --aa 6"
    )
    for system, flips in (("systems_of_this_test:changing", 3), ("bm25", 0)):
        done = CliRunner().invoke(app, [*command.split(), system])
        assert done.exit_code == 0, done.output
        [gate] = re.findall(
            r"gate: (\d) of 6 verdicts differ from the usual one: (\S+) (\[.*\])", done.output
        )
        assert (int(gate[0]), float(gate[1])) == (flips, flips / 6)
    assert not (tmp_path / "results").exists()
    done = CliRunner().invoke(app, [*command.replace("--aa 6", "--aa 1").split(), "bm25"])
    assert done.exit_code == 2
    done = CliRunner().invoke(app, [*command.split(), "bm25", "--offline"])
    assert done.exit_code == 2
