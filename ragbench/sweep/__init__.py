"""A grid of configurations -> one executed notebook each, then their comparison.

Every run is a process of its own that executes one notebook through papermill. What is finished is skipped the next
time; what was interrupted, at whatever moment, is run again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError, RagbenchError, SweepError
from ragbench.experiment import load_sweep, own_version, write_durably
from ragbench.sweep import processes
from ragbench.sweep.folder import COMPARISON, SweepFolder
from ragbench.sweep.grid import Grid, read_grid
from ragbench.sweep.notebooks import Notebook
from ragbench.sweep.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Grid", "SweepResult", "read_grid", "sweep"]


@dataclass(frozen=True)
class SweepResult:
    """What a sweep left behind. `failed` is name -> error, `notes` is what the user should know."""

    folder: Path
    finished: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: Mapping[str, str]
    comparison: Path | None = None
    leaderboard: Path | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
    seconds: float = 0.0


def sweep(
    grid_file: str | Path, *, jobs: int | None = None, force: bool = False, out: str | Path = "results"
) -> SweepResult:
    """Run every configuration of a grid that is not finished yet, then compare them all.

    Paths in the grid (notebooks, dataset folders) are relative to the grid file. Progress is shown on standard error.

    Args:
        grid_file: a TOML file such as notebooks/quickstart.toml.
        jobs: how many runs side by side; None = one per core, as far as there are 1.5 GB of memory for each.
        force: run finished configurations again too.
        out: folder that holds the sweep's own folder.

    Returns:
        What was run, skipped and failed, and where things are.

    Raises:
        ConfigError: the grid, a notebook or a parameter is not what it should be; nothing has been run then.
        DataError: the dataset cannot be loaded; nothing has been run then.
        SweepError: another sweep works in the same folder, or it holds results on other data.
        KeyboardInterrupt: after the runs have been stopped; what is finished stays, and the same call goes on.
    """
    from rich.console import Console

    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}; expected 1 or more")
    began = time.monotonic()
    grid = read_grid(grid_file)
    source = {
        "notebook": grid.notebook.path.name,
        "notebook_sha256": grid.notebook.digest,
        "dataset_fingerprint": _fingerprint(grid),
    }
    folder = SweepFolder(Path(out).absolute() / grid.name)
    console = Console(stderr=True)
    try:
        with folder.locked():
            return _sweep(grid, folder, source, console, jobs=jobs, force=force, began=began)
    except KeyboardInterrupt:
        done = sum(folder.is_finished(name, parameters, source) for name, parameters in grid.runs.items())
        console.print(
            f"Stopped: {done} of {len(grid.runs)} configurations are finished in {folder.path}; "
            "the same command (without --force) goes on from there.",
            highlight=False,
            soft_wrap=True,
        )
        raise
    except OSError as exc:
        raise SweepError(f"cannot write to {folder.path}: {exc}") from exc


def _sweep(
    grid: Grid,
    folder: SweepFolder,
    source: Mapping[str, str],
    console: Console,
    *,
    jobs: int | None,
    force: bool,
    began: float,
) -> SweepResult:
    notes = [*grid.notes, *_foreign(folder, grid, source)]
    skipped = [
        name for name, parameters in grid.runs.items() if not force and folder.is_finished(name, parameters, source)
    ]
    notes += _older(folder, skipped)
    waiting = [name for name in grid.runs if name not in skipped]
    side_by_side = min(jobs or processes.default_jobs(), max(1, len(waiting)))
    if waiting:
        console.print(
            f"{grid.name}: {len(waiting)} to run, {side_by_side} at a time; {len(skipped)} finished already",
            highlight=False,
        )
    progress = Progress(console, len(grid.runs), skipped=len(skipped), jobs=side_by_side)
    jobs_of = {name: _job(grid, folder, name, source) for name in waiting}
    failed = _run_all(grid.notebook, folder, jobs_of, progress, side_by_side)
    finished = tuple(name for name in waiting if name not in failed)
    result = SweepResult(folder.path, finished, tuple(skipped), failed, notes=tuple(notes))
    if finished or skipped:
        result = _compare(grid, folder, result, console)
    else:
        result = replace(result, notes=(*notes, "no configuration succeeded, so there is nothing to compare"))
    return replace(result, seconds=time.monotonic() - began)


def _run_all(
    notebook: Notebook, folder: SweepFolder, jobs: Mapping[str, dict[str, Any]], progress: Progress, side_by_side: int
) -> dict[str, str]:
    """Run every job, `side_by_side` at a time; name -> error of those that failed."""
    waiting = list(jobs)
    running: list[processes.Running] = []
    failed: dict[str, str] = {}
    try:
        with progress.shown():
            while waiting or running:
                while waiting and len(running) < side_by_side:
                    name = waiting.pop(0)
                    aside = folder.aside(name)
                    aside.mkdir()
                    (aside / "source.ipynb").write_text(notebook.text, encoding="utf-8")
                    running.append(processes.start(name, jobs[name], aside, jobs=side_by_side))
                    progress.started(name)
                for run in list(running):
                    outcome = processes.ended(run)
                    if outcome is None:
                        continue
                    running.remove(run)
                    if outcome.error:
                        failed[run.name] = outcome.error
                        folder.keep_failed(run.name)
                    else:
                        folder.keep(run.name)
                    progress.ended(*outcome)
                time.sleep(0.05)
    finally:
        processes.stop(running)
        folder.clear()
    return failed


def _job(grid: Grid, folder: SweepFolder, name: str, source: Mapping[str, str]) -> dict[str, Any]:
    """What the worker of one run reads. It runs in the grid's folder, so that relative dataset paths mean the same."""
    parameters = dict(grid.runs[name])
    results = folder.aside(name) / name
    return _common_job(grid, folder, name, grid.notebook) | {
        "parameters": {**parameters, "results_dir": _relative(results, _cwd(grid))},
        "configuration": parameters,
        "results": str(results),
        "stamp": dict(source),
        "notebook_stamp": None,
    }


