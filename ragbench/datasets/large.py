"""A corpus that is read from the disk, for collections that do not fit in memory, and the size from
which one is.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragbench import store
from ragbench.datasets.jsonl import parsed
from ragbench.datasets.raw_records import document, document_line, empty, identifier, repeated
from ragbench.types import Document

LARGE_BYTES = 256_000_000
"""A corpus.jsonl of this size or more becomes a `LargeCorpus`; in memory one takes about three
times its file.
"""

_TABLE = (
    "CREATE TABLE documents (number INTEGER PRIMARY KEY, doc_id TEXT UNIQUE, text TEXT, "
    "title TEXT, metadata TEXT)"
)
_SELECT = "SELECT doc_id, text, title, metadata FROM documents"


class LargeCorpus(Mapping[str, Document]):
    """doc_id -> `Document`, in the order of the file, from an SQLite file that `large_corpus` keeps
    in the cache. Threads may share it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        address = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
        self._database = sqlite3.connect(address, uri=True, check_same_thread=False)
        [(last,)] = self._database.execute("SELECT max(number) FROM documents")
        self._length: int = last + 1

    def __reduce__(self) -> tuple[Any, ...]:
        return LargeCorpus, (self._file,)

    def __repr__(self) -> str:
        return f"LargeCorpus({len(self):,} documents)"

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        for (doc_id,) in self._database.execute("SELECT doc_id FROM documents ORDER BY number"):
            yield doc_id

    def __getitem__(self, doc_id: str) -> Document:
        return self._document("doc_id", doc_id)

    def at(self, number: int) -> Document:
        """Return the document of that number, from 0."""
        return self._document("number", number)

    def number(self, doc_id: str) -> int:
        """Return the number of the document with that id.

        Raises:
            KeyError: no document has the id.
        """
        select = "SELECT number FROM documents WHERE doc_id = ?"
        for (number,) in self._database.execute(select, (doc_id,)):
            return int(number)
        raise KeyError(doc_id)

    def _document(self, column: str, value: str | int) -> Document:
        """Return the document with a value in a column of the table; KeyError if there is none."""
        rows = self._database.execute(f"{_SELECT} WHERE {column} = ?", (value,))
        for doc_id, text, title, metadata in rows:
            return Document(doc_id, text, title, json.loads(metadata))
        raise KeyError(value)


def large_corpus(file: Path) -> LargeCorpus:
    """Return the documents of a corpus.jsonl, which is read once, line by line, and kept in the
    cache by its content.

    Raises:
        DataError: a line is wrong or repeats an id (the first such line is named).
    """
    with file.open("rb") as opened:
        key = store.digest("corpus 2", hashlib.file_digest(opened, "sha256").hexdigest())
    return store.kept("corpus", key, lambda built: _build(file, built), LargeCorpus)


def mapped(documents: Iterable[Document]) -> Mapping[str, Document]:
    """Return documents by id, so that a large corpus never has to fit into memory: with
    `LARGE_BYTES` characters of text or more, they are read from a database on disk.
    """
    in_memory: dict[str, Document] = {}
    n_characters = 0
    remaining = iter(documents)
    for item in remaining:
        in_memory[item.doc_id] = item
        n_characters += len(item.text)
        if n_characters >= LARGE_BYTES:
            # the documents so far, then those that the loop has not reached
            return _on_disk(chain(in_memory.values(), remaining))
    return in_memory


def _on_disk(documents: Iterable[Document]) -> LargeCorpus:
    """Write documents to a temporary corpus.jsonl, and return the corpus built from it in the cache."""
    with TemporaryDirectory(prefix="ragbench-corpus-") as folder:
        file = Path(folder) / "corpus.jsonl"
        with file.open("w", encoding="utf-8") as out:
            for item in documents:
                out.write(f"{json.dumps(document_line(item))}\n")
        return large_corpus(file)


def _build(source: Path, built: Path) -> None:
    """Write the database `built` from the corpus.jsonl `source`.

    Raises:
        DataError: a line is wrong or repeats an id, or the file is empty.
    """
    n_documents = 0
    with closing(sqlite3.connect(built)) as database:
        database.execute(_TABLE)
        insert = "INSERT INTO documents VALUES (?, ?, ?, ?, ?)"
        for line, item in parsed(source, document):
            metadata = json.dumps(dict(item.metadata))
            try:
                database.execute(
                    insert, (n_documents, item.doc_id, item.text, item.title, metadata)
                )
            except sqlite3.IntegrityError:
                first_line = _first_line_with(item.doc_id, source)
                raise repeated(source, line, "document", item.doc_id, first_line) from None
            n_documents += 1
        database.commit()
    if n_documents == 0:
        raise empty(source, "document")


def _first_line_with(doc_id: str, source: Path) -> int:
    """Return the number of the first line of a corpus.jsonl with this id."""
    return next(line for line, other_id in parsed(source, identifier) if other_id == doc_id)
