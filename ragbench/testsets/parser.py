"""JSON and YAML as plain data, with the line of every value, so that a problem can be reported with
it.

JSON is read by the standard library and YAML by ruamel.yaml, of whose nodes only plain data is
built: of YAML's plain words only true, false, null and decimal numbers are more than text (`no` and
007 are texts), a field is there once, and aliases expand within bounds. Lines of JSON, which is
YAML too, are looked up by ruamel.yaml when there is a problem.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.testsets.problems import Problem, field_name

Keys = tuple[str | int, ...]

_MAX_BYTES = {".yaml": 20_000_000, ".yml": 20_000_000, ".json": 200_000_000}
_MAX_LOOKED_UP = 2_000_000  # characters of JSON; ruamel.yaml takes 3 s for a million
_MAX_DEPTH = 50
_MAX_EXPANDED = 100_000  # values that aliases may expand to: a file of ten lines can name billions
_MAX_DIGITS = 300
_SHALLOW = f"at most {_MAX_DEPTH} lists and objects inside each other"
_SURROGATE = re.compile(r"\\[uU](?:0000)?[dD][89a-fA-F]")
_WORDS: dict[str, bool | None] = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
}
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-][0-9]+)?")
_TAGS = {
    f"tag:yaml.org,2002:{kind}"
    for kind in "str seq map int float bool null timestamp merge value".split()
}
_LINE_ENDS = re.compile("[\x85\u2028\u2029\ufeff]")  # which readers of YAML take for blanks
_AMBIGUOUS = re.compile(
    r"(?i)y|n|yes|no|on|off|[-+.\d][\d:_.-]*"
)  # not texts to readers of YAML 1.1
_TWICE = ("there twice", "each field once")


class UnreadableError(Exception):
    """A text without a plain value; `problem` tells why."""

    def __init__(self, line: int, value: str, expected: str, file: str = "") -> None:
        super().__init__(value)
        self.problem = Problem(line, "", value, expected, file)


@dataclass(frozen=True, slots=True)
class Record:
    """A value of a file, its keys from the top of the file, and what gives the line of any keys."""

    value: Any
    file: str = ""
    keys: Keys = ()
    line_of: Callable[[Keys], int] = lambda keys: 1

    @property
    def line(self) -> int:
        """Return the line on which the value begins."""
        return self.line_of(self.keys)

    def at(self, *keys: str | int) -> Record:
        """Return a value inside of this one."""
        value = self.value
        for key in keys:
            value = value[key]
        return replace(self, value=value, keys=(*self.keys, *keys))

    def problem(self, keys: Keys, value: str, expected: str) -> Problem:
        """Return what is wrong with the value at `keys`, which may be missing."""
        inside = (*self.keys, *keys)
        return Problem(self.line_of(inside), field_name(inside), value, expected, self.file)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, without a byte order mark."""
    try:
        limit = _MAX_BYTES.get(path.suffix.lower())
        if limit is not None and (size := path.stat().st_size) > limit:
            raise DataError(
                f"{path} has {size:,} bytes; expected {limit:,} at most: use JSONL for sets of "
                "this size"
            )
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as exc:
        raise DataError(
            f"{path} could not be read: {exc.strerror or exc}; check that it is there and readable"
        ) from exc


def decode(raw: bytes, file: str, first_line: int = 1) -> str:
    """Return the text of bytes in UTF-8.

    Raises:
        UnreadableError: they are not.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = first_line + raw.count(b"\n", 0, exc.start)
        raise UnreadableError(
            line, f"byte 0x{raw[exc.start]:02x} is not UTF-8", "a file in UTF-8", file
        ) from exc


def json_records(raw: bytes, file: str, problems: list[Problem]) -> Iterator[Record]:
    """Yield the object of each line that is not blank; what is wrong is added to `problems`."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(decode(line, file, number), file, problems, line=number)
        except UnreadableError as exc:
            problems.append(exc.problem)
            continue
        if isinstance(record.value, dict):
            yield record
        else:
            problems.append(record.problem((), shown(record.value), "an object {...} on each line"))


