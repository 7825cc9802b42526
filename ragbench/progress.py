"""Progress bars: on a terminal or in a notebook that someone watches, and nowhere else."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


def progress_bar(total: int | None, desc: str, unit: str = "it", *, initial: int = 0) -> tqdm[Any]:
    """A bar after two seconds, which leaves nothing behind; a log and a notebook that papermill runs have none.

    It shows on a terminal and in Jupyter. "B" as the unit shows kilobytes and megabytes, and None as the total is one
    that is not known. TQDM_DISABLE=1 turns it off everywhere.

    >>> with progress_bar(10, "searching", "query") as bar:
    ...     _ = bar.update(10)
    """
    from tqdm import tqdm

    options: dict[str, Any] = {"disable": True}
    if _in_jupyter():
        options = {"file": _Output(), "ncols": 100}
    elif sys.stderr.isatty():
        options = {}
    if unit == "B":
        options["unit_scale"] = True
    return tqdm(total=total, desc=desc, unit=unit, initial=initial, delay=2, leave=False, **options)


def _in_jupyter() -> bool:
    """Whether cells are run by someone who could be asked for input, as in JupyterLab; papermill could not."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


class _Output(io.StringIO):
    """An output of a cell that shows the last line written, and is empty at the end."""

    _handle: Any = None

    def write(self, text: str) -> int:
        from IPython.display import display

        line = {"text/plain": text.strip()}
        if self._handle is not None:
            self._handle.update(line, raw=True)
        elif text.strip():
            self._handle = display(line, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        return len(text)
