"""Reads a folder in BEIR's format (corpus.jsonl, queries.jsonl, qrels/<split>.tsv, maybe
answers.jsonl, questions.jsonl): which files and columns it needs, and the error that names a wrong
line.

The package `beir` reads it (`GenericDataLoader`). It drops metadata and the queries that a split
does not judge, takes the second of two documents with one id without a warning, returns `None` for
a missing text, and stops at a blank line or a byte order mark. So the same files are checked first,
with the line of each error; this check also keeps the fields that the loader drops, and whole files
at which it would stop.
"""

import codecs
import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ragbench.datasets import gold, large
from ragbench.datasets.jsonl import json_lines, lines, located, parsed, shown
from ragbench.datasets.raw_records import (
    add_judgement,
    assemble,
    case,
    document,
    empty,
    identifier,
    repeated,
    testset_record,
)
from ragbench.errors import DataError, warn_of_flaw
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
    are in file order. Fields that the format does not know become metadata.

    A query without a judgement in the split is left out with a warning. Two kinds of query stay, with
    an empty qrel, unless another split judges them: queries that answers.jsonl declares unanswerable
    (`"answerable": false`; their `expected_outcome` is "no_results"), and the query ids in `kept`.

    Raises:
        DataError: a file is missing, there is no such split, or a line of a file is wrong.
    """
    _check_layout(folder, split)
    splits = qrels_files(folder)
    corpus = read_corpus(folder / "corpus.jsonl")
    cases = unique_records(folder / "queries.jsonl", case, "query")
    qrels = read_qrels(splits[split], corpus)
    gold_files = _read_gold_files(folder, cases)

    may_lack_judgements = set(kept)
    for gold_by_query in gold_files.values():
        may_lack_judgements.update(_unanswerable(gold_by_query))
    unjudged = {query_id for query_id in cases if query_id not in qrels} & may_lack_judgements
    # a query that another split judges belongs to that split
    for query_id in _judged_nowhere(unjudged, splits.values()):
        qrels[query_id] = {}  # an entry without documents keeps the query in the dataset

    name = name or str(testset_record(folder).get("name") or folder.resolve().name)
    dataset = assemble(name, split, corpus, cases, qrels, source=str(folder))
    for path, gold_by_query in gold_files.items():
        dataset = gold.attach(dataset, gold_by_query, path)
    return dataset


def _check_layout(folder: Path, split: str) -> None:
    """Raise DataError if a folder lacks its corpus, its queries, or the judgements of a split."""
    for required in ("corpus.jsonl", "queries.jsonl"):
        if not (folder / required).is_file():
            hint = _hint_for_folder_without_dataset(folder)
            raise DataError(f"{folder / required} is missing; {_LAYOUT}{hint}")
    splits = qrels_files(folder)
    if split not in splits:
        available = f"splits that are there: {', '.join(splits) or 'no split at all'}; {_LAYOUT}"
        raise DataError(f"{folder / 'qrels'} has no split {split!r} ({split}.tsv); {available}")


def _read_gold_files(folder: Path, cases: Mapping[str, Case]) -> dict[Path, gold.GoldByQuery]:
    """Return the content of questions.jsonl and answers.jsonl, as far as they exist; warn of lines
    about other queries than `cases`.
    """
    gold_files = {}
    for path in (folder / "questions.jsonl", folder / "answers.jsonl"):
        if not path.is_file():
            continue
        gold_by_query = gold.read_gold(path)
        unknown = [query_id for query_id in gold_by_query if query_id not in cases]
        warn_of_flaw(str(path), "queries are not in queries.jsonl and are left out", unknown)
        gold_files[path] = gold_by_query
    return gold_files


def _judged_nowhere(query_ids: set[str], qrels_paths: Iterable[Path]) -> set[str]:
    """Return the queries that none of these files of judgements names."""
    if not query_ids:
        return set()  # and read no file
    judged = {row[0] for path in qrels_paths for _, row in _numbered_rows(path)}
    return query_ids - judged


def _unanswerable(gold_by_query: gold.GoldByQuery) -> list[str]:
    """Return the queries that a file declares unanswerable."""
    query_ids = []
    for query_id, (_, line) in gold_by_query.items():
        if line.outcome == "no_results":
            query_ids.append(query_id)
    return query_ids


def read_corpus(path: Path) -> Mapping[str, Document]:
    """Return the documents of a corpus.jsonl by their id.

    They are held in memory. Of a file of `large.LARGE_BYTES` or more they stay in a database on disk,
    and the mapping reads each when it is asked for.
    """
    if path.stat().st_size >= large.LARGE_BYTES:
        return large.large_corpus(path)
    if path.suffix != ".jsonl" or not _beir_reads_alike(path):
        return unique_records(path, document, "document")
    # BEIR's own loader reads text and title, so that its users get the same ones. It drops all other
    # fields, so metadata are read by ourselves.
    metadata_by_id = unique_records(path, lambda record: document(record).metadata, "document")
    with warnings.catch_warnings(action="ignore"):
        # id -> {"text": ..., "title": ...}, in file order, as `metadata_by_id` is
        fields_by_id = _beir_loader(corpus_file=str(path)).load_corpus()
    documents = {}
    for doc_id, fields in zip(metadata_by_id, fields_by_id.values(), strict=True):
        title = fields["title"] or ""
        documents[doc_id] = Document(doc_id, fields["text"], title, metadata_by_id[doc_id])
    return documents


def qrels_files(folder: Path) -> dict[str, Path]:
    """Return split -> its file of judgements: a .tsv, or .jsonl as sets of MTEB have it."""
    files = sorted((folder / "qrels").glob("*"))
    return {path.stem: path for path in files if path.suffix in (".tsv", ".jsonl")}


def read_qrels(path: Path, corpus: Mapping[str, Document]) -> Qrels:
    """Return the judgements of a split, query id -> document id -> grade, after checking its file.

    BEIR's own loader reads the file, so that its users get the same judgements here. It cannot read
    JSON Lines, and misreads some other files: they are read by `check_qrels`.

    Args:
        path: the file in the folder `qrels`; queries.jsonl is in the folder above.
        corpus: the documents, so that BEIR's loader does not read them again.

    Raises:
        DataError: as `check_qrels`.
    """
    checked = check_qrels(path)
    queries = path.parents[1] / "queries.jsonl"
    is_json_lines = path.suffix == ".jsonl"
    if is_json_lines or not _beir_reads_alike(queries) or not _beir_reads_alike(path):
        return checked
    loader = _beir_loader(
        query_file=str(queries),
        qrels_file=str(path),
        corpus_file=str(queries.with_name("corpus.jsonl")),
    )
    loader.corpus = corpus  # the loader reads corpus.jsonl only if it has no documents
    with warnings.catch_warnings(action="ignore"), suppress(LookupError):
        # LookupError: a judged query does not exist; by then the loader has read all files
        loader.load_custom()
    qrels: Qrels = loader.qrels
    return qrels


def check_qrels(path: Path) -> Qrels:
    """Return the judgements in a file: query id -> document id -> grade.

    The file is tab-separated with the first line `query-id corpus-id score`, or has lines of JSON
    with these fields.

    A grade of 0 or below means not relevant. A pair judged twice with the same grade is not an
    error.

    Raises:
        DataError: the header or a line has another form, or a pair has two different grades.
    """
    qrels: Qrels = {}
    rows = _numbered_rows(path)
    number, header = next(rows, (1, []))  # an empty file has an empty header, which is refused
    with located(f"{path}, line {number}"):  # puts the place before an error's message
        _check_header(header)
    for number, row in rows:
        with located(f"{path}, line {number}"):
            _check_row(row)
            query_id, doc_id, score = row
            add_judgement(qrels, query_id, doc_id, grade(score))
    return qrels


def _check_header(header: list[Any]) -> None:
    """Raise DataError unless the first line of a file of judgements has the three columns."""
    if [column.strip().lower() for column in header] == _HEADER:
        return
    looks_like_trec = len(header) == 4
    hint = " (this looks like TREC's format: drop the second column)" if looks_like_trec else ""
    raise DataError(
        f"the header is {shown(header)}{hint}; expected query-id, corpus-id, score, separated by "
        "tabs"
    )


def _check_row(row: list[Any]) -> None:
    """Raise DataError unless a line of a file of judgements has three columns, the ids not empty."""
    if len(row) != 3:
        raise DataError(f"{shown(row)} has {len(row)} columns; expected 3, separated by tabs")
    query_id, doc_id, _ = row
    if not query_id.strip() or not doc_id.strip() or "\r" in query_id + doc_id:
        raise DataError(
            f"{shown(row)} has an empty id, or a line break; expected query-id, corpus-id, score"
        )


def unique_records(path: Path, parse: Callable[[dict[str, Any]], T], what: str) -> dict[str, T]:
    """Return id -> `parse(record)` for the records of a JSONL file, in file order.

    Args:
        path: the file.
        parse: makes the item of a record.
        what: the kind of record in messages, such as "document".

    Raises:
        DataError: an id is there twice, or the file is empty.
    """
    items: dict[str, T] = {}
    line_of_id: dict[str, int] = {}
    # pairs of a line's number and (id, item); an error of `parse` names the file and the line
    ids_and_items = parsed(path, lambda record: (identifier(record), parse(record)))
    for line, (record_id, item) in ids_and_items:
        if record_id in line_of_id:
            raise repeated(path, line, what, record_id, line_of_id[record_id])
        line_of_id[record_id] = line
        items[record_id] = item
    if not items:
        raise empty(path, what)
    return items


def _beir_loader(**files: str) -> Any:
    """Return BEIR's loader of these files, without its progress bar."""
    from beir.datasets import data_loader

    data_loader.tqdm = lambda lines, **_: lines  # the check before shows how far it is
    return data_loader.GenericDataLoader(**files)


