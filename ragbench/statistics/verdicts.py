"""Verdicts of people and of judges on the same answers, read as a table from the files in which
they are published; `verdict_forms` has their forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.files import JsonLineError, parse_json_or_lines
from ragbench.statistics.verdict_forms import is_qrels, rows_of_json, rows_of_qrels

_COLUMNS = ["question", "system", "person"]
_NAMES = {"question_id": "question", "query_id": "question", "human": "person"}


def load_verdicts(
    path: str | Path, *, criterion: str = "", judges: Mapping[str, str | Path] | None = None
) -> pd.DataFrame:
    """Return verdicts on answers: question, system, person, and a column per judge, from 0 to 1; one row
    per answer.

    The file has one of these forms, which is recognised by its fields:

    - CSV: the columns question (or question_id, query_id), system, person (or human) and one or more
      judges; other columns of text are left out. An empty verdict is missing.
    - FaithBench (JSON): people's mean verdict on whether a summary is consistent with its source, and
      the scores of the detectors.
    - RAGChecker (JSON of its results): the verdicts of its model. `person` is missing; the system is
      the name of the file.
    - SummEval (JSON Lines): the mean score of the experts, and of the crowd, by one criterion.
    - LLMJudge (TREC's qrels): the grades of passages, which are in the column `system`.

    `ragbench/statistics/verdict_forms.py` declares the labels and scales of each form. Only a CSV
    file needs a judge.

    Args:
        path: the file; in LLMJudge's form, people's grades.
        criterion: in SummEval's form, the score that is read; "" = consistency.
        judges: in LLMJudge's form, name of a judge -> file with the grades of this judge.

    Raises:
        DataError: the file has none of the forms, a verdict is out of range, or an answer comes twice;
            with the fields that were found, or the first such row.
        ConfigError: `criterion` or `judges` with a form that has none, or a judge with the name of
            another column.
    """
    path = Path(path)
    judges = judges or {}
    taken = next((name for name in judges if name in _COLUMNS), None)
    if taken is not None:
        raise ConfigError(f"a judge is called {taken!r}, like another column; give it another name")
    text = _read_text(path)
    is_json = text.lstrip()[:1] in ("{", "[")
    if judges and (is_json or not is_qrels(text)):
        raise ConfigError(f"{path} does not hold qrels of TREC, the only form that takes `judges`")
    if criterion and not is_json:
        raise ConfigError(f"{path} has no criteria; leave out criterion={criterion!r}")
    if is_json:
        rows = rows_of_json(_json_value(text, path), str(path), criterion)
        table = _frame_of_rows(rows, path)
        unit = "record"
    elif is_qrels(text):
        table = _frame_of_rows(rows_of_qrels(path, judges), path)
        unit = "passage"
    else:
        table = _read_csv(path)
        unit = "line"
    verdicts = table.drop(columns=["question", "system"]).astype(float)
    _check_range(verdicts, path, unit)
    table = table[["question", "system"]].astype(str).join(verdicts)
    is_second = table.duplicated(["question", "system"])
    if is_second.any():
        row = table[is_second].iloc[0]
        raise DataError(
            f"{path} has two verdicts on question {row['question']!r} of {row['system']!r}"
        )
    return table


def _check_range(verdicts: pd.DataFrame, path: Path, unit: str) -> None:
    """Raise DataError for the first row with a verdict outside [0, 1]; NaN is allowed. `unit` is the
    word for a row of the file: a line (of a CSV file), a record or a passage.
    """
    is_valid = verdicts.isna() | (verdicts.ge(0) & verdicts.le(1))
    is_invalid_row = ~is_valid.all(axis=1)
    if is_invalid_row.any():
        number = int(is_invalid_row.to_numpy().argmax()) + 1
        if unit == "line":
            number += 1  # the header is the first line
        raise DataError(
            f"{path}: {verdicts[is_invalid_row].iloc[0].to_dict()} in {unit} {number}; expected "
            "verdicts from 0 to 1"
        )


def _read_text(path: Path) -> str:
    """Return the text of a file; "" if it is not UTF-8, such as a compressed CSV file, or is not there,
    which the reader of CSV files reports.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _json_value(text: str, path: Path) -> Any:
    """Return the value of JSON, or the list of the values of JSON Lines."""
    try:
        return parse_json_or_lines(text)
    except JsonLineError as exc:
        place = f", line {exc.line}" if exc.line else ""
        raise DataError(f"{path}{place} is not valid JSON: {exc}") from exc


def _frame_of_rows(rows: list[dict[str, Any]], path: Path) -> pd.DataFrame:
    """Return rows as a table; a row without a system has the name of the file as its system."""
    table = pd.DataFrame(rows)
    table["system"] = table["system"].where(table["system"] != "", path.stem)
    table = table[[*_COLUMNS, *table.columns.drop(_COLUMNS)]]
    if table.drop(columns=["question", "system"]).isna().all(axis=None):
        raise DataError(f"{path} has no verdict; its columns are {', '.join(map(str, table))}")
    return table


def _read_csv(path: Path) -> pd.DataFrame:
    """Return a CSV file of verdicts as a table: question, system, person, and the columns of judges.

    Raises:
        DataError: it cannot be read, or lacks one of these columns.
    """
    try:
        table = pd.read_csv(path, dtype={"question": str, "question_id": str, "query_id": str})
    except (OSError, ValueError) as exc:
        raise DataError(f"{path} cannot be read as a CSV file of verdicts: {exc}") from exc
    has_id = "question_id" in table or "query_id" in table
    if has_id and "question" in table:  # the question is its id; this column is its text
        table = table.drop(columns="question")
    table = table.rename(columns=_NAMES)
    for name in _COLUMNS:
        if name not in table:
            raise DataError(
                f"{path} has no column {name!r}; expected question, system, person and a judge, found "
                f"{', '.join(map(str, table.columns))}"
            )
    judges = []
    for name in table.columns.drop(_COLUMNS):
        if pd.api.types.is_numeric_dtype(table[name]):
            judges.append(str(name))
    if not judges:
        raise DataError(f"{path} has no column with a judge's verdicts")
    return table[[*_COLUMNS, *judges]]