def parse_json(text: str, file: str, problems: list[Problem], *, line: int = 0) -> Record:
    """Return the content of a JSON text, or of that line of a JSONL file; repeated fields are added
    to `problems`.

    >>> record = parse_json('{"cases": [\\n {"id": 1}]}', "a.json", [])
    >>> record.value, record.at("cases", 0, "id").line
    ({'cases': [{'id': 1}]}, 2)

    Raises:
        UnreadableError: it is not JSON, holds NaN or a number out of range, or nests too deeply.
    """
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            names = [name for name, _ in pairs]
            repeated.extend({name for name in fields if names.count(name) > 1})
        return fields

    try:
        value = json.loads(
            text,
            object_pairs_hook=unique,
            parse_constant=_number,
            parse_int=_number,
            parse_float=_number,
        )
    except json.JSONDecodeError as exc:
        near = shown(text[exc.pos : exc.pos + 60], 60) if exc.pos < len(text) else "the text ends"
        raise UnreadableError(
            line or exc.lineno, f"not valid JSON: {near} ({exc.msg})", "valid JSON", file
        ) from exc
    except RecursionError as exc:
        raise UnreadableError(line or 1, "not valid JSON: too deep", _SHALLOW, file) from exc
    except ValueError as exc:
        number = line or 1 + text.count("\n", 0, text.find(str(exc)))
        value = f"not valid JSON: the number {shown(str(exc), 40)}"
        raise UnreadableError(number, value, "a number of usual size", file) from exc
    record = Record(value, file, (), (lambda keys: line) if line else _lines_of(text))
    if repeated:
        with_keys = _nodes_of(text)
        faults = with_keys.faults if with_keys else [((name,), *_TWICE) for name in repeated]
        problems += [record.problem(*fault) for fault in faults]
    _check_texts(record, text, problems)
    return record


def parse_yaml(text: str, file: str, problems: list[Problem]) -> Record:
    """Return the content of a YAML text; repeated fields and tags are added to `problems`.

    >>> parse_yaml("answer: no\\nid: 007\\nwhen: 2024-01-01\\ngrade: 2", "a.yaml", []).value
    {'answer': 'no', 'id': '007', 'when': '2024-01-01', 'grade': 2}

    Raises:
        UnreadableError: it is not YAML, nests too deeply, or holds more than one document.
    """
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        nodes = _Nodes(text)
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        reason = " ".join(filter(None, [exc.problem, exc.context])) or "it cannot be read"
        expected = "YAML; quote texts with special signs"
        raise UnreadableError(
            mark.line + 1 if mark else 1, f"not valid YAML: {reason}", expected, file
        ) from exc
    except ReaderError as exc:
        line = 1 + (text.count("\n", 0, exc.position) if isinstance(exc.position, int) else 0)
        raise UnreadableError(
            line, f"not valid YAML: {exc.reason}", "signs that can be printed", file
        ) from exc
    except RecursionError as exc:
        raise UnreadableError(1, "too deep", _SHALLOW, file) from exc
    except UnreadableError as exc:
        exc.problem = replace(exc.problem, file=file)
        raise
    record = Record(nodes.value, file, (), nodes.line_of)
    problems += [record.problem(*fault) for fault in nodes.faults]
    _check_texts(record, text, problems)
    return record


