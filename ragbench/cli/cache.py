"""`ragbench cache`: what is kept on disk between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import clean_errors, shown
from ragbench.cli.help import Command, Group

cache_app = typer.Typer(
    help="What is kept between runs: embeddings and indexes, replies of language models (place: "
    "RAGBENCH_CACHE_DIR).",
    epilog="Example: ragbench cache info",
    no_args_is_help=True,
    cls=Group,
)

# What the functions of ragbench.store raise, which knows no other module of ragbench.
_ERRORS = (ValueError, OSError)

_MODELS = typer.Option(
    "--model", help='Only replies of this model, such as "ollama:llama3.1:8b"; may be repeated.'
)


@cache_app.command("info", cls=Command, epilog="Example: ragbench cache info")
def cache_info() -> None:
    """Show where the cache is and how much it holds."""
    from ragbench import store
    from ragbench.store import replies

    with clean_errors(*_ERRORS):
        computed, stored = store.info(), replies.info()
        for key, value in computed.items():
            typer.echo(f"{key}: {value}")
        size = f" in {stored['bytes']:,} bytes" if stored["bytes"] else ""
        typer.echo(f"replies: {stored['replies']:,}{size}, {stored['file']}")
        for model, counts in stored["models"].items():
            read, written = counts["input_tokens"], counts["output_tokens"]
            typer.echo(
                f"  {model}: {counts['replies']:,} replies, {read:,} tokens in, {written:,} out"
            )
        for name in stored["damaged"]:
            typer.echo(f"  a damaged store was renamed: {name}")


@cache_app.command("clear", cls=Command, epilog="Example: ragbench cache clear")
def cache_clear(
    with_replies: Annotated[
        bool,
        typer.Option(
            "--replies", help="Delete the replies of language models too, which were paid for."
        ),
    ] = False,
) -> None:
    """Delete what is computed again when needed. Replies of language models stay, unless --replies
    is given.
    """
    from ragbench import store
    from ragbench.store import replies

    with clean_errors(*_ERRORS):
        deleted = store.clear()
        typer.echo(f"{deleted} {'entry' if deleted == 1 else 'entries'} deleted")
        if with_replies:
            typer.echo(f"{replies.clear()} replies deleted")
        elif kept := replies.info()["replies"]:
            typer.echo(f"{kept} replies of language models kept; --replies deletes them too")


@cache_app.command("export", cls=Command, epilog="Example: ragbench cache export replies.jsonl.gz")
def cache_export(
    file: Annotated[Path, typer.Argument(help="Where to; a name that ends in .gz is compressed.")],
    model: Annotated[list[str] | None, _MODELS] = None,
) -> None:
    """Write the replies of language models to a file: with it a colleague runs the same sweep with
    --offline.

    The file holds the whole prompts, and so the texts of documents and questions.
    """
    from ragbench.store import replies

    with clean_errors(*_ERRORS):
        count = replies.export_file(file, models=model or None)
        typer.echo(f"{count} replies written to {shown(file)}")


@cache_app.command("import", cls=Command, epilog="Example: ragbench cache import replies.jsonl.gz")
def cache_import(
    file: Annotated[Path, typer.Argument(help="A file from `ragbench cache export`.")],
) -> None:
    """Add the replies of an exported file; one bad line, and nothing is added. What is here already
    is kept.
    """
    from ragbench.store import replies

    with clean_errors(*_ERRORS):
        done = replies.import_file(file)
        typer.echo(f"{done.added} replies added, {done.known} known already")
        if done.differing:
            typer.echo(f"{done.differing} differ from the replies that are here, which were kept")
