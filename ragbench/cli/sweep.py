"""`ragbench sweep`: run a grid. `ragbench verify`: run stored results again and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench.cli.console import command, shown
from ragbench.cli.options import AllowUnpriced, NoCache, Yes, print_plan, replies_mode

if TYPE_CHECKING:
    from ragbench.sweep import SweepPlan, SweepResult

_JOBS = typer.Option(
    min=1, help="Runs side by side; default: one per core, as far as memory allows."
)
_MAX_COST = typer.Option(
    "--max-cost", min=0, help="US dollars that this sweep may cost in all; stops before."
)
_NO_FORK = typer.Option(
    "--no-fork",
    help="Start a fresh Python for each run instead of forking one that has imported what they "
    "need.",
)
_ONLY = typer.Option(
    "--only",
    metavar="NAME",
    help="Run these configurations and compare none: a name, a pattern, or a number from 0 (as "
    "for an array of jobs).",
)
_EXECUTOR = typer.Option(
    metavar="URL",
    help="Run on a Dask cluster: dask://host:8786, tls://host:8786, or dask://local?workers=4 "
    "(extra `dask`).",
)
_GRID = "A grid file, a folder with a grid.toml, or quickstart (built in)."

_MANY = 20  # differences of one configuration that are printed


def sweep_command(
    grid: Annotated[Path, typer.Argument(metavar="GRID", help=_GRID)] = Path("grid.toml"),
    jobs: Annotated[int | None, _JOBS] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run finished configurations again too.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder that holds the sweep's folder.")] = Path(
        "results"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show runs, requests and cost; run and send nothing.")
    ] = False,
    max_cost: Annotated[float | None, _MAX_COST] = None,
    allow_unpriced: AllowUnpriced = False,
    no_cache: NoCache = False,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Send nothing: replies come from the store, a missing one is an error.",
        ),
    ] = False,
    allow_failed: Annotated[
        bool,
        typer.Option(
            "--allow-failed", help="Take a run as finished although requests of it failed."
        ),
    ] = False,
    no_fork: Annotated[bool, _NO_FORK] = False,
    only: Annotated[str, _ONLY] = "",
    executor: Annotated[str, _EXECUTOR] = "",
    yes: Yes = False,
) -> None:
    """Run a grid: one executed notebook per configuration, then their comparison and a leaderboard.

    What is finished is skipped and what was interrupted is run again; no reply of a language model
    is paid for twice. Exit status: 0 all is well, 1 a run failed, 2 the grid or its data is wrong
    and nothing was run, 3 the maximum cost stopped it, 130 interrupted.
    """
    from ragbench.evaluation import load_results
    from ragbench.service import record_finished
    from ragbench.sweep import plan, sweep

    options: dict[str, Any] = {
        "max_cost": max_cost,
        "allow_unpriced": allow_unpriced,
        "force": force,
        "out": out,
    }
    options["only"] = only
    options["replies"] = replies_mode(no_cache, offline)
    if dry_run:
        _print_plan(plan(grid, **options), max_cost, offline)
        raise typer.Exit(0)
    result = sweep(
        grid, jobs=jobs, allow_failed=allow_failed, fork=not no_fork, executor=executor, **options
    )
    if result.leaderboard:
        record_finished(
            lambda: [(run, result.folder / run.name) for run in load_results(result.folder)]
        )
    _print_result(result)
    raise typer.Exit(3 if result.stopped else 1 if result.failed else 0)


def _print_result(result: SweepResult) -> None:
    for note in result.notes:
        typer.echo(f"Note: {note}")
    for name, error in result.failed.items():
        typer.echo(f"Failed: {name}: {error}", err=True)
        notebook = result.folder / f"{name}.failed.ipynb"
        if notebook.is_file():  # not when its process never came so far
            typer.echo(f"        {shown(notebook)}", err=True)
    counts = (
        f"{len(result.finished)} run, {len(result.skipped)} finished "
        f"before, {len(result.failed)} failed"
    )
    if result.left:
        counts += f", {len(result.left)} not begun"
    typer.echo(f"{counts}, in {result.seconds:.0f} s.")
    if result.skipped and not (result.finished or result.failed or result.left):
        typer.echo(
            "Nothing was left to do; --force computes everything afresh, --out FOLDER elsewhere."
        )
    typer.echo(f"Notebooks:   {shown(result.folder)}")
    if result.leaderboard:
        typer.echo(
            f"Leaderboard: {shown(result.leaderboard.with_suffix('.md'))} "
            f"and {result.leaderboard.name}"
        )
    if result.comparison:
        typer.echo(f"Comparison:  {shown(result.comparison)}")
    if result.stopped:
        typer.echo(f"Stopped: {result.stopped}.", err=True)
    else:
        typer.echo(
            f"Next:        {command('jupyter')} lab {shown(result.comparison or result.folder)}"
        )


def _print_plan(found: SweepPlan, max_cost: float | None, offline: bool) -> None:
    for note in found.notes:
        typer.echo(f"Note: {note}")
    typer.echo(
        f"Notebooks: {len(found.to_run)} to run, {len(found.finished)} finished already, "
        f"in {shown(found.folder)}"
    )
    print_plan(found)
    if any(one.to_send for one in found.models):
        if max_cost is not None:
            typer.echo(f"Maximum: ${max_cost:.2f}, of which ${found.spent:.4f} are spent")
        if offline:
            typer.echo("Offline, so nothing is sent: the runs that need these replies would fail")


def verify_command(
    folder: Annotated[Path, typer.Argument(metavar="RESULTS/SWEEP", help="The folder of a sweep.")],
    jobs: Annotated[int | None, _JOBS] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Send the requests whose replies are not in the store.")
    ] = False,
    max_cost: Annotated[float | None, _MAX_COST] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="By how much numbers may differ.")] = 0.0,
    no_fork: Annotated[bool, _NO_FORK] = False,
    yes: Yes = False,
) -> None:
    """Execute the configurations of a sweep again and compare every number in scores.csv and
    run.trec.

    It works in a temporary folder and changes no result. Exit status: 0 all numbers are the same, 1
    some differ or could not be had again, 2 there is nothing to verify.
    """
    from ragbench.sweep import verify

    options: dict[str, Any] = {"replies": "on" if online else "offline", "max_cost": max_cost}
    verified = verify(folder, jobs=jobs, tolerance=tolerance, fork=not no_fork, **options)
    for one in verified:
        for note in one.notes:
            typer.echo(f"Note: {one.name}: {note}")
        for line in one.differences[:_MANY]:
            typer.echo(f"{one.name}: {line}")
        if len(one.differences) > _MANY:
            typer.echo(f"{one.name}: and {len(one.differences) - _MANY} other differences")
    differing = sum(bool(one.differences) for one in verified)
    numbers = sum(one.compared for one in verified)
    typer.echo(
        f"{len(verified)} results, {numbers:,} numbers compared: {len(verified) - differing} "
        f"verified, {differing} differ."
    )
    raise typer.Exit(1 if differing else 0)
