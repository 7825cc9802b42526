"""How the parts of a result are written and read: TREC runs, CSV scores, JSON lines, digits; equal
numbers give equal bytes. Also "n of N questions passed".
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import pandas as pd
from pydantic import TypeAdapter

from ragbench.errors import ConfigError
from ragbench.files import parse_json
from ragbench.metrics.ranking_measures import ranking
from ragbench.metrics.trec import unquoted
from ragbench.text import escape_formula, unescape_formula
from ragbench.types import Answer, Judgement, Run

_DIGITS = 6  # beyond them the same embedding may differ between machines
_Record = TypeVar("_Record", Answer, Judgement)
_READERS: dict[Any, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Answer, Judgement)}


def run_to_trec(run: Run) -> str:
    """Return the run in TREC's six columns: query, Q0, document, rank from 1, score, tag.

    Ranked as trec_eval ranks: by score, equal scores by document id from the last to the first.
    Scores keep all their digits. White space and % in ids are written as in URLs, because white
    space separates the columns.

    >>> print(run_to_trec({"q1": {"a b": 1.5, "c": 2.0}}), end="")
    q1 Q0 c 1 2.0 ragbench
    q1 Q0 a%20b 2 1.5 ragbench
    """
    lines = []
    for query_id in sorted(run):
        for rank, doc_id in enumerate(ranking(run[query_id]), 1):
            score = run[query_id][doc_id]
            if not math.isfinite(score):
                raise ConfigError(
                    f"query {query_id!r}: the score of {doc_id!r} is {score}; expected a finite "
                    "number"
                )
            lines.append(
                f"{_column(query_id)} Q0 {_column(doc_id)} {rank} {float(score)!r} ragbench\n"
            )
    return "".join(lines)


def trec_to_run(text: str) -> dict[str, dict[str, float]]:
    """Return query_id -> chunk_id -> score, from a text that `run_to_trec` wrote.

    Raises:
        ValueError: a line has other columns.

    >>> trec_to_run("q1 Q0 c 1 2.0 ragbench\\nq1 Q0 a%20b 2 1.5 ragbench\\n")
    {'q1': {'c': 2.0, 'a b': 1.5}}
    """
    run: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        columns = line.split()
        if len(columns) != 6 or not math.isfinite(float(columns[4])):
            raise ValueError(f"expected query Q0 document rank score tag, not {line!r}")
        query_id = unquoted(columns[0])
        ranked_id = unquoted(columns[2])
        run.setdefault(query_id, {})[ranked_id] = float(columns[4])
    return run


def _column(text: str) -> str:
    """Return an id as a column of a TREC run: white space and % as in URLs, the empty id as "%00"."""
    if not re.search(r"[\s%]", text):  # as in most ids
        return text or "%00"
    return re.sub(r"[\s%]", lambda match: quote(match.group()), text)


def scores_to_csv(scores: pd.DataFrame) -> str:
    """Return the scores as CSV, sorted by question and measure; an empty field = unscored.

    Ids that a spreadsheet would take for a formula have an apostrophe before them, which reading
    removes. Values have 12 significant digits: what lies beyond depends on the order of additions,
    not on a configuration.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query_id": ["q2", "q1"], "measure": "RR", "value": [0.5, float("nan")]})
    >>> print(scores_to_csv(frame), end="")
    query_id,measure,value
    q1,RR,
    q2,RR,0.5
    """
    columns = ["query_id", "measure", "value"]
    if sorted(scores.columns) != sorted(columns):
        raise ConfigError(
            f"scores have the columns {list(scores.columns)}; expected {', '.join(columns)}"
        )
    rows = []
    # lists: to iterate over a column of pandas takes ten times as long
    values_of_columns = [scores[name].tolist() for name in columns]
    for query_id, measure, value in zip(*values_of_columns, strict=True):
        # str(), because query ids may come as numbers; float(), because int and numpy print
        # differently
        plain_value = math.nan if value is None else float(value)
        rows.append((str(query_id), str(measure), plain_value))
    lines = [",".join(columns)]
    previous = None
    for query_id, measure, value in sorted(rows):
        if math.isinf(value):
            raise ConfigError(
                f"{measure} of question {query_id!r} is {value}; expected a number, or NaN = "
                "unscored"
            )
        if (query_id, measure) == previous:
            raise ConfigError(
                f"{measure} of question {query_id!r} is in the scores twice; expected it once"
            )
        previous = (query_id, measure)
        number = "" if math.isnan(value) else twelve_digits(value)
        lines.append(f"{_field(query_id)},{_field(measure)},{number}")
    return "\n".join(lines) + "\n"


def twelve_digits(value: Any) -> str:
    """Return a number with 12 significant digits, as every file of results has it: the rest is the
    order of additions.

    >>> twelve_digits(0.1 + 0.2), twelve_digits(1.0)
    ('0.3', '1.0')
    """
    return repr(float(f"{value:.12g}"))


def with_twelve_digits(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a mapping with its floats rounded to 12 significant digits, see `twelve_digits`."""
    shorter = {}
    for key, value in values.items():
        shorter[key] = float(twelve_digits(value)) if isinstance(value, float) else value
    return shorter


