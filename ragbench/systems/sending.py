"""One HTTP request of a system's file, within its limits, and failures told apart."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.errors import FailureKind
from ragbench.llms.failures import Failed, cut, refused, scrubbed, timed_out, unreachable
from ragbench.systems.credentials import Scrubber, from_environment, secret_headers

if TYPE_CHECKING:
    import httpx

_HINTS = {
    400: "the server does not understand the request; check body",
    401: "the server wants a key; name its variable in headers_env",
    403: "the server refuses this key; check the variable in headers_env",
    404: "there is nothing at this address; check url",
    405: "the server refuses this method; check method",
    413: "the request is too long for the server",
    422: "the server does not understand the request; check body",
    501: "the server cannot do this",
}


class Limits(NamedTuple):
    """What a reply may take, in seconds and megabytes; `idle_s` is between two pieces of it."""

    timeout_s: float = 120.0
    connect_s: float = 10.0
    idle_s: float | None = None
    max_reply_mb: float = 10.0


class Replied(NamedTuple):
    """A reply with a good status, and when it began and ended, in milliseconds from the request."""

    content_type: str
    text: str
    first_byte_ms: float
    total_ms: float


class Sender:
    """Sends requests with the same headers; threads may share it. Its secrets stand in no message."""

    def __init__(
        self,
        name: str,
        headers: Mapping[str, str],
        headers_env: Mapping[str, str],
        limits: Limits | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        import httpx

        self._name, self._limits = name, limits or Limits()
        filled, in_headers = from_environment(headers, name)
        secret, in_variables = secret_headers(headers_env, name)
        self._secrets = (*secrets, *in_headers, *in_variables)
        scrubber = Scrubber(self._secrets)
        scrubber.start()
        self._client = httpx.Client(
            headers={**filled, **secret},
            timeout=httpx.Timeout(
                self._limits.idle_s or self._limits.timeout_s,
                connect=min(self._limits.connect_s, self._limits.timeout_s),
                pool=None,
            ),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )
        self._finalizer = weakref.finalize(self, _close, self._client, scrubber)

    def close(self) -> None:
        """Close its connections."""
        self._finalizer()

    def clean(self, text: str) -> str:
        """The text without the secrets."""
        return scrubbed(text, self._secrets)

    def send(self, method: str, url: str, *, params: Mapping[str, str] | None = None, body: Any = None) -> Replied:
        """One try; raises Failed."""
        import httpx

        failure: Failed | None = None
        start = time.perf_counter()
        try:
            address = httpx.URL(url).copy_merge_params(dict(params or {}))  # build_request would drop url's own query
            request = self._client.build_request(method, address, json=body)
            response = self._client.send(request, stream=True)
            try:
                content, first = self._content(response, start)
            finally:
                response.close()
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            failure = unreachable(self._name, self.clean(url.partition("?")[0]), exc, "start it, or check url")
        except httpx.TimeoutException:
            idle_s = self._limits.idle_s
            said = f"{self._name}: nothing came for {idle_s:g} s; raise idle_timeout_s" if idle_s else ""
            failure = self._late(said)
        except httpx.RequestError as exc:
            failure = cut(self._name, self.clean(str(exc)) or type(exc).__name__)
        if failure is not None:
            raise failure  # out here, so that httpx's error, which holds the request and its key, is not its context
        ended = time.perf_counter()
        text = self.clean(content.decode("utf-8", "replace"))
        if response.is_redirect:
            place = self.clean(response.headers.get("location", "nowhere"))
            said = (
                f"{self._name}: redirected to {place!r}; redirects are not followed, write that as url if it is right"
            )
            raise Failed(said, FailureKind.REFUSED, status=response.status_code, stop=True)
        if not response.is_success:
            raise refused(self._name, response.status_code, text, response.headers, _HINTS)
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Replied(content_type, text, 1000 * (first - start), 1000 * (ended - start))

    def _late(self, said: str = "") -> Failed:
        """Late once is late again: one try."""
        said = said or str(timed_out(self._name, self._limits.timeout_s))
        return Failed(said, FailureKind.TIMEOUT, paid=True)

    def _content(self, response: httpx.Response, start: float) -> tuple[bytes, float]:
        """All of the reply, and when it began."""
        size, parts, first = 0, [], 0.0
        for part in response.iter_bytes():  # httpx bounds each read, not their sum: some servers drip
            first = first or time.perf_counter()
            size += len(part)
            parts.append(part)
            if size > self._limits.max_reply_mb * 1e6:
                most = f"{self._limits.max_reply_mb:g} MB"
                said = f"{self._name}: the reply is longer than {most}; raise max_reply_mb"
                raise Failed(said, FailureKind.UNREADABLE, paid=True)
            if time.perf_counter() - start > self._limits.timeout_s:
                raise self._late()
        return b"".join(parts), first or time.perf_counter()


def _close(client: httpx.Client, scrubber: Scrubber) -> None:
    client.close()
    scrubber.stop()


class Pace:
    """At most so many starts per second, evenly spaced."""

    def __init__(self, per_s: float | None) -> None:
        self._gap = 1 / per_s if per_s else 0.0
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self, stop: threading.Event) -> None:
        """Until it is one's turn."""
        if not self._gap:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._gap
        stop.wait(turn - now)
