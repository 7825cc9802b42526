"""A result in the schema of Every Eval Ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.errors import ConfigError

CORPUS = {"rail": rb.Document("rail", "The railway opened in 1881.")}
CASES = [
    rb.Case(f"q{i}", "When did the railway open?", reference_answer="In 1881.") for i in range(3)
]
DATA = rb.Dataset("demo", "test", CORPUS, CASES, {case.query_id: {"rail": 1} for case in CASES})


def test_every_mean_is_there_with_its_interval_and_the_system(tmp_path: Path) -> None:
    result = rb.evaluate(DATA, "bm25", name="mine")
    path = rb.write_report(result, tmp_path / "mine.eee.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["schema_version"] == "0.3.0"
    assert record["eval_library"]["name"] == "ragbench"
    assert record["model_info"]["id"].count("/") == 1
    details = record["model_info"]["additional_details"]
    assert details["deployment_type"] == details["model_availability"] == "unknown"
    assert all(isinstance(value, str) for value in details.values())
    scores = {each["metric_config"]["metric_name"]: each for each in record["evaluation_results"]}
    of = {row.measure: row for row in result.rows}
    assert scores["R@5"]["score_details"] == {
        "score": 1.0,
        "uncertainty": {
            "num_samples": 3,
            "confidence_interval": {
                "lower": pytest.approx(of["R@5"].ci_low, abs=1e-6),
                "upper": 1.0,
                "confidence_level": 0.95,
            },
        },
    }
    assert scores["R@5"]["source_data"] == {"dataset_name": "demo", "source_type": "other"}
    assert scores["R@5"]["metric_config"]["lower_is_better"] is False
    assert {name for name in scores if of[name].value is None} == set()
    with pytest.raises(ConfigError, match="replace it with --force"):
        rb.write_report(result, path)
    rb.write_report(result, path, force=True)


def test_its_validator_accepts_it(tmp_path: Path) -> None:
    core = pytest.importorskip("every_eval_ever.validator.validation_core")  # for Python from 3.12
    path = rb.write_report(rb.evaluate(DATA, "bm25"), tmp_path / "mine.eee.json")
    assert core.validate_aggregate(path).errors == []
