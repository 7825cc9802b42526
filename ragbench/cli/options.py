"""What several commands have in common: shared options (--docs, --json, --yes, --concurrency, ...),
the settings of language models, how results are named, the printout of a dry run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench import evaluation, llms, service
from ragbench.errors import ConfigError
from ragbench.llms.environment import in_force

if TYPE_CHECKING:
    from ragbench.sweep import SweepPlan

AtLeast0 = Annotated[int, typer.Option(min=0)]
AtLeast1 = Annotated[int, typer.Option(min=1)]
AtLeast2 = Annotated[int, typer.Option(min=2)]
TestSetName = Annotated[str, typer.Option(help="A test-set file, a folder, or a dataset's name.")]
Corpus = Annotated[
    str, typer.Option("--docs", help="The documents: a folder, a corpus.jsonl or a dataset's name.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Database = Annotated[
    str,
    typer.Option(
        help="Database: a file, or a URL such as postgresql://host/name; default: RAGBENCH_DATABASE."
    ),
]
Model = Annotated[
    str,
    typer.Option(help="anthropic:<model>, ollama:<model>, openai:<model>, or env."),
]
Concurrency = Annotated[int, typer.Option(min=1, help="Maximum number of concurrent requests.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout-s",
        min=0.001,
        help="Seconds that a reply may take; time in the server's queue does not count.",
    ),
]


def _confirmed(yes: bool) -> bool:
    """Return the option --yes, after it is put into force."""
    from ragbench.systems import consent

    if yes:
        os.environ["RAGBENCH_YES"] = "1"  # also for the processes of a sweep
        consent.prints_uses = True
    return yes


Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        envvar="RAGBENCH_YES",
        callback=_confirmed,
        help="Print, and use without asking, the commands and variables that a system file names, and "
        "the code in a folder to verify.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The requests that a command may send to language models.

    Requests:
        dry_run: Show requests and cost; send and write nothing.
        max_cost: Maximum cost in US dollars; the command stops before it would cost more.
        allow_unpriced: Continue with models of unknown price; --max-cost does not count them.
        no_cache: Send every request again; neither read nor store replies.
        offline: Send nothing: replies come from the store, and a missing one is an error.
    """

    dry_run: bool = False
    max_cost: Annotated[float | None, typer.Option(min=0)] = None
    allow_unpriced: bool = False
    no_cache: bool = False
    offline: bool = False

    @property
    def replies(self) -> str | None:
        """Return how stored replies of language models are used: "offline" (nothing else is used), "off"
        (none is used or kept), or None if no option states it.
        """
        if self.offline and self.no_cache:
            raise ConfigError(
                "--offline takes every reply from the store and --no-cache none; give one of them"
            )
        if self.offline:
            return "offline"
        return "off" if self.no_cache else None

    @contextmanager
    def settings(self) -> Iterator[llms.Settings]:
        """Yield the settings that the options state; they apply to all requests in the block. If Ctrl-C
        ends the block, print whether the replies so far are kept.
        """
        settings = llms.current_settings(self.replies, self.max_cost, self.allow_unpriced)
        try:
            # also for models that are loaded without these settings, such as a server's embedders
            with in_force(settings):
                yield settings
        except KeyboardInterrupt:
            advice = "The replies received so far are stored; run the command again to continue."
            if self.no_cache:
                advice = "--no-cache stores no replies; run the command again to start over."
            typer.echo(f"Interrupted. {advice}", err=True)
            raise


def results_at(names: Sequence[str | Path], database: str = "") -> evaluation.Results:
    """Load the results that a user names on the command line, in this order.

    If two results have the same name, the path of the later one is put before its name. The baseline
    is the baseline of what is named first or, if that has none, its first result. The race of a sweep (the
    record of the configurations that it stopped early) is about this sweep alone, so it is kept only if
    nothing else is named.

    Args:
        names: the folder of a result, its report.json, a folder that holds several, or a run of the
            history.
        database: where the history is; as in `ragbench.service.history`.

    Raises:
        ConfigError, DataError: there is no such file or run, or a result cannot be read.
    """
    paths = [_path_of_results(name, database) for name in names]
    groups = [_results_in(path) for path in paths]
    results: list[evaluation.Result] = []
    for path, group in zip(paths, groups, strict=True):
        used_names = {result.name for result in results}
        for result in group:
            if result.name in used_names:
                result = replace(result, name=f"{path}/{result.name}")
            results.append(result)
    if not groups:  # no name was given
        return evaluation.Results(results)
    baseline = groups[0].baseline or groups[0][0].name
    race = groups[0].race if len(groups) == 1 else None
    return evaluation.Results(results, baseline=baseline, race=race)


