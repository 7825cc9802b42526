"""A system behind HTTP: one request per question, its options and hints on errors, which failures
are asked again; its JSON or stream of events read to the end.

`ragbench probe http://localhost:8000/ask "a question" --write my.toml` writes most of such a
file: one request per question, and the paths of the parts of its reply. Each example below is run
by the tests against a server on loopback.

Everything in `url`, `body` (JSON), `form` and `headers` is sent unchanged, but "{query}",
"{query_id}", "{user_roles}" and "{history}" (the earlier messages of a conversation: a list of
{role, content}, and in a longer text or a form lines "user: ...") are replaced by their values, and
"{env:NAME}" by a variable of the environment: keys are never written into the file, and appear in
no error, log or page. A reply is kept as it came, even if it repeats a key.

```toml
[http]
url = "https://rag.example.com/form/{query_id}?version=2"   # inside an address a value is percent-encoded
form = { question = "{query}", rerank = true, top = 3, sources = ["wiki", "mail"] }
headers = { Authorization = "Bearer {env:RAG_TOKEN}" }
reply = { answer = "$.out.text", contexts = "$.hits", context = { id = "ref", text = "body" } }
```

A path is the part of JSONPath that names fields, entries by number, and all entries:
`$.choices[0].message.content`, `$.output[*].text`, `['a name']`. A stream (server-sent events, JSON
lines) is joined from its pieces at `delta`; `delta = "$"` where the data of an event is a piece of
text itself (`data: It opened`). Everything else is read from the last event that has it:

```toml
[http]
url = "https://rag.example.com/stream"
body = { query = "{query}", stream = true }
delta = "$.choices[0].delta.content"
reply = { contexts = "$.sources" }
```

What takes more than one request (a login, a session, a job, pages, contexts by a second request,
lists in parallel) is Python: `ragbench eval my_service:Service`. `ragbench probe` takes it, too. A
class is made once, before the first question: a login that is refused is not tried again. A reply
with the status 202 means a job:

```python
# my_service.py
import os
import time

import httpx


class Service:
    def __init__(self):
        self.http = httpx.Client(base_url="https://rag.example.com", timeout=60)  # it keeps cookies, too
        login = {"user": os.environ["RAG_USER"], "password": os.environ["RAG_PASSWORD"]}
        token = self.http.post("/login", data=login).raise_for_status().json()["access_token"]
        self.http.headers["Authorization"] = f"Bearer {token}"

    def __call__(self, question):
        job = self.http.post("/jobs", json={"query": question}).raise_for_status().json()
        for _ in range(300):
            if job["status"] == "done":
                return {"answer": job["answer"], "contexts": job["contexts"]}
            time.sleep(0.2)
            job = self.http.get(f"/jobs/{job['id']}").raise_for_status().json()
        raise TimeoutError(f"the job is still {job['status']}")
```

```python
# my_search.py
import httpx

http = httpx.Client(base_url="https://rag.example.com", timeout=60)


def search(question, k=3):
    hits, page = [], "/search"
    while page and len(hits) < k:
        reply = http.get(page, params={"q": question} if not hits else None).raise_for_status().json()
        hits += zip(reply["ids"], reply["scores"])  # lists in parallel
        page = reply["next"]  # the address of the next page, or null
    texts = http.post("/texts", json={"ids": [doc_id for doc_id, _ in hits[:k]]}).raise_for_status().json()
    return [{"id": doc_id, "score": score, "text": texts[doc_id]} for doc_id, score in hits[:k]]
```
"""

import json
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, ClassVar, Literal, Self, Unpack
from urllib.parse import quote, urlsplit

from pydantic import Field, PositiveFloat, PositiveInt, field_validator, model_validator

from ragbench.errors import FailureKind
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.llms.failures import RequestError, RetryPolicy, unreadable
from ragbench.llms.http import Response, Transport
from ragbench.systems.credentials import (
    FlatTemplate,
    Scrubber,
    Template,
    check_address,
    checked_options,
    from_environment,
)
from ragbench.systems.function import Asker
from ragbench.systems.reply_paths import (
    Paths,
    RemoteSystem,
    ReplyPath,
    ReplyPaths,
    SystemReply,
    read_events,
)
from ragbench.systems.templates import as_text, check_names, fill, question_values
from ragbench.types import Answer

