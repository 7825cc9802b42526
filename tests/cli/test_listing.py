"""`ragbench list`: what it prints is accepted where such a name is expected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.cli.console import clean_errors
from ragbench.cli.lists import KINDS
from ragbench.generation.generator_prompts import check_prompt
from ragbench.llms.prices import price_of
from ragbench.retrieval import check_retriever
from ragbench.retrieval.chunkers import check_chunker

runner = CliRunner()


def listed(kind: str) -> list[str]:
    done = runner.invoke(app, ["list", kind])
    assert done.exit_code == 0, done.output
    return [line.split("  ")[0] for line in done.output.splitlines()]


def fixed(names: list[str]) -> list[str]:
    """The names that leave nothing to fill in."""
    return [name for name in names if "<" not in name and name != "package.module:attribute"]


def test_names_are_accepted() -> None:
    for name in fixed(listed("retrievers")):
        check_retriever(name)
    for name in fixed(listed("chunkers")):
        check_chunker(name)
    for name in listed("prompts"):
        check_prompt(name)
    assert {"pydoc", "beir/scifact"} <= set(listed("datasets"))
    assert price_of("anthropic:claude-haiku-4-5") is not None
    assert "anthropic:claude-haiku-4-5" in listed("llms")
    assert {"extractive", "none"} <= {*listed("llms")}


def test_measures_are_those_of_the_registry() -> None:
    assert listed("measures") == list(rb.measures()["measure"])


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_one_line_per_name(kind: str) -> None:
    names = listed(kind)
    assert len(names) == len(set(names)) >= 2


def test_an_unknown_kind_names_the_nearest() -> None:
    done = runner.invoke(app, ["list", "chunker"])
    assert done.exit_code == 2
    assert done.output.startswith("ragbench: unknown kind 'chunker'; did you mean 'chunkers'?")


def test_a_price_table_of_the_user_is_listed(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pathlib import Path

    file = Path(str(tmp_path), "prices.toml")
    file.write_text(
        'checked = 2026-01-01\n[models]\n"openai:mine" = { input = 1.5, output = 2.0 }\n'
    )
    monkeypatch.setenv("RAGBENCH_PRICES", str(file))
    assert "openai:mine" in listed("llms")


def test_without_a_kind_the_kinds_are_listed() -> None:
    assert runner.invoke(app, ["list"]).output.split() == list(KINDS)


@pytest.mark.parametrize(
    "command", ["history", "schedule list", "alert list", "key list", "history trend nDCG@10"]
)
def test_every_table_is_printed_as_json_too(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = str(tmp_path / "runs.sqlite")
    results = Path(__file__).parents[2] / "results" / "quickstart"
    assert (
        runner.invoke(app, ["history", "import", str(results), "--database", database]).exit_code
        == 0
    )
    assert runner.invoke(app, ["key", "add", "ci", "--database", database]).exit_code == 0
    done = runner.invoke(app, [*command.split(), "--json", "--database", database])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert isinstance(rows, list)
    assert len(rows) == {"history": 6, "key list": 1, "history trend nDCG@10": 6}.get(command, 0)


def test_runs_are_shown_and_compared_as_json(tmp_path: Path) -> None:
    database = str(tmp_path / "runs.sqlite")
    results = Path(__file__).parents[2] / "results" / "quickstart"
    runner.invoke(app, ["history", "import", str(results), "--database", database])
    listed_runs = runner.invoke(app, ["history", "--json", "--database", database])
    ids = [row["run"] for row in json.loads(listed_runs.stdout)[:2]]
    done = runner.invoke(app, ["history", "show", ids[0], "--json", "--database", database])
    assert done.exit_code == 0, done.output
    assert "nDCG@10" in {row["measure"] for row in json.loads(done.stdout)}
    options = ["--measure", "nDCG@10", "--json", "--database", database]
    done = runner.invoke(app, ["compare", *ids, *options])
    assert done.exit_code == 0, done.output
    conclusion = json.loads(done.stdout)
    assert (conclusion["measure"], len(conclusion["arms"])) == ("nDCG@10", 2)


@pytest.mark.parametrize(
    ("command", "streams"),
    [
        ("list measures", "stdout"),
        ("list measures --json", "stdout"),
        ("list measures", "stdout stderr"),
    ],
)
def test_output_that_is_read_no_more_ends_a_command_quietly(command: str, streams: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does when it has seen enough
    errors = writer if "stderr" in streams else subprocess.PIPE
    words = [sys.executable, "-m", "ragbench", *command.split()]
    done = subprocess.run(words, stdout=writer, stderr=errors, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr or "") == (141, "")


def test_an_error_that_nobody_reads_keeps_its_status() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "ragbench", "list", "nonsense"]
    done = subprocess.run(words, stderr=writer, stdout=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_pipe_of_something_else_that_breaks_is_an_error() -> None:
    with pytest.raises(typer.Exit) as ending, clean_errors():
        raise BrokenPipeError(32, "Broken pipe")
    assert ending.value.exit_code == 2
