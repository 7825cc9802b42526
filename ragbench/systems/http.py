"""A system behind HTTP: one request per question, or several; their JSON or event streams read to the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import Field, model_validator

from ragbench.errors import DataError, FailureKind, unknown
from ragbench.llms.failures import Failed, RetryPolicy, unreadable
from ragbench.llms.http import Limits, Response
from ragbench.systems.credentials import checked
from ragbench.systems.function import failed
from ragbench.systems.reply_paths import (
    JsonPath,
    PathMatches,
    Replies,
    ReplyPaths,
    contexts_in,
    json_events,
    names_in,
    question_values,
    saved_value,
)
from ragbench.systems.requests import Call, Conversation, Login, Pace, Sender
from ragbench.types import Answer

_STREAMS = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class HttpSpec(Call):
    """The table [http] of a system's file; see `HttpSystem` for what the entries mean."""

    name: str = ""
    k: Annotated[int, Field(ge=1)] | None = None
    login: Login | None = None
    before: list[Call] = Field(default_factory=list)
    then: list[Call] = Field(default_factory=list)
    reply: ReplyPaths = Field(default_factory=ReplyPaths)
    delta: JsonPath = ""
    events_by: JsonPath = ""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    idle_timeout_s: Annotated[float, Field(gt=0)] | None = None
    tries: Annotated[int, Field(ge=1)] = 3
    concurrency: Annotated[int, Field(ge=1)] | None = None
    requests_per_s: Annotated[float, Field(gt=0)] | None = None
    max_reply_mb: Annotated[float, Field(gt=0)] = 10.0

    @model_validator(mode="after")
    def _whole(self) -> HttpSpec:
        """The question is sent, and each name in braces has a value when it is needed."""
        if not any("query" in call.names() for _, call in self.calls()):
            raise ValueError(
                'the question is sent nowhere; write body = {query = "{query}"} or params = {q = "{query}"}'
            )
        if self.url.startswith("{"):
            raise ValueError("url is the address of the server; only that of a request in `then` may come from a reply")
        several = bool(self.login or len(self.calls()) > 1 or self.save)
        known = {"query", "query_id", "user_roles", *(["k"] if self.k else [])}
        logins = [("login", Call.model_construct(**dict(self.login)))] if self.login else []
        for where, call in (*logins, *self.calls()):
            has = set() if where == "login" else known | ({"page", "offset", "next"} if call.paged else set())
            for name in sorted({*call.names(), *([call.each] if call.each else [])} - has):
                if several or call.each == name or name in ("k", "next") or name in names_in([call.url, call.headers]):
                    raise ValueError(f"{where}: {unknown('value', name, sorted(has))}")
            if call.each or call.paged:
                if call is not self.calls()[-1][1] or (call.each and call.paged):
                    raise ValueError(f"{where}: only the last request has pages, or is sent for each entry of a list")
                if not self.k or not (self.reply.contexts or self.reply.columns()):
                    raise ValueError(f"{where}: pages, and `each`, need k and the path of reply.contexts")
            known |= set(call.save)
        return self

    def calls(self) -> list[tuple[str, Call]]:
        """The requests of a question in order, and where they are in the file; "" is the one with the table's url."""
        before = [(f"before {number}", call) for number, call in enumerate(self.before, 1)]
        return [*before, ("", self), *((f"then {number}", call) for number, call in enumerate(self.then, 1))]

    def limits(self) -> Limits:
        """What one reply may take."""
        return Limits(self.timeout_s, self.connect_timeout_s, self.idle_timeout_s, self.max_reply_mb)


