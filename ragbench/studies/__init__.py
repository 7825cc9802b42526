"""The studies of the guide: what their notebooks call.

Each study is a grid and notebooks in `notebooks/`, a folder of results that `ragbench verify` computes
again, and a page of the guide. The functions here draw, compute and test; the notebooks show.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
