"""`ragbench cache`: what is kept on disk between runs."""

from __future__ import annotations

from pathlib import Path

import typer

from ragbench.cli.console import shown
from ragbench.cli.help import Commands
from ragbench.errors import DataError

cache_app = Commands(
    "What is kept between runs: embeddings and indexes, replies of language models (place: "
    "RAGBENCH_CACHE_DIR).",
    "cache info",
)


@cache_app.register()
def info() -> None:
    """Show where the cache is and how much it holds.

    Example: ragbench cache info
    """
    from ragbench import store
    from ragbench.store import replies

    computed, stored = store.info(), replies.info()
    for key, value in computed.items():
        typer.echo(f"{key}: {value}")
    size = f" in {stored['bytes']:,} bytes" if stored["bytes"] else ""
    typer.echo(f"replies: {stored['replies']:,}{size}, {stored['file']}")
    for model, counts in stored["models"].items():
        typer.echo(
            f"  {model}: {counts['replies']:,} replies, {counts['input_tokens']:,} tokens in, "
            f"{counts['output_tokens']:,} out"
        )
    for name in stored["damaged"]:
        typer.echo(f"  a damaged store was renamed: {name}")


@cache_app.register()
def clear(*, replies: bool = False) -> None:
    """Delete what is computed again when needed. Replies of language models stay, unless --replies
    is given.

    Args:
        replies: Delete the replies of language models too, which were paid for.

    Example: ragbench cache clear
    """
    from ragbench import store
    from ragbench.store import replies as reply_store

    deleted = store.clear()
    typer.echo(f"{deleted} {'entry' if deleted == 1 else 'entries'} deleted")
    if replies:
        typer.echo(f"{reply_store.clear()} replies deleted")
    elif kept := reply_store.info()["replies"]:
        typer.echo(f"{kept} replies of language models kept; --replies deletes them too")


@cache_app.register()
def export(file: Path, *, model: list[str] | None = None) -> None:
    """Write the replies of language models to a file: with it a colleague runs the same sweep with
    --offline.

    The file holds the whole prompts, and so the texts of documents and questions.

    Args:
        file: Where to; a name that ends in .gz is compressed.
        model: Only replies of this model, such as "ollama:llama3.1:8b"; may be repeated.

    Example: ragbench cache export replies.jsonl.gz
    """
    from ragbench.store import replies

    try:
        count = replies.export_file(file, models=model or None)
    except ValueError as exc:
        raise DataError(str(exc)) from exc
    typer.echo(f"{count} replies written to {shown(file)}")


@cache_app.register("import")
def import_replies(file: Path) -> None:
    """Add the replies of an exported file; one bad line, and nothing is added. What is here already
    is kept.

    Args:
        file: A file from `ragbench cache export`.

    Example: ragbench cache import replies.jsonl.gz
    """
    from ragbench.store import replies

    try:
        done = replies.import_file(file)
    except ValueError as exc:
        raise DataError(str(exc)) from exc
    typer.echo(f"{done.added} replies added, {done.known} known already")
    if done.differing:
        typer.echo(f"{done.differing} differ from the replies that are here, which were kept")
