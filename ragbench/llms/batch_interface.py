"""Requests by the batch interfaces of providers: answered within a day, at half the price.

A batch is in the store before it is submitted, so that a command which was stopped continues
with the batches that it has paid for.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Event

from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.groups import grouped
from ragbench.llms.dry_run import STAND_IN
from ragbench.llms.failures import RequestError, RetryPolicy
from ragbench.llms.http import Outcomes
from ragbench.llms.prices import BATCH_PRICE
from ragbench.llms.providers import stored_llm
from ragbench.llms.stored_llm import StoredLLM, bound_of, charged, storable
from ragbench.store import budgets, digest, replies, submissions
from ragbench.store.replies import EMBEDDING, Reply, Request
from ragbench.store.submissions import Batch

FORGET = "RAGBENCH_FORGET_BATCHES"
"""The variable that names batches which are given up."""
POLL_S = 30.0
_ENDED = (
    "canceled",
    "expired",
    "no result",
    "refused",
)  # with all its batch: alone it would cost twice as much
_MAX_REQUESTS = 1000  # of a batch, so that its replies fit into one download
_MAX_TOKENS = 4_000_000  # of the replies of a batch
_NO_INTERFACE = (404, 405, 501)  # the status codes of a server without batches
_UNREADABLE = 10  # states without one between them that can be read


def answer_in_batches(requests: Sequence[Request], log: Callable[[str], None]) -> set[str]:
    """Submit requests in batches, wait until the batches have ended, store the replies, and return the
    keys of the requests in these batches.

    One call need not answer all requests: call again with those that have no stored reply, until
    it returns an empty set. `_answered` states which batches a call waits for, `_submitted` which
    requests are asked directly.

    Raises:
        ConfigError: a model has no such interface; nothing has been sent then.
        ModelError: a provider cannot be reached or has lost a batch; requests were canceled, or have
            expired; the one request of each form that is asked directly, before its batch, failed for
            a reason that all others share.
    """
    for request in requests:
        if request.system == EMBEDDING or request.provider not in ("anthropic", "openai"):
            raise ConfigError(
                f"{request.name} is not asked in batches: they are for answers and "
                "verdicts of anthropic:<model> and openai:<model>. Leave out --batch, or first run "
                'without it what asks this model alone (vectors: with llm = "extractive" and without '
                "a judge); replies that are stored are not asked for again"
            )
    groups = grouped(requests, lambda request: request.name).items()
    models = {stored_llm(name): group for name, group in groups}
    try:
        return _answered(models, log)
    except KeyboardInterrupt:
        pending: list[Batch] = []
        for llm in models:
            pending += submissions.pending(_account(llm))
        if pending:
            log(
                f"The provider keeps working on {described(pending)}; the same command waits for "
                "them."
            )
        raise


def pending_batches(account: str = "") -> list[Batch]:
    """Return the batches of an account (a model and its address, see `_account`), "" for all accounts,
    whose replies are not all stored, the oldest first.

    Batches that RAGBENCH_FORGET_BATCHES names, by their ids or tags, are forgotten and not returned; a
    budget counts their highest possible cost as spent.
    """
    given_up = os.environ.get(FORGET, "").split()
    kept = []
    for batch in submissions.pending(account):
        if batch.name in given_up:
            _forget(batch, _bound(batch.requests))
        else:
            kept.append(batch)
    return kept


def described(batches: Sequence[Batch]) -> str:
    """Describe batches, a clause per model: the number of requests, when the first batch was
    submitted, the highest possible price, and the names of the batches.
    """
    parts = list[str]()
    for account, group in grouped(batches, lambda batch: batch.account).items():
        requests = [request for batch in group for request in batch.requests]
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(group[0].created))
        bound = _bound(requests)
        cost = f"at most ${bound:.4f}" if bound else "an unknown price"
        names = ", ".join(batch.name for batch in group)
        parts.append(
            f"{len(requests)} requests to {account.strip()} since {since}, for {cost} ({names})"
        )
    return "; ".join(parts)


def _answered(
    models: Mapping[StoredLLM, Sequence[Request]], log: Callable[[str], None]
) -> set[str]:
    """Submit requests by model, or take up the batches of an earlier command; store their replies and
    return the keys of the requests in these batches.

    Nothing new is submitted if a batch of an earlier command is pending. With a budget one model
    submits: the next one would wait for the room in the budget that the first has reserved.
    Requests that contain a dry run's placeholder for a reply are left out.
    """
    running: list[tuple[StoredLLM, Batch]] = []
    for llm in models:
        running += [(llm, batch) for batch in _submitted(llm, (), log)]
    if not running:
        for llm, group in models.items():
            final = [request for request in group if STAND_IN not in request.prompt]
            running += [(llm, batch) for batch in _submitted(llm, final, log)]
            if running and llm.settings.max_cost is not None:
                break
    keys: set[str] = set()  # of the requests that this call waits for
    for _, batch in running:
        keys.update(request.key for request in batch.requests)
    logged: set[str] = set()
    unreadable: Counter[str] = Counter()
    while running:
        for llm, batch in list(running):
            state = _poll(llm, batch, unreadable)
            if not isinstance(state, str):  # the outcomes: the batch has ended
                running.remove((llm, batch))
                _collect(llm, batch, state, log)
            elif state not in logged:
                log(state)
                logged.add(state)
        time.sleep(POLL_S if running else 0)
    return keys


def _account(llm: StoredLLM) -> str:
    """Return the name of a model with its address, by which its batches are kept."""
    return f"{llm.name} {llm.client.origin}"


def _bound(requests: Sequence[Request]) -> float:
    """Return the highest possible cost of a batch in US dollars."""
    return BATCH_PRICE * math.fsum(map(bound_of, requests))


def _submitted(
    llm: StoredLLM, requests: Sequence[Request], log: Callable[[str], None]
) -> list[Batch]:
    """Submit the requests that are neither stored nor in a pending batch, and return all batches
    that the model works on.

    The first request with a schema and the first without are not put into a batch but asked
    directly: an error that all requests would meet shows at once, not after hours. It is raised;
    an error of such a request alone is not, and the request stays for a batch. Requests for which
    the budget has no room are not submitted.
    """
    with replies.claim(digest("batch", _account(llm))):
        running = []
        submitted_keys: set[str] = set()
        for pending in pending_batches(_account(llm)):
            batch = _recognised(llm, pending, log)
            if batch is not None:
                running.append(batch)
                submitted_keys.update(request.key for request in batch.requests)
        new = []
        for request, reply in zip(requests, replies.lookup_many(requests), strict=True):
            if reply is None and request.key not in submitted_keys:
                new.append(request)
        for first in _first_of_each_form(new):
            try:
                llm.fetch(first)
            except RequestError as exc:
                is_unreadable = exc.failure is FailureKind.UNREADABLE
                concerns_others = exc.stop or exc.tries > 1 or is_unreadable
                if concerns_others:
                    raise
            new.remove(first)
        while new and (submitted := _submit(llm, new)):
            running.append(submitted)
            new = new[len(submitted.requests) :]
    return running


def _first_of_each_form(requests: Sequence[Request]) -> list[Request]:
    """Return the first request with a schema and the first without one, if there are any."""
    first_of: dict[bool, Request] = {}
    for request in requests:
        first_of.setdefault(request.schema is None, request)
    return list(first_of.values())


def _submit(llm: StoredLLM, requests: Sequence[Request]) -> Batch | None:
    """Submit the first requests, as many as fit into a batch and the budget, and return their batch;
    return None if the budget has no room for any request.

    Raises:
        ModelError: the provider did not take the batch.
    """
    max_tokens = max(request.max_tokens for request in requests)
    n_that_fit = _MAX_TOKENS // max_tokens or 1
    requests = requests[: min(_MAX_REQUESTS, n_that_fit)]
    tag = digest(*(request.key for request in requests))
    requests, reservation = _reserve(llm, requests, tag)
    if not requests:
        return None
    batch = Batch(tag, _account(llm), "", time.time(), reservation, tuple(requests))
    try:
        submissions.put(batch)  # before it is sent, so that a killed process leaves a trace of it
    except BaseException:
        _forget(batch, 0.0)
        raise
    try:
        batch_id = llm.client.submit(batch)
    except RequestError as exc:
        has_no_interface = exc.status in _NO_INTERFACE
        may_be_submitted = exc.paid or exc.status >= 500  # then the next command looks for it
        if has_no_interface or not may_be_submitted:
            _forget(batch, 0.0)
        raise _explained(batch, exc) from exc
    batch = batch._replace(id=batch_id)
    submissions.put(batch)
    return batch


def _reserve(
    llm: StoredLLM, requests: Sequence[Request], tag: str
) -> tuple[Sequence[Request], int]:
    """Reserve the highest cost of a batch in the budget; while there is no room for it, halve the
    requests.

    Returns:
        (The requests whose cost is reserved, the id of the reservation); the id is 0 if no budget
        limits them, and there are no requests if the budget has room for none.
    """
    settings = llm.settings
    if settings.max_cost is None:
        return requests, 0
    bound = _bound(requests)
    while bound:
        # It lasts for no time, since other requests must not wait a day for it to be settled.
        reservation = budgets.reserve(settings.budget, bound, settings.max_cost, 0.0, tag)
        if reservation:
            return requests, reservation
        requests = requests[: len(requests) // 2]
        bound = _bound(requests)
    return requests, 0


def _recognised(llm: StoredLLM, batch: Batch, log: Callable[[str], None]) -> Batch | None:
    """Return a batch with its id. If a process was killed before it noted the id, ask the provider for
    it; if the provider never got the batch, forget the batch and return None.
    """
    if batch.id:
        return batch
    for wait_s in (0.0, POLL_S):  # the submission may still be on its way, so ask twice
        time.sleep(wait_s)
        try:
            similar = RetryPolicy().run(partial(llm.client.find, batch), Event())
        except RequestError as exc:
            raise _explained(batch, exc) from exc
        known_ids = {each.id for each in submissions.pending()}
        new_ids = [batch_id for batch_id in similar if batch_id not in known_ids]
        if new_ids:
            batch = batch._replace(id=new_ids[0])
            submissions.put(batch)
            return batch
    log(f"The provider never got {described([batch])}")
    _forget(batch, 0.0)
    return None


def _explained(batch: Batch, exc: RequestError) -> RequestError:
    """Return a failure; its message names the missing interface if the server has none for batches."""
    if exc.status not in _NO_INTERFACE:
        return exc
    return exc.reworded(
        f"{batch.account.strip()}: this server has no batch interface (it replies {exc.status}); "
        "the sweep without --batch works"
    )


def _poll(llm: StoredLLM, batch: Batch, unreadable: Counter[str]) -> str | Outcomes:
    """Return a sentence about a batch that has not ended or whose state could not be read, else the
    outcomes of its requests.

    `unreadable` counts, by the name of a batch, the states in a row that could not be read.

    Raises:
        ModelError: the provider does not know the batch.
        RequestError: its state cannot be had: the request for it failed for good, or 10 states in
            a row could not be read.
    """
    try:
        state: int | Outcomes = llm.client.poll(batch)
    except RequestError as exc:
        if exc.status == 404:
            raise ModelError(
                f"the provider has no such batch, or its results no longer: {described([batch])}. It "
                "must be asked with the key, of the account and at the address that it was submitted "
                f"with; results are kept for 29 days. {FORGET}={batch.name} forgets it, and the "
                "same command then pays for its requests again"
            ) from exc
        is_unreadable = exc.failure is FailureKind.UNREADABLE
        if is_unreadable:  # asked for again, as a state costs nothing
            unreadable[batch.name] += 1
        is_final = exc.tries == 1 and not is_unreadable
        if is_final or unreadable[batch.name] == _UNREADABLE:
            raise exc.reworded(
                f"{exc}; batch {batch.id} is kept, and the same command waits for it"
            ) from exc
        return f"{exc}; batch {batch.id} continues meanwhile"
    del unreadable[batch.name]
    if isinstance(state, int):
        return f"batch {batch.id}: {state} of {len(batch.requests)} requests done"
    return state


def _collect(
    llm: StoredLLM,
    batch: Batch,
    lines: Outcomes,
    log: Callable[[str], None],
) -> None:
    """Store the replies of a batch that has ended, settle its price and log its failed requests.

    Raises:
        ModelError: requests were canceled or refused, have expired, or have no result; the replies
            to the others are stored.
    """
    outcomes: dict[str, Reply | str] = {}
    for key, outcome in lines:  # a reply counts before a failure of the same request
        if not isinstance(outcomes.get(key), Reply):
            outcomes[key] = outcome
    failed = []
    cost = 0.0
    for request in batch.requests:
        outcome = outcomes.get(request.key, "no result")
        if isinstance(outcome, Reply):
            reply = replies.store(request, storable(outcome))
            cost += BATCH_PRICE * charged(request, reply)
        else:
            failed.append(outcome)
    _forget(batch, cost)
    price = f" for ${cost:.4f}, half of the price" if cost else ""
    log(f"batch {batch.id}: {len(batch.requests) - len(failed)} replies{price}")
    if not failed:
        return
    line = f"batch {batch.id}: {len(failed)} requests have no reply, the first: {failed[0]}"
    if any(reason.startswith(_ENDED) for reason in failed):
        raise ModelError(f"{line}; the same command submits them again")
    log(f"{line}; the runs ask for them alone")


def _forget(batch: Batch, cost: float) -> None:
    """Remove a batch from those that are pending, and settle its reservation in the budget at `cost`."""
    if batch.reservation:
        budgets.settle(batch.reservation, cost)
    submissions.remove(batch)
