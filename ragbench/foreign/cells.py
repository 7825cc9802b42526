"""Cells of tables from other tools: which words mean a missing, failed, passed or graded score,
numbers such as 85% and 0,5, ids, and the question in an input.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ragbench.files import parse_json
from ragbench.testsets.fields import QUESTIONS, column_name, is_missing, read_cell

_MISSING = ("", "nan", "none", "null", "n/a", "na", "<na>", "nat", "-", "–", "missing", "unscored")
_FAILED = ("error", "errored", "exception", "skipped", "timeout", "timed out", "cancelled")
_VERDICTS = {
    "true": 1.0,
    "false": 0.0,
    "yes": 1.0,
    "no": 0.0,
    "pass": 1.0,
    "passed": 1.0,
    "fail": 0.0,
    "failed": 0.0,
    "correct": 1.0,
    "incorrect": 0.0,
}
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grades and their values: correct, partially correct, incorrect, no answer."""
_DIRECTIONS = {  # "True" of TruLens is "higher is better"
    "true": True,
    "false": False,
    "maximize": True,
    "minimize": False,
}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def is_blank(cell: Any) -> bool:
    """Return True for a cell without a value, however a tool writes this."""
    if is_missing(cell):
        return True
    return isinstance(cell, str) and cell.strip().casefold() in _MISSING


def number_of(cell: Any, *, decimal_comma: bool = False) -> float | None:
    """Return the number in a cell: NaN where the tool has none, None where the cell is another text.

    A verdict in words is 1 or 0, "85 %" is 0.85.

    >>> number_of("0.5"), number_of("passed"), number_of("85%"), number_of("n/a"), number_of("Berlin")
    (0.5, 1.0, 0.85, nan, None)
    """
    if is_blank(cell):
        return math.nan
    if isinstance(cell, str):
        return _number_in(cell.strip().casefold(), decimal_comma)
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else math.nan


def score_of(cell: Any, *, decimal_comma: bool = False) -> float:
    """Return the number in a cell; NaN where there is none.

    >>> score_of("passed"), score_of("n/a"), score_of("Berlin"), score_of([1])
    (1.0, nan, nan, nan)
    """
    number = number_of(cell, decimal_comma=decimal_comma)
    return math.nan if number is None else number


def direction_of(cell: Any) -> bool | None:
    """Return True for a direction in which a higher score is better, False for one in which a lower is;
    None for any other cell.

    >>> direction_of(True), direction_of("minimize"), direction_of("north")
    (True, False, None)
    """
    return _DIRECTIONS.get(str(cell).strip().casefold())


def is_category(fields: Mapping[str, Any]) -> bool:
    """Return True for a score of Langfuse in words, whose `value` is 0 unless a configuration numbers
    the categories.

    >>> is_category({"name": "tone", "value": 0, "string_value": "good"})
    True
    """
    return not is_blank(fields.get("string_value")) and is_blank(fields.get("config_id"))


def _number_in(text: str, decimal_comma: bool) -> float | None:
    """Return the number that a text in small letters states, as "0.5", "85%" or "passed". NaN for a
    failure such as "n/a" and for an infinite number; None for a text that is not a number.
    """
    if text in _VERDICTS:
        return _VERDICTS[text]
    if text in _FAILED:
        return math.nan
    is_percent = text.endswith("%")
    digits = text.removesuffix("%").strip()
    if decimal_comma and _DECIMAL_COMMA.fullmatch(digits):
        digits = digits.replace(",", ".")
    if "_" in digits:  # float("1_000") is 1000.0 in Python, but no tool writes numbers so
        return None
    try:
        number = float(digits)
    except ValueError:
        return None
    if not math.isfinite(number):
        return math.nan
    return number / 100 if is_percent else number


