"""Bounds for every HTTP client (language models, systems under test, downloads): the time and the
size of a reply, redirects, encodings; `llms/failures` decides what is sent again.

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
        """Return a client of httpx whose requests are within these bounds.

        Args:
            client_class: a synchronous client of httpx or httpx2; None = `httpx.Client`.
            options: the arguments of the client.
        """
        import httpx

        exchange = self._exchange

        class BoundedClient(client_class or httpx.Client):  # type: ignore[misc]
            def send(self, request: Any, **options: Any) -> Any:
                """Send a request, as every method of the client does, within the bounds."""
                return exchange(super().send, request, options)

        # with `same_host`, httpx follows redirects, and `_check` refuses those to another host
        client = BoundedClient(
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
        """Send a request by `send(request, **options)` in a separate thread, and return its response.

        The thread can be left behind when the time is over, which httpx's own time-outs do not ensure:
        they do not limit the look-up of a host's name, they begin anew for each of its addresses, and
        again for each byte that a server sends. `Bounds` describes the limits that are kept here.

        The request has two events: `_check` sets "arrived" when the headers are there; `send` ends with
        a TimeoutError when "late" is set.

        Raises:
            OutOfBoundsError: the headers or the body did not arrive in time.
        """
        # seconds; in this class "pool" is the limit of the whole reply, not of the wait in a pool
        timeouts = request.extensions["timeout"]
        begun = time.monotonic()
        whole_s = timeouts["pool"] or threading.TIMEOUT_MAX
        headers_s = min(whole_s, timeouts["connect"] + timeouts["read"])
        arrived = threading.Event()  # the headers are there
        late = threading.Event()  # no one waits for the reply
        reply = Future[Any]()

        def refuse_late_start(step: str, info: object) -> None:
            """Send nothing if the connection came too late. httpcore calls this before each step."""
            if late.is_set() and step.endswith("send_request_headers.started"):
                raise TimeoutError

        def send_in_thread() -> None:
            try:
                reply.set_result(send(request, **options))
            except BaseException as exc:  # belongs to the thread that waits
                reply.set_exception(exc)
            arrived.set()  # a failure ends the wait for the headers, too

        request.extensions |= {"trace": refuse_late_start, "arrived": arrived, "late": late}
        # its result comes through `reply`
        run_in_thread(send_in_thread)
        exceeded_s = headers_s  # the time-out that the message names
        if _arrives(arrived, headers_s):
            exceeded_s = whole_s
            left_s = begun + whole_s - time.monotonic()
            # a TimeoutError (no result in time, or raised by `send`) becomes the failure below; any other
            # error of `send` is raised here
            with suppress(TimeoutError):
                return reply.result(left_s)
        # tells the thread that nobody waits: it sends nothing more, and reads no further
        late.set()
        reply.add_done_callback(_close_reply)  # if it still comes
        message = f"{self._name}: no reply within {exceeded_s:g} s; raise timeout_s or ask for less"
        raise OutOfBoundsError(message, FailureKind.TIMEOUT)

    def _check(self, response: Any) -> None:
        """Check the headers of a response, and replace the stream of its body: `_Body` unzips it and
        bounds its size and time while it is read.

        Raises:
            OutOfBoundsError: the response is a redirect that is not followed, or its encoding is not
                gzip.
        """
        extensions = response.request.extensions
        if "arrived" in extensions:  # a thread waits for the headers (`_exchange`)
            extensions["arrived"].set()
        library = import_module(type(response).__module__.partition(".")[0])  # httpx or httpx2
        if response.has_redirect_location:
            self._check_redirect(response, library)
        # The header is removed so that httpx itself does not unzip the body, which it would do without
        # a limit of the size. "identity": not encoded.
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            message = (
                f"{self._name}: the reply is encoded as {encoding[:80]!r}; gzip alone, or "
                "nothing, was asked for"
            )
            raise OutOfBoundsError(message, FailureKind.UNREADABLE)
        body = _Body(self._name, extensions, is_gzip=encoding == "gzip")
        bounded_stream_class = _stream_class(library)
        response.stream = bounded_stream_class(response.stream, body)

    def _check_redirect(self, response: Any, library: Any) -> None:
        """Refuse a redirect, unless it stays on its host and such redirects are allowed (`same_host`).

        Raises:
            OutOfBoundsError: redirects are not allowed, or the redirect leads to another host, or from
                https to http.
        """
        source = response.request.url
        location = response.headers["location"]
        is_same_host = False
        with suppress(library.InvalidURL):
            target = source.join(location)
            is_safe = target.scheme in (source.scheme, "https")  # not from https to http
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
    time or if no one needs the reply any more (see `given_up_if`; checked every `_CHECK_S`).
    """
    is_lost = _is_lost.get()  # returns True if no one needs the reply; None without `given_up_if`
    if is_lost is None:
        return arrived.wait(wait_s)
    deadline = time.monotonic() + wait_s
    while (left_s := deadline - time.monotonic()) > 0:
        if arrived.wait(min(left_s, _CHECK_S)):
            return True
        if is_lost():
            break
    return arrived.is_set()


