"""A folder in BEIR's format: corpus.jsonl, queries.jsonl, qrels/<split>.tsv, maybe answers.jsonl,
questions.jsonl.

The package `beir` reads it (`GenericDataLoader`). It drops metadata and the queries that a split
does not judge, takes the second of two documents with one id without a warning, returns `None` for
a missing text, and stops at a blank line or a byte order mark. So the same files are checked first,
with the line of each error; this check also keeps the fields that the loader drops, and whole files
at which it would stop.
"""

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ragbench.datasets import gold, large
from ragbench.datasets.jsonl import lines, located, parsed, shown
from ragbench.datasets.raw_records import (
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
from ragbench.plain_records import grade
from ragbench.types import Case, Dataset, Document, Qrels

T = TypeVar("T")

_HEADER = ["query-id", "corpus-id", "score"]
_LAYOUT = "a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/<split>.tsv"


def load_beir_folder(
    folder: Path, split: str = "test", *, name: str | None = None, kept: Iterable[str] = ()
) -> Dataset:
    """Return the dataset in a BEIR folder.

    `name` defaults to the name in testset.json, else to the name of the folder. Documents and cases
    are in file order. Fields that the format does not know become metadata. A query without a
    judgement in the split is left out with a warning, with two exceptions that stay with an empty
    qrel unless another split judges them: queries that answers.jsonl declares unanswerable
    (`"answerable": false`; their `expected_outcome` is "no_results"), and the query ids in `kept`.

    Raises:
        DataError: a file is missing, there is no such split, or a line of a file is wrong.
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
    gold_files = _read_gold_files(folder, cases)

    without_documents = list(kept)
    for gold_by_query in gold_files.values():
        without_documents += _unanswerable(gold_by_query)
    unjudged = [q for q in without_documents if q in cases and q not in qrels]
    if unjudged:
        judged_in_any_split = _judged_queries(splits.values())
        for query_id in unjudged:
            if query_id not in judged_in_any_split:
                qrels[query_id] = {}  # an entry without documents keeps the query in the dataset

    name = name or str(testset_record(folder).get("name") or folder.resolve().name)
    dataset = assemble(name, split, corpus, cases, qrels, source=str(folder))
    for path, gold_by_query in gold_files.items():
        dataset = gold.attach(dataset, gold_by_query, path)
    return dataset


def _read_gold_files(folder: Path, cases: Mapping[str, Case]) -> dict[Path, gold.GoldByQuery]:
    """Return the content of questions.jsonl and answers.jsonl, as far as they exist; warn of lines
    about other queries than `cases`.
    """
    gold_files = {}
    for path in (folder / "questions.jsonl", folder / "answers.jsonl"):
        if not path.is_file():
            continue
        gold_files[path] = gold.read_gold(path)
        warn(
            str(path),
            "queries are not in queries.jsonl and are left out",
            [query_id for query_id in gold_files[path] if query_id not in cases],
        )
    return gold_files


def _unanswerable(gold_by_query: gold.GoldByQuery) -> list[str]:
    """Return the queries that a file declares unanswerable."""
    query_ids = []
    for query_id, (_, line) in gold_by_query.items():
        if line.outcome == "no_results":
            query_ids.append(query_id)
    return query_ids


def _judged_queries(qrels_paths: Iterable[Path]) -> set[str]:
    """Return the queries that any of these files of judgements names."""
    query_ids = set()
    for path in qrels_paths:
        for _, row in _rows(path):
            query_ids.add(row[0])
    return query_ids


def read_corpus(path: Path) -> Mapping[str, Document]:
    """Return the documents of a corpus.jsonl by their id, in memory; for a file of
    `large.LARGE_BYTES` or more, return a mapping that reads each document from a database on disk.
    """
    if path.stat().st_size >= large.LARGE_BYTES:
        return large.large_corpus(path)
    if path.suffix != ".jsonl" or not _is_plain(path):
        return unique_records(path, document, "document")
    # BEIR's loader drops the other fields of a document, so they are read by ourselves
    metadata_of = unique_records(path, lambda record: document(record).metadata, "document")
    with warnings.catch_warnings(action="ignore"):
        fields = _loader(corpus_file=str(path)).load_corpus()
    return {
        doc_id: Document(doc_id, each["text"], each["title"] or "", metadata)
        for (doc_id, metadata), each in zip(metadata_of.items(), fields.values(), strict=True)
    }


def qrels_files(folder: Path) -> dict[str, Path]:
    """Return split -> its file of judgements: a .tsv, or .jsonl as sets of MTEB have it."""
    files = sorted((folder / "qrels").glob("*"))
    return {path.stem: path for path in files if path.suffix in (".tsv", ".jsonl")}


def read_qrels(path: Path, corpus: Mapping[str, Document]) -> Qrels:
    """Return the checked judgements of a split.

    BEIR's own loader reads a plain .tsv file, so that its users get the same judgements; it gets
    `corpus`, so that it does not read the documents again.
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
        # it raises LookupError for a judged query that does not exist, after it has read all files
        loader.load_custom()
    qrels: Qrels = loader.qrels
    return qrels


def check_qrels(path: Path) -> Qrels:
    """Return the judgements of a tab-separated file whose first line is `query-id corpus-id score`,
    or of lines of JSON with these fields.

    A grade of 0 or below means not relevant. A pair judged twice with the same grade is not an
    error.

    Raises:
        DataError: the header or a line has another form, or a pair has two different grades.
    """
    qrels: Qrels = {}
    rows = _rows(path)
    number, header = next(rows, (1, []))
    if [column.strip().lower() for column in header] != _HEADER:
        hint = ""
        if len(header) == 4:
            hint = " (this looks like TREC's format: drop the second column)"
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
    """Return id -> `parse(record)` for the records of a file, in file order.

    Raises:
        DataError: an id is there twice, or the file is empty; `what` names a record in the message.
    """
    items: dict[str, T] = {}
    first_line: dict[str, int] = {}
    for number, (key, item) in parsed(path, lambda record: (identifier(record), parse(record))):
        if key in first_line:
            raise repeated(path, number, what, key, first_line[key])
        first_line[key] = number
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
    """Return True if BEIR's own loader reads a checked file as ragbench does.

    BEIR reads a file differently if it has a byte order mark, a blank line or a carriage return within
    a line, and qrels if they have a quotation mark or a grade such as 1.0.
    """
    is_table = path.suffix == ".tsv"
    with path.open("rb") as file:
        if file.peek(3).startswith(b"\xef\xbb\xbf"):
            return False
        for line in file:
            if not line.strip() or b"\r" in line.rstrip():
                return False
            if is_table and (b'"' in line or b"." in line.split(b"\t")[-1]):
                return False
    return True


def _rows(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number and the columns of every line of a qrels file, the header first (for JSON
    Lines, a header with the number 0).
    """
    if path.suffix == ".jsonl":
        yield 0, _HEADER
        for number, record in parsed(path, lambda record: record):
            with located(f"{path}, line {number}"):
                ids = [identifier(record, field) for field in _HEADER[:2]]
            yield number, [*ids, record.get("score")]
        return
    for number, line in lines(path):
        row = line.split("\t")
        # Each line has a csv reader of its own: in a reader of the whole file, one stray quote would
        # turn all following lines into one cell.
        if '"' in line:
            with suppress(csv.Error):
                row = next(csv.reader([line], delimiter="\t", strict=True))
        yield number, row


def _near(folder: Path) -> str:
    """Return the end of an error message about a folder without a dataset: its subfolders with a
    corpus.jsonl, else how to use it as a result or as a folder of documents.
    """
    candidates = sorted(path.parent.name for path in folder.glob("*/corpus.jsonl"))
    if not candidates and (folder / "scores.csv").is_file():
        return f"; it holds a result, which rb.load_result({str(folder)!r}) reads"
    if not candidates:
        return (
            "; a folder of documents is named next to its questions, as in "
            f"rb.load_dataset('tests.yaml', corpus={str(folder)!r}) (`ragbench testset draft` writes them)"
        )
    return f"; these folders in it look like one: {', '.join(candidates)}"
