"""A grid of configurations -> one executed notebook each, then their comparison.

Every run is a separate process that executes a notebook by papermill. Finished runs are skipped the
next time; a run that was interrupted, at any moment, is repeated.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
