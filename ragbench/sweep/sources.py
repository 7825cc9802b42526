"""What the results of a grid are made from, besides their parameters."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

from ragbench.errors import ConfigError, DataError
from ragbench.sweep.grid import Grid
from ragbench.sweep.running import relative


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
    from ragbench.datasets import load_dataset

    name, here = parameters["dataset"], Path.cwd()
    try:
        with chdir(working_folder(grid)):  # where the notebook will look for it
            return str(load_dataset(name, split=parameters.get("split", "test")).fingerprint)
    except (ConfigError, DataError) as exc:
        if not (working_folder(grid) / name).exists() and (here / name).exists():
            hint = f"paths in a grid are relative to the grid file: {relative(here / name, working_folder(grid))!r}"
            raise type(exc)(f"{exc} ({hint})") from exc
        raise
