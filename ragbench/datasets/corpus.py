"""Documents without questions: what a test set is generated from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ragbench.datasets import load_dataset
from ragbench.datasets.beir import read_corpus, unique_records
from ragbench.datasets.html import text_of_html
from ragbench.datasets.records import case
from ragbench.errors import DataError
from ragbench.files import expanded
from ragbench.types import Dataset, Document

SUFFIXES = (".md", ".rst", ".txt", ".html", ".htm")


def load_corpus(path: str | Path) -> Dataset:
    """Documents that may lack questions: a corpus.jsonl, a folder with one, a folder of texts, a dataset's name.

    Of a folder that holds `queries.jsonl` too, and of a dataset, the questions are the cases; qrels are not needed.
    Text files are the `.md`, `.rst`, `.txt` and `.html` files below the folder; a document's id is its path inside the
    folder, its title is empty. Of HTML only the text is kept. Hidden files and folders are left out.

    Raises:
        DataError: nothing is there, or it is not what it should be.
    """
    place = expanded(path)
    if not os.path.exists(place):
        return load_dataset(path)  # or its error, which knows the names
    if place.is_dir() and not (place / "corpus.jsonl").is_file():
        corpus = {doc.doc_id: doc for doc in _text_files(place)}
        if not corpus:
            others = sorted({path.suffix for path in place.rglob("*") if path.is_file() and path.suffix})[:5]
            raise DataError(
                f"{place} holds neither corpus.jsonl nor a file with text that ends in {', '.join(SUFFIXES)}"
                + (f"; it holds {', '.join(others)}: convert them to text first" if others else "")
            )
        return Dataset(place.resolve().name, "test", corpus, (), {})
    file = place / "corpus.jsonl" if place.is_dir() else place
    documents = read_corpus(file)
    queries = file.with_name("queries.jsonl")
    cases = unique_records(queries, case, "query") if queries.is_file() else {}
    return Dataset(file.resolve().parent.name, "test", documents, tuple(cases.values()), {})


def _text_files(folder: Path) -> Iterable[Document]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix.lower() not in SUFFIXES or not path.is_file() or any(p.startswith(".") for p in inside.parts):
            continue
        try:
            is_html = path.suffix.lower() in (".html", ".htm")
            text = text_of_html(path.read_bytes()) if is_html else path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            raise DataError(
                f"{path} could not be read: {exc}; expected a text in UTF-8 (convert it, as with `iconv -f latin1 -t "
                "utf-8`, or take it out of the folder)"
            ) from exc
        if "\0" in text:
            raise DataError(f"{path} is a binary file; expected a text in UTF-8, so take it out of the folder")
        if text.strip():
            yield Document(inside.as_posix(), text)
