"""The requests that a system's file describes: one model for all of them, and what sends them."""

from __future__ import annotations

import json
import math
import re
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ragbench.errors import FailureKind
from ragbench.llms.failures import Failed, refused
from ragbench.llms.http import Limits, Response, Transport
from ragbench.systems.credentials import (
    MIN_SECRET,
    Address,
    BasicVariables,
    FlatTemplates,
    HeaderVariables,
    LiteralHeaders,
    Scrubber,
    Template,
    from_environment,
    is_secret,
    is_secret_name,
    secret_headers,
)
from ragbench.systems.reply_paths import JsonPath, check_path, filled, in_text, keys_of, names_in, saved_value

_OWN_NAMES = ("query", "query_id", "user_roles", "k", "page", "offset", "next")

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

        if re.fullmatch(r"\{\w+\}", url):  # of an earlier reply
            return url
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


def _check_saved(save: dict[str, str]) -> dict[str, str]:
    for name, path in save.items():
        if not re.fullmatch(r"\w+", name) or name in _OWN_NAMES:
            raise ValueError(f"{name!r}: expected a name of letters and digits, and none of {', '.join(_OWN_NAMES)}")
        if not path.startswith("header:"):
            check_path(path or "?")
    return save


class Login(Request):
    """A request from whose reply values are saved, by the path in it, or by "header:" and the name of a header."""

    save: Annotated[dict[str, str], AfterValidator(_check_saved)] = {}


class Until(BaseModel):
    """What a reply must have at a path to be the one that is waited for: any value, or one of `equals`."""

    model_config = ConfigDict(extra="forbid")
    path: Annotated[JsonPath, Field(min_length=1)]
    equals: list[str | int | float | bool] = []
    fails: list[str | int | float | bool] = []
    every_s: Annotated[float, Field(ge=0.05)] = 1.0


class Call(Login):
    """A request that may be sent several times: until its reply is there, for each entry of a list, page by page."""

    until: Until | None = None
    each: str = ""
    next: JsonPath = ""
    pages: Annotated[int, Field(ge=1)] = 20

    def names(self) -> set[str]:
        """The names in braces."""
        return names_in([self.url, self.body, self.form, self.params, self.headers])

    @property
    def paged(self) -> bool:
        """Whether it is sent page by page."""
        return bool(self.next or {"page", "offset"} & self.names())


R = TypeVar("R", bound=Request)


