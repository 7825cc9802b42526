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


def test_jupyter_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class ZMQInteractiveShell:
        """What IPython calls the shell of a notebook's kernel."""

    monkeypatch.setattr(sys, "stderr", Screen(terminal=False))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    with progress_bar(10, "searching") as bar:
        assert bar.disable is False


def test_the_log_of_a_slow_run_holds_no_bar() -> None:
    code = (
        "import time\n"
        "from ragbench.systems import FunctionSystem, ask\n"
        "from ragbench.types import Case, Dataset\n"
        "cases = [Case(f'q{i}', str(i)) for i in range(4)]\n"
        "ask(FunctionSystem(lambda q: time.sleep(0.8) or q), Dataset('d', 'test', {}, cases, {}), concurrency=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
