"""What a sweep shows while it works: how many runs have ended, and a line for each that has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench import progress

if TYPE_CHECKING:
    from rich.console import Console


class Progress(progress.Progress):
    """Counts of a sweep, shown as those of any long work, above which each end is a line.

    With `is_quiet` only runs that failed have a line.
    """

    def __init__(
        self, console: Console, total: int, *, skipped: int = 0, is_quiet: bool = False
    ) -> None:
        super().__init__(total, "sweep", "runs", skipped)
        self._console, self._last, self._is_quiet = console, total, is_quiet

    def ended(self, name: str, seconds: float, error: str) -> None:
        self.clear()
        self.n += 1
        minutes, rest = divmod(round(seconds), 60)
        ending = (
            f"failed after {minutes}:{rest:02}: {error}"
            if error
            else f"done in {minutes}:{rest:02}"
        )
        if self._is_quiet and not error:
            return
        # Names and errors hold brackets, which must not be taken for markup.
        line = f"[{self.n}/{self._last}] {name} {ending}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
