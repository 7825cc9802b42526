"""The bar: only on a terminal, only after a while."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ragbench.datasets.progress import progress


def shown_on(terminal: bool, after_s: float) -> str:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=80)
    with progress("reading corpus.jsonl", 100, after_s=after_s, console=console) as done:
        done(10)
        done(100)
    return screen.getvalue()


def test_long_work_on_a_terminal_shows_a_bar() -> None:
    assert "reading corpus.jsonl" in shown_on(terminal=True, after_s=0)


@pytest.mark.parametrize(("terminal", "after_s"), [(True, 60.0), (False, 0.0)])
def test_short_work_and_log_files_show_none(terminal: bool, after_s: float) -> None:
    assert shown_on(terminal, after_s) == ""
