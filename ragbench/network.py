"""The network of every HTTP client: language models, systems under test, downloads. Nothing hangs,
nothing floods.

A reply has a deadline, from the connection to its last byte, and a size after decompression that
bound it as a whole; encodings are not stacked, and no other host gets the request.
"""

from __future__ import annotations

import math
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any
from urllib.request import getproxies, proxy_bypass

from ragbench.errors import FailureKind, RagbenchError

MAX_REPLY_MB = 50.0
_N_KEPT_ALIVE = 64
_WRITTEN_AT_ONCE = 16_384  # bytes


class OutOfBoundsError(RagbenchError):
    """A reply that is late, too large, packed in other ways than asked for, or elsewhere; `failure`
    tells which.
    """


class Bounds:
    """The bounds of every request of a client.

    A request's time-out for "pool" is the deadline of the whole exchange (None: none; the number of
    connections is unlimited, so no request waits for one). Connection and headers must be there
    within those for "connect" and "read" together. A request's extension "max_reply_mb" is the
    size, decompressed, that its reply may have. Redirects are refused, with `same_host` only those
    to another host. Raises OutOfBoundsError, out of the client's own methods.
    """

    def __init__(self, name: str, *, same_host: bool = False) -> None:
        self._name, self._same_host = name, same_host
        self._now = threading.local()  # the deadline of the request that this thread waits for

    def client(self, client_class: Any = None, **options: Any) -> Any:
        """Return a client of httpx, or of a class derived from that of httpx or httpx2; `options`
        are its arguments.
        """
        import httpx

        make = client_class or httpx.Client
        modules = (base.__module__.partition(".")[0] for base in make.__mro__)
        library = next(module for module in modules if module in ("httpx", "httpx2"))
        options["event_hooks"] = {"request": [self._begin], "response": [self._check]}
        options |= {
            "transport": _transport_class(library)(self._left),
            "follow_redirects": self._same_host,
        }
        client = make(**options)
        client.headers["accept-encoding"] = "gzip"
        return client

    def async_options(self) -> dict[str, Any]:
        """Return the arguments of an asynchronous client of httpx2; its caller has the deadline."""

        async def check(response: Any) -> None:
            self._check(response)

        return {"event_hooks": {"response": [check]}, "follow_redirects": self._same_host}

    def _begin(self, request: Any) -> None:
        timeouts = request.extensions["timeout"]
        self._now.begun, self._now.whole_s = time.monotonic(), timeouts["pool"] or math.inf
        self._now.lasts_s = min(self._now.whole_s, timeouts["connect"] + timeouts["read"])

    def _left(self, timeout: float | None) -> float:
        """Return the seconds that the next step may take."""
        left: float = self._now.begun + self._now.lasts_s - time.monotonic()
        if left <= 0:
            message = (
                f"{self._name}: no reply within {self._now.lasts_s:g} s; raise timeout_s "
                "or ask for less"
            )
            raise OutOfBoundsError(message, FailureKind.TIMEOUT)
        return left if timeout is None else min(left, timeout)

    def _check(self, response: Any) -> None:
        """Refuse a reply that is elsewhere or in another encoding, and bound what is read of it."""
        self._now.lasts_s = getattr(self._now, "whole_s", math.inf)
        if response.has_redirect_location:
            here, location = response.request.url, response.headers["location"]
            there = here.join(location)
            if (
                not self._same_host
                or there.host != here.host
                or there.scheme not in (here.scheme, "https")
            ):
                message = (
                    f"{self._name}: redirected to {location!r}; "
                    f"redirects{' to another host' * self._same_host} "
                )
                message += "are not followed, write that as url if it is right"
                raise OutOfBoundsError(message, FailureKind.REFUSED)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            message = (
                f"{self._name}: the reply is encoded as {encoding[:80]!r}; gzip alone, or "
                "nothing, was asked for"
            )
            raise OutOfBoundsError(message, FailureKind.UNREADABLE)
        unzip = zlib.decompressobj(31) if encoding == "gzip" else None
        max_mb = response.request.extensions.get("max_reply_mb", MAX_REPLY_MB)
        left = int(max_mb * 1e6)

        def decoded(piece: bytes) -> bytes:
            nonlocal left
            try:
                plain = unzip.decompress(piece, left + 1) if unzip else piece
            except zlib.error as exc:
                message = f"{self._name}: the reply's gzip is damaged ({exc})"
                raise OutOfBoundsError(message, FailureKind.UNREADABLE) from exc
            left -= max(len(piece), len(plain))
            if left < 0:
                message = (
                    f"{self._name}: the reply is longer than {max_mb:g} MB; raise max_reply_mb"
                )
                raise OutOfBoundsError(message, FailureKind.UNREADABLE)
            return plain

        if unzip:
            del response.headers["content-encoding"]
        response.stream = _stream_class(type(response).__module__.partition(".")[0])(
            response.stream, decoded
        )


