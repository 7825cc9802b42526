"""The entry point `papermill.engine`: the engine, loaded when it is first used.

papermill loads its entry points while it is imported itself, when no module that imports papermill
can be complete.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    from ragbench.sweep.engine import InProcessEngine

    return getattr(InProcessEngine, name)
