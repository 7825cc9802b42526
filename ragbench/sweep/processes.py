"""One process per run on this machine: how many fit side by side by cores and memory, how each is
started and stopped, and why one died; `runs` starts it again.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from ragbench.errors import FailureKind, SweepError, printable
from ragbench.sweep import preload
from ragbench.sweep.job import Job
from ragbench.sweep.worker import tidy

# Seconds: a run that is too slow reports so by itself; this is for code that lets no thread do so.
_GRACE = 60.0
_MEMORY_PER_RUN = 1.5e9
_SERVER_DIED = 255  # what multiprocessing reports of a process whose end no one has seen
_THREADS = (
    "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS "
    "VECLIB_MAXIMUM_THREADS RAYON_NUM_THREADS"
).split()

_hiding_lock = threading.Lock()  # only one thread at a time replaces "__main__"


class Outcome(NamedTuple):
    """How a run ended: `error` is empty when it succeeded; `failure` is the kind of the request
    that made it fail.

    One that is `lost` went down with the process or the machine that it depends on: that says
    nothing about the run itself.
    """

    name: str
    seconds: float
    error: str
    failure: FailureKind | None = None
    lost: bool = False


@dataclass(frozen=True)
class _Running:
    """A run that is going on.

    Attributes:
        job: its notebook and files.
        process: in which it runs.
        outcome: the pipe by which it reports its end, as (error, kind of failure).
        started: when, by `time.monotonic`.
        deadline: when it is killed; infinity without a time limit.
    """

    job: Job
    process: BaseProcess
    outcome: Connection[Any, Any]
    started: float
    deadline: float


def available_cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    It may use the cores of its affinity (all cores, if the system knows no affinity), but not more
    than the quota of its container allows.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        # a quota of "max" means no quota, and is a ValueError here
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def default_jobs() -> int:
    """Return how many runs have a core and 1.5 GB of free memory each; at least one."""
    return max(1, min(available_cores(), int(_free_memory() // _MEMORY_PER_RUN)))


def _free_memory() -> float:
    """Return the bytes of memory that are free on this machine and in its container; infinity where
    the system does not tell.
    """
    free = float("inf")
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                kilobytes = int(line.split()[1])
                free = 1024.0 * kilobytes
                break
    with suppress(OSError, ValueError):  # no container, or one without a limit
        group = Path("/sys/fs/cgroup")
        limit = float((group / "memory.max").read_text())
        used = float((group / "memory.current").read_text())
        free = min(free, limit - used)
    return free


def threads_of(jobs: int, environment: Mapping[str, str]) -> int:
    """Return how many threads each of `jobs` runs side by side may use: the cores divided by the
    jobs, at least 1, and no more than a variable such as OMP_NUM_THREADS allows.

    >>> threads_of(1, {"OMP_NUM_THREADS": "1"}), threads_of(10_000, {})
    (1, 1)
    """
    n_threads = max(1, available_cores() // jobs)
    for name in _THREADS:
        value = environment.get(name, "")
        if value.isdigit() and int(value) > 0:
            n_threads = min(n_threads, int(value))
    return n_threads


class Executor(Protocol):
    """Where runs are at work, `side_by_side` at a time; how one ended is in its staging folder when
    `ended` tells.
    """

    @property
    def side_by_side(self) -> int: ...
    def start(self, job: Job) -> None: ...
    def ended(self) -> list[Outcome]: ...
    def stop(self) -> None: ...


class LocalExecutor:
    """Runs on this machine: a process each, `side_by_side` of which share the cores.

    With `fork` they are forks of a process that has imported what runs use, and `packages` (Linux);
    this process keeps it for later runs. If it cannot start, `log` reports why.
    """

    def __init__(
        self,
        packages: Sequence[str],
        *,
        side_by_side: int,
        fork: bool = True,
        log: Callable[[str], None] = print,
    ) -> None:
        """Choose how processes start: as forks of a prepared process, or each as a new Python.

        Args:
            packages: modules that the prepared process imports.
            side_by_side: how many runs are at work at a time.
            fork: False starts a new Python for each run, as do systems other than Linux.
            log: shows a message to the user.
        """
        self.side_by_side = side_by_side
        self._log = log
        self._running: list[_Running] = []
        self._context: BaseContext = multiprocessing.get_context("spawn")
        if fork and sys.platform == "linux":
            self._context = multiprocessing.get_context("forkserver")
            self._context.set_forkserver_preload([preload.__name__, *packages])
            _reap_at_exit()  # the prepared process ends with this one

    def start(self, job: Job) -> None:
        """Start the process of one run.

        If the process that runs are forked from has died, it is started anew for the second try; the
        third starts a new Python instead, as do all later runs.

        Raises:
            SweepError: none of three tries starts a process.
        """
        job.input.write_text(job.text, encoding="utf-8")
        (job.staging / "job.json").write_text(job.to_json(), encoding="utf-8")
        (job.staging / "worker.log").touch()
        for attempt in (1, 2, 3):
            try:
                self._running.append(self._start_process(job))
                return
            except (OSError, EOFError) as exc:
                if attempt == 3:
                    raise SweepError(f"no process can be started: {exc}") from exc
                is_forking = self._context.get_start_method() == "forkserver"
                if attempt == 2 and is_forking:
                    self._context = multiprocessing.get_context("spawn")
                    self._log(
                        f"Each run starts a new Python process, which takes "
                        f"longer: {type(exc).__name__}: {exc}."
                    )

    def ended(self) -> list[Outcome]:
        """Return the outcome of each run that has ended since the last call; [] if none has.

        A run that exceeds its time limit is ended here: its process is killed.
        """
        outcomes = []
        for run in list(self._running):
            outcome = _outcome_of(run)
            if outcome is None:  # it is at work
                continue
            # Its process is ended in any case: a run that took too long is still at work, and any may
            # leave processes that it started.
            _kill(run.process)
            self._running.remove(run)
            if outcome.error:
                # `tidy` writes the notebook, marked as failed: a run that was killed could not do
                # so. On a full disk the notebook of a failed run is missing, but never half written.
                with suppress(OSError):
                    tidy(run.job, outcome.error)
            outcomes.append(outcome)
        return outcomes

    def stop(self) -> None:
        """End the runs at work."""
        for run in self._running:
            _kill(run.process)
        self._running = []

    def _start_process(self, job: Job) -> _Running:
        """Start the process of a run, which may use its part of the cores, and return its handle."""
        receiver, sender = self._context.Pipe(duplex=False)  # the run sends, this process receives
        threads = threads_of(self.side_by_side, os.environ)
        # the job's variables replace this process's; the number of threads is set in any case
        environment = {**os.environ, **job.environment}
        environment |= dict.fromkeys(_THREADS, str(threads))
        if prices := environment.get("RAGBENCH_PRICES"):
            environment["RAGBENCH_PRICES"] = str(Path(prices).absolute())  # the run is elsewhere
        environment["RAGBENCH_PROGRESS"] = str(job.progress)
        process = self._context.Process(  # type: ignore[attr-defined]
            target=preload.begin, args=(job.to_json(), environment, threads, sender)
        )
        # This process closes its copy of the sender after the start. The new process must not run the
        # user's script again.
        with sender, _script_hidden():
            process.start()
        now = time.monotonic()
        deadline = float("inf")
        if job.run_timeout:
            deadline = now + job.run_timeout + _GRACE
        return _Running(job, process, receiver, now, deadline)


@cache
def _reap_at_exit() -> None:
    """Make this process wait at its end for the process that runs are forked from.

    Then `time` and the accounting of a machine include the runs.
    """
    # ends the process and waits for it; it is private, so it may be missing
    stop = getattr(forkserver._forkserver, "_stop", None)
    owner = os.getpid()

    def reap() -> None:
        # a fork of this process inherits `reap`, and must not stop the server
        if stop is not None and os.getpid() == owner:
            with suppress(OSError):
                stop()

    atexit.register(reap)


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Replace the module "__main__" by an empty one during the block.

    multiprocessing imports the module "__main__" in each process that it starts, which would run
    the user's script again.
    """
    with _hiding_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


