"""Tables and sentences for readers: the texts of the notebooks between their figures, and the
leaderboard.

Records and tidy frames in, small frames and plain sentences out. Every sentence is computed from
the data.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
