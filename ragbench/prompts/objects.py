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
    return (value for value, _, _ in json_spans(text))


_BEGINS = re.compile(r'\{\s*["}]')


def json_spans(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """`json_objects` with where each begins and ends."""
    decoder = json.JSONDecoder(strict=False)  # small models write line breaks into strings
    end = 0
    while begins := _BEGINS.search(text, end):
        try:
            value, end = decoder.raw_decode(text, begins.start())
        except RecursionError as exc:
            raise UnreadableError("it nests too deeply") from exc
        except json.JSONDecodeError as exc:
            raise UnreadableError(f"its JSON is broken or cut at character {exc.pos} ({exc.msg})") from exc
        yield value, begins.start(), end
