"""Requests to Anthropic's models by the `anthropic` SDK, single ones and batches: parameters, the
form of a reply, hints on errors. Retries are ours, so the SDK's are off.
"""

import datetime
import json
import time
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from ragbench.llms.failures import Form, Reader, RequestError
from ragbench.llms.http import (
    BATCH_TIMEOUT_S,
    Outcomes,
    address,
    outcome_of,
)
from ragbench.llms.ollama import Tokens
from ragbench.llms.openai import warn_of_temperature
from ragbench.network import Bounds
from ragbench.store.replies import Reply, Request

if TYPE_CHECKING:
    from ragbench.store.submissions import Batch

_HINTS = {
    401: "the key was refused; set RAG_EVAL_ANTHROPIC_API_KEY or ANTHROPIC_API_KEY to a valid one",
    403: "the key may not use this model; name another, or set RAG_EVAL_ANTHROPIC_API_KEY to "
    "another key",
    404: "no such model; set RAG_EVAL_ANTHROPIC_MODEL, or name another one as 'anthropic:<model>'",
}
_BATCHES = "/v1/messages/batches"
_MAX_CLOCK_DIFFERENCE_S = 86_400.0
_FINISHES = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_TOOL = "give_reply"
_SCHEMA_MARKS = ("output_config", "output_format", "structured")
"""Words of an error about the schema."""


class ClaudeBlock(BaseModel):
    """A part of a message's content; the fields of all these classes are Anthropic's."""

    type: str
    text: str | None = None
    name: str | None = None
    input: Any = None


class ClaudeUsage(BaseModel):
    input_tokens: Tokens = 0
    cache_creation_input_tokens: Tokens = 0
    cache_read_input_tokens: Tokens = 0
    output_tokens: Tokens = 0


class ClaudeReply(BaseModel):
    content: list[ClaudeBlock]
    usage: ClaudeUsage
    model: str | None = None
    stop_reason: str | None = None


class ClaudeBatch(BaseModel):
    id: str = Field(min_length=1)
    processing_status: str
    request_counts: dict[str, int]
    created_at: datetime.datetime


class ClaudeBatches(BaseModel):
    data: list[ClaudeBatch]


class ClaudeLine(BaseModel):
    custom_id: str
    result: dict[str, Any]


