"""The command `ragbench`. What a command needs is imported when it is called, so that --help is instant."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ragbench.errors import ConfigError, RagbenchError

app = typer.Typer(
    name="ragbench",
    help="Is RAG configuration B really better than A? Sweeps of executed notebooks, with honest statistics.",
    epilog="Example: ragbench sweep notebooks/quickstart.toml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cache_app = typer.Typer(
    help="The cache of embeddings and indexes on disk (its place: RAGBENCH_CACHE_DIR).",
    epilog="Example: ragbench cache info",
    no_args_is_help=True,
)
app.add_typer(cache_app, name="cache")


@contextmanager
def _clean_errors() -> Iterator[None]:
    """Say errors and warnings of ragbench in one line each; anything else is a bug and keeps its traceback."""
    as_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"ragbench: warning: {message}\n"
    try:
        _check_environment()
        yield
    except RagbenchError as exc:
        typer.echo(f"ragbench: {exc}", err=True)
        raise typer.Exit(2) from exc
    except KeyboardInterrupt as exc:
        raise typer.Exit(130) from exc
    finally:
        warnings.formatwarning = as_before


def _check_environment() -> None:
    from ragbench import cache

    try:
        cache.check_environment()
    except ValueError as exc:
        raise ConfigError(str(exc)) from exc


def _show_version(wanted: bool) -> None:
    if wanted:
        from ragbench.experiment import own_version

        typer.echo(f"ragbench {own_version()}")
        raise typer.Exit


@app.callback()
def _ragbench(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("sweep", epilog="Example: ragbench sweep notebooks/quickstart.toml --jobs 2")
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

    with _clean_errors():
        result = sweep(grid, jobs=jobs, force=force, out=out)
    for note in result.notes:
        typer.echo(f"Note: {note}")
    for name, error in result.failed.items():
        typer.echo(f"Failed: {name}: {error}", err=True)
        notebook = result.folder / f"{name}.failed.ipynb"
        if notebook.is_file():  # not when its process never came so far
            typer.echo(f"        {_shown(notebook)}", err=True)
    counts = f"{len(result.finished)} run, {len(result.skipped)} finished before, {len(result.failed)} failed"
    typer.echo(f"{counts}, in {result.seconds:.0f} s.")
    typer.echo(f"Notebooks:   {_shown(result.folder)}")
    if result.leaderboard:
        typer.echo(f"Leaderboard: {_shown(result.leaderboard.with_suffix('.md'))} and {result.leaderboard.name}")
    if result.comparison:
        typer.echo(f"Comparison:  {_shown(result.comparison)}")
    typer.echo(f"Next:        jupyter lab {_shown(result.comparison or result.folder)}")
    raise typer.Exit(1 if result.failed else 0)


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


@cache_app.command("info", epilog="Example: ragbench cache info")
def cache_info() -> None:
    """Show where the cache is and how much it holds."""
    from ragbench import cache

    with _clean_errors():
        for key, value in cache.info().items():
            typer.echo(f"{key}: {value}")


@cache_app.command("clear", epilog="Example: ragbench cache clear")
def cache_clear() -> None:
    """Delete everything in the cache; it is computed again when needed."""
    from ragbench import cache

    with _clean_errors():
        deleted = cache.clear()
        typer.echo(f"{deleted} {'entry' if deleted == 1 else 'entries'} deleted")
