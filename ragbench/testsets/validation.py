"""Records of a file through pydantic, each problem with its line, its value and what was expected.

Whole numbers are taken as texts in ids and words, since people write `id: 7`; other numbers do not,
because 3.10 has become 3.1 by then. An empty field (null) is a missing one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.testsets.parser import Keys, Record
from ragbench.testsets.problems import Problem, meant, nearest
from ragbench.types import Case, Document, SafetySample, Span, grade

_CASE_FIELDS = {each.name for each in fields(Case)}

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
    """A case of a file with its relevant documents, and the texts that its evidence should be
    (None: not given).
    """

    case: Case
    relevant: dict[str, int]
    record: Record = Record(None)
    quotes: tuple[str | None, ...] = ()

    def quote(self, number: int) -> str | None:
        """Return the text that the evidence of this number should be."""
        return self.quotes[number] if number < len(self.quotes) else None


@dataclass(slots=True)
class Content:
    """The content of a file or a folder, and what is wrong with it; `corpus` names documents that
    are elsewhere.
    """

    name: str = ""
    split: str = "test"
    corpus: str = ""
    documents: dict[str, Document] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    inputs: list[SafetySample] = field(default_factory=list)
    outputs: list[SafetySample] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(
        default_factory=dict
    )  # a field that no form knows -> the lines that have it

    def is_new(
        self, records: dict[str, Record], identifier: str, record: Record, field: str
    ) -> bool:
        """Note the record of an id in `records`; False, and a problem, where an earlier one has it."""
        earlier = records.setdefault(identifier, record)
        if earlier is not record:
            expected = f"an id of its own: line {earlier.line} has this one"
            self.problems.append(record.problem((field,), shown(identifier), expected))
        return earlier is record

    def add_entries(self, entries: Sequence[Entry], field: str) -> None:
        """Add cases; an id that is there already is a problem."""
        records: dict[str, Record] = {}
        self.entries += [
            e for e in entries if self.is_new(records, e.case.query_id, e.record, field)
        ]


def _checked(fits: Callable[[Any], bool], expected: str) -> BeforeValidator:
    """Refuses what does not fit, and true and false, with what was expected."""

    def check(value: Any) -> Any:
        if isinstance(value, bool) or not fits(value):
            raise ValueError(expected)
        return value

    return BeforeValidator(check)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _any_grade(value: object) -> int:
    try:
        return grade(None if isinstance(value, str) else value)
    except DataError as exc:
        raise ValueError("a grade: a whole number, 0 (not relevant), 1, 2, ...") from exc


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_WORD = "a text that is not empty (numbers with a point, true and false need quotes)"
_DURATION = _checked(
    lambda value: _is_number(value) and 0 < value < math.inf, "milliseconds, more than 0"
)

Text = Annotated[str, _checked(_is_text, "a text that is not empty")]
Word = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) else value),
    _checked(lambda value: isinstance(value, int) or _is_text(value), _WORD),
]
AnyGrade = Annotated[int, BeforeValidator(_any_grade)]
Grade = Annotated[
    int,
    _checked(
        lambda value: isinstance(value, int) and 0 <= value <= 3,
        "a grade: 0 (not relevant), 1, 2 or 3",
    ),
]
Count = Annotated[
    int,
    _checked(
        lambda value: isinstance(value, int) and 0 <= value <= 1_000_000,
        "a whole number, 0 or more",
    ),
]
Budgets = Annotated[
    dict[Word, Annotated[float, _DURATION]],
    BeforeValidator(lambda value: {"total": value} if _is_number(value) else value),
]
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


Facts = Annotated[
    list[Fact], AfterValidator(lambda facts: [(each.fact, *each.aliases) for each in facts])
]
Sections = Annotated[
    list[Section],
    AfterValidator(lambda all_: [(each.doc_id, each.section) for each in all_ if each.section]),
]


M = TypeVar("M", bound=BaseModel)


def check(model: type[M], record: Record, content: Content) -> M | None:
    """Return a record as a model, or None and what is wrong with it in `content.problems`.

    Fields that the model does not know become metadata where it has any, unless they look like a
    misspelt one.
    """
    if not isinstance(record.value, dict):
        content.problems.append(record.problem((), shown(record.value), "{...} with fields"))
        return None
    fields = fields_of(model)
    clean = {
        name: value for name, value in record.value.items() if name in fields and value is not None
    }
    n_before = len(content.problems)
    extra: dict[str, Any] = {}
    for name, value in record.value.items():
        if name in fields:
            continue
        if nearest(name, fields) or "metadata" not in fields:
            content.problems.append(_unknown(record, (name,), fields))
        elif value is not None:
            extra[name] = value
    metadata = clean.get("metadata", {})
    if extra and isinstance(metadata, dict):
        clean["metadata"] = {**metadata, **extra}
        for name in extra:
            content.unknown.setdefault(name, []).append(f"line {record.line}")
    try:
        item = model.model_validate(clean)
    except ValidationError as exc:
        content.problems += [
            _problem(model, dict(error), record) for error in exc.errors(include_url=False)
        ]
        return None
    return item if len(content.problems) == n_before else None


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model as files name them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def entry_of(item: BaseModel, record: Record, **more: Any) -> Entry:
    """Return a case with the labels of an item and with `more`, and its relevant documents, by
    default of grade 1.
    """
    labels = {**dict(item), **more}
    evidence, relevant = labels.pop("evidence", []), labels.pop("relevant", {})
    labels["evidence"] = [Span(piece.doc_id, piece.start, piece.end) for piece in evidence]
    labels["query_id"] = labels["query_id"] or derived_id(labels["text"])
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in labels.items()
    }
    case = Case(**{name: value for name, value in given.items() if name in _CASE_FIELDS})
    grades = relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1)
    return Entry(case, grades, record, tuple(piece.quote for piece in evidence))


def derived_id(text: str) -> str:
    """Return the id of a case that has none: it stays the same when other cases come and go.

    >>> derived_id("How do I install it?")
    'q-5d1c69e247'
    """
    return f"q-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"


def _unknown(record: Record, keys: Keys, fields: Mapping[str, object]) -> Problem:
    return record.problem(
        keys, "an unknown field", meant(str(keys[-1]), fields, f"one of {', '.join(fields)}")
    )


def _problem(model: type[BaseModel], error: dict[str, Any], record: Record) -> Problem:
    keys: Keys = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        return _unknown(record, keys, _fields_at(model, keys[:-1]))
    value, context = shown(error["input"], 60), error.get("ctx", {})
    expected = str(
        context.get("error")
        or context.get("expected")
        or _EXPECTED.get(error["type"], error["msg"])
    )
    if error["type"] == "missing":
        value, expected = (
            "null" if len(keys) == 1 and keys[0] in record.value else "missing",
            "a value",
        )
    return record.problem(keys, value, expected)


def _fields_at(model: type[BaseModel], keys: Keys) -> Mapping[str, FieldInfo]:
    """Return the fields of the model inside `model` at that place."""
    for part in keys:
        if isinstance(part, str) and part in fields_of(model):
            model = _model_in(fields_of(model)[part].annotation) or model
    return fields_of(model)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
