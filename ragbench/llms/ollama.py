"""Requests to Ollama by its own HTTP interface, POST /api/chat, and the context window that they
ask for.
"""

import threading
import time
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from ragbench.llms.http import Server
from ragbench.store.replies import Reply, Request

_SMALLEST_CONTEXT = 4096


def tokens(count: object) -> int:
    """Return a server's usage figure; 0 without one."""
    if isinstance(count, int) and 0 <= count < 2**53:
        return count
    return 0


Tokens = Annotated[int, BeforeValidator(tokens)]
"""A server's usage figure."""


class OllamaMessage(BaseModel):
    content: str


class OllamaReply(BaseModel):
    message: OllamaMessage
    model: str | None = None
    done_reason: str | None = None
    prompt_eval_count: Tokens = 0
    eval_count: Tokens = 0


class Ollama(Server):
    """One model of one Ollama server."""

    def __init__(self, model: str, base_url: str) -> None:
        """Open a client of the model at an address."""
        missing = f"no such model; run `ollama pull {model}`, or set RAG_EVAL_OLLAMA_MODEL to one that is there"
        super().__init__(
            f"ollama:{model}",
            base_url,
            key=None,
            hints={404: missing},
            way_out="start it with `ollama serve`, or set RAG_EVAL_OLLAMA_BASE_URL to where it runs",
        )
        self.origin = self.address
        self._model = model
        self._context = _SMALLEST_CONTEXT  # tokens of the context window; see `_context_for`
        self._lock = threading.Lock()

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Return the reply to a request; raises RequestError."""
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": messages(request),
            "stream": False,
            "options": {
                "temperature": request.temperature,
                "num_predict": request.max_tokens,
                "seed": request.sample,
                "num_ctx": self._context_for(request),
            },
        }
        if request.schema is not None:
            payload["format"] = request.schema
        start = time.perf_counter()
        reply = self.post("/api/chat", payload, timeout_s, OllamaReply)
        latency_s = time.perf_counter() - start
        finish = "length" if reply.done_reason == "length" else "stop"
        return Reply(
            reply.message.content,
            reply.model or self._model,
            reply.prompt_eval_count,
            reply.eval_count,
            latency_s,
            finish,
        )

    def _context_for(self, request: Request) -> int:
        """Return the context window to ask for, in tokens. (Ollama cuts a longer prompt without an
        error.)

        The window only grows, in powers of two, because each change makes Ollama load the model
        again. Prose in any script has at least three bytes per token.
        """
        n_bytes = len(request.prompt.encode()) + len((request.system or "").encode())
        needed = n_bytes // 3 + request.max_tokens + 256
        with self._lock:
            while self._context < needed:
                self._context *= 2
            return self._context


def messages(request: Request, *, extra_system: str = "") -> list[dict[str, str]]:
    """Return the messages of a chat: the system message, to which `extra_system` is added, if there is
    one, and the user's.
    """
    user_message = {"role": "user", "content": request.prompt}
    system = "\n\n".join(part for part in (request.system, extra_system) if part)
    if not system:
        return [user_message]
    return [{"role": "system", "content": system}, user_message]
