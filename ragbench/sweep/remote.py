"""A run on another machine: its job as plain data, its execution in a temporary folder there, and
its files on their way back.

The client packs a job with paths below one folder; the worker has the same tree below a temporary
folder, so that the notebook and its result are the same as of a run on the client's machine.
Nothing here knows what carries the data.
"""

import io
import os
import platform
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from ragbench.errors import ConfigError, RagbenchError, SweepError
from ragbench.evaluation import own_version
from ragbench.evaluation.folder import JOURNAL
from ragbench.files import expanded, write_durably
from ragbench.store import database
from ragbench.store.contract import StoreError
from ragbench.sweep.grid import load_named
from ragbench.sweep.job import Job
from ragbench.sweep.notebooks import is_path, parts_of
from ragbench.sweep.processes import LocalExecutor, Outcome
from ragbench.systems.named_systems import system_digest

_MOST_INPUT, _MOST_OUTPUT = 2**30, 2**28  # bytes
_SECRET = re.compile(r"://[^/\s\"'@\\]+@")
_MIN_SECRET = 8  # characters; a shorter value may be in a job by chance
_SECRET_NAME = re.compile(r"KEY$|TOKEN$|SECRET$|PASSWORD$|^RAGBENCH_DATABASE$")


class Packer:
    """Jobs of one sweep as plain data; `inputs` is a zip of the files and folders that their
    parameters name.

    A file that a parameter names by a path relative to the grid's folder is sent along; a file with
    an absolute path must exist on each worker. A module next to the grid that a parameter names as
    "module:attribute" travels too. `store` is the identity of the database in which the workers
    keep replies and spending, "" where each may keep its own. Each worker imports `packages` once.

    Raises:
        ConfigError: the inputs are larger than 1 GiB, or a job holds a key or a URL with
            credentials.
    """

    def __init__(self, jobs: Iterable[Job], store: str = "", packages: Sequence[str] = ()) -> None:
        """Zip the input files of all jobs, and check that no job holds a secret.

        Args:
            jobs: the jobs of one sweep, at least one.
            store: the identity of the database that the workers must share with this process; ""
                if they need none.
            packages: the modules that each worker imports once, before its runs.

        Raises:
            ConfigError: the inputs are larger than 1 GiB, or a job holds a secret.
        """
        self._store = store
        self._packages = list(packages)
        jobs = list(jobs)
        inputs: set[Path] = set()
        folders: set[Path] = set()
        for job in jobs:
            inputs.update(_input_paths(job))
            folders.update((job.staging, job.cwd, job.started_in))
        # the deepest folder that holds all of them; paths are sent relative to it
        self._base = Path(os.path.commonpath([*folders, *inputs]))
        for job in jobs:
            _check_secrets(job.name, self._moved(job), job.text)
        sweep_folder = jobs[0].staging.parent
        self.inputs = _zipped(inputs, self._base, without=sweep_folder)

    def packed(self, job: Job) -> dict[str, Any]:
        """Return a job as the argument `task` of `execute`, which can be sent to a worker. It has the
        journal (the answers of an interrupted run), or None if there is none.
        """
        journal = job.results / JOURNAL
        return {
            "job": self._moved(job),
            "journal": journal.read_bytes() if journal.is_file() else None,
            "versions": versions(),
            "store": self._store,
            "packages": self._packages,
        }

    def _moved(self, job: Job) -> str:
        """Return a job as JSON, its folders relative to the folder that holds all of them."""
        relative_paths = {name: getattr(job, name).relative_to(self._base) for name in Job.PATHS}
        return replace(job, **relative_paths).to_json()


def versions() -> dict[str, str]:
    """Return what must be the same on a worker."""
    return {"ragbench": own_version(), "python": ".".join(platform.python_version_tuple()[:2])}


