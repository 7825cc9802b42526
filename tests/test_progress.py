"""Progress bars show on a terminal and in Jupyter; a log stays free of them."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ragbench.progress import progress_bar


class Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_has_a_bar(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Screen(terminal))
    monkeypatch.setitem(sys.modules, "IPython", None)
    with progress_bar(10, "searching") as bar:
        assert bar.disable is not terminal


@pytest.mark.parametrize("watched", [True, False])
def test_jupyter_has_one_where_someone_watches(
    watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel knows whether it may ask for input: JupyterLab allows it, papermill does not."""
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=watched))
    monkeypatch.setattr(sys, "stderr", Screen(terminal=False))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with progress_bar(10, "searching") as bar:
        assert bar.disable is not watched


def test_a_bar_in_a_notebook_is_one_output_that_ends_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(data["text/plain"])
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("ragbench.progress._in_jupyter", lambda: True)
    with progress_bar(10, "searching") as bar:
        bar.delay = 0
        bar.update(5)
        bar.refresh()
    assert "searching:  50%" in shown[0]
    assert shown[-1] == ""


def test_the_log_of_a_slow_run_holds_no_bar() -> None:
    code = (
        "import time\n"
        "from ragbench.systems import FunctionSystem, ask\n"
        "from ragbench.types import Case, Dataset\n"
        "cases = [Case(f'q{i}', str(i)) for i in range(4)]\n"
        "ask(FunctionSystem(lambda q: time.sleep(0.8) or q), Dataset('d', 'test', {}, cases, "
        "{}), concurrency=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
