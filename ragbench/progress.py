"""Progress bars: on a terminal or in a notebook that somebody watches, and nowhere else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


def progress_bar(total: int, desc: str, unit: str = "it", *, initial: int = 0) -> tqdm[Any]:
    """A bar on standard error after two seconds, which leaves nothing behind; a log has none.

    It shows on a terminal and in Jupyter. TQDM_DISABLE=1 turns it off everywhere, as in the notebooks of a sweep.

    >>> with progress_bar(10, "searching", "query") as bar:
    ...     _ = bar.update(10)
    """
    from tqdm import tqdm

    options = {} if sys.stderr.isatty() or _in_jupyter() else {"disable": True}
    return tqdm(total=total, desc=desc, unit=unit, initial=initial, delay=2, leave=False, **options)


def _in_jupyter() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