@lru_cache(maxsize=10_000)  # a measure of many questions, a question of many measures
def _field(text: str) -> str:
    """Return a text as a field of CSV, in quotes if it needs them."""
    text = escape_formula(text)
    # Not the csv module: which fields it puts in quotes differs between editions of Python.
    if re.search(r'[",\r\n]', text):
        return '"' + text.replace('"', '""') + '"'
    return text


def csv_to_scores(text: str) -> pd.DataFrame:
    """Return scores from CSV with the columns query_id, measure and value; an empty value is NaN.

    Raises:
        ValueError: the text is not CSV, or has other columns.
    """
    import pyarrow as pa  # parses in half the time that pandas takes
    from pyarrow import csv

    types = {"query_id": pa.large_string(), "measure": pa.large_string(), "value": pa.float64()}
    frame: pd.DataFrame = csv.read_csv(
        pa.py_buffer(text.encode()),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=types, null_values=[""]),
    ).to_pandas()
    if [*frame] != [*types]:
        raise ValueError(f"header {[*frame]}")
    if "'" in text:  # `'` is written before a text that a spreadsheet would run as a formula
        for name in ("query_id", "measure"):
            frame[name] = frame[name].map(unescape_formula)
    return frame


def json_text(value: Mapping[str, Any]) -> str:
    """Return the text of a JSON file, one field a line; ConfigError for values that are not plain data."""
    try:
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as exc:
        raise ConfigError(
            f"facts and timings must be plain finite numbers and text: {exc}"
        ) from exc


def json_lines(records: Iterable[Answer | Judgement]) -> str:
    """Return one line of JSON per record: JSON escapes the line ends in a text.

    A field that is None, () or {} is left out: reading fills it in, and an answer has many fields
    that few systems use. `value` is always written; None means unscored.
    """
    lines = []
    for record in records:
        fields = {}
        for name, value in asdict(record).items():
            if name == "value" or value not in (None, (), {}):
                fields[name] = value
        for passage in fields.get("passages", ()):
            if not passage["sources"]:
                del passage["sources"]
        lines.append(json.dumps(fields) + "\n")
    return "".join(lines)


def records_of(text: str, kind: type[_Record]) -> tuple[_Record, ...]:
    """Return the records that `json_lines` wrote; fields that a record leaves out have their defaults."""
    # Split at line feeds only: str.splitlines would also split at characters that JSON leaves as
    # they are.
    return tuple(_READERS[kind].validate_json(line) for line in text.split("\n") if line.strip())


def diagnosis_lines(diagnosis: pd.DataFrame) -> str:
    """Return one line of JSON per failed question: its cause and evidence, without empty fields."""
    names = ["query_id", "cause", "evidence", "measure", "value", "held"]
    rows = diagnosis[diagnosis["failed"]].reindex(columns=names).to_dict("records")
    lines = []
    for row in rows:
        filled = {}
        for name, value in row.items():
            if not pd.isna(value) and value != "":
                filled[name] = value
        lines.append(json.dumps(with_twelve_digits(filled), allow_nan=False) + "\n")
    return "".join(lines)


def lines_to_diagnosis(text: str, questions: Mapping[str, str], count: int) -> pd.DataFrame:
    """Return a row per question, as from `diagnose` but without the category.

    Args:
        text: a line of JSON for each failed question.
        questions: query_id -> question, for all questions.
        count: the number of failed questions.

    Raises:
        ValueError: there are not `count` lines, or a line is about a question not in `questions`.
    """
    failed = {row["query_id"]: row for row in map(parse_json, text.splitlines())}
    if len(failed) != count or not failed.keys() <= questions.keys():
        raise ValueError(f"{len(failed)} entries where {count} were written")
    rows = [failed.get(query_id, {}) for query_id in questions]  # {}: did not fail
    columns: dict[str, Any] = {"query_id": [*questions], "question": [*questions.values()]}
    columns["failed"] = [query_id in failed for query_id in questions]
    for name in ("cause", "evidence", "measure"):
        columns[name] = [row.get(name, "") for row in rows]
    for name in ("value", "held"):
        columns[name] = pd.array([row.get(name) for row in rows], dtype="Float64")
    return pd.DataFrame(columns)


def plain(value: Any) -> Any:
    """Return a record, or mappings and sequences of records, as plain data for JSON: dicts, lists and
    numbers to 6 decimals.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, float):
        return round(value, _DIGITS) + 0.0  # + 0.0 turns -0.0 into 0.0
    return value


def passed_text(passed: int, decided: int, total: int, noun: str = "") -> str:
    """Return how many questions passed, failed and are not decided, as a sentence without an end.

    Args:
        passed: the number of questions that passed.
        decided: the number of questions that passed or failed.
        total: the number of all questions.
        noun: the noun after the numbers, such as "questions"; "" for none.

    >>> passed_text(16, 31, 40), passed_text(2, 2, 2, "questions")
    ('16 of 40 passed, 15 failed, 9 not decided', '2 of 2 questions passed')
    """
    text = " ".join(filter(None, [f"{passed} of {total}", noun, "passed"]))
    if decided > passed:
        text += f", {decided - passed} failed"
    if total > decided:
        text += f", {total - decided} not decided"
    return text
