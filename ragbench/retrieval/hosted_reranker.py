"""Rerankers of a server: `cohere:<model>`, `voyage:<model>` and `jina:<model>`, one request a question.

They go the way of language models: each reply is in the reply store, requests that are not there
are sent within the budget, and a dry run counts them. `cohere:<model>@https://host/v2` names another
server that takes the same requests. Keys are those of COHERE_API_KEY, VOYAGE_API_KEY and
JINA_API_KEY.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.llms import active_dry_run, generate_many
from ragbench.llms.environment import current_settings
from ragbench.llms.failures import unreadable
from ragbench.llms.http import Server
from ragbench.llms.ollama import Tokens
from ragbench.llms.providers import key_of
from ragbench.llms.stored_llm import StoredLLM
from ragbench.store.replies import Reply, Request

_RERANKING = "reranking"


class _Provider(NamedTuple):
    address: str
    limit: str  # the field with the number of results


PROVIDERS = {
    "cohere": _Provider("https://api.cohere.com/v2", "top_n"),
    "voyage": _Provider("https://api.voyageai.com/v1", "top_k"),
    "jina": _Provider("https://api.jina.ai/v1", "top_n"),
}
"""Providers of rerankers; voyage names its results "data", the others "results"."""


class _Result(BaseModel):
    index: int = Field(ge=0)
    relevance_score: Annotated[float, Field(allow_inf_nan=False)]


class _Usage(BaseModel):
    total_tokens: Tokens = 0


class _Ranking(BaseModel):
    results: list[_Result] = []
    data: list[_Result] = []
    usage: _Usage | None = None
    model: str | None = None


def is_hosted(name: object) -> bool:
    """Return True if this is the name of a reranker of a server.

    >>> is_hosted("cohere:rerank-v3.5"), is_hosted("cross-encoder/ms-marco-MiniLM-L6-v2")
    (True, False)
    """
    return isinstance(name, str) and name.partition(":")[0] in PROVIDERS and ":" in name


class HostedReranker:
    """A reranker of a server, with its relevance scores (higher is better).

    Raises:
        ConfigError: it names no model, or the provider's key is not set.
    """

    def __init__(self, name: str) -> None:
        provider, _, model = name.partition(":")
        model, _, url = model.partition("@")
        variable = f"{provider.upper()}_API_KEY"
        key = key_of(provider.upper())
        if not model:
            raise ConfigError(f"reranker {name!r} names no model; write {provider}:<model>")
        # offline and in a dry run nothing is sent
        needs_key = current_settings().replies != "offline" and active_dry_run() is None
        if key is None and not url and needs_key:
            raise ConfigError(f"reranker {provider}:{model}: no key; set {variable}")
        hints = {
            401: f"the key was refused; set {variable} to a valid one",
            404: "no such model, or no such address",
        }
        self._limit = PROVIDERS[provider].limit
        address = url or PROVIDERS[provider].address
        self._server = Server(f"{provider}:{model}", address, key, hints, "check the address")
        self.origin, self.secrets = self._server.address, self._server.secrets
        self._llm = StoredLLM(provider, model, self)

    def scores(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[float]:
        """Return the score of each text of each question, one question after the other.

        Raises:
            ModelError: a request failed; what came back is stored.
        """
        asked = [(query, list(texts)) for query, texts in questions if texts]
        prompts = [json.dumps([query, texts], ensure_ascii=False) for query, texts in asked]
        replies = generate_many(
            self._llm, prompts, system=_RERANKING, max_tokens=1, label="reranked questions"
        )
        scores: list[float] = []
        for (_, texts), reply in zip(asked, replies, strict=True):
            if reply.failure is FailureKind.DRY_RUN:  # nothing was sent: they stay in their order
                scores += [-float(rank) for rank in range(len(texts))]
            elif reply.error is not None:
                raise ModelError(f"reranker {self._llm.name}: {reply.error}", reply.failure)
            else:
                scores += json.loads(reply.text)
        return scores

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Send the texts of one question, once, for a JSON list of their scores."""
        query, texts = json.loads(request.prompt)
        payload: dict[str, Any] = {"model": request.model, "query": query, "documents": texts}
        start = time.perf_counter()
        payload[self._limit] = len(texts)
        ranking = self._server.post("/rerank", payload, timeout_s, _Ranking)
        results = ranking.results or ranking.data
        score_of = {result.index: result.relevance_score for result in results}
        if sorted(score_of) != [*range(len(texts))] or len(results) != len(texts):
            received = f"{len(results)} scores for {len(texts)} texts"
            raise unreadable(self._server.name, received)
        text = json.dumps([score_of[index] for index in range(len(texts))])
        read = ranking.usage.total_tokens if ranking.usage else 0
        seconds = time.perf_counter() - start
        return Reply(text, ranking.model or request.model, read, 0, seconds, "stop")
