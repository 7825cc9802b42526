"""The process of one run: `python -m ragbench.sweep.worker JOB.json` executes one notebook and reports how it ended.

It is started by a sweep and ends with it: when its standard input closes, it kills its kernel and goes.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, FailureKind, SweepError, printable
from ragbench.files import write_durably
from ragbench.sweep.job import Job
from ragbench.sweep.notebooks import in_place, without_machine
from ragbench.sweep.processes import START_TIMEOUT
from ragbench.systems.loader import RECORDED


class _UnusableError(SweepError):
    """The notebook ran, but left nothing that a sweep can use."""


def main(job_file: str) -> int:
    """Execute the notebook of a job; 0 when everything that it had to leave is there."""
    job = Job.from_json(Path(job_file).read_text(encoding="utf-8"))
    error, failure = "", None
    try:
        _execute(job)
        if job.source is not None:
            _stamp(job)
            system = str(job.configuration.get("system", ""))
            recorded = system.endswith(RECORDED)  # whose failures cannot be requested again
            asked = "system" if system else "language model"
            _check_requests(job.results, asked, allow_failed=job.allow_failed or recorded)
        _tidy(job)
    except Exception as exc:  # any exception is reported, and the other runs continue
        error, failure = printable(_explain(exc, job)), getattr(exc, "failure", None)
        with suppress(OSError):  # a disk that is full keeps no notebook, but never a part of one
            _tidy(job, error)
    job.input.unlink(missing_ok=True)  # room for the outcome, where there is no other
    write_durably(job.outcome, json.dumps({"error": error, "failure": failure}))
    return 1 if error else 0


def load_papermill() -> Any:
    """papermill, without what it could do without."""
    # jsonschema would build a grammar for IRIs from it, which takes longer than all other imports of papermill
    # together. It is optional there, and notebooks hold no IRIs to check.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import papermill

    return papermill


def _execute(job: Job) -> None:
    papermill = load_papermill()
    from jupyter_client.manager import AsyncKernelManager
    from papermill.iorw import LocalHandler, papermill_io

    managers: list[AsyncKernelManager] = []

    class Kernel(AsyncKernelManager):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            managers.append(self)

    class WholeFile(LocalHandler):  # type: ignore[misc]
        """A disk that is full leaves the notebook as it was written last."""

        whole = ""

        def write(self, buf: str, path: str) -> None:
            try:
                super().write(buf, path)
            except OSError:
                super().write(self.whole, path)
                raise
            self.whole = buf

    papermill_io.register(str(job.output), WholeFile())  # for paths that begin like this
    threading.Thread(target=_go_with_parent, args=(managers,), daemon=True).start()
    limit = job.run_timeout
    end = time.monotonic() + limit

    def time_left(cell: object) -> int | None:
        return max(1, math.ceil(end - time.monotonic())) if limit else None

    papermill.execute_notebook(
        # papermill takes braces in a path for placeholders
        str(job.input).replace("{", "{{").replace("}", "}}"),
        str(job.output).replace("{", "{{").replace("}", "}}"),
        parameters=dict(job.parameters),
        kernel_name="python3",
        language="python",
        progress_bar=False,
        start_timeout=START_TIMEOUT,
        cwd=str(job.cwd),
        kernel_manager_class=Kernel,
        timeout_func=time_left,
        # The default of 4 s is for a machine with nothing else to do.
        iopub_timeout=120,
    )


def _go_with_parent(managers: list[Any]) -> None:
    while os.read(0, 1):  # blocks until the sweep closes the pipe, or dies
        pass
    for manager in managers:
        process = getattr(getattr(manager, "provisioner", None), "process", None)
        try:
            # A kernel leads a group of its own, with all that it started.
            if isinstance(process, subprocess.Popen) and hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            elif process is not None:
                process.kill()
        except OSError:
            continue  # it is gone already
    os._exit(75)


def _stamp(job: Job) -> None:
    """Complete config.json with what the notebook cannot know: where it came from, and its own defaults."""
    path, configuration = job.results / "config.json", job.configuration
    if not path.is_file():
        raise _UnusableError("the notebook ended without saving its results; it must call rb.save(result, results_dir)")
    config = json.loads(path.read_text(encoding="utf-8"))
    for key, value in config["parameters"].items():
        if key in configuration and configuration[key] != value:
            raise _UnusableError(
                f"the notebook saved {key} = {value!r}, but it was run with {configuration[key]!r}; "
                "pass its parameters to the result as they were set"
            )
    config["parameters"] = configuration
    config["source"] = job.source
    write_durably(path, json.dumps(config, indent=1, ensure_ascii=False) + "\n")


def _check_requests(results: Path, asked: str, *, allow_failed: bool) -> None:
    """A run whose requests failed is not finished: what came back is stored, so running it again asks for the rest."""
    failed = failed_requests(results)
    unaffordable = [reason for kind, reason in failed if kind is FailureKind.BUDGET]
    if unaffordable:
        raise _UnusableError(f"{len(unaffordable)} requests were not sent. {unaffordable[0]}", FailureKind.BUDGET)
    if failed and not allow_failed:
        kind, reason = failed[0]
        raise _UnusableError(
            f"{len(failed)} requests to a {asked} failed, the first: {reason}. What came back is stored, "
            "so the same command asks for the rest only; --allow-failed takes the run as it is",
            kind,
        )


def failed_requests(results: Path) -> list[tuple[FailureKind, str]]:
    """Kind and reason of each request that failed; [] when all have come back.

    An empty reply, a refusal and an unreadable verdict are no failed requests: asking again would give the same.
    """
    asked: list[dict[str, Any]] = []
    for name in ("answers.jsonl", "judgements.jsonl"):
        for line in (results / name).read_text(encoding="utf-8").split("\n"):
            record = json.loads(line) if line.strip() else {}
            usage = record.get("usage")
            asked += usage if isinstance(usage, list) else [usage] if usage else [record] if record.get("error") else []
    return [
        (FailureKind(one.get("failure") or FailureKind.ERROR), " ".join(one["error"].split()))
        for one in asked
        if one.get("error") is not None
    ]


def _explain(exc: Exception, job: Job) -> str:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if isinstance(exc, PapermillExecutionError):
        lines = f"{exc.ename}: {exc.evalue}".strip().splitlines()
        return lines[0] if len(lines) < 2 else f"{lines[0]} ... {lines[-1]}"
    if isinstance(exc, DeadKernelError):
        return "the kernel died (out of memory, or the process was ended from outside or by its own code)"
    if isinstance(exc, CellTimeoutError):
        return f"the run did not end within {job.run_timeout:g} s (run_timeout under [sweep]) and was stopped"
    if isinstance(exc, OSError) and exc.errno in _FULL:
        return f"disk full, or a limit of the file system reached: {exc.strerror}; make room and run it again"
    if isinstance(exc, _UnusableError | ConfigError):
        return str(exc)
    return (f"{type(exc).__name__}: {exc}".strip().splitlines() or ["unknown error"])[0]


_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", None)}


def _mark(notebook: dict[str, Any], error: str) -> None:
    """Show the error in the notebook, where papermill has not: on top, and at the cell that was running."""
    from papermill.execute import ERROR_MARKER_TAG

    from ragbench.report.failures import plain

    cells = notebook["cells"]
    if any(ERROR_MARKER_TAG in cell["metadata"].get("tags", []) for cell in cells):
        return
    stopped = {"output_type": "error", "ename": "RunStopped", "evalue": error, "traceback": [error]}
    for cell in cells:
        if cell["cell_type"] == "code" and cell["metadata"].get("papermill", {}).get("status") in {"running", "failed"}:
            cell["outputs"].append(stopped)
    note = {
        "cell_type": "markdown",
        "metadata": {"tags": [ERROR_MARKER_TAG]},
        "source": f"**This run failed:** {plain(error)}",
    }
    # Cells have ids since format 4.5, and must not have any before.
    cells.insert(0, note | ({"id": "why-it-failed"} if any("id" in cell for cell in cells) else {}))


def _tidy(job: Job, error: str = "") -> None:
    """Keep what belongs to one machine out of the executed notebook, or of its source where none was written."""
    try:
        notebook = json.loads(job.output.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        if not error:
            raise
        notebook = json.loads(job.input.read_text(encoding="utf-8"))
    if error:
        _mark(notebook, error)
    notebook = without_machine(notebook, job.renamed, job.folders)
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", [])
        if "injected-parameters" in tags:
            cell["source"] = in_place("".join(cell["source"]), job.cwd, job.staging.parent)
        if "injected-parameters" in tags or "parameters" in tags:  # what was found is on the first screen
            cell["metadata"] |= {"jupyter": {"source_hidden": True}, "transient": {"remove_source": True}}
    paths = {"input_path": job.notebook, "output_path": job.output.name}
    notebook["metadata"].setdefault("papermill", {}).update(paths)
    if job.stamp:
        notebook["metadata"]["ragbench"] = job.stamp
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    try:
        write_durably(job.output, text)
    except OSError:
        job.output.unlink(missing_ok=True)  # the room of the old file is there for the new one
        try:
            job.output.write_bytes(text.encode())
        except OSError:
            job.output.unlink(missing_ok=True)
            raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
