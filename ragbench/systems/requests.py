"""The requests that a system's file describes: one model for all of them, and what sends them."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from ragbench.errors import FailureKind
from ragbench.llms.failures import Failed, refused
from ragbench.llms.http import Limits, Response, Transport
from ragbench.systems.credentials import (
    Address,
    BasicVariables,
    FlatTemplates,
    HeaderVariables,
    LiteralHeaders,
    Scrubber,
    Template,
    from_environment,
    secret_headers,
)
from ragbench.systems.reply_paths import filled, in_text, names_in

_HINTS = {
    400: "the server does not understand the request; check body",
    401: "the server wants a login (basic_env, [http.login]) or a key; name its variable in headers_env",
    403: "the server refuses this key; check the variable in headers_env or basic_env",
    404: "there is nothing at this address; check url",
    405: "the server refuses this method; check method",
    413: "the request is too long for the server",
    422: "the server does not understand the request; check body",
    501: "the server cannot do this",
}


class Request(BaseModel):
    """One request of a system's file; in all of it, values take the places of their names in braces.

    A value inside `url` is percent-encoded. `body` is sent as JSON, `form` as a form, `params` in the query string.
    """

    model_config = ConfigDict(extra="forbid")
    url: Address
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    body: Template = None
    form: FlatTemplates = {}
    params: FlatTemplates = {}
    headers: LiteralHeaders = {}
    headers_env: HeaderVariables = {}
    basic_env: BasicVariables = ()

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        import httpx

        try:
            parts = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as exc:
            raise ValueError(f"expected an address such as http://localhost:8000/ask ({exc})") from None
        if parts.scheme not in ("http", "https") or not parts.host or "{" in url.split("/")[2]:
            raise ValueError("expected an address such as http://localhost:8000/ask")
        if parts.userinfo:
            raise ValueError("an address holds no password; put it into the environment and name it in basic_env")
        return url

    @model_validator(mode="after")
    def _one_content(self) -> Request:
        if self.body is not None and self.form:
            raise ValueError("body is sent as JSON and form as a form; give one of them")
        return self


R = TypeVar("R", bound=Request)


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address: who gets what is sent there."""
    import httpx

    parts = httpx.URL(url)
    return parts.scheme, parts.host, parts.port


class Sender:
    """Sends the requests of a system's file; threads may share it. Its secrets are in no message.

    A request to the server of `main` is sent with the headers of `main`, one to another server with its own alone.
    """

    def __init__(self, name: str, main: Request, limits: Limits) -> None:
        self._name, self._limits = name, limits
        self._secrets: list[str] = []
        self._origin, self._headers = origin(main.url), dict[str, str]()
        self.main = self.prepared(main, name)
        self._headers = self.main.headers
        self._transport = Transport(name, self._secrets)
        self.clean = self._transport.clean
        scrubber = Scrubber(self._secrets)
        scrubber.start()
        self._finalizer = weakref.finalize(self, scrubber.stop)

    def close(self) -> None:
        """Close its connections."""
        self._transport.close()
        self._finalizer()

    def prepared(self, request: R, where: str) -> R:
        """The request with what the environment holds, and all its headers; ConfigError for a variable not set."""
        templates = {part: getattr(request, part) for part in ("url", "params", "body", "form", "headers")}
        found, secrets = from_environment(templates, where)
        own, in_headers = secret_headers(request.headers_env, request.basic_env, where)
        self._secrets += (*secrets, *in_headers)
        shared = self._headers if origin(request.url) == self._origin else {}
        return request.model_copy(update={**found, "headers": {**shared, **found["headers"], **own}})

    def send(self, request: Request, values: Mapping[str, Any]) -> Response:
        """The reply to a prepared request, with a good status; raises Failed. Its text may echo secrets: `clean`."""
        try:
            reply = self._transport.send(
                request.method,
                self._address(request.url, values),
                self._limits,
                "start it, or check url",
                params=_flat(request.params, values),
                json=None if request.body is None else filled(request.body, values),
                data=_flat(request.form, values) or None,
                headers=self._filled_headers(request.headers, values),
            )
        except Failed as exc:
            if exc.kind is FailureKind.TIMEOUT:
                exc.tries = 1  # late once is late again
            raise
        if not 200 <= reply.status < 300:
            raise refused(self._name, reply.status, self.clean(reply.text), reply.headers, _HINTS)
        return reply

    def _address(self, url: str, values: Mapping[str, Any]) -> str:
        texts = {name: in_text(values[name]) for name in names_in(url) & values.keys()}
        for name, text in texts.items():
            if text in ("", ".", ".."):  # would be another address
                raise Failed(
                    f"{self._name}: {{{name}}} is {text!r}, which cannot be a part of url", FailureKind.REFUSED
                )
        return str(filled(url, {name: quote(text, safe="") for name, text in texts.items()}))

    def _filled_headers(self, headers: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
        made = {header: in_text(filled(value, values)) for header, value in headers.items()}
        for header, value in made.items():
            if not (value.isascii() and value.isprintable()):  # the HTTP library's error would show it
                reason = f"{self._name}: the header {header!r} would hold characters that no header has"
                raise Failed(reason, FailureKind.REFUSED)
        return made


def _flat(template: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A form or a query string: JSON where a value is an object."""
    made = filled(template, values)
    return {key: json.dumps(value) if isinstance(value, Mapping) else value for key, value in made.items()}


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
