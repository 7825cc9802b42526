"""Runs and judgements in every form (nested dictionaries, frames, files of trec_eval, objects of
PyTerrier, ranx and ir_measures): names of columns, and which values are refused.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from statistics import mode
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from ragbench.errors import DataError, plural
from ragbench.files import COMPRESSED_ERRORS, expanded
from ragbench.types import Qrels, Run

SUFFIXES = (".trec", ".run")
"""How the name of a run's file ends, where a system is expected."""

MAX_GRADE = 1_000_000  # trec_eval keeps an array as long as the highest grade, for each query

_NAMES: dict[type, tuple[str, str]] = {int: ("qrels", "relevance"), float: ("run", "score")}
# what other tools call the columns; of judgements also "score" (BEIR)
_ALIASES = {
    "qid": "query_id",
    "query-id": "query_id",
    "q_id": "query_id",
    "docno": "doc_id",
    "corpus-id": "doc_id",
    "label": "relevance",
    "rel": "relevance",
    "grade": "relevance",
}
_COLUMNS = {6: [0, 2, 4], 4: [0, 2, 3], 3: [0, 1, 2]}  # columns of a file -> those that are read
_COUNTS: dict[type, tuple[int, ...]] = {float: (6,), int: (4, 3)}
_FORM: dict[type, str] = {
    float: "6 columns: query Q0 document rank score tag",
    int: "4 columns: query 0 document grade",
}


def read_run(source: Any) -> Run:
    """Read a run, {query_id: {doc_id: score}}, of a file with TREC's six columns (or .gz), or
    another tool's object.

    Objects are frames (`query_id, doc_id, score`, or PyTerrier's `qid, docno, score`), runs of
    ranx, rows of ir_measures (`ScoredDoc`), nested dictionaries, and {query_id: [doc_id, ...]} with the
    best documents first, which get the scores -1, -2, ... The order follows the scores;
    the column of ranks is not used, as in trec_eval.

    >>> read_run([("q1", "a", 2), ("q1", "b", 1.5)])
    {'q1': {'a': 2.0, 'b': 1.5}}

    Raises:
        DataError: a line without six columns, a score that is not a number, or a document that is
            ranked twice.
    """
    return _nested(to_frame(source, float), "run")


def read_qrels(source: Any) -> Qrels:
    """Read judgements, query_id -> doc_id -> grade, from a file with TREC's four columns or another
    tool's object.

    Also read are BEIR's three columns with a header, and {query_id: [relevant doc_id, ...]}, of grade 1.
    Objects may have the same forms as for
    `read_run`; PyTerrier's frames have the column `label`.

    >>> import pandas as pd
    >>> read_qrels(pd.DataFrame({"qid": ["q1", "q1"], "docno": ["a", "b"], "label": [2, 0]}))
    {'q1': {'a': 2, 'b': 0}}

    Raises:
        DataError: a line without these columns, a grade that is not a whole number, or a document
            judged twice.
    """
    return _nested(to_frame(source, int), "qrels")


def _nested(frame: pd.DataFrame, what: str) -> dict[str, dict[str, Any]]:
    records: dict[str, dict[str, Any]] = {}
    for query_id, doc_id, value in zip(*(frame[name].tolist() for name in frame), strict=True):
        records.setdefault(query_id, {})[doc_id] = value
    if sum(map(len, records.values())) < len(frame):
        refuse_duplicates(frame, what)
    return records


def refuse_duplicates(frame: pd.DataFrame, what: str) -> None:
    """Raise a DataError that names the first row whose query and document were there before."""
    repeated = frame.duplicated(["query_id", "doc_id"]).to_numpy()
    if repeated.any():
        row = int(repeated.argmax())
        query_id, doc_id = frame.iloc[row, :2]
        raise DataError(
            f"{what}: document {doc_id!r} is repeated for query {query_id!r} (row {row}); keep one "
            "row per query and document, e.g. frame.drop_duplicates(['query_id', 'doc_id'])"
        )


