"""Seconds per stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


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
