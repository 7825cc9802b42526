"""`ragbench cache`: what is kept on disk between runs."""

from __future__ import annotations

import typer

from ragbench.cli.speaking import clean_errors

cache_app = typer.Typer(
    help="The cache of embeddings and indexes on disk (its place: RAGBENCH_CACHE_DIR).",
    epilog="Example: ragbench cache info",
    no_args_is_help=True,
)


@cache_app.command("info", epilog="Example: ragbench cache info")
def cache_info() -> None:
    """Show where the cache is and how much it holds."""
    from ragbench import cache

    with clean_errors():
        for key, value in cache.info().items():
            typer.echo(f"{key}: {value}")


@cache_app.command("clear", epilog="Example: ragbench cache clear")
def cache_clear() -> None:
    """Delete everything in the cache; it is computed again when needed."""
    from ragbench import cache

    with clean_errors():
        deleted = cache.clear()
        typer.echo(f"{deleted} {'entry' if deleted == 1 else 'entries'} deleted")
