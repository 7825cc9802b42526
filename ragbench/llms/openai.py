"""Any OpenAI-compatible server: POST /chat/completions below its base URL."""

import json
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from ragbench.errors import DataWarning
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
_ENDINGS = {
    "completed": "no result",
    "failed": "refused",
    "expired": "expired",
    "batch_expired": "expired",
    "cancelled": "canceled",
    "batch_cancelled": "canceled",
}
"""The states of a batch that has ended, and codes of requests without a reply -> what became of
them."""
_PAGES = 100  # of a hundred batches each
HOSTED = "https://api.openai.com/v1"
_SCHEMA_MARKS = "response_format json_schema schema grammar structured".split()


class ChatPart(BaseModel):
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
    """One model of one server. A parameter that the server refuses is left out from then on."""

    def __init__(self, model: str, base_url: str, key: str | None) -> None:
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
        self._limit = "max_tokens"
        self._takes_temperature = True
        self._takes_schema = True
        self.origin = self.address

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Send one request once; raises RequestError."""
        while True:
            start = time.perf_counter()
            payload = self._payload(request)
            try:
                text = self.text("POST", "/chat/completions", timeout_s, json=payload)
                return self._reply(text, time.perf_counter() - start)
            except RequestError as exc:
                if not self._adapted(exc, payload):
                    raise

    def submit(self, batch: "Batch") -> str:
        """Submit a batch and return its id; raises RequestError."""
        rows = [
            {"custom_id": each.key, "method": "POST", "url": _CHAT, "body": self._payload(each)}
            for each in batch.requests
        ]
        file = ("batch.jsonl", "\n".join(map(json.dumps, rows)).encode())
        form = {"data": {"purpose": "batch"}, "files": {"file": file}}
        content = {
            "input_file_id": self._asked(BatchObject, "POST", "/files", **form).id,
            "endpoint": _CHAT,
            "completion_window": "24h",
            "metadata": {"tag": batch.tag},
        }
        return self._asked(BatchObject, "POST", "/batches", json=content).id

    def find(self, batch: "Batch") -> list[str]:
        """Return the id of a batch that was submitted when its process was killed, by its tag. Raises
        RequestError.
        """
        query = "/batches?limit=100"
        for _ in range(_PAGES):
            page = self._asked(BatchPage, "GET", query)
            mine = [other for other in page.data if other.metadata == {"tag": batch.tag}]
            if mine or not (page.has_more and page.data):
                return [other.id for other in mine]
            query = f"/batches?limit=100&after={page.data[-1].id}"
        return []

    def poll(self, batch: "Batch") -> int | Outcomes:
        """Return the number of requests of a batch that are done; once the batch has ended, pairs
        (key, outcome) instead. Raises RequestError.

        The first pair of each request has the state in which the batch ended, with the server's
        errors; a second one, if a file of results has the request, has the `Reply`, the server's
        words if the request failed, or "expired" or "canceled".
        """
        state = self._asked(BatchObject, "GET", f"/batches/{batch.id}")
        if state.status not in _ENDINGS:
            return (state.request_counts or {}).get("completed", 0)
        reason = self.clean(json.dumps(state.errors)) if state.errors else ""
        ending = f"{_ENDINGS[state.status]} {reason}".strip()
        outcomes: Outcomes = [(each.key, ending) for each in batch.requests]
        for file in filter(None, (state.output_file_id, state.error_file_id)):
            text = self.text("GET", f"/files/{file}/content", BATCH_TIMEOUT_S)
            for content in filter(str.strip, text.split("\n")):
                line = self.in_form(BatchLine, content)
                code = str((line.error or {}).get("code"))
                body = (line.response or {}).get("body") or {"error": line.error}
                outcome = _ENDINGS.get(code) or outcome_of(self._reply, body)
                outcomes.append((line.custom_id, outcome))
        return outcomes

    def _asked(self, form: type[Form], method: str, path: str, **content: Any) -> Form:
        return self.in_form(form, self.text(method, path, BATCH_TIMEOUT_S, **content))

    def _payload(self, request: Request) -> dict[str, Any]:
        payload: dict[str, Any] = {"model": self._model, self._limit: request.max_tokens}
        if self._takes_temperature:
            payload["temperature"] = request.temperature
        instruction = ""
        if request.schema is not None and self._takes_schema:
            named = {"name": "reply", "schema": request.schema, "strict": True}
            payload["response_format"] = {"type": "json_schema", "json_schema": named}
        elif request.schema is not None:
            instruction = (
                "Reply with one JSON object that follows this JSON schema, and nothing else:\n"
                f"{request.schema_text}"
            )
        payload["messages"] = messages(request, extra_system=instruction)
        return payload

    def _adapted(self, failed: RequestError, payload: Mapping[str, Any]) -> bool:
        """Return True if the request can be sent in another form after this refusal. Each step goes
        one way, so it ends.
        """
        if failed.status not in (400, 422, 501):
            return False
        message = failed.body
        if "max_tokens" in payload and "max_completion_tokens" in message:
            self._limit = "max_completion_tokens"
            return True
        if "temperature" in payload and "temperature" in message:
            if self._takes_temperature:
                warn_of_temperature(self.name)
            self._takes_temperature = False
            return True
        if "response_format" in payload and any(mark in message for mark in _SCHEMA_MARKS):
            self._takes_schema = False
            return True
        return False

    def _reply(self, text: str, latency_s: float) -> Reply:
        reply = self.in_form(ChatReply, text)
        choice, usage = reply.choices[0], reply.usage or ChatUsage()
        content, refusal = choice.message.content or "", choice.message.refusal
        text = content if isinstance(content, str) else "".join(part.text or "" for part in content)
        finish = {"length": "length", "content_filter": "refusal"}.get(
            choice.finish_reason or "", "stop"
        )
        if refusal:
            text, finish = text or refusal, "refusal"
        counts = usage.prompt_tokens, usage.completion_tokens
        return Reply(text, reply.model or self._model, *counts, latency_s, finish)


def warn_of_temperature(name: str) -> None:
    """Warn that a model takes no temperature."""
    warnings.warn(
        f"{name} takes no temperature: it runs at its own, and its replies vary from request to "
        "request",
        DataWarning,
        stacklevel=2,
    )
