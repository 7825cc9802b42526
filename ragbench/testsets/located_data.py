"""JSON and YAML as plain data: which words of YAML are texts or numbers (`no`, 007), what is
refused (aliases, tags), and the line of every value for the reports of problems.

YAML's plain words are texts, except true, false, null and decimal numbers (`no` and 007 are texts).
Aliases are refused, as ten lines of them can name billions of values, and so are tags, which ask
for other types. JSON is YAML too, so ruamel.yaml looks up the lines of both when there is a
problem.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, Self

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.resolver import VersionedResolver

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.files import parse_json
from ragbench.testsets.problems import Problem, field_name
from ragbench.testsets.snapshot import as_at_sweep_start

Keys = tuple[str | int, ...]

_MAX_LOOKED_UP = 2_000_000  # characters; ruamel.yaml takes 3 s for a million
_MAX_DEPTH = 100  # levels of a YAML text; a test set has less than ten
_TEXT_TAG = "tag:yaml.org,2002:str"
_WORDS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"-?(?:0|[1-9][0-9]{0,300})",
    "float": r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-][0-9]+)?",
}
_LOST_UNQUOTED = re.compile("[\x85\u2028\u2029\ufeff]|  ")
"""Line ends that readers of YAML take for blanks, and blanks at which a long text is folded to one."""


class NoPlainValueError(Exception):
    """A text is not plain data; `problem` states why."""

    def __init__(self, line: int, value: str, expected: str, file: str) -> None:
        super().__init__(value)
        self.problem = Problem(line, "", value, expected, file)


@dataclass(frozen=True, slots=True)
class Record:
    """A value of a file, and its keys from the top of the file.

    Attributes:
        value: plain data: an object, a list, a text, ...
        file: the name of the file, for messages.
        keys: the way to the value: ("cases", 0, "evidence") is a field of the first case.
        line_of: returns the line of the value at any keys of the file.
        names: name of a field of `value` -> its name in the file, where the two differ.
    """

    value: Any
    file: str = ""
    keys: Keys = ()
    line_of: Callable[[Keys], int] = lambda keys: 1
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def line(self) -> int:
        """Return the line on which the value begins."""
        return self.line_of(self.keys)

    def items(self, name: str = "") -> Iterator[Self]:
        """Yield each item of the list in a field, or of this value itself, if it is a list, as a record
        that knows its place; nothing for a missing field.
        """
        items = self.value.get(name) if name else self.value
        keys = (*self.keys, name) if name else self.keys
        for number, item in enumerate(items or ()):
            yield replace(self, value=item, keys=(*keys, number))

    def problem(self, keys: Keys, value: str, expected: str) -> Problem:
        """Return the problem of the value at `keys` inside this one; it may be missing."""
        if keys:
            first, *rest = keys
            # the name that the user wrote, not the one that the field has here
            keys = (self.names.get(str(first), first), *rest)
        path = (*self.keys, *keys)
        return Problem(self.line_of(path), field_name(path), value, expected, self.file)


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, without a byte order mark."""
    try:
        return as_at_sweep_start(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as exc:
        raise DataError(
            f"{path} could not be read: {exc.strerror or exc}; check that it is there and readable"
        ) from exc


def json_records(raw: bytes, file: str, problems: list[Problem]) -> Iterator[Record]:
    """Yield the object of each line that is not blank; add the problems of other lines to `problems`."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = parse(line, file, line=number)
        except NoPlainValueError as exc:
            problems.append(exc.problem)
            continue
        if isinstance(record.value, dict):
            yield record
        else:
            problems.append(record.problem((), shown(record.value), "an object {...} on each line"))


def parse(raw: bytes, file: str, *, line: int = 0) -> Record:
    """Return the content of a YAML or JSON file, or of that line of a JSONL file.

    >>> record = parse(b'{"cases": [\\n {"id": 1}]}', "a.json")
    >>> record.value, [case.line for case in record.items("cases")]
    ({'cases': [{'id': 1}]}, [2])
    >>> parse(b"answer: no\\nid: 007\\nwhen: 2024-01-01\\ngrade: 2", "a.yaml").value
    {'answer': 'no', 'id': '007', 'when': '2024-01-01', 'grade': 2}

    Raises:
        NoPlainValueError: the text is not UTF-8, JSON or YAML, has a field twice, an alias or a tag,
            or nests too deeply.
    """
    is_yaml = file.lower().endswith((".yaml", ".yml"))
    form = "YAML" if is_yaml else "JSON"
    try:
        text = raw.decode()
        # both raise an error for anything that is not plain data
        value = _plain_yaml(text) if is_yaml else _plain_json(text)
    except UnicodeDecodeError as exc:
        line_of_byte = line or 1 + raw.count(b"\n", 0, exc.start)
        wrong = f"byte 0x{raw[exc.start]:02x} is not UTF-8"
        raise NoPlainValueError(line_of_byte, wrong, "a file in UTF-8", file) from exc
    except RecursionError as exc:
        wrong = f"not valid {form}: too deep"
        raise NoPlainValueError(line or 1, wrong, "fewer levels", file) from exc
    except MarkedYAMLError as exc:
        # the place of the error, whose lines are counted from 0
        mark = exc.problem_mark or exc.context_mark
        wrong = f"not valid {form}: {exc.problem or exc.context}"
        raise NoPlainValueError(mark.line + 1 if mark else 1, wrong, "plain data", file) from exc
    except (YAMLError, ValueError) as exc:
        wrong = f"not valid {form}: {' '.join(str(exc).split())}"
        line_of_error = line or getattr(exc, "lineno", 1)
        raise NoPlainValueError(line_of_error, wrong, "plain data", file) from exc
    if line:
        # a line of JSONL: all its values are on it
        return Record(value, file, (), lambda keys: line)
    return Record(value, file, (), _line_finder(text))


def _plain_yaml(text: str) -> Any:
    """Return the value of a YAML text; ValueError or YAMLError for any other text."""
    value = _reader().load(text)
    json.dumps(value, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    return value


def _plain_json(text: str) -> Any:
    """Return the value of a JSON text; ValueError for any other text, NaN, and a field given twice."""
    return parse_json(text, object_pairs_hook=_unique, parse_constant=_refused)


def dump_yaml(value: Any) -> str:
    """Return plain data as YAML, in its own order; ValueError for any other data."""
    out = StringIO()
    try:
        _round_trip().dump(value, out)
    except YAMLError as exc:
        raise ValueError(f"not YAML: {exc}") from exc
    return out.getvalue()


def extend_yaml(text: str, items: Sequence[Any]) -> str:
    """Return a YAML text with more items in its list of cases, which is the whole text or its field
    `cases`; the rest stays, comments too.
    """
    yaml = _round_trip()
    content = yaml.load(text)
    cases = content["cases"] if isinstance(content, dict) else content
    cases.extend(items)
    out = StringIO()
    yaml.dump(content, out)
    return out.getvalue()


def count_comments(text: str) -> int:
    """Return the number of signs # in the comments of a YAML text.

    >>> count_comments("a: '# no'"), count_comments("a: 1  # yes")
    (0, 1)
    """
    return sum(str(token.comment).count("#") for token in YAML().scan(text))


class _Resolver(VersionedResolver):
    """Assigns types to plain words: fewer are numbers than in YAML 1.1 and 1.2."""

    versioned_resolver: ClassVar = {
        None: [
            (f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"))
            for kind, pattern in _WORDS.items()
        ]
    }


class _Composer(Composer):
    """Composes the nodes of plain data; refuses aliases, tags other than !!str, and more than 100
    levels.
    """

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node of the YAML text, as the base class does, but read the names of fields as
        texts (`no:` is not False).

        Raises:
            ComposerError: the node is an alias, has a tag, or nests too deeply.
        """
        event = self.parser.peek_event()
        if isinstance(event, AliasEvent):
            problem = "an alias (*name): write the value itself"
            raise ComposerError(None, None, problem, event.start_mark)
        if getattr(event, "tag", None) not in (None, _TEXT_TAG):
            problem = "a tag (!name): write the value without it"
            raise ComposerError(None, None, problem, event.start_mark)
        if self.depth == _MAX_DEPTH:
            raise ComposerError(None, None, "too deep", event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        # ruamel.yaml gives an item of a list its number as `index`, and a value the node of its name
        is_name_of_field = parent is not None and index is None
        if is_name_of_field:
            node.ctag = VersionedResolver.DEFAULT_SCALAR_TAG  # the tag of a text
        return node


def _reader() -> YAML:
    """Return a parser of YAML that takes plain data alone: no aliases, no tags, few types of words."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _Resolver
    yaml.Composer = _Composer
    return yaml


class _Representer(RoundTripRepresenter):
    """Writes a value that is there twice as two copies, because `_reader` refuses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted(representer: Any, text: str) -> Any:
    """Return the node of a text to write, in quotes if it would be read back as another text without."""
    style = '"' if _LOST_UNQUOTED.search(text) else None
    return representer.represent_scalar(_TEXT_TAG, text, style=style)


_Representer.add_representer(str, _quoted)


def _round_trip() -> YAML:
    """Return a reader and writer of YAML that keeps comments and the order of fields."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.width = 120
    return yaml


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object; raises ValueError for a name that is there twice."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{max(names, key=names.count)!r} occurs twice")
    return fields


def _refused(number: str) -> None:
    """Refuse NaN or Infinity, which Python reads in JSON although JSON does not have them."""
    raise ValueError(f"the number {number}")


def _line_finder(text: str) -> Callable[[Keys], int]:
    """Return a function from the keys of a value to its line in a YAML or JSON text, 0 if it is
    unknown: the text is too long, or not YAML. The text is parsed at the first call.
    """

    @cache
    def root() -> Any:
        """Return the outermost node of the text; None if the text is not YAML."""
        if len(text) > _MAX_LOOKED_UP:
            return None
        try:
            # JSON may be indented by tabs, YAML may not; a blank in place of each keeps the lines
            return _reader().compose(text.replace("\t", " "))
        except (YAMLError, RecursionError):  # some JSON is not YAML
            return None

    def line_of(keys: Keys) -> int:
        node = root()
        return 0 if node is None else _line_in(node, keys)

    return line_of


def _line_in(node: Any, keys: Keys) -> int:
    """Return the line of the value at `keys` in a node of YAML; for a value that is missing, the line
    of the nearest value around it.
    """
    line = 1
    for key in keys:
        if node.id == "mapping":
            # name of the field -> the nodes of its name and of its value
            pairs = {name.value: (name, value) for name, value in node.value}
            if key not in pairs:
                break
            name, node = pairs[key]
            line = name.start_mark.line + 1
        elif node.id == "sequence" and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line + 1
        else:
            break
    return line
