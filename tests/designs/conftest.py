"""What the tests of the designs share: a small test set with recorded answers, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragbench.cli import app

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `ragbench` in an empty folder; return the exit status and what it printed, in one line. Its
    runs are in a database of the test.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "runs.sqlite"))

    def invoke(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(arguments))
        return done.exit_code, " ".join(done.output.split())

    return invoke


def write_lines(path: Path, *records: Mapping[str, Any]) -> None:
    """Write records as JSON Lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
