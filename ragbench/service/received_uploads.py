"""Test sets that requests send: one at a time of each client, each read by a separate process."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
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
    def alone(self, client: str) -> Iterator[None]:
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
        read = partial(_lines_of, content, form, path.stem)
        lines = await anyio.to_thread.run_sync(read, limiter=self.limiter)
        await anyio.to_thread.run_sync(write_texts, path, {"": lines})


def _lines_of(content: bytes, form: str, name: str) -> str:
    """Return a test set as JSON Lines, from a process that can open no file and no connection.

    Raises:
        DataError: the test set has problems, or the process gave no reply in its time and memory.
    """
    environment = {each: os.environ[each] for each in _ENVIRONMENT if each in os.environ}
    reply = {}
    errors = b""
    try:
        process = subprocess.run(
            [*_PROGRAM, form, name],
            input=content,
            capture_output=True,
            env=environment,
            timeout=_WALL_S,
        )
        errors = process.stderr
        reply = json.loads(process.stdout)
    except subprocess.TimeoutExpired as expired:
        errors = expired.stderr or b""
    except ValueError:
        pass  # the process ended before its reply, which is then not JSON; `errors` has why
    if "lines" in reply:
        return str(reply["lines"])
    if "error" in reply:
        raise DataError(reply["error"])
    _LOG.warning("a test set could not be read: %s", errors.decode(errors="replace")[-2000:])
    raise DataError(
        f"the body could not be read within {CPU_S} s of processor time and {MEMORY_MB} MB; send "
        "plain cases, or fewer at a time"
    )
