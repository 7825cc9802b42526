"""Files and objects that hold scores per question, read as tables of systems: which kinds of files
there are, recognised by content, sizes, encodings, frames and objects.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import (
    ConfigError,
    DataError,
    DataWarning,
    printable,
    require,
    warn_of_flaw,
)
from ragbench.files import COMPRESSED_ERRORS, JsonLineError, parse_json_or_lines
from ragbench.foreign.cells import score_of
from ragbench.foreign.inspect_logs import read_inspect_archive, rows_of_inspect_log
from ragbench.foreign.json_forms import rows_of_json, rows_of_records
from ragbench.foreign.score_columns import IDS, Scored, ScoreTable, listed, scored_rows
from ragbench.foreign.text_forms import (
    is_trec_output,
    promptfoo_groups,
    refuse_trec_files,
    rows_of_junit,
    rows_of_promptfoo_table,
    rows_of_trec_output,
)
from ragbench.testsets.fields import QUESTIONS, column_name

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
"""Suffixes of files with scores. The format of a file is recognised by its content."""

_MAX_NESTED = 3  # a result has items, which have evaluations
_HEAD = 20_000  # bytes or characters at the start of a file
_BINARY = (b"%PDF", b"\x89PNG", b"\x80")  # first bytes of binary files that may have no zero byte
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MAX_BYTES = 2_000_000_000  # of a decompressed file


def load_scores(source: Any, name: str = "") -> list[ScoreTable]:
    """Return the scores in a file or an object, a table per system.

    Args:
        source: a path; a DataFrame, a list of dicts, {question id: score}; an object with `scores`
            in ragbench's form, such as a result; or the object that an evaluation of another tool
            returns.
        name: the name of the system; "" means the name of the file.

    Raises:
        DataError: the file cannot be read or holds no scores; the message names the columns.
        ConfigError: the object is not a table of scores.
    """
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        rows, columns = _read_file(path)
        tables = _tables_by_system(rows, columns, name or _stem(path))
        return [replace(table, place=str(source)) for table in tables]
    name = name or "table"
    if isinstance(source, ScoreTable):
        return [source]
    if isinstance(getattr(source, "scores", None), _frame_type()):
        return [_table_of_result(source, name)]
    source = _as_plain_data(source)  # objects of other tools become a DataFrame, dicts or lists
    if isinstance(source, _frame_type()):
        columns = tuple(map(str, source))
        return _tables_by_system(_rows_of_frame(source, name), columns, name)
    if isinstance(source, _series_type()) and not _numbers_rows(source.index):
        # its index holds the ids of the questions; a Series numbered 0, 1, 2 ... is refused below
        source = {str(query_id): value for query_id, value in source.items()}
    if isinstance(source, Mapping):
        columns = tuple(map(str, source))
        return _tables_by_system(rows_of_json(dict(source), name), columns, name)
    if isinstance(source, Sequence) and source and all(isinstance(row, Mapping) for row in source):
        records = list(source)
        return _tables_by_system(rows_of_json(records, name), _columns_of(records), name)
    raise _not_a_table(source, name)


def _not_a_table(source: Any, name: str) -> ConfigError:
    """Return the error about an object from which no scores of questions can be read."""
    kind = type(source).__name__
    if _has_numbers_only(source):
        return ConfigError(
            f"{name} is {kind} of numbers without questions, which could be paired by their "
            "order alone; expected {question id: score} or pandas.Series(scores, index=question_ids)"
        )
    return ConfigError(
        f"{name} is {kind}, from which no scores of questions can be read; expected a "
        "file, a DataFrame, a list of dicts or {question id: score}"
    )


def _as_plain_data(source: Any) -> Any:
    """Return an object of another tool as a DataFrame, a mapping or records; DataFrames and values of
    JSON are unchanged.
    """
    if isinstance(source, _frame_type() | _series_type()):
        return source
    if callable(getattr(source, "to_pandas", None)):  # of ragas, datasets, polars, pyarrow
        return source.to_pandas()
    return _objects_as_mappings(source, _MAX_NESTED)


def _objects_as_mappings(value: Any, max_depth: int) -> Any:
    """Turn objects into mappings of their public fields, so that they are read like JSON.

    Objects inside lists, mappings and other objects are turned, too, down to `max_depth` objects
    inside each other. Functions, classes and objects without fields are unchanged.
    """
    if isinstance(value, Mapping):
        return {name: _objects_as_mappings(part, max_depth) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_objects_as_mappings(part, max_depth) for part in value]
    if not max_depth:
        return value
    if callable(getattr(value, "model_dump", None)):  # of pydantic
        return value.model_dump()
    fields = getattr(value, "__dict__", None)
    if isinstance(value, type) or callable(value) or not fields:
        return value
    public_fields = {name: part for name, part in fields.items() if not name.startswith("_")}
    return _objects_as_mappings(public_fields, max_depth - 1)


def _numbers_rows(index: pd.Index) -> bool:
    """Return True for an index without a name that numbers the rows 0, 1, 2 ..."""
    import pandas as pd

    if not isinstance(index, pd.RangeIndex) or index.name is not None:
        return False
    return index.start == 0 and index.step == 1


def _has_numbers_only(source: Any) -> bool:
    """Return True for a list or an array of numbers that is not empty."""
    try:
        is_filled = len(source) > 0
        for value in source:
            float(value)
    except (TypeError, ValueError):  # it is no collection, or a value is no number
        return False
    return is_filled


def _frame_type() -> type[pd.DataFrame]:
    """Return the class DataFrame; pandas is loaded only when it is needed, as that takes long."""
    import pandas as pd

    return pd.DataFrame


def _series_type() -> type[pd.Series[Any]]:
    """Return the class Series; pandas is loaded only when it is needed, as that takes long."""
    import pandas as pd

    return pd.Series


def _stem(path: Path) -> str:
    """Return the name of a file without its suffixes.

    >>> _stem(Path("runs/new.csv.gz"))
    'new'
    """
    name = path.name.removesuffix(".gz")
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
            break
    return printable(name).lstrip(".") or path.name


def _tables_by_system(
    rows: Sequence[Scored], columns: tuple[str, ...], name: str
) -> list[ScoreTable]:
    """Return a table per system, in the order of the rows; the table of a single system gets `name`."""
    by_system: dict[str, list[Scored]] = {}
    for row in rows:
        by_system.setdefault(row.system, []).append(row)
    if len(by_system) == 1:
        return [ScoreTable(name, tuple(rows), columns)]
    tables = []
    for system, rows_of_system in by_system.items():
        tables.append(ScoreTable(printable(system) or name, tuple(rows_of_system), columns))
    return tables


def _table_of_result(result: Any, name: str) -> ScoreTable:
    """Return a result of ragbench (with `scores`, maybe `queries` and a `name`) as a table, with a row per
    question and measure.
    """
    questions: Mapping[str, str] = getattr(result, "queries", {})
    scores = result.scores[["query_id", "measure", "value"]]
    rows = []
    for query_id, measure, value in scores.itertuples(index=False, name=None):
        question = questions.get(str(query_id), "")
        rows.append(Scored(str(query_id), question, {str(measure): score_of(value)}))
    return ScoreTable(getattr(result, "name", "") or name, tuple(rows), ())


def _rows_of_frame(frame: pd.DataFrame, name: str) -> list[Scored]:
    """Return the scores in a DataFrame; its index may be a column, too (`_with_index_as_column`).

    Raises:
        DataError: the frame has no rows or no scores, or has two columns of a name with different cells.
    """
    if frame.empty:
        raise DataError(f"{name} has no rows")
    frame = _with_index_as_column(frame)
    columns = [str(column) for column in frame]
    rows = frame.astype(object).to_numpy().tolist()
    return rows_of_json(_records_of(columns, rows, name), name)


def _with_index_as_column(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with its index as a column, unless the index only numbers the rows.

    An index with a name becomes a column of this name. An index without a name holds the ids of the
    questions and becomes `query_id`, with three exceptions: it numbers the rows 0, 1, 2 ...; it has
    whole numbers, and a column has ids or texts of questions, so that it numbers the rows of a larger
    frame, from which these were selected; or there is a column `query_id`.
    """
    if frame.index.names != [None]:  # an index without a name has [None]
        return frame.reset_index(allow_duplicates=True)
    if _numbers_rows(frame.index):
        return frame
    fields = {column_name(str(name)) for name in frame}
    has_whole_numbers = frame.index.inferred_type == "integer"
    has_questions = not fields.isdisjoint((*IDS, *QUESTIONS))
    if has_whole_numbers and has_questions:
        return frame
    if "query_id" in fields:
        return frame
    return frame.reset_index(names="query_id")


