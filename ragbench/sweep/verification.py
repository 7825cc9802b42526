"""Stored results made again and compared, number by number: which differences count, and `--accept`
of edited files.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.notebooks import CellSource, digest_of
from ragbench.sweep.preload import packages_of
from ragbench.sweep.processes import LocalExecutor, default_jobs
from ragbench.sweep.progress_display import Progress
from ragbench.sweep.runs import run_all
from ragbench.sweep.sweep_folder import COMPARISON, SweepFolder, tables_of

_RUN_TIMEOUT = 7200.0
_ROUNDING = 1.5e-6  # vectors' scores are rounded to six decimals, and processors differ in the order of sums


@dataclass(frozen=True)
class Verification:
    """The outcome of verifying one configuration: `differences` has a line for each number that is
    not the same.

    `compared` counts the values that were compared; it is 0 if data is not here, which a note states.
    `notes` state which circumstances have changed since the result was made.
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
    """Execute every configuration in a sweep's folder again, in a temporary folder, and compare the new
    results with the stored ones, which are not changed.

    Compared are scores.csv and run.trec, or the tables that a notebook wrote in place of a result. A
    difference of 1 in the sixth decimal is rounding and does not count.

    The cells of the stored notebooks are executed, with the parameters in config.json. A
    configuration whose data is missing here (a parameter that begins with "../") is not executed,
    and a note states this. Tables of the comparison notebook are made again from the stored results.
    By default no request is sent: replies of language models come from the store.

    A person must confirm that cells of a notebook that does not come with ragbench are run, and that
    modules that config.json names are imported; the same content is confirmed once. Content that a
    sweep of this user has run on this machine needs no confirmation.

    Args:
        folder: a folder that a sweep wrote, such as results/quickstart.
        jobs: how many runs side by side, as in `sweep`.
        replies: as in `sweep`; "on" sends the requests whose replies are not in the store.
        max_cost: as in `sweep`.
        fork: as in `sweep`.

    Returns:
        The outcome for each configuration, in the order of the folder; the last one is of the tables
        of the comparison notebook, if it wrote any.

    Raises:
        ConfigError: there is nothing to verify, it cannot be run here (no key, an unknown model),
            or there is no consent to run its code.
    """
    folder = Path(folder)
    paths = result_folders(folder) if folder.is_dir() else []
    if not paths:
        raise ConfigError(
            f"{folder} holds no results; expected the folder of a sweep, such as results/quickstart"
        )
    settings = budget.on_account(current_settings(replies, max_cost), folder)
    with tempfile.TemporaryDirectory(prefix="ragbench-verify-") as temporary, in_force(settings):
        again = SweepFolder(Path(temporary) / folder.resolve().name)
        verified: dict[str, Verification] = {}
        jobs_by_name: dict[str, Job] = {}
        notes_by_name: dict[str, tuple[str, ...]] = {}
        # the comparison notebook reads the stored results: it is run in a copy of the sweep's folder
        copy = Path(temporary) / COMPARISON
        if tables_of(folder):
            paths.append(folder / COMPARISON)
            _copy_without_tables(folder, copy)
        # a job for each configuration; those that get none have their outcome at once
        for path in paths:
            name = path.name
            try:
                jobs_by_name[name], notes_by_name[name] = _job_again(path, again, copy)
            except DataError as exc:
                verified[name] = Verification(name, compared=0, differences=(str(exc),))
            except _AbsentError as exc:  # passed over with a note: it is no difference
                verified[name] = Verification(name, compared=0, differences=(), notes=(str(exc),))
        # the jobs write into the temporary folder; name -> error of those that gave no result
        errors = _run_again(jobs_by_name, again, jobs, fork=fork)
        # compare the stored files with the new ones
        for name, notes in notes_by_name.items():
            if name in errors:
                reason = f"it could not be made again: {errors[name]}"
                verified[name] = Verification(name, 0, (reason,), notes)
            elif name == COMPARISON:
                verified[name] = _compare_files(name, folder, copy, notes)
            else:
                verified[name] = _compare_files(name, folder / name, again.path / name, notes)
    return [verified[path.name] for path in paths]  # in the order of the folder


def _copy_without_tables(folder: Path, copy: Path) -> None:
    """Copy a sweep's folder but the tables at its top, which its comparison notebook makes again."""
    shutil.copytree(folder, copy, symlinks=True)  # their targets are not copied
    for table in tables_of(copy):
        table.unlink()


