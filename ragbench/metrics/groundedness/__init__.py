"""Groundedness: what an answer claims, cites and counts, compared with the texts that it was made
from.

Heuristic, deterministic, without a language model: words, names, numbers, denials, and vectors of
the minilm embedder.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