def _records_of(
    names: Sequence[str], rows: Sequence[Sequence[Any]], source: str
) -> list[dict[str, Any]]:
    """Return the rows of a table as records.

    Of two columns of the same name and content only one is kept; Phoenix's spans repeat their index
    so.

    Raises:
        DataError: two columns of a name differ.
    """
    for place, name in enumerate(names):
        first_place = names.index(name)  # the same, unless the column repeats another one
        if any(str(cells[place]) != str(cells[first_place]) for cells in rows):
            raise DataError(f"{source} has two columns {name!r}; give each a different name")
    return [dict(zip(names, cells, strict=True)) for cells in rows]


def _read_file(path: Path) -> tuple[list[Scored], tuple[str, ...]]:
    """Return the scores in a file and the names of its columns; () for a format without columns. The
    format is recognised by the content, whatever the suffix, also of a file compressed by gzip.

    Raises:
        DataError: the file cannot be read or holds no scores.
        MissingExtraError: the package that reads its format is not installed.
    """
    source = str(path)
    if path.is_dir():
        raise DataError(f"{path} is a directory; expected a file with scores per question")
    content = _read_content(path)
    if content.startswith(b"PAR1"):  # parquet
        return _rows_of_records(_parquet_records(content, path), source)
    if content.startswith(b"PK\x03\x04"):  # zip
        if _is_workbook(content, path):
            return _rows_of_workbook(content, path)
        return rows_of_inspect_log(read_inspect_archive(content, path)), ()  # the form .eval
    if content.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
        return rows_of_junit(content, source), ()
    text = _decoded_text(content, path)  # without a byte order mark
    first_sign = text.lstrip()[:1]
    if not first_sign:
        raise DataError(f"{path} is empty")
    if first_sign in ("{", "["):
        value = _json_value(text, path)
        records = value if isinstance(value, list) else []
        columns = _columns_of([record for record in records if isinstance(record, dict)])
        return rows_of_json(value, source), columns
    if is_trec_output(text):
        return rows_of_trec_output(text, source), ()
    refuse_trec_files(text, source)  # raises for runs and qrels, which hold no scores of questions
    return _rows_of_csv(text, path)


