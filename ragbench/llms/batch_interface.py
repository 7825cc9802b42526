"""Requests by the batch interfaces of providers: answered within a day, at half the price.

What is submitted is in the store before it leaves, so that a command which was stopped continues
with the batches that it has paid for.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Event

from ragbench.errors import ConfigError, ModelError
from ragbench.llms.dry_run import STAND_IN
from ragbench.llms.failures import RequestError, RetryPolicy
from ragbench.llms.prices import BATCH_PRICE, Price, price_of
from ragbench.llms.providers import stored_llm
from ragbench.llms.stored_llm import StoredLLM
from ragbench.store import budgets, digest, replies, submissions
from ragbench.store.replies import EMBEDDING, Reply, Request
from ragbench.store.submissions import Batch
from ragbench.types import grouped

POLL_S = 30.0
_ENDED = ("canceled", "expired", "refused")  # with all its batch: alone it would cost twice as much
_MOST = 1000  # requests: their replies fit into one download
_LASTS_S = 26 * 3600.0  # providers end a batch after 24 hours


def answer_in_batches(requests: Sequence[Request], log: Callable[[str], None]) -> set[str]:
    """Have providers answer requests by their batch interfaces, store the replies, and return the
    keys of what was submitted.

    What an earlier command has submitted comes first, and alone; the rest belongs to the next call.
    So does the next model where there is a budget, in which it would wait for the room that this
    one has reserved. Left out are requests that contain a placeholder of a dry run for a reply, and
    those for which the budget has no room. The first request with a schema and the first without
    are sent alone: what is wrong with all of them shows at once, not after hours. A request that
    fails in its batch is logged.

    Raises:
        ConfigError: a model has no such interface; nothing has been sent then.
        ModelError: a provider cannot be reached; requests were canceled, or have expired.
    """
    for request in requests:
        if request.system == EMBEDDING or request.provider not in ("anthropic", "openai"):
            raise ConfigError(
                f"{request.provider}:{request.model} is not asked in batches: they are for answers and "
                "verdicts of anthropic:<model> and openai:<model>. Leave out --batch, or first run "
                'without it what asks this model alone (vectors: with llm = "extractive" and without '
                "a judge); replies that are stored are not asked for again"
            )
    groups = grouped(requests, lambda request: f"{request.provider}:{request.model}")
    models = {stored_llm(name): group for name, group in groups.items()}
    running = [(llm, batch) for llm in models for batch in _submitted(llm, ())]
    for llm, group in () if running else models.items():
        final = [request for request in group if STAND_IN not in request.prompt]
        running += [(llm, batch) for batch in _submitted(llm, final)]
        if running and llm.settings.max_cost is not None:
            break  # the others would wait for what this has reserved
    keys = {request.key for _, batch in running for request in batch.requests}
    logged = set[str]()
    try:
        while running:
            for llm, batch in list(running):
                line, outcomes = _poll(llm, batch)
                if outcomes is not None:
                    running.remove((llm, batch))
                    _collect(llm, batch, outcomes, log)
                elif line not in logged:
                    log(line)
                    logged.add(line)
            time.sleep(POLL_S if running else 0)
    except KeyboardInterrupt:
        ids = ", ".join(batch.id for _, batch in running)
        log(
            f"The provider keeps working on what was submitted ({ids}); the same command waits for it."
        )
        raise
    return keys


def _submitted(llm: StoredLLM, requests: Sequence[Request]) -> list[Batch]:
    """Return the batches that a model works on, after what is new has been submitted."""
    account = f"{llm.name} {llm.client.origin}"
    with replies.claim(digest("batch", account)):
        running = list[Batch]()
        for batch in sorted(submissions.pending(account), key=lambda batch: not batch.id):
            if recognised := _recognised(llm, batch, {each.id for each in running}):
                running.append(recognised)
        on_way = {request.key for batch in running for request in batch.requests}
        stored = replies.lookup_many(requests)
        new = [
            request
            for request, reply in zip(requests, stored, strict=True)
            if reply is None and request.key not in on_way
        ]
        for first in {request.schema is None: request for request in new[::-1]}.values():
            try:
                llm.fetch(first)
            except RequestError as exc:
                if exc.stop or exc.tries > 1:  # otherwise it concerns this request alone
                    raise
            new.remove(first)
        while new and (submitted := _submit(llm, account, new[:_MOST])):
            running.append(submitted)
            new = new[len(submitted.requests) :]
    return running


def _submit(llm: StoredLLM, account: str, requests: Sequence[Request]) -> Batch | None:
    """Submit those of the requests that the budget has room for; None where it has none."""
    settings, tag = llm.settings, digest(*(request.key for request in requests))
    reservation: int | None = 0
    while settings.max_cost is not None and (bound := BATCH_PRICE * sum(map(llm.bound, requests))):
        reservation = budgets.reserve(settings.budget, bound, settings.max_cost, _LASTS_S, tag)
        if reservation:
            break
        requests = requests[: len(requests) // 2]
    if not requests:
        return None
    batch = Batch(tag, account, "", time.time(), reservation or 0, tuple(requests))
    submissions.put(batch)
    try:
        batch = batch._replace(id=llm.client.submit(batch))
    except RequestError as exc:
        if not exc.paid:  # otherwise the next command looks for it at the provider
            _forget(batch, 0.0)
        raise
    submissions.put(batch)
    return batch


def _recognised(llm: StoredLLM, batch: Batch, others: Collection[str]) -> Batch | None:
    """Return a batch with its id, which a killed process had no time to note, and which is none of the
    `others`; it is forgotten if the provider never got it.
    """
    if batch.id:
        return batch
    similar = RetryPolicy().run(partial(llm.client.find, batch), Event())
    if ids := [batch_id for batch_id in similar if batch_id not in others]:
        batch = batch._replace(id=ids[0])
        submissions.put(batch)
        return batch
    _forget(batch, 0.0)
    return None


def _poll(llm: StoredLLM, batch: Batch) -> tuple[str, Mapping[str, Reply | str] | None]:
    """Return how far a batch is, in words, and what became of its requests once it has ended."""
    try:
        done, outcomes = llm.client.poll(batch)
    except RequestError as exc:
        if exc.status == 404:
            _forget(batch, BATCH_PRICE * sum(map(llm.bound, batch.requests)))
            raise ModelError(
                f"batch {batch.id} was deleted, or is of another key ({exc}); the same command "
                "submits its requests again"
            ) from exc
        if exc.tries == 1:  # it does not pass
            raise
        return f"{exc}; batch {batch.id} continues meanwhile", None
    return f"batch {batch.id}: {done} of {len(batch.requests)} requests done", outcomes


def _collect(
    llm: StoredLLM, batch: Batch, outcomes: Mapping[str, Reply | str], log: Callable[[str], None]
) -> None:
    """Store the replies of a batch; raises ModelError for requests that were canceled or have
    expired.
    """
    failed, cost, price = list[str](), 0.0, price_of(llm.name) or Price(0.0, 0.0)
    for request in batch.requests:
        outcome = outcomes.get(request.key, "no result")
        if isinstance(outcome, Reply):
            reply = replies.store(request, llm.cleaned(outcome))
            cost += BATCH_PRICE * price.cost(reply.input_tokens, reply.output_tokens)
        else:
            failed.append(outcome)
    _forget(batch, cost)
    n_replies = len(batch.requests) - len(failed)
    log(f"batch {batch.id}: {n_replies} replies for ${cost:.4f}, half of the price")
    if not failed:
        return
    line = f"batch {batch.id}: {len(failed)} requests have no reply, the first: {failed[0]}"
    if any(reason.startswith(_ENDED) for reason in failed):
        raise ModelError(f"{line}; the same command submits them again")
    log(f"{line}; the runs ask for them alone")


def _forget(batch: Batch, cost: float) -> None:
    if batch.reservation:
        budgets.settle(batch.reservation, cost)
    submissions.remove(batch)
