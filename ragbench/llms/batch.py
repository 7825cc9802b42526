"""Many prompts at once, in order, without losing anything: the one place where requests run
concurrently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.failures import Failed
from ragbench.llms.stored_llm import StoredLLM
from ragbench.progress import SideBySide, progress_bar
from ragbench.store.database import StoreError
from ragbench.store.replies import Request
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

    What the reply store has is taken from there; up to `concurrency` other requests are on their
    way at once. A server that asks to wait (429, 503, 529, with or without Retry-After) is waited
    for. A request that fails for good becomes a completion with an empty text and the reason in
    `error`, and the others continue; when the reason concerns all (wrong key, no such model, no
    server, budget spent), the rest is not sent and carries the same reason. Identical prompts are
    sent once. `samples` numbers each prompt's repetition (default: all 0). `timeout_s` bounds each
    try of a request. After two seconds a progress bar appears, with `label` before it.

    Ctrl-C ends at once. What has come back by then is in the reply store; the next call asks for
    the rest only.

    Inside `dry_run` nothing is sent, and what is not in the store has a stand-in.

    Any object with a `generate` method will do as `llm`; with one that is not from `load_llm`,
    `timeout_s` is its own affair, and `schema` and `sample` are passed on only when they are used.

    >>> from ragbench.llms import ScriptedLLM
    >>> [reply.text for reply in generate_many(ScriptedLLM(["one", "two"]), ["first?", "second?"])]
    ['one', 'two']
    """
    asked = _asked(prompts, samples, concurrency, timeout_s)
    options = {
        "system": system,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "schema": schema,
    }
    stop = threading.Event()
    unique = list(dict.fromkeys(asked))
    done: dict[_Asked, Completion] = {}
    call: Callable[[_Asked], Completion]
    plan = active_dry_run()
    requests: dict[_Asked, Request]
    if isinstance(llm, StoredLLM):
        stored = llm
        requests = {
            one: stored.request(one[0], system, max_tokens, temperature, schema, one[1])
            for one in unique
        }
        stored.check_budget()
        try:
            kept = stored.lookup_many(list(requests.values()))
        except StoreError as exc:
            raise ModelError(exc, FailureKind.STORE) from exc
        if plan:
            kept = [
                *plan.complete(
                    llm.name, list(requests.values()), kept, shared=stored.settings.replies != "off"
                )
            ]
        done = {one: reply for one, reply in zip(unique, kept, strict=True) if reply is not None}

        def call(one: _Asked) -> Completion:
            return stored.fetch(requests[one], timeout_s=timeout_s, stop=stop)
    else:
        if plan:
            provider, _, model = llm.name.partition(":")
            own = [
                Request(
                    provider,
                    model,
                    without_surrogates(text),
                    system,
                    max_tokens,
                    temperature,
                    schema,
                    sample,
                )
                for text, sample in unique
            ]
            done = dict(
                zip(
                    unique,
                    plan.complete(llm.name, own, [None] * len(own), shared=False),
                    strict=True,
                )
            )

        def call(one: _Asked) -> Completion:
            given = {
                key: value for key, value in options.items() if key != "schema" or value is not None
            }
            if one[1]:
                given["sample"] = one[1]
            return llm.generate(one[0], **given)  # type: ignore[arg-type]

    pending = [one for one in unique if one not in done]
    workers = min(concurrency, len(pending), getattr(llm, "max_concurrency", None) or concurrency)
    work = SideBySide(
        pending, lambda one: _attempt(call, one, llm.name), at_once=workers, name=llm.name
    )
    try:
        with progress_bar(len(unique), label or llm.name, "replies", initial=len(done)) as bar:
            for one, found in work:
                if isinstance(found, BaseException):
                    raise found
                done[one], is_hopeless = found
                rest = work.stop() if is_hopeless else []
                done |= dict.fromkeys(rest, done[one])
                bar.update(1 + len(rest))
    finally:
        stop.set()  # what a thread still receives after Ctrl-C goes to the store
    first = {one: position for position, one in reversed(list(enumerate(asked)))}
    return [
        done[one] if first[one] == position else _repeated(done[one])
        for position, one in enumerate(asked)
    ]


def _asked(
    prompts: Sequence[str], samples: Sequence[int] | None, concurrency: int, timeout_s: float
) -> list[_Asked]:
    if isinstance(prompts, str):
        raise ConfigError("generate_many: expected a list of prompts, not one text; write [prompt]")
    if samples is not None and len(samples) != len(prompts):
        raise ConfigError(
            f"generate_many: {len(samples)} samples for {len(prompts)} prompts; expected one for "
            "each"
        )
    if concurrency < 1 or not timeout_s > 0:
        raise ConfigError(
            f"generate_many: concurrency {concurrency} and timeout_s {timeout_s} must be above 0"
        )
    return list(zip(prompts, samples or [0] * len(prompts), strict=True))


def _repeated(completion: Completion) -> Completion:
    """The same completion for a second prompt of the same text: it took no time and cost nothing."""
    return (
        completion
        if completion.error is not None
        else replace(completion, cached=True, latency_s=0.0)
    )


def _attempt(
    call: Callable[[_Asked], Completion], one: _Asked, name: str
) -> tuple[Completion, bool]:
    """The completion of a request, and whether its failure would be that of all others; raises
    ConfigError.
    """
    try:
        return call(one), False
    except Failed as exc:
        return Completion("", name, error=str(exc), failure=exc.kind), exc.stop
    except ConfigError:
        raise
    except ModelError as exc:
        return Completion("", name, error=str(exc), failure=exc.failure or FailureKind.ERROR), False
    except (
        Exception
    ) as exc:  # a user's model may raise anything, and one failed item must not lose the others
        return Completion(
            "", name, error=f"{type(exc).__name__}: {exc}", failure=FailureKind.ERROR
        ), False
