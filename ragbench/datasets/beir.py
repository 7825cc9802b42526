"""A folder in BEIR's format: corpus.jsonl, queries.jsonl, qrels/<split>.tsv, maybe answers.jsonl,
questions.jsonl.

The package `beir` reads it (`GenericDataLoader`). It drops metadata and the queries that a split
does not judge, takes the second of two documents with one id without a warning, holds `None` where
a text is missing, and stops at a blank line or a byte order mark. So the same files are checked
first, with the line of each error; what the loader drops is kept from there, and so is all of a
file at which it would stop.
"""

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ragbench.datasets import gold, large
from ragbench.datasets.jsonl import lines, located, parsed, shown
from ragbench.datasets.records import (
    add_judgement,
    assemble,
    case,
    document,
    empty,
    identifier,
    repeated,
    testset_record,
    warn,
)
from ragbench.errors import DataError
from ragbench.types import Dataset, Document, Qrels, grade

T = TypeVar("T")

_HEADER = ["query-id", "corpus-id", "score"]
_LAYOUT = "a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/<split>.tsv"


def load_beir_folder(
    folder: Path, split: str = "test", *, name: str | None = None, kept: Iterable[str] = ()
) -> Dataset:
    """Return the dataset in a BEIR folder; `name` is that in testset.json or the folder's own
    unless given.

    Documents and cases are in file order. Fields that the format does not know become metadata. A
    query without a judgement in the split is left out with a warning, unless answers.jsonl states
    that nothing answers it (`"answerable": false`): it is then kept with an empty qrel and
    `expected_outcome="no_results"`, in each split, except where another split judges it. So are
    those with the ids `kept`.
    """
    for required in ("corpus.jsonl", "queries.jsonl"):
        if not (folder / required).is_file():
            raise DataError(f"{folder / required} is missing; {_LAYOUT}{_near(folder)}")
    splits = qrels_files(folder)
    if split not in splits:
        available = f"splits that are there: {', '.join(splits) or 'no split at all'}; {_LAYOUT}"
        raise DataError(f"{folder / 'qrels'} has no split {split!r} ({split}.tsv); {available}")

    corpus = read_corpus(folder / "corpus.jsonl")
    cases = unique_records(folder / "queries.jsonl", case, "query")
    qrels = read_qrels(splits[split], corpus)

    labels = []
    unjudged = list(kept)
    for path in (folder / "questions.jsonl", folder / "answers.jsonl"):
        if path.is_file():
            lines_of = gold.read_gold(path)
            labels.append((path, lines_of))
            warn(
                str(path),
                "queries are not in queries.jsonl and are left out",
                [q for q in lines_of if q not in cases],
            )
            unjudged += [q for q in lines_of if lines_of[q][1].outcome == "no_results"]
    if unjudged := [q for q in unjudged if q in cases and q not in qrels]:
        elsewhere = {row[0] for file in splits.values() for _, row in _rows(file)}
        qrels |= {q: {} for q in unjudged if q not in elsewhere}

    name = name or str(testset_record(folder).get("name") or folder.resolve().name)
    dataset = assemble(name, split, corpus, cases, qrels, source=str(folder))
    for path, lines_of in labels:
        dataset = gold.attach(dataset, lines_of, path)
    return dataset


def read_corpus(path: Path) -> Mapping[str, Document]:
    """Return the documents of a corpus.jsonl: in memory, or from `large.LARGE_BYTES` on in a file
    read as needed.
    """
    if path.stat().st_size >= large.LARGE_BYTES:
        return large.large_corpus(path)
    if path.suffix != ".jsonl" or not _is_plain(path):
        return unique_records(path, document, "document")
    dropped = unique_records(path, lambda record: document(record).metadata, "document")
    with warnings.catch_warnings(action="ignore"):
        fields = _loader(corpus_file=str(path)).load_corpus()
    return {
        doc_id: Document(doc_id, each["text"], each["title"] or "", metadata)
        for (doc_id, metadata), each in zip(dropped.items(), fields.values(), strict=True)
    }


def qrels_files(folder: Path) -> dict[str, Path]:
    """Return split -> its file of judgements: a .tsv, or .jsonl as sets of MTEB have it."""
    files = sorted((folder / "qrels").glob("*"))
    return {path.stem: path for path in files if path.suffix in (".tsv", ".jsonl")}


