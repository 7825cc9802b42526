"""Every command that ends prints one JSON value with --json, of the documented form, and asks nothing
without a terminal.
"""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.cli.skill import FOLDER
from tests.cli import command_tree

DOCUMENTED = (FOLDER / "references" / "json.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| ([^|]*?) \| (an object|a list of objects)", DOCUMENTED, re.M))
FORMS = {name: form for names, form in ROWS.items() for name in re.findall(r"`([\w ]+)`", names)}


LEAVES = {name: command for name, command in command_tree.LEAVES.items() if name != "serve"}
"""All commands but the one that runs until it is stopped."""


def has_lines(name: str) -> bool:
    """Return True if --json of a command is that of all commands: its status and its lines."""
    [option] = [param for param in LEAVES[name].params if "--json" in param.opts]
    return str(option.help) == "Print status and lines as JSON."


def test_every_form_that_is_not_lines_is_documented() -> None:
    own = {name for name in LEAVES if not has_lines(name)}
    assert own == FORMS.keys() - {"history"}  # which is a group with an output of its own


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small files, without a terminal: a question would fail the test."""

    def asked(*args: Any, **options: Any) -> Any:
        raise AssertionError(f"the command asks {args}")

    for module, name in (
        (typer, "confirm"),
        (typer, "prompt"),
        (typer, "getchar"),
        (builtins, "input"),
    ):
        monkeypatch.setattr(module, name, asked)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "history.sqlite"))
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("cats", "dogs"):
        text = f"# All about {name}\n\nIn winter {name} sleep longer than in summer near the old river.\n"
        (docs / f"{name}.md").write_text(text)
    (tmp_path / "tests.csv").write_text(
        "id,question,answer\nq1,When do cats sleep longer?,In winter\nq2,Who is the mayor?,\n"
    )
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "old.run").write_text("q1 Q0 b 1 2 x\nq2 Q0 b 1 2 x\n")
    for name, score in (("old", 0.2), ("new", 0.6)):
        table = pd.DataFrame({"id": range(12), "faithfulness": score})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


CALLS: dict[str, str] = {
    "init": "init",
    "sweep": "sweep nothing.toml",
    "verify": "verify nothing",
    "answers": "answers bm25 --test-set tests.csv --docs docs --dry-run",
    "eval": "eval bm25 --test-set tests.csv --docs docs --output report",
    "probe": "probe nothing.toml",
    "compare": "compare old.csv new.csv",
    "label": "label nothing other",
    "audit": "audit openai:gpt-5-mini --dry-run",
    "tune": "tune openai:gpt-5-mini --labels nothing.csv",
    "score": "score qrels.txt old.run --measure nDCG@10",
    "explore": "explore nothing",
    "publish": "publish nothing",
    "list": "list chunkers",
    "notebooks": "notebooks copied",
    "skill": "skill copied",
    "testset generate": "testset generate docs --output made --llm openai:gpt-5-mini --dry-run",
    "testset convert": "testset convert tests.csv tests.yaml",
    "testset merge": "testset merge tests.csv tests.csv --output merged.yaml",
    "testset validate": "testset validate tests.csv --docs docs",
    "testset draft": "testset draft --docs docs --output drafts.yaml",
    "history show": "history show abc",
    "history trend": "history trend nDCG@10",
    "history import": "history import nothing",
    "schedule add": "schedule add",
    "schedule list": "schedule list",
    "schedule pause": "schedule pause nothing",
    "schedule remove": "schedule remove nothing",
    "schedule import": "schedule import nothing.toml",
    "schedule run-due": "schedule run-due",
    "alert add": "alert add",
    "alert list": "alert list",
    "alert test": "alert test nothing",
    "alert remove": "alert remove nothing",
    "key add": "key add ci",
    "key list": "key list",
    "key remove": "key remove nothing",
    "cache info": "cache info",
    "cache clear": "cache clear",
}  # fmt: skip


def test_every_command_is_called() -> None:
    assert CALLS.keys() == LEAVES.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_command_prints_one_json_value_or_one_error(name: str, folder: Path) -> None:
    result = CliRunner().invoke(app, [*CALLS[name].split(), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if not result.stdout:
        assert result.exit_code == 2
        assert result.stderr
        return
    content = json.loads(result.stdout)
    is_dry_run = "--dry-run" in CALLS[name]
    if has_lines(name) or is_dry_run:
        assert content.keys() == {"status", "lines"}
        assert content["status"] == result.exit_code
        return
    assert type(content) is {"an object": dict, "a list of objects": list}[FORMS[name]]


def test_the_history_prints_a_list(folder: Path) -> None:
    assert json.loads(CliRunner().invoke(app, ["history", "--json"]).stdout) == []


def fields_of(name: str) -> set[str]:
    [row] = [line for line in DOCUMENTED.splitlines() if line.startswith(f"| `{name}` |")]
    return {*re.findall(r"\w+", row)}


OBJECTS: dict[str, Callable[[], list[str]]] = {
    "score": lambda: ["score", "qrels.txt", "old.run", "old.run", "--measure", "nDCG@10"],
    "list": lambda: ["list", "chunkers"],
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_fields_of_an_object_are_documented(name: str, folder: Path) -> None:
    result = CliRunner().invoke(app, [*OBJECTS[name](), "--json"])
    content = json.loads(result.stdout)
    assert content.keys() <= fields_of(name)
