"""Systems under test: ragbench's own pipeline, a function, recorded answers, and services reached
by HTTP or MCP.

Each has `name` and `answer(query_id, query) -> Answer`; `ask` puts every question of a dataset to
one of them.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
