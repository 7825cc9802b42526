"""The process of a job: its command with default options, started, watched for as long as a job may
take, and killed with all that it started.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from ragbench.service.job_queue import place_of, progress_of
from ragbench.service.tables import series_of


def run_command(
    claimed: Row[Any],
    lost: threading.Event,
    *,
    stop: threading.Event | None = None,
    timeout_s: float = 0,
    program: Sequence[str] = (sys.executable, "-m", "ragbench"),
) -> tuple[int, str, Path | None]:
    """Run the command of a job in its folder.

    Returns its exit status, its output, and the folder of an evaluation's result (None for another
    command). The command is killed when `lost` or `stop` is set, or after `timeout_s` seconds (0 =
    never); its status is then 2.

    Args:
        lost: set when another worker holds the job.
        stop: set when this worker stops.
        program: the program that gets the command as arguments. Its input ends when this process
            does.

    Raises:
        InterruptedError: `stop` was set.
    """
    command = _with_defaults(json.loads(claimed.command))
    environment = {
        **os.environ,
        "RAGBENCH_SERIES": series_of(claimed),
        "RAGBENCH_CLIENT": claimed.client_id,
    }
    # an evaluation is told where its result goes; other commands name their own files
    result = None
    if command[0] == "eval":
        result = place_of(claimed)
        result.parent.mkdir(parents=True, exist_ok=True)
        command += ["--output", str(result), "--force"]
        environment["RAGBENCH_HISTORY"] = "off"  # recorded when the job is committed
        environment["RAGBENCH_PROGRESS"] = str(progress_of(result))
    # a file takes any amount of output, where a pipe that no one reads would block the command
    with tempfile.TemporaryFile() as printed:
        with subprocess.Popen(
            [*program, *command],
            cwd=Path(claimed.folder),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        ) as child:
            try:
                reason = _wait(child, lost, stop, timeout_s)
            finally:  # the command has ended, has to be killed, or an error came in between
                if child.poll() is None:
                    _kill(child)
                if result:
                    progress_of(result).unlink(missing_ok=True)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
    if not reason:  # it ended by itself
        return child.returncode, output, result
    if stop is not None and stop.is_set():
        raise InterruptedError("the worker stops")
    return 2, f"{output}{reason}\n", result


def _wait(
    child: subprocess.Popen[bytes],
    lost: threading.Event,
    stop: threading.Event | None,
    timeout_s: float,
) -> str:
    """Wait until a command has ended, and return ""; or until it has to be killed, and return why.

    Args:
        child: the process of the command.
        lost: set when another worker holds the job.
        stop: set when this worker stops; None if it cannot.
        timeout_s: seconds that the command may take; 0 means any number.
    """
    end = time.monotonic() + (timeout_s or float("inf"))
    while child.poll() is None:
        if lost.wait(0.2) or (stop is not None and stop.is_set()):
            return "stopped"
        if time.monotonic() > end:
            return f"stopped after the {timeout_s:g} s that a job may take"
    return ""


def _with_defaults(command: Sequence[str]) -> list[str]:
    """Return a command with defaults for options that it does not have.

    EVALUATION_DEFAULT_SAMPLE_SIZE is the number of questions of a new test set, EVALUATION_DEFAULT_K the
    depth of an evaluation. A generated test set also gets --force.
    """
    options = {word.partition("=")[0] for word in command}  # "--k=5" -> "--k"
    n_questions = os.environ.get("EVALUATION_DEFAULT_SAMPLE_SIZE")
    depth = os.environ.get("EVALUATION_DEFAULT_K")
    added = []
    if command[:2] == ["testset", "generate"]:
        if n_questions and options.isdisjoint(("--questions", "--chunks")):
            added.append(f"--questions={n_questions}")
        if "--force" not in options:
            added.append("--force")  # it replaces the set of an earlier run
    elif command[:2] == ["testset", "draft"]:
        if n_questions and "--limit" not in options:
            added.append(f"--limit={n_questions}")
    elif command[0] == "eval" and depth and "--k" not in options:
        added.append(f"--k={depth}")
    return [*command, *added]


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a child and all processes that it started."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):  # the child leads a group: `start_new_session`
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
