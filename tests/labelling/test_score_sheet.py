"""From answers to a sheet, from the filled sheet to a calibration; the commands of the help."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError, DataError
from ragbench.labelling import calibrate_sheet, read_sheet, write_score_sheet
from ragbench.labelling.sheet import scores_file
from ragbench.types import Answer, Case

CASES = [Case(f"q{i}", f"Question {i}?") for i in range(100)]
ANSWERS = [Answer(case.query_id, f"Answer {i}.") for i, case in enumerate(CASES)]
SCORES = {case.query_id: i / 100 for i, case in enumerate(CASES)}


def fill(path: Path, limit: float) -> None:
    """Yes from the limit on, with some exceptions near it."""
    kept = json.loads(scores_file(path).read_text())["items"]
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    for i, row in enumerate(rows):
        score = kept[row["item"]]["score"]
        row["verdict"] = "yes" if (score >= limit) != (abs(score - limit) < 0.1 and i % 3 == 0) else "no"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_the_sheet_spans_the_score_and_does_not_show_it(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    assert write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=40, model="minilm") == 40
    sheet = read_sheet(path)
    assert set(sheet["picked"]) == {"random"}
    assert set(sheet["criterion"]) == {"support"}
    drawn = [SCORES[query_id] for query_id in sheet["query_id"]]
    assert drawn != sorted(drawn)
    assert np.histogram(drawn, bins=10, range=(0, 1))[0].tolist() == [4] * 10
    assert "0.5" not in path.read_text(encoding="utf-8-sig")
    about = json.loads(scores_file(path).read_text())
    assert (about["measure"], about["scored"]) == ("claim_support", 100)
    ranks = sorted(own["rank"] for own in about["items"].values())
    assert set(np.diff(ranks)) == {2, 3}


def test_a_filled_sheet_becomes_a_calibration(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=60, model="minilm")
    with pytest.raises(DataError, match="there are 0 labels"):
        calibrate_sheet(path)
    fill(path, 0.6)
    found = calibrate_sheet(path)
    assert (found.measure, found.model, found.n) == ("claim_support", "minilm", 60)
    assert found.threshold == pytest.approx(0.6, abs=0.08)
    scores_file(path).unlink()
    with pytest.raises(DataError, match=r"labels\.scores\.json is not next to labels\.csv"):
        calibrate_sheet(path)


def test_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with pytest.raises(ConfigError, match="n is 20; a calibration needs 30 labels"):
        write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=20)
    with pytest.raises(DataError, match="12 of 100 answers have a claim_support"):
        write_score_sheet(CASES, ANSWERS, dict(list(SCORES.items())[:12]), {}, path)
    with pytest.raises(ConfigError, match=r"does not end in \.csv"):
        write_score_sheet(CASES, ANSWERS, SCORES, {}, tmp_path / "labels.txt")
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        write_score_sheet(CASES, ANSWERS, SCORES, {}, path)


def test_the_commands(tmp_path: Path) -> None:
    tests = tmp_path / "tests.jsonl"
    tests.write_text("".join(json.dumps({"query_id": f"q{i}", "text": f"What is {i}?"}) + "\n" for i in range(40)))
    lines = [
        {"query_id": f"q{i}", "answer": f"The number {i} is a number{' of cats on the moon' * (i % 3)}.",
         "contexts": [f"The number {i} is a number."]}
        for i in range(40)
    ]  # fmt: skip
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "numbers.txt").write_text("The number 1 is a number.")
    path, own = tmp_path / "labels.csv", tmp_path / "calibration.json"
    command = ["label", str(answers), "--test-set", str(tests), "--corpus", str(docs), "-n", "40", "-o", str(path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "40 answers to label" in done.output
    assert "The number 7 is a number." in read_sheet(path)["context"].str.cat()
    fill(path, 0.8)
    done = CliRunner().invoke(app, ["label", str(path), "-o", str(own)])
    assert done.exit_code == 0, done.output
    assert "claim_support: positive from" in done.output
    assert own.exists()
    done = CliRunner().invoke(app, command)
    assert (done.exit_code, "exists already" in done.output) == (2, True)
