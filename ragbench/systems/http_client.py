"""One HTTP request of a system's file, within its limits, with its failures classified."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.errors import FailureKind
from ragbench.llms.failures import Failed, refused
from ragbench.llms.http import Limits, Response, Transport
from ragbench.systems.credentials import Scrubber, from_environment, secret_headers

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


class Sender:
    """Sends requests with the headers of a system's file; threads may share it. Its secrets are in no message."""

    def __init__(
        self,
        name: str,
        headers: Mapping[str, str],
        headers_env: Mapping[str, str],
        limits: Limits,
        secrets: Sequence[str] = (),
    ) -> None:
        self._name, self._limits = name, limits
        filled, in_headers = from_environment(headers, name)
        secret, in_variables = secret_headers(headers_env, name)
        own = (*secrets, *in_headers, *in_variables)
        self._transport = Transport(name, own, headers={**filled, **secret})
        scrubber = Scrubber(own)
        scrubber.start()
        self._finalizer = weakref.finalize(self, scrubber.stop)

    def close(self) -> None:
        """Close its connections."""
        self._transport.close()
        self._finalizer()

    def send(self, method: str, url: str, *, params: Mapping[str, str] | None = None, body: Any = None) -> Response:
        """The reply to one request, with a good status and without secrets; raises Failed."""
        try:
            reply = self._transport.send(method, url, self._limits, "start it, or check url", params=params, body=body)
        except Failed as exc:
            if exc.kind is FailureKind.TIMEOUT:
                exc.tries = 1  # late once is late again
            raise
        reply = reply._replace(text=self._transport.clean(reply.text))
        if 300 <= reply.status < 400 and "location" in reply.headers:
            place = self._transport.clean(reply.headers["location"])
            message = (
                f"{self._name}: redirected to {place!r}; redirects are not followed, write that as url if it is right"
            )
            raise Failed(message, FailureKind.REFUSED, status=reply.status, stop=True)
        if not 200 <= reply.status < 300:
            raise refused(self._name, reply.status, reply.text, reply.headers, _HINTS)
        return reply


class Pace:
    """Limits the rate of starts, evenly spaced."""

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
