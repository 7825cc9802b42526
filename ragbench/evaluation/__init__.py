"""An evaluation: a system answers a dataset, which produces a `Result`, saved in a folder.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
