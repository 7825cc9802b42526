"""The files of each client below --root: where test sets, documents, systems and results are, and
which names requests may use for them; they give no paths.

::

    ROOT/testsets/ documents/ systems/ results/      of client "", whose runs the commands make
    ROOT/sent/                                       its items sent to /ingest and /evaluation/test-cases
    ROOT/clients/acme/testsets/ ...                  of client "acme"; it may use the systems in ROOT/systems/, too
"""

import json
import logging
import re
import threading
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import HTTPException

from ragbench.errors import DataError, unknown
from ragbench.retrieval.retrievers import RETRIEVERS
from ragbench.service.sent_files import CASES as CASES
from ragbench.testsets.cases import case_line, entry_of_case
from ragbench.testsets.forms import SUFFIXES, form_of, load_testset
from ragbench.types import Dataset

NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,78}[A-Za-z0-9_-])?"
"""The names of test sets, systems, series and clients: never a path."""
_LOG = logging.getLogger("ragbench.service")
_TESTSETS = 200  # that a client may have
_SMALL = 300_000
"""Bytes of a file up to which several test sets stay in memory, where each takes 50 times as much."""
_large_load = threading.Lock()


class Folder:
    """The files of one client.

    Raises:
        HTTPException: 404 for a client whose name cannot name a folder.
    """

    def __init__(self, root: Path, client: str) -> None:
        if client and not re.fullmatch(NAME, client):
            raise HTTPException(404, f"there is no client {client!r}")
        self.root = root
        self.path = root / "clients" / client if client else root
        self.sent = self.path / "sent"

    @property
    def corpus(self) -> Path:
        """Return the file of the documents that were sent, else the one in `documents/`, which need
        not exist.
        """
        sent = self.sent / "corpus.jsonl"
        return sent if sent.is_file() else self.path / "documents" / "corpus.jsonl"

    def testsets(self) -> dict[str, Path]:
        """Return name -> path of each test set: tests.yaml (which `ragbench init` writes), the files and
        folders in `testsets/`, and the file of the cases that were sent one by one.
        """
        paths = [*self.path.glob("tests.yaml"), *sorted((self.path / "testsets").glob("*"))]
        paths += self.sent.glob(f"{CASES}.jsonl")
        testsets = {}
        for path in paths:
            is_testset = path.is_dir() or path.suffix in SUFFIXES
            if is_testset and re.fullmatch(NAME, path.name) and self.holds(path):
                testsets[testset_name(path)] = path
        return testsets

    def testset(self, name: str) -> Path:
        """Return the path of a test set; 404 without one of this name."""
        paths = self.testsets()
        if name not in paths:
            raise HTTPException(404, unknown("dataset", name, paths))
        return paths[name]

    def new_testset(self, name: str) -> Path:
        """Return the path of a new test set; 409 if there is one of this name, 429 if there are too
        many.
        """
        names = self.testsets()
        if name in names:
            raise HTTPException(
                409, f"there is a dataset {name!r} already; remove it first, or choose another name"
            )
        if len(names) >= _TESTSETS:
            raise HTTPException(429, f"a client may have {_TESTSETS} datasets; remove some first")
        (self.path / "testsets").mkdir(parents=True, exist_ok=True)
        return self.path / "testsets" / f"{name}.jsonl"

    def system(self, name: str) -> str:
        """Return the argument of `ragbench eval` for a system: the path of its file, or a retriever.

        A file in systems/ comes before a retriever of ragbench's own pipeline. "" is the file
        `default`, or else bm25. 404 without such a system.
        """
        files = self._system_files()
        chosen = files.get(name or "default")
        if chosen is not None:
            return str(chosen)
        if name and name not in RETRIEVERS:
            text = unknown("system", name, [*files, *RETRIEVERS])
            raise HTTPException(404, f"{text}; expected a file systems/{name}.toml or .jsonl")
        return name or "bm25"

    def _system_files(self) -> dict[str, Path]:
        """Return name -> file of each system.

        A file of the client replaces one of the server with this name, and .toml replaces .jsonl.
        """
        files = {}
        for folder in (self.root, self.path):  # later files replace earlier ones
            systems = folder / "systems"
            for path in [*sorted(systems.glob("*.jsonl")), *sorted(systems.glob("*.toml"))]:
                if re.fullmatch(NAME, path.stem) and path.is_file() and self.holds(path):
                    files[path.stem] = path
        return files

    def holds(self, path: Path) -> bool:
        """Return True if a path is below the root, wherever links lead."""
        return path.resolve().is_relative_to(self.root)


def clients_in(root: Path) -> list[str]:
    """Return the clients who have files: "", whose runs the commands make, and each in `clients/`."""
    names = sorted(path.name for path in (root / "clients").glob("*") if path.is_dir())
    return ["", *(name for name in names if re.fullmatch(NAME, name))]


def testset_name(path: Path) -> str:
    """Return the name by which requests name a test set."""
    return path.name if path.is_dir() else path.stem


def load(path: Path) -> Dataset:
    """Return a test set; a file that has not changed since it was read is not read again.

    Raises:
        DataError: it cannot be read. The reason, which may quote files, is in the log alone.
    """
    try:
        if path.is_dir():
            return load_testset(path)
        state = _state(path)
        if path.stat().st_size <= _SMALL:
            return _cached(path, *state)
        with _large_load:  # one large test set at a time is read, and only the last is cached
            return _cached_large(path, *state)
    except DataError as exc:
        _LOG.warning("%s", exc)
        raise DataError(
            f"the data set {testset_name(path)!r} cannot be read; `ragbench testset validate` "
            "shows the reasons on the server"
        ) from None


@lru_cache(maxsize=16)
def _cached(path: Path, *state: int) -> Dataset:
    return load_testset(path)


@lru_cache(maxsize=1)
def _cached_large(path: Path, *state: int) -> Dataset:
    return load_testset(path)


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers that differ once a file is changed."""
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


def cases_in(path: Path) -> list[dict[str, Any]]:
    """Return the cases of a test set as records of ragbench's own form."""
    data = load(path)
    return [case_line(entry_of_case(data, case)) for case in data.cases]


def described(path: Path) -> dict[str, Any]:
    """Return a test set as a list of data sets shows it: name, form, numbers and times."""
    contents = _contents(path) if path.is_dir() else _contents_of_file(path, *_state(path))
    provenance_file = path / "testset.json"  # of a folder that was generated
    provenance = {}
    if provenance_file.is_file():
        provenance = json.loads(provenance_file.read_text(encoding="utf-8"))
    changed_at = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return {
        "name": testset_name(path),
        "form": form_of(path),
        **contents,
        "created_at": provenance.get("created_at") or changed_at,
        "changed_at": changed_at,
    }


def _contents(path: Path) -> dict[str, Any]:
    """Return the numbers of questions and documents, the fingerprint and the categories."""
    dataset = load(path)
    return {
        "questions": len(dataset.cases),
        "documents": len(dataset.corpus),
        "fingerprint": dataset.fingerprint,
        "categories": sorted({case.category for case in dataset.cases if case.category}),
    }


@lru_cache(maxsize=10_000)
def _contents_of_file(path: Path, *state: int) -> dict[str, Any]:
    return _contents(path)
