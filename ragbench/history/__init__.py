"""Runs over time: every finished run in a database, trends, and whether quality moved.

The files of results are the truth; the database is an index that can be dropped and made again from them
(`ragbench history import results/`). The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
