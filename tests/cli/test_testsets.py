"""`ragbench testset convert|validate|list|show|add|edit|remove`: exit statuses, messages, nothing half-written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ragbench.cli import app
from ragbench.errors import DataWarning
from ragbench.testsets.forms import load_testset

runner = CliRunner()

YAML = """\
cases:
- id: q1
  query: How do I install it?
  expected_chunks: [{doc_id: guide.md, section: Install}]
  expected_answer_contains: [pip]
- {id: q2, query: Why?}
"""


def run(*arguments: object, stdin: str | None = None) -> Result:
    return runner.invoke(app, ["testset", *map(str, arguments)], input=stdin, catch_exceptions=False)


@pytest.fixture
def yaml_set(tmp_path: Path) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(YAML)
    return path


@pytest.mark.parametrize("name", ["convert", "validate", "list", "show", "add", "edit", "remove"])
def test_help_has_an_example(name: str) -> None:
    done = runner.invoke(app, ["testset", name, "--help"], terminal_width=200)
    assert done.exit_code == 0
    assert f"Example: ragbench testset {name}" in done.output
    assert "Exit status: 0" in done.output


def test_convert_locates_sections_in_the_documents(yaml_set: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text("# Install\n\nUse pip.\n\n# Use\n\nCall it.\n")
    done = run("convert", yaml_set, tmp_path / "my.jsonl", "--corpus", docs)
    assert done.exit_code == 0
    assert "2 cases in" in done.output
    dataset = load_testset(tmp_path / "my.jsonl")
    [span] = dataset.cases[0].evidence
    assert dataset.corpus["guide.md"].full_text[span.start : span.end] == "# Install\n\nUse pip."
    assert run("convert", yaml_set, tmp_path / "my.jsonl").exit_code == 2
    with pytest.warns(DataWarning) as lost:
        assert run("convert", tmp_path / "my.jsonl", tmp_path / "again.json").exit_code == 0
    assert "1 documents are not in the file: give them when it is loaded" in str(lost[-1].message)
    assert run("convert", tmp_path / "my.jsonl", tmp_path / "again.yaml").exit_code == 0
    assert run("convert", tmp_path / "my.jsonl", tmp_path / "bare.jsonl", "--without-documents").exit_code == 0
    assert load_testset(tmp_path / "bare.jsonl").corpus == {}
    assert load_testset(tmp_path / "bare.jsonl").cases == dataset.cases
    again = load_testset(tmp_path / "again.yaml")
    assert again.fingerprint == dataset.fingerprint


def test_convert_a_dataset_by_name_and_say_what_is_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragbench", "testset", "convert", "pydoc", "my.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0
    assert "110 cases in my.json (json)" in done.stdout
    assert "ragbench: warning: saving pydoc as json: 93 cases lose their gold_facts" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(load_testset(tmp_path / "my.json").cases) == 110


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_convert_to_forms_that_a_name_does_not_say(yaml_set: Path, tmp_path: Path) -> None:
    done = run("convert", yaml_set, tmp_path / "folder")
    assert done.exit_code == 2
    assert "name one: --to yaml, json" in " ".join(done.output.split())
    assert run("convert", yaml_set, tmp_path / "folder", "--to", "perspectives").exit_code == 0
    assert run("convert", tmp_path / "folder", tmp_path / "b.json", "--to", "json-cases").exit_code == 0
    assert run("convert", tmp_path / "b.json", tmp_path / "c.json").exit_code == 0
    assert "test_cases" in (tmp_path / "c.json").read_text()
    assert run("convert", yaml_set, tmp_path / "d.json", "--to", "xml").exit_code == 2
    assert run("convert", tmp_path / "none.yaml", tmp_path / "e.json").exit_code == 2
    assert run("convert", "no-such-set", tmp_path / "e.json").exit_code == 2
    assert not (tmp_path / "e.json").exists()


def test_validate_compares_with_the_documents(yaml_set: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\n## Install\n\nUse pip.\n")
    assert run("validate", yaml_set, "--corpus", tmp_path / "docs").exit_code == 0
    (tmp_path / "docs" / "guide.md").rename(tmp_path / "docs" / "gone.md")
    done = run("validate", yaml_set, "--corpus", tmp_path / "docs")
    assert done.exit_code == 1
    assert "'guide.md'" in done.output
    assert "one of the 1 documents of the corpus" in done.output


def test_validate_lists_every_error(yaml_set: Path) -> None:
    done = run("validate", yaml_set)
    assert (done.exit_code, "is fine: yaml, 2 cases" in done.output) == (0, True)
    yaml_set.write_text(YAML.replace("query:", "qeury:").replace("id: q2", "id: []"))
    done = run("validate", yaml_set)
    assert done.exit_code == 1
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [
        f"my.yaml, line {line}" for line in (2, 3, 6, 6, 6)
    ]
    assert "5 problems in" in done.stderr
    assert run("validate", yaml_set.with_name("none.yaml")).exit_code == 2
    done = run("list", yaml_set)
    assert done.exit_code == 2
    assert "has 5 problems:\n  my.yaml, line 2: " in done.stderr


def test_list_and_its_filters(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"query_id": "q1", "text": "How\\u001b[31m?", "category": "install", "query_type": "faq"}\n'
        '{"query_id": "q2", "text": "Why? [bold]", "category": "use"}\n'
        '{"sample_id": "s", "kind": "input", "text": "x", "label": 1}\n'
    )
    done = run("list", path)
    assert done.exit_code == 0
    assert "q1 " in done.output
    assert "[bold]" in done.output
    assert "\x1b[31m" not in done.output
    assert "2 of 2 cases; 1 safety inputs, 0 safety outputs" in done.output
    assert "1 of 2 cases" in run("list", path, "--category", "use").output
    assert "q2" not in run("list", path, "--type", "faq").output
    assert "No case has the category 'used'; there are: install, use" in run("list", path, "--category", "used").output


def test_show_add_edit_remove(yaml_set: Path) -> None:
    shown = json.loads(run("show", yaml_set, "q1").output)
    assert shown["expected_sections"] == [{"doc_id": "guide.md", "section": "Install"}]
    assert run("show", yaml_set, "q9").exit_code == 2
    done = run("add", yaml_set, "--query", "When?", "--expected-doc", "a", "--expected-doc", "b", "--keyword", "now")
    assert done.exit_code == 0
    added = load_testset(yaml_set).cases[-1]
    assert added.query_id.startswith("q-")
    assert (added.text, added.required_keywords) == ("When?", ("now",))
    assert load_testset(yaml_set).qrels[added.query_id] == {"a": 1, "b": 1}
    assert run("edit", yaml_set, "q2", "--set", "text=42", "--set", 'required_keywords=["x"]').exit_code == 0
    edited = load_testset(yaml_set).cases[1]
    assert (edited.text, edited.required_keywords) == ("42", ("x",))
    assert run("edit", yaml_set, "q2", "--set", "required_keywords=null").exit_code == 0
    assert load_testset(yaml_set).cases[1].required_keywords == ()
    assert run("remove", yaml_set, "q2", stdin="n\n").exit_code == 1
    assert run("remove", yaml_set, "q2", stdin="y\n").exit_code == 0
    assert run("remove", yaml_set, added.query_id, "--yes").exit_code == 0
    assert [case.query_id for case in load_testset(yaml_set).cases] == ["q1"]


def test_add_a_whole_case_from_stdin(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"query_id": "q1", "text": "?", "gold_facts": [["x", "y"]], "relevant": {"d": 3}}\n')
    case = run("show", path, "q1").output
    assert run("add", path, "--json", "-", "--id", "q2", stdin=case).exit_code == 0
    assert run("add", path, "--json", '{"text": "New?"}', "--category", "c").exit_code == 0
    first, second, third = load_testset(path).cases
    assert second.gold_facts == first.gold_facts == (("x", "y"),)
    assert (third.text, third.category) == ("New?", "c")


@pytest.mark.parametrize(
    "arguments",
    [
        ["add"],
        ["add", "--query", "How?", "--id", "q1"],
        ["add", "--json", "{"],
        ["add", "--json", "[]"],
        ["add", "--json", '{"text": NaN}'],
        ["add", "--json", '{"text": "x", "colour": 1}'],
        ["edit", "q1", "--set", "text"],
        ["edit", "q1", "--set", "text="],
        ["edit", "q1", "--set", "colour=red"],
        ["edit", "q1", "--set", "relevant=high"],
        ["edit", "q1", "--set", "query_id=q2"],
        ["edit", "q1"],
        ["edit", "q9", "--set", "text=x"],
        ["remove", "q9", "--yes"],
        ["show"],
    ],
    ids=" ".join,
)
def test_usage_and_data_errors_write_nothing(arguments: list[str], yaml_set: Path) -> None:
    done = run(arguments[0], yaml_set, *arguments[1:])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert yaml_set.read_text() == YAML


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_place_that_cannot_be_is_an_error_in_one_line(yaml_set: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run("convert", yaml_set, blocked / "a.json")
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1
    assert "could not be written" in done.output
