"""Progress bars show on a terminal and in Jupyter; a log stays free of them."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from ragbench.progress import ThreadedCalls, progress_bar


class Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that is set by hand."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("ragbench.progress.time.monotonic", lambda: now.seconds)
    return now


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_has_a_bar(
    terminal: bool, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with progress_bar(1000, "searching", "queries", initial=500) as bar:
        bar.update(5)
        assert not screen.getvalue(), "short work shows nothing"
        clock.seconds = 65.0
        bar.update(5)
        bar.update(5)  # not ten times a second
    shown = [line.strip() for line in screen.getvalue().split("\r") if line.strip()]
    line = "searching: 510 of 1,000 queries, 0:01:05, 9.2 a minute, 0:53:05 left"
    assert shown == [line] * terminal
    assert screen.getvalue().endswith("\r") is terminal, "the line is empty at the end"


@pytest.mark.parametrize("watched", [True, False])
def test_a_bar_in_a_notebook_is_one_output_that_ends_empty(
    watched: bool, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel knows whether it may ask for input: JupyterLab allows it, papermill does not."""
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(data["text/plain"])
        return Handle()

    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=watched))
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(sys, "stderr", Screen(terminal=False))
    with progress_bar(None, "searching", "queries") as bar:
        clock.seconds = 3.0
        bar.update(5)
    assert shown == ["searching: 5 queries, 0:00:03, 1.7 a second", ""] * watched


def test_slow_replies_are_counted_while_none_comes(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with progress_bar(15, "answers", "replies") as bar:
        clock.seconds = 40.0
        bar.update(0)
        clock.seconds = 90.0
        bar.update()
    lines = [line.strip() for line in screen.getvalue().split("\r") if line.strip()]
    assert lines == [
        "answers: 0 of 15 replies, 0:00:40",
        "answers: 1 of 15 replies, 0:01:30, 40.0 an hour, 0:21:00 left",
    ]


def test_a_line_of_80_columns_keeps_the_time_left(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar(557, "embedding with wordllama", "texts") as bar:
        clock.seconds = 5.0
        bar.update(256)
    [line] = [line.strip() for line in screen.getvalue().split("\r") if line.strip()]
    assert line == "embedding with wordllama: 256 of 557 texts, 51.2 a second, 0:00:06 left"


def test_one_unit_within_other_work_does_not_hide_its_line(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "IPython", None)
    with progress_bar(20, "timing", "questions") as outer:
        for _ in range(2):
            with progress_bar(1, "answers", "replies") as inner:
                clock.seconds += 6.0
                inner.update()
            outer.update()
        with progress_bar(9, "answers", "replies") as several:
            clock.seconds += 6.0
            several.update()
    lines = [line.strip() for line in screen.getvalue().split("\r") if line.strip()]
    assert lines == [
        "timing: 1 of 20 questions, 0:00:06, 10.0 a minute, 0:01:54 left",
        "timing: 2 of 20 questions, 0:00:12, 10.0 a minute, 0:01:48 left",
        "answers: 1 of 9 replies, 0:00:06, 10.0 a minute, 0:00:48 left",
    ]


def test_calls_that_take_long_report_meanwhile() -> None:
    beats: list[int] = []
    release = threading.Event()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            release.set()

    calls = ThreadedCalls(
        [1], lambda item: release.wait(60), at_once=1, name="slow", meanwhile=beat
    )
    assert list(calls) == [(1, True)]
    assert len(beats) >= 3


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
