"""One run of a sweep: the folders, variables and settings that its worker reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ragbench.evaluation import configuration
from ragbench.llms import current_settings
from ragbench.sweep.notebooks import is_installed
from ragbench.sweep.sweep_folder import SweepFolder


class Place(NamedTuple):
    """Where a run belongs: its notebook's file and text, the folder in which it works, and how long
    it may take.
    """

    notebook: Path
    text: str
    cwd: Path
    run_timeout: float


@dataclass(frozen=True)
class Job:
    """One run of a notebook, written in the folder `staging`.

    It works in `cwd`, so that relative paths in its parameters mean the same wherever the sweep is
    started, which was in `started_in`. `notebook` is the path of its source, from the sweep's
    folder, and `text` the content. `source` goes into its config.json (None: it leaves no result,
    like a comparison), `stamp` into its notebook's metadata. `environment` are variables that its
    process gets.
    """

    PATHS: ClassVar = ("staging", "cwd", "started_in")

    name: str
    staging: Path
    cwd: Path
    started_in: Path
    run_timeout: float
    notebook: str
    text: str
    parameters: Mapping[str, Any]
    source: Mapping[str, str] | None
    stamp: Mapping[str, Any]
    environment: Mapping[str, str]
    allow_failed: bool

    @property
    def input(self) -> Path:
        """Return the notebook to execute."""
        return self.staging / "source.ipynb"

    @property
    def output(self) -> Path:
        """Return the executed notebook."""
        return self.staging / f"{self.name}.ipynb"

    @property
    def results(self) -> Path:
        """Return the folder that the notebook saves its result in."""
        return self.staging / self.name

    @property
    def progress(self) -> Path:
        """Return the file with the line that a run at work would show on a terminal."""
        return self.staging / "progress.txt"

    @property
    def configuration(self) -> dict[str, Any]:
        """Return the parameters but those that only say where results go."""
        return configuration(self.parameters)

    @property
    def renamed(self) -> dict[str, str]:
        """Return text in the notebook -> its replacement: paths in the staging folder become paths
        in the sweep's folder.
        """
        folder = self.staging.name
        return {
            # the results, as paths are written on Linux and on Windows; then all other files
            f"{folder}/{self.name}": self.name,
            f"{folder}\\{self.name}": self.name,
            f"{folder}/": "",
        }

    @property
    def folders(self) -> dict[str, str]:
        """Return folders of this machine and what replaces them in the notebook."""
        all_sweeps = self.staging.parent.parent  # the parent of the sweep's folder
        return {
            str(self.cwd): ".",
            str(all_sweeps): all_sweeps.name,
            str(self.started_in): ".",
        }

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Return the job of a file that `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, **{name: Path(fields[name]) for name in cls.PATHS}})


def make_job(
    folder: SweepFolder,
    name: str,
    place: Place,
    parameters: Mapping[str, Any],
    *,
    source: Mapping[str, str] | None,
    stamp: Mapping[str, Any],
    allow_failed: bool = False,
) -> Job:
    """Return the job of a run whose files go into a sweep's folder, with the settings in force.

    A job with a `source`, which leaves a result, gets the parameter `results_dir`, the folder for it.
    The other arguments are fields of `Job`.
    """
    staging = folder.staging(name)
    all_parameters = dict(parameters)
    if source is not None:
        all_parameters["results_dir"] = relative(staging / name, place.cwd)
    return Job(
        name=name,
        staging=staging,
        cwd=place.cwd,
        started_in=Path.cwd(),
        run_timeout=place.run_timeout,
        notebook=relative(place.notebook, folder.path),
        text=place.text,
        parameters=all_parameters,
        source=source,
        stamp=stamp,
        environment=current_settings().environment,
        allow_failed=allow_failed,
    )


def relative(path: Path, start: Path) -> str:
    """Return the path from `start`, with slashes; absolute if there is none (another drive on
    Windows).

    A file of the installed package is named from there: where that is differs between machines.
    """
    if is_installed(path):
        return f"<ragbench>/notebooks/{path.name}"
    try:
        return Path(os.path.relpath(path, start)).as_posix()
    except ValueError:
        return path.as_posix()
