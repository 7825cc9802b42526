"""Rerankers of a server (`cohere:<model>`, `voyage:<model>`, `jina:<model>`): one request a
question, and how its scores are read and paid.

They go the way of language models: each reply is in the reply store, requests that are not there
are sent within the budget, retried and waited for, and a dry run counts them. Cohere is paid by the
search, the others by the token, and for them the question counts once for each text.
`cohere:<model>@https://host/v2` names another server that takes the same requests. Keys come from
COHERE_API_KEY, VOYAGE_API_KEY and JINA_API_KEY.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field

from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.groups import grouped
from ragbench.llms import active_dry_run, generate_many
from ragbench.llms.environment import current_settings
from ragbench.llms.failures import unreadable
from ragbench.llms.http import Server
from ragbench.llms.ollama import Tokens
from ragbench.llms.providers import key_of
from ragbench.llms.stored_llm import StoredLLM
from ragbench.store.replies import Reply, Request
from ragbench.types import Completion

_RERANKING = "reranking"
_IN_A_SEARCH = 100  # texts that are paid as one search


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


class _Billed(BaseModel):
    search_units: Tokens = 0


class _Meta(BaseModel):
    billed_units: _Billed | None = None


class _Ranking(BaseModel):
    results: list[_Result] = []
    data: list[_Result] = []
    usage: _Usage | None = None
    meta: _Meta | None = None
    model: str | None = None


def is_hosted(name: object) -> bool:
    """Return True if this is the name of a reranker of a server, also one that lacks its model.

    >>> is_hosted("cohere:rerank-v3.5"), is_hosted("cross-encoder/ms-marco-MiniLM-L6-v2")
    (True, False)
    """
    return isinstance(name, str) and name.partition(":")[0] in PROVIDERS


class HostedReranker:
    """A reranker of a server, with its relevance scores (higher is better).

    `usage` are its replies so far, one for each request.

    Raises:
        ConfigError: it names no model, the provider's key is not set, or a maximum cost is set and
            its price is unknown.
    """

    def __init__(self, name: str) -> None:
        """Prepare requests for a name "provider:model", or "provider:model@address"; nothing is
        sent yet.
        """
        provider, _, model = name.partition(":")
        model, _, url = model.partition("@")  # a server's address, if one is named
        if not model:
            raise ConfigError(f"reranker {name!r} names no model; write '{provider}:<model>'")
        variable = f"{provider.upper()}_API_KEY"
        key = key_of(provider.upper())
        is_offline = current_settings().replies == "offline"
        is_dry_run = active_dry_run() is not None
        sends_requests = not is_offline and not is_dry_run
        # a server that the user names may take requests without a key
        if key is None and not url and sends_requests:
            raise ConfigError(f"reranker {provider}:{model}: no key; set {variable}")
        hints = {
            401: f"the key was refused; set {variable} to a valid one",
            404: "no such model, or no such address",
        }
        # the name of the request's field with the number of texts to return
        self._limit = PROVIDERS[provider].limit
        address = url or PROVIDERS[provider].address
        self._server = Server(f"{provider}:{model}", address, key, hints, "check the address")
        self.origin, self.secrets = self._server.address, self._server.secrets
        # keeps replies, and has this object send the requests that have none
        self._llm = StoredLLM(provider, model, self)
        self._llm.check_budget()
        self._replies: dict[str, Completion] = {}

    @property
    def usage(self) -> list[Completion]:
        """Return the replies to all requests so far, each request once."""
        return [*self._replies.values()]

    def scores(self, questions: Sequence[tuple[str, Sequence[str]]], **asking: Any) -> list[float]:
        """Return the score of each text of each question, one question after the other.

        A question without texts has no score. In a dry run, which sends nothing, the scores are 0,
        -1, -2, ...: the texts stay in their order.

        Args:
            questions: pairs of a question and its texts.
            asking: options of `generate_many`.

        Raises:
            ModelError: a request failed; what came back is stored.
        """
        prompts: list[str] = []  # of the questions that have texts
        n_texts: dict[str, int] = {}  # prompt -> its number of texts
        for query, texts in questions:
            if texts:
                prompt = _prompt(query, texts)
                prompts.append(prompt)
                n_texts[prompt] = len(texts)
        reply_of = self._replies_to(n_texts, asking)
        scores: list[float] = []
        for prompt in prompts:
            reply = reply_of[prompt]
            # falling scores keep the order of the texts
            if reply.failure is FailureKind.DRY_RUN:
                scores += [-float(rank) for rank in range(n_texts[prompt])]
            elif reply.error is not None:
                raise ModelError(f"reranker {self._llm.name}: {reply.error}", reply.failure)
            else:
                scores += json.loads(reply.text)
        self._replies = {**reply_of, **self._replies}  # of two replies to a prompt the first counts
        return scores

    def _replies_to(
        self, n_texts: Mapping[str, int], asking: Mapping[str, Any]
    ) -> dict[str, Completion]:
        """Send the prompts, each once, and return prompt -> reply.

        A provider bills a prompt as one search per `_IN_A_SEARCH` texts, and ragbench counts a search as
        an output token (see `send`). So the prompts of equally many searches are sent together, with
        their number as `max_tokens`, which bounds the cost.

        Args:
            n_texts: prompt -> how many texts it holds.
            asking: options of `generate_many`.
        """
        by_searches = grouped(n_texts, lambda prompt: math.ceil(n_texts[prompt] / _IN_A_SEARCH))
        reply_of: dict[str, Completion] = {}
        for n_searches, prompts in by_searches.items():
            replies = generate_many(
                self._llm,
                prompts,
                system=_RERANKING,
                max_tokens=n_searches,
                label="reranked questions",
                **asking,
            )
            reply_of |= zip(prompts, replies, strict=True)
        return reply_of

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Send the texts of one question, once; the text of the reply is a JSON list of their scores.

        The prompt of the request is a JSON list of pairs of the question and a text (`_prompt`).
        Searches that the provider bills are counted as the output tokens of the reply.
        """
        pairs = json.loads(request.prompt)
        question, _ = pairs[0]
        texts = [text for _, text in pairs]
        payload: dict[str, Any] = {
            "model": request.model,
            "query": question,
            "documents": texts,
            self._limit: len(texts),
        }
        start = time.perf_counter()
        ranking = self._server.post("/rerank", payload, timeout_s, _Ranking)
        scores = self._scores_in_order(ranking, len(texts))
        # some providers bill by searches, others by tokens
        billed = ranking.meta.billed_units if ranking.meta else None
        return Reply(
            json.dumps(scores),
            ranking.model or request.model,
            input_tokens=ranking.usage.total_tokens if ranking.usage else 0,
            output_tokens=billed.search_units if billed else 0,
            latency_s=time.perf_counter() - start,
            finish="stop",
        )

    def _scores_in_order(self, ranking: _Ranking, n_texts: int) -> list[float]:
        """Return the scores of a reply in the order of the texts that were sent; a reply without
        exactly one score for each text is unreadable.
        """
        # providers call the list by one of two names
        results = ranking.results or ranking.data
        score_of = {result.index: result.relevance_score for result in results}
        has_one_for_each = sorted(score_of) == [*range(n_texts)]
        if len(results) != n_texts or not has_one_for_each:
            received = f"{len(results)} scores for {n_texts} texts"
            raise unreadable(self._server.name, received)
        return [score_of[index] for index in range(n_texts)]


def _prompt(query: str, texts: Sequence[str]) -> str:
    """Return the prompt of a request: a JSON list of pairs of the question and a text, because most
    providers count the tokens of such pairs.
    """
    return json.dumps([[query, text] for text in texts], ensure_ascii=False)
