"""JSON over HTTP for the providers that are asked by httpx: one request, one answer, and failures told apart."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from ragbench.llms.failures import Failed, cut, refused, scrubbed, timed_out, unreachable, unreadable


class Server:
    """One HTTP server: its address, the key for it, and how errors of it are worded.

    The key stands in no representation of this object and in no message; a user and password inside the address are
    sent, but not shown either.
    """

    def __init__(self, name: str, base_url: str, key: str | None, hints: Mapping[int, str], way_out: str) -> None:
        import httpx

        parts = urlsplit(base_url)
        self.address = address(base_url)
        self.name = name
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self.secrets = tuple(secret for secret in (key, password) if secret)
        self._hints, self._way_out = hints, way_out
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else None,
            auth=(user, password) if user and not key else None,
            # Callers bound the number of requests; waiting for a connection would count as the server's latency.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )
        weakref.finalize(self, self._client.close)  # nobody closes a model; open sockets would be warned about

    def post(self, path: str, payload: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """The server's JSON reply; raises Failed. All of it must be there within `timeout_s`."""
        import httpx

        failed: Failed | None = None
        try:
            status, headers, body = self._exchange(path, payload, timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            failed = unreachable(self.name, self.address, self.clean(str(exc)), self._way_out)
        except httpx.TimeoutException:
            failed = timed_out(self.name, timeout_s)
        except httpx.RequestError as exc:
            failed = cut(self.name, self.clean(str(exc) or type(exc).__name__))
        if failed is not None:
            raise failed  # out here, so that httpx's error, which holds the request and its key, is not its context
        text = self.clean(body.decode("utf-8", "replace"))
        if status != 200:
            raise refused(self.name, status, text, headers, self._hints)
        found = None
        with suppress(ValueError):  # the parser's error holds the whole body, so it must not be this one's context
            found = json.loads(body)
        if not isinstance(found, dict):
            raise unreadable(self.name, text)
        return found

    def get(self, path: str) -> Any:
        """What the server says at `path`, None when it does not: only ever used to word an error better."""
        import httpx

        try:
            return self._client.get(f"{self.address}{path}", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return None

    def _exchange(
        self, path: str, payload: Mapping[str, Any], timeout_s: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        import httpx

        deadline = time.monotonic() + timeout_s
        timeout = httpx.Timeout(timeout_s, connect=min(10.0, timeout_s), pool=None)
        with self._client.stream("POST", f"{self.address}{path}", json=payload, timeout=timeout) as response:
            chunks = []
            for chunk in response.iter_bytes():  # httpx bounds each read, not their sum: some servers drip
                chunks.append(chunk)
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the reply came too slowly")
            return response.status_code, response.headers, b"".join(chunks)

    def clean(self, text: str) -> str:
        """The text without this server's key and password."""
        return scrubbed(text, self.secrets)


def address(base_url: str) -> str:
    """The address without user, password, query and trailing slash: what may be shown and stored.

    >>> address("https://me:secret@host:8000/v1/?token=x")
    'https://host:8000/v1'
    """
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
