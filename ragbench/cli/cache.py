"""`ragbench cache`: shows and clears the data kept on disk between runs."""

from __future__ import annotations

import typer

from ragbench.cli.help import Commands

cache_app = Commands(
    "The data kept between runs: embeddings, indexes and replies of language models. "
    "RAGBENCH_CACHE_DIR names its folder.",
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


@cache_app.register()
def clear(*, replies: bool = False) -> None:
    """Delete cached data, which is computed again when needed. Replies of language models are kept unless
    --replies is given.

    Args:
        replies: Also delete the replies of language models, which were paid for.

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