def execute(
    task: Mapping[str, Any], inputs: bytes, *, side_by_side: int, is_needed: Callable[[], bool]
) -> dict[str, Any]:
    """Run a packed job on this worker until it ends, or is no longer needed.

    Args:
        task: the job, as `Packer.packed` returns it.
        inputs: the zip file of the input files.
        side_by_side: how many runs share the cores of this worker.
        is_needed: called again and again; False stops the run.

    Returns:
        "error" ("" if the run succeeded), "failure" (the kind of a failed request, or None), and "files"
        (path below the staging folder -> content).
    """
    with tempfile.TemporaryDirectory(prefix="ragbench-task-", ignore_cleanup_errors=True) as folder:
        try:
            job = _unpacked(task, inputs, Path(folder).resolve())
        except (RagbenchError, StoreError) as exc:
            return {"error": str(exc), "failure": None, "files": {}}
        executor = LocalExecutor(task["packages"], side_by_side=side_by_side)
        try:
            executor.start(job)
            ended = executor.ended()
            while not ended and is_needed():
                time.sleep(0.05)
                ended = executor.ended()
        finally:
            executor.stop()
        if not ended:
            return {"error": "stopped", "failure": None, "files": {}}
        [outcome] = ended
        files = _files_of_run(job)
        size = sum(map(len, files.values()))
        if size > _MOST_OUTPUT:
            error = (
                f"the result has {size:,} bytes; expected {_MOST_OUTPUT:,} at most from a worker"
            )
            return {"error": error, "failure": outcome.failure, "files": {}}
        return {"error": outcome.error, "failure": outcome.failure, "files": files}


def _unpacked(task: Mapping[str, Any], inputs: bytes, root: Path) -> Job:
    """Return the job of a task, with its folders, its input files and the answers of an interrupted run
    below `root`, where this creates them.

    Raises:
        SweepError: this worker has another version, database, system or dataset than the sweep.
    """
    worker = f"the worker on {platform.node()}"
    check_versions(task["versions"], versions(), worker)
    if task["store"] and task["store"] != database.identity():
        raise SweepError(
            f"{worker} has another RAGBENCH_DATABASE than this "
            "sweep, or none; set the same there, so that no request is paid for twice"
        )
    job = Job.from_json(task["job"])
    job = replace(job, **{name: root / getattr(job, name) for name in Job.PATHS})
    for path in (job.staging, job.cwd, job.started_in):
        path.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(inputs)) as file:
        file.extractall(root)
    if task["journal"] is not None:  # the answers of an interrupted run, which continues here
        job.results.mkdir()
        (job.results / JOURNAL).write_bytes(task["journal"])
    _check_source(job)
    return job


def _files_of_run(job: Job) -> dict[str, bytes]:
    """Return path below the staging folder -> content, for the executed notebook and the files of the
    result, as far as there are any.
    """
    files: dict[str, bytes] = {}
    for path in (job.output, *sorted(job.results.rglob("*"))):
        if path.is_file():
            files[path.relative_to(job.staging).as_posix()] = path.read_bytes()
    return files


def unpack(reply: Mapping[str, Any], job: Job, seconds: float) -> Outcome:
    """Write the files that a worker returned to the staging folder of a job, and return how the run
    ended. `reply` is what `execute` returned on the worker.

    Raises:
        SweepError: a file is neither the notebook of the job nor in the folder of its result.
    """
    for name, content in reply["files"].items():
        path = PurePosixPath(name)
        leads_elsewhere = path.is_absolute() or ".." in path.parts
        if leads_elsewhere or path.parts[0] not in (job.output.name, job.name):
            raise SweepError(f"a worker returned a file {name!r}, which is not part of a result")
        write_durably(job.staging / path, content)
    return Outcome(job.name, seconds, reply["error"], reply["failure"])


def check_versions(ours: Mapping[str, str], theirs: Mapping[str, str], who: str) -> None:
    """Refuse a worker with other versions than the client's.

    >>> check_versions({"ragbench": "0.2.0"}, {"ragbench": "0.1.0"}, "the worker on a")
    Traceback (most recent call last):
    ragbench.errors.SweepError: the worker on a has ragbench 0.1.0 and this sweep has 0.2.0; install the same there
    """
    for name, version in ours.items():
        if theirs.get(name) != version:
            raise SweepError(
                f"{who} has {name} {theirs.get(name)} and this sweep has {version}; install the "
                "same there"
            )


