"""A progress bar for work that a person would otherwise watch in doubt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress(
    what: str, total: int | None, *, after_s: float = 2.0, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """Give a function that takes how many of `total` bytes are done; None is a total that is not known.

    The bar appears on standard error once `after_s` seconds have passed, and only on a terminal: a log file or
    an executed notebook stays free of it.

    >>> with progress("corpus.jsonl", 100) as done:
    ...     done(50)
    """
    start = time.monotonic()
    stop: Callable[[], None] | None = None
    update: Callable[[int], None] | None = None

    def show() -> bool:
        nonlocal update, stop
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        terminal = console or Console(stderr=True)
        if not terminal.is_terminal:
            return False
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=terminal, transient=True)
        task = bar.add_task(what, total=total)
        bar.start()
        stop = bar.stop

        def move(done: int) -> None:
            bar.update(task, completed=done)

        update = move
        return True

    shown: bool | None = None  # None: not decided yet

    def done(count: int) -> None:
        nonlocal shown
        if shown is None and time.monotonic() - start >= after_s:
            shown = show()
        if update is not None:
            update(count)

    try:
        yield done
    finally:
        if stop is not None:
            stop()