def _beir_reads_alike(path: Path) -> bool:
    """Return True if BEIR's own loader reads a checked file as ragbench does.

    BEIR misreads a file with a byte order mark, a blank line or a carriage return within a line. It
    also misreads a qrels file (.tsv) with a quotation mark, or with a grade such as 1.0.
    """
    is_qrels = path.suffix == ".tsv"
    with path.open("rb") as file:
        if file.peek(3).startswith(codecs.BOM_UTF8):
            return False
        for line in file:
            is_blank = not line.strip()
            if is_blank or b"\r" in line.rstrip():
                return False
            if is_qrels:
                grade_column = line.split(b"\t")[-1]
                if b'"' in line or b"." in grade_column:
                    return False
    return True


def _numbered_rows(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number of every line of a qrels file with its columns, the header first.

    For JSON Lines the columns are the values of the header's fields, and the header has the number 0.
    """
    if path.suffix == ".jsonl":
        yield 0, _HEADER
        for number, record in json_lines(path):
            with located(f"{path}, line {number}"):
                query_id, doc_id = identifier(record, "query-id"), identifier(record, "corpus-id")
            yield number, [query_id, doc_id, record.get("score")]
        return
    for number, line in lines(path):
        yield number, _columns(line)


def _columns(line: str) -> list[str]:
    """Return the columns of a line with tabs; quotes around a column are removed, a stray one stays.

    A csv reader of the whole file would turn all lines after a stray quote into one cell.
    """
    if '"' in line:
        with suppress(csv.Error):
            return next(csv.reader([line], delimiter="\t", strict=True))
    return line.split("\t")


def _hint_for_folder_without_dataset(folder: Path) -> str:
    """Return the end of an error message about a folder without a dataset: which of its folders
    look like one, else how to use it as a result, or as a folder of documents.
    """
    datasets = sorted(path.parent.name for path in folder.glob("*/corpus.jsonl"))
    if datasets:
        return f"; these folders in it look like one: {', '.join(datasets)}"
    if (folder / "scores.csv").is_file():
        return f"; it holds a result, which rb.load_result({str(folder)!r}) reads"
    return (
        "; a folder of documents is named next to its questions, as in "
        f"rb.load_dataset('tests.yaml', corpus={str(folder)!r}) (`ragbench testset draft` writes them)"
    )
