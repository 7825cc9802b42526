"""A dry run: the same code runs, and its requests to language models are counted instead of sent;
the text that stands for a reply, and the estimate of tokens and cost.

The requests are not guessed. Replies that the store has are real; for each other one there is a
stand-in, and requests that depend on a stand-in (a verdict on an answer still to be written) are
counted too, as uncertain.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ragbench.errors import ConfigError, DataWarning, FailureKind
from ragbench.hints.attributes import suggesting
from ragbench.hints.calls import explaining_calls
from ragbench.llms.prices import price_of
from ragbench.store import replies
from ragbench.store.replies import Request
from ragbench.types import Completion

if TYPE_CHECKING:
    import pandas as pd

STAND_IN = "This sentence stands for one of the reply, which is not known before it has been asked for [1]. "
"""Four of these are about as long as a cited answer."""

# replies in the store from which the usual length of a model's replies can be estimated
_ENOUGH = 10

_lock = threading.Lock()
_active: DryRun | None = None


class ModelPlan(NamedTuple):
    """The requests that one model would get, each counted once.

    `cached` replies are in the store and cost nothing, `to_send` are not; of these `uncertain`
    depend on replies that are not there yet. Tokens are counted for the requests to send:
    `input_tokens` is a quarter of their bytes (near to the truth for English text; code and other
    scripts take more), `output_tokens` the length of the model's usual reply (a quarter of the
    limit if the store has fewer than 10 of its replies), `max_output_tokens` the limit. `cost` is in
    US dollars for these tokens, `max_cost` with every reply as long as its limit allows; both are
    None if the price is unknown.
    """

    model: str
    cached: int
    to_send: int
    uncertain: int
    input_tokens: int
    output_tokens: int
    max_output_tokens: int
    cost: float | None
    max_cost: float | None


@suggesting()
class DryRun:
    """The requests of the code inside `with dry_run()`; `dry_run` makes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = count()
        # name of a model -> key -> a request, and True if its reply is in the store
        self._requests: dict[str, dict[str, tuple[Request, bool]]] = {}
        self.questions: Counter[str] = Counter()
        """The number of questions for each system under test that is not asked (a service, a
        function).
        """

    @property
    def models(self) -> tuple[ModelPlan, ...]:
        """Return the plan of each model, by name."""
        plans = []
        for name, requests in sorted(self._requests.items()):
            plans.append(_model_plan(name, list(requests.values())))
        return tuple(plans)

    @property
    def to_send(self) -> list[Request]:
        """Return the requests that are not in the store."""
        to_send = []
        for requests in self._requests.values():
            to_send += [request for request, is_stored in requests.values() if not is_stored]
        return to_send

    @property
    def table(self) -> pd.DataFrame:
        """Return `models` as a frame; the cost of a model without a known price is "unknown"."""
        import pandas as pd

        rows = [["unknown" if value is None else value for value in plan] for plan in self.models]
        return pd.DataFrame(rows, columns=ModelPlan._fields)

    def complete(
        self,
        name: str,
        requests: Sequence[Request],
        found: Sequence[Completion | None],
        *,
        stores_replies: bool,
    ) -> list[Completion]:
        """Record the requests of a call to `generate_many`, and return its completions.

        A completion that is missing in the store is replaced by a stand-in: a text of some 70 words,
        different for each request; if the reply has to follow a schema, a failed completion.

        Args:
            name: the name of the model.
            requests: the requests.
            found: the completions in the store; None for a request without one.
            stores_replies: True if a real run would store the replies, so that a later call finds them,
                and a request of both calls is counted once.
        """
        completions = []
        with self._lock:
            # The number of the call makes keys differ between calls.
            key_prefix = "" if stores_replies else f"{next(self._calls)} "
            recorded = self._requests.setdefault(name, {})
            # a request that is recorded already stays as it is, and is counted once
            for request, completion in zip(requests, found, strict=True):
                is_stored = completion is not None
                recorded.setdefault(f"{key_prefix}{request.key}", (request, is_stored))
                completions.append(completion or _stand_in(name, request))
        return completions

    def note_question(self, system: str) -> None:
        """Note that a system under test would be asked a question."""
        with self._lock:
            self.questions[system] += 1


