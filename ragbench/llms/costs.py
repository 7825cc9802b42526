"""Requests within a maximum cost: what a request may cost is reserved in the budget before it is
sent, and replaced by its actual cost afterwards; which request is refused, and its message.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from ragbench.errors import ConfigError, FailureKind
from ragbench.llms.environment import Settings
from ragbench.llms.failures import RequestError
from ragbench.llms.prices import cost_of, price_of
from ragbench.store import budgets
from ragbench.store.contract import StoreError
from ragbench.store.replies import Reply, Request
from ragbench.types import Completion

R = TypeVar("R", Reply, Completion)

# What providers add around a prompt (roles, a schema's instructions, a tool's system prompt), in
# tokens.
_AROUND = 1000

_watchers: list[list[str]] = []  # see `watching_budget`


@contextmanager
def watching_budget() -> Iterator[list[str]]:
    """Yield a list that gets, while the block runs, the message of each request of this process that is
    not sent because of the maximum cost.
    """
    messages: list[str] = []
    _watchers.append(messages)
    try:
        yield messages
    finally:
        _watchers[:] = [each for each in _watchers if each is not messages]


def check_price(name: str, settings: Settings) -> None:
    """Raise ConfigError if the user's table of prices is wrong, or if a maximum cost is set and this
    model's price is unknown, unless that is allowed.
    """
    price = price_of(name)  # reads the table also where there is no maximum: replies need it later
    if settings.max_cost is None or settings.allow_unpriced or price is not None:
        return
    # the table takes names with a colon; the part after it is enough to find a model
    full_name = name if ":" in name else f"mine:{name}"
    entry = f'"{full_name}" = {{ input = 3.00, output = 15.00 }}'
    raise ConfigError(
        f"a maximum cost is set, but the price of {name} is unknown. Write it into a file, in "
        f"dollars per million tokens: [models], then {entry}; and name that file in "
        "RAGBENCH_PRICES. Or continue with --allow-unpriced (RAGBENCH_ALLOW_UNPRICED=1), which "
        "leaves this model out of the maximum"
    )


def within_budget(
    request: Request,
    send: Callable[[], R],
    settings: Settings,
    timeout_s: float,
    stop: threading.Event,
    users_model: str = "",
) -> R:
    """Send a request within the budget, and return the reply.

    Before it is sent, its highest possible cost is reserved in the budget; afterwards the actual cost
    replaces it. Without a maximum cost, or for a free model, the request is only sent.

    Args:
        request: the request.
        send: sends it.
        settings: with the maximum and the budget.
        timeout_s: the seconds that the request may take.
        stop: ends the waiting for room in the budget when it is set.
        users_model: the name of a user's own model, whose replies are not stored; "" for a model of
            a provider.

    Raises:
        RequestError: the budget has no room.
        InterruptedError: `stop` is set.
    """
    has_maximum = settings.max_cost is not None
    # 0 without a price, too
    highest_cost = bound_of(request, users_model) if has_maximum else 0.0
    if not highest_cost:
        return send()
    reservation = _reserve(request, highest_cost, settings, timeout_s, stop, users_model)
    cost = highest_cost  # assumed paid until the outcome is known
    answered = False
    try:
        reply = send()
        cost = charged(request, reply, users_model)
        answered = True
        return reply
    except Exception as exc:
        if not _may_be_paid(exc):
            cost = 0.0
        raise
    finally:
        # if settling fails, the budget keeps counting the highest cost, and the reply is not lost
        with suppress(StoreError):
            budgets.settle(reservation, cost, answered=answered)


def bound_of(request: Request, users_model: str = "") -> float:
    """Return the most that a request may cost; 0 without a price. `users_model` is the name of a
    user's model.
    """
    price = price_of(users_model or request.name)
    if price is None:
        return 0.0
    # more than any tokenizer makes of it: no token is shorter than a byte
    return price.cost(request.n_bytes + _AROUND, request.max_tokens)


def charged(request: Request, reply: Reply | Completion, users_model: str = "") -> float:
    """Return the cost of an answered request; its bound if the reply has no usage figures.

    The reply of a user's model names the model that wrote it, which may have another price.
    """
    if isinstance(reply, Completion):
        cost = cost_of(reply)
        return bound_of(request, users_model) if cost is None else cost
    price = price_of(request.name)
    if price is None or not price.has_usage(reply.input_tokens, reply.output_tokens):
        return bound_of(request)
    return price.cost(reply.input_tokens, reply.output_tokens)


def _may_be_paid(error: BaseException) -> bool:
    """Return False if a failed request certainly costs nothing: the provider charges nothing, or no
    server took the connection of a user's model.
    """
    if isinstance(error, RequestError):
        return error.may_be_paid
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return False
        cause = cause.__cause__ or cause.__context__
    return True


def _reserve(
    request: Request,
    highest_cost: float,
    settings: Settings,
    timeout_s: float,
    stop: threading.Event,
    users_model: str,
) -> int:
    """Reserve the highest possible cost of a request in the budget, and return the id of the
    reservation.

    While the reservations of requests on their way leave no room, wait for these requests, which
    mostly cost less than is reserved for them.

    Raises:
        RequestError: the budget has no room even if these requests cost nothing.
        InterruptedError: `stop` is set.
    """
    maximum = settings.max_cost or 0.0
    # it lasts a minute longer than the request may take; then a killed process has left it
    lasts_s = timeout_s + 60.0
    # With a key, an answer also releases what a killed process reserved for the same request: it is
    # paid once. Not so for a user's model, whose replies are not stored: each answer is paid.
    key = "" if users_model else request.key
    while not stop.is_set():
        # the id of the reservation, or 0: no room yet, or None: no room at all
        reservation = budgets.reserve(settings.budget, highest_cost, maximum, lasts_s, key)
        if reservation is None:
            raise _over_budget(request, highest_cost, settings, users_model)
        if reservation:
            return reservation
        stop.wait(0.1)
    raise InterruptedError("stopped")


def _over_budget(
    request: Request, highest_cost: float, settings: Settings, users_model: str
) -> RequestError:
    """Return the failure of a request whose highest cost would pass the maximum, and add its message to
    the lists of `watching_budget`. Such as:

    "budget: openai:gpt-5 may cost 0.0213 dollars for this request, and 0.9950 of 1 are spent; what came
    back is stored, so run again with a higher maximum"

    Args:
        users_model: the name of a user's own model; "" for a model of a provider.
    """
    spent = budgets.spent(settings.budget)
    if users_model:
        run_again = (
            "replies of your own model are not stored: all is asked again if you run it again"
        )
    else:
        run_again = settings.advice_on_repeating
    message = (
        f"budget: {users_model or request.name} may cost {highest_cost:.4f} dollars for this request, "
        f"and {spent.settled:.4f} of {settings.max_cost or 0.0:.4g} are "
        f"spent{spent.lost_in_words}; {run_again} with a higher maximum"
    )
    for messages in _watchers:
        messages.append(message)
    return RequestError(message, FailureKind.BUDGET, concerns_all=True)
