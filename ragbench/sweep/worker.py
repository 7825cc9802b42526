"""The process of one run: executes one notebook, decides whether it succeeded (failed requests,
changed inputs, no result), and reports how it ended.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import signal
import sys
import threading
import warnings
from contextlib import suppress
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, FailureKind, SweepError, printable
from ragbench.evaluation import environment
from ragbench.evaluation.checksums import write_config
from ragbench.evaluation.identity import criteria_digest
from ragbench.evaluation.spec import spec_of
from ragbench.files import write_durably
from ragbench.sweep.job import Job
from ragbench.sweep.notebooks import in_place, note_on_top, notebook_text, without_machine
from ragbench.sweep.sweep_folder import tables_of
from ragbench.systems.named_systems import RECORDED_SUFFIXES, system_digest
from ragbench.testsets.snapshot import SNAPSHOT_VARIABLE


class _UnusableError(SweepError):
    """The notebook ran, but left nothing that a sweep can use."""


def run_job(job_text: str, outcome: connection.Connection[Any, Any]) -> None:
    """Execute a job in this process, send its outcome, and end the process. Called in a new process.

    The process also ends when the process that started it does, and at the job's time limit.

    Args:
        job_text: the job as JSON.
        outcome: receives (error, kind of failure); ("", None) if the run succeeded.
    """
    job = Job.from_json(job_text)
    log = os.open(job.staging / "worker.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    writers: list[Any] = []  # of the notebook at work, as soon as there is one
    threading.Thread(target=_end_in_time, args=(job, writers, outcome), daemon=True).start()
    error, failure = "", None
    try:
        _check_criteria(job)
        _execute_notebook(job, writers)
        if job.source is not None:
            _complete_config(job)
            _check_requests(job)
        tidy(job)
    except Exception as exc:  # any exception is reported, and the other runs continue
        error = printable(_explain(exc))
        failure = getattr(exc, "failure", None)
    atexit._run_exitfuncs()  # processes of multiprocessing do not call these functions
    outcome.send((error, failure))
    # all processes of the notebook end too: the sweep may have been killed meanwhile
    _end_process_group(0)


def _end_in_time(job: Job, writers: list[Any], outcome: connection.Connection[Any, Any]) -> None:
    """Wait until the time limit of a job is reached, or the process that started this one has ended;
    then end this process. Runs in a thread next to the job.

    At the time limit the notebook is first written as far as it came, by the functions in `writers`,
    and the reason is sent to `outcome`.
    """
    parent = parent_process()
    assert parent is not None
    ended = connection.wait([parent.sentinel], job.run_timeout or None)  # [] at the time limit
    if not ended:
        for write in writers:
            with suppress(Exception):  # a cell may be writing to the notebook
                write()
        limit = f"{job.run_timeout:g} s (run_timeout under [sweep])"
        outcome.send((f"the run did not end within {limit} and was stopped", None))
    _end_process_group(75)  # EX_TEMPFAIL: the run may succeed another time


def _end_process_group(status: int) -> None:
    """End this process and all processes that it has started, at once; `status` is for systems
    without groups of processes.
    """
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(status)


def _check_criteria(job: Job) -> None:
    """Raise SweepError if the judge's criteria have changed since the sweep began.

    That happens if their file or module was edited, or this machine has another version of it. The
    result would name other criteria than those by which it was judged.
    """
    expected = (job.source or {}).get("criteria_sha256")
    if expected is None:
        return
    if criteria_digest(spec_of(job.configuration), job.cwd) != expected:
        raise SweepError(
            f"the criteria {job.configuration.get('criteria')!r} are not those with which the sweep "
            "began; run the sweep again, in a new session if you edited a module, and give each "
            "worker the same files"
        )


def load_papermill() -> Any:
    """Return papermill with the engine of this package and without its needless imports."""
    # jsonschema would build a grammar for IRIs from it, which takes longer than all other imports
    # of papermill together. It is optional there, and notebooks hold no IRIs to check.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    with warnings.catch_warnings():  # its filters are not for notebooks
        import papermill

        from ragbench.sweep import engine

    papermill.engines.papermill_engines.register(engine.NAME, engine.InProcessEngine)
    return papermill


def _execute_notebook(job: Job, writers: list[Any]) -> None:
    """Execute the notebook of a job by papermill, in its working folder.

    When the notebook begins to run, a function is appended to `writers`. A call of it writes the
    notebook with its outputs so far.
    """
    papermill = load_papermill()
    from papermill.iorw import LocalHandler, papermill_io

    from ragbench.sweep.engine import NAME

    class WholeFile(LocalHandler):  # type: ignore[misc]
        """Leaves the notebook as it was written last where the disk is full or the process is
        killed.
        """

        def write(self, buf: str, path: str) -> None:
            write_durably(Path(path), buf)

    papermill_io.register(str(job.output), WholeFile())  # for paths that begin with this one
    papermill.execute_notebook(
        # papermill takes braces in a path for placeholders
        str(job.input).replace("{", "{{").replace("}", "}}"),
        str(job.output).replace("{", "{{").replace("}", "}}"),
        parameters=dict(job.parameters),
        engine_name=NAME,
        kernel_name="python3",
        language="python",
        progress_bar=False,
        cwd=str(job.cwd),
        started=writers.append,
    )


def _complete_config(job: Job) -> None:
    """Complete config.json with facts that the notebook cannot know: all parameters of the
    configuration, and the inputs of the result.

    Raises:
        _UnusableError: the notebook saved no result, saved other parameters than it was run with, or
            the system has changed.
    """
    path = job.results / "config.json"
    configuration = job.configuration
    if path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
    elif tables_of(job.results):
        config = {"parameters": {}, "environment": environment()}
    else:
        raise _UnusableError(
            "the notebook ended without saving its results; it must call rb.save(result, "
            "results_dir), or write tables (.csv, .parquet) there"
        )
    for key, value in config["parameters"].items():
        if key in configuration and configuration[key] != value:
            raise _UnusableError(
                f"the notebook saved {key} = {value!r}, but it was run "
                f"with {configuration[key]!r}; pass its parameters to the result as they were set"
            )
    _check_system(job)
    config["parameters"] = configuration
    config["source"] = job.source
    write_config(job.results, config)


def _check_system(job: Job) -> None:
    """Raise _UnusableError if the system has been edited since the sweep began.

    A job of `verify` is not checked: it replaces the system by its recorded answers.
    """
    is_of_sweep = SNAPSHOT_VARIABLE in job.environment
    if not is_of_sweep:
        return
    system = str(job.parameters.get("system") or "")
    expected = (job.source or {}).get("system_sha256")
    if system and expected and system_digest(system, job.cwd) != expected:
        raise _UnusableError(
            f"the system {system} has changed since the sweep began; run the sweep again"
        )


def _check_requests(job: Job) -> None:
    """Raise _UnusableError if requests of a run were not sent because of the maximum cost, or failed
    although the job does not allow that.

    Replies that came back are stored, so running the job again sends only the other requests. A run
    that wrote tables in place of a result is not checked.
    """
    if tables_of(job.results):
        return
    failed = failed_requests(job.results)
    unaffordable = [reason for kind, reason in failed if kind is FailureKind.BUDGET]
    if unaffordable:
        raise _UnusableError(
            f"{len(unaffordable)} requests were not sent. {unaffordable[0]}", FailureKind.BUDGET
        )
    system = str(job.configuration.get("system", ""))
    is_recorded = system.endswith(RECORDED_SUFFIXES)  # its failed answers cannot be asked for again
    if failed and not (job.allow_failed or is_recorded):
        receiver = "system" if system else "language model"
        kind, reason = failed[0]
        raise _UnusableError(
            f"{len(failed)} requests to a {receiver} failed, the first: {reason}. What came back is "
            "stored, so the same command asks for the rest only; --allow-failed takes the run as "
            "it is",
            kind,
        )


def failed_requests(results: Path) -> list[tuple[FailureKind, str]]:
    """Return the kind and the reason of each request of a result that failed; [] if none did.

    An empty reply, a refusal and an unreadable verdict are no failed requests: asking again would
    give the same.
    """
    failures = []
    for name in ("answers.jsonl", "judgements.jsonl"):
        for line in (results / name).read_text(encoding="utf-8").split("\n"):
            record = json.loads(line) if line.strip() else {}
            for reply in _replies_of(record):
                if reply.get("error") is not None:
                    kind = FailureKind(reply.get("failure") or FailureKind.ERROR)
                    reason = " ".join(reply["error"].split())
                    failures.append((kind, reason))
    return failures


def _replies_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields on each request in a record of an answer or a verdict: in `usage`, which
    is a list if a verdict took several; else in the record itself, as for the answer of a system.
    """
    usage = record.get("usage")
    if isinstance(usage, list):
        return usage
    return [usage or record]


