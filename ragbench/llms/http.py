"""The HTTP client of language models and of systems under test: the time to connect, and its
failures in words; the limits on a reply are in `network`, retries in `failures`.

The whole reply has a deadline and a maximum size. Messages contain no keys and no passwords.
"""

import json
import time
import weakref
from collections.abc import Callable, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from ragbench.llms.failures import (
    Form,
    Reader,
    RequestError,
    server_message,
)
from ragbench.network import Bounds, OutOfBoundsError
from ragbench.store.replies import Reply

_CONNECT_S = 10.0
BATCH_TIMEOUT_S = 300.0
"""The time for sending a thousand requests, or receiving their replies."""

Outcomes = list[tuple[str, Reply | str]]
"""Pairs of a request's key and its outcome in a batch that has ended: the `Reply`, or a text that
states why there is none: the server's words, "expired", "canceled". A key may have several pairs; if
one of them has a reply, it counts.
"""


def outcome_of(read: Callable[[str, float], Reply], body: object) -> Reply | str:
    """Return the reply to a request of a batch; the server's words if `read` finds none in `body`."""
    try:
        return read(json.dumps(body), 0.0)
    except RequestError as exc:
        return server_message(exc.body)


class Response(NamedTuple):
    """A whole reply, in which an echoed secret is not masked, and when it began and ended, in ms from
    the request.
    """

    status: int
    headers: Mapping[str, str]
    text: str
    first_byte_ms: float
    total_ms: float


class Transport(Reader):
    """A client of one server; threads may share it. `close` ends its connections, as does garbage
    collection.
    """

    def __init__(
        self,
        name: str,
        secrets: tuple[str, ...],
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Open a client that names `name` in errors, hides `secrets` there, and keeps no cookies."""
        super().__init__(name, secrets)
        import httpx

        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        self._client = Bounds(name).client(
            headers=headers,
            cookies=no_cookies,
            limits=httpx.Limits(max_keepalive_connections=64),
        )
        # closes the client when it is called, or when this object or the process ends
        self.close = weakref.finalize(self, self._client.close)

    def exchange(
        self,
        method: str,
        url: str,
        timeout_s: float,
        way_out: str,
        **content: Any,
    ) -> Response:
        """Send one request, and return its reply, of any status.

        Args:
            method: of HTTP, such as "POST".
            url: the address.
            timeout_s: the seconds that the whole reply may take.
            way_out: a hint for the error message if no server answers.
            content: as for `httpx.Client.build_request`: json, data, headers. No cookies are kept.

        Raises:
            RequestError: no whole reply was received.
        """
        import httpx

        timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
        request = self._client.build_request(method, url, timeout=timeout, **content)
        start = time.perf_counter()
        try:
            response = self._client.send(request)
            ended = time.perf_counter()
            first_byte_at = request.extensions.get("first_byte_at", ended)
            return Response(
                response.status_code,
                response.headers,
                response.content.decode("utf-8-sig", "replace"),
                first_byte_ms=1000 * (first_byte_at - start),
                total_ms=1000 * (ended - start),
            )
        except (OutOfBoundsError, httpx.RequestError) as exc:
            failure = self.failure_of(exc, address(url), timeout_s, way_out)
        # raised outside of the `except` block: there, httpx's error, which holds the request and its
        # key, would become its context
        raise failure


class Server(Transport):
    """JSON by HTTP from one provider: its address and key, hints by the HTTP status of an error, and the
    way out if it does not answer.
    """

    def __init__(
        self, name: str, base_url: str, key: str | None, hints: Mapping[int, str], way_out: str
    ) -> None:
        """Open a client of the server at `base_url`.

        Args:
            name: the name of the provider in errors.
            base_url: the address, to which paths are appended.
            key: the key of the user; None for a server without keys.
            hints: HTTP status of an error -> the advice for it.
            way_out: the advice if the server does not answer.
        """
        if key:
            super().__init__(name, secrets=(key,), headers={"Authorization": f"Bearer {key}"})
        else:
            super().__init__(name, secrets=())
        self.address = address(base_url)
        self._hints = hints
        self._way_out = way_out

    def post(
        self, path: str, payload: Mapping[str, Any], timeout_s: float, form: type[Form]
    ) -> Form:
        """Return the server's JSON reply in its documented form.

        Raises:
            RequestError: the reply was not complete within `timeout_s`, or has another form.
        """
        return self.parse_reply(form, self.text("POST", path, timeout_s, json=payload))

    def text(self, method: str, path: str, timeout_s: float, **content: Any) -> str:
        """Return the server's reply; raises RequestError."""
        reply = self.exchange(method, f"{self.address}{path}", timeout_s, self._way_out, **content)
        if reply.status != 200:
            raise self.refused(reply.status, reply.text, reply.headers, self._hints)
        return reply.text


def address(base_url: str) -> str:
    """Return the address without user, password, query and trailing slash, to show and store it.

    >>> address("https://me:secret@host:8000/v1/?token=x")
    'https://host:8000/v1'
    """
    parts = urlsplit(base_url)
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
    )
