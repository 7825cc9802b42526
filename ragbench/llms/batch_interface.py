"""Requests by the batch interfaces of providers, answered within a day at half the price: how many
in a batch, how often it is asked for, which are continued or given up.

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
from ragbench.llms.costs import bound_of, charged
from ragbench.llms.dry_run import STAND_IN
from ragbench.llms.failures import RequestError, RetryPolicy
from ragbench.llms.http import Outcomes
from ragbench.llms.prices import BATCH_PRICE
from ragbench.llms.providers import stored_llm
from ragbench.llms.stored_llm import StoredLLM, storable
from ragbench.store import budgets, digest, replies, submissions
from ragbench.store.replies import EMBEDDING, Reply, Request
from ragbench.store.submissions import Batch

FORGET = "RAGBENCH_FORGET_BATCHES"
"""The variable that names batches which are given up."""
POLL_S = 30.0
# how a provider gives up a request of a batch; asked alone, it would cost twice as much
_ENDED = ("canceled", "expired", "no result", "refused")
_MAX_REQUESTS = 1000  # of a batch, so that its replies fit into one download
_MAX_TOKENS = 4_000_000  # of the replies of a batch
_NO_INTERFACE = (404, 405, 501)  # the status codes of a server without batches
_UNREADABLE = 10  # unreadable states of a batch in a row, after which waiting ends


def answer_in_batches(requests: Sequence[Request], log: Callable[[str], None]) -> set[str]:
    """Submit requests in batches, wait until the batches have ended, and store the replies.

    One call need not answer all requests: it waits only for the batches of an earlier command if there
    are any, and the budget may have no room for some. Call again with the requests that have no stored
    reply, until it returns an empty set.

    The first request with a schema and the first without one are asked directly, so that an error in
    all requests is seen before a batch is sent.

    Returns:
        The keys of the requests in these batches, also of an earlier command's requests that are
        not among `requests`. An empty set: there was no batch to wait for, and none to submit.

    Raises:
        ConfigError: a model has no such interface; nothing has been sent then.
        ModelError: a provider cannot be reached or has lost a batch; requests were canceled, or have
            expired; a request that is asked directly failed for a reason that all others share.
    """
    for request in requests:
        _check_has_batches(request)
    groups = grouped(requests, lambda request: request.name).items()
    models = {stored_llm(name): group for name, group in groups}
    try:
        running = _start_batches(models, log)
        _wait_for(running, log)  # and store their replies
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
    return {request.key for _, batch in running for request in batch.requests}


def _check_has_batches(request: Request) -> None:
    """Raise ConfigError for a request that no batch interface takes: the request of an embedding (a
    vector), or to another provider than Anthropic and OpenAI.

    The message tells the user to run without --batch first, with settings by which only this model is
    asked. Its replies are then in the store, and the run with --batch need not ask it.
    """
    is_embedding = request.system == EMBEDDING
    if is_embedding or request.provider not in ("anthropic", "openai"):
        raise ConfigError(
            f"{request.name} is not asked in batches: they are for answers and "
            "verdicts of anthropic:<model> and openai:<model>. Leave out --batch, or first run "
            'without it what asks this model alone (vectors: with llm = "extractive" and without '
            "a judge); replies that are stored are not asked for again"
        )


def pending_batches(account: str = "") -> list[Batch]:
    """Return the batches whose replies are not all stored, the oldest first.

    `account` is a model and its address (see `_account`); "" means all.

    Batches that RAGBENCH_FORGET_BATCHES names are forgotten and not returned; a budget counts their
    highest possible cost as spent. The name of a batch is its id at the provider, or its tag as long as
    it has no id (`described` shows it).
    """
    given_up = os.environ.get(FORGET, "").split()
    kept = []
    for batch in submissions.pending(account):
        if batch.name in given_up:
            _forget(batch, _highest_cost(batch.requests))
        else:
            kept.append(batch)
    return kept


def described(batches: Sequence[Batch]) -> str:
    """Describe batches, in a clause for each model.

    It states the number of requests, when the first batch was submitted, the highest possible
    price, and the names of the batches.
    """
    clauses = list[str]()
    for account, group in grouped(batches, lambda batch: batch.account).items():
        requests = [request for batch in group for request in batch.requests]
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(group[0].created))
        highest_cost = _highest_cost(requests)
        cost = f"at most ${highest_cost:.4f}" if highest_cost else "an unknown price"
        names = ", ".join(batch.name for batch in group)
        clauses.append(
            f"{len(requests)} requests to {account.strip()} since {since}, for {cost} ({names})"
        )
    return "; ".join(clauses)


def _start_batches(
    models: Mapping[StoredLLM, Sequence[Request]], log: Callable[[str], None]
) -> list[tuple[StoredLLM, Batch]]:
    """Return batches to wait for: the pending batches of an earlier command.

    If there are none, submit the requests of each model in new batches, and return these.

    With a budget only one model submits: a batch reserves its highest possible cost, which may leave
    no room for another. Requests that contain a stand-in for a missing reply are left out.
    """
    earlier = []
    for llm in models:  # batches of an earlier command
        pending = _submit_missing(llm, (), log)  # without requests it submits nothing
        earlier += [(llm, batch) for batch in pending]
    if earlier:
        return earlier
    started: list[tuple[StoredLLM, Batch]] = []
    for llm, requests in models.items():
        complete = [request for request in requests if STAND_IN not in request.prompt]
        started += [(llm, batch) for batch in _submit_missing(llm, complete, log)]
        if started and llm.settings.max_cost is not None:  # one model at a time (see above)
            break
    return started


def _wait_for(batches: Sequence[tuple[StoredLLM, Batch]], log: Callable[[str], None]) -> None:
    """Ask for the state of each batch until it has ended, and store its replies; log each new state."""
    running = list(batches)
    logged: set[str] = set()
    unreadable: Counter[str] = Counter()
    while running:
        for llm, batch in list(running):
            # a sentence while the batch is at work; `unreadable` counts replies without a state
            state = _poll(llm, batch, unreadable)
            if not isinstance(state, str):  # the outcomes: the batch has ended
                running.remove((llm, batch))
                _collect(llm, batch, state, log)
            elif state not in logged:
                log(state)
                logged.add(state)
        time.sleep(POLL_S if running else 0)


def _submit_missing(
    llm: StoredLLM, requests: Sequence[Request], log: Callable[[str], None]
) -> list[Batch]:
    """Submit the requests that are neither stored nor in a pending batch.

    Returns all batches that the model works on, pending and new.

    The first request with a schema and the first without are not put into a batch but asked
    directly (`_ask_directly`). Requests for which the budget has no room are not submitted. No other
    process submits for this model meanwhile.
    """
    # a lock, which other processes respect
    with replies.claim(digest("batch", _account(llm))):
        running = _pending_with_ids(llm, log)
        submitted_keys = {request.key for batch in running for request in batch.requests}
        missing = []
        for request, reply in zip(requests, replies.lookup_many(requests), strict=True):
            if reply is None and request.key not in submitted_keys:
                missing.append(request)
        for first in _first_of_each_form(missing):
            _ask_directly(llm, first)
            missing.remove(first)  # also one that failed alone: a later call submits it
        while missing:
            submitted = _submit(llm, missing)  # as many as fit into one batch
            if submitted is None:  # the budget has no room
                break
            running.append(submitted)
            missing = missing[len(submitted.requests) :]
    return running


def _pending_with_ids(llm: StoredLLM, log: Callable[[str], None]) -> list[Batch]:
    """Return the pending batches of a model that its provider knows."""
    recognised = [_with_id(llm, batch, log) for batch in pending_batches(_account(llm))]
    return [batch for batch in recognised if batch is not None]


def _ask_directly(llm: StoredLLM, request: Request) -> None:
    """Ask for the reply to one request without a batch, and store it.

    So an error that all requests would meet shows at once, not after hours. An error of this request
    alone is ignored.

    Raises:
        RequestError: the request failed for a reason that others share: the key, the address, the
            state of the server, or the form of its replies.
    """
    try:
        llm.fetch(request)
    except RequestError as exc:
        is_unreadable = exc.failure is FailureKind.UNREADABLE
        is_of_server = exc.max_tries > 1  # such as a time-out: the request may be sent again
        if exc.concerns_all or is_of_server or is_unreadable:
            raise


def _account(llm: StoredLLM) -> str:
    """Return the name of a model with its address, by which its batches are kept."""
    return f"{llm.name} {llm.client.origin}"


def _highest_cost(requests: Sequence[Request]) -> float:
    """Return the highest possible cost of a batch in US dollars."""
    return BATCH_PRICE * math.fsum(map(bound_of, requests))


def _first_of_each_form(requests: Sequence[Request]) -> list[Request]:
    """Return the first request with a schema and the first without one, if there are any."""
    first_by_form: dict[bool, Request] = {}
    for request in requests:
        has_schema = request.schema is not None
        first_by_form.setdefault(has_schema, request)
    return list(first_by_form.values())


def _submit(llm: StoredLLM, requests: Sequence[Request]) -> Batch | None:
    """Submit the first of the requests as one batch, and return the batch; None if the budget has no room
    for any request.

    As many are submitted as a batch may have. If the budget has no room for them, half of them are, or
    half of these, and so on (`_reserve`): up to half of the requests that it has room for wait for the
    next batch.

    Raises:
        ModelError: the provider did not take the batch.
    """
    # two limits of a batch: the number of its requests, and the tokens of all its replies
    max_tokens = max(request.max_tokens for request in requests)
    n_by_tokens = max(1, _MAX_TOKENS // max_tokens)
    requests = requests[: min(_MAX_REQUESTS, n_by_tokens)]
    tag = digest(*(request.key for request in requests))
    # a half, a quarter ... of the requests, or none, if the budget has no room for all
    requests, reservation = _reserve(llm, requests, tag)
    if not requests:
        return None
    # "" until the provider gives the batch an id
    batch = Batch(tag, _account(llm), "", time.time(), reservation, tuple(requests))
    try:
        submissions.put(batch)  # before it is sent, so that a killed process leaves a trace of it
    except BaseException:
        _forget(batch, 0.0)  # it was not sent, so it costs nothing
        raise
    # if this raises, the batch stays stored only if the provider may have got it
    batch_id = _send_batch(llm, batch)
    batch = batch._replace(id=batch_id)
    submissions.put(batch)  # adds the id to the stored batch
    return batch


def _send_batch(llm: StoredLLM, batch: Batch) -> str:
    """Send a batch to its provider, and return the id that it gets there.

    After a failure the batch stays in the store if the provider may have got it: then the next command
    asks the provider for it.

    Raises:
        RequestError: the provider did not take the batch.
    """
    try:
        batch_id: str = llm.client.submit(batch)
        return batch_id
    except RequestError as exc:
        has_no_interface = exc.status in _NO_INTERFACE
        # the connection broke off, or the server failed after it may have taken the batch
        may_be_submitted = exc.may_be_paid or exc.status >= 500
        if has_no_interface or not may_be_submitted:
            _forget(batch, 0.0)
        raise _explained(batch, exc) from exc


def _with_id(llm: StoredLLM, batch: Batch, log: Callable[[str], None]) -> Batch | None:
    """Return a batch with the id that it has at its provider; None if the provider never got it.

    The id is missing if a process was killed between submitting the batch and noting the id. Then the
    provider is asked for it; a batch that it never got is forgotten.
    """
    if batch.id:
        return batch
    for wait_s in (0.0, POLL_S):  # the submission may still be on its way, so ask twice
        time.sleep(wait_s)
        try:
            # the ids of the provider's batches that may be this one, the likeliest first
            candidates = RetryPolicy().run(partial(llm.client.find, batch), Event())
        except RequestError as exc:
            raise _explained(batch, exc) from exc
        ids_of_other_batches = {other.id for other in submissions.pending()}
        new_ids = [batch_id for batch_id in candidates if batch_id not in ids_of_other_batches]
        if new_ids:
            batch = batch._replace(id=new_ids[0])
            submissions.put(batch)
            return batch
    log(f"The provider never got {described([batch])}")
    _forget(batch, 0.0)
    return None


def _reserve(
    llm: StoredLLM, requests: Sequence[Request], tag: str
) -> tuple[Sequence[Request], int]:
    """Reserve the highest possible cost of a batch in the budget, before it is submitted.

    If there is no room, half of the requests are left out, then half of the rest, and so on.

    Returns:
        (The requests whose cost is reserved, the id of the reservation). The id is 0 if no cost has to
        be reserved; there are no requests if the budget has room for none.
    """
    settings = llm.settings
    if settings.max_cost is None:
        return requests, 0
    highest_cost = _highest_cost(requests)
    while highest_cost:
        # The reservation counts as spent at once (0.0 seconds): a batch takes up to a day, and other
        # requests must not wait for it to turn out cheaper.
        reservation = budgets.reserve(settings.budget, highest_cost, settings.max_cost, 0.0, tag)
        if reservation:
            return requests, reservation
        requests = requests[: len(requests) // 2]
        highest_cost = _highest_cost(requests)
    return requests, 0


def _explained(batch: Batch, exc: RequestError) -> RequestError:
    """Return a failure; its message names the missing interface if the server has none for batches."""
    if exc.status not in _NO_INTERFACE:
        return exc
    return exc.reworded(
        f"{batch.account.strip()}: this server has no batch interface (it replies {exc.status}); "
        "the sweep without --batch works"
    )


def _poll(llm: StoredLLM, batch: Batch, unreadable: Counter[str]) -> str | Outcomes:
    """Ask for the state of a batch. Return the outcomes of its requests if it has ended, else a sentence:
    how many requests are done, or why the state could not be read this time.

    Args:
        unreadable: name of a batch -> number of its last states in a row that could not be read.

    Raises:
        ModelError: the provider does not know the batch.
        RequestError: its state cannot be had: the request for it failed for good, or 10 states in
            a row could not be read.
    """
    try:
        state: int | Outcomes = llm.client.poll(batch)
    except RequestError as exc:
        if exc.status == 404:
            raise ModelError(_lost_batch(batch)) from exc
        is_unreadable = exc.failure is FailureKind.UNREADABLE
        if is_unreadable:  # asked for again, as a state costs nothing
            unreadable[batch.name] += 1
        is_final = exc.max_tries == 1 and not is_unreadable  # asking again would not help
        if is_final or unreadable[batch.name] == _UNREADABLE:
            raise exc.reworded(
                f"{exc}; batch {batch.id} is kept, and the same command waits for it"
            ) from exc
        return f"{exc}; batch {batch.id} continues meanwhile"
    unreadable.pop(batch.name, None)  # the next unreadable state is the first in a row
    if isinstance(state, int):  # the number of requests that are done
        return f"batch {batch.id}: {state} of {len(batch.requests)} requests done"
    return state


def _lost_batch(batch: Batch) -> str:
    """Return the message about a batch that its provider does not know."""
    return (
        f"the provider has no such batch, or its results no longer: {described([batch])}. It "
        "must be asked with the key, of the account and at the address that it was submitted "
        f"with; results are kept for 29 days. {FORGET}={batch.name} forgets it, and the "
        "same command then pays for its requests again"
    )


def _collect(
    llm: StoredLLM,
    batch: Batch,
    outcomes: Outcomes,
    log: Callable[[str], None],
) -> None:
    """Store the replies of a batch that has ended, settle its price and log its failed requests.

    Failures are of two kinds. If the provider gave up a request (`_ENDED`: canceled, expired, no
    result, refused), this is an error, so that the user can submit it again at half the price. Any
    other failure is only logged: the runs that follow ask for such a request alone.

    Args:
        llm: the model.
        batch: the batch, still in the store as pending; it is removed there.
        outcomes: pairs (key of a request, its reply or the reason of its failure in words).
        log: gets a line for the batch, and one for its failures.

    Raises:
        ModelError: the provider gave up a request; the replies to the others are stored.
    """
    outcome_by_key = _best_outcomes(outcomes)
    failures = []  # the reasons, in words
    cost = 0.0
    for request in batch.requests:
        outcome = outcome_by_key.get(request.key, "no result")
        if isinstance(outcome, Reply):
            reply = replies.store(request, storable(outcome))
            cost += BATCH_PRICE * charged(request, reply)
        else:
            failures.append(outcome)
    # the batch is no longer pending, and the budget counts its true cost, not the highest possible
    _forget(batch, cost)
    price = f" for ${cost:.4f}, half of the price" if cost else ""
    log(f"batch {batch.id}: {len(batch.requests) - len(failures)} replies{price}")
    if not failures:
        return
    line = f"batch {batch.id}: {len(failures)} requests have no reply, the first: {failures[0]}"
    if any(reason.startswith(_ENDED) for reason in failures):
        raise ModelError(f"{line}; the same command submits them again")
    log(f"{line}; the runs ask for them alone")


def _best_outcomes(outcomes: Outcomes) -> dict[str, Reply | str]:
    """Return key of a request -> its outcome; of several, its reply, else the last failure."""
    best: dict[str, Reply | str] = {}
    for key, outcome in outcomes:
        if not isinstance(best.get(key), Reply):
            best[key] = outcome
    return best


def _forget(batch: Batch, cost: float) -> None:
    """Remove a batch from those that are pending, and settle its reservation in the budget at `cost`."""
    if batch.reservation:
        budgets.settle(batch.reservation, cost)
    submissions.remove(batch)