def _explain(exc: Exception) -> str:
    """Return the reason why a run failed, in one line."""
    from papermill.exceptions import PapermillExecutionError

    if isinstance(exc, PapermillExecutionError):  # a cell raised it
        lines = f"{exc.ename}: {exc.evalue}".strip().splitlines()
        return lines[0] if len(lines) < 2 else f"{lines[0]} ... {lines[-1]}"
    if isinstance(exc, OSError) and exc.errno in _FULL:
        return (
            f"disk full, or a limit of the file system reached: {exc.strerror}; make room and "
            "run it again"
        )
    if isinstance(exc, _UnusableError | ConfigError):
        return str(exc)
    return f"{type(exc).__name__}: {exc}".splitlines()[0].strip()


_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", None)}


def _show_error(notebook: dict[str, Any], error: str) -> None:
    """Show an error on top of a notebook (as JSON) and at the cell that was running. Nothing is done if
    papermill has marked the notebook already. `notebook` is changed in place.
    """
    from papermill.execute import ERROR_MARKER_TAG

    from ragbench.report.failure_tables import plain

    cells = notebook["cells"]
    if any(ERROR_MARKER_TAG in cell["metadata"].get("tags", []) for cell in cells):
        return
    stopped = {"output_type": "error", "ename": "RunStopped", "evalue": error, "traceback": [error]}
    for cell in cells:
        status = cell["metadata"].get("papermill", {}).get("status")
        if cell["cell_type"] == "code" and status in ("running", "failed"):
            cell["outputs"].append(stopped)
    note_on_top(notebook, f"**This run failed:** {plain(error)}", ERROR_MARKER_TAG)