def read_qrels(path: Path, corpus: Mapping[str, Document]) -> Qrels:
    """Return the judgements of a split; the loader, which has the documents already, reads the
    queries with those of a .tsv file.
    """
    checked = check_qrels(path)
    queries = path.parents[1] / "queries.jsonl"
    if path.suffix == ".jsonl" or not (_is_plain(queries) and _is_plain(path)):
        return checked
    loader = _loader(
        query_file=str(queries),
        qrels_file=str(path),
        corpus_file=str(queries.with_name("corpus.jsonl")),
    )
    loader.corpus = corpus
    with warnings.catch_warnings(action="ignore"), suppress(LookupError):
        loader.load_custom()  # LookupError: a judged query is not there; all files are read by then
    qrels: Qrels = loader.qrels
    return qrels


def check_qrels(path: Path) -> Qrels:
    """Return the judgements of a tab-separated file whose first line is `query-id corpus-id score`,
    or of lines of JSON with these fields.

    A grade of 0 or below means not relevant. A pair judged twice with the same grade is not an
    error.
    """
    qrels: Qrels = {}
    rows = _rows(path)
    number, header = next(rows, (1, []))
    if [column.strip().lower() for column in header] != _HEADER:
        hint = " (this looks like TREC's format: drop the second column)" * (len(header) == 4)
        raise DataError(
            f"{path}, line {number}: the header is {shown(header)}{hint}; "
            "expected query-id, corpus-id, score, separated by tabs"
        )
    for number, row in rows:
        with located(f"{path}, line {number}"):
            if len(row) != 3:
                raise DataError(
                    f"{shown(row)} has {len(row)} columns; expected 3, separated by tabs"
                )
            if not all(map(str.strip, row[:2])) or "\r" in "".join(row[:2]):
                raise DataError(
                    f"{shown(row)} has an empty id, or a line break; expected query-id, "
                    "corpus-id, score"
                )
            add_judgement(qrels, row[0], row[1], grade(row[2]))
    return qrels


def unique_records(path: Path, parse: Callable[[dict[str, Any]], T], what: str) -> dict[str, T]:
    """Return what `parse` makes of the records of a file, by id; one id twice is an error, and so
    is an empty file.
    """
    items, first = dict[str, T](), dict[str, int]()
    for number, (key, item) in parsed(path, lambda record: (identifier(record), parse(record))):
        if first.setdefault(key, number) != number:
            raise repeated(path, number, what, key, first[key])
        items[key] = item
    if not items:
        raise empty(path, what)
    return items


def _loader(**files: str) -> Any:
    """Return BEIR's loader of these files, without its progress bar."""
    from beir.datasets import data_loader

    data_loader.tqdm = lambda lines, **_: lines  # the check before shows how far it is
    return data_loader.GenericDataLoader(**files)


def _is_plain(path: Path) -> bool:
    """Return True if the loader reads a checked file: one without a byte order mark, a blank line, a
    carriage return within a line, and in qrels a quotation mark or a grade such as 1.0.
    """
    with path.open("rb") as file:
        return not file.peek(3).startswith(b"\xef\xbb\xbf") and all(
            line.strip()
            and b"\r" not in line.rstrip()
            and not (path.suffix == ".tsv" and (b'"' in line or b"." in line.split(b"\t")[-1]))
            for line in file
        )


def _rows(path: Path) -> Iterator[tuple[int, list[Any]]]:
    if path.suffix == ".jsonl":
        yield 0, _HEADER
        for number, record in parsed(path, lambda record: record):
            with located(f"{path}, line {number}"):
                ids = [identifier(record, field) for field in _HEADER[:2]]
            yield number, [*ids, record.get("score")]
        return
    for number, line in lines(path):
        row = line.split("\t")
        # Line by line: to a csv reader on the whole file one stray quote would swallow all that
        # follows.
        if '"' in line:
            with suppress(csv.Error):
                row = next(csv.reader([line], delimiter="\t", strict=True))
        yield number, row


def _near(folder: Path) -> str:
    inside = sorted(path.parent.name for path in folder.glob("*/corpus.jsonl"))
    return f"; these folders in it look like one: {', '.join(inside)}" if inside else ""
