"""The program in the process of a job, `python -m ragbench.service.child MEMORY_MB eval ...`, which
limits its memory and runs the command `eval ...`.

It limits its memory (0: no limit), and ends when the server ends, which closes its standard input.
"""

import os
import runpy
import signal
import sys
import threading
from contextlib import suppress


def _end_with_parent() -> None:
    """Wait until the server ends, then end this process and all that it began."""
    with suppress(OSError):
        os.read(0, 1)  # the server never writes: this returns when the server ends
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(137)


def _limit_memory(megabytes: int) -> None:
    """Let this process allocate at most this much memory. Nothing changes on Windows, which has no such
    limit, and under a lower limit of an administrator, which cannot be raised.
    """
    n_bytes = megabytes * 2**20
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


if __name__ == "__main__":
    if int(sys.argv[1]):
        _limit_memory(int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["ragbench", *sys.argv[2:]]
    runpy.run_module("ragbench", run_name="__main__", alter_sys=True)
