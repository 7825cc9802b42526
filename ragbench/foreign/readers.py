"""Files and objects that hold scores per question, read as tables of systems."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, DataError, printable, require
from ragbench.files import JsonLineError, parse_json_or_lines
from ragbench.foreign.inspect_logs import read_inspect_archive, rows_of_inspect_log
from ragbench.foreign.json_forms import rows_of_json, rows_of_records
from ragbench.foreign.score_columns import Scored, ScoreTable, listed, scored_rows
from ragbench.foreign.text_forms import (
    is_trec_output,
    promptfoo_groups,
    refuse_trec_files,
    rows_of_junit,
    rows_of_promptfoo_table,
    rows_of_trec_output,
)
from ragbench.testsets.fields import is_missing

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (
    ".csv",
    ".tsv",
    ".jsonl",
    ".ndjson",
    ".json",
    ".parquet",
    ".xlsx",
    ".eval",
    ".xml",
    ".txt",
    ".trec",
    ".out",
)
"""How the names of files with scores end; what a file holds is told by its content."""

_HEAD = 20_000  # characters
_BINARY = (b"%PDF", b"\x89PNG", b"\x80")  # and all files with a zero byte
_MAX_BYTES = 2_000_000_000  # of a decompressed file


def load_scores(source: Any, name: str = "") -> list[ScoreTable]:
    """Return the scores in a file or an object, a table per system.

    Args:
        source: a path; a DataFrame, a list of dicts, {question id: score}; or an object with
            `scores` in ragbench's form, such as a result.
        name: of the system; "" means by its file.

    Raises:
        DataError: it cannot be read, or holds no scores; the message names the columns.
        ConfigError: it is no table.
    """
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        tables = _tables(*_read(path), name or _stem(path))
        return [replace(table, place=str(source)) for table in tables]
    name = name or "table"
    if isinstance(source, ScoreTable):
        return [source]
    if isinstance(getattr(source, "scores", None), _frame_type()):
        return [_table_of_result(source, name)]
    if isinstance(source, _frame_type()):
        return _tables(_rows_of_frame(source, name), tuple(map(str, source)), name)
    if isinstance(source, _series_type()):
        source = source.to_dict()
    if isinstance(source, Mapping):
        return _tables(rows_of_json(dict(source), name), tuple(map(str, source)), name)
    if isinstance(source, Sequence) and source and all(isinstance(row, Mapping) for row in source):
        records = list(source)
        columns = tuple(dict.fromkeys(str(key) for row in records for key in row))
        return _tables(rows_of_json(records, name), columns, name)
    if _is_of_numbers(source):
        raise ConfigError(
            f"{name} is {type(source).__name__} of numbers without questions, which could be paired by their "
            "order alone; expected {question id: score} or pandas.Series(scores, index=question_ids)"
        )
    raise ConfigError(
        f"{name} is {type(source).__name__}, from which no scores of questions can be read; expected a "
        "file, a DataFrame, a list of dicts or {question id: score}"
    )


def _is_of_numbers(source: Any) -> bool:
    """Return True for a list or an array of numbers."""
    try:
        return len(source) > 0 and all(isinstance(float(each), float) for each in source)
    except (TypeError, ValueError):
        return False


def _frame_type() -> type[pd.DataFrame]:
    import pandas as pd

    return pd.DataFrame


def _series_type() -> type[pd.Series[Any]]:
    import pandas as pd

    return pd.Series


def _stem(path: Path) -> str:
    """Return the name of a file without its endings.

    >>> _stem(Path("runs/new.csv.gz"))
    'new'
    """
    name = path.name.removesuffix(".gz")
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
            break
    return printable(name).lstrip(".") or path.name


def _tables(rows: Sequence[Scored], columns: tuple[str, ...], name: str) -> list[ScoreTable]:
    """Return a table per system, in the order of the rows."""
    by_system: dict[str, list[Scored]] = {}
    for row in rows:
        by_system.setdefault(row.system, []).append(row)
    if len(by_system) == 1:
        return [ScoreTable(name, tuple(rows), columns)]
    return [
        ScoreTable(printable(system) or name, tuple(part), columns)
        for system, part in by_system.items()
    ]


def _table_of_result(result: Any, name: str) -> ScoreTable:
    """Return a result of ragbench as a table."""
    questions: Mapping[str, str] = getattr(result, "queries", {})
    rows = [
        Scored(str(query_id), questions.get(str(query_id), ""), {str(measure): _float(value)})
        for query_id, measure, value in result.scores[["query_id", "measure", "value"]].itertuples(
            index=False, name=None
        )
    ]
    return ScoreTable(getattr(result, "name", "") or name, tuple(rows), ())


def _float(value: Any) -> float:
    return float("nan") if is_missing(value) else float(value)


def _rows_of_frame(frame: pd.DataFrame, name: str) -> list[Scored]:
    import pandas as pd

    if frame.empty:
        raise DataError(f"{name} has no rows")
    is_named = frame.index.names != [None]
    if is_named:
        frame = frame.reset_index()
    elif not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index(names="query_id")
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{name} has two columns {str(twice)!r}; give each a name of its own")
    return rows_of_json(frame.astype(object).to_dict("records"), name)


def _read(path: Path) -> tuple[list[Scored], tuple[str, ...]]:
    """Return the scores in a file and the names of its columns, as far as it has any."""
    source = str(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; expected a file with scores per question")
    content = _content(path)
    start = content.lstrip()[:1]
    if not start:
        raise DataError(f"{path} is empty")
    if content[:4] == b"PAR1":
        return _rows_of_records(_parquet_records(path), source)
    if content[:4] == b"PK\x03\x04":
        if path.suffix.lower() == ".xlsx":
            return _rows_of_records(_workbook_records(path), source)
        return rows_of_inspect_log(read_inspect_archive(path)), ()
    if start == b"<":
        return rows_of_junit(content, source), ()
    text = _text(content, path)
    if start in (b"{", b"["):
        value = _json_value(text, path)
        columns: tuple[str, ...] = ()
        if isinstance(value, list):
            columns = tuple(
                dict.fromkeys(key for row in value if isinstance(row, dict) for key in row)
            )
        return rows_of_json(value, source), columns
    if is_trec_output(text):
        return rows_of_trec_output(text, source), ()
    refuse_trec_files(text, source)
    return _rows_of_csv(text, path)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as exc:
        raise DataError(f"there is no file {path}; check the path") from exc
    except OSError as exc:
        raise DataError(f"{path} could not be read: {exc.strerror or exc}") from exc
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            content = file.read(_MAX_BYTES + 1)
    except (OSError, EOFError) as exc:
        raise DataError(f"{path} could not be decompressed: {exc}") from exc
    if len(content) > _MAX_BYTES:
        raise DataError(f"{path} decompresses to more than {_MAX_BYTES:,} bytes")
    return content


def _text(content: bytes, path: Path) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with its mark, as Excel writes it."""
    has_mark = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    if not has_mark and (b"\0" in content[:_HEAD] or content.startswith(_BINARY)):
        raise DataError(
            f"{path} is no text: it starts with {content[:16]!r}; expected a table (CSV, JSON in UTF-8), "
            "parquet or xlsx"
        )
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as exc:
        raise DataError(
            f"{path}: byte {exc.start:,} is not {encoding.removesuffix('-sig').upper()}; save the file as "
            "UTF-8"
        ) from exc


