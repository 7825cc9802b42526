"""Logs of Inspect (inspect_ai): JSON, and `.eval`, which is a zip of JSON files compressed by Zstandard."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, printable, require
from ragbench.files import parse_json
from ragbench.foreign.cells import id_of, number_of, question_of
from ragbench.foreign.score_columns import Scored

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partially correct, incorrect and no answer, as Inspect counts them."""
_ZSTANDARD = 93
_MAX_BYTES = 1_000_000_000  # of a file in the archive


def is_inspect_log(value: Any) -> bool:
    """Return True if the value of a JSON file is a log of Inspect."""
    return isinstance(value, Mapping) and "eval" in value and isinstance(value.get("samples"), list)


def rows_of_inspect_log(value: Mapping[str, Any]) -> list[Scored]:
    """Return the scores of each sample and epoch; a sample with an error has none."""
    samples = [sample for sample in value["samples"] if isinstance(sample, Mapping)]
    names = dict.fromkeys(name for sample in samples for name in _scores(sample))
    rows = []
    for sample in samples:
        scores = {**dict.fromkeys(names, math.nan), **_scores(sample)}
        if sample.get("error"):
            scores = dict.fromkeys(names, math.nan)
        rows.append(Scored(id_of(sample.get("id")), question_of(sample.get("input")), scores))
    return rows


def read_inspect_archive(path: Path) -> dict[str, Any]:
    """Return an `.eval` log as the value of a JSON log, as far as scores are concerned.

    Raises:
        DataError: not such an archive, damaged, or a file in it is too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "summaries.json" in names:
                summaries = _content(archive, path, "summaries.json")
                return {"eval": {}, "samples": summaries}
            members = [name for name in names if name.startswith("samples/")]
            samples = [_content(archive, path, name) for name in members]
    except (zipfile.BadZipFile, OSError, EOFError) as exc:
        raise DataError(f"{path} could not be read as a log of Inspect: {exc}") from exc
    if not samples:
        raise DataError(
            f"{path}: expected a log of Inspect with samples, found {', '.join(names[:10])}"
        )
    return {"eval": {}, "samples": samples}


def task_of_inspect_log(path: Path) -> tuple[str, str]:
    """Return the names of the task and the model in a log, JSON or `.eval`; "" twice if it is none."""
    try:
        if path.suffix.lower() == ".json":
            header = parse_json(path.read_text(encoding="utf-8"))
        elif path.suffix.lower() == ".eval":
            with zipfile.ZipFile(path) as archive:
                header = _content(archive, path, "header.json")
        else:
            return "", ""
    except (zipfile.BadZipFile, OSError, KeyError, ValueError, DataError):
        return "", ""  # reading its scores reports the problem
    about = header.get("eval") if isinstance(header, Mapping) else None
    if not isinstance(about, Mapping) or not is_inspect_log({"samples": [], **header}):
        return "", ""
    return str(about.get("task", "")), str(about.get("model", ""))


def _content(archive: zipfile.ZipFile, path: Path, name: str) -> Any:
    """Return the value of a JSON file in the archive."""
    info = archive.getinfo(name)
    if info.file_size > _MAX_BYTES:
        raise DataError(
            f"{path}: {name} has {info.file_size:,} bytes; expected {_MAX_BYTES:,} at most"
        )
    try:
        is_zstandard = info.compress_type == _ZSTANDARD
        text = _decompressed(archive, info) if is_zstandard else archive.read(name)
        return parse_json(text.decode())
    except (ValueError, NotImplementedError, zipfile.BadZipFile) as exc:
        raise DataError(f"{path}: {name} could not be read: {exc}") from exc


def _decompressed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a file compressed by Zstandard, which the zipfile of Python 3.11 cannot read.

    Before the content stands a local header: 26 bytes, the lengths of the name and of the extra field
    (two bytes each), the name and the extra field.

    Raises:
        BadZipFile: the archive is closed.
        ValueError: the content cannot be decompressed.
    """
    arrow = require("pyarrow", "large")
    file = archive.fp
    if file is None:
        raise zipfile.BadZipFile("the archive is closed")
    file.seek(info.header_offset + 26)
    name_length = int.from_bytes(file.read(2), "little")
    extra_length = int.from_bytes(file.read(2), "little")
    file.seek(name_length + extra_length, os.SEEK_CUR)
    compressed = file.read(info.compress_size)
    try:
        text = arrow.decompress(compressed, decompressed_size=info.file_size, codec="zstd")
    except OSError as exc:
        raise ValueError(str(exc)) from exc
    return bytes(text)


def _scores(sample: Mapping[str, Any]) -> dict[str, float]:
    """Return measure -> value of a sample: scorers, and the parts of those that give several values."""
    scores: dict[str, float] = {}
    found = sample.get("scores")
    if not isinstance(found, Mapping):
        return scores
    for scorer, score in found.items():
        value = score.get("value") if isinstance(score, Mapping) else score
        if isinstance(value, Mapping):
            for part, inner in value.items():
                scores.setdefault(printable(str(part)), _number(inner))
        elif not isinstance(value, list):
            scores.setdefault(printable(str(scorer)), _number(value))
    return scores


def _number(value: Any) -> float:
    if isinstance(value, str) and value in _LETTERS:
        return _LETTERS[value]
    number = number_of(value)
    return math.nan if number is None else number
