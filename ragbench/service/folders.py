"""The files of each client below --root: test sets, documents, systems, results. Requests name them, and give no paths.

::

    ROOT/testsets/ documents/ systems/ results/      of client "", which is that of the commands
    ROOT/clients/acme/testsets/ ...                  of client "acme"; it may use the systems in ROOT/systems/, too
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request

from ragbench.datasets.records import document_line
from ragbench.errors import DataError
from ragbench.files import locked, write_durably
from ragbench.retrieval.retrievers import RETRIEVERS
from ragbench.service.history_database import canonical
from ragbench.testsets.forms import SUFFIXES, form_of, read, save_testset
from ragbench.testsets.loader import load_testset
from ragbench.testsets.single_file import case_line, entry_of_case
from ragbench.types import Dataset, Document

NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,78}[A-Za-z0-9_-])?"
"""The names of test sets, systems, series and clients: never a path."""
_MEMBER = re.compile(rf"(?:qrels/)?{NAME}")


class Folder:
    """The files of one client.

    Raises:
        HTTPException: 404 for a client whose name cannot be that of a folder.
    """

    def __init__(self, root: Path, client: str) -> None:
        if client and not re.fullmatch(NAME, client):
            raise HTTPException(404, f"there is no client {client!r}")
        self.root, self.path = root, root / "clients" / client if client else root
        self.documents = self.path / "documents"

    def testsets(self) -> dict[str, Path]:
        """Name -> place, by name."""
        places = (self.path / "testsets").glob("*")
        return {
            place.name if place.is_dir() else place.stem: place
            for place in sorted(places)
            if re.fullmatch(NAME, place.name) and (place.is_dir() or place.suffix in SUFFIXES) and self.holds(place)
        }

    def testset(self, name: str) -> Path:
        """Where the test set of a name is; 404 without one."""
        if (place := self.testsets().get(name)) is None:
            raise HTTPException(404, f"there is no dataset {name!r}")
        return place

    def new_testset(self, name: str) -> Path:
        """Where a new test set goes; 409 where there is one of this name."""
        if name in self.testsets():
            raise HTTPException(409, f"there is a dataset {name!r} already; remove it first, or choose another name")
        (self.path / "testsets").mkdir(parents=True, exist_ok=True)
        return self.path / "testsets" / f"{name}.jsonl"

    def system(self, name: str) -> str:
        """What `ragbench eval --system` takes: a file of systems/, or a retriever of ragbench's own pipeline."""
        for folder in (self.path, self.root):
            for suffix in (".toml", ".jsonl"):
                place = folder / "systems" / f"{name or 'default'}{suffix}"
                if re.fullmatch(NAME, name or "default") and place.is_file() and self.holds(place):
                    return str(place)
        if name and name not in RETRIEVERS:
            raise HTTPException(404, f"there is no system {name!r}; expected a file systems/{name}.toml or .jsonl")
        return name or "bm25"

    def holds(self, place: Path) -> bool:
        """Whether a place is below the root, wherever links lead."""
        return place.resolve().is_relative_to(self.root)

    def write(self, name: str, text: str) -> Path:
        """A file of settings, named by its content."""
        place = self.path / "settings" / f"{sha256(text.encode()).hexdigest()[:16]}-{name}"
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            write_durably(place, text)
        return place

    def ingest(self, doc_id: str, text: str) -> bool:
        """Add a document, or replace the one with its id; whether it is new."""
        file = self.documents / "corpus.jsonl"
        date = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps(document_line(Document(doc_id, text, metadata={"date": date})), ensure_ascii=False) + "\n"
        with locked(self.documents / ".corpus.lock", timeout_s=60):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
            kept = [one for one in lines if json.loads(one)["_id"] != doc_id]
            write_durably(file, "".join([*kept, line]))
        return len(kept) == len(lines)


def clients_in(root: Path) -> list[str]:
    """The clients who have files: "", that of the commands, and those below `clients/`."""
    names = sorted(place.name for place in (root / "clients").glob("*") if place.is_dir())
    return ["", *(name for name in names if re.fullmatch(NAME, name))]


def folder_of(request: Request, client: str | None) -> Folder:
    """The files of a client; None = those of the commands."""
    return Folder(request.app.state.root, client or "")


def load(place: Path) -> Dataset:
    """A test set; of a file that has not changed, the one that was read last time."""
    if place.is_dir():
        return load_testset(place)
    state = place.stat()
    return _cached(place, state.st_mtime_ns, state.st_size, state.st_ino)


def cases_in(place: Path) -> dict[str, dict[str, Any]]:
    """The cases of a test set as records (`testsets.edits.case_record`), by id."""
    data = load(place)
    return {case.query_id: case_line(entry_of_case(data, case)) for case in data.cases}


@lru_cache(maxsize=16)
def _cached(place: Path, *state: int) -> Dataset:
    return load_testset(place)


def save_upload(place: Path, content: bytes, form: str, files: Mapping[str, str] | None = None) -> Dataset:
    """Check a test set that a request sent, in any form, and save it in ragbench's own.

    Args:
        form: "yaml", "json" or "jsonl".
        files: of a form that is a folder: name -> content.

    Raises:
        DataError: it has problems, or refers to documents that are elsewhere.
    """
    staging = Path(tempfile.mkdtemp())
    try:
        sent = staging / (place.stem if files else f"{place.stem}.{form}")
        for name, text in (files or {}).items():
            if not _MEMBER.fullmatch(name):
                raise DataError(f"{name!r} is not the name of a file of a test set; expected such as cases.jsonl")
            (sent / name).parent.mkdir(parents=True, exist_ok=True)
            (sent / name).write_text(text, encoding="utf-8")
        if not files:
            sent.write_bytes(content)
            if form in ("yaml", "jsonl") and read(sent, form).corpus:
                raise DataError("corpus refers to documents elsewhere; send them in the body, or to /ingest")
        dataset = replace(load_testset(sent), name=place.stem)
        save_testset(dataset, place, "jsonl")
        return dataset
    except DataError as exc:
        raise DataError(str(exc).replace(f"{staging}/", "")) from exc.__cause__
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def described(place: Path) -> dict[str, Any]:
    """What a list of data sets shows of one."""
    dataset = load(place)
    about = place / "testset.json"
    made = json.loads(about.read_text(encoding="utf-8")) if about.is_file() else {}
    return {
        "name": place.name if place.is_dir() else place.stem, "form": form_of(place), "questions": len(dataset.cases),
        "documents": len(dataset.corpus), "fingerprint": dataset.fingerprint,
        "categories": sorted({case.category for case in dataset.cases if case.category}),
        "created_at": made.get("created_at") or _time(place), "changed_at": _time(place),
    }  # fmt: skip


def _time(place: Path) -> str:
    return datetime.fromtimestamp(place.stat().st_mtime, UTC).isoformat(timespec="seconds")


def etag(record: Mapping[str, Any]) -> str:
    """The version of a case, for ETag and If-Match."""
    return f'"{sha256(canonical(dict(record)).encode()).hexdigest()[:32]}"'