def _common_job(grid: Grid, folder: SweepFolder, name: str, notebook: Notebook) -> dict[str, Any]:
    aside = folder.aside(name)
    return {
        "source": str(aside / "source.ipynb"),
        "output": str(aside / f"{name}.ipynb"),
        "outcome": str(aside / "outcome.json"),
        "cwd": str(_cwd(grid)),
        "run_timeout": grid.run_timeout,
        "start_timeout": processes.START_TIMEOUT,
        # A reader of the notebook looks for the files where they are, not where they were written.
        "renamed": {f"{aside.name}/{name}": name, f"{aside.name}\\{name}": name, f"{aside.name}/": ""},
        "folders": {str(_cwd(grid)): ".", str(folder.path.parent): folder.path.parent.name, str(Path.cwd()): "."},
        "paths": {"input_path": _relative(notebook.path, folder.path), "output_path": f"{name}.ipynb"},
    }


def _compare(grid: Grid, folder: SweepFolder, result: SweepResult, console: Console) -> SweepResult:
    """Write the leaderboard and execute the comparison notebook; the result, completed."""
    from ragbench.report import leaderboard, leaderboard_markdown

    try:
        results = load_sweep(folder.path)
        table = leaderboard(results)
    except RagbenchError as exc:
        return replace(result, failed={**result.failed, COMPARISON: str(exc)})
    path = folder.path / "leaderboard.csv"
    _write(path, table.to_csv(index=False, lineterminator="\n"))
    _write(path.with_suffix(".md"), leaderboard_markdown(table))
    result = replace(result, leaderboard=path)
    baseline, note = grid.baseline, ""
    if baseline and baseline not in {one.name for one in results}:
        baseline, note = "", f"the baseline {baseline} failed; the comparison takes the first configuration by name"
    if len(results) < 2:
        note = "one finished configuration only, so there is nothing to compare it with"
    result = replace(result, notes=(*result.notes, note)) if note else result
    if grid.compare is None or len(results) < 2:
        return result
    stamp = {"baseline": baseline, "notebook_sha256": grid.compare.digest, "results_sha256": folder.digest()}
    if result.finished or _stamp_of(folder.notebook(COMPARISON)) != stamp:
        job = _common_job(grid, folder, COMPARISON, grid.compare) | {
            "parameters": {"sweep_dir": _relative(folder.path, _cwd(grid)), "baseline": baseline},
            "configuration": {},
            "results": None,
            "stamp": {},
            "notebook_stamp": stamp,
        }
        failed = _run_all(grid.compare, folder, {COMPARISON: job}, Progress(console, 1), 1)
        if failed:
            return replace(result, failed={**result.failed, **failed})
    return replace(result, comparison=folder.notebook(COMPARISON))


def _fingerprint(grid: Grid) -> str:
    """The fingerprint of the grid's dataset, loaded once here so that its errors come before anything is spent."""
    parameters = next(iter(grid.runs.values()))
    if "dataset" not in parameters:
        return ""
    from ragbench.datasets import load_dataset

    name, here = parameters["dataset"], Path.cwd()
    try:
        with chdir(_cwd(grid)):  # where the notebook will look for it
            return str(load_dataset(name, split=parameters.get("split", "test")).fingerprint)
    except (ConfigError, DataError) as exc:
        if not (_cwd(grid) / name).exists() and (here / name).exists():
            hint = f"paths in a grid are relative to the grid file: {_relative(here / name, _cwd(grid))!r}"
            raise type(exc)(f"{exc} ({hint})") from exc
        raise


def _foreign(folder: SweepFolder, grid: Grid, source: Mapping[str, str]) -> list[str]:
    """A note on results that are not of this grid; they are compared too, so they must be on the same data."""
    others = folder.others(grid.runs)
    for name in others:
        fingerprint = folder.config(name).get("source", source).get("dataset_fingerprint")
        if fingerprint != source["dataset_fingerprint"]:
            raise SweepError(
                f"{folder.path} holds {name}, which is not in this grid and was measured on other data "
                f"(fingerprint {str(fingerprint)[:12]}); delete it, or use another --out or another name"
            )
    if not others:
        return []
    return [f"compared too, though not in this grid: {', '.join(others)}; delete what should not be"]


def _older(folder: SweepFolder, skipped: list[str]) -> list[str]:
    versions = {str(folder.config(name).get("environment", {}).get("ragbench")) for name in skipped}
    others = sorted(versions - {own_version()})
    return [f"finished results of ragbench {', '.join(others)} were kept; --force runs them again"] if others else []


def _stamp_of(notebook: Path) -> dict[str, Any] | None:
    try:
        stamp: dict[str, Any] | None = json.loads(notebook.read_text(encoding="utf-8"))["metadata"].get("ragbench")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return stamp


def _write(path: Path, text: str) -> None:
    """Write a file as a whole; one that would not change is left as it is."""
    if path.is_file() and path.read_bytes() == text.encode():
        return
    aside = path.with_name(f".running-{path.name}")
    write_durably(aside, text)
    aside.replace(path)


def _cwd(grid: Grid) -> Path:
    return grid.path.resolve().parent


def _relative(path: Path, start: Path) -> str:
    try:
        return Path(os.path.relpath(path, start)).as_posix()
    except ValueError:  # another drive on Windows
        return path.as_posix()
