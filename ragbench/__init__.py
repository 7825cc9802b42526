"""ragbench: is RAG configuration B really better than A, where does each fail, and can the judge be
trusted?

>>> import ragbench as rb
>>> rb.Document("d1", "Body.", title="Head").full_text
'Head\\n\\nBody.'

The names are in `__init__.pyi`; each is loaded when it is first used, so that `import ragbench` is
instant and silent. Submodules (`rb.statistics`, `rb.metrics`, ...) hold the rest of the public
names.
"""

from difflib import get_close_matches
from typing import Any

import lazy_loader

__version__ = "0.1.0"

_attached, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _attached(name)
    near = get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module 'ragbench' has no attribute {name!r}{hint}")
