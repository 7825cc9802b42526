"""Requests to any OpenAI-compatible server, POST /chat/completions below its base URL, and its
batches: parameters that a model refuses, the form of a reply.
"""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from ragbench.errors import warn_user
from ragbench.llms.failures import Form, RequestError
from ragbench.llms.http import (
    BATCH_TIMEOUT_S,
    Outcomes,
    Server,
    outcome_of,
)
from ragbench.llms.ollama import Tokens, messages
from ragbench.store.replies import Reply, Request

if TYPE_CHECKING:
    from ragbench.store.submissions import Batch

_CHAT = "/v1/chat/completions"
_OUTCOMES = {
    "completed": "no result",
    "failed": "refused",
    "expired": "expired",
    "batch_expired": "expired",
    "cancelled": "canceled",
    "batch_cancelled": "canceled",
}
"""State of a batch that has ended, or error code of a request in it -> outcome of the request."""
_PAGES = 100  # of a hundred batches each
_REFUSALS = (400, 422, 501)  # statuses of a server that does not take a parameter
HOSTED = "https://api.openai.com/v1"
_FINISHES = {"length": "length", "content_filter": "refusal"}
_SCHEMA_MARKS = ("response_format", "json_schema", "schema", "grammar", "structured")
"""Words of an error about the schema."""


class ChatPart(BaseModel):
    """A part of a message's content; the fields of all these classes are OpenAI's."""

    text: str | None = None


class ChatMessage(BaseModel):
    content: str | list[ChatPart] | None = None  # some servers give parts
    refusal: str | None = None


class ChatChoice(BaseModel):
    message: ChatMessage
    finish_reason: str | None = None


class ChatUsage(BaseModel):
    prompt_tokens: Tokens = 0
    completion_tokens: Tokens = 0


class ChatReply(BaseModel):
    choices: list[ChatChoice] = Field(min_length=1)
    usage: ChatUsage | None = None
    model: str | None = None


class BatchObject(BaseModel):
    """A file or a batch."""

    id: str = Field(min_length=1)
    status: str = ""
    request_counts: dict[str, int] | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: Any = None
    metadata: Any = None


class BatchPage(BaseModel):
    data: list[BatchObject]
    has_more: bool = False


