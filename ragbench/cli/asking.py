"""What the commands that ask a language model have in common: their options, their settings, their estimate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.cli.speaking import spoken_errors
from ragbench.errors import ConfigError

if TYPE_CHECKING:
    from ragbench.llms import Estimate

Model = Annotated[
    str, typer.Option("--llm", help="anthropic:<model>, ollama:<model>, openai:<model>, gguf:<file>, or env.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Requests that wait at a time.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be sent and paid; nothing is, nothing is written.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="US dollars that this may cost; stops before.")
]
AllowUnpriced = Annotated[
    bool, typer.Option("--allow-unpriced", help="Go on with models without a known price; --max-cost leaves them out.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Ask for every reply again; neither read nor store any.")]
Offline = Annotated[bool, typer.Option("--offline", help="Send nothing: replies come from the store.")]


@contextmanager
def asking(max_cost: float | None, no_cache: bool, offline: bool, allow_unpriced: bool = False) -> Iterator[None]:
    """Errors in one line, and the settings of the reply store for what runs inside."""
    from ragbench.sweep.spending import settings

    with spoken_errors():
        if offline and no_cache:
            raise ConfigError("--offline takes every reply from the store and --no-cache none; give one of them")
        with settings("offline" if offline else "off" if no_cache else None, max_cost, allow_unpriced):
            try:
                yield
            except KeyboardInterrupt:
                kept = "--no-cache keeps no reply" if no_cache else "Replies that had come are stored"
                typer.echo(f"Interrupted. {kept}: run it again to {'begin anew' if no_cache else 'go on'}.", err=True)
                raise


def say_estimate(estimates: Mapping[str, Estimate]) -> None:
    """Requests, tokens and cost of each kind, then of all."""
    for what, one in estimates.items():
        tokens = f"about {one.input_tokens:,} tokens in, at most {one.max_output_tokens:,} out"
        typer.echo(f"{what}: {one.cached:,} cached, {one.to_send:,} to send; {tokens}; cost {_dollars(one.cost)}")
    costs = [one.cost for one in estimates.values()]
    typer.echo(f"Cost of all: {_dollars(None if None in costs else sum(filter(None, costs)))}")


def _dollars(cost: float | None) -> str:
    return (
        "unknown: no table of prices has this model" if cost is None else f"about ${cost:.4f} with the longest replies"
    )
