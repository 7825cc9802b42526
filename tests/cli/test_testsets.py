"""`ragbench testset convert|validate`: exit statuses, messages, nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ragbench.cli import app
from ragbench.testsets.forms import load_testset
from ragbench.testsets.loader import load_dataset

runner = CliRunner()

YAML = """\
cases:
- id: q1
  query: How do I install it?
  expected_chunks: [{doc_id: guide.md, section: Install}]
  expected_answer_contains: [pip]
- {id: q2, query: Why?}
"""


def run(*arguments: object) -> Result:
    return runner.invoke(app, ["testset", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def yaml_set(tmp_path: Path) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(YAML)
    return path


@pytest.mark.parametrize("name", ["convert", "validate"])
def test_help_has_an_example(name: str) -> None:
    done = runner.invoke(app, ["testset", name, "--help"], terminal_width=200)
    assert done.exit_code == 0
    assert f"Example: ragbench testset {name}" in done.output
    assert "Exit status: 0" in done.output


def test_convert_locates_sections_in_the_documents(yaml_set: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text("# Install\n\nUse pip.\n\n# Use\n\nCall it.\n")
    done = run("convert", yaml_set, tmp_path / "my.jsonl", "--docs", docs)
    assert done.exit_code == 0
    assert "2 cases in" in done.output
    dataset = load_testset(tmp_path / "my.jsonl")
    [span] = dataset.cases[0].evidence
    assert dataset.corpus["guide.md"].full_text[span.start : span.end] == "# Install\n\nUse pip."
    assert run("convert", yaml_set, tmp_path / "my.jsonl").exit_code == 2
    assert run("convert", tmp_path / "my.jsonl", tmp_path / "again.yaml").exit_code == 0
    assert (
        run(
            "convert", tmp_path / "my.jsonl", tmp_path / "bare.jsonl", "--without-documents"
        ).exit_code
        == 0
    )
    assert load_testset(tmp_path / "bare.jsonl").corpus == {}
    assert load_testset(tmp_path / "bare.jsonl").cases == dataset.cases
    again = load_testset(tmp_path / "again.yaml")
    assert again.fingerprint == dataset.fingerprint


def test_convert_a_dataset_by_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragbench", "testset", "convert", "pydoc", "my.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "110 cases in my.jsonl (jsonl)" in done.stdout
    assert load_testset(tmp_path / "my.jsonl").fingerprint == load_dataset("pydoc").fingerprint


def test_convert_to_what_is_written_only(yaml_set: Path, tmp_path: Path) -> None:
    for name, more in (("d.yaml", ("--to", "xml")), ("e.json", ()), ("e.jsonl", ("--to", "json"))):
        assert run("convert", yaml_set, tmp_path / name, *more).exit_code == 2
    assert run("convert", tmp_path / "none.yaml", tmp_path / "e.jsonl").exit_code == 2
    assert run("convert", "no-such-set", tmp_path / "e.jsonl").exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == [yaml_set.name]


def test_validate_compares_with_the_documents(yaml_set: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\n## Install\n\nUse pip.\n")
    assert run("validate", yaml_set, "--docs", tmp_path / "docs").exit_code == 0
    (tmp_path / "docs" / "guide.md").rename(tmp_path / "docs" / "gone.md")
    done = run("validate", yaml_set, "--docs", tmp_path / "docs")
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
    assert done.stderr.endswith(": 5\n")
    assert run("validate", yaml_set.with_name("none.yaml")).exit_code == 2


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_place_that_cannot_be_is_an_error_in_one_line(yaml_set: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run("convert", yaml_set, blocked / "a.jsonl")
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1
    assert "could not be written" in done.output
