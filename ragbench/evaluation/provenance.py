"""What a result was made with, and how long it took."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# Libraries whose versions change numbers; config.json records them.
_DECIDING = (
    "bm25s",
    "faiss-cpu",
    "numpy",
    "pandas",
    "PyStemmer",
    "pytrec-eval-terrier",
    "scipy",
    "sentence-transformers",
    "sentencex",
    "tantivy",
    "tokenizers",
    "torch",
    "transformers",
    "wordllama",
)


def environment() -> dict[str, Any]:
    """What may change a number or a latency: Python, platform, cores, versions. Nothing that names
    a machine or user.

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
    """The version of ragbench that is installed."""
    try:
        return version("ragbench-lab")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return "unknown"


class Timings:
    """Seconds per stage, measured with a monotonic clock; a stage that is entered again adds up.

    >>> timings = Timings()
    >>> with timings("index"):
    ...     _ = sum(range(10))
    >>> list(timings.seconds), timings.seconds["index"] >= 0
    (['index'], True)
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