def _close_reply(reply: Future[Any]) -> None:
    """Close the response that a request got, unless it failed."""
    if reply.exception() is None:
        reply.result().close()


class _Body:
    """The body of a response while it is read: unzips it, and refuses one that is damaged, too long or
    late.
    """

    def __init__(self, server: str, extensions: dict[str, Any], *, is_gzip: bool) -> None:
        self._server = server
        # of the request, shared with `Bounds._exchange`: "late" and "first_byte_at"
        self._extensions = extensions
        self._unzip = zlib.decompressobj(31) if is_gzip else None  # 31: with the header of gzip
        self._bytes_left = int(MAX_REPLY_MB * 1e6)

    def decoded(self, piece: bytes) -> bytes:
        """Return a piece of the body, unzipped.

        Raises:
            OutOfBoundsError: the body is damaged or too long.
            TimeoutError: no one waits for it any more.
        """
        self._extensions.setdefault("first_byte_at", time.perf_counter())
        plain = piece
        if self._unzip is not None:
            try:
                # One byte more than allowed at most: enough to see that it is too long. What is
                # left of the piece then is dropped, since the whole body is refused.
                plain = self._unzip.decompress(piece, self._bytes_left + 1)
            except zlib.error as exc:
                raise self._unreadable(f"the reply's gzip is damaged ({exc})") from exc
        # the larger of both: without this, a gzip that unzips to nothing could be endless
        self._bytes_left -= max(len(piece), len(plain))
        if self._bytes_left < 0:
            raise self._unreadable(f"the reply is longer than {MAX_REPLY_MB:g} MB")
        # an event that is set once no one waits for the reply (`Bounds._exchange`)
        if "late" in self._extensions and self._extensions["late"].is_set():
            raise TimeoutError
        return plain

    def check_end(self) -> None:
        """Raise OutOfBoundsError if the body ended in the middle of its gzip."""
        has_begun = "first_byte_at" in self._extensions
        if self._unzip is not None and has_begun and not self._unzip.eof:
            raise self._unreadable("the reply's gzip is cut short")

    def _unreadable(self, problem: str) -> OutOfBoundsError:
        """Return the error of a reply that cannot be read, which names the server."""
        return OutOfBoundsError(f"{self._server}: {problem}", FailureKind.UNREADABLE)


@lru_cache
def _stream_class(library: Any) -> Any:
    """Return a class of streams, which wraps the stream of a response: its pieces of bytes are decoded and
    bounded by a `_Body`.

    After the last piece the connection is closed if it delivered more bytes than the response has, as
    these would be taken for the beginning of the next response.

    Args:
        library: httpx or httpx2.
    """

    class Stream(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, body: _Body) -> None:
            self.close = getattr(inner, "close", None)  # an asynchronous stream has `aclose` alone
            self.aclose = getattr(inner, "aclose", None)
            self._inner = inner
            self._body = body

        def __iter__(self) -> Iterator[bytes]:
            yield from map(self._body.decoded, self._inner)
            self._body.check_end()  # raises an error if the gzip is not complete
            connection = _connection_with_more_bytes(self._inner)
            if connection is not None:
                connection.close()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._inner:
                yield self._body.decoded(piece)
            self._body.check_end()
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
    # through the wrappers of httpx and httpcore; None from the first that lacks the attribute
    for attribute in ("_stream", "_httpcore_stream", "_stream", "_connection"):
        connection = getattr(connection, attribute, None)
    state = getattr(connection, "_h11_state", None)
    if state is not None and state.trailing_data[0]:  # bytes that h11 has not read
        return connection
    return None
