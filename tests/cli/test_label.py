"""`ragbench label`: keys become verdicts, and verdicts a decision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import DataWarning
from ragbench.labelling import read_sheet
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document, Passage

runner = CliRunner()
N = 24


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Two services that keep their own documents: the second shows passages, the first does not, and
    answers three of every four questions right.
    """
    cases = tuple(Case(f"q{i}", f"What is {i}?", reference_answer=f"It is {i}.") for i in range(N))
    corpus = {f"d{i}": Document(f"d{i}", f"It is {i}.") for i in range(N)}
    qrels = {f"q{i}": {f"d{i}": 1} for i in range(N)}
    save_dataset(Dataset("numbers", "test", corpus, cases, qrels), tmp_path / "numbers")
    data = rb.load_dataset(tmp_path / "numbers")
    number = {case.text: i for i, case in enumerate(cases)}

    def first(question: str) -> str:
        i = number[question]
        return f"It is {i if i % 4 else 'unclear'}."

    def second(question: str) -> dict[str, object]:
        i = number[question]
        return {"answer": f"It is {i}, surely.", "contexts": [Passage(f"d{i}", f"It is {i}.")]}

    for name, system in (("a", first), ("b", second)):
        rb.save(rb.evaluate(data, system), tmp_path / name)
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def press(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    """Type these keys, then Ctrl-C."""
    pressed: Iterator[str] = iter(keys)

    def getchar() -> str:
        if key := next(pressed, ""):
            return key
        raise KeyboardInterrupt

    monkeypatch.setattr(typer, "getchar", getchar)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("ragbench.cli.label.sys", SimpleNamespace(stdin=terminal))


def labelled(folders: list[str], sheet: Path, *options: str) -> tuple[int, str]:
    data = ["--test-set", str(Path(folders[0]).parent / "numbers"), "--sheet", str(sheet)]
    result = runner.invoke(app, ["label", *folders, *data, *options])
    return result.exit_code, result.output


def test_answers_of_services_are_labelled_interrupted_and_continued(
    folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = tmp_path / "labels.csv"
    press(monkeypatch, "?yyyn")  # ? is not a key
    status, output = labelled(folders, sheet, "--until-decided", "--batch", "6")
    assert status != 0, "it was interrupted"
    assert "Undecided: 0 of 24 questions are labelled by people" in output
    assert "Reference: It is" in output
    assert read_sheet(sheet)["value"].dropna().tolist() == [1.0, 1.0, 1.0, 0.0]

    press(monkeypatch, "y" * 100)
    status, output = labelled(folders, sheet, "--until-decided", "--batch", "6")
    assert status == 0, output
    assert re.search(r"\(1 of [4-9];", output), "what is labelled is not shown again"
    assert output.splitlines()[-1].startswith("b against a: ")
    rows = read_sheet(sheet)
    assert rows["item"].is_unique
    assert rows["value"].tolist()[:4] == [1.0, 1.0, 1.0, 0.0]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers that two systems recorded, to a test set whose documents are in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    cases = []
    for i in range(N):
        Path("docs", f"d{i}.txt").write_text(f"It is {i}.")
        case = {"query_id": f"q{i}", "question": f"What is {i}?", "relevant": {f"d{i}.txt": 1}}
        cases.append(case | {"reference_answer": f"It is {i}."})
    Path("set.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    for name, wrong in (("a", "unclear"), ("b", "surely {}")):
        texts = [wrong.format(i) if name == "b" or i % 4 == 0 else f"It is {i}." for i in range(N)]
        lines = [json.dumps({"query_id": f"q{i}", "answer": text}) for i, text in enumerate(texts)]
        Path(f"{name}.jsonl").write_text("\n".join(lines))
        data = ["--test-set", "set.jsonl", "--docs", "docs"]
        result = runner.invoke(app, ["eval", f"{name}.jsonl", *data, "--output", f"{name}/eval"])
        assert result.exit_code in (0, 1), result.output
    return ["a/eval", "b/eval"]


def test_recorded_answers_are_labelled_until_decided(
    recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    press(monkeypatch, "yn" * N)
    data = ["--test-set", "set.jsonl", "--docs", "docs"]
    result = runner.invoke(app, ["label", *recorded, *data, "--until-decided"])
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output
    assert "questions labelled." in result.output.splitlines()[-1]
    rows = read_sheet("labels.csv")
    assert rows["value"].notna().all()
    assert rows["reference"].str.startswith("It is ").all()


def test_a_test_set_that_is_not_at_hand_is_named(recorded: list[str]) -> None:
    with pytest.warns(DataWarning, match="made from other data"):
        result = runner.invoke(app, ["label", *recorded])
    assert result.exit_code == 2
    assert "The test set 'set' is not at hand" in result.output
    assert "--test-set and --docs" in result.output


def test_without_a_terminal_it_draws_into_the_sheet(folders: list[str], tmp_path: Path) -> None:
    sheet = tmp_path / "labels.csv"
    status, output = labelled(folders, sheet, "--batch", "3")
    assert (status, read_sheet(sheet)["query_id"].nunique()) == (0, 3)
    n_texts = len(read_sheet(sheet))
    assert f"{n_texts} texts for me to label in" in output
    assert labelled(folders, sheet, "--batch", "3")[0] == 0
    assert len(read_sheet(sheet)) == n_texts, "no more while these wait"


def test_a_second_person_gets_the_answers_of_the_first_without_their_verdicts(
    folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = tmp_path / "elsewhere" / "labels.csv"
    sheet.parent.mkdir()
    press(monkeypatch, "y" * 100)
    assert labelled(folders, sheet, "--batch", "4", "--annotator", "anna")[0] == 0
    press(monkeypatch, "n" * 100)
    status, output = labelled(folders, sheet, "--batch", "4", "--annotator", "ben")
    assert status == 0, output
    rows = read_sheet(sheet)
    items = {name: sorted(part["item"]) for name, part in rows.groupby("annotator")}
    assert items["ben"] == items["anna"]
    values = {name: {*part["value"]} for name, part in rows.groupby("annotator")}
    assert values == {"anna": {1.0}, "ben": {0.0}}, "each row has the verdict of its own person"
    assert "anna" not in output


def test_by_faithfulness_each_system_needs_the_texts_of_its_documents(
    folders: list[str], tmp_path: Path
) -> None:
    status, output = labelled(folders, tmp_path / "l.csv", "--criterion", "faithfulness")
    assert status == 2, output
    assert "faithfulness is judged by the documents, and 'a' has none" in output
    status, output = labelled(folders[1:], tmp_path / "l.csv", "--criterion", "faithfulness")
    assert status == 0, output
    assert read_sheet(tmp_path / "l.csv")["context"].str.startswith("[1] It is ").all()


def test_documents_are_labelled_for_a_ranking_measure(folders: list[str], tmp_path: Path) -> None:
    status, output = labelled(folders[1:], tmp_path / "l.csv", "--criterion", "AP")
    assert (status, "AP looks at all documents" in output) == (2, True), output
    status, output = labelled(folders[1:], tmp_path / "l.csv", "--criterion", "nDCG@1")
    assert status == 0, output
    assert "Mean by people's verdicts: +1.000 [+1.000, +1.000], 0 of 24" in output, (
        "all that it finds has a label"
    )
