"""What the results of a grid are made from, in addition to their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.sweep.grid import Grid
from ragbench.sweep.job import relative
from ragbench.sweep.notebooks import is_installed
from ragbench.systems.loader import system_digest
from ragbench.types import Dataset


def working_folder(grid: Grid) -> Path:
    """The grid file's folder: the runs work there, so that paths in the grid mean the same wherever it is started.

    For a grid of the installed package, which may be read-only, it is the folder in which this process works.
    """
    return Path.cwd() if is_installed(grid.path) else grid.path.resolve().parent


def source_of(grid: Grid) -> dict[str, str]:
    """What results are made from, in addition to their parameters; results made from something else are outdated."""
    return {
        "notebook": grid.notebook.path.name,
        "notebook_sha256": grid.notebook.digest,
        "dataset_fingerprint": _fingerprint(grid),
    }


def sources_of(grid: Grid) -> dict[str, dict[str, str]]:
    """`source_of` for each configuration; one whose system is described by a file or a module has its SHA-256 too."""
    source, folder = source_of(grid), working_folder(grid)
    return {
        name: {**source, "system_sha256": system_digest(str(own["system"]), folder)} if own.get("system") else source
        for name, own in grid.runs.items()
    }


def system_path(system: str, folder: Path) -> str:
    """A system's name as this process finds it: the path of its file, or the name as it is."""
    return located(system, folder) if system.endswith((".toml", ".jsonl")) else system


def _fingerprint(grid: Grid) -> str:
    """The fingerprint of the grid's dataset, loaded once here so that its errors come before anything is spent."""
    parameters = next(iter(grid.runs.values()))
    if "dataset" not in parameters:
        return ""
    return str(load_named(parameters, working_folder(grid)).fingerprint)  # where the notebook will look for it


def load_named(parameters: Mapping[str, Any], folder: Path) -> Dataset:
    """The dataset that a configuration names, with documents where it cuts chunks."""
    from ragbench.datasets import check_documents, load_dataset

    dataset, corpus = (located(parameters.get(name, ""), folder) for name in ("dataset", "corpus"))
    data = load_dataset(dataset, split=parameters.get("split", "test"), corpus=corpus)
    if "chunker" in parameters:
        check_documents(data, "a sweep cuts documents into chunks")
    return data


def located(name: str, folder: Path) -> str:
    """A name as a run in `folder` takes it: the path of what is there, otherwise the name as it is.

    Raises:
        ConfigError: it is only there from where this process works.
    """
    if not name or (folder / Path(name).expanduser()).exists():
        return name and str(folder / Path(name).expanduser())
    if Path(name).exists():
        there = relative(Path(name).absolute(), folder)
        raise ConfigError(f"{name!r} is not in {folder}; paths in a grid are relative to the grid file: {there!r}")
    return name
