"""What a sweep shows while it works: a live display on a terminal, one line per event elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def clock(seconds: float) -> str:
    """Minutes and seconds; hours where there are any.

    >>> clock(75), clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Counts of a sweep: done, running, failed, skipped, and the time that is left."""

    def __init__(self, console: Console, total: int, *, skipped: int = 0, jobs: int = 1) -> None:
        self.console = console
        self.total = total
        self.skipped = skipped
        self.jobs = jobs
        self.running: dict[str, float] = {}
        self.seconds: list[float] = []
        self.failed: list[str] = []

    def started(self, name: str) -> None:
        self.running[name] = time.monotonic()

    def withdrawn(self, name: str) -> None:
        """It waits again."""
        self.running.pop(name, None)

    def ended(self, name: str, seconds: float, error: str) -> None:
        self.running.pop(name, None)
        if error:
            self.failed.append(name)
        else:
            self.seconds.append(seconds)
        done = self.skipped + len(self.seconds) + len(self.failed)
        ending = f"failed after {clock(seconds)}: {error}" if error else f"done in {clock(seconds)}"
        # Names and errors hold brackets, which must not be taken for markup.
        self.console.print(f"[{done}/{self.total}] {name} {ending}", markup=False, highlight=False, soft_wrap=True)

    def left(self) -> float | None:
        """Seconds that are left, by the mean of the runs so far; None before the first has ended."""
        if not self.seconds:
            return None
        mean = sum(self.seconds) / len(self.seconds)
        now = time.monotonic()
        waiting = self.total - self.skipped - len(self.seconds) - len(self.failed) - len(self.running)
        begun = sum(max(mean - (now - start), 0.0) for start in self.running.values())
        return (waiting * mean + begun) / max(1, min(self.jobs, waiting + len(self.running)))

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        from rich.live import Live

        with Live(get_renderable=self._view, console=self.console, refresh_per_second=4, transient=True):
            yield

    def _view(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        done = self.skipped + len(self.seconds)
        left = self.left()
        parts: Sequence[tuple[str, str]] = [
            (f"{done} of {self.total} done", "green"),
            (f"{len(self.running)} running", "cyan"),
            (f"{len(self.failed)} failed", "red" if self.failed else "dim"),
            (f"{self.skipped} skipped", "dim"),
            (f"{clock(left)} left" if left is not None else "time left unknown", "bold"),
        ]
        line = Text(" | ").join(Text(text, style) for text, style in parts)
        now = time.monotonic()
        names = [Text(f"  {clock(now - start):>7}  {name}", "cyan") for name, start in self.running.items()]
        return Group(ProgressBar(self.total, done + len(self.failed), width=60), line, *names)