class Claude(Reader):
    """One of Anthropic's models.

    A parameter that the model refuses is left out of this request and of all later ones.
    """

    def __init__(self, model: str, key: str, base_url: str | None) -> None:
        super().__init__(f"anthropic:{model}", (key,))
        self._model = model
        self._base_url = base_url and address(base_url)
        self.origin = self._base_url or ""  # another server may call another model by this name
        self._takes_temperature = True
        self._takes_schema = True

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Return the reply to a request; a request with a refused parameter is sent again without it.

        Raises:
            RequestError: the request failed.
        """
        post = self._client.post  # loads the SDK before the clock starts
        while True:
            body = self._body_of_request(request)
            start = time.perf_counter()
            try:
                text = self._response_text(post, "/v1/messages", timeout_s, body=body)
                return self._reply(text, time.perf_counter() - start)
            except RequestError as exc:
                # True: a parameter is now left out or replaced, so try again
                if not self._adapts_to_refusal(exc, body):
                    raise

    def submit(self, batch: "Batch") -> str:
        """Submit a batch and return its id; raises RequestError."""
        requests = []
        for request in batch.requests:
            requests.append({"custom_id": request.key, "params": self._body_of_request(request)})
        body = {"requests": requests}
        return self._call(ClaudeBatch, self._client.post, _BATCHES, body=body).id

    def find(self, batch: "Batch") -> list[str]:
        """Return the ids of the provider's batches that may be this one, the nearest in time first.

        A candidate has as many requests, and was created within a day of this batch. This method is for
        a batch whose process was killed after the submission and before it noted the id.

        Raises:
            RequestError: the list of batches could not be read.
        """

        def seconds_apart(other: ClaudeBatch) -> float:
            return abs(other.created_at.timestamp() - batch.created)

        # Anthropic's batches have no field for a tag of ours, so that their size and time must do
        page = self._call(ClaudeBatches, self._client.get, f"{_BATCHES}?limit=1000")
        candidates = []
        for other in page.data:
            has_as_many = sum(other.request_counts.values()) == len(batch.requests)
            if has_as_many and seconds_apart(other) < _MAX_CLOCK_DIFFERENCE_S:
                candidates.append(other)
        candidates.sort(key=seconds_apart)
        return [other.id for other in candidates]

    def poll(self, batch: "Batch") -> int | Outcomes:
        """Ask how far a batch is: return the number of its requests that are done.

        Once the batch has ended, return a pair (key, outcome) for each request instead.

        Raises:
            RequestError: the state or the results could not be read.
        """
        path = f"{_BATCHES}/{batch.id}"
        state = self._call(ClaudeBatch, self._client.get, path)
        if state.processing_status != "ended":
            return len(batch.requests) - state.request_counts.get("processing", 0)
        text = self._response_text(self._client.get, f"{path}/results", BATCH_TIMEOUT_S)
        lines = [self.parse_reply(ClaudeLine, line) for line in text.split("\n") if line.strip()]
        return [(line.custom_id, self._outcome(line.result)) for line in lines]

    def _outcome(self, result: Mapping[str, Any]) -> Reply | str:
        """Return the outcome of a request in a batch: its reply, the server's words if it failed, or the
        type of a result without content: "expired" or "canceled".
        """
        body = result.get("message") or result.get("error")
        return outcome_of(self._reply, body) if body else str(result.get("type"))

    def _call(self, form: type[Form], call: Callable[..., str], path: str, **content: Any) -> Form:
        """Return the reply to a call about batches.

        Args:
            form: the class that the JSON of the reply is read into.
            call: a method of the SDK's client, `post` or `get`.
            path: below the provider's address.
            content: the body of the call.

        Raises:
            RequestError: the call failed, or the reply has another form.
        """
        return self.parse_reply(form, self._response_text(call, path, BATCH_TIMEOUT_S, **content))

    @cached_property
    def _client(self) -> Any:
        """Return the SDK's client, made at the first request: importing the SDK takes seconds."""
        import anthropic

        client = anthropic.Anthropic(
            api_key=self.secrets[0],
            base_url=self._base_url,
            max_retries=0,
            http_client=Bounds(self.name).client(anthropic.DefaultHttpxClient),
        )
        # The SDK closes it in __del__, which in a cycle may come after the end of its sockets.
        weakref.finalize(self, client.close)
        return client

    def _body_of_request(self, request: Request) -> dict[str, Any]:
        """Return the body of a request, without parameters that the model has refused.

        A model that takes no schema is forced to call a tool with the schema as its input.
        """
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "messages": [{"role": "user", "content": request.prompt}],
        }
        if request.system:
            body["system"] = request.system
        if self._takes_temperature:
            body["temperature"] = request.temperature
        if request.schema is not None:
            body |= self._form_of_reply(request.schema)
        return body

    def _form_of_reply(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request's body that ask for a reply in the form of a schema."""
        if self._takes_schema:
            return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        tool = {
            "name": _TOOL,
            "description": "Give the reply in this form.",
            "input_schema": schema,
        }
        return {"tools": [tool], "tool_choice": {"type": "tool", "name": _TOOL}}

    def _response_text(
        self, call: Callable[..., str], path: str, timeout_s: float, **content: Any
    ) -> str:
        """Call the SDK's client, and return the body of the reply.

        Args:
            call: a method of the client, `post` or `get`.
            path: below the provider's address.
            timeout_s: the seconds that the reply may take.
            content: as for the method.

        Raises:
            RequestError: the request failed.
        """
        import anthropic

        try:
            options = {"timeout": timeout_s, "headers": {"Accept": "*/*"}}  # results are no JSON
            return call(path, cast_to=str, options=options, **content)
        except anthropic.APIStatusError as exc:
            reply = exc.response
            failure = self.refused(exc.status_code, reply.text, reply.headers, _HINTS)
        except anthropic.APIConnectionError as exc:
            cause: Any = exc.__cause__ or exc
            url = str(self._client.base_url).rstrip("/")
            way_out = "check the connection, or set RAG_EVAL_ANTHROPIC_BASE_URL"
            failure = self.failure_of(cause, url, timeout_s, way_out)
        # raised outside of the `except` blocks: there, the SDK's error, which holds the request and its
        # key, would become its context
        raise failure

    def _adapts_to_refusal(self, failed: RequestError, body: dict[str, Any]) -> bool:
        """Leave out a parameter that the model refuses, from now on; return True if there is one,
        so that the request is sent again.

        Return False if the request failed for another reason.

        `body` is the body of the failed request. There are two such parameters, so at most two requests
        are refused.
        """
        if failed.status != 400:
            return False
        message = failed.body
        if "temperature" in body and "temperature" in message:
            if self._takes_temperature:  # warn once: another thread may have found it out already
                warn_of_temperature(self.name)
            self._takes_temperature = False
            return True
        if "output_config" in body and any(mark in message for mark in _SCHEMA_MARKS):
            # an older model: a forced tool takes the place of the schema, see `_form_of_reply`
            self._takes_schema = False
            return True
        return False

    def _reply(self, text: str, latency_s: float) -> Reply:
        """Return the reply in a response; raises RequestError if it has another form."""
        reply = self.parse_reply(ClaudeReply, text)
        texts = []
        for block in reply.content:
            if block.type == "text":
                texts.append(block.text or "")
            elif block.type == "tool_use" and block.name == _TOOL:  # it has the form of a schema
                texts.append(json.dumps(block.input, ensure_ascii=False))
        usage = reply.usage
        # Tokens of the provider's cache are paid for, and not part of `usage.input_tokens`.
        cached_tokens = usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        return Reply(
            "".join(texts),
            reply.model or self._model,
            usage.input_tokens + cached_tokens,
            usage.output_tokens,
            latency_s,
            _FINISHES.get(reply.stop_reason or "", "stop"),
        )