def dump_yaml(value: Any, *, change: Callable[[Any], None] | None = None) -> str:
    """Return plain data as YAML, in the order it has.

    With `change`, `value` is a YAML text, of whose content `change` makes another; what it does not
    touch keeps its comments.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):
        def ignore_aliases(self, data: Any) -> bool:
            return not getattr(data, "anchor", None)

    def quoted(representer: Representer, text: str) -> Any:
        style = '"' if _LINE_ENDS.search(text) else "'" if _AMBIGUOUS.fullmatch(text) else None
        return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Representer.add_representer(str, quoted)
    yaml, out = YAML(), StringIO()
    yaml.Representer, yaml.width, yaml.preserve_quotes = Representer, 120, True
    try:
        if change is not None:
            content = yaml.load(value)
            change(content)
            value = content
        yaml.dump(value, out)
    except YAMLError as exc:
        raise ValueError(f"not YAML: {exc}") from exc
    return out.getvalue()


def yaml_comments(text: str) -> Iterator[str]:
    """Yield the comments in a YAML text.

    >>> list(yaml_comments("a: '# no'  # one\\n# two\\nb: [1, # three\\n 2]"))
    ['# one', '# two', '# three']
    """
    from ruamel.yaml import YAML

    scalars, nodes = [], [YAML(typ="safe", pure=True).compose(text)]
    while nodes:
        node = nodes.pop()
        if node is not None and node.id == "scalar":
            scalars.append((node.start_mark.index, node.end_mark.index, node.style, node.value))
        elif node is not None:
            nodes += (
                node.value
                if node.id == "sequence"
                else [part for pair in node.value for part in pair]
            )
    scalars.sort()
    for match in re.finditer(r"(?:^|(?<=\s))#.*", text, re.MULTILINE):
        comment = match[0].rstrip()
        number = bisect_right(scalars, (match.start() + 1,)) - 1
        _, end, style, value = scalars[max(number, 0)] if scalars else (0, 0, None, "")
        is_text = (
            number >= 0 and match.start() < end and (style not in ("|", ">") or comment in value)
        )
        if not is_text:
            yield comment


class _Nodes:
    """The plain data that the nodes of a YAML text hold, with the line of each; `faults` are keys,
    value, expected.
    """

    def __init__(self, text: str) -> None:
        from ruamel.yaml import YAML

        self.lines: dict[Keys, int] = {}
        self.faults: list[tuple[Keys, str, str]] = []
        self._built: set[int] = set()
        self._expanded = 0
        roots = list(YAML(typ="safe", pure=True).compose_all(text))
        if len(roots) > 1:
            line = roots[1].start_mark.line + 1
            raise UnreadableError(line, "a second document (---)", "one document in a file")
        self.value = self._build(roots[0], (), 1) if roots and roots[0] else None

    def line_of(self, keys: Keys) -> int:
        """Return the line of a value, or of the nearest thing around it where it is missing."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)

    def _build(self, node: Any, keys: Keys, line: int) -> Any:
        self.lines[keys] = line
        self._expanded += id(node) in self._built
        self._built.add(id(node))
        if len(keys) > _MAX_DEPTH:
            raise UnreadableError(line, "too deep", _SHALLOW)
        if self._expanded > _MAX_EXPANDED:
            expected = f"aliases that expand to {_MAX_EXPANDED:,} values at most"
            raise UnreadableError(line, "too many aliases", expected)
        if node.tag not in _TAGS:
            self.faults.append((keys, f"the tag {shown(node.tag)}", "plain data without tags"))
        if node.id == "mapping":
            return self._build_mapping(node, keys)
        if node.id == "sequence":
            items = enumerate(node.value)
            return [
                self._build(item, (*keys, number), item.start_mark.line + 1)
                for number, item in items
            ]
        return _plain(node.value) if node.style is None else node.value

    def _build_mapping(self, node: Any, keys: Keys) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for name, item in node.value:
            line = name.start_mark.line + 1
            if name.id != "scalar":
                raise UnreadableError(line, "a field name that is a list or a mapping", "a text")
            value = self._build(item, (*keys, name.value), line)
            if name.tag == "tag:yaml.org,2002:merge":
                for part in reversed(value if isinstance(value, list) else [value]):
                    if not isinstance(part, dict):
                        raise UnreadableError(line, f"<< {shown(part)}", "an alias of a mapping")
                    merged |= part
            elif name.value in fields:
                self.faults.append(((*keys, name.value), *_TWICE))
            else:
                fields[name.value] = value
        return {**merged, **fields}


def _nodes_of(text: str) -> _Nodes | None:
    """Return the nodes of a JSON text, None where ruamel.yaml does not read it or it is long."""
    try:
        return _Nodes(text.replace("\t", " ")) if len(text) <= _MAX_LOOKED_UP else None
    except Exception:  # what JSON has and YAML has not: the line is then that of the whole file
        return None


def _lines_of(text: str) -> Callable[[Keys], int]:
    """Return what gives the line of any keys of a JSON text."""
    nodes = cache(lambda: _nodes_of(text))
    return lambda keys: found.line_of(keys) if (found := nodes()) else 0


def _plain(text: str) -> Any:
    """Return the value of a plain word of YAML; fewer are numbers than YAML 1.1 and 1.2 have."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return _number(text) if _DECIMAL.fullmatch(text) else text
    except ValueError:
        return text


def _number(text: str) -> int | float:
    """Return a decimal number; ValueError where it is out of range."""
    if len(text) <= _MAX_DIGITS and text.removeprefix("-").isdecimal():
        return int(text)
    if len(text) > _MAX_DIGITS or not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number


def _check_texts(record: Record, text: str, problems: list[Problem]) -> None:
    """Add halves of surrogate pairs, which no encoder takes later, and what nests too deeply, to
    `problems`.
    """
    if _SURROGATE.search(text) or text.count("{") + text.count("[") > _MAX_DEPTH:
        problems += [record.problem(*fault) for fault in _odd_values(record.value, ())]


def _odd_values(value: Any, keys: Keys) -> Iterator[tuple[Keys, str, str]]:
    if len(keys) > _MAX_DEPTH:
        yield keys[:1], "too deep", _SHALLOW
        return
    for part in (value, *(value if isinstance(value, dict) else ())):
        try:
            part.encode() if isinstance(part, str) else b""
        except UnicodeEncodeError:
            yield keys, f"{shown(part)} with half of a surrogate pair", "the character itself"
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in inside:
        yield from _odd_values(item, (*keys, key))