def _is_workbook(content: bytes, path: Path) -> bool:
    """Return True if a zip file is a workbook of Excel; a damaged one is known by its suffix alone."""
    if path.suffix.lower() == ".xlsx":
        return True
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return any(name.startswith("xl/") for name in archive.namelist())
    except COMPRESSED_ERRORS:
        return False


def _columns_of(records: Iterable[Mapping[Any, Any]]) -> tuple[str, ...]:
    """Return the names of the fields of all records, in the order in which they appear."""
    columns: dict[str, None] = {}
    for record in records:
        for name in record:
            columns[str(name)] = None
    return tuple(columns)


def _read_content(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if it is a gzip file.

    Raises:
        DataError: it does not exist, cannot be read or decompressed, or is too large.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as exc:
        hint = "check the path"
        if not path.suffix:
            hint += f", or write measures=[{str(path)!r}] if it is a measure"
        raise DataError(f"there is no file {path}; {hint}") from exc
    except OSError as exc:
        raise DataError(f"{path} could not be read: {exc.strerror or exc}") from exc
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            content = file.read(_MAX_BYTES + 1)
    except COMPRESSED_ERRORS as exc:
        raise DataError(f"{path} could not be decompressed: {exc}") from exc
    if len(content) > _MAX_BYTES:
        raise DataError(f"{path} decompresses to more than {_MAX_BYTES:,} bytes")
    return content


def _decoded_text(content: bytes, path: Path) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark, as Excel writes it.

    Raises:
        DataError: the file is not such a text.
    """
    is_utf_16 = content[:2] in _UTF_16_MARKS
    is_binary = b"\0" in content[:_HEAD] or content.startswith(_BINARY)
    if is_binary and not is_utf_16:
        raise DataError(
            f"{path} is not a text file: it starts with {content[:16]!r}; expected a table (CSV, JSON in UTF-8), "
            "parquet or xlsx"
        )
    encoding = "utf-16" if is_utf_16 else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as exc:
        raise DataError(
            f"{path}: byte {exc.start:,} is not {encoding.removesuffix('-sig').upper()}; save the file as "
            "UTF-8"
        ) from exc


def _json_value(text: str, path: Path) -> Any:
    """Return the value of a JSON text, or the list of the values of a text in JSON Lines.

    Raises:
        DataError: the text is neither.
    """
    try:
        return parse_json_or_lines(text)
    except JsonLineError as exc:
        raise DataError(_problem_of_json(text, path, exc)) from exc


def _problem_of_json(text: str, path: Path, error: JsonLineError) -> str:
    """Return the message about a text that is not valid JSON. It names the fields that the text has before
    the error, by which users recognise their file.
    """
    if error.line:  # JSON Lines; all lines before this one are valid
        first_value = error.before[0]
        fields = first_value if isinstance(first_value, dict) else {}
        return (
            f"{path}, line {error.line} is not valid JSON: {error}; the lines before have "
            f"{listed(fields)}"
        )
    names = re.findall(r'"(\w[^"\n]{0,60})"\s*:', text[:_HEAD])
    return f"{path} is not valid JSON: {error}; its first fields are {listed(dict.fromkeys(names))}"


def _rows_of_records(
    records: Sequence[Mapping[str, Any]], source: str
) -> tuple[list[Scored], tuple[str, ...]]:
    """Return the scores in records and the names of their columns.

    Raises:
        DataError: there are no records, or none with scores.
    """
    if records:
        rows = rows_of_json(list(records), source)
    else:
        rows = scored_rows(records, source)  # raises the error for a table without rows
    return rows, _columns_of(records)


def _parquet_records(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Return the rows of a parquet file; the index that pandas stored may be a column, too
    (`_with_index_as_column`).

    Args:
        content: the bytes of the file.
        path: names the file in errors.

    Raises:
        DataError: the file is damaged, or has two columns of a name with different cells.
    """
    import pandas as pd

    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except Exception as exc:  # a damaged file may raise anything
        raise DataError(f"{path} could not be read as parquet: {printable(str(exc))}") from exc
    frame = _with_index_as_column(frame)
    rows = []
    for cells in frame.astype(object).to_numpy().tolist():
        rows.append([_listed_array(cell) for cell in cells])
    return _records_of([str(column) for column in frame], rows, str(path))


def _listed_array(cell: Any) -> Any:
    """Return an array as a list; any other value unchanged."""
    is_array = hasattr(cell, "tolist") and hasattr(cell, "shape")
    return cell.tolist() if is_array else cell


def _rows_of_workbook(content: bytes, path: Path) -> tuple[list[Scored], tuple[str, ...]]:
    """Return the scores in the first sheet of a workbook that holds scores, and the names of its columns.

    Warn of further sheets with scores, which are left out.

    Args:
        content: the bytes of the file.
        path: names the file in errors.

    Raises:
        DataError: the workbook is damaged, or no sheet holds scores; then the error is that of the first
            sheet.
        MissingExtraError: openpyxl is not installed.
    """
    scores_by_sheet: dict[str, tuple[list[Scored], tuple[str, ...]]] = {}
    errors: list[DataError] = []
    sheets = _workbook_sheets(content, path)
    for name, records in sheets.items():
        source = f"{path}, sheet {printable(name)!r}" if len(sheets) > 1 else str(path)
        with warnings.catch_warnings():
            if scores_by_sheet:  # this sheet will be left out, so its flaws do not matter
                warnings.simplefilter("ignore", DataWarning)
            try:
                scores_by_sheet[name] = _rows_of_records(records, source)
            except DataError as exc:
                errors.append(exc)
    if not scores_by_sheet:
        raise errors[0]
    chosen, *others = scores_by_sheet
    warn_of_flaw(
        f"{path}, sheets with scores",
        f"left out because {printable(chosen)!r} is the first; save each as a file to compare it",
        others,
    )
    return scores_by_sheet[chosen]


def _workbook_sheets(content: bytes, path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each sheet of a workbook of Excel; `path` names it in errors.

    Raises:
        DataError: the workbook is damaged.
        MissingExtraError: openpyxl is not installed.
    """
    import pandas as pd

    require("openpyxl", "xlsx")
    try:
        frames = pd.read_excel(io.BytesIO(content), sheet_name=None, dtype=object)
    except Exception as exc:  # a damaged file may raise anything
        raise DataError(f"{path} could not be read as a workbook: {printable(str(exc))}") from exc
    sheets = {}
    for sheet, frame in frames.items():
        records = []
        for row in frame.to_dict("records"):
            records.append({str(name): cell for name, cell in row.items()})
        sheets[str(sheet)] = records
    return sheets


def _rows_of_csv(text: str, path: Path) -> tuple[list[Scored], tuple[str, ...]]:
    """Return the scores in a CSV file and the names of its columns.

    Cells are separated by commas, semicolons or tabs; numbers in a file with semicolons have decimal
    commas.

    Raises:
        DataError: the file is not valid CSV, has no rows or no scores, or has two columns of a name.
    """
    text = text.lstrip("\r\n")
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)  # the sign that occurs most often in the header
    names, rows = _csv_cells(text, separator, path)
    columns = tuple(dict.fromkeys(names))
    groups = promptfoo_groups(names)  # [] unless it is a table of promptfoo
    if groups and rows:
        return rows_of_promptfoo_table(names, rows, groups), columns
    if not rows:
        raise DataError(f"{path} has no rows below its columns {listed(names)}")
    records = _records_of(names, rows, str(path))
    scored = rows_of_records(records, str(path), decimal_comma=separator == ";")
    return scored, columns


def _csv_cells(text: str, separator: str, path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the names in the header of a CSV file, and the cells of each row that is not blank.

    Raises:
        DataError: the file is not valid CSV, or a row has more or fewer cells than the header.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows = []
    names: list[str] = []
    usual_limit = csv.field_size_limit(_MAX_BYTES)  # a cell may hold long contexts
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
        csv.field_size_limit(usual_limit)
    return names, rows


def named_apart(tables: Sequence[ScoreTable]) -> list[ScoreTable]:
    """Return the tables with different names.

    Tables of the same name are named by their places; if the places are the same, too, a later table
    gets its position, as in "scores (2)".
    """
    names = [table.name for table in tables]
    used_names: set[str] = set()
    renamed: list[ScoreTable] = []
    for position, table in enumerate(tables, 1):
        name = table.name
        if names.count(name) > 1 and table.place:
            name = table.place
        if name in used_names:
            name = f"{name} ({position})"
        used_names.add(name)
        renamed.append(replace(table, name=name))
    return renamed
