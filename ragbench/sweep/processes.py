"""One process and one kernel per run: started, watched, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from ragbench.errors import FailureKind, printable
from ragbench.sweep import forks
from ragbench.sweep.forks import ForkedProcess, ForkServer, LostError, RefusedError
from ragbench.sweep.job import Job

START_TIMEOUT = 300
"""Seconds that a kernel may take to answer for the first time; many start at once on a busy machine."""

_GRACE = 60.0  # the worker reports a run that is too slow by itself; this is for a worker that hangs too
_MEMORY_PER_RUN = 1.5e9
_NO_HISTORY = "--HistoryManager.enabled=False"
_DEATHS = 3  # of fork servers in one sweep; then the reason is not to be forked away
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)


class Outcome(NamedTuple):
    """How a run ended: `error` is empty when it succeeded; `failure` is the kind of the request that made it fail.

    One that is `lost` went down with the process that it was forked from, through no fault of its own.
    """

    name: str
    seconds: float
    error: str
    failure: FailureKind | None = None
    lost: bool = False


@dataclass(frozen=True)
class Running:
    """A run at work; its process lives as long as the pipe to its standard input is open."""

    name: str
    process: subprocess.Popen[bytes] | ForkedProcess
    staging: Path
    started: float
    deadline: float


def available_cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max" means no quota
    return cores


def default_jobs() -> int:
    """As many runs as there are cores and 1.5 GB of free memory for each; at least one."""
    return max(1, min(available_cores(), int(_free_memory() // _MEMORY_PER_RUN)))


def _free_memory() -> float:
    free = float("inf")
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024.0 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:")))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        free = min(free, float((group / "memory.max").read_text()) - float((group / "memory.current").read_text()))
    return free


def threads_environment(jobs: int, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep `jobs` runs side by side from using more threads than there are cores.

    A smaller number that the user has set stays.

    >>> threads_environment(10_000, {})["OMP_NUM_THREADS"]
    '1'
    """
    share = max(1, available_cores() // jobs)
    own = {}
    for name in _THREADS:
        value = environment.get(name, "")
        own[name] = str(min(int(value), share) if value.isdigit() and int(value) > 0 else share)
    return own | {"TOKENIZERS_PARALLELISM": "true" if share > 1 else "false"}


class Executor(Protocol):
    """Where runs are at work, `side_by_side` at a time; how one ended is in its staging folder when `ended` tells."""

    @property
    def side_by_side(self) -> int: ...
    def start(self, job: Job) -> None: ...
    def ended(self) -> list[Outcome]: ...
    def stop(self) -> None: ...


class Launcher:
    """Starts the processes of runs, `side_by_side` of which share the cores.

    With `fork` they are forks of one process that has imported `modules` once, wherever that can be; where it cannot,
    `say` reports why.
    """

    def __init__(
        self, modules: Sequence[str], *, side_by_side: int, fork: bool = True, say: Callable[[str], None] = print
    ) -> None:
        self.say = say
        self._modules = modules
        self.side_by_side = side_by_side
        self._running: list[Running] = []
        self._server: ForkServer | None = None
        self._deaths = 0
        reason = forks.unavailable() if fork else ""
        self._fork = reason is None
        if reason:
            self._give_up(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def start(self, job: Job) -> None:
        """Start the process of one run."""
        limit = job.run_timeout
        (job.staging / "job.json").write_text(job.to_json(), encoding="utf-8")
        process = self._start(job)
        now = time.monotonic()
        deadline = now + limit + START_TIMEOUT + _GRACE if limit else float("inf")
        self._running.append(Running(job.name, process, job.staging, now, deadline))

    def ended(self) -> list[Outcome]:
        """How the runs ended that have ended since the last call."""
        ways = [(run, way) for run in self._running if (way := _ended(run))]
        self._running = [run for run in self._running if all(run is not one for one, _ in ways)]
        if any(way.lost for _, way in ways):
            self.replace_server()
        return [way for _, way in ways]

    def stop(self, *, wait_s: float = 10.0) -> None:
        """End the runs at work."""
        _stop(self._running, wait_s)
        self._running = []

    def _start(self, job: Job) -> subprocess.Popen[bytes] | ForkedProcess:
        while self._fork:
            try:
                return self._forked(job)
            except RefusedError as exc:
                self._give_up(str(exc))
            except LostError as exc:
                self.replace_server(str(exc))
        return self._spawned(job)

    def replace_server(self, reason: str = "") -> None:
        """Have another fork server for the next run where this one has died, unless too many have."""
        if self._server is None or not (self._server.has_died() or reason):
            return  # another run has reported it already
        cause = self._server.close() or reason
        self._server = None
        self._deaths += 1
        if self._deaths < _DEATHS:
            self.say(f"The process that runs are forked from has died ({cause}); another takes its place.")
        else:
            self._give_up(f"the process that they are forked from has died {self._deaths} times ({cause})")

    def _give_up(self, reason: str) -> None:
        self._fork = False
        self.say(f"Each run starts a Python of its own, which takes longer: {reason}.")

    def _forked(self, job: Job) -> ForkedProcess:
        if self._server is None:
            self._server = ForkServer(self._modules, self._environment())
        provisioner = {"provisioner_name": forks.PROVISIONER, "config": {"folder": str(self._server.folder)}}
        environment = self._environment(job, {"kernel_provisioner": provisioner})
        job_file = str(job.staging / "job.json")
        with (job.staging / "worker.log").open("wb") as log:
            return ForkedProcess(
                self._server.folder, "run", [job_file], environment, cwd=os.getcwd(), output=log.fileno()
            )

    def _spawned(self, job: Job) -> subprocess.Popen[bytes]:
        with (job.staging / "worker.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "ragbench.sweep.worker", str(job.staging / "job.json")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(job),
                start_new_session=True,  # Ctrl-C is for the sweep, which then stops its runs in order
            )

    def _environment(self, job: Job | None = None, metadata: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The variables of a run's process, and a kernel.json that it finds by them; without a job, of the server."""
        own = {
            **threads_environment(self.side_by_side, os.environ),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "TQDM_DISABLE": "1",  # bars would stay in the notebook of a run
        }
        if job is None:
            return {**os.environ, **own}
        # The first kernel that Jupyter finds by name may belong to another Python. This one is found before all others.
        spec = job.staging / "jupyter" / "kernels" / "python3"
        spec.mkdir(parents=True, exist_ok=True)
        # Runs side by side would wait for each other's turn at the history of what users type.
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", _NO_HISTORY]
        kernel = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps({**kernel, "metadata": metadata or {}}), encoding="utf-8")
        jupyter_path = os.pathsep.join(filter(None, [str(job.staging / "jupyter"), os.environ.get("JUPYTER_PATH")]))
        return {**os.environ, **job.environment, **own, "JUPYTER_PATH": jupyter_path}


def _ended(run: Running) -> Outcome | None:
    """How the run ended, or None while it is at work. A process past its deadline is killed here."""
    seconds = time.monotonic() - run.started
    if run.process.poll() is None:
        if time.monotonic() < run.deadline:
            return None
        _stop([run])
        return Outcome(
            run.name, seconds, f"the run did not end within its run_timeout and was killed ({seconds:.0f} s)"
        )
    _close(run.process)
    lost = getattr(run.process, "lost", False)
    try:
        outcome = json.loads((run.staging / "outcome.json").read_text(encoding="utf-8"))
        failure = outcome["failure"] and FailureKind(outcome["failure"])
        return Outcome(run.name, seconds, outcome["error"], failure, lost=lost and bool(outcome["error"]))
    except (OSError, ValueError, KeyError):
        return Outcome(run.name, seconds, _how_it_died(run), lost=lost)


def _how_it_died(run: Running) -> str:
    code = run.process.wait()
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the process of the run was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    log = (run.staging / "worker.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"the process of the run ended with status {code}: {printable(log[-1]) if log else 'it printed nothing'}"


def _stop(runs: Sequence[Running], wait_s: float = 10.0) -> None:
    """End runs with their kernels: a worker whose standard input is closed kills its kernel and exits."""
    for run in runs:
        _close(run.process)
    until = time.monotonic() + wait_s
    for run in runs:
        try:
            run.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            run.process.kill()  # its kernel sees that its parent is gone and ends within seconds
            run.process.wait()


def _close(process: subprocess.Popen[bytes] | ForkedProcess) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
