"""The progress of a sweep: how many runs have ended, and a line for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench import progress

if TYPE_CHECKING:
    from rich.console import Console


class Progress(progress.Progress):
    """Counts of a sweep, shown like any long work; each configuration that ends is a line above them."""

    def __init__(self, console: Console, total: int, *, skipped: int = 0) -> None:
        super().__init__(total, "sweep", "runs", skipped)
        self._console, self._last = console, total

    def ended(self, name: str, seconds: float, error: str) -> None:
        self.clear()
        self.n += 1
        minutes, rest = divmod(round(seconds), 60)
        ending = (
            f"failed after {minutes}:{rest:02}: {error}"
            if error
            else f"done in {minutes}:{rest:02}"
        )
        # Names and errors hold brackets, which must not be taken for markup.
        line = f"[{self.n}/{self._last}] {name} {ending}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