def _outcome_of(run: _Running) -> Outcome | None:
    """Return how a run ended, None while it is at work.

    A run ends by the message that it sends, by the death of its process, or because it takes longer
    than its limit.
    """
    seconds = time.monotonic() - run.started
    # This is looked up before the message, because a process may send its message and end in
    # between: the other way round it would seem to have died without a message.
    has_ended = run.process.exitcode is not None
    try:
        if run.outcome.poll():
            error, failure = run.outcome.recv()
            return Outcome(run.job.name, seconds, error, failure)
    except (OSError, EOFError):  # the process died without a message
        pass
    if has_ended:
        is_lost = run.process.exitcode == _SERVER_DIED
        return Outcome(run.job.name, seconds, _how_it_died(run), lost=is_lost)
    if time.monotonic() > run.deadline:
        error = f"the run did not end within its run_timeout and was killed ({seconds:.0f} s)"
        return Outcome(run.job.name, seconds, error)
    return None


def _how_it_died(run: _Running) -> str:
    """Return why the process of a run ended without a message: a signal, or its exit status with the
    last line that it printed.
    """
    code = run.process.exitcode
    if code is not None and code < 0:  # minus the number of the signal
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        return f"the process of the run was killed by {name}{hint}"
    log_path = run.job.staging / "worker.log"
    log = log_path.read_text(encoding="utf-8", errors="replace")
    lines = log.strip().splitlines()
    last_words = printable(lines[-1]) if lines else "it printed nothing"
    return f"the process of the run ended with status {code}: {last_words}"


def _kill(process: BaseProcess) -> None:
    """End the process of a run and all that it has started."""
    if hasattr(os, "killpg") and process.pid is not None:
        # A run leads a group of processes, with all that it starts. An error: it leads none yet, or
        # nothing is left of the group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()
    process.close()
