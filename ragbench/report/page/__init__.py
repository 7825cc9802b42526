"""Reports of one evaluation: report.json, report.md and report.html, JUnit, traces; their sentences
are in `sentences`, a comparison's in `report/several`.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
