"""Records of a file through pydantic, each problem with its line, its value and what was expected.

Whole numbers are taken as texts in ids and words, since people write `id: 7`; other numbers do not, because 3.10 has
become 3.1 by then. An empty field (null) is a missing one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from ragbench.datasets.jsonl import shown
from ragbench.datasets.records import grade
from ragbench.datasets.testsets.parser import Keys, Parsed
from ragbench.datasets.testsets.problems import Problem, field_name, meant, nearest
from ragbench.errors import DataError
from ragbench.types import Case, Document, SafetySample

OUTCOMES = ("success", "no_results", "uncertain", "blocked")

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

_EXPECTED = {
    "string_type": "a text (in quotes)",
    "list_type": "a list",
    "dict_type": "fields with values {...}",
    "model_type": "fields with values {...}",
    "model_attributes_type": "fields with values {...}",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
}


class Entry(NamedTuple):
    """A case of a file with its relevant documents, and the texts that its evidence should be (None: not given)."""

    case: Case
    relevant: dict[str, int]
    line: int = 0
    file: str = ""
    quotes: tuple[str | None, ...] = ()


@dataclass(slots=True)
class Reading:
    """The content of a file or a folder, and what is wrong with it."""

    name: str = ""
    split: str = "test"
    documents: dict[str, Document] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    inputs: list[SafetySample] = field(default_factory=list)
    outputs: list[SafetySample] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)  # a field that no form knows -> the ids that have it


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def _word(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty (numbers with a point, true and false need quotes)")
    return value


def _any_grade(value: object) -> int:
    try:
        if isinstance(value, str):
            raise DataError("")
        return grade(value)
    except DataError as exc:
        raise ValueError("a grade: a whole number, 0 (not relevant), 1, 2, ...") from exc


def _grade(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 3:
        raise ValueError("a grade: 0 (not relevant), 1, 2 or 3")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000:
        raise ValueError("a whole number, 0 or more")
    return value


def _duration(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError("milliseconds, more than 0")
    return value


def _durations(value: object) -> object:
    return {"total": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_text)]
Word = Annotated[str, BeforeValidator(_word)]
AnyGrade = Annotated[int, BeforeValidator(_any_grade)]
Grade = Annotated[int, BeforeValidator(_grade)]
Count = Annotated[int, BeforeValidator(_count)]
Budgets = Annotated[dict[Word, Annotated[float, BeforeValidator(_duration)]], BeforeValidator(_durations)]
Outcome = Literal["success", "no_results", "uncertain", "blocked"]


class Section(BaseModel):
    """Where evidence is expected: a document, and maybe the heading in it."""

    model_config = STRICT
    doc_id: Word
    section: Word | None = None


class Fact(BaseModel):
    """A gold fact: a text, a list of a text and its aliases, or {fact, aliases}."""

    model_config = STRICT
    fact: Word
    aliases: list[Word] = []

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return {"fact": value}
        if isinstance(value, list) and value:
            return {"fact": value[0], "aliases": value[1:]}
        return value


def facts_of(facts: Sequence[Fact]) -> tuple[tuple[str, ...], ...]:
    return tuple((each.fact, *each.aliases) for each in facts)


def sections_of(sections: Sequence[Section]) -> tuple[tuple[str, str], ...]:
    return tuple((each.doc_id, each.section) for each in sections if each.section is not None)


M = TypeVar("M", bound=BaseModel)


def check(model: type[M], parsed: Parsed, keys: Keys, reading: Reading, file: str) -> M | None:
    """The record at `keys` as a model, or None and what is wrong with it in `reading.problems`.

    Fields that the model does not know become metadata where it has any, unless they look like a misspelt one.
    """
    record = parsed.value
    for key in keys:
        record = record[key]
    if not isinstance(record, dict):
        reading.problems.append(Problem(parsed.line(keys), field_name(keys), shown(record), "{...} with fields", file))
        return None
    known = model.model_fields
    clean = {name: value for name, value in record.items() if name in known and value is not None}
    before = len(reading.problems)
    extra: dict[str, Any] = {}
    for name in record:
        if name in known:
            continue
        if nearest(name, known) or "metadata" not in known:
            reading.problems.append(_unknown((*keys, name), name, known, parsed, file))
        elif record[name] is not None:
            extra[name] = record[name]
    metadata = clean.get("metadata", {})
    if extra and isinstance(metadata, dict):
        clean["metadata"] = {**metadata, **extra}
        for name in extra:
            reading.unknown.setdefault(name, []).append(f"line {parsed.line(keys)}")
    try:
        found = model.model_validate(clean)
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            reading.problems.append(_problem(model, dict(error), record, keys, parsed, file))
        return None
    return found if len(reading.problems) == before else None


def once(reading: Reading, entries: Sequence[Entry], what: str = "case id") -> None:
    """Put entries into `reading`; an id that is there already is a problem."""
    lines = {entry.case.query_id: entry for entry in reading.entries}
    for entry in entries:
        query_id = entry.case.query_id
        if first := lines.get(query_id):
            expected = f"an id of its own: line {first.line} has this one"
            reading.problems.append(Problem(entry.line, "", f"{what} {shown(query_id)}", expected, entry.file))
        else:
            lines[query_id] = entry
            reading.entries.append(entry)


def _unknown(keys: Keys, name: str, known: Mapping[str, object], parsed: Parsed, file: str) -> Problem:
    expected = meant(name, known, f"one of {', '.join(known)}")
    return Problem(parsed.line(keys), field_name(keys), "an unknown field", expected, file)


def _problem(
    model: type[BaseModel], error: dict[str, Any], record: dict[str, Any], keys: Keys, parsed: Parsed, file: str
) -> Problem:
    inside: Keys = tuple(part for part in error["loc"] if part != "[key]")
    where = (*keys, *inside)
    if error["type"] == "extra_forbidden":
        return _unknown(where, str(inside[-1]), _fields_at(model, inside[:-1]), parsed, file)
    value = shown(error["input"], 60)
    if error["type"] == "missing":
        value = "null" if len(inside) == 1 and inside[0] in record else "missing"
        expected = "a value"
    elif error["type"] == "value_error":
        expected = str(error["ctx"]["error"])
    elif error["type"] == "literal_error":
        expected = str(error["ctx"]["expected"])
    else:
        expected = _EXPECTED.get(error["type"], error["msg"])
    return Problem(parsed.line(where), field_name(where), value, expected, file)


def _fields_at(model: type[BaseModel], inside: Keys) -> Mapping[str, object]:
    """The fields of the model inside `model` at that place."""
    for part in inside:
        if isinstance(part, str) and part in model.model_fields:
            found = _model_in(model.model_fields[part].annotation)
            model = found or model
    return model.model_fields


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        if found := _model_in(part):
            return found
    return None
