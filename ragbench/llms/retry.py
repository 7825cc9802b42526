"""Asking a server again, as politely as it wants: what a provider and a system under test are asked with."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ragbench.llms.failures import Failed

T = TypeVar("T")

_LONGEST_PAUSE_S = 600.0
_LONGEST_BACKOFF_S = 30.0


class RetryPolicy:
    """How long one server wants to be left alone; all threads that ask it share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._not_before = 0.0

    def run(
        self,
        send: Callable[[], T],
        stop: threading.Event,
        *,
        then: Callable[[], str] = lambda: "",
        max_tries: int | None = None,
    ) -> T:
        """What `send` returns, tried as often as its Failed allows (at most `max_tries` times), with back-off between.

        Raises Failed with what to do `then`, and InterruptedError once `stop` is set.
        """
        tried = 0
        while True:
            self._wait_until_allowed(stop)
            try:
                return send()
            except Failed as exc:
                tried += 1
                if tried >= min(exc.tries, max_tries or exc.tries):
                    advice = then() if tried > 1 else ""
                    after = f" after {tried} tries" if tried > 1 else ""
                    message = f"{exc}{after}; {advice} later" if advice else f"{exc}{after}"
                    raise exc.reworded(message) from None
                if exc.wait_s is not None and exc.wait_s > _LONGEST_PAUSE_S:
                    message = f"{exc}; the server asks to wait {exc.wait_s:.0f} s: run again then"
                    raise Failed(message, exc.kind, status=exc.status, stop=True) from None
                self._back_off(exc.wait_s, tried, stop)

    def _wait_until_allowed(self, stop: threading.Event) -> None:
        while (left := self._not_before - time.monotonic()) > 0 and not stop.is_set():
            # Not all at the same moment: the server has just reported an overload.
            stop.wait(left + random.uniform(0, min(1.0, left)))
        if stop.is_set():
            raise InterruptedError("stopped")

    def _back_off(self, asked_s: float | None, tried: int, stop: threading.Event) -> None:
        if asked_s is None:
            stop.wait(random.uniform(0.5, 1.0) * min(_LONGEST_BACKOFF_S, 0.5 * 2 ** (tried - 1)))
            return
        with self._lock:  # what the server asks of one request it means for all
            self._not_before = max(self._not_before, time.monotonic() + asked_s)
