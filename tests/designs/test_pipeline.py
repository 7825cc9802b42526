"""The design "pipeline": its measures by their names, its cron block, its alert."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench.evaluation import load_targets
from ragbench.registry import measure_of
from ragbench.service import alerts, schedules
from tests.designs.conftest import Run

pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
NAMES = {
    "ContextRecall": "context_recall",
    "ChunkCoherence": "coherence",
    "AnswerRelevance": "llm_relevance",
}


@pytest.fixture
def team(run: Run, tmp_path: Path) -> Run:
    """As `run`, in a folder with documents and a test set."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.md").write_text(
        "Cats sleep most of the day. Cats hunt at dawn and at dusk. A cat that sleeps is a happy cat."
    )
    (tmp_path / "docs" / "dogs.md").write_text("Dogs bark at strangers. Dogs walk twice a day.")
    cases = [
        {
            "id": "cats",
            "question": "When do cats hunt?",
            "expected_chunks": [{"doc_id": "cats.md"}],
        },
        {
            "id": "dogs",
            "question": "When do dogs bark?",
            "expected_chunks": [{"doc_id": "dogs.md"}],
        },
    ]
    (tmp_path / "tests.json").write_text(json.dumps({"cases": cases}))
    return run


def report(run: Run, *options: str) -> tuple[int, dict[str, Any]]:
    words = ("--test-set", "tests.json", "--docs", "docs", "--output", "r.json", "--force")
    code, shown = run("eval", *words, *options)
    assert code in (0, 1), shown
    content: dict[str, Any] = json.loads(Path("r.json").read_text(encoding="utf-8"))
    return code, content


@pytest.mark.parametrize(("name", "measure"), NAMES.items())
def test_the_measures_of_the_design_have_its_names(name: str, measure: str) -> None:
    assert measure_of(name).name == measure
    assert load_targets({name: 0.5}).measures[measure] == 0.5
    assert load_targets().gated(f"{name}=0.5").gates == {measure}


def test_the_report_of_the_preset_has_the_names(team: Run) -> None:
    code, shown = report(team, "--targets", "pipeline")
    assert code == 0
    values = {row["measure"]: row["value"] for row in shown["measures"]}
    assert shown["metrics"] == {
        "ContextRecall": values["context_recall"],
        "ChunkCoherence": shown["facts"]["coherence"],
        "AnswerRelevance": None,  # without a judge
    }
    assert shown["metrics"]["ContextRecall"] == 1
    assert 0 < shown["metrics"]["ChunkCoherence"] < 1
    assert "metrics" not in report(team)[1]


@pytest.mark.parametrize(("target", "code"), [(0.05, 0), (0.99, 1)])
def test_the_names_can_have_targets(team: Run, tmp_path: Path, target: float, code: int) -> None:
    text = f'preset = "pipeline"\n[targets]\nContextRecall = 0.8\nChunkCoherence = {target}\n'
    (tmp_path / "mine.toml").write_text(text)
    got, shown = report(team, "--targets", "mine.toml")
    rows = {row["measure"]: row for row in shown["measures"]}
    assert rows["context_recall"]["verdict"] == "passed"
    assert rows["coherence"]["verdict"] == ("missed" if code else "passed")
    assert rows["coherence"]["value"] == shown["metrics"]["ChunkCoherence"]
    assert got == code


def test_the_relevance_of_answers_is_the_judges(
    team: Run, loopback: Callable[..., Any], wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    verdict = {"relevance": {"reason": "It addresses it.", "score": 0.75}}
    server = loopback(lambda asked: wire.Answered(wire.openai(json.dumps(verdict))))
    for name, value in {"MODEL": "m", "BASE_URL": server.url, "API_KEY": "sk-0"}.items():
        llm_environment.setenv(f"RAG_EVAL_OPENAI_{name}", value)
    llm_environment.setenv("RAG_EVAL_PROVIDER", "openai")
    options = ("--targets", "pipeline", "--judge", "env", "--criteria", "relevance")
    _, shown = report(team, *options, "--fail-under", "AnswerRelevance=0.5")
    [value] = [row["value"] for row in shown["measures"] if row["measure"] == "llm_relevance"]
    assert shown["metrics"]["AnswerRelevance"] == value > 0.5


def test_the_cron_block_runs_and_alerts(team: Run, tmp_path: Path) -> None:
    (tmp_path / "cron.yaml").write_text(
        "cron:\n  jobs:\n    - id: rag-eval\n      schedule: '0 0 * * 0'\n"
        "      handler: rag.evaluate\n"
        "      config:\n        test_set: tests.json\n        alert_threshold: 0.8\n"
    )
    code, shown = team("schedule", "import", "cron.yaml")
    assert code == 2
    assert "tests.json holds no documents" in shown
    assert schedules().empty
    code, shown = team("schedule", "import", "cron.yaml", "--docs", "docs")
    assert (code, "added: rag-eval" in shown) == (0, True), shown
    assert set(alerts()["rule"]) == {"pass_rate<0.8", "failed"}
