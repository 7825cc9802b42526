"""One evaluation as a record, and as report.json, report.md and report.html; its comparison with an
earlier one.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
