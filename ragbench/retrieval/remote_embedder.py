"""Embedders of a server: `openai:<model>` of any OpenAI-compatible one, `ollama:<model>`.

They go the way of language models: each vector is kept in the reply store, texts that are not there
are sent in batches, within the budget, and a dry run counts them. Addresses and keys are those of
the language models (`RAG_EVAL_OPENAI_BASE_URL`, ...); `openai:<model>@https://host/v1` names
another server.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, model_validator

from ragbench.errors import ConfigError, ModelError
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.failures import unreadable
from ragbench.llms.ollama import Tokens
from ragbench.llms.openai import ChatUsage
from ragbench.llms.providers import connection_of
from ragbench.llms.stored_llm import StoredLLM
from ragbench.store import replies
from ragbench.store.replies import Reply, Request

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragbench.llms.http import Server
    from ragbench.types import FloatArray

_STAND_IN = 8  # components of a vector in a dry run
_Number = Annotated[float, Field(strict=True, ge=-3e38, le=3e38)]  # as float32 and finite
_Vector = Annotated[list[_Number], Field(min_length=1)]


class Embedding(BaseModel):
    embedding: _Vector
    index: int | None = None


class EmbeddingReply(BaseModel):
    data: list[Embedding]
    usage: ChatUsage | None = None
    model: str | None = None

    @model_validator(mode="after")
    def _in_order(self) -> EmbeddingReply:
        self.data.sort(key=lambda row: row.index or 0)
        if {row.index for row in self.data} not in ({None}, set(range(len(self.data)))):
            raise ValueError("the indices are not 0, 1, ...")
        return self


class OllamaEmbeddings(BaseModel):
    embeddings: list[_Vector]
    prompt_eval_count: Tokens = 0
    model: str | None = None


class Remote:
    """A model of a server, as `TextEmbedder` needs it. `dimension` is 0 until a vector has come."""

    max_tokens = None  # a text that is too long is refused, not cut

    def __init__(self, name: str) -> None:
        provider, _, model = name.partition(":")
        model, _, url = model.partition("@")
        if not model:
            raise ConfigError(
                f"embedder {name!r} names no model; write 'openai:text-embedding-3-small'"
            )
        self._provider, self._model_name = provider, model
        self._client = _Client(provider, model, url)
        self._llm = StoredLLM(provider, model, self._client)
        self.dimension = 0

    @property
    def identity(self) -> str:
        """Return what names the model and, where that does not suffice, its server."""
        return f"embeddings of {self._provider}:{self._model_name} at {self._client.origin}"

    @property
    def is_stand_in(self) -> bool:
        """Return True if vectors are stand-ins, which must not be kept."""
        return active_dry_run() is not None

    def check(self) -> None:
        """Raise ConfigError where a maximum cost is set and the price is unknown."""
        self._llm.check_budget()

    def embed(self, texts: list[str], role: str) -> FloatArray:
        """Return one row for each text, from the store, and from the server where it is not there."""
        self.check()
        requests = [self._request(text) for text in texts]
        stored = self._llm.lookup_many(requests)
        with_text = [i for i, text in enumerate(texts) if text.strip()]
        missing = [i for i in with_text if stored[i] is None]
        if plan := active_dry_run():
            planned = [requests[i] for i in with_text]
            plan.complete(
                self._llm.name,
                planned,
                [stored[i] for i in with_text],
                shared=self._llm.settings.replies != "off",
            )
            return np.random.default_rng(0).random((len(texts), _STAND_IN), dtype=np.float32)
        vectors = {
            i: np.frombuffer(base64.b64decode(vectors_of.text), dtype="<f4")
            for i in with_text
            if (vectors_of := stored[i]) is not None
        }
        if missing and self._llm.settings.replies == "offline":
            self._llm.fetch(requests[missing[0]])  # raises, and names it
        if missing:
            vectors |= dict(zip(missing, self._sent([requests[i] for i in missing]), strict=True))
        self.dimension = self.dimension or len(next(iter(vectors.values()), ()))
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for i, vector in vectors.items():
            if len(vector) != self.dimension:
                raise ModelError(
                    f"{self._llm.name} gave vectors of {len(vector)} and {self.dimension} "
                    "components"
                )
            rows[i] = vector
        return rows

    def _request(self, text: str) -> Request:
        return Request(
            self._provider, self._model_name, text, "embedding", 1, origin=self._client.origin
        )

    def _sent(self, requests: list[Request]) -> list[npt.NDArray[np.float32]]:
        """Return the vectors of one batch, each kept in the store with its part of the tokens."""
        prompt = json.dumps([request.prompt for request in requests])
        reply = self._llm.send(Request(self._provider, self._model_name, prompt, "embedding", 1))
        vectors = json.loads(reply.text)
        sizes = [len(request.prompt.encode()) for request in requests]
        for request, vector, size in zip(requests, vectors, sizes, strict=True):
            part = round(reply.input_tokens * size / sum(sizes))
            coded = base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()
            seconds = reply.latency_s / len(requests)
            single = Reply(coded, reply.served, part, 0, seconds, "stop")
            if self._llm.settings.replies == "on":
                replies.store(request, single)
        return [np.array(vector, dtype=np.float32) for vector in vectors]


class _Client:
    """Sends one batch, once: a JSON list of texts for a JSON list of vectors."""

    def __init__(self, provider: str, model: str, url: str) -> None:
        self._server: Server
        self._server, self.origin = connection_of(provider, model, url)
        self.secrets = self._server.secrets
        self._model, self._is_ollama = model, provider == "ollama"

    def send(self, request: Request, timeout_s: float) -> Reply:
        texts, start = json.loads(request.prompt), time.perf_counter()
        payload: dict[str, Any] = {"model": self._model, "input": texts}
        path = "/api/embed" if self._is_ollama else "/embeddings"
        payload |= {"truncate": False} if self._is_ollama else {"encoding_format": "float"}
        body = self._server.post(path, payload, timeout_s)
        if self._is_ollama:
            local = self._server.read(OllamaEmbeddings, body)
            vectors, read, served = local.embeddings, local.prompt_eval_count, local.model
        else:
            parsed = self._server.read(EmbeddingReply, body)
            vectors, served = [row.embedding for row in parsed.data], parsed.model
            read = parsed.usage.prompt_tokens if parsed.usage else 0
        sizes = sorted({len(vector) for vector in vectors})
        if len(vectors) != len(texts) or len(sizes) != 1:
            received = (
                f"{len(vectors)} vectors of {', '.join(map(str, sizes))} components "
                f"for {len(texts)} texts"
            )
            failed = unreadable(self._server.name, self._server.clean(json.dumps(body)))
            raise failed.reworded(
                f"{self._server.name}: the server's reply cannot be read: {received}"
            )
        return Reply(
            json.dumps(vectors), served or self._model, read, 0, time.perf_counter() - start, "stop"
        )
