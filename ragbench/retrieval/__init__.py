"""Documents to chunks, chunks to an index, and an index searched: chunkers, embedders, retrievers.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
