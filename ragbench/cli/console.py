"""Output of the commands: an error as one line with its exit status, warnings, tables, JSON, paths
as short as possible.
"""

from __future__ import annotations

import io
import json
import os
import select
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

import typer

from ragbench.errors import ConfigError, DataWarning, RagbenchError, printable

if TYPE_CHECKING:
    import pandas as pd

_READER_ENDED = 141
"""The exit status of a program that SIGPIPE ended."""


@contextmanager
def clean_errors() -> Iterator[None]:
    """Turn an error in the block, the body of a command, into a message and an exit status.

    An error of ragbench or of a file is printed without a traceback, on a line for each problem that it
    lists, and ends the command with status 2. Ctrl-C ends it with 130. If the reader of the output has
    ended, such as `head`, nothing is printed, and the status is the one that a shell expects. Any other
    exception is a bug and keeps its traceback.
    """
    from ragbench import store

    as_before = warnings.formatwarning
    warnings.formatwarning = _format_warning
    try:
        try:
            store.check_environment()
        except ValueError as exc:
            raise ConfigError(str(exc)) from exc
        yield
    except (RagbenchError, OSError) as exc:
        # True if the reader of the output has ended; another broken pipe is an error like others
        if isinstance(exc, BrokenPipeError) and _discard_unread_output():
            raise typer.Exit(_READER_ENDED) from exc
        with suppress(BrokenPipeError):  # nobody reads it
            typer.echo(_message_of(exc), err=True)
        raise typer.Exit(2) from exc
    except KeyboardInterrupt as exc:
        raise typer.Exit(130) from exc
    finally:
        warnings.formatwarning = as_before


def _message_of(error: RagbenchError | OSError) -> str:
    """Return the text of an error as it is printed: further lines are indented below the first."""
    text = str(error)
    if isinstance(error, OSError) and error.filename:  # without the number of the error
        text = f"{error.filename}: {error.strerror}"
    lines = f"ragbench: {text}".splitlines()
    return "\n  ".join(printable(line) for line in lines)


def _discard_unread_output() -> bool:
    """Discard all output from here on where nobody reads it any more; return True if this is so.

    Without this, Python writes about its last lines when it ends.
    """
    unread = [stream for stream in (sys.stdout, sys.stderr) if _is_unread(stream)]
    for stream in unread:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return bool(unread)


def _is_unread(stream: TextIO) -> bool:
    """Return True if a stream writes into a pipe that its reader has closed."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # text in memory, not a file of the system
        return False
    if not hasattr(select, "poll"):  # Windows
        return False
    poll = select.poll()
    poll.register(descriptor, 0)  # 0: no events are asked for; errors are always reported
    return any(event & select.POLLERR for _, event in poll.poll(0))  # the present events


def _format_warning(message: Warning | str, *_: Any, **__: Any) -> str:
    """Format a warning as one line, and one that was shown before as none."""
    if isinstance(message, DataWarning) and message.is_known():
        return ""
    return f"ragbench: warning: {message}\n"


def print_table(
    frame: pd.DataFrame,
    names: Iterable[str],
    headings: Mapping[str, str] = MappingProxyType({}),
    *,
    as_json: bool = False,
) -> None:
    """Print columns of a frame under their headings, one line per row. Times are printed without
    seconds.

    Each column is as wide as its widest cell; lines are not cut to the width of the terminal.

    Args:
        names: the columns to print.
        headings: column -> its heading. Others are headed by their names: client_id by "client",
            made_at by "made (UTC)".
        as_json: print the whole frame by `print_json` instead.
    """
    if as_json:
        print_json(frame)
        return
    columns = []
    for name in names:
        texts = frame[name].map(str)
        if name.endswith("_at"):  # a time such as 2026-01-31T09:45:00
            texts = texts.str[:16].str.replace("T", " ")
        default_heading = name.removesuffix("_id").replace("_at", " (UTC)")
        cells = [headings.get(name, default_heading), *texts]
        width = max(map(len, cells))
        columns.append([cell.ljust(width) for cell in cells])
    for row in zip(*columns, strict=True):  # the cells of a line
        typer.echo("  ".join(row).rstrip())


def print_json(content: pd.DataFrame | Mapping[str, Any]) -> None:
    """Print all rows of a frame as a JSON list, with every column; or a mapping as a JSON object."""
    if isinstance(content, Mapping):
        typer.echo(json.dumps(content, allow_nan=False, ensure_ascii=False))
    else:
        typer.echo(content.to_json(orient="records", date_format="iso"))


def command(name: str) -> str:
    """Return how a command that came with ragbench is called here: by its path where its
    environment is not activated.
    """
    installed = Path(sys.executable).with_name(name)
    first = shutil.which(name)
    is_first = not installed.exists() or (first is not None and Path(first) == installed)
    return name if is_first else str(shown(installed))


def shown(path: Path) -> Path:
    """Return a path as it is shown: relative to the working folder if it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
