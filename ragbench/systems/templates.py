"""Requests from templates: which names in braces there are ({query}, {history}, ...), and that
their values cannot break out of them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragbench.errors import unknown
from ragbench.text import without_surrogates

_PLACEHOLDER = re.compile(r"\{((?:env:)?\w+)\}")


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template, a text or any JSON value, with each "{name}" in its texts replaced by a value.

    A text that is nothing but "{name}" becomes the value itself, also a list. Inside a longer text,
    a list becomes its entries with commas. Braces around anything that is not a name in `values` are
    left alone, also those in a value.

    >>> fill({"q": "{query}", "text": "Q: {query}", "k": 5}, {"query": 'a "quote" {k}'})
    {'q': 'a "quote" {k}', 'text': 'Q: a "quote" {k}', 'k': 5}
    """
    if isinstance(template, str):
        alone = _PLACEHOLDER.fullmatch(template)
        if alone and alone[1] in values:
            return values[alone[1]]
        return _PLACEHOLDER.sub(lambda match: as_text(values.get(match[1], match[0])), template)
    if isinstance(template, Mapping):
        return {key: fill(value, values) for key, value in template.items()}
    if isinstance(template, Sequence):
        return [fill(value, values) for value in template]
    return template


def as_text(value: Any) -> str:
    """Return a value as it is written inside a longer text.

    A list becomes its entries with commas, a list of messages a line "role: content" for each, and a
    truth value "true" or "false".
    """
    if isinstance(value, list):
        if value and isinstance(value[0], Mapping):
            return "\n".join(f"{message['role']}: {message['content']}" for message in value)
        return ",".join(map(as_text, value))
    return json.dumps(value) if isinstance(value, bool) else str(value)


def question_values(
    query_id: str,
    query: str,
    user_roles: Sequence[str] = (),
    history: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return the values of a question that a template may name.

    >>> values = question_values("q1", "Why?", ["admin", "hr"])
    >>> fill({"q": "{query}", "roles": "{user_roles}", "note": "for {user_roles}"}, values)
    {'q': 'Why?', 'roles': ['admin', 'hr'], 'note': 'for admin,hr'}
    """
    return {
        "query": without_surrogates(query),
        "query_id": query_id,
        "user_roles": list(user_roles),
        "history": [dict(message) for message in history],
    }


def check_names(template: Any, strict: Any, example: str) -> None:
    """Raise ValueError if no part of a request has the question, "{query}", or a name is unknown.

    Args:
        template: a part that may have other texts in braces.
        strict: a part in which every name in braces must be a value of a question, or "env:NAME".
        example: how to send the question, for the error message.
    """
    names = question_values("", "")
    for name in set(_PLACEHOLDER.findall(json.dumps(strict))) - names.keys():
        if not name.startswith("env:"):
            raise ValueError(unknown("value", name, names))
    if "{query}" not in json.dumps([template, strict]):
        raise ValueError(f"the question is sent nowhere; write {example}")
