"""`ragbench testset convert --into` and `merge`: one set out of several, its documents only named."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import typer
from typer.testing import CliRunner, Result

from ragbench.cli import app
from ragbench.testsets import save_testset
from ragbench.testsets.forms import load_testset
from ragbench.testsets.loader import load_dataset

TOWER = "# Tower\n\nThe tower opened in 1889. It is 330 m tall.\n"
RAIL = """\
# Rail line

The railway from Alton to Bexley was built by Isambard Brunel in the year 1881.

## Stations

Passengers find nine platforms, a canteen and a waiting room at every station.

## Tickets

Conductors sell paper tickets for coins and banknotes on board of each train.
"""
CSV = """\
question,answer,source
When did the tower open?,In 1889.,tower.md
How tall is the tower?,330 m,tower.md
Who paid for the tower?,,
"""
YAML = """\
# ours
corpus: docs
cases:
- id: q1
  query: When was the tower opened?   # asked every week
  reference_answer: in 1889
  relevant: tower.md
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tower.md").write_text(TOWER, encoding="utf-8")
    (tmp_path / "docs" / "rail.md").write_text(RAIL, encoding="utf-8")
    (tmp_path / "docs" / "long.md").write_text("A dog barks. " * 5000, encoding="utf-8")
    (tmp_path / "questions.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "tests.yaml").write_text(YAML, encoding="utf-8")
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["testset", *map(str, arguments)], catch_exceptions=False)


def test_documents_are_named_and_not_copied(folder: Path) -> None:
    (folder / "sub").mkdir()
    done = run("convert", "questions.csv", "sub/mine.yaml", "--docs", "docs")
    assert done.exit_code == 0
    assert "corpus: ../docs" in (folder / "sub" / "mine.yaml").read_text(encoding="utf-8")
    assert len((folder / "sub" / "mine.yaml").read_bytes()) < 2_000
    assert {*load_dataset("sub/mine.yaml").corpus} == {"tower.md", "long.md", "rail.md"}
    run("convert", "sub/mine.yaml", "mine.jsonl")  # the reference is kept, from the new place
    assert '"corpus": "docs"' in (folder / "mine.jsonl").read_text(encoding="utf-8")
    assert load_dataset("mine.jsonl").fingerprint == load_dataset("sub/mine.yaml").fingerprint
    run("convert", "mine.jsonl", "whole.jsonl", "--with-documents")
    assert len((folder / "whole.jsonl").read_bytes()) > 60_000
    run("convert", "whole.jsonl", "again.jsonl")  # it holds its documents, and so does a copy
    assert len((folder / "again.jsonl").read_bytes()) > 60_000


def test_questions_are_added_to_an_existing_set_and_its_comments_stay(folder: Path) -> None:
    done = run("convert", "questions.csv", "--into", "tests.yaml", "--no-answer", "unknown")
    assert done.exit_code == 0
    assert "2 of 3 cases are added to tests.yaml" in done.output
    assert "1 question is left out, as another one asks the same:" in done.output
    assert "'When did the tower open?' as 'When was the tower opened?'" in done.output
    text = (folder / "tests.yaml").read_text(encoding="utf-8")
    assert text.startswith(YAML)
    data = load_dataset("tests.yaml")
    assert [case.text for case in data.cases[1:]] == [
        "How tall is the tower?",
        "Who paid for the tower?",
    ]
    assert data.qrels[data.cases[1].query_id] == {"tower.md": 1}
    again = run("convert", "questions.csv", "--into", "tests.yaml", "--no-answer", "unknown")
    assert "0 of 3 cases are added" in again.output
    assert (folder / "tests.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("known", "n_added"),
    [
        ("  reference_answer: in 1889\n  relevant: tower.md\n", 0),
        ("  reference_answer: in 1890\n  relevant: tower.md\n", 1),
        ("  reference_answer: in 1889\n  relevant: rail.md\n", 1),
        ("  relevant: tower.md\n", 1),
        ("  reference_answer: in 1889\n  relevant: tower.md\n  category: known-item draft\n", 1),
    ],
)
def test_a_persons_question_with_another_label_is_no_duplicate(
    folder: Path, known: str, n_added: int
) -> None:
    """Its words resemble those of a known one; its answer or document may be another one."""
    text = f"corpus: docs\ncases:\n- id: q1\n  query: When was the tower opened?\n{known}"
    (folder / "tests.yaml").write_text(text, encoding="utf-8")
    rows = "question,answer,source\nWhen did the tower open?,In 1889.,tower.md\n"
    (folder / "questions.csv").write_text(rows, encoding="utf-8")
    done = run("convert", "questions.csv", "--into", "tests.yaml")
    assert f"{n_added} of 1 case" in done.output
    assert ("1 question is left out" in done.output) == (not n_added)
    again = run("convert", "questions.csv", "--into", "tests.yaml")
    assert "0 of 1 case" in again.output
    assert len(load_dataset("tests.yaml").cases) == 1 + n_added