def _run_again(
    jobs: Mapping[str, Job], again: SweepFolder, n_jobs: int | None, *, fork: bool
) -> dict[str, str]:
    """Run jobs (configuration -> job) into a new folder; return configuration -> error for each that
    failed or was not begun. `n_jobs` run side by side; None means as many as the machine can.
    """
    from rich.console import Console

    console = Console(stderr=True)
    executor = LocalExecutor(
        packages_of([job.parameters for job in jobs.values()]),
        side_by_side=min(n_jobs or default_jobs(), max(1, len(jobs))),
        fork=fork,
        log=partial(console.print, highlight=False, markup=False, soft_wrap=True),
    )
    with again.locked():
        outcomes = run_all(again, jobs, Progress(console, len(jobs)), executor)
    not_begun = dict.fromkeys(outcomes.left, "not begun: the maximum cost is reached")
    return {**not_begun, **outcomes.failed}


def accept(folder: str | Path) -> dict[str, list[str]]:
    """Accept that a person has edited results: one result folder, or all in the folder of a sweep.

    The checksums in config.json are computed anew, and its field "edited" names the changed files,
    which reports show.

    Returns:
        Name of the result -> its changed files, [] if there are none.

    Raises:
        ConfigError: the folder holds no result.
        DataError: a config.json cannot be read, or a result (not a notebook's own tables) cannot be
            loaded as it is now.
    """
    folder = Path(folder)
    paths = []
    if any((folder / name).is_file() for name in FILES):
        paths = [folder]
    elif folder.is_dir():
        paths = result_folders(folder)
    if not paths:
        raise ConfigError(f"{folder} holds no results; expected the folder of a result, or a sweep")
    changed = {path.name: accept_changes(path) for path in paths}
    for path in paths:
        # raises for an edited result that cannot be loaded; a notebook's own tables have no form to check
        if not tables_of(path):
            load_result(path)
    return changed


class _AbsentError(Exception):
    """The data of a configuration is not on this machine."""


def _job_again(path: Path, again: SweepFolder, copy: Path) -> tuple[Job, tuple[str, ...]]:
    """Return the job that makes a stored result again, and notes on circumstances that changed.

    The user is asked for consent to run the notebook's cells, and to import modules that parameters
    name.

    Args:
        path: the folder of the stored result.
        again: the folder into which the job writes.
        copy: a copy of the sweep's folder, in which the comparison notebook works.

    Raises:
        DataError: the notebook cannot be read, or was changed after the sweep.
        _AbsentError: data of the configuration is not here.
        ConfigError: it cannot be run here, or there is no consent to run its code.
    """
    stored = _read_stored(path)
    _check_unchanged(stored)
    cwd = copy if stored.is_comparison else stored.grid.resolve().parent
    if not cwd.is_dir():  # a sweep from another machine
        cwd = Path.cwd()
    # data outside the folder of the grid does not come with the sweep
    parameters = dict(stored.config["parameters"])
    for value in parameters.values():
        if str(value).startswith("../") and not (cwd / value).exists():
            raise _AbsentError(f"not computed again: {value} is not here (from {cwd})")
    if parameters.get("system"):  # its recorded answers are scored: today it may answer otherwise
        parameters["system"] = str((path / "answers.jsonl").absolute())
    has_own_cells = not is_packaged(stored.digest)  # cells that do not come with ragbench
    if has_own_cells:
        n_cells = sum(cell.kind == "code" for cell in stored.cells)
        # consent is to a folder: not to the temporary copy, but to the sweep's folder that it copies
        confirmed_folder = path.parent if stored.is_comparison else cwd
        confirm_cells(stored.notebook, stored.digest, n_cells, confirmed_folder)
    # after the cells, the user's modules that the parameters name: a person confirms both
    confirmed_imports = _confirm_imports(path, parameters, cwd)
    place = Place(stored.original, _notebook_of(stored.cells), cwd, _RUN_TIMEOUT)
    source = None if stored.is_comparison else stored.source
    job = make_job(again, path.name, place, parameters, source=source, stamp={})
    if not has_own_cells:
        # nothing but the confirmed modules may be imported; own cells, once confirmed, may import any
        job = _importing_only(confirmed_imports, job)
    return job, tuple(_notes_on_circumstances(stored.config))