class Conversation:
    """What the requests of one question share, or what a login gave to all of them.

    `spent_s` is that of good replies and of waiting between them; `worked`: a request was taken with this login.
    """

    def __init__(self, values: Mapping[str, Any], max_tries: int = 1, delta: str = "") -> None:
        import httpx

        self.values, self.cookies, self.secrets = dict(values), httpx.Cookies(), list[str]()
        self.session: Conversation | None = None
        self.worked = self.streamed = False
        self.max_tries, self.delta = max_tries, delta
        self.spent_s = self.first_byte_ms = 0.0
        self.replies: list[Any] = []
        self.pages: int | None = None


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address: who gets what is sent there."""
    import httpx

    parts = httpx.URL(url)
    return parts.scheme, parts.host, parts.port


class Sender:
    """Sends the requests of a system's file; threads may share it. Its secrets are in no message.

    A request to the server of `main` is sent with the headers of `main`, one to another server with its own alone.
    `login` is sent before the first of them, and again when a request is refused (401) with a session that has worked.
    """

    def __init__(self, name: str, main: Request, limits: Limits, login: Login | None = None) -> None:
        self._name, self._limits = name, limits
        self._secrets: list[str] = []
        self._origin, self._headers = origin(main.url), dict[str, str]()
        prepared = self.prepared(main, name)
        self._headers, self._url = prepared.headers, prepared.url
        self._login = self.prepared(login, f"{name}, [http.login]") if login else None
        self._lock = threading.Lock()
        self._session: Conversation | None = None
        self._failure: tuple[float, Failed | None] = (0.0, None)
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
        own = {**found["headers"], **own}
        if request.url.startswith("{") or origin(request.url) == self._origin:
            written = {header.lower() for header in own}
            own |= {header: value for header, value in self._headers.items() if header.lower() not in written}
        return request.model_copy(update={**found, "headers": own})

    def send(
        self, request: Request, talk: Conversation, own: Mapping[str, Any], timeout_s: float, link: str = ""
    ) -> Response:
        """The reply to a prepared request, with a good status; raises Failed. Its text may echo secrets: `clean`.

        `own` are values for this request alone; `link` is its address where the reply before it has one.
        """
        if self._login is not None and talk.session is None:
            self._join(talk)
        try:
            reply = self._sent(request, talk, own, timeout_s, link)
        except Failed as exc:
            if exc.status != 401 or talk.session is None or not talk.session.worked:
                raise
            self._join(talk)
            reply = self._sent(request, talk, own, timeout_s, link)
        if talk.session is not None:
            talk.session.worked = True
        return reply

    def save(self, request: Login, talk: Conversation, replies: Sequence[Any], headers: Mapping[str, str]) -> None:
        """Take the values that a request saves from its reply; raises Failed where one is not there."""
        for name, path in request.save.items():
            own = headers.get(path[7:]) if path.startswith("header:") else saved_value(replies, path)
            if own is None or own == "":
                keys = ", ".join(key for reply in replies[-1:] for key in keys_of(reply)) or "none"
                reason = f"the reply has nothing at save.{name} = {path!r}; it has the keys {keys}"
                raise self._failed(reason, FailureKind.UNREADABLE)
            talk.values[name] = own
        given = {cookie.name: cookie.value or "" for cookie in talk.cookies.jar}
        for name, value in {**given, **{name: str(talk.values[name]) for name in request.save}}.items():
            by_name = request is self._login or is_secret_name(name)
            if len(value) >= MIN_SECRET and (by_name if name in request.save else is_secret(name, value)):
                talk.secrets.append(value)
                self._secrets.append(value)

    def forget(self, talk: Conversation) -> None:
        """The end of a conversation: its secrets are in no text that is still to come."""
        for secret in talk.secrets:
            self._secrets.remove(secret)
        talk.secrets.clear()

    def linked(self, request: Request, values: Mapping[str, Any], place: object) -> str:
        """The address that a reply gives, from the request's own; raises Failed where it is on another server."""
        import httpx

        with suppress(httpx.InvalidURL):
            base = self._url if request.url.startswith("{") else self._address(request.url, values)
            found = str(httpx.URL(base).join(str(place)))
            if origin(found) == self._origin:
                return found
        raise self._failed(f"the reply gives the address {str(place)[:200]!r}, which is not on the server of url")

    def _join(self, talk: Conversation) -> None:
        """Take the session, a new one where this is the one that was refused."""
        begun = time.monotonic()
        with self._lock:
            failed_at, failure = self._failure
            if failure is not None and failed_at > begun:  # while this one waited; for ever where it was refused
                raise failure.reworded(str(failure))
            if self._session is None or self._session is talk.session:
                self._session = self._logged_in()
            talk.session = self._session
        talk.values.update(talk.session.values)
        talk.cookies.update(talk.session.cookies)

    def _logged_in(self) -> Conversation:
        assert self._login is not None
        own = Conversation({})
        try:
            reply = self._sent(self._login, own, {}, self._limits.timeout_s)
            found = []
            with suppress(ValueError, RecursionError):
                found = [json.loads(reply.text)]
            self.save(self._login, own, found, reply.headers)
        except Failed as exc:
            worded = exc.reworded(str(exc).replace(f"{self._name}:", f"{self._name}, login:", 1))
            refused_for_good = exc.kind in (FailureKind.REFUSED, FailureKind.UNREADABLE)  # more tries lock accounts
            self._failure = (math.inf if refused_for_good else time.monotonic(), worded)
            raise worded from None
        return own

    def _sent(
        self, request: Request, talk: Conversation, own: Mapping[str, Any], timeout_s: float, link: str = ""
    ) -> Response:
        import httpx

        values, redirects = {**talk.values, **own}, request is self._login
        params = {} if link else _flat(request.params, values)  # a link has its own
        if not link and (alone := re.fullmatch(r"\{(\w+)\}", request.url)):
            link = self.linked(request, values, values[alone[1]])
        try:
            reply = self._transport.send(
                request.method,
                link or self._address(request.url, values),
                self._limits._replace(timeout_s=timeout_s, redirects=redirects),
                "start it, or check url",
                params=params,
                json=None if request.body is None else filled(request.body, values),
                data=_flat(request.form, values) or None,
                headers=self._filled_headers(request.headers, values),
                cookies=talk.cookies,
            )
        except httpx.InvalidURL as exc:
            raise self._failed(f"the values of this question make no address of url ({exc})") from None
        except Failed as exc:
            if exc.kind is FailureKind.TIMEOUT:
                exc.tries = 1  # late once is late again
            raise
        if not 200 <= reply.status < (400 if redirects else 300):
            raise refused(self._name, reply.status, self.clean(reply.text), reply.headers, _HINTS)
        return reply

    def _failed(self, reason: str, kind: FailureKind = FailureKind.REFUSED) -> Failed:
        return Failed(f"{self._name}: {self.clean(reason)}", kind)

    def _address(self, url: str, values: Mapping[str, Any]) -> str:
        texts = {name: in_text(values[name]) for name in names_in(url) & values.keys()}
        for name, text in texts.items():
            if text in ("", ".", ".."):  # would be another address
                raise self._failed(f"{{{name}}} is {text!r}, which cannot be a part of url")
        return str(filled(url, {name: quote(text, safe="") for name, text in texts.items()}))

    def _filled_headers(self, headers: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
        """Those whose values are known by now."""
        known = {header: value for header, value in headers.items() if names_in(value) <= values.keys()}
        made = {header: in_text(filled(value, values)).strip() for header, value in known.items()}
        for header, value in made.items():
            if not (value.isascii() and value.isprintable()):  # the HTTP library's error would show it
                raise self._failed(f"the header {header!r} would hold characters that no header has")
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