def id_of(cell: Any) -> str:
    """Return an id as text: 3, 3.0 and "3" are the same one; "" without one.

    >>> id_of(3), id_of(3.0), id_of(" q7 "), id_of(None)
    ('3', '3', 'q7', '')
    """
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, Mapping | list):
        cell = json.dumps(cell, sort_keys=True, default=str, ensure_ascii=False)
    return str(cell).strip()


def question_of(cell: Any) -> str:
    """Return the question in a cell: its text, the last message of a user, or the fields of an input
    as JSON; "" without one.

    >>> question_of({"question": "Who?"}), question_of([{"role": "user", "content": "Why?"}])
    ('Who?', 'Why?')
    >>> question_of('{"topic": "cats", "style": "short"}')
    '{"style": "short", "topic": "cats"}'
    >>> question_of('"Who is Zo\\\\u00eb?"'), question_of('"Yes" or "no"?')
    ('Who is Zoë?', '"Yes" or "no"?')
    """
    if is_missing(cell):
        return ""
    if isinstance(cell, str):
        cell = read_cell(_unquoted(cell.strip()))
    if isinstance(cell, Mapping):
        return _question_of_fields(cell)
    if isinstance(cell, list):
        return _question_of_messages(cell)
    return str(cell).strip()


def _unquoted(text: str) -> str:
    """Return the text in a JSON string, as TruLens writes its inputs; any other text unchanged."""
    if not (text.startswith('"') and text.endswith('"')):
        return text
    with suppress(ValueError):
        return str(parse_json(text)).strip()
    return text


def _question_of_fields(fields: Mapping[Any, Any]) -> str:
    """Return the question in an object.

    It is the last message of a user, if the object has a list `messages`; else the first field with a
    usual name of a question; else the whole object as JSON.
    """
    messages = fields.get("messages")
    if isinstance(messages, list):
        return _question_of_messages(messages)
    by_name = {column_name(name): value for name, value in fields.items()}
    for name in QUESTIONS:
        if isinstance(by_name.get(name), str):
            return str(by_name[name]).strip()
    return json.dumps(fields, sort_keys=True, default=str, ensure_ascii=False)


def _question_of_messages(messages: list[Any]) -> str:
    """Return the content of the last message of a user; if there is none, the list as JSON."""
    for message in reversed(messages):
        if _is_of_user(message):
            content = message.get("content")
            if isinstance(content, str):
                return content.strip()
            if content is not None:
                return json.dumps(content, sort_keys=True, default=str, ensure_ascii=False)
    return json.dumps(messages, sort_keys=True, default=str, ensure_ascii=False)


def _is_of_user(message: Any) -> bool:
    """Return True for a message of a user. Its field `role` names who wrote it, or `type`, as in ragas and
    LangChain; without both, it is taken for a user's.
    """
    if not isinstance(message, Mapping):
        return False
    return message.get("role", message.get("type", "user")) in ("user", "human")


def user_messages(cell: Any) -> list[Any]:
    """Return what a user wrote in a conversation, the contents of all messages; [] for another input.

    >>> user_messages([{"type": "human", "content": "Why?"}, {"type": "ai", "content": "So."}])
    ['Why?']
    """
    if isinstance(cell, str):
        cell = read_cell(_unquoted(cell.strip()))
    if isinstance(cell, Mapping):
        cell = cell.get("messages")
    if not isinstance(cell, list):
        return []
    return [message.get("content") for message in cell if _is_of_user(message)]


def input_of(cell: Any) -> str:
    """Return a whole input as JSON: what the user wrote in a conversation, or the fields of an object; ""
    for a text, which is the question itself.

    >>> input_of({"question": "Why?", "context": "A hill."}), input_of("Why?")
    ('{"context": "A hill.", "question": "Why?"}', '')
    """
    whole_input = user_messages(cell) or cell
    if isinstance(whole_input, str):
        whole_input = read_cell(_unquoted(whole_input.strip()))
    if not isinstance(whole_input, Mapping | list):
        return ""
    return json.dumps(whole_input, sort_keys=True, default=str, ensure_ascii=False)
