"""Output of the commands: one line per error, paths as short as possible."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ragbench.errors import ConfigError, DataError, RagbenchError, printable


@contextmanager
def clean_errors(*others: type[Exception]) -> Iterator[None]:
    """Print errors and warnings of ragbench in one line each; anything else is a bug and keeps its
    traceback.

    `others` are further errors that the command expects.
    """
    expected: tuple[type[Exception], ...] = (RagbenchError, *others)
    as_before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"ragbench: warning: {message}\n"
    try:
        _check_environment()
        yield
    except expected as exc:
        typer.echo(f"ragbench: {_one_line(exc)}", err=True)
        raise typer.Exit(2) from exc
    except KeyboardInterrupt as exc:
        raise typer.Exit(130) from exc
    finally:
        warnings.formatwarning = as_before


@contextmanager
def listed_errors() -> Iterator[None]:
    """As `clean_errors`; an error that lists several problems is printed with one line for each."""
    with clean_errors():
        try:
            yield
        except DataError as exc:
            if "\n" not in str(exc):
                raise
            first, *others = map(printable, str(exc).splitlines())
            typer.echo("\n  ".join([f"ragbench: {first}", *others]), err=True)
            raise typer.Exit(2) from exc


def _check_environment() -> None:
    from ragbench import store

    try:
        store.check_environment()
    except ValueError as exc:
        raise ConfigError(str(exc)) from exc


def _one_line(exc: Exception) -> str:
    if isinstance(exc, OSError) and exc.strerror and exc.filename:
        return f"{exc.filename}: {exc.strerror}"  # without the number of the error
    return printable(str(exc))


def command(name: str) -> str:
    """How a command that came with ragbench is called here: by its path where its environment is
    not activated.
    """
    own = Path(sys.executable).with_name(name)
    found = shutil.which(name)
    return name if not own.exists() or (found and Path(found) == own) else str(shown(own))


def shown(path: Path) -> Path:
    """A path as it is shown: relative to the working folder where it lies inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
