"""Test sets that requests send: how many are read at a time, each by a separate process; the limits
on their content are in `testsets/uploads`.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from fastapi import HTTPException

from ragbench.errors import DataError
from ragbench.testsets.uploads import CPU_S, MEMORY_MB
from ragbench.testsets.writer import write_texts

_LOG = logging.getLogger("ragbench.service")
_PROGRAM = (sys.executable, "-m", "ragbench.testsets.uploads")
_ENVIRONMENT = ("PATH", "PYTHONPATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG")
"""The variables that the process gets: none of them holds a key."""
_WALL_S = 10 * CPU_S
_AT_A_TIME = 2


@dataclass
class Uploads:
    """The test sets that a server is reading: one of each client, and two of all of them."""

    clients: set[str] = field(default_factory=set)
    limiter: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(_AT_A_TIME)
    )

    @contextmanager
    def one_at_a_time(self, client: str) -> Iterator[None]:
        """Let a client send one test set at a time.

        Raises:
            HTTPException: 429, another one is being read.
        """
        if client in self.clients:
            detail = "another data set is being read; send one after the other"
            raise HTTPException(429, detail, {"Retry-After": "5"})
        self.clients.add(client)
        try:
            yield
        finally:
            self.clients.remove(client)

    async def save(self, path: Path, content: bytes, form: str) -> None:
        """Check a test set that is "yaml", "json" or "jsonl", and save it in ragbench's own form.

        Raises:
            DataError: it has problems, is too large, or refers to documents elsewhere.
        """
        async with self.limiter:
            lines = await _lines_of(content, form, path.stem)
        await anyio.to_thread.run_sync(write_texts, path, {"": lines})


async def _lines_of(content: bytes, form: str, name: str) -> str:
    """Return a test set as JSON Lines, from a process that can open no file and no connection.

    A server that is stopped cancels this, and the process ends with it.

    Args:
        content: the body of the request.
        form: the form of the test set, such as "yaml".
        name: the name of the test set.

    Raises:
        DataError: the test set has problems, or the process sent no reply within its time and
            memory.
    """
    environment = {each: os.environ[each] for each in _ENVIRONMENT if each in os.environ}
    command = [*_PROGRAM, form, name]
    reply = {}
    try:
        with anyio.fail_after(_WALL_S):  # kills the process
            done = await anyio.run_process(command, input=content, check=False, env=environment)
    except TimeoutError:
        errors = f"no reply within {_WALL_S} s"
    else:
        errors = done.stderr.decode(errors="replace")
        with suppress(ValueError):  # the process ended before its reply; `errors` has why
            reply = json.loads(done.stdout)
    if "lines" in reply:
        return str(reply["lines"])
    if "error" in reply:
        raise DataError(reply["error"])
    _LOG.warning("a test set could not be read: %s", errors[-2000:])
    raise DataError(
        f"the body could not be read within {CPU_S} s of processor time and {MEMORY_MB} MB; send "
        "plain cases, or fewer at a time"
    )
