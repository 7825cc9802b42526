"""`ragbench sweep`: options and printout of a grid's runs. `ragbench verify`: run stored results
again and compare. The work is in `sweep/session` and `sweep/verification`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench.cli.compare import print_decision
from ragbench.cli.console import command, shown
from ragbench.cli.options import Requests, Yes, dollars, print_plan
from ragbench.statistics.thresholds import MARGIN

if TYPE_CHECKING:
    from ragbench.sweep import SweepPlan, SweepResult
    from ragbench.sweep.verification import Verification

Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of parallel runs; default: one per core, as far as memory allows."
    ),
]
NoFork = Annotated[
    bool,
    typer.Option(
        "--no-fork",
        help="Start a fresh Python for each run instead of forking a process that has imported "
        "the packages of the runs.",
    ),
]

_MAX_SHOWN = 20  # differences of one configuration


def sweep_command(
    grid: Path = Path("grid.toml"),
    *,
    jobs: Jobs = None,
    force: bool = False,
    output: Path = Path("results"),
    allow_failed: bool = False,
    no_fork: NoFork = False,
    only: Annotated[str, typer.Option(metavar="NAME")] = "",
    executor: Annotated[str, typer.Option(metavar="URL")] = "",
    race: Annotated[str, typer.Option(metavar="MEASURE")] = "",
    margin: float = MARGIN,
    batch: bool = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE")] = None,
    compare_all: Annotated[bool, typer.Option("--all")] = False,
    requests: Requests,
    yes: Yes = False,
) -> int:
    """Run a grid: one executed notebook per configuration, then their comparison and a leaderboard.

    Finished configurations are skipped and interrupted ones run again; no reply of a language model
    is paid for twice. Exit status: 0 all is well, 1 a run failed, 2 the grid or its data is wrong
    and nothing was run, 3 the maximum cost stopped it, 130 interrupted.

    Args:
        grid: A grid file, a folder with a grid.toml, or a built-in grid: pydoc (half a minute),
            quickstart (minutes), techniques (25 variants of a search; with --set dataset=tests.yaml
            on your documents), techniques_llm (variants that ask a language model).
        force: Also run finished configurations again.
        output: Folder that holds the sweep's folder.
        allow_failed: Regard a run as finished even if some of its requests failed.
        only: Run only these configurations, and compare none: a name, a pattern, or a number from 0
            (as for an array of jobs).
        executor: Run on a Dask cluster: dask://host:8786, tls://host:8786, or
            dask://local?workers=4 (extra `dask`).
        race: Stop a configuration once it is proven not to be better than the leader, by this
            measure and by the margin or more; without a value: by the measure that ranks the
            leaderboard.
        margin: Loss in that measure that does not matter.
        batch: First send requests to anthropic:<model> and openai:<model> as batches: half the
            price, within a day. The same command collects the replies of submitted requests;
            without --batch, these are not sent again. RAGBENCH_FORGET_BATCHES=ID forgets a batch,
            whose requests are then paid for twice.
        settings: A parameter of every configuration, in place of its value in the grid, such as
            chunker=fixed; may be repeated.
        compare_all: Also compare results in the folder that are not in the grid (any more).

    Example: ragbench sweep pydoc --jobs 2 --race
    """
    from ragbench.service import record_finished
    from ragbench.sweep import plan, sweep

    options: dict[str, Any] = {
        "max_cost": requests.max_cost,
        "allow_unpriced": requests.allow_unpriced,
        "force": force,
        "out": output,
        "only": only,
        "replies": requests.replies,
        "race": race,
        "margin": margin,
        "overrides": settings or (),
    }
    if requests.dry_run:
        _print_plan(plan(grid, **options), requests)
        return 0
    result = sweep(
        grid,
        jobs=jobs,
        allow_failed=allow_failed,
        fork=not no_fork,
        executor=executor,
        batch=batch,
        compare_all=compare_all,
        **options,
    )
    results = result.results
    # None: nothing was compared, as with --only
    if results is not None:
        record_finished(lambda: [(run, result.folder / run.name) for run in results])
        print_decision(results)
    _print_result(result)
    if result.stopped:
        return 3
    return 1 if result.failed else 0


def _print_result(result: SweepResult) -> None:
    """Print what failed, how many runs there were, where the files are, and what to open."""
    for note in result.notes:
        typer.echo(f"Note: {note}")
    for name, error in result.failed.items():
        typer.echo(f"Failed: {name}: {error}", err=True)
        notebook = result.folder / f"{name}.failed.ipynb"
        if notebook.is_file():  # not when its process never came so far
            typer.echo(f"        {shown(notebook)}", err=True)
    left = f", {len(result.left)} not begun" if result.left else ""
    typer.echo(
        f"{len(result.finished)} run, {len(result.skipped)} finished before, "
        f"{len(result.failed)} failed{left}, in {result.seconds:.0f} s."
    )
    if result.skipped and not (result.finished or result.failed or result.left):
        typer.echo(
            "Nothing was left to do. --force computes everything again; --output FOLDER does so in another "
            "folder."
        )
    typer.echo(f"Notebooks:   {shown(result.folder)}")
    if board := result.leaderboard:
        typer.echo(f"Leaderboard: {shown(board.with_suffix('.md'))} and {board.name}")
    if result.comparison:
        typer.echo(f"Comparison:  {shown(result.comparison)}")
    if result.stopped:
        typer.echo(f"Stopped: {result.stopped}.", err=True)
        return
    to_open = shown(result.comparison or result.folder)
    typer.echo(f"To read it:  {command('jupyter')} lab {to_open}")


def _print_plan(plan: SweepPlan, requests: Requests) -> None:
    """Print the notebooks that a sweep would run, and the requests that they would send."""
    for note in plan.notes:
        typer.echo(f"Note: {note}")
    typer.echo(
        f"Notebooks: {len(plan.to_run)} to run, {len(plan.finished)} finished already, "
        f"in {shown(plan.folder)}"
    )
    print_plan(plan)
    if any(model.to_send for model in plan.models):
        from ragbench.llms.prices import BATCH_PRICE  # loads pydantic, which help lacks

        typer.echo(f"With --batch: {dollars(plan.models, BATCH_PRICE)}")
        if requests.max_cost is not None:
            typer.echo(f"Maximum: ${requests.max_cost:.2f}, of which ${plan.spent:.4f} is spent")
        if requests.offline:
            typer.echo("Offline, so nothing is sent: the runs that need these replies would fail")


def verify_command(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS/SWEEP")],
    *,
    jobs: Jobs = None,
    online: bool = False,
    max_cost: Annotated[float | None, typer.Option(min=0)] = None,
    no_fork: NoFork = False,
    accept: bool = False,
    yes: Yes = False,
) -> int:
    """Execute the configurations of a sweep again and compare every number in scores.csv and
    run.trec, or in the tables that they wrote.

    It works in a temporary folder and changes no result. A configuration whose data is not on this
    machine is skipped with a note. Exit status: 0 all other numbers are the same, 1 some differ or
    could not be computed again, 2 there is nothing to verify.

    Args:
        folder: The folder of a sweep.
        online: Send the requests whose replies are not in the store.
        max_cost: Maximum cost in US dollars; the command stops before it would cost more.
        accept: Compute nothing; accept the files as a person has edited them. Reports then state this.

    Example: ragbench verify results/quickstart
    """
    from ragbench.sweep import verify
    from ragbench.sweep.verification import accept as accept_edits

    if accept:
        for name, files in accept_edits(folder).items():
            typer.echo(f"{name}: {', '.join(files) or 'nothing was edited'}")
        return 0
    replies = "on" if online else "offline"
    verified = verify(folder, jobs=jobs, fork=not no_fork, replies=replies, max_cost=max_cost)
    for result in verified:
        _print_differences(result)
    # numbers differ, or a run failed: its error is listed as a difference
    n_differing = sum(bool(result.differences) for result in verified)
    # the data is not on this machine
    n_passed_over = sum(not result.differences and not result.compared for result in verified)
    n_verified = len(verified) - n_differing - n_passed_over
    n_numbers = sum(result.compared for result in verified)
    passed_over = f", {n_passed_over} not computed again" if n_passed_over else ""
    typer.echo(
        f"{len(verified)} results, {n_numbers:,} numbers compared: {n_verified} verified, "
        f"{n_differing} differ{passed_over}."
    )
    return 1 if n_differing else 0


def _print_differences(result: Verification) -> None:
    """Print the notes on a configuration that was computed again, and its first differences."""
    for note in result.notes:
        typer.echo(f"Note: {result.name}: {note}")
    for difference in result.differences[:_MAX_SHOWN]:
        typer.echo(f"{result.name}: {difference}")
    n_more = len(result.differences) - _MAX_SHOWN
    if n_more > 0:
        typer.echo(f"{result.name}: and {n_more} other differences")
