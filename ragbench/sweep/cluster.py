"""Runs on the workers of a Dask cluster: the executor of `ragbench sweep --executor
dask://host:8786`.
"""

from __future__ import annotations

import ipaddress
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.metadata import version
from multiprocessing import current_process
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from ragbench.errors import ConfigError, SweepError, require
from ragbench.sweep import remote
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Outcome, available_cores

_CONNECT_S = 30


class DaskExecutor:
    """An executor of packed jobs at "dask://host:port", "tls://host:port" or
    "dask://local?workers=4".

    The workers return what a run leaves, and only this process writes to the sweep's folder. A run
    whose worker is lost is run by another; one that fails is not tried again. What came back is
    kept and forgotten by the cluster at once, because Dask would compute it again when the worker
    that holds it dies.

    Raises:
        ConfigError: the address is wrong, nothing answers there, or the connection would not be
        encrypted. SweepError: a worker has another version of ragbench.
    """

    def __init__(
        self,
        address: str,
        packer: remote.Packer,
        side_by_side: int | None,
        say: Callable[[str], None],
    ) -> None:
        self._packer = packer
        self._wanted, self._say = side_by_side, say
        self._running: dict[str, tuple[Any, Job, float]] = {}
        self._cluster, self._client = _connected(address)
        self._address = address
        self._data: Any = None
        try:
            self._wait()
            known = self._client.run(
                version, "ragbench-lab", on_error="return"
            )  # needs no ragbench there
            for worker, theirs in known.items():
                remote.check_versions(
                    {"ragbench": remote.versions()["ragbench"]}, {"ragbench": str(theirs)}, worker
                )
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
        """What is asked for, or as many as the workers have threads now."""
        with self._reached():
            return self._wanted or max(1, sum(self._client.ncores().values()))

    def start(self, job: Job) -> None:
        """Send a run to the cluster."""
        (job.staging / "job.json").write_text(job.to_json(), encoding="utf-8")
        with self._reached():
            if self._client.status != "running":
                raise ConnectionError("the scheduler is gone")
            if (
                self._data is None or self._data.status != "finished"
            ):  # the workers that had it are lost
                self._wait()
                self._data = self._client.scatter(self._packer.inputs, broadcast=True)
            task, key = self._packer.packed(job), f"ragbench-{job.name}-{uuid.uuid4().hex}"
            future = self._client.submit(_run, task, self._data, key=key, retries=0)
        self._running[job.name] = future, job, time.monotonic()

    def ended(self) -> list[Outcome]:
        """How the runs ended that have ended since the last call."""
        outcomes = []
        for name, (future, job, began) in list(self._running.items()):
            if future.done() and (outcome := self._outcome(future, job, time.monotonic() - began)):
                outcomes.append(outcome)
                del self._running[name]
                future.release()
        return outcomes

    def stop(self) -> None:
        """Cancel the runs at work; each worker then ends its own."""
        if self._running and self._client.status == "running":
            self._client.cancel([future for future, _, _ in self._running.values()], force=True)
        self._running = {}

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise SweepError(
                f"{self._address} is lost ({exc}); the same command continues with what is left"
            ) from exc

    def _wait(self) -> None:
        """Wait for a worker; clusters that grow with their tasks have none before the first."""
        if not self._client.ncores():
            self._say(f"No worker is connected to {self._address}; the runs wait for one.")
            require("distributed", "dask").wait(
                self._client.submit(version, "ragbench-lab", pure=False)
            )

    def _outcome(self, future: Any, job: Job, seconds: float) -> Outcome | None:
        from distributed import KilledWorker

        if future.status == "finished":
            try:
                came = future.result(timeout=_CONNECT_S)
            except (
                OSError,
                CancelledError,
            ):  # its worker died with it, and another computes it again
                return None
            try:
                return remote.unpack(came, job, seconds)
            except SweepError as unfit:
                return Outcome(job.name, seconds, str(unfit))
        if future.status == "error":
            exc = future.exception()
            if isinstance(exc, KilledWorker):
                return Outcome(
                    job.name,
                    seconds,
                    "its workers died again and again while they ran it (out of memory?)",
                )
            return Outcome(
                job.name, seconds, f"the worker could not run it: {type(exc).__name__}: {exc}"
            )
        return Outcome(
            job.name,
            seconds,
            f"it was lost again and again by the cluster at {self._address}",
            lost=True,
        )


def _run(task: Mapping[str, Any], inputs: bytes) -> dict[str, Any]:
    """On the worker: execute a task until it is cancelled there, which is so too when the sweep is
    gone.
    """
    from distributed import get_worker

    worker: Any = get_worker()
    current_process().daemon = (
        False  # as Dask's nannies start workers; such a process may not start others
    )
    key = worker.get_current_task()

    def is_executing() -> bool:
        state = worker.state.tasks.get(key)
        return state is not None and state.state == "executing"

    return remote.execute(task, inputs, side_by_side=worker.state.nthreads, is_needed=is_executing)


def _connected(address: str) -> tuple[Any, Any]:
    """A cluster of our own, or None; and a client."""
    distributed: Any = require("distributed", "dask")
    import dask

    url = urlsplit(address)
    wrong = (
        f"executor is {address!r}; expected dask://host:8786, tls://host:8786 or "
        "dask://local?workers=4"
    )
    try:
        port, workers = (
            url.port,
            parse_qs(url.query, strict_parsing=bool(url.query)).get("workers", [""])[0],
        )
    except ValueError as exc:
        raise ConfigError(wrong) from exc
    if url.scheme == "dask" and url.hostname == "local" and port is None:
        if workers and not (workers.isdecimal() and int(workers)):
            raise ConfigError(wrong)
        # Each run has a process anyway, so that the workers are threads of this one and share what
        # its runs fork from.
        cluster = distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=int(workers) if workers else available_cores(),
            processes=False,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        )
        return cluster, distributed.Client(cluster)
    if (
        url.scheme not in ("dask", "tls")
        or not url.hostname
        or port is None
        or url.username
        or url.query
    ):
        raise ConfigError(wrong)
    encrypted = url.scheme == "tls" or bool(dask.config.get("distributed.comm.tls.ca-file", None))
    if not encrypted and not _is_here(url.hostname):
        raise ConfigError(
            f"{address} is another machine and the connection would not be encrypted; give "
            f"scheduler and workers certificates and use tls://{url.hostname}:{port} (Dask reads "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and ..._TLS__CLIENT__CERT and ..._KEY), or "
            "reach it through `ssh -L 8786:...` as dask://127.0.0.1:8786"
        )
    try:
        place = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        return None, distributed.Client(
            f"{'tls' if encrypted else 'tcp'}://{place}:{port}", timeout=_CONNECT_S
        )
    except (OSError, TypeError, ValueError) as exc:
        raise ConfigError(f"no Dask scheduler can be used at {address}: {exc}") from exc


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
