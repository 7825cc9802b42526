"""Which fields of a reply with status 200 state that the request failed, and the reason in words;
`llms/reply_text` recognises abstentions.
"""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.testsets.fields import first, is_empty, is_missing

_ERRORS = ("error", "errors", "exception", "fault")
_REASONS = ("message", "msg", "detail", "details", "reason", "faultstring", "description", "title")
_FAILED = ("error", "failed", "failure")
_SUCCESS = ("success", "ok")
_CODES = ("status", "status_code", "statuscode", "code")


def stated_failure(table: Mapping[str, Any], *, has_answer: bool) -> str:
    """Return the reason of the failure that a reply states; "" if it states none.

    An error, or a status such as "failed", states a failure even next to an answer. A code of HTTP, or
    "success": false, does so only without an answer.

    The reason is the text of the error. Without such a text it is the reply's message; without a
    message, the field and its value ("ok is False").

    >>> stated_failure({"error": {"message": "out of memory", "code": 7}}, has_answer=False)
    'out of memory'
    >>> stated_failure({"success": False, "message": "busy"}, has_answer=False)
    'busy'
    >>> stated_failure({"error": {}, "errors": [], "status": "ok"}, has_answer=False)
    ''
    """
    for name in _ERRORS:
        words = _words_of(table.get(name))
        if words:
            return words
    failed_field = _failed_field(table, has_answer)
    message = first(table, _REASONS)
    if failed_field and isinstance(message, str) and message.strip():
        return message
    return failed_field


def _words_of(error: Any) -> str:
    """Return the text of an error; "" if it has none.

    An error is a text, a table with a message (a table without one is written as it is), or a list of
    errors, of which the first text counts.
    """
    if is_empty(error):
        return ""
    if isinstance(error, str):
        return error
    if isinstance(error, list | tuple):
        return next(filter(None, map(_words_of, error)), "")  # the first that is not empty
    if isinstance(error, Mapping) and any(error.values()):
        words = first(error, _REASONS)
        if isinstance(words, str) and words.strip():
            return words
        return shown(dict(error), 200)
    return ""


def _failed_field(table: Mapping[str, Any], has_answer: bool) -> str:
    """Return the first field that states a failure by its value ("ok is False"); "" if none does.

    Next to an answer, only errors and a status count: success and HTTP codes may be about a part.
    """
    for name in _ERRORS:
        number = table.get(name)
        is_number = isinstance(number, Real) and not is_missing(number)
        if is_number and number:
            return f"{name} is {number!r}"
    status = table.get("status")
    if isinstance(status, str) and status.strip().casefold() in _FAILED:
        return f"status is {status!r}"
    if has_answer:
        return ""
    for name in _SUCCESS:
        if table.get(name) is False:
            return f"{name} is False"
    for name in _CODES:
        code = table.get(name)
        if isinstance(code, int) and 400 <= code < 600:
            return f"{name} is {code}"
    return ""
