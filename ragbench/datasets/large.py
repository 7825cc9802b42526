"""A corpus that is read from the disk, for collections that do not fit in memory."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ragbench import store
from ragbench.datasets.jsonl import parsed
from ragbench.datasets.records import document, document_line, empty, identifier, repeated
from ragbench.errors import DataError
from ragbench.types import Document

LARGE_BYTES = 256_000_000
"""A corpus.jsonl of this size or more becomes a `LargeCorpus`; in memory one takes about three
times its file.
"""

_ROWS = 10_000  # documents of a batch of the file; all batches but the last have so many
_COLUMNS = ("doc_id", "title", "text", "metadata")


class LargeCorpus(Mapping[str, Document]):
    """doc_id -> `Document`, in the order of the file, from an Arrow file that is mapped into
    memory.

    A document is made when it is asked for; per document 16 bytes, of the file too, say where an id
    is. `place` is the folder that `large_corpus` keeps in the cache.
    """

    def __init__(self, place: Path) -> None:
        import pyarrow

        self._place = place
        reader = pyarrow.ipc.open_file(pyarrow.memory_map(str(place / "documents.arrow")))
        self._batches = [reader.get_batch(i).columns for i in range(reader.num_record_batches)]
        hashes, rows = (
            np.load(place / f"{name}.npy", mmap_mode="r") for name in ("hashes", "rows")
        )
        self._hashes, self._rows = np.asarray(hashes), np.asarray(rows)
        if sum(len(columns[0]) for columns in self._batches) != len(rows):
            raise OSError(f"{place} is not whole")

    def __reduce__(self) -> tuple[Any, ...]:
        return LargeCorpus, (self._place,)

    def __repr__(self) -> str:
        return f"LargeCorpus({len(self):,} documents)"

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        for batch in self._batches:
            yield from batch[0].to_pylist()

    def __getitem__(self, doc_id: str) -> Document:
        return self.at(self.number(doc_id))

    def __contains__(self, doc_id: object) -> bool:
        try:
            self.number(doc_id)
        except KeyError:
            return False
        return True

    def values(self) -> ValuesView[Document]:
        return _Values(self)

    def items(self) -> ItemsView[str, Document]:
        return _Items(self)

    def documents(self) -> Iterator[Document]:
        """Yield all documents, in order."""
        for batch in self._batches:
            for values in zip(*(column.to_pylist() for column in batch), strict=True):
                yield _document(*values)

    def at(self, number: int) -> Document:
        """Return the document of that number, from 0."""
        batch, row = self._batches[number // _ROWS], number % _ROWS
        return _document(*(column[row].as_py() for column in batch))

    def id_at(self, number: int) -> str:
        """Return its id alone."""
        return str(self._batches[number // _ROWS][0][number % _ROWS].as_py())

    def number(self, doc_id: object) -> int:
        """Return the number of the document with that id; KeyError where there is none."""
        if isinstance(doc_id, str):
            wanted = np.uint64(_hash(doc_id))
            place = int(self._hashes.searchsorted(wanted))
            while place < len(self) and self._hashes[place] == wanted:
                if self.id_at(number := int(self._rows[place])) == doc_id:
                    return number
                place += 1
        raise KeyError(doc_id)


class _Values(ValuesView[Document]):
    _mapping: LargeCorpus

    def __iter__(self) -> Iterator[Document]:
        return self._mapping.documents()


class _Items(ItemsView[str, Document]):
    _mapping: LargeCorpus

    def __iter__(self) -> Iterator[tuple[str, Document]]:
        return ((found.doc_id, found) for found in self._mapping.documents())


def large_corpus(file: Path) -> LargeCorpus:
    """Return the documents of a corpus.jsonl, which is read once, line by line, and kept in the
    cache by its content.

    Raises:
        DataError: as for a file that is read into memory: the first line that is wrong, or has an
        id of another.
    """
    with file.open("rb") as opened:
        key = store.digest("corpus 1", hashlib.file_digest(opened, "sha256").hexdigest())
    return store.kept("corpus", key, lambda folder: _build(file, folder), LargeCorpus)


def mapped(documents: Iterable[Document]) -> Mapping[str, Document]:
    """Return documents by id: in memory, or from a file where their texts have `LARGE_BYTES` or
    more.
    """
    kept: dict[str, Document] = {}
    size, rest = 0, iter(documents)
    for one in rest:
        kept[one.doc_id] = one
        size += len(one.text)
        if size >= LARGE_BYTES:
            break
    else:
        return kept
    with TemporaryDirectory(prefix="ragbench-corpus-") as folder:
        file = Path(folder) / "corpus.jsonl"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(
                f"{json.dumps(document_line(one))}\n" for one in chain(kept.values(), rest)
            )
        return large_corpus(file)


def _build(file: Path, folder: Path) -> None:
    import pyarrow

    folder.mkdir()
    hashes, failed = array("Q"), None
    schema = pyarrow.schema([(name, pyarrow.large_string()) for name in _COLUMNS])
    with pyarrow.ipc.new_file(str(folder / "documents.arrow"), schema) as out:
        rows: list[tuple[str | None, ...]] = []

        def write() -> None:
            columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
            out.write_batch(
                pyarrow.record_batch(
                    [pyarrow.array(c, pyarrow.large_string()) for c in columns], schema
                )
            )
            rows.clear()

        try:
            for _, found in parsed(file, document):
                hashes.append(_hash(found.doc_id))
                metadata = json.dumps(dict(found.metadata)) if found.metadata else None
                rows.append((found.doc_id, found.title, found.text, metadata))
                if len(rows) == _ROWS:
                    write()
        except DataError as exc:
            failed = exc
        write()
    by_row = np.frombuffer(hashes, dtype=np.uint64)
    order = np.argsort(by_row, kind="stable")
    ordered = by_row[order]
    _refuse_repeated(file, {int(one) for one in ordered[1:][ordered[1:] == ordered[:-1]]})
    if failed is not None:
        raise failed
    if not hashes:
        raise empty(file, "document")
    np.save(folder / "hashes.npy", ordered)
    np.save(folder / "rows.npy", order)


def _refuse_repeated(file: Path, suspects: set[int]) -> None:
    """Raise DataError where an id is there twice, among those of a hash that is."""
    lines: dict[str, int] = {}
    for number, own_id in parsed(file, identifier) if suspects else ():
        if _hash(own_id) in suspects and lines.setdefault(own_id, number) != number:
            raise repeated(file, number, "document", own_id, lines[own_id])


def _document(doc_id: str, title: str, text: str, metadata: str | None) -> Document:
    return (
        Document(doc_id, text, title, json.loads(metadata))
        if metadata
        else Document(doc_id, text, title)
    )


def _hash(doc_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(doc_id.encode(), digest_size=8).digest(), "little")
