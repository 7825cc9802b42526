"""Completions of many prompts, and repeated samples of them: all concurrent requests to models are
sent here; the providers' own batches are in `batch_interface`.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.extension import takes
from ragbench.llms.costs import check_price, within_budget
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.environment import TIMEOUT_S, current_settings
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

    - Replies in the reply store are reused, and identical prompts are sent once.
    - A request that a busy server refuses (429, 503, 529) is sent again after the time that the server
      asks for.
    - A request that fails for good gets a completion with an empty text and the reason in `error`; the
      other requests continue.
    - After a failure that every request would meet (wrong key, unknown model, no server, budget spent),
      no request is sent any more: those without a reply get the same `error`.
    - Ctrl-C ends the call at once. Replies received by then are in the reply store, so that the next
      call sends only the other requests.
    - Inside `dry_run` nothing is sent: a reply that is not in the store is replaced by a stand-in.

    Args:
        llm: a model of `load_llm`, or an object of yours with a `generate` method. Your object limits
            its own time. It gets `schema` and `sample` only if they are used and `generate` takes them.
        samples: for each prompt the number of its repetition; None means 0 for all. Equal prompts with
            different numbers are different requests.
        concurrency: the maximum number of requests at a time.
        timeout_s: seconds that each try of a request may take, without the time that it waits in the
            server's queue behind others of this call. After a time-out fewer requests are sent at a
            time (`ragbench.llms.pace`).
        label: the text before the progress bar, which appears after two seconds.

    Raises:
        ConfigError: an argument is invalid, or no request can be made of it; a maximum cost is set,
            and the price of the model is unknown.

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
    # Identical pairs, of a prompt and the number of its repetition, are one request.
    requests = {pair: _request(llm, *pair, options) for pair in pairs}
    known = _known_completions(llm, requests)  # stored replies; in a dry run also stand-ins
    pending = [pair for pair in requests if pair not in known]
    model_limit = getattr(llm, "max_concurrency", None)  # a user's model may have one
    n_threads = min(concurrency, model_limit or concurrency)
    stop = threading.Event()
    if isinstance(llm, StoredLLM):
        n_at_once = min(n_threads, len(pending))  # a reply may take longer behind others (`Pace`)
        call = _call_of_provider(llm, requests, timeout_s, stop, n_at_once)
    else:
        call = _call_of_user_model(llm, requests, options, timeout_s, stop)
    try:
        with progress_bar(len(requests), label or llm.name, "replies", initial=len(known)) as bar:
            received = _send_all(pending, call, llm.name, n_threads, bar)
    finally:
        # after Ctrl-C, threads send nothing more; a reply that still arrives goes to the store
        stop.set()
    return _in_order(pairs, known | received)


def _call_of_provider(
    llm: StoredLLM,
    requests: Mapping[_Pair, Request],
    timeout_s: float,
    stop: threading.Event,
    n_at_once: int,
) -> Callable[[_Pair], Completion]:
    """Return a function that asks a provider for the completion of a pair (prompt, sample).

    Args:
        requests: (prompt, sample) -> its request.
        timeout_s, stop, n_at_once: as in `StoredLLM.fetch`.
    """
    return lambda pair: llm.fetch(
        requests[pair], timeout_s=timeout_s, stop=stop, n_at_once=n_at_once
    )


def _call_of_user_model(
    llm: LLM,
    requests: Mapping[_Pair, Request],
    options: Mapping[str, Any],
    timeout_s: float,
    stop: threading.Event,
) -> Callable[[_Pair], Completion]:
    """Return a function that asks a user's model for the completion of a pair (prompt, sample), within
    the budget.

    `schema` and `sample` are passed only to a `generate` that takes them.

    Args:
        requests: (prompt, sample) -> its request, from which the highest possible cost is computed.
        options: of `generate`.
        timeout_s, stop: as in `within_budget`.
    """
    accepted = dict(options)
    if "schema" in options and not takes(llm.generate, "prompt", options=[*options]):
        del accepted["schema"]  # prompts state the form of their reply, too
    takes_sample = takes(llm.generate, "prompt", options=[*accepted, "sample"])
    settings = current_settings()

    def call(pair: _Pair) -> Completion:
        text, sample = pair
        extra: dict[str, Any] = {"sample": sample} if sample and takes_sample else {}

        def send() -> Completion:
            return _checked(llm, llm.generate(text, **accepted, **extra))

        return within_budget(requests[pair], send, settings, timeout_s, stop, users_model=llm.name)

    return call


def _in_order(pairs: Sequence[_Pair], completions: Mapping[_Pair, Completion]) -> list[Completion]:
    """Return the completion of each pair (prompt, sample), in the order of the pairs.

    A pair that comes again gets the same completion with a cost of 0, since it was sent once.
    """
    in_order = []
    paid: set[_Pair] = set()
    for pair in pairs:
        completion = completions[pair]
        in_order.append(_without_costs(completion) if pair in paid else completion)
        paid.add(pair)
    return in_order


class _Attempt(NamedTuple):
    """The completion of a request; `concerns_all` is True for a failure that every other request would
    meet, too.
    """

    completion: Completion
    concerns_all: bool


def _send_all(
    pairs: Sequence[_Pair],
    call: Callable[[_Pair], Completion],
    name: str,
    n_threads: int,
    bar: Any,
) -> dict[_Pair, Completion]:
    """Send the request of each pair (prompt, sample), and return pair -> completion.

    After a failure that every request would meet, no further request is sent, and the pairs without a
    completion get the completion of the failure.

    Args:
        pairs: what to send.
        call: sends the request of a pair.
        name: of the model.
        n_threads: the number of requests that are sent at a time.
        bar: shows the progress.

    Raises:
        ConfigError: a request cannot be made at all.
    """
    completions = {}
    # yields (pair, attempt), or (pair, exception), as they are done
    work = ThreadedCalls(
        pairs,
        lambda pair: _attempt(call, pair, name),
        at_once=n_threads,
        name=name,
        meanwhile=lambda: bar.update(0),
    )
    for pair, attempt in work:
        if isinstance(attempt, BaseException):
            raise attempt
        completions[pair] = attempt.completion
        bar.update(1)
        if attempt.concerns_all:
            for unsent in work.stop():  # it returns the pairs that are not sent yet
                completions[unsent] = attempt.completion
                bar.update(1)
    return completions


def _request(llm: LLM, text: str, sample: int, options: dict[str, Any]) -> Request:
    """Return the request for a prompt; the reply store and a dry run recognise it by its key.

    A user's model sends no such request: it has one so that a dry run can count it.
    """
    if isinstance(llm, StoredLLM):
        return llm.request(text, **{"schema": None, **options}, sample=sample)
    provider, _, model = llm.name.partition(":")
    return Request(provider, model, without_surrogates(text), **options, sample=sample)


def _known_completions(llm: LLM, requests: Mapping[_Pair, Request]) -> dict[_Pair, Completion]:
    """Return the completions for which nothing has to be sent: the replies in the reply store.

    In a dry run nothing is sent: every request is counted, and gets a completion. This is the stored
    reply, or else a stand-in, a text that only marks where a reply is missing.

    Args:
        llm: the model; only a model of a provider has stored replies, a user's has none.
        requests: (prompt, sample) -> its request.

    Raises:
        ConfigError: a maximum cost is set, and the price of the model is unknown.
    """
    to_complete = list(requests.values())
    # for each request its completion, or None if it has to be sent
    completions: Sequence[Completion | None] = [None] * len(to_complete)
    if isinstance(llm, StoredLLM):
        # checks the price, looks the replies up, and adds the stand-ins of a dry run
        completions = llm.known(to_complete)
    else:
        check_price(llm.name, current_settings())
        plan = active_dry_run()
        if plan is not None:
            # replaces every None by a stand-in; each call is counted, because no reply is stored
            completions = plan.complete(llm.name, to_complete, completions, stores_replies=False)
    known = {}
    for pair, completion in zip(requests, completions, strict=True):
        if completion is not None:
            known[pair] = completion
    return known


def _checked(llm: LLM, reply: Any) -> Completion:
    """Return the reply of a user's model, if it is a Completion."""
    if isinstance(reply, Completion):
        return reply
    raise ConfigError(
        f"llm {llm.name!r}: generate returned {reply!r:.80}; expected a Completion, as in "
        "rb.types.Completion(text, self.name); a plain function of the prompt may return the text"
    )


def _without_costs(completion: Completion) -> Completion:
    """Return the completion for a repetition of a prompt, which took no time and cost nothing."""
    if completion.error:
        return completion
    return replace(completion, cached=True, latency_s=0.0)


def _attempt(call: Callable[[_Pair], Completion], pair: _Pair, name: str) -> _Attempt:
    """Return the completion of a request; one that failed has an empty text and the reason in `error`.

    Args:
        call: sends the request of a pair.
        pair: (prompt, sample).
        name: the name of the model.

    Raises:
        ConfigError: the request cannot be made at all.
    """
    try:
        return _Attempt(call(pair), concerns_all=False)
    except ConfigError:
        raise
    except Exception as exc:  # a user's model may raise anything, and the others continue
        reason = str(exc) if isinstance(exc, ModelError) else f"{type(exc).__name__}: {exc}"
        failure = getattr(exc, "failure", None) or FailureKind.ERROR
        completion = Completion("", name, error=reason, failure=failure)
        return _Attempt(completion, concerns_all=isinstance(exc, RequestError) and exc.concerns_all)
