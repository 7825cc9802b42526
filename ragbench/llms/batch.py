"""Many prompts at once, in order, without losing anything: the one place where requests run
concurrently.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.environment import TIMEOUT_S
from ragbench.llms.failures import RequestError
from ragbench.llms.stored_llm import StoredLLM
from ragbench.progress import ThreadedCalls, progress_bar
from ragbench.store.replies import Request
from ragbench.text import without_surrogates
from ragbench.types import LLM, Completion

_Pair = tuple[str, int]  # prompt and sample


def generate_many(
    llm: LLM,
    prompts: Sequence[str],
    *,
    system: str | None = None,
    max_tokens: int = 512,
    temperature: float = 0.0,
    schema: Mapping[str, Any] | None = None,
    samples: Sequence[int] | None = None,
    concurrency: int = 8,
    timeout_s: float = TIMEOUT_S,
    label: str = "",
) -> list[Completion]:
    """Return one completion per prompt, in the order of the prompts.

    Replies in the reply store are taken from there; up to `concurrency` other requests are on their
    way at once. A server that asks to wait (429, 503, 529, with or without Retry-After) is waited
    for. A request that fails for good becomes a completion with an empty text and the reason in
    `error`, and the others continue; when the reason concerns all (wrong key, no such model, no
    server, budget spent), the rest is not sent and carries the same reason. Identical prompts are
    sent once. `samples` numbers each prompt's repetition (default: all 0). `timeout_s` bounds each
    try of a request; its wait in the server's queue, behind requests of this call, does not count,
    and after a time-out fewer are sent at once (`ragbench.llms.pace`). After two seconds a progress
    bar appears, with `label` before it.

    Ctrl-C ends at once. Replies received by then are in the reply store; the next call asks for
    the rest only.

    Inside `dry_run` nothing is sent, and a reply that is not in the store has a stand-in.

    Any object with a `generate` method will do as `llm`; with one that is not from `load_llm`,
    `timeout_s` is its own affair, and `schema` and `sample` are passed on only when they are used.

    >>> from ragbench.llms import ScriptedLLM
    >>> [reply.text for reply in generate_many(ScriptedLLM(["one", "two"]), ["first?", "second?"])]
    ['one', 'two']
    """
    if isinstance(prompts, str):
        raise ConfigError("generate_many: expected a list of prompts, not one text; write [prompt]")
    if concurrency < 1 or not timeout_s > 0:
        raise ConfigError(
            f"generate_many: concurrency {concurrency} and timeout_s {timeout_s} must be above 0"
        )
    pairs = list(zip(prompts, samples or [0] * len(prompts), strict=True))
    options: dict[str, Any] = {
        "system": system,
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    if schema is not None:
        options["schema"] = schema
    requests = {pair: _request(llm, *pair, options) for pair in pairs}
    completions = _known_completions(llm, requests)
    pending = [pair for pair in requests if pair not in completions]
    at_once = min(concurrency, getattr(llm, "max_concurrency", None) or concurrency)
    stop = threading.Event()

    def call(pair: _Pair) -> Completion:
        if isinstance(llm, StoredLLM):
            n_at_once = min(at_once, len(pending))
            return llm.fetch(requests[pair], timeout_s=timeout_s, stop=stop, n_at_once=n_at_once)
        text, sample = pair
        if sample:
            return llm.generate(text, **{**options, "sample": sample})
        return llm.generate(text, **options)

    n_known = len(completions)
    try:
        with progress_bar(len(requests), label or llm.name, "replies", initial=n_known) as bar:
            work = ThreadedCalls(
                pending,
                lambda pair: _attempt(call, pair, llm.name),
                at_once=at_once,
                name=llm.name,
                meanwhile=lambda: bar.update(0),
            )
            for pair, outcome in work:
                if isinstance(outcome, BaseException):
                    raise outcome
                completions[pair], concerns_all_requests = outcome
                not_sent = work.stop() if concerns_all_requests else []
                for other in not_sent:
                    completions[other] = completions[pair]
                bar.update(1 + len(not_sent))
    finally:
        stop.set()  # a reply that a thread receives after Ctrl-C goes to the store
    in_order = []
    for pair in pairs:
        in_order.append(completions[pair])
        completions[pair] = _repeated(completions[pair])
    return in_order


def _request(llm: LLM, text: str, sample: int, options: dict[str, Any]) -> Request:
    """Return the request for a prompt, as the reply store and a dry run know it."""
    if isinstance(llm, StoredLLM):
        return llm.request(text, **{"schema": None, **options}, sample=sample)
    provider, _, model = llm.name.partition(":")
    return Request(provider, model, without_surrogates(text), **options, sample=sample)


def _known_completions(llm: LLM, requests: Mapping[_Pair, Request]) -> dict[_Pair, Completion]:
    """Return the completions that need no request: from the reply store, and inside `dry_run` a
    stand-in for every other one.
    """
    completions: Sequence[Completion | None] = [None] * len(requests)
    if isinstance(llm, StoredLLM):
        completions = llm.known([*requests.values()])
    elif plan := active_dry_run():
        completions = plan.complete(llm.name, [*requests.values()], completions, shared=False)
    known = {}
    for pair, completion in zip(requests, completions, strict=True):
        if completion is not None:
            known[pair] = completion
    return known


def _repeated(completion: Completion) -> Completion:
    """Return the same completion for a second prompt of the same text: it took no time and cost nothing."""
    return completion if completion.error else replace(completion, cached=True, latency_s=0.0)


def _attempt(
    call: Callable[[_Pair], Completion], pair: _Pair, name: str
) -> tuple[Completion, bool]:
    """Return the completion of a request, and whether every other request would fail alike.

    Raises:
        ConfigError: the request cannot be made at all.
    """
    try:
        return call(pair), False
    except ConfigError:
        raise
    except Exception as exc:  # a user's model may raise anything, and the others continue
        reason = str(exc) if isinstance(exc, ModelError) else f"{type(exc).__name__}: {exc}"
        failure = getattr(exc, "failure", None) or FailureKind.ERROR
        concerns_all_requests = isinstance(exc, RequestError) and exc.stop
        return Completion("", name, error=reason, failure=failure), concerns_all_requests
