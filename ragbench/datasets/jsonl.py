"""Text files and JSONL line by line, with the place in every error: what people's editors and
scripts write (byte order marks, CRLF, blank lines) is accepted.

A byte order mark, CRLF and blank lines are no errors. Lines are counted from 1, blank ones
included, so that the number is the one an editor shows.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ragbench.errors import DataError, abridged
from ragbench.files import parse_json
from ragbench.progress import progress_bar

T = TypeVar("T")

_BOM = b"\xef\xbb\xbf"


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of every line that is not blank; the file is streamed, never
    held.

    Raises:
        DataError: the file cannot be read, or a line is not in UTF-8.
    """
    try:
        with (
            path.open("rb") as file,
            progress_bar(path.stat().st_size, f"reading {path.name}", "bytes") as bar,
        ):
            for number, raw in enumerate(file, start=1):
                bar.update(len(raw))
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                if raw.strip():
                    yield number, _decoded(raw, path, number).rstrip("\r\n")
    except OSError as exc:
        raise DataError(
            f"{path} could not be read: {exc.strerror or exc}; check that it is there and readable"
        ) from exc


def _decoded(raw: bytes, path: Path, number: int) -> str:
    """Return the text of a line; raises DataError, with the place, if it is not in UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise DataError(
            f"{path}, line {number}: byte 0x{raw[exc.start]:02x} at "
            f"position {exc.start} is not UTF-8; save the file as UTF-8"
        ) from exc


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the JSON object of every line that is not blank.

    Raises:
        DataError: the file cannot be read, or a line is not a JSON object.
    """
    for number, line in lines(path):
        yield number, _parsed_object(line, path, number)


def _parsed_object(line: str, path: Path, number: int) -> dict[str, Any]:
    """Return the JSON object in a line; raises DataError, with the place, if it holds something else."""
    try:
        record = parse_json(line)
    except UnicodeError as exc:
        raise DataError(f"{path}, line {number}: {exc}") from exc
    except ValueError as exc:  # too many digits or too deep a nesting raises no JSONDecodeError
        column = f" at column {exc.colno}" if isinstance(exc, json.JSONDecodeError) else ""
        raise DataError(
            f"{path}, line {number}: not valid JSON{column}: {shown(line)}; each line must "
            "hold one whole object"
        ) from exc
    if not isinstance(record, dict):
        raise DataError(
            f"{path}, line {number}: {shown(record)} is not an object; expected {{...}} on "
            "each line"
        )
    return record


def json_line(record: Mapping[str, Any]) -> str:
    """Return a record as a line of a JSONL file.

    Raises:
        DataError: the record is not plain data, or holds NaN.
    """
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as exc:
        raise DataError(f"{shown(record)} cannot be written as JSON: {exc}") from exc


def parsed(path: Path, parse: Callable[[dict[str, Any]], T]) -> Iterator[tuple[int, T]]:
    """Yield the line number and `parse(record)` for each record; errors name the file and the line."""
    for number, record in json_lines(path):
        with located(f"{path}, line {number}"):
            value = parse(record)
        yield number, value


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix each DataError of the block with `place`."""
    try:
        yield
    except DataError as exc:
        raise DataError(f"{place}: {exc}") from exc


def shown(value: object, limit: int = 80) -> str:
    """Return a value for a message, cut if it is long.

    >>> shown("abc"), shown("a" * 100, limit=8)
    ("'abc'", "'aaaaaaa...")
    """
    return abridged(repr(value), limit)
