"""All commands of `ragbench`, those of groups by both words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from ragbench.cli import app


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield name and command of each command that is no group."""
    parts = getattr(command, "commands", None)
    if parts is None:
        yield " ".join(path), command
        return
    for name, part in parts.items():
        yield from leaves(part, (*path, name))


LEAVES = dict(leaves(typer.main.get_command(app)))
