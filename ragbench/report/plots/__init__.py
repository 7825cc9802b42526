"""The figures of the notebooks: records and tidy frames in, a matplotlib figure out.

A function returns None where its input holds nothing to draw. The names are in `__init__.pyi`; each is
loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