def test_all_questions_that_are_left_out_are_named(folder: Path) -> None:
    names = ["tower", "rail line", "canteen", "waiting room", "platform", "ticket", "banknote"]
    rows = "".join(f"Who built the {name} of this town?,Brunel,rail.md\n" for name in names)
    (folder / "questions.csv").write_text(f"question,answer,source\n{rows}", encoding="utf-8")
    run("convert", "questions.csv", "mine.yaml", "--docs", "docs")
    done = run("convert", "questions.csv", "--into", "mine.yaml")
    assert "7 questions are left out, as another one asks the same:" in done.output
    for name in names:
        assert f"'Who built the {name} of this town?' as " in done.output


@pytest.mark.parametrize(("option", "outcome"), [("unanswerable", "no_results"), ("unknown", None)])
def test_rows_without_an_answer_are_what_the_option_says(
    folder: Path, option: str, outcome: str | None
) -> None:
    done = run("convert", "questions.csv", "--into", "tests.yaml", "--no-answer", option)
    assert done.exit_code == 0
    assert "no answer and no document" not in done.output
    assert load_dataset("tests.yaml").cases[-1].expected_outcome == outcome


@pytest.mark.parametrize(("reply", "outcome"), [(True, "no_results"), (False, None)])
def test_rows_without_an_answer_are_asked_about_on_a_terminal(
    folder: Path, reply: bool, outcome: str | None
) -> None:
    from ragbench.cli import testsets

    asked = []

    def confirm(text: str) -> bool:
        asked.append(text)
        return reply

    with patch.object(sys.stdin, "isatty", lambda: True), patch.object(typer, "confirm", confirm):
        testsets.convert("questions.csv", Path("mine.yaml"), corpus="docs")
    assert load_dataset("mine.yaml").cases[-1].expected_outcome == outcome
    [text] = asked
    assert "1 of the 3 questions in 'questions' has no answer and no document" in text


def test_without_a_terminal_rows_without_an_answer_are_named(folder: Path) -> None:
    done = run("convert", "questions.csv", "mine.yaml")
    assert "first 'Who paid for the tower?': they stay without labels" in done.stderr
    assert load_testset("mine.yaml").cases[-1].expected_outcome is None


@pytest.mark.parametrize(
    ("reference", "is_named"),
    [
        ("not in the handbook", True),
        ("steht nicht im Handbuch", True),
        ("n'est pas dans le manuel", True),
        ("マニュアルにはありません", True),
        ("unanswerable", True),
        ("the city of Paris", False),
        ("not before 1881", False),
    ],
)
def test_references_that_state_that_there_is_no_answer_are_named(
    folder: Path, reference: str, *, is_named: bool
) -> None:
    """They have no document, and the other questions have one."""
    rows = CSV.replace("tower?,,", f"tower?,{reference},")
    (folder / "questions.csv").write_text(rows, encoding="utf-8")
    done = run("convert", "questions.csv", "mine.yaml")
    checked = run("validate", "mine.yaml")
    assert (f"({reference})" in done.stderr) == is_named
    assert ("--no-answer unanswerable" in done.stderr) == is_named
    assert ("write expected_outcome: no_results" in checked.stderr) == is_named
    assert checked.exit_code == 0


