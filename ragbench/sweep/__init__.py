"""A grid of configurations -> one executed notebook each, then their comparison.

Every run is a process of its own that executes one notebook by papermill. What is finished is
skipped the next time; what was interrupted, at any moment, is run again.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
