"""What a sweep shows while it works: bars on a terminal, and a line for each run that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

_LONG_S = 24 * 3600.0  # the time that is left follows from all runs that have ended


class Progress:
    """Counts of a sweep; `bars` is the live display, which is empty where there is no terminal.

    With `is_quiet` only runs that failed have a line.
    """

    def __init__(
        self, console: Console, total: int, *, skipped: int = 0, is_quiet: bool = False
    ) -> None:
        self._is_quiet, self._console = is_quiet, console
        self._total, self._done = total, skipped
        # Names and errors hold brackets, which must not be taken for markup.
        name = TextColumn("{task.description}", markup=False)
        columns = (
            name,
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self.bars = Bars(
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=_LONG_S,
        )
        self._all = self.bars.add_task("all runs", total=total, completed=skipped)
        self._running: dict[str, TaskID] = {}

    def started(self, name: str) -> None:
        self._running[name] = self.bars.add_task(f"  {name}", total=None)

    def withdrawn(self, name: str) -> None:
        """Show that a run waits again."""
        self.bars.remove_task(self._running.pop(name))

    def ended(self, name: str, seconds: float, error: str) -> None:
        self.withdrawn(name)
        self.bars.advance(self._all)
        self._done += 1
        minutes, rest = divmod(round(seconds), 60)
        ending = (
            f"failed after {minutes}:{rest:02}: {error}"
            if error
            else f"done in {minutes}:{rest:02}"
        )
        if self._is_quiet and not error:
            return
        line = f"[{self._done}/{self._total}] {name} {ending}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
