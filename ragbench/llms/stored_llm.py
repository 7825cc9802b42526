"""A provider behind the reply store: looked up first, waited for politely, within the budget,
stored before use; what happens offline.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.errors import ConfigError, FailureKind, ModelError, warn_user
from ragbench.hints.attributes import suggesting
from ragbench.llms.costs import check_price, within_budget
from ragbench.llms.dry_run import active_dry_run
from ragbench.llms.environment import TIMEOUT_S, Settings, current_settings
from ragbench.llms.failures import RequestError, RetryPolicy, scrubbed
from ragbench.llms.pace import Pace
from ragbench.store import replies
from ragbench.store.contract import StoreError
from ragbench.store.replies import Reply, Request
from ragbench.text import without_surrogates
from ragbench.types import Completion

Schema = Mapping[str, Any] | None


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
        """Return for each request the completion in the reply store; None if the request has to be sent.

        In a dry run nothing is sent: the requests are counted, and a stand-in, a text that marks the
        missing reply, replaces None.

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
        stores_replies = mode != "off"
        return plan.complete(self.name, requests, completions, stores_replies=stores_replies)

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
            raise RequestError(f"{self.name}: {exc}", FailureKind.STORE, concerns_all=True) from exc

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
            raise RequestError(self._store_failure, FailureKind.STORE, concerns_all=True)
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
        """Raise ConfigError if the user's table of prices is wrong, or if a maximum cost is set and
        this model's price is unknown, unless that is allowed.
        """
        check_price(self.name, self.settings)

    def send(
        self,
        request: Request,
        timeout_s: float = TIMEOUT_S,
        stop: threading.Event | None = None,
        n_at_once: int = 1,
    ) -> Reply:
        """Return the reply of the provider to a request, without storing it.

        The request waits for its turn among the `n_at_once` requests that are sent together, and for
        room in the budget. It is sent again if its failure may be of short duration. The reply has no
        lone surrogates, so that it can be stored.

        Raises:
            RequestError: no reply came, or the budget has no room; the message holds no secret.
            InterruptedError: `stop` is set.
        """
        stop = stop or threading.Event()
        try:
            # again after failures of short duration
            reply = self._retry.run(
                lambda: self._send_in_turn(request, timeout_s, stop, n_at_once),
                stop,
                # ends the last message: "...; what came back is stored, so run again later"
                advice=self.settings.advice_on_repeating,
            )
        except RequestError as exc:
            raise exc.reworded(scrubbed(str(exc), self.client.secrets)) from None
        return storable(reply)

    def _send_in_turn(
        self, request: Request, timeout_s: float, stop: threading.Event, n_at_once: int
    ) -> Reply:
        """Wait until the server may get one more request, then send this one, within the budget."""
        with self._pace.turn(timeout_s, stop, n_at_once) as allowed_s:
            return within_budget(
                request,
                lambda: self._send_once(request, allowed_s),
                self.settings,
                allowed_s,
                stop,
            )

    def _send_once(self, request: Request, timeout_s: float) -> Reply:
        """Send a request a single time, and return the reply."""
        reply: Reply = self.client.send(request, timeout_s)
        return reply

    def _completion(self, reply: Reply, *, cached: bool) -> Completion:
        """Return a reply as a completion of this model; a cached reply has taken no time."""
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


def _ends(prompt: str) -> str:
    """Return a short prompt, or the start and the end of a long prompt: many prompts begin with the same
    instruction and end in the question.
    """
    line = " ".join(prompt.split())
    if len(line) <= 300:
        return repr(line)
    return f"that starts {line[:100]!r} and ends {line[-200:]!r}"
