"""The folder of a sweep: when a configuration counts as finished, how a run's result is moved into
it, and what stays of failed and killed runs.

A run is written to a staging folder, `.running-<name>-<process>/`. When it has succeeded, its
result folder is moved into place and then its notebook: the notebook's rename is the one moment at
which a configuration becomes finished. A process killed before it leaves a staging folder that is
never read and that the next sweep removes.
"""

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, SweepError
from ragbench.evaluation import FILES, result_folders
from ragbench.evaluation.checksums import CONFIG, TIMINGS, without_checksums
from ragbench.evaluation.folder import JOURNAL, compared_folders
from ragbench.files import STAGING, flush_folder, locked, read_json, swap_in

COMPARISON = "comparison"
_LOCK_OF_ONE = f"{STAGING}lock-"  # the beginning of the lock files of configurations
_BEGIN_S = 60.0


@dataclass(frozen=True)
class SweepFolder:
    """The folder `results/<sweep>/`.

    Attributes:
        only: the configurations of this process, if several processes share the folder; () = all.
    """

    path: Path
    only: tuple[str, ...] = ()

    def notebook(self, name: str) -> Path:
        return self.path / f"{name}.ipynb"

    def failed_notebook(self, name: str) -> Path:
        return self.path / f"{name}.failed.ipynb"

    def staging(self, name: str) -> Path:
        return self.path / f"{STAGING}{name}-{os.getpid()}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other sweeps out of the folder during the block, and remove what killed sweeps left.

        There is a lock of the folder and one for each configuration. A sweep of all configurations
        holds the lock of the folder, and takes each lock of a configuration whose file is there, so
        that it fails while a sweep with `only` is at work. A sweep with `only` some configurations
        holds the locks of these to the end, so that several such sweeps can work side by side. It
        holds the lock of the folder only at the start, until it has its other locks.

        Raises:
            SweepError: another sweep is at work here.
        """
        with ExitStack() as held_to_end:
            with ExitStack() as held_at_start:
                # others with `only` soon release it, so a sweep with `only` waits for it
                wait_s = _BEGIN_S if self.only else 0
                self._lock(held_at_start, "lock", timeout_s=wait_s)
                names: Sequence[str] = self.only
                if not self.only:
                    lock_files = self.path.glob(f"{_LOCK_OF_ONE}*")
                    names = [path.name.removeprefix(_LOCK_OF_ONE) for path in lock_files]
                for name in names:
                    self._lock(held_to_end, f"lock-{name}", timeout_s=0)
                if not self.only:  # the lock of the folder, too, is held to the end
                    held_to_end.push(held_at_start.pop_all())
            self.clear()
            yield

    def _lock(self, stack: ExitStack, name: str, timeout_s: float) -> None:
        """Hold a lock until the stack closes: "lock" is the lock of the folder, "lock-NAME" of one
        configuration.

        Raises:
            SweepError: another process holds it for longer than `timeout_s`.
        """
        is_of_folder = name == "lock"
        file = self.path / f"{STAGING}{name}"
        try:
            stack.enter_context(locked(file, timeout_s=timeout_s, remove=not is_of_folder))
        except TimeoutError as exc:
            what = f"{self.path}"
            if not is_of_folder:
                what = f"{name.removeprefix('lock-')} in {self.path}"
            raise SweepError(
                f"another sweep is writing to {what}; wait for it, or use another --output or "
                "another name"
            ) from exc

    def clear(self) -> None:
        """Remove the staging folders of unfinished runs, of any process, but keep their journals. If there
        are `only` some configurations, the folders of other configurations stay.

        The caller must hold the lock, and no run of this process may be at work.
        """
        own_stems = {f"{STAGING}{name}" for name in self.only}
        for staging in self.path.glob(f"{STAGING}*"):
            if not staging.is_dir():  # lock files have such names, too
                continue
            # the name of a staging folder ends with the id of the process that made it
            stem, _, process = staging.name.rpartition("-")
            is_own = stem in own_stems and process.isdigit()
            if is_own or not self.only:
                self._move_journal(staging)
                # a worker of a killed sweep may live for another moment and still write there
                shutil.rmtree(staging, ignore_errors=True)

    def is_finished(
        self, name: str, parameters: Mapping[str, Any], source: Mapping[str, str]
    ) -> bool:
        """Return True if a configuration has a complete result of these parameters and this source.

        Its executed notebook must be whole, and its folder must have every file of a result; or
        config.json and the tables that the notebook wrote in place of a result.

        Args:
            name: of the configuration.
            parameters: the parameters that its config.json must have.
            source: the inputs that its config.json must have: name -> checksum of the notebook, the
                dataset and so on.
        """
        folder = self.path / name
        needed: Sequence[str] = FILES
        if tables_of(folder):
            needed = ["config.json"]
        config = self.config(name)
        return (
            _is_json(self.notebook(name))
            and all((folder / file).is_file() for file in needed)
            and config.get("parameters") == parameters
            and config.get("source") == source
        )

    def config(self, name: str) -> dict[str, Any]:
        """Return the content of config.json of a result; {} if it cannot be read, so that the
        configuration counts as unfinished.
        """
        try:
            config = read_json(self.path / name / "config.json", hint="")
        except DataError:
            return {}
        return config if isinstance(config, dict) else {}

    def others(self, names: Collection[str]) -> list[str]:
        """Return the results in the folder that are not among `names`."""
        return [path.name for path in result_folders(self.path) if path.name not in names]

    def keep(self, name: str) -> None:
        """Make the result of a successful run the result of its configuration: move its files from
        `staging(name)` into place, and remove the files of an older run.

        The notebook is what makes a configuration finished. The old one is removed first and the new
        one moved last, so that a process killed in between leaves a configuration that is not finished.
        """
        staging = self.staging(name)
        notebook = self.notebook(name)
        notebook.unlink(missing_ok=True)
        self.forget_journals(name)
        self._move_journal(staging)  # a run of a race has one: it answers more questions later
        # a comparison has a notebook and no result
        result = staging / name
        if result.is_dir():
            swap_in(result, self.path / name, staging / "old")
        (staging / notebook.name).replace(notebook)
        self.failed_notebook(name).unlink(missing_ok=True)
        flush_folder(self.path)
        shutil.rmtree(staging, ignore_errors=True)

    def keep_failed(self, name: str) -> None:
        """Keep the notebook of a failed run as NAME.failed.ipynb, and the journal of its answers. Delete
        its other files, and an older result of the configuration, which the run was to replace.
        """
        staging = self.staging(name)
        self.notebook(name).unlink(missing_ok=True)  # now the configuration is not finished
        old_result = self.path / name
        if old_result.is_dir():
            old_result.rename(staging / "old")  # is deleted with the staging folder below
        executed_notebook = staging / f"{name}.ipynb"
        if executed_notebook.is_file():
            executed_notebook.replace(self.failed_notebook(name))
        self.drop_all_but_journal(name)

    def drop_all_but_journal(self, name: str) -> None:
        """Remove the files of a run that is not finished, but keep the journal of its answers."""
        self._move_journal(self.staging(name))
        shutil.rmtree(self.staging(name), ignore_errors=True)

    def journal(self, name: str, source: Mapping[str, str]) -> Path:
        """Return the path of the answers of a service that came before a run was stopped.

        The name of the file depends on the system and the data, so that no other answers are used.
        """
        made_from = [source.get("dataset_fingerprint"), source.get("system_sha256")]
        digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:12]
        return self.path / f".journal-{name}-{digest}.jsonl"

    def forget_journals(self, name: str) -> None:
        """Remove the journals of a configuration, from any system and data."""
        for path in self.path.glob(f".journal-{glob.escape(name)}-{'?' * 12}.jsonl"):
            path.unlink(missing_ok=True)

    def _move_journal(self, staging: Path) -> None:
        """Move the journal of a run that is not finished out of its folder."""
        with suppress(OSError, ValueError, KeyError, TypeError):  # there is no journal or no job
            job = json.loads((staging / "job.json").read_text(encoding="utf-8"))
            journal = staging / job["name"] / JOURNAL
            journal.replace(self.journal(job["name"], job["source"] or {}))

    def digest(self) -> str:
        """Return the SHA-256 of everything that a comparison notebook reads: all files of the compared
        results, without the checksums in them.
        """
        sha = hashlib.sha256()
        for folder in compared_folders(self.path):
            tables = [table.name for table in tables_of(folder)]
            for file in (*FILES, *tables):
                path = folder / file
                data = path.read_bytes() if path.is_file() else b""
                if file in (CONFIG, TIMINGS):
                    data = without_checksums(data)
                sha.update(f"{folder.name}/{file}:{len(data)}:".encode())
                sha.update(data)
        return sha.hexdigest()


def tables_of(folder: Path) -> list[Path]:
    """Return the paths of the tables that a notebook wrote into a folder in place of a result, sorted;
    [] if the folder holds a result.
    """
    if (folder / "scores.csv").exists():
        return []
    tables = []
    for path in folder.glob("*.*"):
        if path.suffix in (".csv", ".parquet") and path.name != "leaderboard.csv":
            tables.append(path)
    return sorted(tables)


def _is_json(path: Path) -> bool:
    """Return True if a file is there and whole, as far as its form can tell."""
    try:
        read_json(path, hint="")
    except (OSError, ValueError):
        return False
    return True