@explaining_calls("with rb.dry_run() as plan: rb.evaluate(data, system)")
@contextmanager
def dry_run() -> Iterator[DryRun]:
    """Run the code inside without sending anything, and count its requests.

    No language model is asked in any thread of this process, and no system under test that is not
    ragbench's own (a service, a function). The code gets stand-ins for replies, whose content means
    nothing.

    >>> from ragbench.llms import generate_many, load_llm
    >>> with dry_run() as plan:
    ...     replies = generate_many(load_llm("ollama:no-such-model"), ["Who?", "Where?", "Who?"])
    >>> [(one.model, one.cached, one.to_send) for one in plan.models]
    [('ollama:no-such-model', 0, 2)]

    Raises:
        ConfigError: there is a dry run in this process already.
    """
    global _active
    plan = DryRun()
    with _lock:
        if _active is not None:
            raise ConfigError("dry_run: there is a dry run in this process already; end it first")
        _active = plan
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # stand-ins are not failures
            yield plan
    finally:
        _active = None


def active_dry_run() -> DryRun | None:
    """Return the dry run that this process is in, if any."""
    return _active


def _stand_in(name: str, request: Request) -> Completion:
    """Return a stand-in for the reply to a request to the model `name`.

    It is a text that no other request gets. If the reply has to follow a schema, it is a failed
    completion, because a text of ours fits no schema.
    """
    if request.schema is not None:
        return Completion(
            "", name, error="a dry run: nothing was sent", failure=FailureKind.DRY_RUN
        )
    return Completion(f"{STAND_IN * 4}({request.key})", name, failure=FailureKind.DRY_RUN)


def _model_plan(model: str, requests: Sequence[tuple[Request, bool]]) -> ModelPlan:
    """Return the plan of a model: how many requests would be sent, with how many tokens, at what cost.

    Tokens are estimated: of a prompt as a quarter of its bytes, of a reply as the mean of the model's
    stored replies, else as a quarter of its limit.

    Args:
        model: its name.
        requests: the requests, each with True if the store has a reply to it.
    """
    to_send = [request for request, is_stored in requests if not is_stored]
    # The prompt of an uncertain request will contain a reply that is not known yet.
    uncertain = [request for request in to_send if STAND_IN in request.prompt]
    usual_tokens = _usual_output_tokens(model)
    input_tokens = [math.ceil(request.n_bytes / 4) for request in to_send]
    max_output_tokens = [request.max_tokens for request in to_send]
    # `usual_tokens` is None for a model with few stored replies
    output_tokens = [min(usual_tokens or limit / 4, limit) for limit in max_output_tokens]
    return ModelPlan(
        model,
        cached=len(requests) - len(to_send),
        to_send=len(to_send),
        uncertain=len(uncertain),
        input_tokens=sum(input_tokens),
        output_tokens=math.ceil(sum(output_tokens)),
        max_output_tokens=sum(max_output_tokens),
        cost=_total_cost(model, input_tokens, map(math.ceil, output_tokens)),
        max_cost=_total_cost(model, input_tokens, max_output_tokens),
    )


def _total_cost(
    model: str, input_tokens: Iterable[int], output_tokens: Iterable[int]
) -> float | None:
    """Return the cost of requests with these tokens in US dollars; None if the model has no known price."""
    price = price_of(model)
    if price is None:
        return None
    return math.fsum(map(price.cost, input_tokens, output_tokens))


def _usual_output_tokens(model: str) -> float | None:
    """Return the mean length of a model's stored replies; None if there are fewer than 10."""
    stored = replies.info()["models"].get(model)
    if stored is None or stored["replies"] < _ENOUGH:
        return None
    return float(stored["output_tokens"] / stored["replies"])
