"""A system behind HTTP: one request per question, its JSON or event stream read to the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import Field, model_validator

from ragbench.llms.failures import Failed, RetryPolicy, unreadable
from ragbench.llms.http import Limits, Response
from ragbench.systems.credentials import checked
from ragbench.systems.function import failed
from ragbench.systems.reply_paths import (
    JsonPath,
    PathMatches,
    ReplyPaths,
    join_events,
    json_events,
    names_in,
    question_values,
    read_reply,
)
from ragbench.systems.requests import Pace, Request, Sender
from ragbench.types import Answer

_STREAMS = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class HttpSpec(Request):
    """The table [http] of a system's file; see `HttpSystem` for what the entries mean."""

    name: str = ""
    k: Annotated[int, Field(ge=1)] | None = None
    reply: ReplyPaths = Field(default_factory=ReplyPaths)
    delta: JsonPath = ""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    idle_timeout_s: Annotated[float, Field(gt=0)] | None = None
    tries: Annotated[int, Field(ge=1)] = 3
    concurrency: Annotated[int, Field(ge=1)] | None = None
    requests_per_s: Annotated[float, Field(gt=0)] | None = None
    max_reply_mb: Annotated[float, Field(gt=0)] = 10.0

    @model_validator(mode="after")
    def _asks(self) -> HttpSpec:
        if not any("query" in names_in(part) for part in (self.url, self.body, self.form, self.params)):
            raise ValueError(
                'the question is sent nowhere; write body = {query = "{query}"} or params = {q = "{query}"}'
            )
        return self

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
    reply: Mapping[str, Any] | ReplyPaths
    delta: str
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
            Without it the last event that has an answer gives it. Server-sent events (text/event-stream) and JSON lines
            (application/x-ndjson) are recognised by their content type and read to the end, or to "[DONE]".
        timeout_s: seconds for a whole reply; `connect_timeout_s` for the connection, `idle_timeout_s` between two
            pieces of a reply (None: no bound of its own).
        tries: how often a question is sent at most when the server is busy (429, 503, honouring Retry-After), fails
            (other 5xx), is not there, or cuts the connection. A reply that is late is not asked for again.
        concurrency: how many requests may be on their way at once; None leaves that to `ask`.
        requests_per_s: maximum rate, evenly spaced.
        max_reply_mb: a longer reply is a failed answer.
        name: host and path of the address unless given.

    Redirects are not followed: headers must not go to another server. `latency_ms` has "first_byte" and "total" of
    the try that gave the answer. A failure is a failed answer with its reason. Keys are in no message. Threads may
    share it; `close`, the end of a `with` block, or the end of its use ends its connections.
    """

    def __init__(self, url: str, **options: Unpack[HttpOptions]) -> None:
        given = {key: value for key, value in options.items() if value is not None}
        self._spec = spec = checked(HttpSpec, {"url": url, **given}, "HttpSystem")
        import httpx

        address = httpx.URL(url)
        self.name = spec.name or f"{address.host}{f':{address.port}' if address.port else ''}{address.path}"
        self._sender = Sender(self.name, spec, spec.limits())
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
        values = self._values(query_id, query, user_roles)
        try:
            # Where no server listened a moment ago, each further question gets one try and no waiting.
            tries = 1 if self._gone else self._spec.tries
            reply, found = self._retry.run(lambda: self._send(values), self._stop, max_tries=tries)
            self._gone = False
        except Failed as exc:
            self._gone = self._gone or (exc.stop and not exc.status)
            return failed(query_id, str(exc), exc.kind)
        except InterruptedError:
            return failed(query_id, f"{self.name} was closed")
        answer = self._matches.read(query_id, lambda: self._record(reply, found))
        times = {"first_byte": reply.first_byte_ms, "total": reply.total_ms}
        return replace(answer, latency_ms={**times, **answer.latency_ms})

    def reply(self, query: str) -> tuple[list[Any], bool]:
        """What the server replies to one question, before any path is applied: its JSON, or the events of a stream.

        Returns:
            A list of one reply and False, or of all events and True.

        Raises:
            Failed: there is no reply, or it is not JSON.
        """
        reply, found = self._send(self._values("probe", query, ()))
        return ([found], False) if found is not None else (self._events(reply), True)

    def _values(self, query_id: str, query: str, user_roles: Sequence[str]) -> dict[str, Any]:
        k = {} if self._spec.k is None else {"k": self._spec.k}
        return {**question_values(query_id, query, user_roles), **k}

    def _send(self, values: Mapping[str, Any]) -> tuple[Response, Any]:
        """One try: the reply, and its JSON where it is not a stream; raises Failed."""
        with self._places:
            self._pace.wait(self._stop)
            reply = self._sender.send(self._sender.main, values)
        reply = reply._replace(text=self._sender.clean(reply.text))
        if _content_type(reply) in _STREAMS:
            return reply, None
        found = None
        # The parser's error holds the whole body, so it must not be this one's context.
        with suppress(ValueError, RecursionError):
            found = json.loads(reply.text)
        if found is None:
            raise unreadable(self.name, reply.text)
        return reply, found

    def _record(self, reply: Response, found: Any) -> Mapping[str, Any]:
        if found is not None:
            self._matches.see([found])
            return read_reply(found, self._spec.reply)
        events = self._events(reply)
        self._matches.see(events)
        return join_events(events, self._spec.reply, self._spec.delta)

    @staticmethod
    def _events(reply: Response) -> list[Any]:
        return list(json_events(reply.text, _content_type(reply) == "text/event-stream"))


def _content_type(reply: Response) -> str:
    return reply.headers.get("content-type", "").partition(";")[0].strip().lower()
