"""The entailment model of `claim_support`, named in evaluate, the command line and the notebook."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ComparisonError, ConfigError
from ragbench.evaluation import check_parameters, evaluate
from ragbench.metrics.groundedness import claim_support
from ragbench.types import Answer, Case, Dataset, Document, Passage

TEXT = "The tower opened in Paris."
DATA = Dataset(
    "mine", "test", {"d": Document("d", TEXT)}, [Case("q", "Is the tower tall?")], {"q": {"d": 1}}
)
ANSWERS = [Answer("q", "The tower is tall.", passages=(Passage("p", TEXT, "d"),))]


def test_evaluate_uses_it_and_reports_it(nli_encoder: Path) -> None:
    model = str(nli_encoder)
    report = evaluate(DATA, ANSWERS, perspectives=["groundedness"], support_model=model)
    (case,) = report.cases
    expected = claim_support("The tower is tall.", [TEXT], model=model)
    assert case.scores["claim_support"] == pytest.approx(expected)
    assert report.settings["support_model"] == model
    with pytest.raises(ComparisonError, match="support_model"):
        evaluate(DATA, ANSWERS, perspectives=["groundedness"], baseline=report)


def test_the_default_is_minilm_with_any_embedder() -> None:
    report = evaluate(DATA, ANSWERS, perspectives=["groundedness"], embedder="wordllama")
    assert report.settings["support_model"] == "minilm"
    assert report.cases[0].scores["claim_support"] == claim_support("The tower is tall.", [TEXT])


def test_a_model_that_cannot_be_one_is_refused_before_the_system_is_asked(
    nli_encoder: Path, tmp_path: Path
) -> None:
    asked = []

    class Watched:
        name = "watched"

        def answer(self, query_id: str, text: str) -> Answer:
            asked.append(query_id)
            return Answer(query_id, "x")

    other = tmp_path / "other"
    other.mkdir()
    for file in nli_encoder.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    labels = {"good": 0, "fair": 1, "bad": 2}
    config |= {"id2label": {str(i): label for label, i in labels.items()}, "label2id": labels}
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, message in (("mini-lm", "did you mean 'minilm'"), (str(other), "none is entailment")):
        with pytest.raises(ConfigError, match=message):
            evaluate(DATA, Watched(), perspectives=["groundedness"], support_model=name)
    assert asked == []
    with pytest.raises(ConfigError, match="did you mean 'minilm'"):
        check_parameters({"support_model": "mini-lm"})


def test_the_command_line_takes_it(nli_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "d.md").write_text(TEXT, encoding="utf-8")
    questions = {"test_cases": [{"id": "q", "query": "Where did the tower open?"}]}
    (tmp_path / "tests.json").write_text(json.dumps(questions), encoding="utf-8")
    command = [
        "eval",
        "--test-set",
        str(tmp_path / "tests.json"),
        "--docs",
        str(tmp_path / "docs"),
        "--json",
    ]
    done = CliRunner().invoke(
        app,
        [*command, "--output", str(tmp_path / "out"), "--support-model", str(nli_encoder)],
        catch_exceptions=False,
    )
    assert json.loads(done.stdout)["settings"]["support_model"] == str(nli_encoder), done.stderr
    done = CliRunner().invoke(app, [*command, "--support-model", "mini-lm"])
    assert done.exit_code == 2
    assert "did you mean 'minilm'" in done.stderr


def test_an_old_baseline_without_the_setting_is_compared() -> None:
    report = evaluate(DATA, ANSWERS, perspectives=["groundedness"], embedder="wordllama")
    settings = {k: v for k, v in report.settings.items() if k != "support_model"}
    old = replace(report, config={**report.config, "settings": settings})
    assert evaluate(
        DATA, ANSWERS, perspectives=["groundedness"], embedder="wordllama", baseline=old
    ).comparison
