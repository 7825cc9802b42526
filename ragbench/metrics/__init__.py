"""Measures: the formula of each as a pure function, and the tables of scores that they give.

A table of scores has the columns query_id, measure, value; `value` is NaN where something is
unscored: it is counted, and never averaged. What each measure means, its bounds and direction are
in `ragbench.registry`.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
