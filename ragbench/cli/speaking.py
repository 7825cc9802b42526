"""How the commands speak: one line per error, paths as short as they can be."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ragbench.errors import RagbenchError


@contextmanager
def clean_errors() -> Iterator[None]:
    """Say errors and warnings of ragbench in one line each; anything else is a bug and keeps its traceback."""
    as_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"ragbench: warning: {message}\n"
    try:
        yield
    except RagbenchError as exc:
        typer.echo(f"ragbench: {exc}", err=True)
        raise typer.Exit(2) from exc
    except KeyboardInterrupt as exc:
        raise typer.Exit(130) from exc
    finally:
        warnings.formatwarning = as_before


def shown(path: Path) -> Path:
    """A path as it is shown: relative to the working folder where it lies inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
