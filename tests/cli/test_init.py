"""From a folder of documents to a first comparison: `ragbench init` and `ragbench testset draft`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ragbench.cli import app
from ragbench.sweep import read_grid
from ragbench.sweep.notebooks import read_notebook
from ragbench.testsets import load_dataset
from ragbench.testsets.forms import load_testset, validate_testset

GUIDE = """---
title: no prose of the guide at all, this is front matter
---
# Kettle

A kettle is a vessel for boiling water, and this one switches itself off when the water boils.

## Descaling

Fill the kettle with diluted vinegar, wait for an hour, and rinse it twice with fresh water.

```sh
A shell is a program whose listing must never become a question, with any words in it.
```
## 1.2.0

Changed the handle, because customers complained about burnt fingers during pouring of hot tea.
"""
OTHER = (
    "# Toaster\n\nThe toaster browns bread between glowing wires, and ejects slices upwards "
    "with a spring.\n"
)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "kettle.md").write_text(GUIDE, encoding="utf-8")
    (folder / "deep" / "toaster.txt").write_text(OTHER, encoding="utf-8")
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def fails(*arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


def test_a_new_folder_can_be_swept_at_once(docs: Path) -> None:
    done = run("init", "--docs", "my docs")
    assert done.exit_code == 0, done.output
    assert "testset draft --docs '../my docs' --output tests.yaml" in done.output
    folder = Path("evaluation")
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "grid.toml",
        "notebooks",
        "tests.yaml",
    ]
    assert not validate_testset(folder / "tests.yaml")
    data = load_testset(folder / "tests.yaml")
    assert {case.text for case in data.cases} == {"Kettle", "Toaster", "Kettle: Descaling"}
    descaling = next(case for case in data.cases if case.text == "Kettle: Descaling")
    (span,) = descaling.evidence
    assert data.corpus[span.doc_id].full_text[span.start : span.end] == descaling.reference_answer
    assert descaling.reference_answer == GUIDE.split("\n\n")[3]
    grid = read_grid(folder)
    assert [own["retriever"] for own in grid.runs.values()] == ["bm25", "hybrid:wordllama"]
    assert grid.baseline.startswith("bm25")
    assert "known-item search" in (folder / "README.md").read_text()


def test_every_copied_notebook_begins_with_the_folders_own_files(docs: Path) -> None:
    assert run("init", "--docs", "my docs").exit_code == 0
    folder = Path("evaluation/notebooks")
    given = {path.stem: read_notebook(path).defaults for path in folder.glob("*.ipynb")}
    assert given["evaluate"]["dataset"] == given["two_part"]["dataset"] == "../tests.yaml"
    assert given["questions"] == {"questions": "../tests.yaml", "corpus": "../../my docs"}
    assert given["testset"]["corpus"] == "../../my docs"
    assert given["label"]["sweep_dir"] == given["compare"]["sweep_dir"] == "../results/first"
    for name, defaults in given.items():
        for parameter, value in defaults.items():
            is_ours = name.startswith(
                ("chunking", "judges", "study")
            )  # studies of public collections
            assert is_ours or value not in ("pydoc", "../results/quickstart"), (name, parameter)
    (span, *_) = load_dataset(folder / given["evaluate"]["dataset"]).cases[0].evidence
    assert span.doc_id


def test_nothing_is_overwritten_unasked(docs: Path) -> None:
    run("init", "mine", "--docs", "my docs")
    Path("mine/tests.yaml").write_text("mine")
    assert "mine/tests.yaml already exists" in fails("init", "mine", "--docs", "my docs")
    assert Path("mine/tests.yaml").read_text() == "mine"
    assert run("init", "mine", "--docs", "my docs", "--force").exit_code == 0
    assert Path("mine/tests.yaml").read_text() != "mine"


def test_drafts_have_evidence_and_say_what_they_are(docs: Path) -> None:
    done = run("testset", "draft", "--docs", "my docs")
    assert done.exit_code == 0, done.output
    data = load_testset("drafts.yaml")
    assert data.name == "my docs (known-item drafts)"
    assert {case.category for case in data.cases} == {"known-item draft"}
    assert {case.query_type for case in data.cases} == {"heading", "sentence"}
    texts = [
        data.corpus[s.doc_id].full_text[s.start : s.end]
        for case in data.cases
        for s in case.evidence
    ]
    assert len(texts) == len(data.cases)
    assert not [text for text in texts if "shell" in text or "front matter" in text]
    assert "1.2.0" not in " ".join(data.queries.values())
    first = Path("drafts.yaml").read_text()
    assert run("testset", "draft", "--docs", "my docs").exit_code == 0
    assert Path("drafts.yaml").read_text() == first  # the same drafts are not added twice


def test_no_drafts_from_what_reads_badly(docs: Path) -> None:
    (docs / "bad.md").write_text(
        "# Usage\n\nRun the program with one file, and it prints the number of words that it "
        "holds.\n\n`wordcount` is written in\nC and is a port of an older program that many "
        "people still use.\n\nOur own counter is a small class with one method. But speed is a "
        "goal.\n\n512 tokens is the right size.\n\nThe type is a string that names the kind of "
        "resource.\n\nSee https://example.org/wordcount for all of the many details for those "
        "who want them.\n\nThese are the seven separators recognised by default between "
        "neighbouring words:\n"
    )
    run("testset", "draft", "--docs", "my docs")
    queries = load_testset("drafts.yaml").queries.values()
    assert not [
        query
        for query in queries
        if re.search(r"Usage|Our own|But|512|the type|https|separators", query)
    ]
    assert not [query for query in queries if query.startswith("C and")]


def test_a_sentence_is_asked_for_by_words_in_a_row(docs: Path) -> None:
    (docs / "row.md").write_text(
        "When it is dark outside, glowing filaments illuminate sleepy kitchens, and we rest.\n"
    )
    run("testset", "draft", "--docs", "my docs")
    assert (
        "glowing filaments illuminate sleepy kitchens"
        in load_testset("drafts.yaml").queries.values()
    )


def test_drafts_are_added_below_the_cases_with_their_comments(docs: Path) -> None:
    run("init", "mine", "--docs", "my docs")
    before = Path("mine/tests.yaml").read_text()
    done = run("testset", "draft", "--docs", "my docs", "--output", "mine/tests.yaml")
    assert done.exit_code == 0, done.output
    after = Path("mine/tests.yaml").read_text()
    assert after.startswith(before)
    data = load_testset("mine/tests.yaml")
    assert {case.category for case in data.cases} == {"example", "known-item draft"}
    assert len(set(data.queries.values())) == len(data.cases)


def test_a_test_set_in_one_line_can_be_added_to(docs: Path) -> None:
    Path("tests.yaml").write_text(
        "cases: [{query: Which?, relevant: {kettle.md: 1}}] # mine\ncorpus: my docs\n"
    )
    assert run("testset", "draft", "--docs", "my docs", "--output", "tests.yaml").exit_code == 0
    assert len(load_testset("tests.yaml").cases) > 1
    assert "# mine" in Path("tests.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pptx", b"PK", r"not read: 1 \.pptx"),
        ("a.pdf", b"%PDF", "a.pdf could not be read: .*expected a PDF file"),
        ("a.txt", b"caf\xe9 in Latin-1", "1 .txt not in UTF-8; convert .a.txt."),
        ("a.txt", b"\x00\x01\x02 binary", "is a binary file"),
        ("a.md", b"| a | b |\n|---|---|\n", "no question could be drafted from 1 documents"),
        ("a.md", b"", "nor a file with text"),
    ],
)
def test_bad_documents_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / name).write_bytes(content)
    for command in (["init", "mine"], ["testset", "draft"]):
        assert re.search(message, fails(*command, "--docs", "docs"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs"]


def test_a_folder_inside_the_documents_is_refused(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(docs)
    assert "name a folder outside" in fails("init", "--docs", ".")
    assert fails("init", "../mine", "--docs", "nowhere")


def test_one_document_and_a_huge_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "plain.txt").write_text(
        "Without headings this document describes kettles, toasters, blenders and grinders in "
        "prose.\n"
    )
    done = run("init", "one", "--docs", "docs")
    assert done.exit_code == 0, done.output
    assert "with one document" in done.output
    (tmp_path / "docs" / "huge.txt").write_text("many words in one enormous text. " * 40_000)
    with pytest.warns(match="split them"):
        done = run("testset", "draft", "--docs", "docs")
    assert done.exit_code == 0, done.output
    assert len(load_testset("drafts.yaml").cases) == 1


def test_reports_say_that_questions_are_drafts(docs: Path) -> None:
    import ragbench as rb
    from ragbench.report import findings

    run("testset", "draft", "--docs", "my docs")
    result = rb.evaluate(load_testset("drafts.yaml"), "bm25")
    lines = " ".join(findings(result, rb.summarise(result.scores)))
    assert "questions are known-item drafts" in lines
