"""Long work: calls side by side, and a bar that shows how far they are where someone watches."""

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ThreadedCalls(Generic[T, R]):
    """Calls of many items in threads, at most `at_once` at a time; iterating gives items and
    outcomes as they come.

    An outcome is what the call returned or raised. Each call has a daemon thread of its own: one
    that hangs does not keep the process alive. `meanwhile` is called now and then while none comes.

    >>> sorted(ThreadedCalls([1, 2], lambda number: number + 1, at_once=2, name="doctest"))
    [(1, 2), (2, 3)]
    """

    def __init__(
        self,
        items: Sequence[T],
        call: Callable[[T], R],
        *,
        at_once: int,
        name: str,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._left, self._n_on_way = list(items)[::-1], 0
        self._call, self._at_once, self._name = call, at_once, name
        self._meanwhile = meanwhile
        self._came: queue.SimpleQueue[tuple[T, R | BaseException]] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[tuple[T, R | BaseException]]:
        while self._left or self._n_on_way:
            while self._left and self._n_on_way < self._at_once:
                item = self._left.pop()
                self._n_on_way += 1
                threading.Thread(
                    target=self._work, args=(item,), name=self._name, daemon=True
                ).start()
            # A wait without end cannot be interrupted on every system.
            try:
                came = self._came.get(timeout=0.2)
            except queue.Empty:
                self._meanwhile()
                continue
            self._n_on_way -= 1
            yield came

    def stop(self) -> list[T]:
        """Begin no other call; gives the items that are left."""
        left, self._left = self._left[::-1], []
        return left

    def _work(self, item: T) -> None:
        try:
            self._came.put((item, self._call(item)))
        except BaseException as exc:  # Ctrl-C and exit belong to the thread that waits for us
            self._came.put((item, exc))


class Progress:
    """How far a long work is; `n` of it is done."""

    def __init__(self, total: int | None, label: str, unit: str, n: int) -> None:
        self.n, self._total, self._label, self._unit = n, total, label, unit
        self._n_at_start, self._begun = n, time.monotonic()
        self._due = self._begun + 2.0
        self._handle: Any = None
        self._is_shown = False

    def update(self, n: int = 1) -> None:
        """Count `n` more as done, and show it ten times a second."""
        self.n += n
        if (now := time.monotonic()) >= self._due:
            self._due = now + 0.1
            self._show(self._line(now - self._begun))

    def _line(self, seconds: float) -> str:
        """Return what is shown: how much is done, since when, at which rate, and the time left."""
        counts = [f"{count:,}" for count in (self.n, self._total) if count is not None]
        parts = [f"{' of '.join(counts)} {self._unit}", _clock(seconds)]
        n_new = self.n - self._n_at_start
        if n_new and seconds > 0:
            parts.append(_rate(n_new / seconds))
        if n_new and self._total is not None and self._total > self.n:
            parts.append(f"{_clock((self._total - self.n) * seconds / n_new)} left")
        return f"{self._label}: {', '.join(parts)}"

    def clear(self) -> None:
        """Remove what is shown."""
        if self._is_shown:
            self._show("")

    def _show(self, line: str) -> None:
        self._is_shown = True
        if file := os.environ.get("RAGBENCH_PROGRESS"):
            Path(file).write_text(line, encoding="utf-8")
        if _in_jupyter():
            from IPython.display import display

            data = {"text/plain": line}
            if self._handle is None:
                self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            else:
                self._handle.update(data, raw=True)
        elif sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{line[:width]:<{width}}\r")
            sys.stderr.flush()


@contextmanager
def progress_bar(
    total: int | None, label: str, unit: str = "items", *, initial: int = 0
) -> Iterator[Progress]:
    """Show a line after two seconds, with the rate and the time left, which leaves nothing behind; a
    log and a notebook that papermill runs have none.

    It shows on a terminal and in Jupyter, and is the content of the file that RAGBENCH_PROGRESS names
    (a job's, which a server shows). None as the total is one that is not known.

    >>> with progress_bar(10, "searching", "queries") as bar:
    ...     bar.update(10)
    """
    bar = Progress(total, label, unit, initial)
    try:
        yield bar
    finally:
        bar.clear()


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _rate(per_second: float) -> str:
    """Return a rate in the unit in which it is 1 or more.

    >>> _rate(3), _rate(0.05), _rate(0.001)
    ('3.0 a second', '3.0 a minute', '3.6 an hour')
    """
    if per_second >= 1:
        return f"{per_second:.1f} a second"
    if per_second >= 1 / 60:
        return f"{60 * per_second:.1f} a minute"
    return f"{3600 * per_second:.1f} an hour"


def _in_jupyter() -> bool:
    """Return True if cells are run by someone who could be asked for input, as in JupyterLab;
    papermill could not.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))