def _json_value(text: str, path: Path) -> Any:
    """Return the value of JSON, or the list of the values of JSON Lines."""
    try:
        return parse_json_or_lines(text)
    except JsonLineError as exc:
        if not exc.line:
            found = dict.fromkeys(re.findall(r'"(\w[^"\n]{0,60})"\s*:', text[:_HEAD]))
            raise DataError(
                f"{path} is not valid JSON: {exc}; its first fields are {listed(found)}"
            ) from exc
        found = exc.before[0] if isinstance(exc.before[0], dict) else {}
        raise DataError(
            f"{path}, line {exc.line} is not valid JSON: {exc}; the lines before have {listed(found)}"
        ) from exc


def _rows_of_records(
    records: Sequence[Mapping[str, Any]], source: str
) -> tuple[list[Scored], tuple[str, ...]]:
    columns = tuple(dict.fromkeys(str(name) for record in records for name in record))
    return rows_of_json(list(records), source) if records else scored_rows(records, source), columns


def _parquet_records(path: Path) -> list[dict[str, Any]]:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except Exception as exc:  # of a damaged file there are many kinds
        raise DataError(f"{path} could not be read as parquet: {printable(str(exc))}") from exc
    if not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    records = frame.astype(object).to_dict("records")
    return [{str(key): _plain(cell) for key, cell in record.items()} for record in records]


def _plain(cell: Any) -> Any:
    """Return an array of a cell as a list."""
    return cell.tolist() if hasattr(cell, "tolist") and hasattr(cell, "shape") else cell


def _workbook_records(path: Path) -> list[dict[str, Any]]:
    import pandas as pd

    require("openpyxl", "xlsx")
    try:
        frame = pd.read_excel(path, dtype=object)
    except Exception as exc:  # of a damaged file there are many kinds
        raise DataError(f"{path} could not be read as a workbook: {printable(str(exc))}") from exc
    return [{str(key): cell for key, cell in record.items()} for record in frame.to_dict("records")]


def _rows_of_csv(text: str, path: Path) -> tuple[list[Scored], tuple[str, ...]]:
    """Read a table with commas, semicolons or tabs; every row has as many cells as the first."""
    first = text.lstrip("\r\n").partition("\n")[0]
    separator = max(",;\t", key=first.count)
    reader = csv.reader(
        io.StringIO(text.lstrip("\r\n"), newline=""), delimiter=separator, strict=True
    )
    rows = []
    names: list[str] = []
    limit = csv.field_size_limit(_MAX_BYTES)  # a cell may hold long contexts
    try:
        names = [name.strip() for name in next(reader)]
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names):
                raise DataError(
                    f"{path}, line {reader.line_num} has {len(cells)} cells, the header {len(names)}: "
                    f"{listed(names)}"
                )
            rows.append(cells)
    except csv.Error as exc:
        raise DataError(
            f"{path}, line {reader.line_num} is not valid CSV: {exc}; its columns are {listed(names)}"
        ) from exc
    finally:
        csv.field_size_limit(limit)
    groups = promptfoo_groups(names)
    if groups and rows:
        return rows_of_promptfoo_table(names, rows, groups), tuple(dict.fromkeys(names))
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} has two columns {twice!r}; give each a name of its own")
    if not rows:
        raise DataError(f"{path} has no rows below its columns {listed(names)}")
    records = [dict(zip(names, cells, strict=True)) for cells in rows]
    scored = rows_of_records(records, str(path), decimal_comma=separator == ";")
    return scored, tuple(names)


def named_apart(tables: Sequence[ScoreTable]) -> list[ScoreTable]:
    """Return the tables with different names: tables of the same name are called by their places."""
    names = [table.name for table in tables]
    named = []
    for table in tables:
        name = table.name
        if names.count(name) > 1 and table.place:
            name = table.place
        named.append(replace(table, name=name))
    for number, table in enumerate(named):
        earlier = [other.name for other in named[:number]]
        if table.name in earlier:
            named[number] = replace(table, name=f"{table.name} ({number + 1})")
    return named
