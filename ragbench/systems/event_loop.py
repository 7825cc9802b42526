"""An event loop in a thread of its own: asynchronous code behind a plain call, also inside Jupyter's running loop."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")

_MAX_CLOSE_S = 10.0


class EventLoop:
    """Runs coroutines of any thread on one event loop; closed by `close`, or when it is no longer used.

    It is anyio's blocking portal in a daemon thread, which a coroutine that cannot be cancelled does not keep alive.
    """

    def __init__(self, name: str) -> None:
        started: Future[BlockingPortal] = Future()
        thread = threading.Thread(target=_run, args=(started,), name=name, daemon=True)
        thread.start()
        self._portal = started.result()
        self._finalizer = weakref.finalize(self, _stop, self._portal, thread)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """What the coroutine returns or raises; cancelled, and a TimeoutError, when it takes longer."""
        try:
            future: Future[T] = self._portal.start_task_soon(lambda: coroutine)
        except RuntimeError:  # closed
            coroutine.close()
            raise
        try:
            return future.result(timeout_s)
        except CancelledError:
            raise RuntimeError("the event loop was closed") from None
        except BaseException as exc:
            if isinstance(exc, TimeoutError) and not future.done():
                exc = TimeoutError(f"not done within {timeout_s:g} s")
            future.cancel()
            raise exc from None

    def close(self) -> None:
        """Cancel what still runs and end the thread."""
        self._finalizer()


def _run(started: Future[BlockingPortal]) -> None:
    import anyio
    from anyio.from_thread import BlockingPortal

    async def main() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    anyio.run(main)


def _stop(portal: BlockingPortal, thread: threading.Thread) -> None:
    with suppress(RuntimeError):  # stopped already, or in its own thread
        portal.start_task_soon(portal.stop, True)
    if thread is not threading.current_thread():
        thread.join(_MAX_CLOSE_S)
