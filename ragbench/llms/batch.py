"""Many prompts at once, in order, without losing anything: the one place where requests run concurrently."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.cache.database import StoreError
from ragbench.cache.replies import Request
from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.failures import Failed
from ragbench.llms.stored_llm import StoredLLM
from ragbench.progress import progress_bar
from ragbench.text import without_surrogates
from ragbench.types import LLM, Completion

_Asked = tuple[str, int]  # prompt and sample


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
    timeout_s: float = 120.0,
    label: str = "",
) -> list[Completion]:
    """One completion per prompt, in the order of the prompts.

    What the reply store has is taken from there; up to `concurrency` other requests are on their way at once. A server
    that asks to wait (429, 503, 529, with or without Retry-After) is waited for. A request that fails for good becomes
    a completion with an empty text and the reason in `error`, and the others continue; when the reason concerns all
    (wrong key, no such model, no server, budget spent), the rest is not sent and carries the same reason.
    Identical prompts are sent once. `samples` numbers each prompt's repetition (default: all 0). `timeout_s` bounds
    each try of a request. After two seconds a progress bar appears, with `label` before it.

    Ctrl-C ends at once. What has come back by then is in the reply store; the next call asks for the rest only.

    Inside `dry_run` nothing is sent, and what is not in the store has a stand-in.

    Any object with a `generate` method will do as `llm`; with one that is not from `load_llm`, `timeout_s` is its own
    affair, and `schema` and `sample` are passed on only when they are used.

    >>> from ragbench.llms import ScriptedLLM
    >>> [reply.text for reply in generate_many(ScriptedLLM(["one", "two"]), ["first?", "second?"])]
    ['one', 'two']
    """
    asked = _asked(prompts, samples, concurrency, timeout_s)
    options = {"system": system, "max_tokens": max_tokens, "temperature": temperature, "schema": schema}
    stop = threading.Event()
    unique = list(dict.fromkeys(asked))
    done: dict[_Asked, Completion] = {}
    call: Callable[[_Asked], Completion]
    plan = active_dry_run()
    requests: dict[_Asked, Request]
    if isinstance(llm, StoredLLM):
        stored = llm
        requests = {one: stored.request(one[0], sample=one[1], **options) for one in unique}  # type: ignore[arg-type]
        stored.check_budget()
        try:
            found = stored.lookup_many(list(requests.values()))
        except StoreError as exc:
            raise ModelError(exc, FailureKind.STORE) from exc
        if plan:
            found = [*plan.complete(llm.name, list(requests.values()), found, shared=stored.settings.replies != "off")]
        done = {one: reply for one, reply in zip(unique, found, strict=True) if reply is not None}

        def call(one: _Asked) -> Completion:
            return stored.fetch(requests[one], timeout_s=timeout_s, stop=stop)
    else:
        if plan:
            provider, _, model = llm.name.partition(":")
            own = [
                Request(provider, model, without_surrogates(text), system, max_tokens, temperature, schema, sample)
                for text, sample in unique
            ]
            done = dict(zip(unique, plan.complete(llm.name, own, [None] * len(own), shared=False), strict=True))

        def call(one: _Asked) -> Completion:
            given = {key: value for key, value in options.items() if key != "schema" or value is not None}
            if one[1]:
                given["sample"] = one[1]
            return llm.generate(one[0], **given)  # type: ignore[arg-type]

    pending = [one for one in unique if one not in done]
    workers = min(concurrency, len(pending), getattr(llm, "max_concurrency", None) or concurrency)
    for one, completion in _all(pending, call, llm.name, workers, stop, len(done), label):
        done[one] = completion
    first = {one: position for position, one in reversed(list(enumerate(asked)))}
    return [done[one] if first[one] == position else _repeated(done[one]) for position, one in enumerate(asked)]


def _asked(prompts: Sequence[str], samples: Sequence[int] | None, concurrency: int, timeout_s: float) -> list[_Asked]:
    if isinstance(prompts, str):
        raise ConfigError("generate_many: expected a list of prompts, not one text; write [prompt]")
    if samples is not None and len(samples) != len(prompts):
        raise ConfigError(f"generate_many: {len(samples)} samples for {len(prompts)} prompts; expected one for each")
    if concurrency < 1 or not timeout_s > 0:
        raise ConfigError(f"generate_many: concurrency {concurrency} and timeout_s {timeout_s} must be above 0")
    return list(zip(prompts, samples or [0] * len(prompts), strict=True))


def _repeated(completion: Completion) -> Completion:
    """The same completion for a second prompt of the same text: it took no time and cost nothing."""
    return completion if completion.error is not None else replace(completion, cached=True, latency_s=0.0)


def _all(
    pending: Sequence[_Asked],
    call: Callable[[_Asked], Completion],
    name: str,
    workers: int,
    stop: threading.Event,
    had: int,
    label: str,
) -> Iterator[tuple[_Asked, Completion]]:
    """Each pending item with its completion, as they come."""
    todo: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
    for one in pending:
        todo.put(one)
    came: queue.SimpleQueue[tuple[_Asked, Completion | ConfigError]] = queue.SimpleQueue()
    hopeless: list[Completion] = []

    def work() -> None:
        while not stop.is_set():
            try:
                one = todo.get_nowait()
            except queue.Empty:
                return
            came.put((one, hopeless[0] if hopeless else attempt(one)))

    def attempt(one: _Asked) -> Completion | ConfigError:
        try:
            return call(one)
        except Failed as exc:
            failed = Completion("", name, error=str(exc), failure=exc.kind)
            if exc.stop:
                hopeless.append(failed)
            return failed
        except ConfigError as exc:
            return exc
        except ModelError as exc:
            return Completion("", name, error=str(exc), failure=exc.failure or FailureKind.ERROR)
        except Exception as exc:  # a user's model may raise anything, and one failed item must not lose the others
            return Completion("", name, error=f"{type(exc).__name__}: {exc}", failure=FailureKind.ERROR)

    # Daemon threads of our own, because an executor's are waited for at the end of the process: Ctrl-C would hang for
    # as long as the slowest request. What a thread still receives after Ctrl-C goes to the store.
    for number in range(workers):
        threading.Thread(target=work, name=f"{name} {number}", daemon=True).start()
    total = len(pending) + had
    try:
        with progress_bar(total, label or name, "reply", initial=had) as bar:
            for _ in pending:
                one, completion = _next(came)
                if isinstance(completion, ConfigError):
                    raise completion
                bar.update()
                yield one, completion
    finally:
        stop.set()


def _next(came: queue.SimpleQueue[Any]) -> Any:
    while True:
        try:
            return came.get(timeout=0.2)  # a wait without end cannot be interrupted on every system
        except queue.Empty:
            continue