def tidy(job: Job, error: str = "") -> None:
    """Write the executed notebook of a job anew: without times, without paths of this machine and, if
    there is an `error`, with a mark that shows it.

    If there is no executed notebook, because the run failed early, the notebook to execute is marked
    and written in its place.

    Raises:
        OSError, ValueError: the run succeeded, and its notebook cannot be read.
    """
    try:
        notebook = json.loads(job.output.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if not error:
            raise
        notebook = json.loads(job.input.read_text(encoding="utf-8"))
    if error:
        _show_error(notebook, error)
    notebook = without_machine(notebook, job.renamed, job.folders)
    for cell in notebook["cells"]:
        _tidy_parameters(cell, job)
    for part in (notebook, *notebook["cells"]):  # times are in timings.json alone
        part["metadata"].pop("execution", None)
        for name in ("start_time", "end_time", "duration"):
            part["metadata"].get("papermill", {}).pop(name, None)
    paths = {"input_path": job.notebook, "output_path": job.output.name}
    notebook["metadata"].setdefault("papermill", {}).update(paths)
    if job.stamp:
        notebook["metadata"]["ragbench"] = job.stamp
    write_durably(job.output, notebook_text(notebook))


def _tidy_parameters(cell: dict[str, Any], job: Job) -> None:
    """Hide a cell that sets parameters, so that results are on the first screen. `cell` is changed in
    place; cells of other kinds are unchanged.

    In the cell that papermill has added, paths become relative to the sweep's folder, where the
    notebook will be.
    """
    tags = cell["metadata"].get("tags", [])
    if "injected-parameters" in tags:  # papermill's
        cell["source"] = in_place("".join(cell["source"]), job.cwd, job.staging.parent)
        if "id" in cell:
            cell["id"] = "injected-parameters"
    if {*tags} & {"injected-parameters", "parameters"}:
        cell["metadata"] |= {
            "jupyter": {"source_hidden": True},
            "transient": {"remove_source": True},
        }
