"""Embedders of a server, `openai:<model>` of any OpenAI-compatible one and `ollama:<model>`:
batches of texts, and how vectors of a reply are read and stored.

They are requested as replies of language models are: each vector is kept in the reply store, other
texts are sent in batches, within the budget, and a dry run counts them. Addresses and keys are the
same as for language models (`RAG_EVAL_OPENAI_BASE_URL`, ...); `openai:<model>@https://host/v1`
names another server.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

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

_DRY_RUN_COMPONENTS = 8  # of a vector in a dry run
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
        """Sort the vectors by their indices, which are 0, 1, ..., or all missing."""
        self.data.sort(key=lambda row: row.index or 0)
        if {row.index for row in self.data} not in ({None}, set(range(len(self.data)))):
            raise ValueError("the indices are not 0, 1, ...")
        return self


class OllamaEmbeddings(BaseModel):
    embeddings: list[_Vector]
    prompt_eval_count: Tokens = 0
    model: str | None = None


class _Batch(NamedTuple):
    """The reply of a server to a batch of texts."""

    vectors: list[list[float]]
    n_tokens: int
    model: str | None  # as the server calls it


class Remote:
    """A model of a server, as `TextEmbedder` needs it. `dimension` is 0 until a vector has come."""

    max_tokens = None  # a text that is too long is refused, not cut

    def __init__(self, name: str) -> None:
        """Connect with the server of a name "provider:model", or "provider:model@address"; nothing is
        sent yet.
        """
        self._provider, _, model_and_address = name.partition(":")
        self._model_name, _, address = model_and_address.partition("@")  # "": of the environment
        if not self._model_name:
            raise ConfigError(
                f"embedder {name!r} names no model; write 'openai:text-embedding-3-small'"
            )
        self._server, self.origin = connection_of(self._provider, self._model_name, address)
        self.secrets = self._server.secrets
        # it stores the replies, keeps to the budget and repeats requests; it sends by `self.send`
        self._llm = StoredLLM(self._provider, self._model_name, self)
        self.dimension = 0

    def check(self) -> None:
        """Raise ConfigError if a maximum cost is set and the price of the model is unknown."""
        self._llm.check_budget()

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
        # the stored reply of each request, None without one; a dry run counts the requests here
        stored = self._llm.known(requests)
        if active_dry_run():
            random = np.random.default_rng(0)
            return random.random((len(texts), _DRY_RUN_COMPONENTS), dtype=np.float32)
        code_of: dict[str, str] = {}  # text -> its vector in base64
        missing: list[Request] = []
        for request, reply in zip(requests, stored, strict=True):
            if reply is None:
                missing.append(request)
            else:
                code_of[request.prompt] = reply.text
        if missing and self._llm.settings.replies == "offline":
            self._llm.fetch(missing[0])  # raises, and names the missing text
        if missing:
            code_of |= self._send_and_store(missing)
        vector_of = {text: _decoded(code) for text, code in code_of.items()}
        self._set_dimension(vector_of.values())
        # the row of texts that were not sent
        blank = np.zeros(self.dimension, dtype=np.float32)
        return np.stack([vector_of.get(text, blank) for text in texts])

    def _set_dimension(self, vectors: Iterable[FloatArray]) -> None:
        """Set `dimension` to the size of the vectors; ModelError if they have different sizes, or another
        size than earlier vectors.
        """
        sizes = {len(vector) for vector in vectors}
        if self.dimension:
            sizes.add(self.dimension)
        sizes.discard(0)
        if len(sizes) > 1:
            raise ModelError(
                f"{self._llm.name} returned vectors of {' and '.join(map(str, sizes))} components"
            )
        self.dimension = max(sizes, default=0)

    def _request(self, prompt: str) -> Request:
        """Return a request for the vector of a text, or of a JSON list of texts (see `send`)."""
        return Request(self._provider, self._model_name, prompt, EMBEDDING, 1, origin=self.origin)

    def _send_and_store(self, requests: list[Request]) -> dict[str, str]:
        """Send the texts of these requests in one batch and return text -> vector in base64.

        Each vector is stored as the reply to a request for its text alone. The tokens of the batch are
        divided among the texts by their bytes, its time evenly.
        """
        texts = [request.prompt for request in requests]
        reply = self._llm.send(self._request(json.dumps(texts)))
        vectors = json.loads(reply.text)
        sizes = [len(text.encode()) for text in texts]
        seconds = reply.latency_s / len(requests)
        code_of = {}
        for request, vector, size in zip(requests, vectors, sizes, strict=True):
            code = _coded(vector)
            code_of[request.prompt] = code
            if self._llm.settings.replies == "on":  # the user wants replies to be stored
                n_tokens = round(reply.input_tokens * size / sum(sizes))
                single = reply._replace(text=code, input_tokens=n_tokens, latency_s=seconds)
                replies.store(request, single)
        return code_of

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Send one batch, once. The prompt of the request is a JSON list of texts, the text of the
        reply a JSON list of their vectors.

        Raises:
            ModelError: the request failed, or the reply has not one vector of the same size for each
                text.
        """
        texts = json.loads(request.prompt)
        start = time.perf_counter()
        if request.provider == "ollama":
            batch = self._post_to_ollama(request.model, texts, timeout_s)
        else:
            batch = self._post_to_openai(request.model, texts, timeout_s)
        sizes = sorted({len(vector) for vector in batch.vectors})
        if len(batch.vectors) != len(texts) or len(sizes) != 1:
            received = f"{len(batch.vectors)} vectors of {sizes} components for {len(texts)} texts"
            raise unreadable(self._server.name, received)
        return Reply(
            json.dumps(batch.vectors),
            batch.model or request.model,
            input_tokens=batch.n_tokens,
            output_tokens=0,
            latency_s=time.perf_counter() - start,
            finish="stop",
        )

    def _post_to_ollama(self, model: str, texts: list[str], timeout_s: float) -> _Batch:
        """Ask Ollama for the vectors of texts; a text that is too long is refused, not cut."""
        payload = {"model": model, "input": texts, "truncate": False}
        reply = self._server.post("/api/embed", payload, timeout_s, OllamaEmbeddings)
        return _Batch(reply.embeddings, reply.prompt_eval_count, reply.model)

    def _post_to_openai(self, model: str, texts: list[str], timeout_s: float) -> _Batch:
        """Ask an OpenAI-compatible server for the vectors of texts; 0 tokens if it does not count them."""
        payload = {"model": model, "input": texts, "encoding_format": "float"}
        reply = self._server.post("/embeddings", payload, timeout_s, EmbeddingReply)
        vectors = [row.embedding for row in reply.data]
        n_tokens = reply.usage.prompt_tokens if reply.usage else 0
        return _Batch(vectors, n_tokens, reply.model)


def _coded(vector: Sequence[float]) -> str:
    """Return a vector as it is stored: its float32 numbers in base64."""
    return base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()


def _decoded(code: str) -> FloatArray:
    """Return the vector of a text of `_coded`."""
    return np.frombuffer(base64.b64decode(code), dtype="<f4")
