"""Consent to what a system's file names: a command that is started, variables of the environment
that are sent.

A person at a terminal is shown them and asked once per content of a file; RAGBENCH_YES=1 (`--yes`)
is consent to all.
"""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, printable
from ragbench.files import LineFile
from ragbench.store import digest
from ragbench.systems.credentials import variables_in

shown_to_user = False
"""Whether what is used under RAGBENCH_YES is printed; the commands set it, runs of notebooks must
not.
"""


def confirm(path: Path, table: Mapping[str, Any]) -> None:
    """Ask for consent to the command and the variables of a system's table, unless it was given
    before.

    Raises:
        ConfigError: it is refused, or no one can be asked.
    """
    uses = _uses(table)
    if not uses:
        return
    note = printable(f"{path} {uses}")
    if os.environ.get("RAGBENCH_YES", "") not in ("", "0"):
        if shown_to_user:
            sys.stderr.write(f"{note}\n")
        return
    from platformdirs import user_data_path

    content = digest(json.dumps(table, sort_keys=True, default=str))
    book = user_data_path("ragbench", appauthor=False) / "confirmed-systems.txt"
    if book.is_file() and content in book.read_text(encoding="utf-8").split():
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            f"{note}, here for the first time; if that is right, run `ragbench eval "
            f"{path}` at a terminal and confirm it once, or give --yes, or set "
            "RAGBENCH_YES=1"
        )
    sys.stderr.write(f"{note}.\nUse it, now and later? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        raise ConfigError(f"{path} is not used, as you wish")
    LineFile(book).append(content)


def _uses(table: Mapping[str, Any]) -> str:
    """Describe what a table starts and sends, and where to; "" where it does neither."""
    where, names = table.get("url") or table.get("server") or "", table.get("env")
    variables = [*variables_in(table), *(map(str, names) if isinstance(names, list) else ())]
    is_address = str(where).startswith(("http://", "https://"))
    parts = []
    if where and not is_address:
        parts.append(f"starts {where if isinstance(where, str) else shlex.join(map(str, where))!r}")
    if variables:
        parts.append(f"gets the variables {', '.join(dict.fromkeys(variables))} of the environment")
        parts += [f"asks {'/'.join(str(where).split('/')[:3])}"] if is_address else []
    return " and ".join(parts)
