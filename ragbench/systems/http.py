"""A system behind HTTP: one request per question, its JSON or event stream read to the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ragbench.errors import ConfigError, DataError, FailureKind
from ragbench.llms.failures import Failed, unreadable
from ragbench.llms.http import Limits, Response
from ragbench.llms.retry import RetryPolicy
from ragbench.systems.answer_parser import problems, read_answer
from ragbench.systems.credentials import (
    Address,
    HeaderVariables,
    LiteralHeaders,
    Template,
    TextTemplates,
    from_environment,
)
from ragbench.systems.events import join_events, json_events
from ragbench.systems.function import failed
from ragbench.systems.http_client import Pace, Sender
from ragbench.systems.reply_paths import (
    PathMatches,
    ReplyPaths,
    check_path,
    filled,
    mentions,
    question_values,
    to_record,
)
from ragbench.types import Answer

_STREAMS = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/x-jsonlines")


class HttpSpec(BaseModel):
    """The table [http] of a system's file; see `HttpSystem` for what the entries mean."""

    model_config = ConfigDict(extra="forbid")
    url: Address
    name: str = ""
    method: Literal["POST", "GET", "PUT"] = "POST"
    body: Template = None
    params: TextTemplates = {}
    headers: LiteralHeaders = {}
    headers_env: HeaderVariables = {}
    reply: ReplyPaths = Field(default_factory=ReplyPaths)
    delta: str = ""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    connect_timeout_s: Annotated[float, Field(gt=0)] = 10.0
    idle_timeout_s: Annotated[float, Field(gt=0)] | None = None
    tries: Annotated[int, Field(ge=1)] = 3
    concurrency: Annotated[int, Field(ge=1)] | None = None
    requests_per_s: Annotated[float, Field(gt=0)] | None = None
    max_reply_mb: Annotated[float, Field(gt=0)] = 10.0

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        import httpx

        try:
            parts = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as exc:
            raise ValueError(f"expected an address such as http://localhost:8000/ask ({exc})") from None
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError("expected an address such as http://localhost:8000/ask")
        if parts.userinfo:
            raise ValueError("an address holds no password; put it into the environment and name it in headers_env")
        return url

    @field_validator("delta")
    @classmethod
    def _path(cls, path: str) -> str:
        return check_path(path)

    @model_validator(mode="after")
    def _asks(self) -> HttpSpec:
        if not mentions(self.body, "query") and not mentions(self.params, "query"):
            raise ValueError(
                'the question is sent nowhere; write body = {query = "{query}"} or params = {q = "{query}"}'
            )
        return self


class HttpSystem:
    """A RAG system that is asked by HTTP.

    Args:
        url: where; without a password.
        body: the JSON of the request (None: no body), with "{query}" and "{query_id}" in the places of the question's
            text and id, "{user_roles}" in that of the case's roles: a list, or in a longer text "a,b". They are put
            into the structure, not into its text: no question can break the JSON.
        params: the same for the query string. In url, body, params and headers "{env:MY_TOKEN}" becomes what that
            variable of the environment holds; a secret that is written out is refused.
        method: "POST", "GET" or "PUT".
        headers: headers that may be seen by everybody. `headers_env` names the variable of the environment that holds a
            header's value: {"Authorization": "Bearer MY_TOKEN"} sends "Bearer " and what MY_TOKEN holds.
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

    Redirects are not followed: headers must not go to another server. `latency_ms` has "first_byte" and "total" of
    the try that gave the answer. A failure is a failed answer with its reason. Keys are in no message. Threads may
    share it; `close`, the end of a `with` block, or the end of its use ends its connections.
    """

    def __init__(
        self,
        url: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        headers_env: Mapping[str, str] | None = None,
        reply: Mapping[str, Any] | None = None,
        delta: str = "",
        timeout_s: float = 120.0,
        connect_timeout_s: float = 10.0,
        idle_timeout_s: float | None = None,
        tries: int = 3,
        concurrency: int | None = None,
        requests_per_s: float | None = None,
        max_reply_mb: float = 10.0,
        name: str = "",
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self" and value is not None}
        try:
            self._spec = spec = HttpSpec.model_validate(given)
        except ValidationError as exc:
            raise ConfigError(f"HttpSystem: {problems(exc)}") from None
        import httpx

        address = httpx.URL(url)
        self._name = name or f"{address.host}{f':{address.port}' if address.port else ''}{address.path}"
        limits = Limits(spec.timeout_s, spec.connect_timeout_s, spec.idle_timeout_s, spec.max_reply_mb)
        request, secrets = from_environment([spec.url, spec.params, spec.body], self._name)
        self._url, self._params, self._body = request
        self._sender = Sender(self._name, spec.headers, spec.headers_env, limits, secrets)
        self._places = threading.BoundedSemaphore(spec.concurrency) if spec.concurrency else None
        self._matches = PathMatches(self._name, spec.reply)
        self._pace = Pace(spec.requests_per_s)
        self._retry = RetryPolicy()
        self._stop = threading.Event()
        self._gone = False

    @property
    def name(self) -> str:
        """Host and path of the address, or the name given at construction."""
        return self._name

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
        values = question_values(query_id, query, user_roles)
        try:
            # Where no server listened a moment ago, each further question gets one try and no waiting.
            reply, latency = self._retry.run(
                lambda: self._in_turn(values), self._stop, max_tries=1 if self._gone else self._spec.tries
            )
            self._gone = False
        except Failed as exc:
            self._gone = self._gone or (exc.stop and not exc.status)
            return failed(query_id, str(exc), exc.kind)
        except InterruptedError:
            return failed(query_id, f"{self.name} was closed")
        try:
            answer = read_answer(query_id, reply, model=self.name)
        except (DataError, RecursionError) as exc:
            answer = failed(query_id, f"{self.name}: {exc!s}", FailureKind.UNREADABLE)
            self._matches.answered()
        if not answer.failed and not answer.abstained:
            self._matches.answered()
        return replace(answer, latency_ms={**latency, **answer.latency_ms})

    def _in_turn(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
        if self._places is None:
            return self._send(values)
        with self._places:
            return self._send(values)

    def _send(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
        """One try: the record of the reply, and its times; raises Failed."""
        self._pace.wait(self._stop)
        body = None if self._body is None else filled(self._body, values)
        reply = self._sender.send(self._spec.method, self._url, params=filled(self._params, values), body=body)
        try:
            record = self._record(reply)
        except (DataError, RecursionError) as exc:
            self._matches.answered()
            raise Failed(f"{self.name}: {exc}", FailureKind.UNREADABLE) from None
        return record, {"first_byte": reply.first_byte_ms, "total": reply.total_ms}

    def _record(self, reply: Response) -> dict[str, Any]:
        content_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type in _STREAMS:
            events = list(json_events(reply.text, content_type == "text/event-stream"))
            self._matches.see(events)
            return join_events(events, self._spec.reply, self._spec.delta)
        found = None
        # The parser's error holds the whole body, so it must not be this one's context.
        with suppress(ValueError, RecursionError):
            found = json.loads(reply.text)
        if found is None:
            raise unreadable(self.name, reply.text)
        self._matches.see([found])
        return to_record(found, self._spec.reply)
