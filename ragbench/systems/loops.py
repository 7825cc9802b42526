"""An event loop in a thread of its own: asynchronous code behind a plain call, also inside Jupyter's running loop."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_LONGEST_END_S = 10.0


class LoopThread:
    """Runs coroutines of any thread on one event loop; closed by `close`, or when it is no longer used."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name=name, daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """What the coroutine returns or raises; cancelled, and a TimeoutError, when it takes longer."""
        future = self.start(coroutine)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done():  # the coroutine's own
                raise
            future.cancel()
            raise TimeoutError(f"not done within {timeout_s:g} s") from None
        except CancelledError:
            raise RuntimeError("it was cancelled") from None
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin it, and do not wait."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise

    def close(self) -> None:
        """Cancel what still runs and end the thread."""
        self._finalizer()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with suppress(Exception):
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with suppress(RuntimeError):  # closed already
        loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join(_LONGEST_END_S)


async def in_thread(call: Callable[[], T]) -> T:
    """What a blocking call returns or raises, from a daemon thread: one that hangs does not keep the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def hand_over(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value, error = None, None
        try:
            value = call()
        except BaseException as exc:
            error = exc
        with suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(hand_over, value, error)

    threading.Thread(target=work, name="blocking call", daemon=True).start()
    return await future
