"""What several commands have in common: their options, the settings of language models, the
printout of a dry run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from ragbench import llms
from ragbench.cli.console import listed_errors
from ragbench.errors import ConfigError
from ragbench.llms.environment import in_force

if TYPE_CHECKING:
    from ragbench.evaluation import Result
    from ragbench.sweep import SweepPlan

TestSetName = Annotated[str, typer.Option(help="A test-set file, a folder, or a dataset's name.")]
Corpus = Annotated[
    str, typer.Option(help="The documents: a folder, a corpus.jsonl or a dataset's name.")
]
Model = Annotated[
    str,
    typer.Option("--llm", help="anthropic:<model>, ollama:<model>, openai:<model>, or env."),
]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Concurrent requests.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show requests and cost; send and write nothing.")
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", min=0, help="US dollars that this may cost; stops before."),
]
AllowUnpriced = Annotated[
    bool,
    typer.Option(
        "--allow-unpriced",
        help="Continue with models of unknown price; --max-cost does not count them.",
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Ask for every reply again; neither read nor store any.")
]


def _confirmed(yes: bool) -> bool:
    from ragbench.systems import consent

    if yes:
        os.environ["RAGBENCH_YES"] = "1"  # also for the processes of a sweep
        consent.shown_to_user = True
    return yes


Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        envvar="RAGBENCH_YES",
        callback=_confirmed,
        help="Use the commands and variables that a system's file names without asking, and "
        "print them.",
    ),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Send nothing: replies come from the store.")
]


def with_spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option for each field of `EvaluationSpec`, which its `**options` take."""
    from ragbench.evaluation import spec

    hints = get_type_hints(command, include_extras=True)
    declared = [
        one
        for one in inspect.signature(command).parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    parameters = [
        one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name]) for one in declared
    ]
    keyword = inspect.Parameter.KEYWORD_ONLY
    for name, field in spec.EvaluationSpec.model_fields.items():
        kind = spec.plain_type(field)
        option = typer.Option(
            spec.option_name(name, field),
            help=field.description,
            rich_help_panel=spec.detail(field, "panel"),
        )
        default = field.default if kind is not str else spec.plain_text(field.default)
        annotation = Annotated[kind, option]  # type: ignore[valid-type]
        parameters.append(inspect.Parameter(name, keyword, default=default, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


@contextmanager
def llm_settings(
    max_cost: float | None, no_cache: bool, offline: bool, allow_unpriced: bool = False
) -> Iterator[llms.Settings]:
    """Errors in one line, and the settings that the options mean."""
    with listed_errors():
        try:
            settings = llms.current_settings(
                replies_mode(no_cache, offline), max_cost, allow_unpriced
            )
            with in_force(settings):  # embedders of a server are made far from here
                yield settings
        except KeyboardInterrupt:
            kept = (
                "--no-cache keeps no reply"
                if no_cache
                else "The replies received so far are stored"
            )
            typer.echo(
                f"Interrupted. {kept}: run it again "
                f"to {'start again' if no_cache else 'continue'}.",
                err=True,
            )
            raise


def replies_mode(no_cache: bool, offline: bool) -> str | None:
    """What the options say of the reply store; None where they say nothing."""
    if offline and no_cache:
        raise ConfigError(
            "--offline takes every reply from the store and --no-cache none; give one of them"
        )
    return "offline" if offline else "off" if no_cache else None


def results_at(places: Sequence[Path]) -> list[Result]:
    """The results at these places: the folder of a result, its report.json, or a folder that holds
    several.
    """
    from ragbench.evaluation import load_result, load_results
    from ragbench.evaluation.folder import FILES

    found: list[Result] = []
    for place in places:
        single = place.is_file() or any((place / name).exists() for name in (*FILES, "report.json"))
        found += [load_result(place)] if single else load_results(place)
    return found


def print_plan(plan: llms.DryRun | SweepPlan, judge: str = "") -> None:
    """What a dry run has counted: questions to systems of unknown price; requests to each model;
    the cost of all.
    """
    for system, questions in plan.questions.items():
        typer.echo(
            f"{questions} questions would be sent to {system}; what that costs is not known here"
        )
        if judge:
            typer.echo(f"{judge} would judge its answers, one request each")
    models = plan.models
    if not models and not plan.questions:
        typer.echo("Requests to language models: none")
    for one in models:
        rest = (
            f", of which {one.uncertain:,} rest on replies that are still to be written (some "
            "may not be needed)"
        )
        typer.echo(f"{one.model}:")
        typer.echo(f"  requests cached:  {one.cached:,}")
        typer.echo(f"  requests to send: {one.to_send:,}{rest if one.uncertain else ''}")
        if one.to_send:
            unknown = one.cost is None or one.max_cost is None
            cost = "unknown: no table of prices has this model" if unknown else _dollars([one])
            typer.echo(
                f"  tokens:           about {one.input_tokens:,} in and {one.output_tokens:,} out"
            )
            typer.echo(f"  cost:             {cost}")
    if any(one.to_send for one in models):
        if None in [one.cost for one in models]:
            typer.echo(
                "Cost of all: unknown, because a price is; name a table of prices in "
                "RAGBENCH_PRICES"
            )
        else:
            typer.echo(f"Cost of all: {_dollars(models)}, and of some verdicts a repair")


def _dollars(models: Sequence[llms.ModelPlan]) -> str:
    cost, longest = (
        sum(filter(None, values))
        for values in zip(*((one.cost, one.max_cost) for one in models), strict=True)
    )
    return f"about ${cost:.4f}, ${longest:.4f} with the longest replies"
