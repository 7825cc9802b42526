"""The process whose forks are runs and their kernels, so that what they import is imported once.

It listens on a Unix socket. One connection is one process: a line of JSON with file descriptors asks for it, a line
gives its id, and another how it ended. Where the connection closes before, the process is killed with its group; where
the standard input of the server closes, all are.

A lock that another thread holds at a fork stays locked in it for ever. The server therefore has one thread, and nothing
that belongs to one process alone: no ZeroMQ context, no event loop, no CUDA.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import importlib
import importlib.util
import json
import os
import select
import selectors
import shutil
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ragbench.errors import one_line_warnings
from ragbench.sweep import worker

_GPUS = ("/dev/nvidia", "/dev/kfd")
_REQUEST_TIMEOUT_S = 10.0


def main() -> int:
    """Import what the command line names, and serve; in a fork, do what was asked for."""
    listening, *modules = sys.argv[1:]
    listener = socket.socket(fileno=int(listening))
    before = dict(os.environ)
    gc.disable()  # a collection writes to, and so copies, the memory that forks share
    for name in modules:
        if select.select([0], [], [], 0)[0]:  # the sweep has ended
            return _Server(listener, {}).end()()
        with suppress(Exception):  # where a notebook needs it, its cell shows the error
            _load(name)
    del builtins.get_ipython  # type: ignore[attr-defined]  # of `ragbench.sweep.forks`
    with warnings.catch_warnings():  # what it filters is of no concern to notebooks
        worker.load_papermill()
    sys.stdout.flush()
    if os.fork() == 0:  # OpenBLAS ends its threads before a fork and starts them again where they are needed
        os._exit(0)
    os.wait()
    gc.freeze()
    imported = {name: value for name, value in os.environ.items() if name not in before}
    return _Server(listener, imported).serve()()


def _load(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    if not (module and hasattr(importlib.import_module(module), attribute)):
        importlib.import_module(name)


class _Child(NamedTuple):
    pid: int
    pidfd: int
    connection: socket.socket


class _Server:
    def __init__(self, listener: socket.socket, environment: Mapping[str, str]) -> None:
        self.folder = Path(listener.getsockname()).parent
        self.environment = environment  # variables that modules set when they were imported
        self.children: list[_Child] = []
        self.files = selectors.PollSelector()
        self.files.register(listener, selectors.EVENT_READ, partial(self.fork, listener))
        self.files.register(0, selectors.EVENT_READ, self.end)

    def serve(self) -> Callable[[], int]:
        """Serve, and return what this process has to do then: a fork its work, the server nothing."""
        while True:
            # One event at a time: it may close the file of the next.
            act: Callable[[], Callable[[], int] | None] = self.files.select()[0][0].data
            if then := act():
                return then

    def fork(self, listener: socket.socket) -> Callable[[], int] | None:
        connection = listener.accept()[0]
        try:
            request, given = _read(connection)
        except (OSError, ValueError):  # the client is gone
            connection.close()
            return None
        refusal = _refusal()
        pid = -1 if refusal else os.fork()
        if pid == 0:
            for key in list(self.files.get_map().values()):
                key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
            connection.close()
            return partial(_become, request, given, self.environment)
        for descriptor in given:
            os.close(descriptor)
        if refusal:
            _send(connection, refused=refusal)
            connection.close()
            return None
        child = _Child(pid, os.pidfd_open(pid), connection)
        self.children.append(child)
        self.files.register(child.pidfd, selectors.EVENT_READ, partial(self.reap, child))
        self.files.register(connection, selectors.EVENT_READ, partial(self.abandon, child))
        _send(connection, pid=pid)
        return None

    def abandon(self, child: _Child) -> None:
        """Kill a process that no one waits for any more; it is reaped when it has ended."""
        self.files.unregister(child.connection)
        child.connection.close()
        _kill(child.pid)

    def reap(self, child: _Child) -> None:
        # Until it is waited for, its id is no other's; its group may live on, with what it has started.
        _kill(child.pid)
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        self.children.remove(child)
        self.files.unregister(child.pidfd)
        os.close(child.pidfd)
        if child.connection.fileno() >= 0:
            self.files.unregister(child.connection)
            _send(child.connection, status=status)
            child.connection.close()

    def end(self) -> Callable[[], int]:
        for child in self.children:
            _kill(child.pid)
        for child in self.children:
            os.waitpid(child.pid, 0)
        shutil.rmtree(self.folder, ignore_errors=True)
        return lambda: 0


def _read(connection: socket.socket) -> tuple[Mapping[str, Any], list[int]]:
    connection.settimeout(_REQUEST_TIMEOUT_S)
    text, given, _, _ = socket.recv_fds(connection, 1 << 16, 4, socket.MSG_CMSG_CLOEXEC)
    while not text.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionError("the request is not whole")
        text += more
    return json.loads(text), given


def _send(connection: socket.socket, **reply: object) -> None:
    with suppress(OSError):  # the client is gone
        connection.sendall(json.dumps(reply).encode() + b"\n")


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has no group yet
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _refusal() -> str:
    """Why this process must not be forked; "" when it may be."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if os.readlink(descriptor).startswith(_GPUS):
                return f"what the notebooks import opened {os.readlink(descriptor)}"
    threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    if len(threads) > 1:
        return f"what the notebooks import started {len(threads) - 1} threads ({', '.join(sorted(threads)[:5])})"
    return ""


def _become(request: Mapping[str, Any], given: Sequence[int], imported: Mapping[str, str]) -> NoReturn:
    """Turn a fork into the process that was asked for, as if it were freshly started, until its end."""
    os.setsid()
    lifeline, output = given
    os.dup2(lifeline, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    gc.enable()
    os.environ.clear()
    os.environ.update({**imported, **request["environment"]})
    os.chdir(request["cwd"])
    if "numpy.random" in sys.modules:  # the standard library's `random` does this by itself
        sys.modules["numpy.random"].seed()
    Path("/proc/self/comm").write_text(f"ragbench {request['do']}")
    try:
        kernel = request["do"] == "kernel"
        status = _kernel(request["arguments"], lifeline) if kernel else worker.main(*request["arguments"])
    except BaseException:
        traceback.print_exc()
        status = 1
    # What Python does at its end, but for clearing all modules: that would copy all memory which forks share.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _kernel(arguments: Sequence[str], lifeline: int) -> int:
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    threading.Thread(target=_go_with, args=(lifeline,), daemon=True).start()
    from ipykernel import kernelapp

    one_line_warnings()  # which the import of ragbench does only where a kernel runs already
    launcher = importlib.util.find_spec("ipykernel_launcher")
    sys.argv = [str(launcher and launcher.origin), *arguments]
    kernelapp.launch_new_instance()
    return 0


def _go_with(lifeline: int) -> None:
    os.read(lifeline, 1)  # blocks until the run of this kernel closes the pipe, or dies
    os.killpg(os.getpid(), signal.SIGKILL)