def _notes_on_circumstances(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note for each circumstance that is not as it was when a result with this config.json was
    made.
    """
    if config["parameters"].get("system"):
        yield "the answers of its system are taken as recorded"
    if edited := config.get(EDITED):
        yield f"edited by a person after it was made: {', '.join(edited)}"
    yield from _changed_environment(config)


def _importing_only(confirmed_imports: list[str], job: Job) -> Job:
    """Return the job with variables by which its process imports none of the user's modules but the
    confirmed ones.
    """
    guards = {PERMITTED: " ".join(confirmed_imports)}
    if not confirmed_imports:
        guards["PYTHONSAFEPATH"] = "1"  # nothing is imported from the working folder
    return replace(job, environment={**job.environment, **guards})


class _Stored(NamedTuple):
    """A stored result and the notebook that made it.

    Attributes:
        notebook: the path of the executed notebook.
        cells: the sources of its cells, without those that a sweep has added.
        digest: their SHA-256.
        original: the path of the notebook before it was executed.
        grid: the path of the grid, or of the original notebook if there was no grid.
    """

    notebook: Path
    is_comparison: bool
    config: Mapping[str, Any]
    source: dict[str, Any]
    cells: list[CellSource]
    digest: str
    original: Path
    grid: Path


def _read_stored(path: Path) -> _Stored:
    """Read the executed notebook and config.json of a stored result.

    Raises:
        DataError: one of them cannot be read.
    """
    notebook = path.with_name(f"{path.name}.ipynb")
    check_inside(notebook, path.parent)
    try:
        executed = read_json(notebook, hint="")
        metadata = executed["metadata"]
        original_cells = []
        for cell in executed["cells"]:
            tags = cell["metadata"].get("tags", [])
            is_added = "injected-parameters" in tags or RACE in tags  # by the sweep
            if not is_added:
                original_cells.append(cell)
        digest, cells = digest_of({"cells": original_cells})
        # these paths are relative to the sweep's folder
        original = path.parent / metadata.get("papermill", {}).get("input_path", "")
        grid_path = metadata.get("ragbench", {}).get("grid")
        grid = path.parent / grid_path if grid_path else original
        config = _stored_config(path, metadata)
        config = {**config, "parameters": dict(config["parameters"])}
        source = dict(config.get("source", {}))
    except DataError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise DataError(
            f"{notebook} cannot be read ({type(exc).__name__}: {exc}); it cannot be executed again"
        ) from exc
    is_comparison = path.name == COMPARISON
    return _Stored(notebook, is_comparison, config, source, cells, digest, original, grid)


def _stored_config(path: Path, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of config.json of a stored result. Fields may be missing, or of wrong types.

    The comparison has no config.json: its content is made from the `metadata` of the notebook.

    Raises:
        DataError: the file cannot be read, or is a link that leads out of its folder.
    """
    if path.name == COMPARISON:
        stamp = metadata["ragbench"]
        parameters = {"sweep_dir": ".", "baseline": stamp["baseline"]}
        return {"parameters": parameters, "source": stamp, "environment": environment()}
    if tables_of(path):  # the notebook wrote tables of its own: `load_result` cannot load them
        check_inside(path / "config.json", path)
        config: Mapping[str, Any] = read_json(path / "config.json", hint="")
        return config
    return load_result(path, check=False).config


def _check_unchanged(stored: _Stored) -> None:
    """Refuse a notebook whose cells were changed after it made the result, and parameters whose names
    could not be variables of Python.
    """
    digest = stored.source.get("notebook_sha256")
    if stored.digest != digest:
        raise DataError(
            f"{stored.notebook} was changed after the sweep: its cells are not those that made the "
            f"result (SHA-256 {stored.digest[:12]}, not {str(digest)[:12]})"
        )
    for name in stored.config["parameters"]:
        if not name.isidentifier():  # it becomes the left side of a line of Python
            config_path = stored.notebook.with_suffix("") / "config.json"
            raise DataError(
                f"{config_path}: the parameter {name!r} is not a name of Python; it cannot "
                "be executed again"
            )


def _confirm_imports(path: Path, parameters: Mapping[str, Any], cwd: Path) -> list[str]:
    """Check parameters in the folder `cwd`, and return the modules that they import. Before each import
    a person must confirm it, because it runs the module's code. `path` is the stored result.

    Raises:
        ConfigError: a parameter cannot be used here, or there is no consent.
    """
    confirmed = []

    def confirm(name: str) -> None:
        confirm_import(name, cwd, path)
        confirmed.append(name)

    try:
        with searched(cwd), imports_reported(confirm):
            check_parameters(parameters, folder=cwd)
    except ConfigError as exc:
        raise ConfigError(f"{path.name} cannot be run here: {exc}") from exc
    return confirmed


def _notebook_of(sources: Iterable[CellSource]) -> str:
    """Return the text of a notebook with cells of these sources and nothing else, so that only cells
    are executed that were compared and confirmed.
    """
    cells: list[dict[str, Any]] = []
    for kind, text, tags in sources:
        cell: dict[str, Any] = {"cell_type": kind, "source": text, "metadata": {"tags": tags}}
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        cells.append(cell)
    return json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells})


