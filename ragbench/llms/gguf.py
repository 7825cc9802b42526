"""A GGUF file in this process, through llama.cpp as `xllamacpp` brings it (extra `local`)."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, FailureKind, MissingExtraError, require
from ragbench.llms.failures import Failed, refused
from ragbench.llms.http import in_form
from ragbench.llms.ollama import messages
from ragbench.llms.openai import ChatReply, ChatUsage
from ragbench.store.replies import Reply, Request

_BLOCK = 2**20
_BLOCKS = 16
_CONTEXT = 8192

_loaded: dict[str, Any] = {}
_loading = threading.Lock()


class Gguf:
    """One GGUF file. It is loaded by the first request that is not in the reply store, once per
    process.

    Requests run one after another, each from an empty context: batches and kept prefixes change the
    last bits of the logits, and so, sooner or later, a word. `timeout_s` cannot end a request that
    runs inside this process.
    """

    max_concurrency = 1

    def __init__(self, file: Path, context: int) -> None:
        self._file = file
        self._name = f"gguf:{file.name}"
        self._context = context or _CONTEXT
        self.origin = f"{fingerprint(file)} context {self._context}" if file.exists() else ""
        self.secrets: tuple[str, ...] = ()

    def send(self, request: Request, timeout_s: float) -> Reply:
        """One request, tried once; raises Failed."""
        server = self._server()
        asked: dict[str, Any] = {
            "messages": messages(request),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.sample,
            "cache_prompt": False,
        }
        if request.schema is not None:
            asked["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": request.schema},
            }
        start = time.perf_counter()
        try:
            with _loading:  # one at a time, also between two objects of the same file
                body = server.handle_chat_completions(asked)
        except (ValueError, RuntimeError) as exc:
            raise Failed(
                f"{self._name}: the request cannot be run ({exc})", FailureKind.REFUSED
            ) from None
        latency_s = time.perf_counter() - start
        if "error" in body:
            error = body["error"]
            hints = {
                400: "the request does not fit; shorten the prompt, or set RAG_EVAL_GGUF_CONTEXT "
                "to more tokens"
            }
            raise refused(
                self._name, int(error.get("code", 500)), str(error.get("message")), {}, hints
            )
        found = in_form(ChatReply, body, self._name, str)
        choice, usage = found.choices[0], found.usage or ChatUsage()
        finish = "length" if choice.finish_reason == "length" else "stop"
        read, written = usage.prompt_tokens, usage.completion_tokens
        return Reply(
            str(choice.message.content or ""), self._file.name, read, written, latency_s, finish
        )

    def _server(self) -> Any:
        with _loading:
            if self.origin not in _loaded:
                try:
                    xllamacpp = require("xllamacpp", "local")
                except MissingExtraError as exc:
                    raise Failed(f"{self._name}: {exc}", stop=True) from None
                parameters = xllamacpp.CommonParams()
                parameters.model.path = str(self._file)
                parameters.n_ctx = self._context
                parameters.n_parallel = 1
                parameters.cache_ram_mib = 0
                # Its threads wait for each other by spinning: with one more than there are free
                # cores they crawl, and a sweep has other processes. On two busy cores one thread
                # was eight times as fast as two.
                threads = max(1, (os.cpu_count() or 2) // 2)
                parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
                parameters.verbosity = -1
                try:
                    _loaded[self.origin] = xllamacpp.Server(parameters)
                except (RuntimeError, ValueError) as exc:
                    reason = (
                        f"{self._file} cannot be loaded ({exc}); is it a whole GGUF file of "
                        "a chat model?"
                    )
                    raise Failed(f"{self._name}: {reason}", stop=True) from None
            return _loaded[self.origin]


def check_file(file: Path) -> None:
    """ConfigError unless there is a GGUF file and what reads it."""
    try:
        with file.open("rb") as opened:
            magic = opened.read(4)
    except OSError as exc:
        raise ConfigError(
            f"gguf:{file}: there is no such file to read ({exc.strerror}); download the model's "
            ".gguf file, and give its path"
        ) from exc
    if magic != b"GGUF":
        raise ConfigError(
            f"gguf:{file}: this is not a GGUF file (it starts with {magic!r}); give a file *.gguf"
        )
    require("xllamacpp", "local")


def fingerprint(file: Path) -> str:
    """16 hex digits that tell model files apart: a hash of the size and of blocks spread over the
    file.

    The whole of a large model would take a minute to read; another training changes every block.
    """
    size = file.stat().st_size
    sha = hashlib.sha256(str(size).encode())
    with file.open("rb") as opened:
        for number in range(_BLOCKS):
            opened.seek(max(0, size - _BLOCK) * number // (_BLOCKS - 1))
            sha.update(opened.read(_BLOCK))
    return sha.hexdigest()[:16]