class _Backend:
    """The network of httpcore, within what `left` gives of a time-out."""

    def __init__(self, inner: Any, left: Callable[[float | None], float]) -> None:
        self._inner, self._left = inner, left

    def connect_tcp(
        self, host: str, *args: Any, timeout: float | None = None, **options: Any
    ) -> _Connection:
        left, connection = self._left(timeout), Future[Any]()

        def connect() -> None:
            try:
                connection.set_result(self._inner.connect_tcp(host, *args, timeout=left, **options))
            except Exception as exc:
                connection.set_exception(exc)

        # In a thread, as looking up a name takes no time-out, and each of its addresses a whole
        # one.
        threading.Thread(target=connect, daemon=True).start()
        if wait([connection], left).not_done:
            connection.add_done_callback(lambda late: late.exception() or late.result().close())
            raise TimeoutError(f"no connection to {host} within {left:.3g} s")
        return _Connection(connection.result(), self._left)


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
        return _Connection(
            self._inner.start_tls(*args, timeout=self._left(timeout), **options), self._left
        )


@lru_cache
def _transport_class(library: str) -> Any:
    """Return the transport of httpx or httpx2 over a network of ours, which their own do not take."""
    base, core = _modules(library)

    class Transport(base.BaseTransport):  # type: ignore[misc,name-defined]
        def __init__(self, left: Callable[[float | None], float]) -> None:
            self._network = _Backend(core.SyncBackend(), left)
            self._pools: dict[str, Any] = {}  # by the proxy, "" for none
            self._opening = threading.Lock()

        def handle_request(self, request: Any) -> Any:
            url = request.url
            target = core.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            )
            content = {
                "headers": request.headers.raw,
                "content": request.stream,
                "extensions": request.extensions,
            }
            with _errors_of(library):
                reply = self._pool(url).handle_request(
                    core.Request(request.method, target, **content)
                )
            stream = _stream_class(library)(reply.stream, bytes)
            return base.Response(
                reply.status, headers=reply.headers, stream=stream, extensions=reply.extensions
            )

        def close(self) -> None:
            for pool in self._pools.values():
                pool.close()

        def _pool(self, url: Any) -> Any:
            """Return the connections to a server, through the proxy that the environment names for
            it.
            """
            proxies = {} if proxy_bypass(url.host) else getproxies()
            proxy = proxies.get(url.scheme) or proxies.get("all", "")
            with self._opening:
                if proxy not in self._pools:
                    parts = base.Proxy(proxy) if proxy else None
                    self._pools[proxy] = core.ConnectionPool(
                        base.create_ssl_context(),
                        proxy=parts and core.Proxy(str(parts.url), auth=parts.raw_auth),
                        max_connections=None,
                        max_keepalive_connections=_N_KEPT_ALIVE,
                        keepalive_expiry=5.0,
                        network_backend=self._network,
                    )
                return self._pools[proxy]

    return Transport


def _modules(library: str) -> tuple[Any, Any]:
    """Import httpx and httpcore, or httpx2 and httpcore2; late, as they take time."""
    return import_module(library), import_module(library.replace("httpx", "httpcore"))


@contextmanager
def _errors_of(library: str) -> Iterator[None]:
    """Raise the errors of httpcore as those of httpx, which have the same names."""
    base, core = _modules(library)
    try:
        yield
    except TimeoutError as exc:
        raise base.ConnectTimeout(str(exc)) from exc
    except (
        core.TimeoutException,
        core.NetworkError,
        core.ProtocolError,
        core.ProxyError,
        core.UnsupportedProtocol,
    ) as exc:
        raise getattr(base, type(exc).__name__)(str(exc)) from exc


@lru_cache
def _stream_class(library: str) -> Any:
    """Return a stream of bytes of httpx or httpx2 that gives what a function makes of each piece of
    another one.
    """
    base, _ = _modules(library)

    class Stream(base.SyncByteStream, base.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __init__(self, inner: Any, decoded: Callable[[bytes], bytes]) -> None:
            self.close, self.aclose = getattr(inner, "close", None), getattr(inner, "aclose", None)
            self._inner, self._decoded = inner, decoded

        def __iter__(self) -> Iterator[bytes]:
            with _errors_of(library):
                yield from map(self._decoded, self._inner)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                yield self._decoded(piece)

    return Stream
