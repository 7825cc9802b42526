"""A system's file starts nothing and sends no variable before a person has seen what it names."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.systems import consent, load_system
from ragbench.systems.named_systems import check_system
from ragbench.types import Dataset

DATA = Dataset("tiny", "test", {}, (), {})
MCP = '[mcp]\nserver = ["touch", "{mark}"]\ntool = "echo"\nenv = ["PATH"]\n'
ADDRESS = '[http]\nurl = "http://127.0.0.1:9/"\nbody = {{q = "{{query}}"}}\n'
HTTP = ADDRESS + 'headers = {{Authorization = "Bearer {{env:PATH}}"}}\n'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system that starts a command; nothing is confirmed yet."""
    monkeypatch.delenv("RAGBENCH_YES")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(consent, "prints_uses", False)
    path = tmp_path / "app.toml"
    path.write_text(MCP.format(mark=tmp_path / "started"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "use", [lambda path: check_system(str(path)), lambda path: load_system(path, DATA)]
)
@pytest.mark.parametrize("text", [MCP, HTTP])
def test_without_a_terminal_nothing_is_used(file: Path, use: Any, text: str) -> None:
    file.write_text(text.format(mark=file.parent / "started"), encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"gets the variables PATH .* --yes, or set RAGBENCH_YES=1"
    ):
        use(file)
    assert not (file.parent / "started").exists()


def test_the_host_and_every_variable_of_a_file_are_shown(file: Path) -> None:
    file.write_text(
        '[http]\nurl = "http://one:1/a?v={env:MY_ENV}"\nbody = {q = "{query}", server = "not '
        'started"}\nheaders = {X-Key = "Token {env:MY_KEY}"}\n'
    )
    shown = "gets the variables MY_ENV, MY_KEY of the environment and asks http://one:1, here"
    with pytest.raises(ConfigError, match=shown):
        check_system(str(file))


def test_a_file_that_starts_and_sends_nothing_needs_no_leave(file: Path) -> None:
    file.write_text(
        '[http]\nurl = "http://127.0.0.1:9/"\nbody = {q = "{query}"}\n', encoding="utf-8"
    )
    check_system(str(file))


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG_DATA_HOME is of Linux")
def test_leave_is_remembered_for_this_content(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(ConfigError, match="is not used"):
        check_system(str(file))
    assert "starts 'touch " in err.getvalue()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    check_system(str(file))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    check_system(str(file))
    file.write_text(file.read_text(encoding="utf-8").replace("touch", "rm"), encoding="utf-8")
    with pytest.raises(ConfigError, match="for the first time"):
        check_system(str(file))


def test_yes_prints_what_is_used(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_YES", "0")  # set back at the end of the test
    command = ["eval", str(file), "--test-set", "pydoc", "--dry-run"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "--yes" in refused.output
    assert "starts 'touch " in CliRunner().invoke(app, [*command, "--yes"]).output
