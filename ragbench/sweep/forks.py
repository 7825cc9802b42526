"""Processes that are forks of one that has imported what they need: `ForkServer` starts it and asks it for them."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path

from ragbench.errors import SweepError

PROVISIONER = "ragbench-fork"
"""The entry point by which jupyter_client finds what asks for kernels."""

# Nothing is imported from the working folder, and ipykernel before anything that asks whether it is there. pandas looks
# for the function `get_ipython` when it is imported, to set its options for a notebook.
_START = """
import builtins, sys, types
sys.path[:] = filter(None, sys.path)
import ipykernel
builtins.get_ipython = lambda: types.SimpleNamespace(kernel=None)
from ragbench.sweep.forkserver import main
sys.exit(main())
"""
_IMPORT_TIMEOUT_S = 300.0  # of the server, on a busy machine
_EXIT_TIMEOUT_S = 10.0


class RefusedError(SweepError):
    """There can be no forks of this server."""


class LostError(SweepError):
    """The server has died."""


def unavailable() -> str | None:
    """Why there can be no forks here; "" where that needs no message, None where there can be."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return ""
    if not entry_points(group="jupyter_client.kernel_provisioners", name=PROVISIONER):
        return "this installation of ragbench-lab is older than its code; install it again"
    return None


class ForkServer:
    """A process that has imported `modules` under `environment`; it ends with its forks when this one does.

    Raises:
        RefusedError: there can be no socket in the folder for temporary files.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ragbench-"))  # of mode 0700
        with socket.socket(socket.AF_UNIX) as listener, (self.folder / "log").open("wb") as log:
            try:
                listener.bind(str(self.folder / "socket"))
            except OSError as exc:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise RefusedError(f"no socket can be made in {self.folder}: {exc}") from exc
            listener.listen(128)
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(listener.fileno()), *modules],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Read on import: Arrow's allocator starts no thread, figures and texts are as in a kernel.
                env={
                    "PYTHONIOENCODING": "UTF-8",
                    "JE_ARROW_MALLOC_CONF": "background_thread:false",
                    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
                    **environment,
                },
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def has_died(self) -> bool:
        """Whether it has ended by itself, or does so right now."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return self._process.returncode is not None

    def close(self) -> str:
        """End the server and everything it has forked; how it had died, when it had."""
        died = self._process.poll()
        log = (self.folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_EXIT_TIMEOUT_S / 5)  # longer only while it imports
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        return "" if died is None else f"status {died}{': ' + log[-1] if log else ''}"


class ForkedProcess:
    """A fork of the server in `folder`, with what callers use of `subprocess.Popen`; a signal goes to its whole group.

    `do` is "run" or "kernel", `output` the descriptor that it prints to. It ends when `stdin` is closed, and is killed
    when this process ends.

    Raises:
        RefusedError: the server must not be forked.
        LostError: the server has died.
    """

    stdout = stderr = None

    def __init__(
        self, folder: Path, do: str, arguments: Sequence[str], environment: Mapping[str, str], *, cwd: str, output: int
    ) -> None:
        self.returncode: int | None = None
        self.lost = False
        self._connection = socket.socket(socket.AF_UNIX)
        lifeline, held = os.pipe()
        self.stdin = os.fdopen(held, "wb")
        request = {"do": do, "arguments": list(arguments), "environment": dict(environment), "cwd": cwd}
        try:
            self._connection.settimeout(_IMPORT_TIMEOUT_S)
            self._connection.connect(str(folder / "socket"))
            text = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(self._connection, [text], [lifeline, output])
            self._connection.sendall(text[sent:])
            self._lines = self._connection.makefile("rb")
            reply = json.loads(self._lines.readline() or "{}")
            if "pid" not in reply:
                raise RefusedError(reply["refused"]) if reply else ConnectionError("it ended while it was asked")
            self.pid: int = reply["pid"]
            self._pidfd = os.pidfd_open(self.pid)
        except BaseException as exc:
            self._connection.close()
            self.stdin.close()
            if isinstance(exc, OSError):
                raise LostError(f"{type(exc).__name__}: {exc}") from exc
            raise
        finally:
            os.close(lifeline)

    def poll(self) -> int | None:
        """The exit status; None while it runs. Where the server has died, it is made to end, and `lost`."""
        if self.returncode is None and _readable(self._connection.fileno(), 0.0):
            line = b""
            with suppress(OSError):
                line = self._lines.readline()
            self.stdin.close()
            if not line:
                self.lost = True
                _readable(self._pidfd, _EXIT_TIMEOUT_S)
                self.kill()
            self.returncode = json.loads(line)["status"] if line else -signal.SIGKILL
            self._lines.close()
            self._connection.close()
            os.close(self._pidfd)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not within `timeout` seconds.
        """
        until = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (status := self.poll()) is None:
            if time.monotonic() >= until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            _readable(self._connection.fileno(), 0.1)
        return status

    def send_signal(self, signum: int) -> None:
        # While it runs its id is no other's.
        if self.returncode is None and not _readable(self._pidfd, 0.0):
            try:
                os.killpg(self.pid, signum)
            except ProcessLookupError:  # it has no group yet, or has just ended
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _readable(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
