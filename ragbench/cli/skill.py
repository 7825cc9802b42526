"""`ragbench skill`: instructions for coding agents on using ragbench and reading its conclusions."""

from __future__ import annotations

from pathlib import Path

import typer

from ragbench.cli.console import shown
from ragbench.errors import ConfigError
from ragbench.files import write_durably

FOLDER = Path(__file__).parents[1] / "skill"
"""SKILL.md with its references, as it comes with ragbench."""


def skill_command(folder: Path | None = None, *, force: bool = False) -> None:
    """Print the skill for coding agents, or copy it with its references into a folder of skills.

    It states when to use which command, how to read a conclusion, and what not to conclude from it.

    Args:
        folder: Where agents look for skills; the copy is FOLDER/ragbench.
        force: Replace existing files.

    Example: ragbench skill .claude/skills
    """
    if folder is None:
        typer.echo((FOLDER / "SKILL.md").read_text(encoding="utf-8"), nl=False)
        return
    target = folder.expanduser() / "ragbench"
    if target.exists() and not force:
        raise ConfigError(f"{target} already exists; replace it with --force")
    for path in sorted(FOLDER.rglob("*.md")):
        copy = target / path.relative_to(FOLDER)
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_durably(copy, path.read_text(encoding="utf-8"))
    typer.echo(f"The skill is in {shown(target)}.")
