"""Runs over time in a database, schedules, alerts, and the HTTP API with its dashboard.

The files of results are the truth; the database is an index that can be dropped and made again from
them (`ragbench history import results/`). The server adds nothing that the library and the commands
cannot do.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
