"""Consent to actions that a file causes: to start a command, send variables of the environment, run
the cells of a stored notebook, import a module.

A person at a terminal is shown it and asked once per content; RAGBENCH_YES=1 (`--yes`) is consent
to all.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, printable
from ragbench.files import LineFile
from ragbench.store import digest
from ragbench.systems.credentials import variables_in

prints_uses = False
"""True if what is used under RAGBENCH_YES is printed; the commands set it, runs of notebooks must
not.
"""


def ask_consent(path: Path, table: Mapping[str, Any]) -> None:
    """Ask for consent to the command and the variables of a system's table, unless it was given
    before.

    Raises:
        ConfigError: it is refused, or no one can be asked.
    """
    uses = _uses(table)
    if uses:
        content = digest(json.dumps(table, sort_keys=True, default=str))
        confirm_content(str(path), uses, content, f"ragbench eval {path}")


def confirm_content(subject: str, uses: str, content: str, command: str) -> None:
    """Ask for consent to something with this content, unless it was given before.

    RAGBENCH_YES is consent to all: nothing is asked, and with `prints_uses` the use is printed.

    Args:
        subject: the file, or other thing, that is used.
        uses: a verb and its object: what happens when it is used.
        content: digest of all that the consent is to.
        command: the command that asks a person at a terminal.

    Raises:
        ConfigError: the user refuses, or is not at a terminal to be asked.
    """
    note = printable(f"{subject} {uses}")
    if _is_given_to_all():
        if prints_uses:
            sys.stderr.write(f"{note}\n")
        return
    book = _book()
    if content in _remembered(book):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            f"{note}, here for the first time; if that is right, run `{printable(command)}` at a "
            "terminal and confirm it once, or give --yes, or set RAGBENCH_YES=1"
        )
    sys.stderr.write(f"{note}.\nUse it, now and later? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        raise ConfigError(f"{printable(subject)} is not used, because you declined")
    LineFile(book).append(content)


def remember(contents: Iterable[str]) -> None:
    """Keep the consent of a user to contents that the user has just run, given by their digests.

    Under RAGBENCH_YES, which is consent to all, nothing is kept. Where the file cannot be written the
    user is asked later.
    """
    if _is_given_to_all():
        return
    book = _book()
    with suppress(OSError):
        lines = LineFile(book)
        for content in sorted({*contents} - _remembered(book)):
            lines.append(content)


def _is_given_to_all() -> bool:
    """Return True if the environment gives consent to everything."""
    return os.environ.get("RAGBENCH_YES", "") not in ("", "0")


def _book() -> Path:
    """Return the file with the digests of all contents that were consented to, one per line."""
    from platformdirs import user_data_path

    return user_data_path("ragbench", appauthor=False) / "confirmed-systems.txt"


def _remembered(book: Path) -> set[str]:
    """Return the digests of the contents that the user has consented to; none without a file."""
    return {*book.read_text(encoding="utf-8").split()} if book.is_file() else set()


def _uses(table: Mapping[str, Any]) -> str:
    """Return the actions of a system's file that need consent, as verbs with their objects: "starts 'python
    server.py' and gets the variables TOKEN of the environment"; "" if it does nothing of the kind.

    Args:
        table: the fields of the file. It starts a command if `server` is not an address; it sends
            variables of the environment to an address.
    """
    where = table.get("url") or table.get("server") or ""
    variables = variables_in(table)
    if isinstance(table.get("env"), list):
        variables += map(str, table["env"])
    is_address = str(where).startswith(("http://", "https://"))
    uses = []
    if where and not is_address:
        command = where if isinstance(where, str) else shlex.join(map(str, where))
        uses.append(f"starts {command!r}")
    if variables:
        names = ", ".join(dict.fromkeys(variables))
        uses.append(f"gets the variables {names} of the environment")
    if variables and is_address:
        scheme_and_host = "/".join(str(where).split("/")[:3])
        uses.append(f"asks {scheme_and_host}")
    return " and ".join(uses)
