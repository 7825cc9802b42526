"""JSON and YAML with the place of every value, so that a problem can be reported with its line.

The parsers of the standard library and of PyYAML keep no places, take the last of two equal keys without an error, read
NaN as a number, an unquoted `no` as false and 010 as eight. Here JSON is JSON, and of YAML's plain words only true,
false, null and decimal numbers are more than text. Nothing but plain data is ever built.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder, loads
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.testsets.problems import Problem, field_name

Keys = tuple[str | int, ...]

MAX_BYTES = {".yaml": 20_000_000, ".yml": 20_000_000, ".json": 200_000_000}
_MAX_DEPTH = 50
_MAX_EXPANDED = 100_000  # values that aliases may expand to: a file of ten lines can name billions
_MAX_DIGITS = 300
_SHALLOW = f"at most {_MAX_DEPTH} lists and objects inside each other"


class Place(NamedTuple):
    """Where a value is: the line of its key or of itself, and its first and last character + 1 in the text."""

    line: int
    start: int
    end: int


@dataclass(slots=True)
class Parsed:
    """The value of a text, the place of everything in it, and what is wrong; `whole` is False when it has no value."""

    value: Any = None
    places: dict[Keys, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = True
    file: str = ""

    def line(self, keys: Keys) -> int:
        """The line of a value, or of the nearest thing around it where it is missing."""
        while keys and keys not in self.places:
            keys = keys[:-1]
        return self.places[keys].line if keys in self.places else 1

    def problem(self, keys: Keys, value: str, expected: str) -> Problem:
        """What is wrong with the value at `keys`."""
        return Problem(self.line(keys), field_name(keys), value, expected, self.file)

    def broken(self, line: int, value: str, expected: str) -> None:
        """Note why the text has no value."""
        self.problems.append(Problem(line, "", value, expected, self.file))
        self.whole = False


class _NoValueError(Exception):
    def __init__(self, position: int, found: str, expected: str) -> None:
        super().__init__(found)
        self.position, self.found, self.expected = position, found, expected


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, without a byte order mark."""
    try:
        limit = MAX_BYTES.get(path.suffix.lower())
        if limit is not None and (size := path.stat().st_size) > limit:
            raise DataError(f"{path} has {size:,} bytes; expected {limit:,} at most: use JSONL for sets of this size")
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as exc:
        raise DataError(
            f"{path} could not be read: {exc.strerror or exc}; check that it is there and readable"
        ) from exc


def decoded(raw: bytes, file: str, first_line: int = 1) -> str | Problem:
    """The text, or where it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = first_line + raw.count(b"\n", 0, exc.start)
        return Problem(line, "", f"byte 0x{raw[exc.start]:02x} is not UTF-8", "a file saved as UTF-8", file)


def json_records(raw: bytes, file: str) -> Iterator[tuple[int, Parsed]]:
    """The number and the content of each line that is not blank; anything but an object is a problem of its line."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        text = decoded(line, file, number)
        if isinstance(text, Problem):
            yield number, Parsed(problems=[text], whole=False, file=file)
            continue
        parsed = _plain_record(text, file, number) or parse_json(text, file, number)
        if parsed.whole and not isinstance(parsed.value, dict):
            parsed.broken(number, shown(parsed.value), "an object {...} on each line")
        yield number, parsed


def _plain_record(text: str, file: str, line: int) -> Parsed | None:
    """The content of a line by the fast decoder; None where there is anything to report or to look at closely."""
    if text.count("{") + text.count("[") > _MAX_DEPTH or "\\ud" in text or "\\uD" in text:
        return None
    try:
        value = loads(text, object_pairs_hook=_unique, parse_constant=_usual, parse_int=_usual, parse_float=_usual)
    except (ValueError, RecursionError):
        return None
    return Parsed(value, {(): Place(line, 0, len(text))}, file=file)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a field is there twice")
    return found


def _usual(text: str) -> int | float:
    if text.isalpha() or (number := _number(text)) is None:
        raise ValueError(text)
    return number


def parse_json(text: str, file: str = "", first_line: int = 1) -> Parsed:
    """JSON with places; two equal keys, NaN, too deep nesting and halves of surrogate pairs are problems.

    >>> parsed = parse_json('{"cases": [\\n {"id": 1}]}')
    >>> parsed.value, parsed.line(("cases", 0, "id"))
    ({'cases': [{'id': 1}]}, 2)
    """
    return _Json(text, file, first_line).parse()