_STREAMS = (
    "text/event-stream application/x-ndjson application/jsonl application/x-jsonlines"
).split()
_HINTS = {
    202: "the server accepts the question and answers later, which takes further requests: ask "
    'it by a Python function (ragbench eval my_module:attribute), as help("ragbench.systems.http_system") '
    "shows",
    400: "the server does not understand the request; check body",
    401: 'the server wants a key: headers = {Authorization = "Bearer {env:MY_TOKEN}"}; a login '
    "takes a Python function "
    "(ragbench eval my_module:attribute)",
    403: "the server refuses this key; check the variable in headers",
    404: "there is nothing at this address; check url",
    405: "the server refuses this method; check method",
    422: "the server does not understand the request; check body",
}

_BODY = 'body = {query = "{query}"}, in Python body={"query": "{query}"}'


@checked_options
@suggesting()
class HttpSystem(RemoteSystem, metaclass=Suggesting):
    """A RAG system that is asked by HTTP, with one request per question.

    Args:
        url: the address, without a password.
        body: the JSON of the request (None: no body). In its texts, "{query}" and "{query_id}" are
            replaced by the question's text and id, "{user_roles}" by the case's roles (a list, or
            "a,b" in a longer text), and "{history}" by the earlier messages. The values are put into
            the structure, not into its text: no question can break the JSON.
        form: the same as a form, in place of `body`. In `url`, as in
            "http://host/search?q={query}", the values are percent-encoded.
        headers: the same for headers. In all of these, "{env:MY_TOKEN}" is replaced by this variable
            of the environment; a secret that is written out is refused.
        method: "POST", "GET", "PUT", "PATCH" or "DELETE".
        reply: the path of each part of the answer, see `ReplyPaths`: {"answer": "$.text",
            "contexts": "$.sources", "context": {"text": "body"}}. By default, the reply is read by
            the usual names (`read_answer`).
        delta: for streams: the path of the piece of text in each event, such as
            "$.choices[0].delta.content". Without it the answer is in the last event that has one.
            "$" is the data itself: plain text. Server-sent events (text/event-stream) and JSON lines
            (application/x-ndjson) are recognised by their content type and read to the end, or to
            "[DONE]".
        timeout_s: seconds for a whole reply.
        tries: how often a question is sent at most if the server is busy (429, 503, honouring
            Retry-After), fails (other 5xx), cannot be reached, or cuts the connection. After a
            time-out a question is not sent again.
        name: the name of the system; default: host and path of the address.

    Redirects are not followed: headers must not go to another server. `latency_ms` has "first_byte"
    and "total". A failure is a failed answer with its reason. Keys are in no message. A service
    that takes several requests (a login, a session, a job, pages) is a Python function. Threads may
    share a system; `close`, the end of a `with` block, or the end of its use ends its connections.
    """

    _instead: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(["json", "data", "payload", "params", "request", "template"], "body"),
        **dict.fromkeys(
            "answer_key answer_path answer_field response_key response_path output_key".split(),
            "reply={'answer': '$.answer'}",
        ),
        **dict.fromkeys(
            "contexts_key contexts_path contexts_field context_key sources_key".split(),
            "reply={'contexts': '$.contexts'}",
        ),
        **dict.fromkeys(["endpoint", "address", "uri", "base_url"], "url"),
        **dict.fromkeys(
            ["api_key", "token", "auth"], "headers={'Authorization': 'Bearer {env:MY_TOKEN}'}"
        ),
        **dict.fromkeys(["retries", "max_retries", "attempts"], "tries"),
    }

    url: str = field(kw_only=False)
    method: Literal["POST", "GET", "PUT", "PATCH", "DELETE"] = "POST"
    body: Template = None
    form: FlatTemplate = Field(default_factory=dict)
    headers: FlatTemplate = Field(default_factory=dict)
    reply: Paths = Field(default_factory=ReplyPaths)
    delta: ReplyPath = ""
    timeout_s: PositiveFloat = 120.0
    tries: PositiveInt = 3
    name: str = ""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        """Return the address as it is; ValueError if it is not one of HTTP, or a name in braces is
        in its host.
        """
        import httpx

        with suppress(httpx.InvalidURL):
            parts = httpx.URL(check_address(url))
            if parts.scheme in ("http", "https") and parts.host and "{" not in urlsplit(url).netloc:
                return url
        raise ValueError("expected an address such as http://localhost:8000/ask")

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if self.body is not None and self.form:
            raise ValueError("body is sent as JSON and form as a form; give one of them")
        check_names([self.body, self.form], [self.url, self.headers], _BODY)
        return self

    def __post_init__(self) -> None:
        """Name the system, fill in the variables of the environment, and prepare the connections;
        nothing is sent yet.

        Raises:
            ConfigError: a variable of the environment is not set.
        """
        address = urlsplit(self.url)
        self.name = self.name or f"{address.netloc}{address.path}"
        templates = {
            "url": self.url,
            "body": self.body,
            "form": self.form,
            "headers": self.headers,
        }
        self._templates, self.secrets = from_environment(templates, self.name)
        self._transport = Transport(self.name, self.secrets)
        # secrets are masked in logs until the system is closed or no longer used
        self._finalizer = weakref.finalize(self, Scrubber(self.secrets).stop)
        self._retry, self._stop = RetryPolicy(), threading.Event()

    def close(self) -> None:
        """Close its connections; a question that waits for another try fails."""
        self._stop.set()
        self._transport.close()
        self._finalizer()

    def answer(self, query_id: str, query: str, **options: Unpack[Asker]) -> Answer:
        """Return the server's answer; a failed answer if it sends none."""
        values = question_values(query_id, query, **options)
        return self.read(query_id, lambda: self._ask(values, self.tries))

    def ask_raw(self, query: str) -> SystemReply:
        """Return the server's reply to a question, before any path is applied.

        Raises:
            RequestError, DataError: there is no reply, or it is not JSON.
        """
        return self._ask(question_values("probe", query), 1)

    def _ask(self, values: Mapping[str, Any], tries: int) -> SystemReply:
        """Send a question, as often as is allowed, and return the first reply."""
        return self._retry.run(lambda: self._send(values), self._stop, max_tries=tries)

    def _send(self, values: Mapping[str, Any]) -> SystemReply:
        """Send one request, and return its reply: JSON, or the events of a stream.

        Args:
            values: name of a placeholder -> its value for this question.

        Raises:
            RequestError: there was no answer in time, the status does not report a finished success
                (202 accepts a request and answers later), or the body cannot be read.
        """
        try:
            response = self._exchange(values)
        except RequestError as exc:
            if exc.failure is FailureKind.TIMEOUT:
                exc.max_tries = 1  # it is not tried again: it would take as long
            raise
        if not 200 <= response.status < 300 or response.status == 202:
            raise self._transport.refused(response.status, response.text, response.headers, _HINTS)
        text = response.text
        latency_ms = {"first_byte": response.first_byte_ms, "total": response.total_ms}
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in _STREAMS:
            events = read_events(text, sse="event" in kind, delta=self.delta)
            return SystemReply(list(events), streamed=True, latency_ms=latency_ms)
        # The parser's error holds the whole body, so it must not be this one's context.
        with suppress(ValueError, RecursionError):
            return SystemReply([json.loads(text)], latency_ms=latency_ms)
        raise unreadable(self.name, self._transport.clean(text))

    def _exchange(self, values: Mapping[str, Any]) -> Response:
        """Send the request that the templates make of a question's values, and return the response."""
        # in an address every value is a text, percent-encoded
        url_values = {name: quote(as_text(value), safe="") for name, value in values.items()}
        # the fields of a form hold no tables: the messages of the history become lines of a text
        form_values = {**values, "history": as_text(values["history"])}
        headers = fill(self._templates["headers"], values)
        return self._transport.exchange(
            self.method,
            str(fill(self._templates["url"], url_values)),
            self.timeout_s,
            way_out="start it, or check url",  # for the error if no server answers
            json=None if self.body is None else fill(self._templates["body"], values),
            data=fill(self._templates["form"], form_values) or None,
            headers={name: as_text(value).encode() for name, value in headers.items()},
        )