def _check_source(job: Job) -> None:
    """Refuse a system or a dataset on this worker that differs from the sweep's.

    Raises:
        SweepError: it differs.
    """
    source = job.source or {}
    system = str(job.parameters.get("system", ""))
    if system and system_digest(system, job.cwd) != source.get("system_sha256"):
        raise SweepError(
            f"the system {system!r} on the worker {platform.node()} is not the one of this sweep"
        )
    if "dataset" in job.parameters:
        fingerprint = load_named(job.parameters, job.cwd).fingerprint
        if fingerprint != source["dataset_fingerprint"]:
            raise SweepError(
                f"the data set {job.parameters['dataset']!r} on the worker {platform.node()} is "
                f"not the data set of this sweep (fingerprint {fingerprint[:12]}, "
                f"not {source['dataset_fingerprint'][:12]}); give each the same data"
            )


def _check_secrets(name: str, job: str, notebook: str) -> None:
    """Refuse to send a job or notebook that holds the value of a secret variable, or a URL with
    credentials.
    """
    for variable, value in os.environ.items():
        is_secret = bool(_SECRET_NAME.search(variable)) and len(value) >= _MIN_SECRET
        if is_secret and value in job + notebook:
            raise ConfigError(
                f"{name} holds the value of {variable}, which would be sent to workers; let each worker read "
                "the variable"
            )
    if _SECRET.search(job):
        raise ConfigError(
            f"a parameter of {name} is a URL with credentials, which would be sent to workers; use a variable"
        )


def _input_paths(job: Job) -> list[Path]:
    """Return the files and folders next to the grid that the parameters of a job name."""
    paths: list[str] = []
    for name, value in job.configuration.items():
        if isinstance(value, str):
            for part in parts_of(value, name):
                paths += _paths_named_by(part.strip(), name, job.cwd)
    return [Path(os.path.normpath(job.cwd / path)) for path in paths]


def _paths_named_by(text: str, name: str, cwd: Path) -> list[str]:
    """Return the files and folders in `cwd` that a value of a parameter names, as relative paths; [] if it
    names none.

    "models/mine" and "dense:models/mine" name the path models/mine, if it is there. Otherwise
    "module:attribute" and "dense:module:attribute" name the file module.py, and
    "package.module:attribute" the folder of the package.

    Args:
        text: the value, or one of several in it.
        name: the parameter; the values of `dataset` and `corpus` may be paths without a slash.
        cwd: the folder in which the run works.
    """
    before_colon, _, path = text.rpartition(":")  # "" and the text, if it has no colon
    if path and not expanded(path).is_absolute() and is_path(path, name, cwd):
        return [path]
    dotted_name = before_colon.rpartition(":")[2]  # "package.module", without a kind before it
    top = dotted_name.partition(".")[0]  # the package, or the module
    if not top.isidentifier():  # such as the host in "http://tmp:8000"
        return []
    return [file for file in (f"{top}.py", top) if (cwd / file).exists()]


def _zipped(inputs: Iterable[Path], base: Path, *, without: Path) -> bytes:
    """Return a zip file of files and folders, by their paths below `base`; files below `without` are
    left out.

    Raises:
        ConfigError: the files are too large to be sent.
    """
    paths: set[Path] = set()
    for path in inputs:
        paths.update((path, *path.rglob("*")))
    files = sorted(file for file in paths if file.is_file() and without not in file.parents)
    size = sum(file.stat().st_size for file in files)
    if size > _MOST_INPUT:
        raise ConfigError(
            f"the files that the grid names have {size:,} bytes, and at most {_MOST_INPUT:,} are "
            "sent to workers; name them by an absolute path that each worker has"
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for file in files:  # with one date, so that the same content has the same bytes
            archive.writestr(zipfile.ZipInfo(file.relative_to(base).as_posix()), file.read_bytes())
    return buffer.getvalue()
