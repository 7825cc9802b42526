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
from ragbench.labelling import calibrate_sheet, read_sheet, save_label, write_score_sheet
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
        row["verdict"] = (
            "yes" if (score >= limit) != (abs(score - limit) < 0.1 and i % 3 == 0) else "no"
        )
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
    assert set(np.histogram(drawn, bins=10, range=(0, 1))[0].tolist()) <= {3, 4, 5}
    assert "0.5" not in path.read_text(encoding="utf-8-sig")
    about = json.loads(scores_file(path).read_text())
    assert (about["measure"], len(about["items"])) == ("claim_support", len(sheet))
    ranks = sorted(own["rank"] for own in about["items"].values())
    assert set(np.diff(ranks)) <= {1, 2, 3}


def test_each_answer_is_drawn_equally_often(tmp_path: Path) -> None:
    counts = dict.fromkeys(SCORES, 0)
    for seed in range(60):
        path = tmp_path / f"labels{seed}.csv"
        write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=30, seed=seed)
        for query_id in read_sheet(path)["query_id"]:
            counts[query_id] += 1
    assert sum(counts.values()) == 60 * 30
    assert (
        6 <= min(counts.values()) <= max(counts.values()) <= 32
    )  # 18 expected, standard deviation 3.5


def test_a_rare_kind_is_drawn_until_there_are_enough(tmp_path: Path) -> None:
    """17 % positive: 30 labels do not suffice in half of the draws; the same command again adds
    answers.
    """
    refused = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        cases = [Case(f"q{i}", f"Question {i}?") for i in range(300)]
        answers = [Answer(case.query_id, f"Answer {i}.") for i, case in enumerate(cases)]
        right = {f"q{i}": bool(rng.random() < 0.17) for i in range(300)}
        scores = {
            name: float(np.clip(rng.normal(0.8 if yes else 0.5, 0.15), 0, 1))
            for name, yes in right.items()
        }
        path = tmp_path / f"labels{seed}.csv"
        write_score_sheet(cases, answers, scores, {}, path, n=30, seed=seed)
        found = None
        for _ in range(3):
            fill_with(path, right)
            labelled = [right[query_id] for query_id in read_sheet(path)["query_id"]]
            if sum(labelled) >= 5:
                found = calibrate_sheet(path)
                break
            with pytest.raises(DataError, match="with 5 of each kind"):
                calibrate_sheet(path)
            refused += 1
            assert write_score_sheet(cases, answers, scores, {}, path, n=30, seed=99) == 30
        assert found is not None
        assert found.n_positive >= 5
        assert found.threshold == pytest.approx(0.65, abs=0.15)
    assert refused > 0


def test_a_longer_sheet_keeps_its_labels_and_its_spread(tmp_path: Path) -> None:
    path, longer = tmp_path / "labels.csv", tmp_path / "longer.csv"
    write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=30, seed=5)
    fill(path, 0.6)
    labelled = read_sheet(path)
    assert write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=12) == 12
    both = read_sheet(path)
    assert both["value"].notna().sum() == 30
    assert both.head(30)[["item", "verdict"]].equals(labelled[["item", "verdict"]])
    write_score_sheet(CASES, ANSWERS, SCORES, {}, longer, n=42, seed=5)
    assert set(read_sheet(longer)["item"]) == set(both["item"])
    assert write_score_sheet(CASES, ANSWERS, SCORES, {}, path, n=100) == 58
    with pytest.raises(DataError, match="all 100 answers"):
        write_score_sheet(CASES, ANSWERS, SCORES, {}, path)
    with pytest.raises(ConfigError, match="other scores"):
        write_score_sheet(CASES, ANSWERS, SCORES, {}, path, model="another")


def fill_with(path: Path, right: dict[str, bool]) -> None:
    for row in read_sheet(path).to_dict("records"):
        save_label(path, row["item"], float(right[row["query_id"]]))


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
    with pytest.raises(DataError, match=r"labels\.scores\.json is not next to"):
        write_score_sheet(CASES, ANSWERS, SCORES, {}, path)


def test_the_commands(tmp_path: Path) -> None:
    tests = tmp_path / "tests.jsonl"
    tests.write_text(
        "".join(
            json.dumps({"query_id": f"q{i}", "text": f"What is {i}?"}) + "\n" for i in range(40)
        )
    )
    lines = [
        {"query_id": f"q{i}", "answer": f"The number {i} is a "
                                        f"number{' of cats on the moon' * (i % 3)}.",
         "contexts": [f"The number {i} is a number."]}
        for i in range(40)
    ]  # fmt: skip
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "numbers.txt").write_text("The number 1 is a number.")
    path, own = tmp_path / "labels.csv", tmp_path / "calibration.json"
    command = [
        "label",
        str(answers),
        "--test-set",
        str(tests),
        "--corpus",
        str(docs),
        "-n",
        "40",
        "-o",
        str(path),
    ]
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
    assert (done.exit_code, "all 40 answers" in done.output) == (2, True)
