"""JSON objects in what a model replied."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any


class UnreadableError(ValueError):
    """A reply that cannot be read, with the reason; whoever asked decides what becomes of it."""


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects of a text, in order; braces of prose are passed over.

    >>> list(json_objects('Well, {this} is it: {"a": {"b": 1}} and {}'))
    [{'a': {'b': 1}}, {}]

    Raises:
        UnreadableError: what begins like an object is broken or cut; what stands inside it is not looked at.
    """
    decoder = json.JSONDecoder(strict=False)  # small models write line breaks into strings
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
            yield value
        except RecursionError as exc:
            raise UnreadableError("it nests too deeply") from exc
        except json.JSONDecodeError as exc:
            if re.match(r'\{\s*["}]', text[start : start + 100]):
                raise UnreadableError(f"its JSON is broken or cut at character {exc.pos} ({exc.msg})") from exc
            end = start + 1
        start = text.find("{", end)
