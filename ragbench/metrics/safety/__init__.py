"""What must not go in and what must not come out: attacks in prompts, leaks in answers, and
detectors of both.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