def test_without_a_terminal_rows_without_an_answer_are_added_once(folder: Path) -> None:
    before = (folder / "tests.yaml").read_text(encoding="utf-8")
    done = run("convert", "questions.csv", "--into", "tests.yaml")
    assert done.exit_code == 2
    assert "--no-answer unknown" in done.stderr
    assert (folder / "tests.yaml").read_text(encoding="utf-8") == before
    run("convert", "questions.csv", "--into", "tests.yaml", "--no-answer", "unanswerable")
    texts = [case.text for case in load_dataset("tests.yaml").cases]
    assert texts.count("Who paid for the tower?") == 1


def test_several_sets_are_merged_without_questions_that_ask_the_same(folder: Path) -> None:
    run("convert", "questions.csv", "mine.yaml", "--docs", "docs", "--no-answer", "unanswerable")
    done = run("draft", "--docs", "docs", "--limit", 3, "--output", "drafts.yaml")
    assert done.exit_code == 0, done.output
    generated = load_dataset("tests.yaml")
    save_testset(generated, "generated", "beir")  # asks what mine.yaml asks
    done = run("merge", "mine.yaml", "drafts.yaml", "generated", "--output", "all.yaml")
    assert done.exit_code == 0, done.output
    data = load_dataset("all.yaml")
    assert "0 of the 1 of generated" in done.output
    assert "1 question is left out" in done.output
    n_drafts = len(load_dataset("drafts.yaml").cases)
    assert len(data.cases) == 3 + n_drafts
    assert "corpus: docs" in (folder / "all.yaml").read_text(encoding="utf-8")
    assert [case.text for case in data.cases[:3]] == [*load_dataset("mine.yaml").queries.values()]
    assert data.cases[2].expected_outcome == "no_results"
    assert run("merge", "mine.yaml", "--output", "all.yaml").exit_code == 2


def test_ids_that_are_taken_are_changed_and_other_documents_are_refused(folder: Path) -> None:
    (folder / "a.yaml").write_text("cases: [{id: q1, query: Why is it tall?}]", encoding="utf-8")
    (folder / "b.yaml").write_text("cases: [{id: q1, query: Who sleeps?}]", encoding="utf-8")
    assert run("merge", "a.yaml", "b.yaml", "--output", "c.yaml").exit_code == 0
    assert [*load_testset("c.yaml").queries] == ["q1", "q1-2"]
    text = "cases: [{{id: q1, query: {}?}}]\ndocuments: [{{doc_id: d, text: {}}}]\n"
    (folder / "d.yaml").write_text(text.format("Why", "one"), encoding="utf-8")
    (folder / "e.yaml").write_text(text.format("Who sleeps", "two"), encoding="utf-8")
    done = run("merge", "d.yaml", "e.yaml", "--output", "f.yaml")
    assert done.exit_code == 2
    assert "document 'd' differs between d and e" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("questions.csv",), "no file to write; name one"),
        (("questions.csv", "x.yaml", "--into", "tests.yaml"), "name one of them"),
        (("questions.csv", "x.yaml", "--no-answer", "maybe"), "maybe"),
        (("questions.csv", "--into", "none.yaml"), "none.yaml"),
        (("questions.csv", "--into", "tests.yaml", "--to", "jsonl"), "for a new file"),
        (("questions.csv", "--into", "tests.yaml", "--force"), "for a new file"),
        (("questions.csv", "--into", "tests.yaml", "--with-documents"), "for a new file"),
        (("questions.csv", "x.yaml", "--with-documents", "--without-documents"), "keep one"),
    ],
)
def test_what_cannot_be_written_is_refused(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = {path.name for path in folder.iterdir()}
    done = run("convert", *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "questions.csv is empty"),
        (b"\n \n", "questions.csv is empty"),
        (
            b"question,answer,source\n,,\n",
            "questions.csv has no rows below its columns question, answer, source",
        ),
        (b"question,answer\nCaf\xe9?,no\n", "questions.csv: byte 19 is not UTF-8; save"),
        (b"question,caf\xe9\nWhen?,no\n", "questions.csv: byte 12 is not UTF-8; save"),
    ],
)
def test_a_table_without_questions_is_refused_and_nothing_written(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("questions.csv").write_bytes(content)
    done = CliRunner().invoke(app, ["testset", "convert", "questions.csv", "tests.yaml"])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert not Path("tests.yaml").exists()
