"""What runs the command of a job: `python -m ragbench.service.child MEMORY_MB eval ...`.

It limits its own memory, and ends when the server does: then its input ends.
"""

import os
import runpy
import signal
import sys
import threading
from contextlib import suppress


def _end_with_parent() -> None:
    with suppress(OSError):
        os.read(0, 1)  # returns when the input ends, as nothing is ever sent
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(137)


def _limit_memory(megabytes: int) -> None:
    with suppress(
        ImportError, ValueError, OSError
    ):  # not on Windows; below an administrator's limit it cannot rise
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))


if __name__ == "__main__":
    if int(sys.argv[1]):
        _limit_memory(int(sys.argv[1]))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["ragbench", *sys.argv[2:]]
    runpy.run_module("ragbench", run_name="__main__", alter_sys=True)
