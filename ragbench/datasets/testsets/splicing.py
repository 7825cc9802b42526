"""A case put into the text of a file, replaced or taken out, with every other character left as it is.

The cuts are found by the places of the values; whether they were right is for the caller to see, who reads the new
text. Layouts that such cuts do not fit (YAML in one line, anchors) give None: the whole list has to be written anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ragbench.datasets.testsets import json_forms, yaml_form
from ragbench.datasets.testsets.parsing import Keys, Parsed, Place

Record = dict[str, Any]


def spliced_lines(raw: bytes, key: Callable[[bytes], str], case_id: str, new: Sequence[str]) -> bytes:
    """Lines with `new` in the place of those whose key is `case_id`, at the end where there are none."""
    lines = raw.split(b"\n")
    end = b"\r\n" if len(lines) > 1 and lines[0].endswith(b"\r") else b"\n"
    tail = lines.pop()  # what follows the last line end: nothing, or a line that has none
    whole = [line + b"\n" for line in lines] + ([tail] if tail else [])
    fresh = [line.rstrip("\n").encode() + end for line in new]
    result: list[bytes] = []
    for line in whole:
        if not line.strip() or key(line) != case_id:
            result.append(line)
        else:
            result += fresh
            fresh = []
    if fresh and result and not result[-1].endswith(b"\n"):
        result[-1] += end
    return b"".join([*result, *fresh])


def spliced_json(text: str, parsed: Parsed, keys: Keys, number: int | None, record: Record | None) -> str | None:
    """`number` is the item to replace (None: a new one at the end), `record` what stands there then (None: nothing)."""
    items = _items(parsed, keys)
    line_end = "\r\n" if "\r\n" in text else "\n"
    if record is None:
        return _without(text, items, len(items) - 1 if number is None else number)
    if not items:
        return None
    place = items[number if number is not None else -1]
    before = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    indent = before if not before.strip() else ""
    body = json_forms.dumped(record).replace("\n", line_end + indent)
    if not indent and "\n" not in text[items[0].start : items[-1].end]:
        body = json_forms.dumped(record, indent=None)
    if number is not None:
        return text[: place.start] + body + text[place.end :]
    gap = line_end + indent if indent or before == "" else " "
    return text[: place.end] + "," + gap + body + text[place.end :]


def spliced_yaml(text: str, parsed: Parsed, keys: Keys, number: int | None, record: Record | None) -> str | None:
    """As `spliced_json`, for a block list whose items begin with `- ` each on a line of its own."""
    items = _items(parsed, keys)
    if not items:
        return None
    extents = [_block(text, place) for place in items]
    if any(extent is None for extent in extents):
        return None
    start, end, indent = extents[number if number is not None else -1] or (0, 0, "")
    line_end = "\r\n" if "\r\n" in text else "\n"
    body = ""
    if record is not None:
        lines = yaml_form.dumped([record]).splitlines()
        body = "".join(indent + line + line_end if line else line_end for line in lines)
    if number is None:
        gap = "" if text[:end].endswith("\n") else line_end
        return text[:end] + gap + body + text[end:]
    return text[:start] + body + text[end:]


def comments_in(text: str, parsed: Parsed, start: int = 0, end: int | None = None) -> bool:
    """Whether a YAML text has comments between two characters."""
    end = len(text) if end is None else end
    scalars = [place for keys, place in parsed.places.items() if not isinstance(_at(parsed.value, keys), dict | list)]
    for match in re.finditer(r"(?:^|(?<=\s))#", text[start:end], re.MULTILINE):
        position = start + match.start()
        if not any(place.start <= position < place.end for place in scalars):
            return True
    return False


def extent(text: str, parsed: Parsed, keys: Keys, number: int) -> tuple[int, int]:
    """The first and last character + 1 of an item of a YAML list."""
    place = _items(parsed, keys)[number]
    block = _block(text, place)
    return (place.start, place.end) if block is None else block[:2]


def _items(parsed: Parsed, keys: Keys) -> list[Place]:
    places: list[Place] = []
    while (*keys, len(places)) in parsed.places:
        places.append(parsed.places[(*keys, len(places))])
    return places


def _without(text: str, items: Sequence[Place], number: int) -> str:
    place = items[number]
    if number + 1 < len(items):
        return text[: place.start] + text[items[number + 1].start :]
    if number:
        return text[: items[number - 1].end] + text[place.end :]
    return text[: place.start] + text[place.end :]


def _block(text: str, place: Place) -> tuple[int, int, str] | None:
    """The whole lines of an item and the white space before its dash."""
    start = text.rfind("\n", 0, place.start) + 1
    match = re.fullmatch(r"([ ]*)-[ ]+", text[start : place.start])
    if not match:
        return None
    if text[place.end - 1 : place.end] == "\n":  # a block text ends behind its line
        return start, place.end, match.group(1)
    line_end = text.find("\n", place.end)
    return start, len(text) if line_end < 0 else line_end + 1, match.group(1)


def _at(value: Any, keys: Keys) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return {}
    return value
