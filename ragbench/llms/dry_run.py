"""A dry run: the same code, and what it would ask of language models is counted instead of sent.

The requests are not guessed. Replies that the store has are real; for each other one there is a
stand-in, and what is built on a stand-in (a verdict on an answer still to be written) is counted
too, as uncertain.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ragbench.errors import ConfigError, DataWarning, FailureKind
from ragbench.llms.prices import price_of
from ragbench.store import replies
from ragbench.store.replies import Request
from ragbench.types import Completion

if TYPE_CHECKING:
    import pandas as pd

STAND_IN = "This sentence stands for one of the reply, which is not known before it has been asked for [1]. "
"""Four of these are about as long as a cited answer."""

_ENOUGH = (
    10  # replies in the store from which the usual length of a model's replies can be estimated
)

_lock = threading.Lock()
_active: DryRun | None = None


class ModelPlan(NamedTuple):
    """What one model would be asked; each request once, however many ask for it.

    `cached` replies are in the store and cost nothing, `to_send` are not; of these `uncertain`
    depend on replies that are not there yet. Tokens are those of the requests to send:
    `input_tokens` a quarter of their bytes (which English text comes near to; code and other
    scripts take more), `output_tokens` the model's usual reply (a quarter of the limit where the
    store has fewer than 10 of it), `max_output_tokens` the limit. `cost` is in US dollars for
    these, `max_cost` with every reply as long as its limit allows; None where the price is unknown.
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


class DryRun:
    """What the code inside `with dry_run()` would ask; `dry_run` makes it."""

    def __init__(self) -> None:
        self._noting = threading.Lock()
        self._calls = count()
        self._found: dict[str, dict[str, tuple[Request, bool]]] = {}
        self.questions: Counter[str] = Counter()
        """How many questions each system under test that was not asked (a service, a function) would
        get.
        """

    @property
    def models(self) -> tuple[ModelPlan, ...]:
        """Return the plan of each model, by name."""
        return tuple(
            _model_plan(name, list(requests.values()))
            for name, requests in sorted(self._found.items())
        )

    @property
    def to_send(self) -> list[Request]:
        """Return the requests that are not in the store."""
        found = (pair for requests in self._found.values() for pair in requests.values())
        return [request for request, cached in found if not cached]

    @property
    def table(self) -> pd.DataFrame:
        """Return `models` as a frame; a cost is "unknown" where the price is."""
        import pandas as pd

        rows = [["unknown" if value is None else value for value in plan] for plan in self.models]
        return pd.DataFrame(rows, columns=ModelPlan._fields)

    def complete(
        self,
        name: str,
        requests: Sequence[Request],
        found: Sequence[Completion | None],
        *,
        shared: bool,
    ) -> list[Completion]:
        """Note the requests of one call; what was found is given back, and for the rest stand-ins.

        A stand-in is a text of some 70 words, its own for each request; where the reply has to
        follow a schema, it is a failed completion. `shared`: the next call would find in the store
        what this one asks for.
        """
        with self._noting:
            call = "" if shared else f"{next(self._calls)} "
            noted = self._found.setdefault(name, {})
            for request, reply in zip(requests, found, strict=True):
                noted.setdefault(call + request.key, (request, reply is not None))
        return [
            reply or _stand_in(name, request)
            for request, reply in zip(requests, found, strict=True)
        ]

    def note_question(self, system: str) -> None:
        """Note that a system under test would be asked a question."""
        with self._noting:
            self.questions[system] += 1


@contextmanager
def dry_run() -> Iterator[DryRun]:
    """Run the code inside without sending anything, and count what it would send.

    Also systems under test that are not ragbench's own (services, functions) are not asked. It
    holds for all threads of this process. What comes out of the code are stand-ins, of no use for
    anything but their number.

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
    if request.schema is not None:
        return Completion(
            "", name, error="a dry run: nothing was sent", failure=FailureKind.DRY_RUN
        )
    return Completion(f"{STAND_IN * 4}({request.key})", name, failure=FailureKind.DRY_RUN)


def _model_plan(model: str, found: Sequence[tuple[Request, bool]]) -> ModelPlan:
    requests = [request for request, cached in found if not cached]
    counts, price = replies.info()["models"].get(model, {"replies": 0}), price_of(model)
    is_known = counts["replies"] >= _ENOUGH
    usual = counts["output_tokens"] / counts["replies"] if is_known else None
    read = [math.ceil(request.n_bytes / 4) for request in requests]
    written = [min(usual or request.max_tokens / 4, request.max_tokens) for request in requests]
    longest = [request.max_tokens for request in requests]
    costs = [
        price
        and math.fsum(
            price.cost(*tokens) for tokens in zip(read, map(math.ceil, lengths), strict=True)
        )
        for lengths in (written, longest)
    ]
    uncertain = sum(STAND_IN in request.prompt for request in requests)
    return ModelPlan(
        model,
        len(found) - len(requests),
        len(requests),
        uncertain,
        sum(read),
        math.ceil(sum(written)),
        sum(longest),
        *costs,
    )