class BatchLine(BaseModel):
    custom_id: str
    response: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class OpenAI(Server):
    """One model of one server.

    A parameter that the server refuses is left out of this request and of all later ones.
    """

    def __init__(self, model: str, base_url: str, key: str | None) -> None:
        """Open a client of the model at an address. It sends the key; None for a server without keys."""
        hints = {
            401: "the key was refused; set RAG_EVAL_OPENAI_API_KEY or OPENAI_API_KEY to a valid "
            "one",
            403: "the key may not use this model; name another, or set RAG_EVAL_OPENAI_API_KEY "
            "to another key",
            404: "no such model, or no such address; set RAG_EVAL_OPENAI_MODEL or "
            "RAG_EVAL_OPENAI_BASE_URL",
        }
        super().__init__(
            f"openai:{model}",
            base_url,
            key,
            hints,
            "start it, or set RAG_EVAL_OPENAI_BASE_URL to where it runs",
        )
        self._model = model
        # the options that the server takes; `_adapts_to_refusal` changes these after a refusal
        self._limit_field = "max_tokens"
        self._takes_temperature = True
        self._takes_schema = True
        self.origin = self.address

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Return the reply to a request; a request with a refused parameter is sent again without it.

        Raises:
            RequestError: the request failed.
        """
        while True:
            start = time.perf_counter()
            payload = self._payload(request)
            try:
                text = self.text("POST", "/chat/completions", timeout_s, json=payload)
                return self._reply(text, time.perf_counter() - start)
            except RequestError as exc:
                # True: a parameter is now left out or renamed, so try again
                if not self._adapts_to_refusal(exc, payload):
                    raise

    def submit(self, batch: "Batch") -> str:
        """Upload the requests of a batch as a file, submit it, and return the id of the batch.

        Raises:
            RequestError: the upload or the submission failed.
        """
        lines = [json.dumps(self._line_of_batch(request)) for request in batch.requests]
        content = "\n".join(lines).encode()
        form = {"data": {"purpose": "batch"}, "files": {"file": ("batch.jsonl", content)}}
        file = self._call(BatchObject, "POST", "/files", **form)
        # the tag is our own name of the batch: by it `find` recognises the batch later
        order = {
            "input_file_id": file.id,
            "endpoint": _CHAT,
            "completion_window": "24h",
            "metadata": {"tag": batch.tag},
        }
        return self._call(BatchObject, "POST", "/batches", json=order).id

    def _line_of_batch(self, request: Request) -> dict[str, Any]:
        """Return the line of a batch's file for a request; results bear its `custom_id`, too."""
        return {
            "custom_id": request.key,
            "method": "POST",
            "url": _CHAT,
            "body": self._payload(request),
        }

    def find(self, batch: "Batch") -> list[str]:
        """Return the ids of the server's batches with the tag of this one; [] if there is none.

        This method is for a batch whose process was killed after the submission and before it noted
        the id.

        Raises:
            RequestError: the list of batches could not be read.
        """
        query = "/batches?limit=100"
        for _ in range(_PAGES):
            page = self._call(BatchPage, "GET", query)
            with_tag = [other.id for other in page.data if other.metadata == {"tag": batch.tag}]
            is_last_page = not (page.has_more and page.data)
            if with_tag or is_last_page:
                return with_tag
            # the next page begins after the last batch of this one
            query = f"/batches?limit=100&after={page.data[-1].id}"
        return []

    def poll(self, batch: "Batch") -> int | Outcomes:
        """Ask how far a batch is: return the number of its requests that are done.

        Once the batch has ended, return pairs (key, outcome) instead, see `_all_outcomes`.

        Raises:
            RequestError: the state or a file of results could not be read.
        """
        state = self._call(BatchObject, "GET", f"/batches/{batch.id}")
        has_ended = state.status in _OUTCOMES
        if has_ended:
            return self._all_outcomes(batch, state)
        counts = state.request_counts or {}
        return counts.get("completed", 0)

    def _all_outcomes(self, batch: "Batch", state: BatchObject) -> Outcomes:
        """Return pairs (key of a request, outcome) for a batch that has ended.

        Each request has a pair with the state in which the batch ended ("expired", "canceled", ...). If
        the server's files have a result of the request, a second pair follows: the `Reply`, or the
        server's words if the request failed.
        """
        ending = _OUTCOMES[state.status]
        if state.errors:
            reason = self.clean(json.dumps(state.errors))
            ending = f"{ending} {reason}"
        outcomes: Outcomes = [(request.key, ending) for request in batch.requests]
        for file_id in (state.output_file_id, state.error_file_id):
            if file_id:
                outcomes += self._outcomes_in_file(file_id)
        return outcomes

    def _outcomes_in_file(self, file_id: str) -> Outcomes:
        """Return the key and the outcome of each request in a file of results."""
        text = self.text("GET", f"/files/{file_id}/content", BATCH_TIMEOUT_S)
        lines = [self.parse_reply(BatchLine, line) for line in text.split("\n") if line.strip()]
        return [(line.custom_id, self._outcome(line)) for line in lines]

    def _outcome(self, line: BatchLine) -> Reply | str:
        """Return the outcome of a request in a batch: its reply, else in words why there is none."""
        error = line.error or {}
        ending = _OUTCOMES.get(str(error.get("code")))  # such as "expired"
        if ending:
            return ending
        # the reply is read from the body; an error of the server takes the body's place
        response = line.response or {}
        return outcome_of(self._reply, response.get("body") or {"error": line.error})

    def _call(self, form: type[Form], method: str, path: str, **content: Any) -> Form:
        """Return the reply to a call about files or batches.

        Args:
            form: the class that the JSON of the reply is read into.
            method: "GET" or "POST".
            path: below the base URL.
            content: the body of the call, as httpx takes it (json=, files=, data=).

        Raises:
            RequestError: the call failed, or the reply has another form.
        """
        return self.parse_reply(form, self.text(method, path, BATCH_TIMEOUT_S, **content))

    def _payload(self, request: Request) -> dict[str, Any]:
        """Return the body of a request, without parameters that the server has refused."""
        payload: dict[str, Any] = {"model": self._model, self._limit_field: request.max_tokens}
        if self._takes_temperature:
            payload["temperature"] = request.temperature
        instruction = ""
        if request.schema is not None and self._takes_schema:
            schema = {"name": "reply", "schema": request.schema, "strict": True}
            payload["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None:
            instruction = (
                "Reply with one JSON object that follows this JSON schema, and nothing else:\n"
                f"{request.schema_text}"
            )
        payload["messages"] = messages(request, extra_system=instruction)
        return payload

    def _adapts_to_refusal(self, failed: RequestError, payload: Mapping[str, Any]) -> bool:
        """Leave out or rename a parameter that the server refuses, from now on; return True if
        there is one, so that the request is sent again.

        Return False if the request failed for another reason.

        `payload` is the body of the failed request. There are three such parameters, so at most three
        requests are refused.
        """
        if failed.status not in _REFUSALS:
            return False
        message = failed.body
        if "max_tokens" in payload and "max_completion_tokens" in message:
            self._limit_field = "max_completion_tokens"
            return True
        if "temperature" in payload and "temperature" in message:
            if self._takes_temperature:  # warn once: another thread may have found it out already
                warn_of_temperature(self.name)
            self._takes_temperature = False
            return True
        if "response_format" in payload and any(mark in message for mark in _SCHEMA_MARKS):
            self._takes_schema = False
            return True
        return False

    def _reply(self, text: str, latency_s: float) -> Reply:
        """Return the reply in a response; raises RequestError if it has another form."""
        reply = self.parse_reply(ChatReply, text)
        choice = reply.choices[0]
        content = choice.message.content or ""
        if isinstance(content, list):
            content = "".join(part.text or "" for part in content)
        finish = _FINISHES.get(choice.finish_reason or "", "stop")
        refusal = choice.message.refusal
        if refusal:  # it takes the place of the content
            content = content or refusal
            finish = "refusal"
        usage = reply.usage or ChatUsage()
        return Reply(
            content,
            reply.model or self._model,
            usage.prompt_tokens,
            usage.completion_tokens,
            latency_s,
            finish,
        )


def warn_of_temperature(name: str) -> None:
    """Warn that a model does not take a temperature."""
    warn_user(
        f"{name} takes no temperature: it runs at its own, and its replies vary from request to "
        "request"
    )
