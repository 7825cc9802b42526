"""Bounds for every HTTP client (language models, systems under test, downloads): nothing hangs, nothing
floods.

A reply as a whole has a deadline, from the connection to its last byte, and a maximum size after
decompression; encodings are not stacked, and no other host gets the request. A connection that
delivered more than one response is closed: the rest would be taken for the next reply.
"""

import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from ipaddress import ip_address
from typing import Any

from ragbench.errors import FailureKind, RagbenchError
from ragbench.threads import run_in_thread

MAX_REPLY_MB = 50.0
_CHECK_S = 0.5
_is_lost: ContextVar[Callable[[], bool] | None] = ContextVar("is_lost", default=None)


@contextmanager
def given_up_if(is_lost: Callable[[], bool]) -> Iterator[None]:
    """Give up the requests that this thread sends in the block as soon as `is_lost()` is True, even
    before their time-out.
    """
    token = _is_lost.set(is_lost)
    try:
        yield
    finally:
        _is_lost.reset(token)


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "[::1]", "example.org")]
    [True, True, True, False]
    """
    with suppress(ValueError):
        return ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


class OutOfBoundsError(RagbenchError):
    """A reply is late, too large, in an unexpected encoding, or redirected; `failure` states which."""


class Bounds:
    """The bounds of every request of a client.

    A request's time-out for "pool" is the deadline of the whole exchange (None: no deadline). The
    headers must arrive within the time-outs for "connect" and "read" together, and so must the body,
    unless it is streamed. A reply may have `MAX_REPLY_MB`, decompressed. A request's extension
    "first_byte_at" is set to the time at which the body began. Redirects are refused; with
    `same_host`, redirects within the host are followed. The client's own methods raise
    OutOfBoundsError. `name` is the name of the server in messages.
    """

    def __init__(self, name: str, *, same_host: bool = False) -> None:
        self._name = name
        self._same_host = same_host

    def client(self, client_class: Any = None, **options: Any) -> Any:
        """Return a client of httpx (or of `client_class`, a client of httpx or httpx2) within these
        bounds; `options` are its arguments.
        """
        import httpx

        exchange = self._exchange

        class Client(client_class or httpx.Client):  # type: ignore[misc]
            def send(self, request: Any, **options: Any) -> Any:
                return exchange(super().send, request, options)

        # redirects are followed where `_check` refuses those to another host
        client = Client(
            event_hooks={"response": [self._check]}, follow_redirects=self._same_host, **options
        )
        # the one compression whose decompressed size is bounded
        client.headers["accept-encoding"] = "gzip"
        return client

    def async_options(self) -> dict[str, Any]:
        """Return the arguments of an asynchronous client of httpx2; its caller sets the deadline."""

        async def check(response: Any) -> None:
            self._check(response)

        return {"event_hooks": {"response": [check]}, "follow_redirects": self._same_host}

    def _exchange(self, send: Callable[..., Any], request: Any, options: dict[str, Any]) -> Any:
        """Send a request in a separate thread, and return its response.

        A thread, since no time-out limits the look-up of a name, each of its addresses has a whole
        time-out, and a server may send one byte at a time. `Bounds` describes the time-outs. The
        request takes two events to `_check`, which sets "arrived" once the headers are there, and
        reads no further once "late" is set.

        Raises:
            OutOfBoundsError: the headers or the body did not arrive in time.
        """
        timeouts = request.extensions["timeout"]
        begun = time.monotonic()
        whole_s = timeouts["pool"] or threading.TIMEOUT_MAX
        headers_s = min(whole_s, timeouts["connect"] + timeouts["read"])
        arrived = threading.Event()  # the headers are there
        late = threading.Event()  # no one waits for the reply
        reply = Future[Any]()

        def trace(step: str, info: object) -> None:
            if late.is_set() and step.endswith("send_request_headers.started"):
                raise TimeoutError  # the connection came too late: nothing is sent

        def work() -> None:
            try:
                reply.set_result(send(request, **options))
            except BaseException as exc:  # belongs to the thread that waits
                reply.set_exception(exc)
            arrived.set()

        request.extensions |= {"trace": trace, "arrived": arrived, "late": late}
        run_in_thread(work)
        exceeded_s = headers_s
        if _arrives(arrived, headers_s):
            exceeded_s = whole_s
            left_s = begun + whole_s - time.monotonic()
            with suppress(TimeoutError):
                return reply.result(left_s)
        late.set()
        reply.add_done_callback(lambda reply: reply.exception() or reply.result().close())
        message = f"{self._name}: no reply within {exceeded_s:g} s; raise timeout_s or ask for less"
        raise OutOfBoundsError(message, FailureKind.TIMEOUT)

    def _check(self, response: Any) -> None:
        """Check the headers of a response, and bound the reading of its body.

        Raises:
            OutOfBoundsError: the response is a redirect that is not followed, or has another encoding.
        """
        extensions = response.request.extensions
        if "arrived" in extensions:
            extensions["arrived"].set()
        library = import_module(type(response).__module__.partition(".")[0])
        if response.has_redirect_location:
            self._check_redirect(response, library)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            message = (
                f"{self._name}: the reply is encoded as {encoding[:80]!r}; gzip alone, or "
                "nothing, was asked for"
            )
            raise OutOfBoundsError(message, FailureKind.UNREADABLE)
        unzip = zlib.decompressobj(31) if encoding == "gzip" else None
        bytes_left = int(MAX_REPLY_MB * 1e6)

        def decoded(piece: bytes) -> bytes:
            """Return a piece of the reply, unzipped; refuse a reply that is damaged, too long or late."""
            nonlocal bytes_left
            extensions.setdefault("first_byte_at", time.perf_counter())
            try:
                plain = unzip.decompress(piece, bytes_left + 1) if unzip else piece
            except zlib.error as exc:
                message = f"{self._name}: the reply's gzip is damaged ({exc})"
                raise OutOfBoundsError(message, FailureKind.UNREADABLE) from exc
            bytes_left -= max(len(piece), len(plain))
            if bytes_left < 0:
                message = f"{self._name}: the reply is longer than {MAX_REPLY_MB:g} MB"
                raise OutOfBoundsError(message, FailureKind.UNREADABLE)
            if "late" in extensions and extensions["late"].is_set():
                raise TimeoutError  # no one waits for it
            return plain

        def check_end() -> None:
            if unzip is not None and "first_byte_at" in extensions and not unzip.eof:
                message = f"{self._name}: the reply's gzip is cut short"
                raise OutOfBoundsError(message, FailureKind.UNREADABLE)

        response.stream = _stream_class(library)(response.stream, decoded, check_end)

    def _check_redirect(self, response: Any, library: Any) -> None:
        """Allow a redirect within the host if such redirects are followed.

        Raises:
            OutOfBoundsError: redirects are not followed, or it leads to another host or from https
                to http.
        """
        source = response.request.url
        location = response.headers["location"]
        is_same_host = False
        with suppress(library.InvalidURL):
            target = source.join(location)
            is_safe = target.scheme in (source.scheme, "https")
            is_same_host = target.host == source.host and is_safe
        if self._same_host and is_same_host:
            return
        refused = "redirects to another host" if self._same_host else "redirects"
        message = (
            f"{self._name}: redirected to {location!r}; {refused} are not followed, write that as "
            "url if it is right"
        )
        raise OutOfBoundsError(message, FailureKind.REFUSED)


def _arrives(arrived: threading.Event, wait_s: float) -> bool:
    """Wait for the headers of a reply; return True once they are there, False if they do not come in
    time or if no one needs the reply any more (`_is_lost`, checked every `_CHECK_S`).
    """
    is_lost = _is_lost.get()
    if is_lost is None:
        return arrived.wait(wait_s)
    deadline = time.monotonic() + wait_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        if arrived.wait(min(left_s, _CHECK_S)):
            return True
        if is_lost():
            break
    return arrived.is_set()


@lru_cache
def _stream_class(library: Any) -> Any:
    """Return the class of a stream of httpx or httpx2 that yields `decoded(piece)` for each piece of an
    inner stream, and calls `check_end()` at its end.
    """

    class Stream(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(
            self, inner: Any, decoded: Callable[[bytes], bytes], check_end: Callable[[], None]
        ) -> None:
            self.close = getattr(inner, "close", None)
            self.aclose = getattr(inner, "aclose", None)
            self._inner = inner
            self._decoded = decoded
            self._check_end = check_end

        def __iter__(self) -> Iterator[bytes]:
            yield from map(self._decoded, self._inner)
            self._check_end()
            connection = _connection_with_more_bytes(self._inner)
            if connection is not None:
                connection.close()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                yield self._decoded(piece)
            self._check_end()
            connection = _connection_with_more_bytes(self._inner)
            if connection is not None:
                await connection.aclose()

    return Stream


def _connection_with_more_bytes(stream: Any) -> Any:
    """Return the connection of a response that was read to its end, if it delivered more bytes than
    the response; else None.

    httpcore itself notices bytes that come later, but not bytes that came together with the response.
    It has no public way to its connection.
    """
    connection = stream
    for attribute in ("_stream", "_httpcore_stream", "_stream", "_connection"):
        connection = getattr(connection, attribute, None)
    state = getattr(connection, "_h11_state", None)
    if state is not None and state.trailing_data[0]:
        return connection
    return None
