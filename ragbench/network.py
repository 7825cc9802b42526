"""The network of every HTTP client: language models, systems under test, downloads. Nothing hangs, nothing floods.

A reply has a deadline, from the connection to its last byte, and a size after decompression that bound it as a whole;
encodings are not stacked, and no other host gets the request.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, wait
from functools import lru_cache
from typing import Any

from ragbench.errors import FailureKind, RagbenchError

MAX_REPLY_MB = 50.0
_WRITTEN_AT_ONCE = 16_384  # bytes


class OutOfBoundsError(RagbenchError):
    """A reply that is late, too large, packed in other ways than asked for, or elsewhere; `failure` tells which."""


class Bounds:
    """The bounds of every request of a client of httpx or httpx2 (also an async one, whose caller has the deadline).

    A request's time-out for "pool" is the deadline of the whole exchange (None: none; as the number of connections
    must be unlimited, no request waits for one). Connection and headers must be there within those for "connect" and
    "read" together. A request's extension "max_reply_mb" is the size, decompressed, that its reply may have. Redirects
    are refused, with `same_host` only those to another host. Raises OutOfBoundsError, out of the client's own methods.
    """

    def __init__(self, name: str, *, same_host: bool = False) -> None:
        self._name, self._same_host = name, same_host
        self._now = threading.local()  # the deadline of the request that this thread waits for

    def options(self, *, is_async: bool = False) -> dict[str, Any]:
        """The arguments of the client."""

        async def received(response: Any) -> None:
            self._received(response)

        hooks = {"response": [received]} if is_async else {"request": [self._begun], "response": [self._received]}
        return {"event_hooks": hooks, "follow_redirects": self._same_host}

    def apply(self, client: Any) -> Any:
        """The client, with its network under the deadline."""
        client.headers["accept-encoding"] = "gzip"
        # httpx has no public way to a backend of one's own that keeps the environment's proxies.
        for pool in {transport._pool for transport in (client._transport, *client._mounts.values()) if transport}:
            pool._network_backend = _Backend(pool._network_backend, self._left)
        return client

    def _begun(self, request: Any) -> None:
        given = request.extensions["timeout"]
        self._now.begun, self._now.whole_s = time.monotonic(), given["pool"] or math.inf
        self._now.lasts_s = min(self._now.whole_s, given["connect"] + given["read"])

    def _left(self, timeout: float | None) -> float:
        """The seconds that the next step may take."""
        left: float = self._now.begun + self._now.lasts_s - time.monotonic()
        if left <= 0:
            message = f"{self._name}: no reply within {self._now.lasts_s:g} s; raise timeout_s or ask for less"
            raise OutOfBoundsError(message, FailureKind.TIMEOUT)
        return left if timeout is None else min(left, timeout)

    def _received(self, response: Any) -> None:
        self._now.lasts_s = getattr(self._now, "whole_s", math.inf)
        if response.has_redirect_location and not response.request.extensions.get("redirects"):
            here, place = response.request.url, response.headers["location"]
            there = here.join(place)
            if not self._same_host or there.host != here.host or there.scheme not in (here.scheme, "https"):
                message = f"{self._name}: redirected to {place!r}; redirects{' to another host' * self._same_host} are "
                message += "not followed, write that as url if it is right"
                raise OutOfBoundsError(message, FailureKind.REFUSED)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            message = f"{self._name}: the reply is encoded as {encoding[:80]!r}; gzip alone, or nothing, was asked for"
            raise OutOfBoundsError(message, FailureKind.UNREADABLE)
        unzip = zlib.decompressobj(31) if encoding == "gzip" else None
        most_mb = response.request.extensions.get("max_reply_mb", MAX_REPLY_MB)
        left = int(most_mb * 1e6)

        def decoded(piece: bytes) -> bytes:
            nonlocal left
            try:
                plain = unzip.decompress(piece, left + 1) if unzip else piece
            except zlib.error as exc:
                message = f"{self._name}: the reply's gzip is damaged ({exc})"
                raise OutOfBoundsError(message, FailureKind.UNREADABLE) from exc
            left -= max(len(piece), len(plain))
            if left < 0:
                message = f"{self._name}: the reply is longer than {most_mb:g} MB; raise max_reply_mb"
                raise OutOfBoundsError(message, FailureKind.UNREADABLE)
            return plain

        if unzip:
            del response.headers["content-encoding"]
        response.stream = _stream_class(type(response).__module__.partition(".")[0])(response.stream, decoded)


class _Backend:
    """The network of httpcore, within what `left` gives of a time-out."""

    def __init__(self, inner: Any, left: Callable[[float | None], float]) -> None:
        self._inner, self._left = inner, left

    def connect_tcp(self, host: str, *args: Any, timeout: float | None = None, **options: Any) -> _Connection:
        left, found = self._left(timeout), Future[Any]()

        def connect() -> None:
            try:
                found.set_result(self._inner.connect_tcp(host, *args, timeout=left, **options))
            except Exception as exc:
                found.set_exception(exc)

        # In a thread, as looking up a name takes no time-out, and each of its addresses a whole one.
        threading.Thread(target=connect, daemon=True).start()
        if wait([found], left).not_done:
            found.add_done_callback(lambda late: late.exception() or late.result().close())
            library = sys.modules[type(self._inner).__module__.partition(".")[0]]
            raise library.ConnectTimeout(f"no connection to {host} within {left:.3g} s")
        return _Connection(found.result(), self._left)


class _Connection:
    """A connection of httpcore, within what `left` gives of a time-out."""

    def __init__(self, inner: Any, left: Callable[[float | None], float]) -> None:
        self._inner, self._left = inner, left
        self.close, self.get_extra_info = inner.close, inner.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        return self._inner.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            self._inner.write(buffer[start : start + _WRITTEN_AT_ONCE], self._left(timeout))

    def start_tls(self, *args: Any, timeout: float | None = None, **options: Any) -> _Connection:
        return _Connection(self._inner.start_tls(*args, timeout=self._left(timeout), **options), self._left)


@lru_cache
def _stream_class(library: str) -> Any:
    """A stream of bytes of httpx or httpx2 that gives what a function makes of each piece of another one."""
    base = sys.modules[library]

    class Stream(base.SyncByteStream, base.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __init__(self, inner: Any, decoded: Callable[[bytes], bytes]) -> None:
            self.close, self.aclose = getattr(inner, "close", None), getattr(inner, "aclose", None)
            self._inner, self._decoded = inner, decoded

        def __iter__(self) -> Iterator[bytes]:
            return map(self._decoded, self._inner)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                yield self._decoded(piece)

    return Stream
