"""`ragbench sweep`: run a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.speaking import clean_errors, shown


def sweep_command(
    grid: Annotated[Path, typer.Argument(metavar="GRID.toml", help="The grid of configurations.")],
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs side by side; default: one per core, as far as memory allows.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run finished configurations again too.")] = False,
    out: Annotated[Path, typer.Option(help="Folder that holds the sweep's folder.")] = Path("results"),
) -> None:
    """Run a grid: one executed notebook per configuration, then their comparison and a leaderboard.

    What is finished is skipped and what was interrupted is run again. Exit status: 0 all is well, 1 a run failed,
    2 the grid or its data is wrong and nothing was run, 130 interrupted.
    """
    from ragbench.sweep import sweep

    with clean_errors():
        result = sweep(grid, jobs=jobs, force=force, out=out)
    for note in result.notes:
        typer.echo(f"Note: {note}")
    for name, error in result.failed.items():
        typer.echo(f"Failed: {name}: {error}\n        {shown(result.folder / f'{name}.failed.ipynb')}", err=True)
    counts = f"{len(result.finished)} run, {len(result.skipped)} finished before, {len(result.failed)} failed"
    typer.echo(f"{counts}, in {result.seconds:.0f} s.")
    typer.echo(f"Notebooks:   {shown(result.folder)}")
    if result.leaderboard:
        typer.echo(f"Leaderboard: {shown(result.leaderboard.with_suffix('.md'))} and {result.leaderboard.name}")
    if result.comparison:
        typer.echo(f"Comparison:  {shown(result.comparison)}")
    typer.echo(f"Next:        jupyter lab {shown(result.comparison or result.folder)}")
    raise typer.Exit(1 if result.failed else 0)
