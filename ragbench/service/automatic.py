"""Whether finished commands are recorded in the history (RAGBENCH_HISTORY); nothing heavy is loaded
unless there is something to record.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ragbench.errors import ConfigError, RagbenchError, warn_user
from ragbench.evaluation import Result


def enabled() -> bool:
    """Return True if runs are recorded: RAGBENCH_HISTORY is "on" or "off"; without it they are,
    except under pytest.

    Raises:
        ConfigError: it is something else.
    """
    setting = os.environ.get("RAGBENCH_HISTORY", "").lower()
    if setting not in ("", "on", "off"):
        raise ConfigError(f"RAGBENCH_HISTORY is {setting!r}; expected on or off")
    return setting == "on" or (not setting and "PYTEST_VERSION" not in os.environ)


def record_finished(results: Callable[[], Iterable[tuple[Result, Path | None]]]) -> None:
    """Record the results of a command in the history; a failure is only a warning.

    `results` is called only if runs are recorded at all.
    """
    try:
        if enabled():
            from ragbench.service.recording import record

            record(results())
    except (RagbenchError, OSError, ImportError) as exc:
        reason = (
            f"the run is not in the history ({exc}); `ragbench history import` adds it, "
            "RAGBENCH_HISTORY=off ends this"
        )
        warn_user(reason)
