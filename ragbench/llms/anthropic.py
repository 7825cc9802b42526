"""Anthropic's models by the `anthropic` SDK. Retries are ours, so the SDK's are off."""

import json
import time
import weakref
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from ragbench.llms.failures import RequestError, failure_of, refused, scrubbed, unreadable
from ragbench.llms.http import address, in_form
from ragbench.llms.ollama import Tokens
from ragbench.llms.openai import warn_of_temperature
from ragbench.network import Bounds
from ragbench.store.replies import Reply, Request

_HINTS = {
    401: "the key was refused; set RAG_EVAL_ANTHROPIC_API_KEY or ANTHROPIC_API_KEY to a valid one",
    403: "the key may not use this model; name another, or set RAG_EVAL_ANTHROPIC_API_KEY to "
    "another key",
    404: "no such model; set RAG_EVAL_ANTHROPIC_MODEL, or name another one as 'anthropic:<model>'",
}
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
        client = self._client  # before the clock starts
        while True:
            extra = self._extra(request)
            start = time.perf_counter()
            try:
                reply = self._exchange(client, request, extra, timeout_s)
                return self._reply(reply, time.perf_counter() - start)
            except RequestError as exc:
                if not self._adapted(exc, extra):
                    raise

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

    def _extra(self, request: Request) -> dict[str, Any]:
        # In the body rather than as arguments: which of them `create` knows differs between
        # versions of the SDK.
        extra: dict[str, Any] = {}
        if request.system:
            extra["system"] = request.system
        if self._takes_temperature:
            extra["temperature"] = request.temperature
        if request.schema is not None and self._takes_schema:
            extra["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        elif request.schema is not None:
            tool = {"name": _TOOL, "description": "Give the reply in this form."}
            extra["tools"] = [tool | {"input_schema": request.schema}]
            extra["tool_choice"] = {"type": "tool", "name": _TOOL}
        return extra

    def _exchange(
        self, client: Any, request: Request, extra: dict[str, Any], timeout_s: float
    ) -> ClaudeReply:
        import anthropic

        text = ""
        try:
            reply = client.messages.with_raw_response.create(
                model=self._model,
                max_tokens=request.max_tokens,
                messages=[{"role": "user", "content": request.prompt}],
                extra_body=extra,
                timeout=timeout_s,
            )
            text, failed = reply.http_response.text, None
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
        if failed is not None:
            # out here, so that the SDK's error, which holds the request and its key, is not its
            # context
            raise failed
        return in_form(ClaudeReply, text, self._name, self._clean)

    def _adapted(self, failed: RequestError, extra: dict[str, Any]) -> bool:
        """Return True if the request can be sent in another form after this refusal. Each step goes
        one way, so it ends.
        """
        if failed.status != 400:
            return False
        message = failed.body
        if "temperature" in extra and "temperature" in message:
            if self._takes_temperature:
                warn_of_temperature(self._name)
            self._takes_temperature = False
            return True
        if "output_config" in extra and any(
            mark in message for mark in ("output_config", "output_format", "structured")
        ):
            self._takes_schema = False  # an older model: a forced tool does the same
            return True
        return False

    def _reply(self, reply: ClaudeReply, latency_s: float) -> Reply:
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
