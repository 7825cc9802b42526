"""A provider behind the reply store: looked up first, waited for politely, within the budget,
stored before use.
"""

import datetime
import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ragbench.errors import ConfigError, FailureKind, ModelError, warn_user
from ragbench.hints import suggesting
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.environment import TIMEOUT_S, Settings, current_settings
from ragbench.llms.failures import RequestError, RetryPolicy, scrubbed
from ragbench.llms.pace import Pace
from ragbench.llms.prices import price_of
from ragbench.store import budgets, replies
from ragbench.store.contract import StoreError
from ragbench.store.replies import Reply, Request
from ragbench.text import without_surrogates
from ragbench.types import Completion

Schema = Mapping[str, Any] | None

# What providers add around a prompt (roles, a schema's instructions, a tool's system prompt), in
# tokens.
_AROUND = 1000


@suggesting()
class StoredLLM:
    """A model of a provider, as `load_llm` returns it. Threads may share it. It shows no key in any
    form.

    Its client has an `origin`, `secrets`, and `send(request, timeout_s)`, which sends one request
    once and returns a Reply.
    """

    def __init__(
        self, provider: str, model: str, client: Any, settings: Settings | None = None
    ) -> None:
        """Make a model of a provider that `client` asks; without `settings`, the settings of the environment
        are used at each request.
        """
        self._provider = provider
        self._model = model
        self.client = client
        self._settings = settings
        self._retry = RetryPolicy()
        self._pace = Pace(self.name)
        self._store_failure = ""

    @property
    def name(self) -> str:
        """Return provider and model, "provider:model", as completions carry it."""
        return f"{self._provider}:{self._model}"

    @property
    def settings(self) -> Settings:
        """Return the settings of the constructor, else the settings of the environment, as it is now."""
        return self._settings or current_settings()

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def generate(
        self,
        prompt: str,
        *,
        system: str | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        schema: Schema = None,
        sample: int = 0,
    ) -> Completion:
        """Return the model's reply, from the store if the same request was sent before.

        Args:
            prompt, system: the texts of the request.
            max_tokens: the maximum length of the reply.
            temperature: 0 for the most likely reply.
            schema: a JSON schema for the reply. Providers without schemas get it as a part of the
                prompt, so check the reply.
            sample: the number of the repetition (0, 1, ...); each has a stored reply of its own.

        Raises:
            ConfigError: an argument is invalid.
            ModelError: no reply came.
        """
        request = self.request(prompt, system, max_tokens, temperature, schema, sample)
        return self.known([request])[0] or self.fetch(request)  # known: None if it is not stored

    def request(
        self,
        prompt: str,
        system: str | None,
        max_tokens: int,
        temperature: float,
        schema: Schema,
        sample: int,
    ) -> Request:
        """Return the request for a prompt, with the arguments of `generate`.

        Raises:
            ConfigError: an argument is invalid.
        """
        if not isinstance(prompt, str) or not isinstance(system, str | None):
            raise ConfigError(
                f"{self.name}: prompt and system must be texts, not {type(prompt).__name__}"
            )
        if not (isinstance(max_tokens, int) and max_tokens >= 1 and 0 <= temperature < math.inf):
            raise ConfigError(
                f"{self.name}: max_tokens is {max_tokens!r} and temperature {temperature!r}; "
                "expected a whole number of 1 or more, and a number of 0 or more"
            )
        return Request(
            self._provider,
            self._model,
            without_surrogates(prompt),
            system and without_surrogates(system),
            max_tokens,
            float(temperature),
            schema,
            sample,
            self.client.origin,
        )

    def known(self, requests: Sequence[Request]) -> Sequence[Completion | None]:
        """Return for each request the completion in the reply store; None if it has to be sent.

        In a dry run nothing is sent: a stand-in, a text that marks the missing reply, replaces None.

        Raises:
            ConfigError: a maximum cost is set, and the price of this model is unknown.
            ModelError: the store cannot be read.
        """
        self.check_budget()
        mode = self.settings.replies
        stored: Sequence[Reply | None] = [None] * len(requests)
        try:
            if mode != "off":
                # offline, when nothing can be sent, a reply from another address is good enough
                stored = replies.lookup_many(requests, any_origin=mode == "offline")
        except StoreError as exc:
            raise ModelError(exc, FailureKind.STORE) from exc
        completions: list[Completion | None] = []
        for reply in stored:
            completions.append(None if reply is None else self._completion(reply, cached=True))
        plan = active_dry_run()
        if plan is None:  # not a dry run
            return completions
        return plan.complete(self.name, requests, completions, shared=mode != "off")

    def fetch(
        self,
        request: Request,
        *,
        timeout_s: float = TIMEOUT_S,
        stop: threading.Event | None = None,
        n_at_once: int = 1,
    ) -> Completion:
        """Return the reply of the provider, which is stored first unless replies are "off".

        Args:
            request: the request.
            timeout_s: the seconds that the server may work on it, without its wait in the queue behind
                other requests of this call (see `Pace`).
            stop: ends the waiting when it is set.
            n_at_once: the number of requests that are sent together, with this one.

        Raises:
            RequestError: no reply came, or could be stored; or replies are "offline".
            InterruptedError: `stop` is set.
        """
        mode = self.settings.replies
        if mode == "offline":
            raise self._not_stored(request)
        if mode == "off":
            return self._completion(self.send(request, timeout_s, stop, n_at_once), cached=False)
        try:
            with replies.claim(request.key, stop):  # no other thread or process sends it meanwhile
                stored = replies.lookup(request)
                if stored:  # another process has stored it while this one waited
                    return self._completion(stored, cached=True)
                reply = self._send_and_store(request, timeout_s, stop, n_at_once)
                return self._completion(reply, cached=False)
        except StoreError as exc:
            raise RequestError(f"{self.name}: {exc}", FailureKind.STORE, stop=True) from exc

    def _not_stored(self, request: Request) -> RequestError:
        """Return the failure of a request that has no stored reply, where replies are "offline"."""
        return RequestError(
            f"{self.name}: offline, and the reply store has no reply to the "
            f"prompt {_ends(request.prompt)} (max_tokens {request.max_tokens}, "
            f"temperature {request.temperature:g}, sample {request.sample}); run it once "
            "without --offline, or name a cache folder that has it (RAGBENCH_CACHE_DIR)",
            FailureKind.OFFLINE,
        )

    def _send_and_store(
        self,
        request: Request,
        timeout_s: float,
        stop: threading.Event | None,
        n_at_once: int,
    ) -> Reply:
        """Return the reply of the provider to a request, stored.

        A reply that cannot be stored is used all the same, with a warning, as it is paid for. No further
        reply is bought then, since it could not be kept.

        Raises:
            RequestError: no reply came, or an earlier reply could not be stored.
            InterruptedError: `stop` is set.
        """
        if self._store_failure:
            raise RequestError(self._store_failure, FailureKind.STORE, stop=True)
        reply = self.send(request, timeout_s, stop, n_at_once)
        try:
            return replies.store(request, reply)
        except StoreError as exc:
            is_first = not self._store_failure  # other threads may have met the failure, too
            self._store_failure = f"{self.name}: {exc}"
            if is_first:
                warn_user(
                    f"paid replies are used, but could not be stored, and no more are bought: {exc}",
                    RuntimeWarning,
                )
            return reply

    def check_budget(self) -> None:
        """Raise ConfigError if a maximum cost is set and this model's price is unknown, unless that
        is allowed.
        """
        settings = self.settings
        if settings.max_cost is None or settings.allow_unpriced or price_of(self.name) is not None:
            return
        entry = f'"{self.name}" = {{ input = 3.00, output = 15.00 }}'
        raise ConfigError(
            f"a maximum cost is set, but the price of {self.name} is unknown. Write it into a "
            f"file, in dollars per million tokens: checked = {datetime.date.today()}, then "
            f"[models], then {entry}; and name that file in RAGBENCH_PRICES. Or continue with "
            "--allow-unpriced (RAGBENCH_ALLOW_UNPRICED=1), which leaves this model out of the "
            "maximum"
        )

    def send(
        self,
        request: Request,
        timeout_s: float = TIMEOUT_S,
        stop: threading.Event | None = None,
        n_at_once: int = 1,
    ) -> Reply:
        """Return the reply of the provider to a request, without storing it.

        The request waits for its turn (`n_at_once` requests are sent together with it) and for room in
        the budget, and is sent again if its failure may be of short duration. The reply has no lone
        surrogates, so that it can be stored.

        Raises:
            RequestError: no reply came, or the budget has no room; the message holds no secret.
            InterruptedError: `stop` is set.
        """
        stop = stop or threading.Event()
        try:
            # again after failures of short duration; `advice` ends the message of the last one
            reply = self._retry.run(
                lambda: self._in_turn(request, timeout_s, stop, n_at_once),
                stop,
                advice=self.settings.kept,
            )
        except RequestError as exc:
            raise exc.reworded(scrubbed(str(exc), self.client.secrets)) from None
        return storable(reply)

    def _in_turn(
        self, request: Request, timeout_s: float, stop: threading.Event, n_at_once: int
    ) -> Reply:
        """Send a request once its server may get one more."""
        with self._pace.turn(timeout_s, stop, n_at_once) as allowed_s:
            return self._within_budget(request, allowed_s, stop)

    def _within_budget(self, request: Request, timeout_s: float, stop: threading.Event) -> Reply:
        """Send a request within the budget, and return the reply.

        Before it is sent, its highest possible cost is reserved in the budget; afterwards the actual cost
        replaces it. Without a maximum cost, or for a free model, the request is only sent.
        """
        has_maximum = self.settings.max_cost is not None
        highest_cost = bound_of(request) if has_maximum else 0.0  # 0 without a price, too
        if not highest_cost:
            reply: Reply = self.client.send(request, timeout_s)
            return reply
        reservation = self._reserve(request, highest_cost, timeout_s, stop)  # waits for room
        cost = highest_cost  # assumed paid until the outcome is known
        answered = False
        try:
            reply = self.client.send(request, timeout_s)
            cost = charged(request, reply)
            answered = True
            return reply
        except RequestError as exc:
            if not exc.paid:  # the provider certainly charges nothing
                cost = 0.0
            raise
        finally:
            # if settling fails, the budget keeps counting the highest cost, and the reply is not lost
            with suppress(StoreError):
                budgets.settle(reservation, cost, answered=answered)

    def _reserve(
        self, request: Request, highest_cost: float, timeout_s: float, stop: threading.Event
    ) -> int:
        """Reserve the highest possible cost of a request in the budget, and return the id of the
        reservation.

        While the reservations of requests on their way leave no room, wait for these requests, which
        mostly cost less than is reserved for them.

        Raises:
            RequestError: the budget has no room even if these requests cost nothing.
            InterruptedError: `stop` is set.
        """
        settings = self.settings
        maximum = settings.max_cost or 0.0
        # it lasts a minute longer than the request may take; then a killed process has left it
        lasts_s = timeout_s + 60.0
        while not stop.is_set():
            reservation = budgets.reserve(
                settings.budget, highest_cost, maximum, lasts_s, request.key
            )
            if reservation is None:  # there is no room at all
                raise self._over_budget(highest_cost, maximum)
            if reservation:  # its id
                return reservation
            stop.wait(0.1)  # 0: there is no room yet
        raise InterruptedError("stopped")

    def _over_budget(self, highest_cost: float, maximum: float) -> RequestError:
        """Return the failure of a request whose highest cost would pass the maximum."""
        settings = self.settings
        spent = budgets.spent(settings.budget)
        return RequestError(
            f"budget: {self.name} may cost {highest_cost:.4f} dollars for this request, "
            f"and {spent.settled:.4f} of {maximum:.2f} are "
            f"spent{spent.lost_in_words}; {settings.kept} with a higher maximum",
            FailureKind.BUDGET,
            stop=True,
        )

    def _completion(self, reply: Reply, *, cached: bool) -> Completion:
        """Return a reply as a completion of this model; a cached one has taken no time."""
        return Completion(
            reply.text,
            self.name,
            reply.input_tokens,
            reply.output_tokens,
            0.0 if cached else reply.latency_s,
            cached,
            reply.finish,
        )


def storable(reply: Reply) -> Reply:
    """Return the reply without lone surrogates, which no file can hold; nothing else is changed."""
    return reply._replace(
        text=without_surrogates(reply.text), served=without_surrogates(reply.served)
    )


def bound_of(request: Request) -> float:
    """Return the most that a request may cost; 0 without a price."""
    price = price_of(request.name)
    if price is None:
        return 0.0
    # more than any tokenizer makes of it: no token is shorter than a byte
    return price.cost(request.n_bytes + _AROUND, request.max_tokens)


def charged(request: Request, reply: Reply) -> float:
    """Return the cost of an answered request; its bound if the reply has no usage figures."""
    price = price_of(request.name)
    if price is None or not price.has_usage(reply.input_tokens, reply.output_tokens):
        return bound_of(request)
    return price.cost(reply.input_tokens, reply.output_tokens)


def _ends(prompt: str) -> str:
    """Return a short prompt, or the start and the end of a long one: many begin with the same
    instruction and end in the question.
    """
    line = " ".join(prompt.split())
    if len(line) <= 300:
        return repr(line)
    return f"that starts {line[:100]!r} and ends {line[-200:]!r}"
