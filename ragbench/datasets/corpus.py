"""Documents without questions, from which test sets are generated: a folder of files (by their
endings: texts, Markdown, PDF, ...) or a table.
"""

import json
import mimetypes
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.datasets import is_collection, load_collection
from ragbench.datasets.beir import read_corpus, unique_records
from ragbench.datasets.documents import EXTRA, text_of_docx, text_of_pdf
from ragbench.datasets.html import text_of_html
from ragbench.datasets.jsonl import shown
from ragbench.datasets.raw_records import case
from ragbench.errors import DataError, DataWarning, MissingExtraError, warn_user
from ragbench.files import expanded, write_durably
from ragbench.hints.calls import explaining_calls
from ragbench.store import cache_folder, digest
from ragbench.types import Dataset, Document, as_documents


def _plain_text(content: bytes) -> str:
    """Return the text of a file in UTF-8, with line feeds as line breaks; ValueError for a binary file."""
    text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise ValueError("it is a binary file")
    return text


_READERS: Mapping[str, tuple[Callable[[bytes], str], str]] = {
    **dict.fromkeys((".md", ".rst", ".txt"), (_plain_text, "a text (take it out of the folder)")),
    **dict.fromkeys((".html", ".htm"), (text_of_html, "an HTML page")),
    ".pdf": (
        text_of_pdf,
        "a PDF file that opens without a password (or take it out of the folder)",
    ),
    ".docx": (text_of_docx, "a Word document (save it again, or take it out of the folder)"),
}
"""Suffix of a file -> the function that returns its text, and the kind of file it expects."""

SUFFIXES = tuple(_READERS)

_MEDIA = ("image/", "audio/", "video/", "font/", "text/css", "text/javascript")


class UnreadWarning(DataWarning):
    """Files of a folder that are not read, by their types.

    A terminal or a notebook shows it once for a folder, and again when other files are not read.
    """

    def __init__(self, text: str, folder: Path, reason: str) -> None:
        super().__init__(text)
        self._key = digest(str(folder.resolve()), reason)

    def is_known(self) -> bool:
        """Return True if this warning was shown before, in any process; else record that it is shown
        now.

        The record is an empty file in the cache folder. A cache that cannot be written remembers nothing.
        """
        try:
            record = cache_folder() / "shown" / self._key
            if record.exists():
                return True
            record.parent.mkdir(exist_ok=True)
            write_durably(record, "")
        except (OSError, ValueError):
            return False
        return False


@explaining_calls()
def load_corpus(path: str | Path) -> Dataset:
    """Return a dataset of documents, which may lack questions. `path` is a corpus.jsonl, a folder with
    one, a folder of texts, a .parquet file (doc_id, text or contents), or a dataset's name.

    The questions of a dataset, or of a folder that also holds `queries.jsonl`, become the cases;
    qrels are not needed. Texts are the `.md`, `.rst`, `.txt`, `.html`, `.pdf` and `.docx` files below the
    folder (the last two with the extra `documents`); a document's id is its path inside the folder,
    its title is empty. HTML, PDF and DOCX files are reduced to their text. Hidden files and folders
    are left out; all other files that are not read, such as texts that are not in UTF-8, are counted
    by their type in one DataWarning, unless they are only images and the like.

    Raises:
        DataError: the path does not exist, or a file there cannot be read.
    """
    source = expanded(path)
    if not os.path.exists(source):
        if is_collection(path):
            return load_collection(path)
        raise DataError(
            f"there are no documents at {shown(str(path))}; expected a folder of texts, a "
            "corpus.jsonl, a .parquet file, or the name of a dataset (`ragbench list datasets`)"
        )
    if source.suffix == ".parquet" and source.is_file():
        return Dataset(source.stem, "test", _documents_in_parquet(source), (), {})
    corpus_file = source / "corpus.jsonl" if source.is_dir() else source
    if source.is_dir() and not corpus_file.is_file():
        return Dataset(source.resolve().name, "test", _read_texts(source), (), {})
    documents = read_corpus(corpus_file)
    queries = corpus_file.with_name("queries.jsonl")
    cases = unique_records(queries, case, "query") if queries.is_file() else {}
    name = corpus_file.resolve().parent.name
    return Dataset(name, "test", documents, tuple(cases.values()), {})