class HttpOptions(TypedDict, total=False):
    """The keyword arguments of `HttpSystem`, for editors and type checkers; `HttpSpec` checks their values."""

    name: str
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"]
    body: Any
    form: Mapping[str, Any]
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    headers_env: Mapping[str, str]
    basic_env: Sequence[str]
    k: int
    save: Mapping[str, str]
    until: Mapping[str, Any]
    each: str
    next: str
    pages: int
    login: Mapping[str, Any]
    before: Sequence[Mapping[str, Any]]
    then: Sequence[Mapping[str, Any]]
    reply: Mapping[str, Any] | ReplyPaths
    delta: str
    events_by: str
    timeout_s: float
    connect_timeout_s: float
    idle_timeout_s: float | None
    tries: int
    concurrency: int | None
    requests_per_s: float | None
    max_reply_mb: float


class HttpSystem:
    """A RAG system that is asked by HTTP.

    Args:
        url: where; without a password.
        body: the JSON of the request (None: no body), with "{query}" and "{query_id}" in the places of the question's
            text and id, "{user_roles}" in that of the case's roles: a list, or in a longer text "a,b"; "{k}" in that of
            `k`, a number. They are put into the structure, not into its text: no question can break the JSON.
        form: the same as a form, in place of `body`.
        params: the same for the query string; in `url` what is put in is percent-encoded. In url, body, form, params
            and headers "{env:MY_TOKEN}" becomes what that variable of the environment holds; a secret that is written
            out is refused.
        method: "POST", "GET", "PUT", "PATCH" or "DELETE".
        headers: headers that may be seen by everybody. `headers_env` names the variable of the environment that holds a
            header's value: {"Authorization": "Bearer MY_TOKEN"} sends "Bearer " and what MY_TOKEN holds.
        basic_env: Basic auth: the names of the variables that hold the user and the password.
        k: how many contexts are wanted.
        reply: JSONPath of each part of the answer, see `ReplyPaths`: {"answer": "$.text", "contexts": "$.sources",
            "context": {"text": "body"}}. Left out, the reply is read by the usual names (`read_answer`).
        delta: for streams: the path of the piece of text in each event, such as "$.choices[0].delta.content".
            Without it the last event that has an answer gives it. "$" is the data itself: plain text. Server-sent
            events (text/event-stream) and JSON lines (application/x-ndjson) are recognised by their content type and
            read to the end, or to "[DONE]".
        events_by: what names the events of a stream, "event" (their own name) or the path of a field such as "$.type":
            each is then read as {name: data}, so that paths such as "$.token" or "$.sources[*]" choose events.
        login: a request (url, method, body, form, ...) that is sent before all others, and again when one is refused
            with 401. `save` takes values from its reply for the others, {"token": "$.access_token"}, which write
            "{token}"; cookies are kept.
        before, then: requests that are sent for each question before and after this one. Each may `save` too. The
            answer is read from the replies to this one and those after it, each part from the last that has it.
        save: the same for this request.
        until: ask again, every `every_s` seconds, until the reply has a value at `path`: any, or one of `equals`. One
            of `fails` is a failed answer.
        each: the name of a saved list: the request is sent for each of its entries, at most `k` times.
        next, pages: the path of the next page's address, or of what "{next}" stands for, and how many are read at most.
            A request that mentions "{page}" or "{offset}" needs none. They are read until there are `k` contexts.
        timeout_s: seconds for all requests of a question (without the waiting between tries); `connect_timeout_s` for a
            connection, `idle_timeout_s` between two pieces of a reply (None: no bound of its own).
        tries: how often a question is sent at most when the server is busy (429, 503, honouring Retry-After), fails
            (other 5xx), is not there, or cuts the connection. A reply that is late is not asked for again.
        concurrency: how many requests may be on their way at once; None leaves that to `ask`.
        requests_per_s: maximum rate, evenly spaced.
        max_reply_mb: a longer reply is a failed answer.
        name: host and path of the address unless given.

    Redirects are not followed: headers must not go to another server. `latency_ms` has "first_byte" and "total" of
    the requests whose replies gave the answer. A failure is a failed answer with its reason. Keys are in no message.
    Threads may share it; `close`, the end of a `with` block, or the end of its use ends its connections.
    """

    def __init__(self, url: str, **options: Unpack[HttpOptions]) -> None:
        given = {key: value for key, value in options.items() if value is not None}
        self._spec = spec = checked(HttpSpec, {"url": url, **given}, "HttpSystem")
        import httpx

        address = httpx.URL(url)
        self.name = spec.name or f"{address.host}{f':{address.port}' if address.port else ''}{address.path}"
        self._sender = Sender(self.name, spec, spec.limits(), spec.login)
        self._calls = [(part, self._sender.prepared(call, f"{self.name} {part}")) for part, call in spec.calls()]
        self._places = threading.BoundedSemaphore(spec.concurrency) if spec.concurrency else nullcontext()
        self._matches = PathMatches(self.name, spec.reply)
        self._pace = Pace(spec.requests_per_s)
        self._retry = RetryPolicy()
        self._stop = threading.Event()
        self._gone = False

    def __repr__(self) -> str:
        return f"HttpSystem({self.name!r})"

    def __enter__(self) -> HttpSystem:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections; a question that waits for another try gives up."""
        self._stop.set()
        self._sender.close()

    def check_replies(self, *, ended: bool) -> None:
        """Raise ConfigError where a path of `reply` has matched in no reply so far; see `PathMatches`."""
        self._matches.check(ended=ended)

    def answer(self, query_id: str, query: str, *, user_roles: Sequence[str] = ()) -> Answer:
        """What the server answers; a failed answer where it does not."""
        # Where no server listened a moment ago, each further question gets one try and no waiting.
        talk = self._talk(query_id, query, user_roles, 1 if self._gone else self._spec.tries)
        try:
            self._ask(talk)
            self._gone = False
        except Failed as exc:
            self._gone = self._gone or (exc.stop and not exc.status)
            return failed(query_id, str(exc), exc.kind)
        except InterruptedError:
            return failed(query_id, f"{self.name} was closed")
        answer = self._matches.read(query_id, lambda: self._record(talk))
        times = {"first_byte": talk.first_byte_ms, "total": 1000 * talk.spent_s}
        return replace(answer, latency_ms={**times, **answer.latency_ms})

    def reply(self, query: str) -> Replies:
        """What the server replies to one question, before any path is applied.

        Raises:
            Failed: there is no reply, or it is not JSON.
        """
        talk = self._talk("probe", query, (), 1)
        talk.delta = talk.delta or "$"  # of a stream of which nothing is known
        self._ask(talk)
        return Replies(talk.replies, talk.streamed, talk.pages)

    def _talk(self, query_id: str, query: str, user_roles: Sequence[str], max_tries: int) -> Conversation:
        k = {} if self._spec.k is None else {"k": self._spec.k}
        return Conversation({**question_values(query_id, query, user_roles), **k}, max_tries, self._spec.delta)

    def _ask(self, talk: Conversation) -> None:
        """Send the requests of one question."""
        try:
            for part, call in self._calls:
                try:
                    found = self._replies(part, call, talk)
                except (Failed, DataError, RecursionError) as exc:
                    where = f"{self.name}, {part}" if part else self.name
                    own = exc if isinstance(exc, Failed) else Failed(f"{self.name}: {exc}", FailureKind.UNREADABLE)
                    raise own.reworded(str(own).replace(f"{self.name}:", f"{where}:", 1)) from None
                talk.replies += [] if part.startswith("before") else found
                if call.each or call.paged:
                    talk.pages = len(found)
        finally:
            self._sender.forget(talk)

    def _replies(self, part: str, call: Call, talk: Conversation) -> list[Any]:
        """The replies to one request: one, the events of a stream, its pages, or one for each entry of a list."""
        if call.each:
            listed = talk.values[call.each]
            ones = (listed if isinstance(listed, list) else [listed])[: self._spec.k]
            return [reply for one in ones for reply in self._awaited(part, call, talk, {call.each: one})[0]]
        own: dict[str, Any] = {"page": 1, "offset": 0, "next": ...}
        found, plain = self._awaited(part, call, talk, own)
        while call.paged and len(found) < call.pages:
            count = sum(len(contexts_in(page, self._spec.reply)) for page in found)
            place = saved_value(plain, call.next) if call.next else None
            if count >= talk.values["k"] or count == own["offset"] or (call.next and place in (None, "", False)):
                break
            own = {"page": own["page"] + 1, "offset": count, "next": place}
            is_link = call.next and "next" not in call.names()
            link = self._sender.linked(call, {**talk.values, **own}, place) if is_link else ""
            more, plain = self._awaited(part, call, talk, own, link)
            if more == found[-1:]:  # the server has no pages
                break
            found += more
        return found

    def _awaited(
        self, part: str, call: Call, talk: Conversation, own: Mapping[str, Any], link: str = ""
    ) -> tuple[list[Any], list[Any]]:
        """The reply that has what the request waits for: without secrets, and as it came."""
        asked, until = 0, call.until
        while True:
            reply, found, plain = self._sent(part, call, talk, own, link)
            asked += 1
            state = None if until is None else saved_value(found, until.path)
            if until is not None and state in until.fails:
                raise Failed(f"{self.name}: {until.path} is {state!r}, which `fails` names", FailureKind.SERVER_ERROR)
            if until is None or (state is not None and state in (until.equals or [state])):
                self._sender.save(call, talk, plain, reply.headers)
                return found, plain
            if talk.spent_s + until.every_s >= self._spec.timeout_s:
                late = f"{self.name}: {until.path} is still {state!r} after {talk.spent_s:.1f} s and {asked} requests"
                raise Failed(f"{late}; raise timeout_s, or correct until", FailureKind.TIMEOUT)
            self._stop.wait(until.every_s)
            talk.spent_s += until.every_s

    def _sent(
        self, part: str, call: Call, talk: Conversation, own: Mapping[str, Any], link: str
    ) -> tuple[Response, list[Any], list[Any]]:
        """The reply to one request, tried as often as is allowed, and what it holds, without secrets and with them."""

        def send() -> tuple[Response, list[Any]]:
            left = self._spec.timeout_s - talk.spent_s
            if left <= 0:
                late = f"{self.name}: the requests before took {talk.spent_s:.1f} s; raise timeout_s or ask for less"
                raise Failed(late, FailureKind.TIMEOUT)
            with self._places:
                self._pace.wait(self._stop)
                reply = self._sender.send(call, talk, own, left, link)
            return reply, self._parsed(part, call, talk, reply, self._sender.clean(reply.text))

        reply, found = self._retry.run(send, self._stop, max_tries=talk.max_tries)
        if not part:
            talk.first_byte_ms = talk.first_byte_ms or 1000 * talk.spent_s + reply.first_byte_ms
        talk.spent_s += reply.total_ms / 1000
        same = reply.text == self._sender.clean(reply.text)
        return reply, found, found if same else self._parsed(part, call, talk, reply, reply.text)

    def _parsed(self, part: str, call: Call, talk: Conversation, reply: Response, text: str) -> list[Any]:
        """The JSON of a reply, or the events of a stream; nothing where nothing has to be read."""
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _STREAMS:
            talk.streamed = True
            sse = kind == "text/event-stream"
            return list(json_events(text, sse, delta=talk.delta, events_by=self._spec.events_by))
        found = None
        # The parser's error holds the whole body, so it must not be this one's context.
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
        is_read = not part or call.until or call.save or (part.startswith("then") and text.strip())
        if found is None and is_read:
            raise unreadable(self.name, self._sender.clean(text))
        return [] if found is None else [found]

    def _record(self, talk: Conversation) -> Mapping[str, Any]:
        self._matches.see(talk.replies)
        record = Replies(talk.replies, talk.streamed, talk.pages).record(self._spec.reply, self._spec.delta)
        if talk.pages is None:
            return record
        return {**record, "contexts": record["contexts"][: self._spec.k]}
