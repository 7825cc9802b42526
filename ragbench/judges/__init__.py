"""Answer + criterion + language model -> Judgement; and whether such a judge can be trusted.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
