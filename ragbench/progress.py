"""Long work: parallel calls, and a line with count, rate and time left where someone watches."""

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from ragbench.threads import run_in_thread

T = TypeVar("T")
R = TypeVar("R")


class ThreadedCalls(Generic[T, R]):
    """Calls with many items in threads, at most `at_once` at a time; iterating yields (item, outcome) as
    the calls end.

    An outcome is the value that the call returned, or the exception that it raised. Threads are daemon
    threads, called `name`: a call that hangs does not keep the process alive. `meanwhile` is called
    every now and then while no call ends.

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
        """Store what to call; the calls begin when the object is iterated.

        Args:
            items: one call is made with each.
            call: takes an item.
            at_once: how many calls run at a time.
            name: of the threads.
            meanwhile: is called every now and then while no call ends.
        """
        self._waiting = list(items)[::-1]  # the next one last
        self._n_running = 0
        self._call = call
        self._at_once = at_once
        self._name = name
        self._meanwhile = meanwhile
        self._outcomes: queue.SimpleQueue[tuple[T, R | BaseException]] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[tuple[T, R | BaseException]]:
        """Yield each item with the result of its call, or the exception that it raised, in the order
        in which calls end. At most `at_once` calls run at a time.
        """
        while self._waiting or self._n_running:
            while self._waiting and self._n_running < self._at_once:
                self._n_running += 1
                run_in_thread(partial(self._work, self._waiting.pop()))
            # A wait without end cannot be interrupted on every system.
            try:
                outcome = self._outcomes.get(timeout=0.2)
            except queue.Empty:
                self._meanwhile()
                continue
            self._n_running -= 1
            yield outcome

    def stop(self) -> list[T]:
        """Begin no further call; return the items without a call, in their order."""
        waiting = self._waiting[::-1]
        self._waiting = []
        return waiting

    def _work(self, item: T) -> None:
        """Call the function for an item, in a thread, and put (item, its result or exception) into the
        queue.
        """
        threading.current_thread().name = self._name
        try:
            self._outcomes.put((item, self._call(item)))
        except BaseException as exc:  # Ctrl-C and exit belong to the thread that iterates
            self._outcomes.put((item, exc))


class Progress:
    """The progress of long work: `n` units are done. `total` is None if it is not known."""

    def __init__(
        self, total: int | None, label: str, unit: str, n: int, *, is_quiet: bool = False
    ) -> None:
        """Begin to measure the time.

        Args:
            label: the first words of the line, such as "searching".
            unit: the counted things in the plural, such as "queries".
            n: the units that are done already.
            is_quiet: show nothing.
        """
        self.n = n
        self._is_quiet = is_quiet
        self._total = total
        self._label = label
        self._unit = unit
        self._n_at_start = n
        self._begun = time.monotonic()
        self._due = self._begun + 2.0  # the time of the next line
        self._handle: Any = None
        self._is_shown = False

    def update(self, n: int = 1) -> None:
        """Count `n` more as done, and show it ten times a second."""
        self.n += n
        now = time.monotonic()
        if now >= self._due and not self._is_quiet:
            self._due = now + 0.1
            width = shutil.get_terminal_size().columns - 1
            self._show(self._line(now - self._begun, width))

    def _line(self, seconds: float, width: int) -> str:
        """Return the line to show after so many seconds, such as "searching: 3 of 10 queries,
        0:00:06, 30.0 a minute, 0:00:14 left". The time that has passed is left out if the line would
        be wider than `width`.
        """
        n_new = self.n - self._n_at_start  # done since the start, which the speed is about
        counts = [f"{count:,}" for count in (self.n, self._total) if count is not None]
        done = f"{' of '.join(counts)} {self._unit}"
        speed = []
        if n_new and seconds > 0:
            speed.append(_rate(n_new / seconds))
        # the speed so far tells the time left
        if n_new and self._total is not None and self._total > self.n:
            speed.append(f"{_clock((self._total - self.n) * seconds / n_new)} left")
        line = f"{self._label}: {', '.join([done, _clock(seconds), *speed])}"
        if len(line) > width and n_new:
            line = f"{self._label}: {', '.join([done, *speed])}"
        return line

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._show("")

    def _show(self, line: str) -> None:
        """Show a line of progress in the place of the previous one: in a notebook or a terminal, and
        in the file that RAGBENCH_PROGRESS names. Without any of them nothing is shown.
        """
        self._is_shown = True
        file = os.environ.get("RAGBENCH_PROGRESS")
        if file:
            Path(file).write_text(line, encoding="utf-8")
        if _in_jupyter():
            self._show_in_notebook(line)
        elif sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{line[:width]:<{width}}\r")
            sys.stderr.flush()

    def _show_in_notebook(self, line: str) -> None:
        """Show a line in the output of the cell; the first call makes it, the others change it."""
        from IPython.display import display

        data = {"text/plain": line}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)


_open_bars: list[Progress] = []


@contextmanager
def progress_bar(
    total: int | None, label: str, unit: str = "items", *, initial: int = 0
) -> Iterator[Progress]:
    """Yield a `Progress`, which shows a line of progress if the block takes more than two seconds: the
    count, the rate and the time left. The line is removed at the end.

    The line is shown on a terminal and in Jupyter, but not in logs and in notebooks that papermill
    runs. It is also written to the file that RAGBENCH_PROGRESS names (the file of a job, which a
    server shows). `total` is None if it is not known. A bar of one unit inside another bar shows no
    line, because the outer bar's line tells more.

    >>> with progress_bar(10, "searching", "queries") as bar:
    ...     bar.update(10)
    """
    # another bar is open around this one
    is_within = bool(_open_bars)
    bar = Progress(total, label, unit, initial, is_quiet=is_within and total == 1)
    _open_bars.append(bar)
    try:
        yield bar
    finally:
        _open_bars.remove(bar)
        bar.clear()


def _clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds, such as "0:01:30"."""
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
    """Return True if a person runs the cells, who could be asked for input, as in JupyterLab; False
    under papermill.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))