def _results_in(path: Path) -> evaluation.Results:
    """Return the result in a folder or a report.json, or all results of a folder that holds several."""
    if _is_single_result(path):
        return evaluation.Results([evaluation.load_result(path)])
    return evaluation.load_results(path)


def _path_of_results(name: str | Path, database: str) -> Path:
    """Return the path of the results that a user names.

    The name is a path if it exists or has a folder in it; else it is a run of the history, whose folder
    is returned.

    Raises:
        ConfigError: there is no such run, or the name is the path of a table (a file of another tool)
            that does not exist.
    """
    from ragbench.foreign.readers import SUFFIXES

    path = Path(name)
    # report.json is a file of ragbench: loading it reports more precisely what is missing
    is_table = path.suffix.lower() in SUFFIXES and path.name != "report.json"
    if is_table and not path.exists():
        raise ConfigError(f"there is no file {name}; check the path")
    has_folder = path.parent != Path()  # `Path()` is the parent of a bare name
    if path.exists() or has_folder:
        return path
    try:
        run, _, _ = service.run_of(str(name), database)
    except ConfigError as exc:
        raise ConfigError(f"there is no folder {name} here; {exc}") from None
    return Path(run["location"])


def _is_single_result(path: Path) -> bool:
    """Return True for a file, and for a folder with the files of one result."""
    from ragbench.evaluation.folder import FILES

    return path.is_file() or any((path / file).exists() for file in (*FILES, "report.json"))


def print_plan(plan: llms.DryRun | SweepPlan, judge: str = "") -> None:
    """Print the counts of a dry run: the questions to systems, whose price is not known; the
    requests to each model, with the address that they go to; the total cost.

    Args:
        plan: the requests that a command would send.
        judge: the name of the model that would judge the answers of the systems; "" if none would. Its
            requests cannot be counted exactly, because they need the answers.
    """
    for system, n_questions in plan.questions.items():
        typer.echo(
            f"{n_questions} questions would be sent to {system}; the cost of this is unknown"
        )
        if judge:
            typer.echo(f"{judge} would judge its answers, one request each")
    if not plan.models and not plan.questions:
        typer.echo("Requests to language models: none")
    for model in plan.models:
        _print_requests_to(model)
    if any(model.to_send for model in plan.models):
        typer.echo(
            f"Total cost: {dollars(plan.models)}, plus repeated requests where a verdict cannot be read"
        )


def _print_requests_to(model: llms.ModelPlan) -> None:
    """Print how many requests to a model have a stored reply, and how many would be sent.

    For those that would be sent, the address, the tokens and the cost follow.
    """
    from ragbench.llms.providers import address_of

    uncertain = ""
    if model.uncertain:
        uncertain = (
            f", of which {model.uncertain:,} rest on replies that are still to be written (some "
            "may not be needed)"
        )
    typer.echo(
        f"{model.model}:\n"
        f"  requests cached:  {model.cached:,}\n"
        f"  requests to send: {model.to_send:,}{uncertain}"
    )
    if not model.to_send:
        return
    if address := address_of(model.model):
        typer.echo(f"  sent to:          {address}")
    typer.echo(
        f"  tokens:           about {model.input_tokens:,} in and {model.output_tokens:,} out\n"
        f"  cost:             {dollars([model])}"
    )


def dollars(models: Sequence[llms.ModelPlan], discount: float = 1.0) -> str:
    """Return the estimated cost of requests in words, such as "about $0.0100, $0.0200 with the longest
    replies"; "unknown: ..." with the reason if a model has no price.

    Args:
        models: the requests to each model.
        discount: a factor on all prices, such as 0.5 for half the price.
    """
    unpriced = [each.model for each in models if each.cost is None or each.max_cost is None]
    if unpriced:
        reason = f"{', '.join(unpriced)} has no price; name a table of prices in RAGBENCH_PRICES"
        # a reply of a user's function may name a model that has a price; before it there is none
        if any(model.startswith("function:") for model in unpriced):
            reason += (
                " (a function's Completion is priced by the model that it names, once it is there)"
            )
        return f"unknown: {reason}"
    cost = discount * sum(model.cost or 0 for model in models)
    longest = discount * sum(model.max_cost or 0 for model in models)
    return f"about ${cost:.4f}, ${longest:.4f} with the longest replies"
