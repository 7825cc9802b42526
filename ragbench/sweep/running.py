"""Runs side by side: what each worker is told, and what becomes of what it leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.errors import FailureKind
from ragbench.sweep import processes
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.progress import Progress


class Ended(NamedTuple):
    """How runs ended: `failed` is name -> error. When the maximum cost was reached, `left` were not begun."""

    failed: dict[str, str]
    left: list[str]
    budget: bool


class Place(NamedTuple):
    """Where a run belongs: its notebook's file, the folder in which it works, and how long it may take."""

    notebook: Path
    cwd: Path
    run_timeout: float


def run_all(
    text: str, folder: SweepFolder, jobs: Mapping[str, dict[str, Any]], progress: Progress, side_by_side: int
) -> Ended:
    """Run the notebook `text` for every job, `side_by_side` at a time."""
    waiting = list(jobs)
    running: list[processes.Running] = []
    failed: dict[str, str] = {}
    budget = False
    try:
        with progress.shown():
            # Once the maximum is reached no other run is begun; those at work may finish from what is stored.
            while (waiting and not budget) or running:
                while waiting and not budget and len(running) < side_by_side:
                    name = waiting.pop(0)
                    aside = folder.aside(name)
                    aside.mkdir()
                    (aside / "source.ipynb").write_text(text, encoding="utf-8")
                    running.append(processes.start(name, jobs[name], aside, jobs=side_by_side))
                    progress.started(name)
                for run in list(running):
                    outcome = processes.ended(run)
                    if outcome is None:
                        continue
                    running.remove(run)
                    budget = budget or outcome.failure is FailureKind.BUDGET
                    if outcome.error:
                        failed[run.name] = outcome.error
                        folder.keep_failed(run.name)
                    else:
                        folder.keep(run.name)
                    progress.ended(outcome.name, outcome.seconds, outcome.error)
                time.sleep(0.05)
    finally:
        processes.stop(running)
        folder.clear()
    return Ended(failed, waiting, budget)


def run_job(
    folder: SweepFolder,
    name: str,
    place: Place,
    parameters: Mapping[str, Any],
    *,
    source: Mapping[str, str],
    stamp: Mapping[str, Any],
    allow_failed: bool = False,
) -> dict[str, Any]:
    """What the worker of one run reads; `source` goes into its config.json, `stamp` into its notebook's metadata."""
    results = folder.aside(name) / name
    return notebook_job(folder, name, place) | {
        "parameters": {**parameters, "results_dir": relative(results, place.cwd)},
        "configuration": dict(parameters),
        "results": str(results),
        "stamp": dict(source),
        "notebook_stamp": dict(stamp),
        "allow_failed": allow_failed,
    }


def notebook_job(folder: SweepFolder, name: str, place: Place) -> dict[str, Any]:
    """What a worker reads for any notebook. It works in `place.cwd`, so that relative dataset paths mean the same."""
    aside = folder.aside(name)
    return {
        "source": str(aside / "source.ipynb"),
        "output": str(aside / f"{name}.ipynb"),
        "outcome": str(aside / "outcome.json"),
        "cwd": str(place.cwd),
        "run_timeout": place.run_timeout,
        "start_timeout": processes.START_TIMEOUT,
        # A reader of the notebook looks for the files where they are, not where they were written.
        "renamed": {f"{aside.name}/{name}": name, f"{aside.name}\\{name}": name, f"{aside.name}/": ""},
        "folders": {str(place.cwd): ".", str(folder.path.parent): folder.path.parent.name, str(Path.cwd()): "."},
        "paths": {"input_path": relative(place.notebook, folder.path), "output_path": f"{name}.ipynb"},
    }


def relative(path: Path, start: Path) -> str:
    """The path from `start`, with slashes; absolute where there is none (another drive on Windows)."""
    try:
        return Path(os.path.relpath(path, start)).as_posix()
    except ValueError:
        return path.as_posix()
