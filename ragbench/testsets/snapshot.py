"""Copies of a sweep's inputs at its start (test set, grid, description of a system), which its runs
read in place of newer files.

Small files (test set, grid, description of a system) are copied. Documents may be
large: they are not copied, and each run compares the fingerprint of its documents.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from ragbench.errors import DataError
from ragbench.types import Dataset, DatasetSource

SNAPSHOT_VARIABLE = "RAGBENCH_SNAPSHOT"
"""The environment variable that names the folder of the copies, in the processes of a sweep."""

_DATASET = "dataset.json"


def take_snapshot(
    folder: Path, files: Iterable[Path], source: DatasetSource | None, fingerprint: str
) -> None:
    """Copy files into a folder, and record there the source of the dataset and its fingerprint."""
    for path in files:
        copy = _copy_in(folder, path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    if source is not None:
        record = {"source": asdict(source), "fingerprint": fingerprint}
        (folder / _DATASET).write_text(json.dumps(record), encoding="utf-8")


def as_at_sweep_start(path: Path) -> Path:
    """Return the copy that a sweep took of a file at its start, in a run of this sweep. Outside of one,
    or without a copy, return the file itself.
    """
    folder = os.environ.get(SNAPSHOT_VARIABLE)
    if not folder:
        return path
    copy = _copy_in(Path(folder), path)
    return copy if copy.is_file() else path


def changed_since(folder: Path, files: Iterable[Path]) -> list[str]:
    """Return the names of the files that differ from their copies."""
    names = []
    for path in files:
        content = path.read_bytes() if path.is_file() else None
        if content != _copy_in(folder, path).read_bytes():
            names.append(path.name)
    return names


def check_unchanged(data: Dataset) -> None:
    """Check that the dataset of a sweep is the dataset at its start; do nothing outside of a sweep.

    Raises:
        DataError: the documents (or other files that were not copied) have changed.
    """
    path = Path(os.environ.get(SNAPSHOT_VARIABLE, ""), _DATASET)
    if SNAPSHOT_VARIABLE not in os.environ or not path.is_file() or data.source is None:
        return
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["source"] == asdict(data.source) and record["fingerprint"] != data.fingerprint:
        raise DataError(
            f"the documents of {Path(data.source.name).name} have changed since the sweep began; run "
            "the sweep again"
        )


def _copy_in(folder: Path, path: Path) -> Path:
    """Return the path of the copy of a file; it has the file's name."""
    place = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]
    return folder / place / path.name