class _Json(JSONDecoder):
    """The decoder of the standard library in Python, which can tell where each value is."""

    def __init__(self, text: str, file: str, first_line: int) -> None:
        super().__init__(object_pairs_hook=_Pairs, parse_constant=_Refused, parse_int=_parsed, parse_float=_parsed)
        scan = py_make_scanner(self)
        self.text, self.first_line = text, first_line
        self.ends = [match.start() for match in re.finditer("\n", text)]
        self.spans: list[tuple[int, int]] = []
        self.parsed = Parsed(file=file)

        def scan_once(string: str, start: int) -> tuple[Any, int]:
            value, end = scan(string, start)
            self.spans.append((start, end))
            return value, end

        self.parse_object = lambda at, strict, _, *rest: JSONObject(at, strict, scan_once, *rest)
        self.parse_array = lambda at, _: JSONArray(at, scan_once)
        scan = py_make_scanner(self)
        self.scan_once = scan_once

    def parse(self) -> Parsed:
        try:
            value = self.decode(self.text)
            self.parsed.value = self.placed(value, (), iter(sorted(self.spans)))
        except RecursionError:
            self.refuse(0, "too deep", _SHALLOW)
        except _NoValueError as exc:
            self.refuse(exc.position, exc.found, exc.expected)
        except JSONDecodeError as exc:
            self.refuse(exc.pos, f"{self.near(exc.pos)} ({exc.msg})", "valid JSON")
        return self.parsed

    def refuse(self, position: int, found: str, expected: str) -> None:
        self.parsed.broken(self.line(position), f"not valid JSON: {found}", expected)

    def line(self, position: int) -> int:
        return self.first_line + bisect_right(self.ends, position - 1)

    def near(self, position: int) -> str:
        return shown(self.text[position : position + 60], 60) if position < len(self.text) else "the text ends"

    def placed(self, value: Any, keys: Keys, spans: Iterator[tuple[int, int]]) -> Any:
        """The value as plain data, its place noted; what it holds has the next spans, in the order of the text."""
        start, end = next(spans)
        self.parsed.places[keys] = Place(self.line(start), start, end)
        if len(keys) > _MAX_DEPTH:
            raise _NoValueError(start, "too deep", _SHALLOW)
        if isinstance(value, _Refused):
            found = self.near(start) if value.isalpha() else f"the number {shown(str(value), 40)}"
            raise _NoValueError(start, found, "a number of usual size")
        if isinstance(value, str):
            _check_whole(value, self.parsed, keys)
        if isinstance(value, list) and not isinstance(value, _Pairs):
            return [self.placed(item, (*keys, number), spans) for number, item in enumerate(value)]
        if not isinstance(value, _Pairs):
            return value
        found_fields: dict[str, Any] = {}
        for key, item in value:
            field_value = self.placed(item, (*keys, key), spans)
            _check_whole(key, self.parsed, keys)
            if key in found_fields:
                self.parsed.problems.append(self.parsed.problem((*keys, key), *_TWICE))
            found_fields[key] = field_value
        return found_fields


class _Pairs(list[Any]):
    """The fields of an object, each as often as it is there."""


class _Refused(str):
    """NaN, Infinity, or a number too large to be one."""


def _parsed(text: str) -> Any:
    number = _number(text)
    return _Refused(text) if number is None else number