def to_frame(source: Any, kind: type) -> pd.DataFrame:
    """Return judgements or a run, in any form that a user may have them, as a checked frame.

    Its columns are query_id, doc_id, and "relevance" (whole numbers) if `kind` is int, for
    judgements, or "score" if it is float, for a run.

    >>> to_frame({"q": {"a": 1}}, int).to_dict("records")
    [{'query_id': 'q', 'doc_id': 'a', 'relevance': 1}]

    Raises:
        DataError: ids that are not text, a score that is not finite or a grade that is not a whole
            number, with its query and document; another type.
    """
    what, value = _NAMES[kind]
    columns = ["query_id", "doc_id", value]
    if isinstance(source, str | Path):
        frame = _read_file(expanded(source), kind, columns)
    elif hasattr(source, "columns"):
        frame = _with_known_columns(source, kind, columns)
    else:
        frame = _from_records(source, columns, what)
    _check_ids(frame["query_id"], what)
    _check_ids(frame["doc_id"], what)
    return _with_numbers(frame, kind)


def _with_known_columns(source: pd.DataFrame, kind: type, columns: list[str]) -> pd.DataFrame:
    """Return a frame with the given columns alone, from a frame in which they may have the names of
    another tool, such as "qid" (`_ALIASES`). `kind` is int for judgements, float for a run.

    Raises:
        DataError: a column is missing.
    """
    what, value = _NAMES[kind]
    aliases = dict(_ALIASES)
    if kind is int:
        aliases["score"] = value  # BEIR's name of the grades
    new_names = {alias: name for alias, name in aliases.items() if name not in source.columns}
    frame = source.rename(columns=new_names)
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        raise DataError(
            f"{what}: no column {', '.join(map(repr, lacking))}; expected {columns}, found "
            f"{list(map(str, source.columns))}; rename with frame.rename(columns={{...}})"
        )
    return frame[columns]


def _from_records(source: Any, columns: list[str], what: str) -> pd.DataFrame:
    """Return judgements or a run as a frame, from a source that is neither a frame nor a file.

    `source` is {query_id: {doc_id: value}}, {query_id: [doc_id, ...]}, an object with `to_dict` that
    returns one of these, rows (query, document, value), or, for a run, the result of an evaluation.
    The documents of a list get the grade 1 in judgements; in a run the scores -1, -2, ... from the first.

    Args:
        columns: names of the frame's columns: of the query, the document and the value.
        what: "run" or "qrels".

    Raises:
        DataError: `source` has none of these forms.
    """
    value = columns[2]
    if isinstance(source, list | tuple) and source and isinstance(source[0], str | Path):
        raise DataError(
            f"{what} is a list of {plural(len(source), 'text')}; score one {what} at a time, such as "
            f"{str(source[0])!r}"
        )
    run_of_result = getattr(source, "run", None)
    if what == "run" and isinstance(run_of_result, dict):
        source = run_of_result
    nested = source.to_dict() if hasattr(source, "to_dict") else source
    try:
        if isinstance(nested, Mapping):
            rows = _rows_of_mapping(nested, what)
        else:
            # the value is the third item, or the attribute "score" or "relevance" if a row has it, as the
            # rows of ir_measures do
            rows = [(row[0], row[1], getattr(row, value, row[2])) for row in nested]
    except (AttributeError, TypeError, IndexError, KeyError):
        raise DataError(
            f"{what} must be {{query_id: {{doc_id: {value}}}}}, {{query_id: [doc_id, ...]}}, a DataFrame, rows "
            f"of three or a file, not {type(source).__name__}; {what} of query and document holds "
            f"{str(source)[:60]!r}"
        ) from None
    return pd.DataFrame(rows, columns=columns, dtype=object)


