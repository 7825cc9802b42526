"""One evaluation as a record, and as report.json, report.md and report.html; its comparison with an
earlier one.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
