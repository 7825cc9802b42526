"""Stored results made again and compared, number by number."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError, DataError, RagbenchError
from ragbench.evaluation import (
    check_parameters,
    environment,
    load_result,
    result_folders,
)
from ragbench.evaluation.checksums import EDITED, accept_changes, check_folder
from ragbench.evaluation.folder import FILES, RACE
from ragbench.extension import PERMITTED, imports_reported, searched
from ragbench.files import check_inside, read_json
from ragbench.llms import current_settings
from ragbench.llms.environment import in_force
from ragbench.sweep import budget
from ragbench.sweep.code import confirm_cells, confirm_import, is_packaged
from ragbench.sweep.folder import COMPARISON, SweepFolder, tables_of
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.notebooks import digest_of
from ragbench.sweep.preload import packages_of
from ragbench.sweep.processes import LocalExecutor, default_jobs
from ragbench.sweep.progress import Progress
from ragbench.sweep.runs import run_all

_RUN_TIMEOUT = 7200.0
_ROUNDING = 1.5e-6  # vectors' scores are rounded to six decimals, and processors differ in the order of sums


@dataclass(frozen=True)
class Verification:
    """The outcome of verifying one configuration: `differences` are lines, none when every number is
    the same.

    `compared` counts the values that were compared, 0 where data is not here, which a note states;
    `notes` state what is not as it was when the result was made.
    """

    name: str
    compared: int
    differences: tuple[str, ...]
    notes: tuple[str, ...] = ()


def verify(
    folder: str | Path,
    *,
    jobs: int | None = None,
    replies: str | None = "offline",
    max_cost: float | None = None,
    fork: bool = True,
) -> list[Verification]:
    """Execute every configuration in a sweep's folder again, elsewhere, and compare scores.csv and
    run.trec, or the tables that it wrote; one in the sixth decimal is not a difference.

    The cells that are executed are those of the stored notebooks, with the parameters in
    config.json; the results stay as they are. A configuration on a folder that is not here (a
    parameter that begins with "..") is passed over, with a note. Tables of the comparison notebook
    follow again from the stored results. By default no request leaves: replies of language models
    come from the store.

    Cells of a notebook that does not come with ragbench are run, and modules that config.json names
    imported, only after a person has confirmed it once per content; a sweep of this user on this
    machine confirms its own.

    Args:
        folder: a folder that a sweep wrote, such as results/quickstart.
        jobs: how many runs side by side, as in `sweep`.
        replies: as in `sweep`; "on" sends what the store does not have.
        max_cost: as in `sweep`.
        fork: as in `sweep`.

    Raises:
        ConfigError: there is nothing to verify, it cannot be run here (no key, an unknown model),
            or there is no consent to run its code.
    """
    from rich.console import Console

    folder = Path(folder)
    if not folder.is_dir() or not (paths := result_folders(folder)):
        raise ConfigError(
            f"{folder} holds no results; expected the folder of a sweep, such as results/quickstart"
        )
    settings = budget.on_account(current_settings(replies, max_cost), folder)
    with tempfile.TemporaryDirectory(prefix="ragbench-verify-") as temporary, in_force(settings):
        again = SweepFolder(Path(temporary) / folder.resolve().name)
        verified: dict[str, Verification] = {}
        jobs_by_name: dict[str, Job] = {}
        notes: dict[str, tuple[str, ...]] = {}
        copy = Path(temporary) / COMPARISON
        if tables_of(folder):
            paths.append(folder / COMPARISON)
            shutil.copytree(folder, copy, symlinks=True)  # what they lead to is not copied
            for table in tables_of(copy):
                table.unlink()
        for path in paths:
            try:
                jobs_by_name[path.name], notes[path.name] = _job_of(path, again, copy)
            except DataError as exc:
                verified[path.name] = Verification(path.name, 0, (str(exc),))
            except _AbsentError as exc:
                verified[path.name] = Verification(path.name, 0, (), (str(exc),))
        console = Console(stderr=True)
        executor = LocalExecutor(
            packages_of([job.parameters for job in jobs_by_name.values()]),
            side_by_side=min(jobs or default_jobs(), max(1, len(jobs_by_name))),
            fork=fork,
            log=partial(console.print, highlight=False, markup=False, soft_wrap=True),
        )
        with again.locked():
            progress = Progress(console, len(jobs_by_name))
            outcomes = run_all(again, jobs_by_name, progress, executor)
        errors = dict.fromkeys(outcomes.left, "not begun: the maximum cost is reached")
        errors |= outcomes.failed
        for name in jobs_by_name:
            stored, new = (
                (folder, copy) if name == COMPARISON else (folder / name, again.path / name)
            )
            verified[name] = _compared(name, stored, new, notes[name], errors.get(name, ""))
    return [verified[path.name] for path in paths]


def accept(folder: str | Path) -> dict[str, list[str]]:
    """Take the results in a folder, or the result that it is, as a person has edited them.

    The checksums in config.json become those of the files as they are, and its field "edited" names
    what was changed, which reports show.

    Returns:
        Name of the result -> its changed files, [] where there are none.

    Raises:
        ConfigError: the folder holds no result.
        DataError: a config.json cannot be read, or a result cannot be loaded as it is now.
    """
    folder = Path(folder)
    if any((folder / name).is_file() for name in FILES):
        paths = [folder]
    else:
        paths = result_folders(folder) if folder.is_dir() else []
    if not paths:
        raise ConfigError(f"{folder} holds no results; expected the folder of a result, or a sweep")
    changed = {path.name: accept_changes(path) for path in paths}
    for path in paths:
        if not tables_of(path):
            load_result(path)
    return changed


class _AbsentError(Exception):
    """The data of a configuration is not on this machine."""


def _job_of(path: Path, again: SweepFolder, copy: Path) -> tuple[Job, tuple[str, ...]]:
    """Return the job that makes a stored result again, and notes on what is not as it was; that of
    the comparison works in a `copy` of the folder.
    """
    is_comparison, notebook = path.name == COMPARISON, path.with_name(f"{path.name}.ipynb")
    check_inside(notebook, path.parent)
    try:
        executed = read_json(notebook, "")
        metadata = executed["metadata"]
        kept = [
            cell
            for cell in executed["cells"]
            if not {"injected-parameters", RACE} & {*cell["metadata"].get("tags", [])}
        ]
        digest, cells = digest_of({"cells": kept})
        written = path.parent / metadata.get("papermill", {}).get("input_path", "")
        grid = path.parent / (metadata.get("ragbench", {}).get("grid") or written)
        if is_comparison:
            stamp = metadata["ragbench"]
            again_with = {"sweep_dir": ".", "baseline": stamp["baseline"]}
            config = {"parameters": again_with, "source": stamp, "environment": environment()}
        elif tables_of(path):
            check_inside(path / "config.json", path)
            config = read_json(path / "config.json", "")
        else:
            config = dict(load_result(path, check=False).config)
        source, parameters = dict(config.get("source", {})), dict(config["parameters"])
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(
            f"{notebook} cannot be read ({type(exc).__name__}: {exc}); it cannot be executed again"
        ) from exc
    if digest != source.get("notebook_sha256"):
        raise DataError(
            f"{notebook} was changed after the sweep: its cells are not those that made the "
            f"result (SHA-256 {digest[:12]}, not {str(source.get('notebook_sha256'))[:12]})"
        )
    for name in parameters:
        if not name.isidentifier():  # it becomes the left side of a line of Python
            raise DataError(
                f"{path / 'config.json'}: the parameter {name!r} is not a name of Python; it cannot "
                "be executed again"
            )
    cwd = copy if is_comparison else grid.resolve().parent
    cwd = cwd if cwd.is_dir() else Path.cwd()
    notes = list[str]()
    for value in parameters.values():
        if str(value).startswith("../") and not (cwd / value).exists():
            raise _AbsentError(f"not computed again: {value} is not here (from {cwd})")
    if parameters.get("system"):  # a service may answer otherwise today, and is not asked again
        parameters["system"] = str((path / "answers.jsonl").absolute())
        notes.append("the answers of its system are taken as recorded")
    with_own_cells = not is_packaged(digest)
    if with_own_cells:
        n_cells = sum(kind == "code" for kind, _, _ in cells)
        confirm_cells(notebook, digest, n_cells, path.parent if is_comparison else cwd)
    confirmed = list[str]()

    def confirm(name: str) -> None:
        confirm_import(name, cwd, path)
        confirmed.append(name)

    try:
        with searched(cwd), imports_reported(confirm):
            check_parameters(parameters, folder=cwd)
    except ConfigError as exc:
        raise ConfigError(f"{path.name} cannot be run here: {exc}") from exc
    if edited := config.get(EDITED):
        notes.append(f"edited by a person after it was made: {', '.join(edited)}")
    notes += _changed_environment(config)
    location = Place(written, _notebook_of(cells), cwd, _RUN_TIMEOUT)
    made_from = None if is_comparison else source
    job = make_job(again, path.name, location, parameters, source=made_from, stamp={})
    if not with_own_cells:  # then nothing is imported but what was confirmed
        guards = {PERMITTED: " ".join(confirmed)}
        if not confirmed:
            guards["PYTHONSAFEPATH"] = "1"
        job = replace(job, environment={**job.environment, **guards})
    return job, tuple(notes)


def _notebook_of(cells: Iterable[tuple[str, str, list[str]]]) -> str:
    """Return the text of a notebook with these cells and nothing else: what is executed is what was
    compared and confirmed.
    """
    new: list[dict[str, Any]] = []
    for kind, source, tags in cells:
        cell: dict[str, Any] = {"cell_type": kind, "source": source, "metadata": {"tags": tags}}
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        new.append(cell)
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": new})


def _changed_environment(config: Mapping[str, Any]) -> Iterator[str]:
    then, now = (
        {**part, **part.get("libraries", {})}
        for part in (config.get("environment", {}), environment())
    )
    changed = [
        f"{key} {then.get(key)} -> {value}"
        for key, value in now.items()
        if key not in ("cores", "libraries") and then.get(key) != value
    ]
    if changed:
        yield f"made in another environment: {', '.join(changed)}"


def _compared(
    name: str, path: Path, again: Path, notes: tuple[str, ...], error: str
) -> Verification:
    if error:
        return Verification(name, 0, (f"it could not be made again: {error}",), notes)
    try:
        (then, before), (now, after) = _values(path), _values(again)
    except RagbenchError as exc:
        return Verification(name, 0, (str(exc),), notes)
    differences = [
        line
        for file, values in then.items()
        for line in _differences(file, values, now.get(file, values[:0]))
    ]
    if name != COMPARISON:
        differences = [*_changed_files(path), *differences]
    if before != after:
        changed = f"the dataset has changed: fingerprint {before[:12]}, now {after[:12]}"
        differences.insert(0, changed)
    return Verification(name, sum(map(len, then.values())), tuple(differences), notes)


def _changed_files(path: Path) -> list[str]:
    """Return why the files of a stored result are not those that were written, [] where they are."""
    try:
        check_folder(path)
    except DataError as exc:
        return [str(exc)]
    return []


def _values(path: Path) -> tuple[dict[str, pd.Series[Any]], str]:
    """Return file -> its values by row and column, of tables or of scores.csv and run.trec, and the
    fingerprint of the dataset, where it is stored.
    """
    if tables := tables_of(path):
        frames: dict[str, Any] = {
            table.name: (pd.read_csv if table.suffix == ".csv" else pd.read_parquet)(table)
            for table in tables
        }
        return {name: frame.stack(future_stack=True) for name, frame in frames.items()}, ""
    result = load_result(path, check=False)
    run = [(query, doc, score) for query, docs in result.run.items() for doc, score in docs.items()]
    columns = ["query_id", "measure", "value"]
    files = {"scores.csv": result.scores, "run.trec": pd.DataFrame(run, columns=columns)}
    values = {name: frame.set_index(columns[:2])["value"] for name, frame in files.items()}
    return values, str(result.config["dataset"].get("fingerprint"))


def _differences(file: str, then: pd.Series[Any], now: pd.Series[Any]) -> Iterator[str]:
    """Return a line for each value that is another one, but for numbers that differ by one in the
    sixth decimal.

    >>> index = pd.MultiIndex.from_product([["q1"], ["R@5", "MRR", "P@1"]])
    >>> then, now = (pd.Series(row, index) for row in ([0.501366, 0.5, None], [0.501367, 0.50001, None]))
    >>> list(_differences("scores.csv", then, now))
    ['scores.csv, q1, MRR: stored 0.5, now 0.50001']
    """
    then, now = (values.astype(object).fillna("unscored") for values in (then, now))
    then, now = then.align(now, fill_value="not there")
    gaps = (pd.to_numeric(then, errors="coerce") - pd.to_numeric(now, errors="coerce")).abs()
    different = (then != now) & ~(gaps < _ROUNDING)
    for key, old, new in zip(then.index[different], then[different], now[different], strict=True):
        yield f"{file}, {', '.join(map(str, key))}: stored {old}, now {new}"
