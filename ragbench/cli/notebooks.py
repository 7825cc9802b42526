"""`ragbench notebooks`: the notebooks that come with ragbench, to open and to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import clean_errors, command, shown


def notebooks_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the copies go.")] = Path("notebooks"),
    force: Annotated[bool, typer.Option("--force", help="Replace notebooks that were changed there.")] = False,
) -> None:
    """Copy the notebooks that come with ragbench into a folder, to be opened in JupyterLab.

    Exit status: 0 all is well, 2 nothing is written.
    """
    from ragbench.sweep.notebooks import copy_notebooks

    with clean_errors():
        copies = copy_notebooks(folder, force=force)
    typer.echo(f"{len(copies)} notebooks in {shown(folder)}: {', '.join(path.stem for path in copies)}")
    typer.echo(f"Next: {command('jupyter')} lab {shown(folder / 'evaluate.ipynb')}")