def _documents_in_parquet(path: Path) -> dict[str, Document]:
    """Return the documents in the rows of a .parquet file by their ids; empty cells count as missing."""
    rows = []
    for row in parquet_rows(path):
        rows.append({name: value for name, value in row.items() if value not in (None, "")})
    return as_documents(rows)


@dataclass
class _UnreadFiles:
    """The files of a folder that were not read.

    Attributes:
        kinds: description of a kind of file -> number of files.
        n_media: how many of them are images and the like.
        lacks_extra: True if some need the extra `documents`, which is not installed.
        other_encodings: the texts that are not in UTF-8.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    n_media: int = 0
    lacks_extra: bool = False
    other_encodings: list[str] = field(default_factory=list)

    def reason(self) -> str:
        """Describe the files and what helps, such as "3 .png, 1 .txt not in UTF-8; convert ..."; return
        "" without unread files.
        """
        text = ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        if self.lacks_extra:
            text += f"; for .pdf and .docx: pip install 'ragbench-lab[{EXTRA}]'"
        if self.other_encodings:
            text += (
                f"; convert {shown(self.other_encodings[0])} and others like it, as with `iconv -f "
                "latin1 -t utf-8`"
            )
        return text


def _read_texts(folder: Path) -> dict[str, Document]:
    """Return path inside the folder -> document, for the files with text below a folder.

    Files that were not read are counted in a warning, unless they are only images and the like.

    Raises:
        DataError: no file has a text, or a file cannot be read.
    """
    corpus = {}
    unread = _UnreadFiles()
    for path in _visible_files(folder):
        doc_id = path.relative_to(folder).as_posix()
        text = _read_text(path, doc_id, unread)
        if text:
            corpus[doc_id] = Document(doc_id, text)
    reason = unread.reason()
    if not corpus:
        not_read = f"; not read: {reason}" if reason else ""
        raise DataError(
            f"{folder} holds neither corpus.jsonl nor a file with text that ends "
            f"in {', '.join(SUFFIXES)}{not_read}"
        )
    n_unread = unread.kinds.total()
    if n_unread > unread.n_media:
        text = (
            f"{folder}: {n_unread} of {n_unread + len(corpus)} files were not read, and "
            f"nothing in them is found: {reason}"
        )
        warn_user(UnreadWarning(text, folder, reason))
    return corpus


def _read_text(path: Path, doc_id: str, unread: _UnreadFiles) -> str:
    """Return the text of a file; "" if it has none, or is not read because of its kind.

    Files that are not read are noted in `unread`. `doc_id` is the path of the file in the folder.

    Raises:
        DataError: the file is damaged.
    """
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        unread.kinds[suffix or "without an ending"] += 1
        unread.n_media += _is_media(path)  # images and the like, of which nobody expects a text
        return ""
    read, expected = _READERS[suffix]  # a function from bytes to text, and words for an error
    try:
        text = read(path.read_bytes())
    except MissingExtraError:
        unread.kinds[suffix] += 1
        unread.lacks_extra = True
        return ""
    except UnicodeDecodeError:
        unread.kinds[f"{suffix} not in UTF-8"] += 1
        unread.other_encodings.append(doc_id)
        return ""
    except (OSError, ValueError) as exc:
        raise DataError(f"{path} could not be read: {exc}; expected {expected}") from exc
    if text.strip():
        return text
    if suffix == ".pdf":
        unread.kinds[".pdf without text, such as scans"] += 1
    return ""


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a .parquet file as plain data; an empty cell is None."""
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as exc:
        raise DataError(f"{path} could not be read as a table: {exc}") from exc
    # through JSON, so that dates and the like become texts
    rows: list[dict[str, Any]] = json.loads(json.dumps(table, default=str))
    return rows


def _visible_files(folder: Path) -> list[Path]:
    """Return the files below a folder in the order of their paths, without hidden ones."""
    files = []
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not is_hidden:
            files.append(path)
    return files


def _is_media(path: Path) -> bool:
    """Return True for images, sounds, fonts and styles, which hold no text to miss."""
    kind = mimetypes.guess_type(path.name)[0] or ""
    return kind.startswith(_MEDIA)