def _rows_of_mapping(nested: Mapping[str, Any], what: str) -> list[tuple[Any, ...]]:
    """Return rows (query, document, value) of a mapping query -> document -> value, in which a list of
    documents may stand for the inner mapping (`_listed_values`). `what` is "run" or "qrels".
    """
    rows = []
    for query_id, documents in nested.items():
        if isinstance(documents, list | tuple | set):
            documents = _listed_values(documents, what)
        rows += [(query_id, doc_id, value) for doc_id, value in documents.items()]
    return rows


def _listed_values(doc_ids: Collection[str], what: str) -> dict[str, float]:
    """Return the listed documents of a query as doc_id -> value.

    In qrels every listed document is relevant: ["a", "b"] -> {"a": 1, "b": 1}. In a run the best
    document comes first, and gets the highest score: ["a", "b"] -> {"a": -1.0, "b": -2.0}.

    Args:
        doc_ids: the documents that a user has listed.
        what: "qrels"; anything else is a run.

    Raises:
        DataError: a document is there twice.
        TypeError: a ranking is a set, or the documents are not named by text.
    """
    if not all(isinstance(doc_id, str) for doc_id in doc_ids):
        raise TypeError("doc_ids are not text")
    if len({*doc_ids}) < len(doc_ids):
        raise DataError(f"{what}: a document is repeated in {str(list(doc_ids))[:80]}")
    if what == "qrels":
        return dict.fromkeys(doc_ids, 1)  # each is of grade 1
    if isinstance(doc_ids, set):
        raise TypeError("a set has no order")
    return {doc_id: float(-place) for place, doc_id in enumerate(doc_ids, 1)}


def _read_file(path: Path, kind: type, columns: list[str]) -> pd.DataFrame:
    """Return the rows of a file of qrels (`kind` int) or of a run (float) in the format of TREC.

    `columns` are the names of the query's, the document's and the number's column. If a number cannot
    be read, all numbers stay texts, and the caller reports the wrong one.

    Raises:
        DataError: the file cannot be read, or a line has another number of columns.
    """
    try:
        table = pd.read_csv(
            path, sep=r"\s+", header=None, dtype=str, quoting=csv.QUOTE_NONE, na_filter=False
        )
    except pd.errors.ParserError as exc:
        raise _wrong_line(path, kind) from exc
    except (*COMPRESSED_ERRORS, ValueError) as exc:
        raise DataError(f"{path} could not be read: {exc}; expected {_FORM[kind]}") from exc
    has_header = table.iat[0, 0] in ("query_id", *_ALIASES)
    if has_header:
        table = table.iloc[1:]
    n_columns = table.shape[1]
    has_short_line = (table == "").to_numpy().any()
    if n_columns not in _COUNTS[kind] or has_short_line:
        raise _wrong_line(path, kind)
    frame = table[_COLUMNS[n_columns]].set_axis(columns, axis=1)
    query_column, document_column, number_column = columns
    if n_columns == 6:  # a run; one that ragbench wrote has its ids percent-encoded
        is_ours = table[5] == "ragbench"  # the tag of the run
        for name in (query_column, document_column):
            is_encoded = is_ours & frame[name].str.contains("%", regex=False)
            frame.loc[is_encoded, name] = frame.loc[is_encoded, name].map(unquoted)
    try:
        return frame.astype({number_column: float})
    except ValueError:
        return frame


