"""Leave to use what a system's file names: a command that is started, variables of the environment that are sent.

A person at a terminal is shown them and asked once per content of a file; RAGBENCH_YES=1 (`--yes`) is leave for all.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench.cache import digest
from ragbench.errors import ConfigError, printable
from ragbench.files import LineFile

shown_to_user = False
"""Whether what is used under RAGBENCH_YES is printed; the commands set it, runs of notebooks must not."""

_NAMED = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def confirm(path: Path, tables: Mapping[str, Any]) -> None:
    """Ask for leave to use the commands and variables of a system's file, unless it was given before.

    Raises:
        ConfigError: it is refused, or no one can be asked.
    """
    wanted = _uses(tables)
    if not wanted:
        return
    note = printable(f"{path} {wanted}")
    if os.environ.get("RAGBENCH_YES", "") not in ("", "0"):
        if shown_to_user:
            sys.stderr.write(f"{note}\n")
        return
    from platformdirs import user_data_path

    content = digest(json.dumps(tables, sort_keys=True, default=str))
    book = user_data_path("ragbench", appauthor=False) / "confirmed-systems.txt"
    if book.is_file() and content in book.read_text(encoding="utf-8").split():
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            f"{note}, here for the first time; if that is right, run `ragbench eval --system {path}` at a terminal and "
            "confirm it once, or give --yes, or set RAGBENCH_YES=1"
        )
    sys.stderr.write(f"{note}.\nUse it, now and later? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        raise ConfigError(f"{path} is not used, as you wish")
    LineFile(book).append(content)


def _uses(tables: Mapping[str, Any]) -> str:
    """What the tables of a file start and send, and where to, in words; "" where they do neither."""
    mcp = tables.get("mcp")
    started = mcp.get("server", "") if isinstance(mcp, Mapping) else ""
    variables, hosts = _NAMED.findall(json.dumps(tables, default=str)), []
    for table in _requests(tables):
        headers, *lists = (table.get(name) for name in ("headers_env", "env", "basic_env"))
        lists.append([*headers.values()] if isinstance(headers, Mapping) else [])
        variables += [str(name).rpartition(" ")[2] for names in lists if isinstance(names, list) for name in names]
        places = (str(table.get(name)) for name in ("url", "server"))
        hosts += ["/".join(place.split("/")[:3]) for place in places if _is_address(place)]
    parts = []
    if started and not _is_address(started):
        parts.append(f"starts {started if isinstance(started, str) else shlex.join(map(str, started))!r}")
    if variables:
        parts.append(f"gets the variables {', '.join(dict.fromkeys(variables))} of the environment")
    if parts and hosts:
        parts.append(f"asks {', '.join(dict.fromkeys(hosts))}")
    return " and ".join(parts)


def _is_address(value: object) -> bool:
    return str(value).startswith(("http://", "https://"))


def _requests(value: Any) -> Iterator[Mapping[str, Any]]:
    """All tables inside tables, but for what is sent and read."""
    if isinstance(value, Mapping):
        yield value
        for key, entry in value.items():
            if key not in ("body", "form", "params", "arguments", "document", "reply"):
                yield from _requests(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _requests(entry)
