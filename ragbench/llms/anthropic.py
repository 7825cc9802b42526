"""Anthropic's models by the `anthropic` SDK. Retries are ours, so the SDK's are off."""

from __future__ import annotations

import base64
import json
import threading
import time
import weakref
from typing import Any
from urllib.parse import unquote, urlsplit

from ragbench.cache.replies import Reply, Request
from ragbench.llms.failures import Failed, cut, out_of_bounds, refused, scrubbed, timed_out, unreachable, unreadable
from ragbench.llms.http import address
from ragbench.llms.ollama import tokens
from ragbench.llms.openai import warn_of_temperature
from ragbench.network import Bounds, OutOfBoundsError

_HINTS = {
    401: "the key was refused; set RAG_EVAL_ANTHROPIC_API_KEY or ANTHROPIC_API_KEY to a valid one",
    403: "the key may not use this model; name another, or set RAG_EVAL_ANTHROPIC_API_KEY to another key",
    404: "no such model; set RAG_EVAL_ANTHROPIC_MODEL, or name another one as 'anthropic:<model>'",
}
_TOOL = "give_reply"


class Claude:
    """One model of Anthropic's. What it turns out not to take is left out from then on."""

    origin = ""
    max_concurrency = None

    def __init__(self, model: str, key: str, base_url: str | None) -> None:
        self._model = model
        self._name = f"anthropic:{model}"
        parts = urlsplit(base_url or "")
        # User and password go into a header: the SDK logs addresses as they are, but no authorization.
        self._base_url = base_url and address(base_url)
        self._user, password = parts.username or "", unquote(parts.password or "")
        self._lock = threading.Lock()
        self._client: Any = None
        self._takes_temperature = True
        self._takes_schema = True
        self.secrets = (key, password)

    def send(self, request: Request, timeout_s: float) -> Reply:
        """One request, tried once; raises Failed."""
        client = self._connected()
        while True:
            extra = self._extra(request)
            start = time.perf_counter()
            try:
                body = self._exchange(client, request, extra, timeout_s)
            except Failed as exc:
                if self._adapted(exc, extra):
                    continue
                raise
            return self._reply(body, time.perf_counter() - start)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                import anthropic  # takes seconds: only when a request leaves

                key, password = self.secrets
                bounds = Bounds(self._name)
                self._client = anthropic.Anthropic(
                    api_key=key, base_url=self._base_url, max_retries=0, default_headers=_basic(self._user, password),
                    http_client=bounds.apply(anthropic.DefaultHttpxClient(**bounds.options())),
                )  # fmt: skip
                # The SDK closes it in __del__, which in a cycle may come after the end of its sockets.
                weakref.finalize(self, self._client.close)
            return self._client

    def _extra(self, request: Request) -> dict[str, Any]:
        # In the body rather than as arguments: which of them `create` knows differs between versions of the SDK.
        extra: dict[str, Any] = {}
        if request.system:
            extra["system"] = request.system
        if self._takes_temperature:
            extra["temperature"] = request.temperature
        if request.schema is not None and self._takes_schema:
            extra["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        elif request.schema is not None:
            described = "Give the reply in this form."
            extra["tools"] = [{"name": _TOOL, "description": described, "input_schema": request.schema}]
            extra["tool_choice"] = {"type": "tool", "name": _TOOL}
        return extra

    def _exchange(self, client: Any, request: Request, extra: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        import anthropic

        failed: Failed | None = None
        try:
            message = client.messages.create(
                model=self._model,
                max_tokens=request.max_tokens,
                messages=[{"role": "user", "content": request.prompt}],
                extra_body=extra,
                timeout=timeout_s,
            )
            found = message.model_dump(warnings=False)
        except anthropic.APIStatusError as exc:
            body = self._clean(exc.response.text)
            failed = refused(self._name, exc.status_code, body, exc.response.headers, _HINTS)
        except anthropic.APITimeoutError:
            failed = timed_out(self._name, timeout_s)
        except anthropic.APIConnectionError as exc:
            reason = self._clean(str(exc.__cause__ or exc))
            if isinstance(exc.__cause__, OutOfBoundsError):
                failed = out_of_bounds(exc.__cause__, reason)
            elif type(exc.__cause__).__name__ in ("ConnectError", "ConnectTimeout"):
                address = self._clean(str(client.base_url.copy_with(userinfo=b"", query=None))).rstrip("/")
                way_out = "check the connection, or set RAG_EVAL_ANTHROPIC_BASE_URL"
                failed = unreachable(self._name, address, reason, way_out)
            else:
                failed = cut(self._name, reason)
        except (anthropic.AnthropicError, ValueError, AttributeError, TypeError) as exc:
            # A body that is not JSON comes out of the SDK as an error of the parser, or as a bare string.
            failed = unreadable(self._name, self._clean(str(exc)))
        if failed is not None:
            raise failed  # out here, so that the SDK's error, which holds the request and its key, is not its context
        return dict(found)

    def _adapted(self, failed: Failed, extra: dict[str, Any]) -> bool:
        """Whether the request can be sent in another form after this refusal. Each step goes one way, so it ends."""
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

    def _reply(self, body: dict[str, Any], latency_s: float) -> Reply:
        blocks, usage = body.get("content"), body.get("usage")
        if not isinstance(blocks, list) or not isinstance(usage, dict):
            raise unreadable(self._name, self._clean(str(body)))
        parts = []
        for block in blocks:
            if block.get("type") == "text":
                parts.append(str(block.get("text", "")))
            elif block.get("type") == "tool_use" and block.get("name") == _TOOL:
                parts.append(json.dumps(block.get("input"), ensure_ascii=False))
        stopped = str(body.get("stop_reason"))
        finish = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}
        # The three are disjoint parts of what was read; all of them are paid for.
        read = sum(tokens(usage.get(f"{kind}input_tokens")) for kind in ("", "cache_creation_", "cache_read_"))
        return Reply(
            "".join(parts), str(body.get("model") or self._model), read, tokens(usage.get("output_tokens")), latency_s,
            finish.get(stopped, "stop"),
        )  # fmt: skip

    def _clean(self, text: str) -> str:
        return scrubbed(text, self.secrets)


def _basic(user: str, password: str) -> dict[str, str]:
    """The header for a user and a password in an address; none without them."""
    if not user and not password:
        return {}
    pair = f"{unquote(user)}:{password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