def _changed_environment(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note if Python, the machine or a library is another one than when a result was made."""
    old = config.get("environment", {})
    new = environment()
    old_versions = {**old, **old.get("libraries", {})}
    new_versions = {**new, **new.get("libraries", {})}
    changed = []
    for name, version in new_versions.items():
        if name not in ("cores", "libraries") and old_versions.get(name) != version:
            changed.append(f"{name} {old_versions.get(name)} -> {version}")
    if changed:
        yield f"made in another environment: {', '.join(changed)}"


def _compare_files(name: str, stored: Path, again: Path, notes: tuple[str, ...]) -> Verification:
    """Compare the files of a stored result with those that were made again. Files that only the new
    result has are not compared.
    """
    try:
        old_values, old_fingerprint = _stored_values(stored)
        new_values, new_fingerprint = _stored_values(again)
    except RagbenchError as exc:
        return Verification(name, 0, (str(exc),), notes)
    differences = []
    if old_fingerprint != new_fingerprint:
        differences.append(
            f"the dataset has changed: fingerprint {old_fingerprint[:12]}, now {new_fingerprint[:12]}"
        )
    if name != COMPARISON:  # its tables have no checksums
        differences += _changed_files(stored)
    for file, values in old_values.items():
        no_values = values[:0]
        differences += _differences(file, values, new_values.get(file, no_values))
    n_compared = sum(map(len, old_values.values()))
    return Verification(name, n_compared, tuple(differences), notes)


def _changed_files(path: Path) -> list[str]:
    """Return the changed files of a stored result, by their checksums; [] if none was changed."""
    try:
        check_folder(path)
    except DataError as exc:
        return [str(exc)]
    return []


def _stored_values(path: Path) -> tuple[dict[str, pd.Series[Any]], str]:
    """Return file -> its values, and the fingerprint of the dataset.

    The files are scores.csv (values by query and measure) and run.trec (by query and document). If the
    configuration wrote tables in place of a result, they are these tables (values by row and column),
    and the fingerprint is "".
    """
    if tables := tables_of(path):
        return {table.name: _table_values(table) for table in tables}, ""
    result = load_result(path, check=False)
    scores = result.scores.set_index(["query_id", "measure"])["value"]
    rows = []
    for query_id, score_of_doc in result.run.items():
        for doc_id, score in score_of_doc.items():
            rows.append((query_id, doc_id, score))
    run = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    run_scores = run.set_index(["query_id", "doc_id"])["score"]
    fingerprint = str(result.config["dataset"].get("fingerprint"))
    return {"scores.csv": scores, "run.trec": run_scores}, fingerprint


def _table_values(table: Path) -> pd.Series[Any]:
    """Return the values of a CSV or Parquet file by row and column."""
    read: Any = pd.read_csv if table.suffix == ".csv" else pd.read_parquet
    values: pd.Series[Any] = read(table).stack(future_stack=True)
    return values


def _differences(file: str, then: pd.Series[Any], now: pd.Series[Any]) -> Iterator[str]:
    """Yield a line for each value that differs or is missing on one side. Numbers that differ by 1 in
    the sixth decimal count as equal: that is rounding.

    >>> index = pd.MultiIndex.from_product([["q1"], ["R@5", "MRR", "P@1"]])
    >>> then, now = (pd.Series(row, index) for row in ([0.501366, 0.5, None], [0.501367, 0.50001, None]))
    >>> list(_differences("scores.csv", then, now))
    ['scores.csv, q1, MRR: stored 0.5, now 0.50001']
    """
    index = then.index.union(now.index)
    # texts in place of missing values, so that these are equal on both sides
    then = _with_missing_as_text(then).reindex(index, fill_value="not there")
    now = _with_missing_as_text(now).reindex(index, fill_value="not there")
    then_numbers = pd.to_numeric(then, errors="coerce")  # NaN for a text
    now_numbers = pd.to_numeric(now, errors="coerce")
    is_rounding = (then_numbers - now_numbers).abs() < _ROUNDING
    differs = (then != now) & ~is_rounding
    for key, old, new in zip(then.index[differs], then[differs], now[differs], strict=True):
        yield f"{file}, {', '.join(map(str, key))}: stored {old}, now {new}"


def _with_missing_as_text(values: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values, with the text "unscored" in place of each missing one."""
    stated = ["unscored" if pd.isna(value) else value for value in values]
    return pd.Series(stated, index=values.index, dtype=object)
