"""What a result was made with."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# Libraries whose versions change numbers; config.json records them.
_DECIDING = (
    "bm25s numpy pandas PyStemmer pytrec-eval-terrier scipy sentence-transformers sentencex tantivy "
    "tokenizers torch transformers wordllama"
).split()


def environment() -> dict[str, Any]:
    """Return what may change a number or a latency: Python, platform, cores, versions. Nothing that
    names a machine or user.

    >>> sorted(environment())
    ['cores', 'libraries', 'machine', 'platform', 'python', 'ragbench']
    """
    libraries = {}
    for name in _DECIDING:
        with suppress(PackageNotFoundError):
            libraries[name] = version(name)
    return {
        "ragbench": own_version(),
        "python": platform.python_version(),
        "platform": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
        "libraries": libraries,
    }


def own_version() -> str:
    """Return the version of ragbench that is installed."""
    try:
        return version("ragbench-lab")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return "unknown"