def parse_yaml(text: str, file: str = "") -> Parsed:
    """YAML with places: plain data only, aliases within bounds, two equal keys and other tags are problems.

    >>> parse_yaml("answer: no\\nid: 007\\nwhen: 2024-01-01\\ngrade: 2").value
    {'answer': 'no', 'id': '007', 'when': '2024-01-01', 'grade': 2}
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    reader = _Yaml(iter(()), file)
    try:
        reader.events = iter(yaml.parse(text, Loader=loader))
        return reader.parse()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = " ".join(filter(None, [exc.problem, exc.context])) or "it cannot be read"
        expected = "YAML; quote texts with special signs"
        reader.parsed.broken(mark.line + 1 if mark else 1, f"not valid YAML: {problem}", expected)
    except yaml.reader.ReaderError as exc:
        line = 1 + (text.count("\n", 0, exc.position) if isinstance(exc.position, int) else 0)
        reader.parsed.broken(line, f"not valid YAML: {exc.reason}", "signs that can be printed")
    except _NoValueError as exc:
        reader.parsed.broken(exc.position, exc.found, exc.expected)
    return reader.parsed


class _Yaml:
    """From PyYAML's events, because its nodes have been expanded and its values have no place."""

    def __init__(self, events: Iterator[Any], file: str) -> None:
        self.events = events
        self.parsed = Parsed(file=file)
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.expanded = self.built = 0

    def parse(self) -> Parsed:
        documents = 0
        for event in self.events:
            name = type(event).__name__
            if name == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    line = event.start_mark.line + 1
                    raise _NoValueError(line, "a second document (---)", "one document in a file")
                self.parsed.value, _ = self.value(next(self.events), ())
        return self.parsed

    def value(self, event: Any, keys: Keys, line: int = 0) -> tuple[Any, int]:
        """The value that begins with `event`, and its last character + 1."""
        name, start = type(event).__name__, event.start_mark
        line = line or start.line + 1
        self.parsed.places[keys] = Place(line, start.index, start.index)  # problems inside are at this line
        if len(keys) > _MAX_DEPTH:
            raise _NoValueError(line, "too deep", _SHALLOW)
        before = self.built
        self.built += 1
        if name == "AliasEvent":
            value, end = self.alias(event, line), event.end_mark.index
        elif name == "ScalarEvent":
            value, end = self.scalar(event, keys), event.end_mark.index
        else:
            self.check_tag(event, keys)
            if event.anchor:
                self.anchors.pop(event.anchor, None)  # an alias inside of its own value finds nothing
            value, end = self.sequence(keys, event) if name == "SequenceStartEvent" else self.mapping(keys, event)
        if getattr(event, "anchor", None) and name != "AliasEvent":
            self.anchors[event.anchor] = value, self.built - before
        self.parsed.places[keys] = Place(line, start.index, end)
        return value, end

    def alias(self, event: Any, line: int) -> Any:
        if event.anchor not in self.anchors:
            raise _NoValueError(line, f"the alias *{event.anchor}", f"an anchor &{event.anchor} before it")
        value, size = self.anchors[event.anchor]
        self.expanded += size
        self.built += size
        if self.expanded > _MAX_EXPANDED:
            raise _NoValueError(line, "too many aliases", f"aliases that expand to {_MAX_EXPANDED:,} values at most")
        return value

    def sequence(self, keys: Keys, opening: Any) -> tuple[list[Any], int]:
        found: list[Any] = []
        end = opening.end_mark.index
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            value, end = self.value(event, (*keys, len(found)))
            found.append(value)
        return found, event.end_mark.index if opening.flow_style else end

    def mapping(self, keys: Keys, opening: Any) -> tuple[dict[str, Any], int]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        end = opening.end_mark.index
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            line = event.start_mark.line + 1
            if type(event).__name__ != "ScalarEvent":
                raise _NoValueError(line, "a field name that is a list, a mapping or an alias", "a text")
            key = event.value
            _check_whole(key, self.parsed, keys)
            value, end = self.value(next(self.events), (*keys, key), line)
            if key == "<<" and event.implicit[0]:
                for each in reversed(value if isinstance(value, list) else [value]):
                    if not isinstance(each, dict):
                        raise _NoValueError(line, f"<< {shown(each)}", "an alias of a mapping")
                    merged |= each
            elif key in own:
                self.parsed.problems.append(self.parsed.problem((*keys, key), *_TWICE))
            else:
                own[key] = value
        return {**merged, **own}, event.end_mark.index if opening.flow_style else end

    def check_tag(self, event: Any, keys: Keys) -> None:
        if event.tag not in (None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))):
            what = f"the tag {shown(event.tag)}"
            self.parsed.problems.append(self.parsed.problem(keys, what, "plain data without tags"))

    def scalar(self, event: Any, keys: Keys) -> Any:
        self.check_tag(event, keys)
        text: str = event.value
        _check_whole(text, self.parsed, keys)
        if event.tag or not event.implicit[0]:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _PLAIN_NUMBER.fullmatch(text) and (number := _number(text)) is not None:
            return number
        return text


_WORDS: dict[str, bool | None] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
}  # fmt: skip
# A part of what YAML 1.1 takes for numbers, so that a text which PyYAML writes without quotes stays a text.
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-][0-9]+)?)?")


def _number(text: str) -> int | float | None:
    if len(text) > _MAX_DIGITS:
        return None
    if text.removeprefix("-").isdecimal():
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else None


_TWICE = ("there twice", "each field once")


def _check_whole(text: str, parsed: Parsed, keys: Keys) -> None:
    """Half of a surrogate pair, which JSON and YAML can name, is a problem: no encoder takes it later."""
    try:
        text.encode()
    except UnicodeEncodeError:
        what = f"{shown(text)} with half of a surrogate pair"
        parsed.problems.append(parsed.problem(keys, what, "the character itself"))
