"""Anthropic's models by the `anthropic` SDK. Retries are ours, so the SDK's are off."""

import json
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ragbench.llms.failures import RequestError, failure_of, refused, scrubbed, unreadable
from ragbench.llms.http import BATCH_TIMEOUT_S, address, in_form
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
_CLOCKS_S = 300.0  # by which two clocks may differ
_TOOL = "give_reply"


class ClaudeBlock(BaseModel):
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


class Claude:
    """One model of Anthropic's. What it turns out not to take is left out from then on."""

    origin = ""

    def __init__(self, model: str, key: str, base_url: str | None) -> None:
        self._model = model
        self._name = f"anthropic:{model}"
        self._base_url = base_url and address(base_url)
        self._takes_temperature = True
        self._takes_schema = True
        self.secrets = (key,)

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Send one request once; raises RequestError."""
        messages = self._client.messages  # before the clock starts
        while True:
            body = self._body(request)
            start = time.perf_counter()
            try:
                sent = self._call(
                    lambda: messages.with_raw_response.create(
                        model=self._model,
                        max_tokens=request.max_tokens,
                        messages=body["messages"],  # noqa: B023
                        # Which others `create` knows differs between versions of the SDK.
                        extra_body=body,  # noqa: B023
                        timeout=timeout_s,
                    ),
                    timeout_s,
                )
                latency_s = time.perf_counter() - start
                return self._reply(sent.http_response.text, latency_s)
            except RequestError as exc:
                if not self._adapted(exc, body):
                    raise

    def submit(self, batch: "Batch") -> str:
        """Submit a batch and return its id; raises RequestError."""
        rows = [{"custom_id": each.key, "params": self._body(each)} for each in batch.requests]
        return str(self._batches("create", requests=rows).id)

    def find(self, batch: "Batch") -> list[str]:
        """Return the ids of batches that may be one that was submitted when its process was killed,
        by its size and time. Raises RequestError.
        """
        return [
            str(other.id)
            for other in self._batches("list", limit=100).data
            if sum(other.request_counts.to_dict().values()) == len(batch.requests)
            and other.created_at.timestamp() + _CLOCKS_S > batch.created
        ]

    def poll(self, batch: "Batch") -> tuple[int, dict[str, Reply | str] | None]:
        """Return how many requests of a batch are done, and once it has ended the reply to each by
        its key, or what became of it; raises RequestError.
        """
        state = self._batches("retrieve", message_batch_id=batch.id)
        if state.processing_status != "ended":
            return len(batch.requests) - state.request_counts.processing, None
        outcomes = dict[str, Reply | str]()
        try:
            lines = [*self._batches("results", message_batch_id=batch.id)]
        except RequestError:
            raise
        except Exception as exc:  # cut, or not JSON: the SDK lets it through
            raise unreadable(self._name, self._clean(str(exc))) from None
        for line in filter(None, lines):
            result = line.result
            outcomes[line.custom_id] = {"succeeded": "unreadable"}.get(result.type, result.type)
            if result.type == "errored":
                outcomes[line.custom_id] = self._clean(f"{result.error.error.message}")
            elif result.type == "succeeded":
                with suppress(RequestError):  # of another form than documented
                    outcomes[line.custom_id] = self._reply(result.message.to_json(), 0.0)
        return len(outcomes), outcomes

    def _batches(self, method: str, **arguments: Any) -> Any:
        call = getattr(self._client.messages.batches, method)
        return self._call(lambda: call(**arguments, timeout=BATCH_TIMEOUT_S), BATCH_TIMEOUT_S)

    @cached_property
    def _client(self) -> Any:
        import anthropic  # takes seconds: only when a request leaves

        client = anthropic.Anthropic(
            api_key=self.secrets[0],
            base_url=self._base_url,
            max_retries=0,
            http_client=Bounds(self._name).client(anthropic.DefaultHttpxClient),
        )
        # The SDK closes it in __del__, which in a cycle may come after the end of its sockets.
        weakref.finalize(self, client.close)
        return client

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_tokens,
            "messages": [{"role": "user", "content": request.prompt}],
        }
        if request.system:
            body["system"] = request.system
        if self._takes_temperature:
            body["temperature"] = request.temperature
        if request.schema is not None and self._takes_schema:
            body["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        elif request.schema is not None:
            tool = {"name": _TOOL, "description": "Give the reply in this form."}
            body["tools"] = [tool | {"input_schema": request.schema}]
            body["tool_choice"] = {"type": "tool", "name": _TOOL}
        return body

    def _call(self, call: Callable[[], Any], timeout_s: float) -> Any:
        import anthropic

        client = self._client
        try:
            return call()
        except anthropic.APIStatusError as exc:
            body = self._clean(exc.response.text)
            failed = refused(self._name, exc.status_code, body, exc.response.headers, _HINTS)
        except anthropic.APIConnectionError as exc:
            cause: Any = exc.__cause__ or exc
            url, way_out = (
                str(client.base_url).rstrip("/"),
                "check the connection, or set RAG_EVAL_ANTHROPIC_BASE_URL",
            )
            failed = failure_of(cause, self._name, self._clean, url, timeout_s, way_out)
        except anthropic.AnthropicError as exc:
            failed = unreadable(self._name, self._clean(str(exc)))
        # out here, so that the SDK's error, which holds the request and its key, is not its context
        raise failed

    def _adapted(self, failed: RequestError, body: dict[str, Any]) -> bool:
        """Return True if the request can be sent in another form after this refusal. Each step goes
        one way, so it ends.
        """
        if failed.status != 400:
            return False
        message = failed.body
        if "temperature" in body and "temperature" in message:
            if self._takes_temperature:
                warn_of_temperature(self._name)
            self._takes_temperature = False
            return True
        if "output_config" in body and any(
            mark in message for mark in ("output_config", "output_format", "structured")
        ):
            self._takes_schema = False  # an older model: a forced tool does the same
            return True
        return False

    def _reply(self, text: str, latency_s: float) -> Reply:
        reply = in_form(ClaudeReply, text, self._name, self._clean)
        parts, usage = [], reply.usage
        for block in reply.content:
            if block.type == "text":
                parts.append(block.text or "")
            elif block.type == "tool_use" and block.name == _TOOL:
                parts.append(json.dumps(block.input, ensure_ascii=False))
        full = dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length")
        # The three are disjoint parts of what was read; all of them are paid for.
        read = (
            usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        )
        return Reply(
            "".join(parts),
            reply.model or self._model,
            read,
            usage.output_tokens,
            latency_s,
            {**full, "refusal": "refusal"}.get(reply.stop_reason or "", "stop"),
        )

    def _clean(self, text: str) -> str:
        return scrubbed(text, self.secrets)
