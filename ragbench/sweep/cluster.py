"""Runs on the workers of a Dask cluster, the executor of `ragbench sweep --executor
dask://host:8786`: when one is lost with its worker.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing import current_process
from typing import Any, NamedTuple, Self

from ragbench.errors import ConfigError, SweepError, require
from ragbench.network import is_loopback
from ragbench.sweep import remote
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Outcome, available_cores

_CONNECT_S = 30
_ADDRESS = re.compile(
    r"dask://local(?:\?workers=([1-9]\d*))?|(dask|tls)://(\[[\da-fA-F:.]+\]|[\w.-]+):(\d{1,5})"
)


class DaskExecutor:
    """An executor of packed jobs at "dask://host:port", "tls://host:port" or
    "dask://local?workers=4".

    The workers return the files of a run, and only this process writes to the sweep's folder. A run
    whose worker is lost is run by another; one that fails is not tried again. What came back is
    kept and forgotten by the cluster at once, because Dask would compute it again when the worker
    that holds it dies.

    Raises:
        ConfigError: the address is wrong, nothing answers there, or the connection would not be
            encrypted.
        SweepError: a worker has another version of ragbench.
    """

    def __init__(
        self,
        address: str,
        packer: remote.Packer,
        side_by_side: int | None,
        log: Callable[[str], None],
    ) -> None:
        """Connect to the cluster at an address, wait for a worker, and check the version of ragbench on
        each.

        Args:
            address: such as "dask://host:8786", "tls://host:8786" or "dask://local?workers=4".
            packer: makes the tasks that are sent.
            side_by_side: how many runs at once; None means as many as the workers have threads.
            log: shows a message to the user.
        """
        self._packer = packer
        self._side_by_side = side_by_side
        self._log = log
        self._running: dict[str, _RunAtWork] = {}
        self._cluster, self._client = _connect(address)
        self._address = address
        self._inputs_on_workers: Any = None  # a future, once the input files are sent
        try:
            self._wait_for_worker()
            own_version = {"ragbench": remote.versions()["ragbench"]}
            # `importlib.metadata.version` runs on workers without ragbench, too
            versions = self._client.run(version, "ragbench-lab", on_error="return")
            for worker, installed in versions.items():
                remote.check_versions(own_version, {"ragbench": str(installed)}, worker)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    @property
    def side_by_side(self) -> int:
        """Return the number of jobs that is asked for, or as many as the workers have threads now."""
        with self._lost_scheduler_reported():
            return self._side_by_side or max(1, sum(self._client.ncores().values()))

    def start(self, job: Job) -> None:
        """Send a run to the cluster, with the input files if the workers do not have them.

        Raises:
            SweepError: the scheduler is lost.
        """
        (job.staging / "job.json").write_text(job.to_json(), encoding="utf-8")
        with self._lost_scheduler_reported():
            if self._client.status != "running":
                raise ConnectionError("the scheduler is gone")
            # None before the first run; not "finished" if the workers that had them are lost
            has_inputs = getattr(self._inputs_on_workers, "status", "") == "finished"
            if not has_inputs:
                self._wait_for_worker()
                inputs = self._packer.inputs
                self._inputs_on_workers = self._client.scatter(inputs, broadcast=True)
            task = self._packer.packed(job)
            key = f"ragbench-{job.name}-{uuid.uuid4().hex}"
            future = self._client.submit(
                _run_on_worker, task, self._inputs_on_workers, key=key, retries=0
            )
        self._running[job.name] = _RunAtWork(future, job, time.monotonic())

    def ended(self) -> list[Outcome]:
        """Return the outcome of each run that has ended since the last call; [] if none has."""
        outcomes = []
        for run in list(self._running.values()):
            if not run.future.done():
                continue
            outcome = self._outcome(run)
            if outcome is not None:  # else another worker runs it again
                outcomes.append(outcome)
                del self._running[run.job.name]
                run.future.release()
        return outcomes

    def stop(self) -> None:
        """Cancel the runs at work; each worker then ends its own."""
        if self._running and self._client.status == "running":
            self._client.cancel([run.future for run in self._running.values()], force=True)
        self._running = {}

    @contextmanager
    def _lost_scheduler_reported(self) -> Iterator[None]:
        """Raise SweepError if the scheduler is lost during the block."""
        try:
            yield
        except OSError as exc:
            raise SweepError(
                f"{self._address} is lost ({exc}); the same command continues with the other runs"
            ) from exc

    def _wait_for_worker(self) -> None:
        """Wait until the cluster has a worker. One that grows with its tasks has none before the first,
        so a trivial task is submitted.
        """
        if not self._client.ncores():
            self._log(f"No worker is connected to {self._address}; the runs wait for one.")
            trivial_task = self._client.submit(version, "ragbench-lab", pure=False)
            require("distributed", "dask").wait(trivial_task)

    def _outcome(self, run: "_RunAtWork") -> Outcome | None:
        """Return how a run ended. Its future (Dask's handle of its result) must be done.

        None if its worker died before the result came back: Dask runs it again on another worker. An
        outcome that is `lost` makes the sweep begin the run again, a few times.
        """
        from distributed import KilledWorker

        name = run.job.name
        seconds = time.monotonic() - run.began
        if run.future.status == "finished":
            try:
                return remote.unpack(run.future.result(timeout=_CONNECT_S), run.job, seconds)
            except SweepError as exc:
                return Outcome(name, seconds, str(exc), lost=False)
            except (OSError, CancelledError):  # the result was lost with its worker
                return None
        if run.future.status == "error":
            cause = run.future.exception()
            error = f"the worker could not run it: {type(cause).__name__}: {cause}"
            if isinstance(cause, KilledWorker):
                error = "its workers died again and again while they ran it (out of memory?)"
            return Outcome(name, seconds, error, lost=False)
        # "lost" or "cancelled": the scheduler has forgotten it. The error is shown after the last time.
        error = f"it was lost again and again by the cluster at {self._address}"
        return Outcome(name, seconds, error, lost=True)


class _RunAtWork(NamedTuple):
    """A run on the cluster: Dask's future of it, its job, and when it began (`time.monotonic`)."""

    future: Any
    job: Job
    began: float


def _run_on_worker(task: Mapping[str, Any], inputs: bytes) -> dict[str, Any]:
    """Execute a run on a worker of Dask, and return its result. It is stopped once Dask no longer wants
    it there: the sweep has cancelled it, or its process is gone.

    Args:
        task: the run, as `Packer.packed` makes it.
        inputs: the input files of the sweep, as one archive.
    """
    from distributed import get_worker

    worker: Any = get_worker()
    # Dask's nannies start workers as daemons, which may not start other processes
    current_process().daemon = False
    key = worker.get_current_task()

    def is_executing() -> bool:
        state = worker.state.tasks.get(key)
        return state is not None and state.state == "executing"

    return remote.execute(task, inputs, side_by_side=worker.state.nthreads, is_needed=is_executing)


def _connect(address: str) -> tuple[Any, Any]:
    """Return (cluster, client) of Dask. The cluster is one that is started here for "dask://local"; it is
    None if the address belongs to a scheduler, which is at work already.

    Raises:
        ConfigError: the address has another form, the connection would not be encrypted, or there is
            no scheduler.
    """
    distributed: Any = require("distributed", "dask")
    import dask

    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError(
            f"executor is {address!r}; expected dask://host:8786, tls://host:8786 or "
            "dask://local?workers=4"
        )
    workers, scheme, host, port = match.groups()  # texts, or None for a part that is not there
    is_local = scheme is None  # "dask://local" matches without one
    if is_local:
        cluster = _start_local_cluster(int(workers or available_cores()))
        return cluster, distributed.Client(cluster)
    encrypted = scheme == "tls" or bool(dask.config.get("distributed.comm.tls.ca-file", None))
    if not encrypted and not is_loopback(host):
        raise ConfigError(
            f"{address} is another machine and the connection would not be encrypted; give "
            f"scheduler and workers certificates and use tls://{host}:{port} (Dask reads "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and ..._TLS__CLIENT__CERT and ..._KEY), or "
            "reach it through `ssh -L 8786:...` as dask://127.0.0.1:8786"
        )
    try:
        url = f"{'tls' if encrypted else 'tcp'}://{host}:{port}"
        return None, distributed.Client(url, timeout=_CONNECT_S)
    except (OSError, TypeError, ValueError) as exc:
        raise ConfigError(f"no Dask scheduler can be used at {address}: {exc}") from exc


def _start_local_cluster(n_threads: int) -> Any:
    """Start a cluster of Dask in this process, which runs `n_threads` jobs at once.

    Its workers are threads, not processes: each run gets a process of its own anyway, and is forked from
    this one, with all loaded modules.
    """
    distributed: Any = require("distributed", "dask")
    return distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=n_threads,
        processes=False,
        dashboard_address=None,
        silence_logs=logging.ERROR,
    )
