"""Runs and judgements of TREC tools: files of trec_eval, frames of PyTerrier, objects of ranx and
ir_measures.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from ragbench.errors import DataError
from ragbench.files import expanded
from ragbench.types import Qrels, Run

V = TypeVar("V", int, float)

SUFFIXES = (".trec", ".run")
"""How the name of a run's file ends, where a system is expected."""

COLUMNS = {
    "query_id": ("qid", "query-id", "q_id"),
    "doc_id": ("docno", "corpus-id"),
    "relevance": ("label", "rel", "grade", "score"),
    "score": ("score",),
}
"""What other tools call the columns of runs and judgements."""


def read_run(source: Any) -> Run:
    """Read a run, {query_id: {doc_id: score}}, of a file with TREC's six columns (or .gz), or
    another tool's object.

    Objects are frames (`query_id, doc_id, score`, or PyTerrier's `qid, docno, score`), runs of
    ranx, rows of ir_measures (`ScoredDoc`) and nested dictionaries. The order is that of the
    scores; the column of ranks is not used, as in trec_eval.

    >>> read_run([("q1", "a", 2), ("q1", "b", 1.5)])
    {'q1': {'a': 2.0, 'b': 1.5}}

    Raises:
        DataError: a line without six columns, a score that is not a number, or a document that is
        ranked twice.
    """
    return _read(source, "score", 6, float)


def read_qrels(source: Any) -> Qrels:
    """Read judgements, query_id -> doc_id -> grade, from a file with TREC's four columns or another
    tool's object.

    Also read are BEIR's three columns with a header. Objects are those of `read_run`; PyTerrier's
    frames have the column `label`.

    >>> import pandas as pd
    >>> read_qrels(pd.DataFrame({"qid": ["q1", "q1"], "docno": ["a", "b"], "label": [2, 0]}))
    {'q1': {'a': 2, 'b': 0}}

    Raises:
        DataError: a line without these columns, a grade that is not a whole number, or a document
        judged twice.
    """
    return _read(source, "relevance", 4, int)


def _read(
    source: Any, value: str, columns: int, number: Callable[[Any], V]
) -> dict[str, dict[str, V]]:
    if isinstance(source, str | Path):
        return _nested(_lines(expanded(source), columns), number, str(source))
    if hasattr(source, "columns"):
        frame = source.rename(columns=renamed(source.columns, value))
        if lacking := {"query_id", "doc_id", value} - set(frame.columns):
            raise DataError(
                f"no column {', '.join(sorted(lacking))}; "
                f"found {', '.join(map(str, source.columns))}"
            )
        rows: Iterable[Any] = zip(frame["query_id"], frame["doc_id"], frame[value], strict=True)
    elif isinstance(source, Mapping) or hasattr(source, "to_dict"):  # ranx
        nested = source if isinstance(source, Mapping) else source.to_dict()
        rows = ((query, doc, own) for query, found in nested.items() for doc, own in found.items())
    else:
        rows = [(given[0], given[1], getattr(given, value, given[2])) for given in source]
    placed = [("", query, doc, own) for query, doc, own in rows]
    return _nested(placed, number, type(source).__name__)


def renamed(columns: Iterable[str], value: str) -> dict[str, str]:
    """Return column -> our name for it, where that is not there already.

    >>> renamed(["qid", "docno", "score", "rank"], "score")
    {'qid': 'query_id', 'docno': 'doc_id'}
    """
    there, found = list(columns), {}
    for own in ("query_id", "doc_id", value):
        known = next((other for other in COLUMNS[own] if other in there), own)
        if own not in there and known != own:
            found[known] = own
    return found


def _nested(
    rows: Iterable[tuple[Any, ...]], number: Callable[[Any], V], where: str
) -> dict[str, dict[str, V]]:
    found: dict[str, dict[str, V]] = {}
    for place, query_id, doc_id, given in rows:
        try:
            one = number(given)
            if not math.isfinite(one) or one != float(given):
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            kind = "a whole number" if number is int else "a finite number"
            raise DataError(
                f"{where}{place}: {given!r} of document {doc_id!r} is not {kind}"
            ) from None
        inner = found.setdefault(str(query_id), {})
        if str(doc_id) in inner:
            raise DataError(
                f"{where}{place}: document {doc_id!r} is there twice for query {query_id!r}"
            )
        inner[str(doc_id)] = one
    if not found:
        raise DataError(f"{where} holds nothing; expected lines of TREC's columns")
    return found


def _lines(path: Path, columns: int) -> Iterable[tuple[Any, ...]]:
    """Yield the place, query, document and number of each line."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as file
        ):
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise DataError(f"{path} could not be read: {exc}") from exc
    header = lines[0].split() if lines else []
    three = columns == 4 and len(header) == 3  # BEIR's, with a header
    for count, line in enumerate(lines, 1):
        parts = line.split("\t" if three else None)
        if not parts or (count == 1 and header[:1] in (["query-id"], ["query_id"], ["qid"])):
            continue
        if len(parts) != (3 if three else columns):
            raise DataError(
                f"{path}, line {count}: {len(parts)} columns; expected {columns}: {_FORM[columns]}"
            )
        if three:
            yield f", line {count}", *parts
        elif columns == 6 and parts[5] == "ragbench":
            yield f", line {count}", unquoted(parts[0]), unquoted(parts[2]), parts[4]
        else:
            yield f", line {count}", parts[0], parts[2], parts[columns - 2 if columns == 6 else 3]


_FORM = {6: "query Q0 document rank score tag", 4: "query 0 document grade"}


def unquoted(column: str) -> str:
    """Return an id as it was before ragbench wrote it into a run's column.

    >>> unquoted("a%20b")
    'a b'
    """
    return unquote(column) if column != "%00" else ""
