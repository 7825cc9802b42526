"""What the results of a grid are made from, besides their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError
from ragbench.sweep.grid import Grid
from ragbench.sweep.running import relative
from ragbench.types import Dataset


def working_folder(grid: Grid) -> Path:
    """The grid file's folder: the runs work there, so that paths in the grid mean the same wherever it is started."""
    return grid.path.resolve().parent


def source_of(grid: Grid) -> dict[str, str]:
    """What results are made from, besides their parameters; results made from something else are outdated."""
    return {
        "notebook": grid.notebook.path.name,
        "notebook_sha256": grid.notebook.digest,
        "dataset_fingerprint": _fingerprint(grid),
    }


def _fingerprint(grid: Grid) -> str:
    """The fingerprint of the grid's dataset, loaded once here so that its errors come before anything is spent."""
    parameters = next(iter(grid.runs.values()))
    if "dataset" not in parameters:
        return ""
    return str(load_named(parameters, working_folder(grid)).fingerprint)  # where the notebook will look for it


def load_named(parameters: Mapping[str, Any], folder: Path) -> Dataset:
    """The dataset that a configuration names, with documents where it cuts chunks."""
    from ragbench.datasets import check_documents, load_dataset

    here = Path.cwd()
    own = {name: parameters.get(name, "") for name in ("dataset", "corpus")}
    try:
        with chdir(folder):
            data = load_dataset(own["dataset"], split=parameters.get("split", "test"), corpus=own["corpus"])
    except (ConfigError, DataError) as exc:
        for name in filter(None, own.values()):
            if not (folder / name).exists() and (here / name).exists():
                hint = f"paths in a grid are relative to the grid file: {relative(here / name, folder)!r}"
                raise type(exc)(f"{exc} ({hint})") from exc
        raise
    if "chunker" in parameters:
        check_documents(data, "a sweep cuts documents into chunks")
    return data