def _wrong_line(path: Path, kind: type) -> DataError:
    """Return the error that names the first line whose number of columns is not the usual one: the most
    frequent number that the format allows.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        lines = [(number, line.split()) for number, line in enumerate(file, 1) if line.strip()]
    sizes = [len(columns) for _number, columns in lines]
    allowed = [size for size in sizes if size in _COUNTS[kind]]
    usual_size = mode(allowed) if allowed else 0
    number, wrong = next(
        (number, columns) for number, columns in lines if len(columns) != usual_size
    )
    return DataError(
        f"{path}, line {number}: expected {_FORM[kind]}, not {' '.join(wrong)!r} with "
        f"{len(wrong)} columns; white space separates the columns, so an id has none"
    )


def _check_ids(ids: pd.Series[Any], what: str) -> None:
    """Raise DataError for the first id that is not text."""
    labels = ids.cat.categories if isinstance(ids.dtype, pd.CategoricalDtype) else ids
    # a column of the type `str` need not be checked item by item
    is_text = labels.dtype != object and pd.api.types.is_string_dtype(labels.dtype)
    if not ids.hasnans and (is_text or set(map(type, labels)) <= {str}):
        return
    for row, item in enumerate(ids):
        if not isinstance(item, str):
            raise DataError(
                f"{what}: {ids.name} {item!r} in row {row} is not text; drop rows without an id "
                f"and make the others text with str() or frame.astype({{{ids.name!r}: str}})"
            )


def _as_integers_if_whole(numbers: pd.Series[Any]) -> pd.Series[Any]:
    """Return grades as a column of integers if all are whole numbers (1.0 is); unchanged if one is another
    number, a truth value or a text.
    """
    return numbers.astype(int) if all(map(_is_whole, numbers)) else numbers


def _is_whole(grade: Any) -> bool:
    """Return True for a whole number up to `MAX_GRADE` of any type, such as 1.0, but a truth value."""
    if isinstance(grade, bool | np.bool_) or not isinstance(grade, Real):
        return False
    number: Any = grade
    return bool(abs(number) <= MAX_GRADE and number == number // 1)


def _with_numbers(frame: pd.DataFrame, kind: type) -> pd.DataFrame:
    """Return the frame with its column of grades (`kind` int) or scores (float) as numbers. True and False
    become 1 and 0.

    Raises:
        DataError: a grade is not a whole number up to `MAX_GRADE`, or a score is not finite.
    """
    _what, value = _NAMES[kind]
    numbers = frame[value]
    with suppress(
        OverflowError
    ):  # pandas 2 raises it for a whole number beyond the range of floats
        numbers = numbers.infer_objects()  # numbers kept as objects get the type of their column
    is_grades = kind is int
    has_type = pd.api.types.is_integer_dtype if is_grades else pd.api.types.is_numeric_dtype
    limit = MAX_GRADE if is_grades else sys.float_info.max
    if is_grades and not has_type(numbers):
        numbers = _as_integers_if_whole(numbers)
    are_valid = has_type(numbers) and (numbers.abs() <= limit).all()
    if not are_valid:
        # raises, unless all are numbers of an unusual type, such as True and False, which become 1 and 0
        _refuse_wrong_number(frame, kind, limit)
    checked: pd.DataFrame = frame.assign(**{value: numbers.astype(kind)})
    return checked


def _refuse_wrong_number(frame: pd.DataFrame, kind: type, limit: float) -> None:
    """Raise DataError for the first row whose value is not a number (for grades: a whole number) or beyond
    the limit; do nothing if there is none. Truth values, also of NumPy, are numbers.
    """
    what, value = _NAMES[kind]
    number_types = (Integral if kind is int else Real, np.bool_)
    expected = f"whole number up to {limit:,}" if kind is int else "finite number"
    for row, (query_id, doc_id, number) in enumerate(frame.itertuples(index=False, name=None)):
        if isinstance(number, number_types) and -limit <= number <= limit:  # type: ignore[operator]
            continue
        raise DataError(
            f"{what}: {value} {number!r} of document {doc_id!r} for query {query_id!r} "
            f"(row {row}) is not a {expected}; convert text with {kind.__name__}(), and "
            "leave out documents that were not judged or found"
        )


@lru_cache(maxsize=100_000)  # results of one sweep share their ids
def unquoted(column: str) -> str:
    """Return an id as it was before ragbench wrote it into a run's column.

    >>> unquoted("a%20b")
    'a b'
    """
    return unquote(column) if column != "%00" else ""
