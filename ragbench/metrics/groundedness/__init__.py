"""Groundedness: the claims, citations and numbers of an answer, compared with its contexts.

Heuristic, deterministic, without a language model: words, names, numbers, denials, and vectors of
the minilm embedder.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
