"""A model that sends nothing and notes what it would have sent: the way to a price before anything is spent."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ragbench.cache.replies import Request
from ragbench.llms.providers import load_llm
from ragbench.llms.stored import StoredLLM
from ragbench.types import Completion

# About as long as a cited answer of two or three sentences.
_STAND_IN = "This sentence stands for one of the reply, which nobody knows before it has been asked for [1]. "


def holds_stand_in(request: Request) -> bool:
    """Whether a request was built on a reply that is not there yet, so that the real one will differ."""
    return _STAND_IN in request.prompt


class RehearsedLLM(StoredLLM):
    """The model of that name as far as the reply store knows it; everything else is noted in `missing`, not sent.

    A reply that is not there yet is a stand-in of some 70 words, its own for each request, so that what is built on it
    (a judge's request) can be counted too. With `stand_in=False` it is a failed completion.

    >>> llm = RehearsedLLM("ollama:no-such-model")
    >>> llm.generate("Who?").text == llm.generate("Where?").text
    False
    >>> [request.prompt for request in llm.missing.values()], len(llm.known)
    (['Who?', 'Where?'], 0)
    """

    def __init__(self, name: str, *, stand_in: bool = True) -> None:
        model = load_llm(name)
        super().__init__(model._provider, model._model, model._client)
        self._stand_in = stand_in
        self._noting = threading.Lock()
        self.known: dict[str, Request] = {}
        self.missing: dict[str, Request] = {}

    def lookup_many(self, requests: Sequence[Request]) -> list[Completion | None]:
        """What the store has of these, in order; both what it has and what it has not are noted."""
        found = super().lookup_many(requests)
        with self._noting:
            for request, reply in zip(requests, found, strict=True):
                (self.missing if reply is None else self.known)[request.key] = request
        return found

    def fetch(self, request: Request, *, timeout_s: float = 0.0, stop: threading.Event | None = None) -> Completion:
        """A stand-in; nothing is sent."""
        if not self._stand_in:
            return Completion("", self.name, error="a rehearsal: nothing was sent")
        return Completion(f"{_STAND_IN * 4}({request.key})", self.name)
