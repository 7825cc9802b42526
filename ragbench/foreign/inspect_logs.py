"""Logs of Inspect (inspect_ai): a JSON file, or an `.eval` file, which is a zip of JSON files that are
compressed with Zstandard.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from ragbench.errors import DataError, printable, require
from ragbench.files import COMPRESSED_ERRORS, parse_json
from ragbench.foreign.cells import GRADES, id_of, question_of, score_of
from ragbench.foreign.score_columns import Scored

_ZSTANDARD = 93  # the number of the compression in zip files
_NAME_LENGTH_AT = 26  # position of the name's length in the header before a file
_MAX_BYTES = 1_000_000_000  # of a file in the archive


def is_inspect_log(value: Any) -> bool:
    """Return True if the value of a JSON file is a log of Inspect."""
    return isinstance(value, Mapping) and "eval" in value and isinstance(value.get("samples"), list)


def rows_of_inspect_log(value: Mapping[str, Any]) -> list[Scored]:
    """Return a row for each sample of a log of Inspect, with all measures of the log.

    A question that was asked in several epochs (repetitions) has a sample, and so a row, for each. A
    measure that the sample lacks is NaN, and so are all measures of a sample with an error.
    """
    samples = [sample for sample in value["samples"] if isinstance(sample, Mapping)]
    all_missing: dict[str, float] = {}  # every measure of the log -> NaN
    for sample in samples:
        for measure in _scores_of_sample(sample):
            all_missing[measure] = math.nan
    rows = []
    for sample in samples:
        scores = dict(all_missing)
        if not sample.get("error"):
            scores.update(_scores_of_sample(sample))
        rows.append(Scored(id_of(sample.get("id")), question_of(sample.get("input")), scores))
    return rows


def read_inspect_archive(content: bytes, path: Path) -> dict[str, Any]:
    """Return an `.eval` log in the form of a JSON log: its samples with their scores, nothing else.

    Args:
        content: the bytes of the log, a zip file.
        path: names the log in errors.

    Raises:
        DataError: the content is not such an archive or damaged, or a file in it is too large.
        MissingExtraError: it is compressed by Zstandard, and pyarrow is not installed.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            if "summaries.json" in names:  # all samples without their messages
                return {"eval": {}, "samples": _read_json(archive, path, "summaries.json")}
            sample_files = [name for name in names if name.startswith("samples/")]
            samples = [_read_json(archive, path, name) for name in sample_files]
    except COMPRESSED_ERRORS as exc:
        raise DataError(f"{path} could not be read as a log of Inspect: {exc}") from exc
    if samples:
        return {"eval": {}, "samples": samples}
    if "header.json" in names:
        raise DataError(
            f"{path} is a log of Inspect without samples; run it without --no-log-samples, and until a sample "
            "is finished"
        )
    raise DataError(
        f"{path}: expected a log of Inspect with samples, found {', '.join(names[:10])}"
    )


def task_of_inspect_log(path: Path) -> tuple[str, str]:
    """Return the names of the task and the model in a log of Inspect, JSON or `.eval`, or in the header
    of one; "" for a name that it lacks. Both are "" for any other file, and for one that cannot be read.

    Raises:
        MissingExtraError: the log is compressed by Zstandard, and pyarrow is not installed.
    """
    try:
        header = _header_of(path)
    except (*COMPRESSED_ERRORS, KeyError, ValueError, DataError):
        return "", ""  # reading its scores reports the problem
    run = header.get("eval") if isinstance(header, Mapping) else None
    if not isinstance(run, Mapping):
        return "", ""
    # a JSON log has a list of samples; the header of an .eval has none, they are in other files
    if not isinstance(header.get("samples", []), list):
        return "", ""
    return str(run.get("task") or ""), str(run.get("model") or "")


def _header_of(path: Path) -> Any:
    """Return the value of a JSON file, or of the header of an `.eval` archive; None for another file.

    Raises:
        KeyError: the archive has no header.
        ValueError, DataError, or one of COMPRESSED_ERRORS: the file cannot be read.
    """
    if path.suffix.lower() == ".json":
        return parse_json(path.read_text(encoding="utf-8"))
    if path.suffix.lower() == ".eval":
        with zipfile.ZipFile(path) as archive:
            return _read_json(archive, path, "header.json")
    return None


def _read_json(archive: zipfile.ZipFile, path: Path, name: str) -> Any:
    """Return the value of a JSON file in the archive.

    Raises:
        DataError: the file is too large, damaged, or not JSON.
        KeyError: the archive has no such file.
    """
    info = archive.getinfo(name)
    if info.file_size > _MAX_BYTES:
        raise DataError(
            f"{path}: {name} has {info.file_size:,} bytes; expected {_MAX_BYTES:,} at most"
        )
    try:
        if info.compress_type == _ZSTANDARD:
            content = _decompressed(archive, info)
        else:
            content = archive.read(name)
        return parse_json(content.decode())
    except (ValueError, NotImplementedError, *COMPRESSED_ERRORS) as exc:
        raise DataError(f"{path}: {name} could not be read: {exc}") from exc


def _decompressed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a file compressed with Zstandard, which the zipfile of Python 3.11 cannot
    read.

    A header precedes the content: 26 bytes, the lengths of the name and of the extra field (two bytes
    each), the name and the extra field.

    Raises:
        BadZipFile: the archive is closed.
        ValueError: the content cannot be decompressed.
    """
    arrow = require("pyarrow", "large")
    file = archive.fp
    if file is None:
        raise zipfile.BadZipFile("the archive is closed")
    file.seek(info.header_offset + _NAME_LENGTH_AT)
    name_length = int.from_bytes(file.read(2), "little")
    extra_length = int.from_bytes(file.read(2), "little")
    file.seek(name_length + extra_length, os.SEEK_CUR)
    compressed = file.read(info.compress_size)
    try:
        content = arrow.decompress(compressed, decompressed_size=info.file_size, codec="zstd")
    except OSError as exc:
        raise ValueError(str(exc)) from exc
    return bytes(content)


def _scores_of_sample(sample: Mapping[str, Any]) -> dict[str, float]:
    """Return measure -> value of a sample.

    A scorer with one value is a measure; a scorer with several named values has a measure for each
    name, called "SCORER/NAME" if another scorer has a measure of this name, too. Lists are left out,
    because a list is not a score; {} means that the sample has no scores.
    """
    by_scorer = sample.get("scores")
    if not isinstance(by_scorer, Mapping):
        return {}
    values_by_scorer: dict[str, Mapping[str, Any]] = {}  # scorer -> name -> value
    for scorer, score in by_scorer.items():
        value = score.get("value") if isinstance(score, Mapping) else score
        if not isinstance(value, list):
            values_by_scorer[scorer] = value if isinstance(value, Mapping) else {scorer: value}
    n_scorers = Counter(chain.from_iterable(values_by_scorer.values()))  # of each name
    scores: dict[str, float] = {}
    for scorer, named_values in values_by_scorer.items():
        for name, value in named_values.items():
            is_shared = n_scorers[name] > 1 and name != scorer
            measure = f"{scorer}/{name}" if is_shared else str(name)
            scores[printable(measure)] = _value_of_grade(value)
    return scores


def _value_of_grade(value: Any) -> float:
    """Return a number or grade as a number; NaN for any other value."""
    if isinstance(value, str) and value in GRADES:
        return GRADES[value]
    return score_of(value)
