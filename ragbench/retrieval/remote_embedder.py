"""Embedders of a server: `openai:<model>` of any OpenAI-compatible one, `ollama:<model>`.

They are requested as replies of language models are: each vector is kept in the reply store, other
texts are sent in batches, within the budget, and a dry run counts them. Addresses and keys are the
same as for language models (`RAG_EVAL_OPENAI_BASE_URL`, ...); `openai:<model>@https://host/v1`
names another server.
"""

from __future__ import annotations

import base64
import json
import time
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, model_validator

from ragbench.array_types import FloatArray
from ragbench.errors import ConfigError, ModelError
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.failures import unreadable
from ragbench.llms.ollama import Tokens
from ragbench.llms.openai import ChatUsage
from ragbench.llms.providers import connection_of
from ragbench.llms.stored_llm import StoredLLM
from ragbench.store import replies
from ragbench.store.replies import EMBEDDING, Reply, Request

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
        self._provider, _, model = name.partition(":")
        self._model_name, _, url = model.partition("@")
        if not self._model_name:
            raise ConfigError(
                f"embedder {name!r} names no model; write 'openai:text-embedding-3-small'"
            )
        self._server, self.origin = connection_of(self._provider, self._model_name, url)
        self.secrets = self._server.secrets
        self._llm = StoredLLM(self._provider, self._model_name, self)
        self.check = self._llm.check_budget
        self.dimension = 0

    @property
    def identity(self) -> str:
        """Return the name of the model and its server; "" in a dry run, whose vectors must not be kept."""
        return "" if active_dry_run() else f"embeddings of {self._llm.name} at {self.origin}"

    def embed(self, texts: list[str], role: str) -> FloatArray:
        """Return one row for each text, from the store or else from the server; a blank text has a row
        of zeros. In a dry run, which sends nothing, the rows are random numbers.

        Raises:
            ModelError: the server returns vectors of different sizes, or a vector is not in the store
                and no request may be sent.
        """
        requests = [self._request(text) for text in texts if text.strip()]
        stored = self._llm.known(requests)
        if active_dry_run():
            return np.random.default_rng(0).random((len(texts), _STAND_IN), dtype=np.float32)
        coded: dict[str, str] = {}  # text -> its vector in base64
        missing = []
        for request, reply in zip(requests, stored, strict=True):
            if reply:
                coded[request.prompt] = reply.text
            if reply is None:
                missing.append(request)
        if missing and self._llm.settings.replies == "offline":
            self._llm.fetch(missing[0])  # raises, and names the missing text
        if missing:
            coded |= self._send_and_store(missing)
        vectors = {}
        for text, code in coded.items():
            vectors[text] = np.frombuffer(base64.b64decode(code), dtype="<f4")
        sizes = {len(vector) for vector in vectors.values()}
        if self.dimension:
            sizes.add(self.dimension)
        sizes.discard(0)
        if len(sizes) > 1:
            raise ModelError(
                f"{self._llm.name} returned vectors of {' and '.join(map(str, sizes))} components"
            )
        self.dimension = max(sizes, default=0)
        blank = np.zeros(self.dimension, dtype=np.float32)
        return np.stack([vectors.get(text, blank) for text in texts])

    def _request(self, prompt: str) -> Request:
        return Request(self._provider, self._model_name, prompt, EMBEDDING, 1, origin=self.origin)

    def _send_and_store(self, requests: list[Request]) -> dict[str, str]:
        """Send texts in one batch and return text -> vector in base64.

        Each vector is kept in the store. The tokens of the batch are divided among the texts by
        their bytes, its time equally.
        """
        texts = [request.prompt for request in requests]
        reply = self._llm.send(self._request(json.dumps(texts)))
        vectors = json.loads(reply.text)
        n_bytes = [len(text.encode()) for text in texts]
        seconds = reply.latency_s / len(requests)
        coded = {}
        for request, vector, size in zip(requests, vectors, n_bytes, strict=True):
            code = base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()
            coded[request.prompt] = code
            if self._llm.settings.replies == "on":
                n_tokens = round(reply.input_tokens * size / sum(n_bytes))
                single = reply._replace(text=code, input_tokens=n_tokens, latency_s=seconds)
                replies.store(request, single)
        return coded

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Send one batch, once. The prompt of the request is a JSON list of texts, the text of the
        reply a JSON list of their vectors.

        Raises:
            ModelError: the request failed, or the reply has not one vector of the same size for each
                text.
        """
        texts = json.loads(request.prompt)
        start = time.perf_counter()
        payload: dict[str, Any] = {"model": request.model, "input": texts}
        if request.provider == "ollama":
            payload["truncate"] = False
            local = self._server.post("/api/embed", payload, timeout_s, OllamaEmbeddings)
            vectors = local.embeddings
            n_tokens = local.prompt_eval_count
            served = local.model
        else:
            payload["encoding_format"] = "float"
            parsed = self._server.post("/embeddings", payload, timeout_s, EmbeddingReply)
            vectors = [row.embedding for row in parsed.data]
            n_tokens = parsed.usage.prompt_tokens if parsed.usage else 0
            served = parsed.model
        sizes = sorted({len(vector) for vector in vectors})
        if len(vectors) != len(texts) or len(sizes) != 1:
            received = f"{len(vectors)} vectors of {sizes} components for {len(texts)} texts"
            raise unreadable(self._server.name, received)
        seconds = time.perf_counter() - start
        return Reply(json.dumps(vectors), served or request.model, n_tokens, 0, seconds, "stop")
