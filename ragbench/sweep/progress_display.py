"""The progress of a sweep: the count of runs, a line for each that ended, and the line of the first
run at work: its requests, their rate and the time left.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench import progress

if TYPE_CHECKING:
    from rich.console import Console


class Progress(progress.Progress):
    """Counts of a sweep, shown like any long work; each configuration that ends is a line above them."""

    def __init__(self, console: Console, total: int, *, skipped: int = 0) -> None:
        super().__init__(total, "sweep", "runs", skipped)
        self._console = console
        self._line_of_run = ""

    def look_at(self, files: Iterable[Path]) -> None:
        """Show the progress of one of the runs that are at work, next to the progress of the sweep.

        Each run writes a line on its progress into one of the `files`. The first line that is found is
        shown; without any, only the progress of the sweep is shown.
        """
        self._line_of_run = ""
        for file in files:
            try:
                self._line_of_run = file.read_text(encoding="utf-8")
            except OSError:  # the run has written no line yet, or works on another machine
                continue
            if self._line_of_run:
                break
        self.update(0)  # no further run has ended: this only shows the line again

    def _line(self, seconds: float, width: int) -> str:
        """Return the line of the sweep and of the run at work; where that is too long, the run's."""
        if not self._line_of_run:
            return super()._line(seconds, width)
        line = f"sweep: {self.n} of {self._total} runs; {self._line_of_run}"
        return line if len(line) <= width else self._line_of_run

    def ended(self, name: str, seconds: float, error: str) -> None:
        """Count a run that has ended, and print a line on it; `error` is "" if it succeeded."""
        self.clear()
        self.n += 1
        minutes, rest = divmod(round(seconds), 60)
        time_taken = f"{minutes}:{rest:02}"
        ending = f"failed after {time_taken}: {error}" if error else f"done in {time_taken}"
        # Names and errors hold brackets, which must not be taken for markup.
        line = f"[{self.n}/{self._total}] {name} {ending}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
