"""Documents without questions: what a test set is generated from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragbench.datasets.beir import unique_records
from ragbench.datasets.collection import document
from ragbench.errors import DataError
from ragbench.types import Dataset, Document

SUFFIXES = (".md", ".rst", ".txt")


def load_corpus(path: str | Path) -> Dataset:
    """The documents of a `corpus.jsonl`, of a folder that holds one, or of a folder of text files; no questions.

    Text files are the `.md`, `.rst` and `.txt` files below the folder; a document's id is its path inside the folder,
    its title is empty. Hidden files and folders are left out.

    Raises:
        DataError: nothing is there, or it is not what it should be.
    """
    place = Path(path).expanduser()
    if place.is_dir() and not (place / "corpus.jsonl").is_file():
        corpus = {doc.doc_id: doc for doc in _text_files(place)}
        if not corpus:
            raise DataError(f"{place} holds neither corpus.jsonl nor a file that ends in {', '.join(SUFFIXES)}")
        return Dataset(place.resolve().name, "test", corpus, (), {})
    file = place / "corpus.jsonl" if place.is_dir() else place
    if not file.is_file():
        raise DataError(f"there is no {str(file)!r}; expected a corpus.jsonl, the folder of one, or a folder of texts")
    corpus = unique_records(file, document, "document", lambda found: found.doc_id)
    return Dataset(file.resolve().parent.name, "test", corpus, (), {})


def _text_files(folder: Path) -> Iterable[Document]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix.lower() not in SUFFIXES or not path.is_file() or any(p.startswith(".") for p in inside.parts):
            continue
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            raise DataError(f"{path} could not be read: {exc}; expected a text in UTF-8") from exc
        if text.strip():
            yield Document(inside.as_posix(), text)
