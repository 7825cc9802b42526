"""Files whose cases are in one list: what the YAML form and the two JSON forms share, and the JSON forms::

    [{"id": "q1", "question": "...", "expectedAnswer": "...", "requiredKeywords": ["..."],
      "expectedDocumentId": "setup_guide", "category": "install"}]          form "json"; also as {"cases": [...]}

    {"test_cases": [{"query": "...", "expected_answer": "...", "expected_sources": ["setup_guide"],
                     "category": "install"}]}                               form "json-cases"

Each expected document is relevant with grade 1; `expectedDocumentId` may be a list of several. A case of the second
form may have an `id`; without, it is made from the question, so that it stays when other cases come and go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from ragbench.datasets.jsonl import shown
from ragbench.testsets.parser import Keys, Parsed
from ragbench.testsets.problems import meant, nearest
from ragbench.testsets.single_file import own_record
from ragbench.testsets.validation import (
    STRICT,
    Entry,
    Reading,
    Text,
    Word,
    check,
    derived_id,
    entry_of,
    fields_of,
    once,
)
from ragbench.types import Case, Document, Span

_HEAD = ("version", "name")


class CaseList(NamedTuple):
    """A form: the field that holds the list, the model of its items, and the way from item to entry and back.

    `record` takes a case, its relevant documents, the corpus, and quotes of documents that are elsewhere. `head` are
    the fields next to the list, in addition to version and name.
    """

    field: str
    model: type[BaseModel]
    entry: Callable[[Any], Entry]
    record: Callable[[Case, Mapping[str, int], Mapping[str, Document], Mapping[Span, str]], dict[str, Any]]
    head: tuple[str, ...] = ()


def read_list(parsed: Parsed, form: CaseList) -> Reading:
    """The cases of a parsed text: `{version, name, <field>: [...]}`, or the bare list."""
    reading = Reading(problems=list(parsed.problems))
    if not parsed.whole:
        return reading
    keys: Keys = ()
    items = parsed.value
    if isinstance(items, dict):
        _check_head(parsed, form, reading)
        if form.field not in items:
            return reading
        keys, items = (form.field,), items[form.field]
    if not isinstance(items, list):
        found = "the file is empty" if items is None and not keys else shown(items, 60)
        expected = f"{form.field}: a list of cases" if not keys else "a list of cases"
        reading.problems.append(parsed.problem(keys, found, expected))
        return reading
    entries = []
    for number in range(len(items)):
        if (item := check(form.model, parsed, (*keys, number), reading)) is not None:
            entries.append(form.entry(item)._replace(line=parsed.line((*keys, number)), file=parsed.file))
    once(reading, entries)
    return reading


def head_and_list(name: str, form: CaseList, records: list[dict[str, Any]]) -> dict[str, Any]:
    """What a new file holds."""
    return {"version": 1, "name": name, form.field: records}


def _check_head(parsed: Parsed, form: CaseList, reading: Reading) -> None:
    name, version = parsed.value.get("name"), parsed.value.get("version")
    if name is not None and (not isinstance(name, str | int) or isinstance(name, bool)):
        reading.problems.append(parsed.problem(("name",), shown(name), "a text"))
    elif name is not None:
        reading.name = str(name)
    if isinstance(version, dict | list | bool):
        reading.problems.append(parsed.problem(("version",), shown(version), "a number"))
    known = (*_HEAD, *form.head, form.field)
    for field in parsed.value:
        if field not in known and nearest(field, known):
            expected = meant(field, known, f"one of {', '.join(known)}")
            reading.problems.append(parsed.problem((field,), "an unknown field", expected))
    if form.field not in parsed.value:
        reading.wrong(1, form.field, "missing", "a list of cases", parsed.file)


_Answer = Annotated[str | None, AfterValidator(lambda text: text or None)]
_Documents = Annotated[list[Word], BeforeValidator(lambda value: value if isinstance(value, list) else [value])]


class QuestionCase(BaseModel):
    """An item of the form "json"."""

    model_config = STRICT
    query_id: Word = Field(alias="id")
    text: Text = Field(alias="question")
    reference_answer: _Answer = Field(None, alias="expectedAnswer")
    required_keywords: list[Word] = Field([], alias="requiredKeywords")
    relevant: _Documents = Field([], alias="expectedDocumentId")
    category: str = ""
    metadata: dict[str, Any] = {}


class SourceCase(BaseModel):
    """An item of the form "json-cases"."""

    model_config = STRICT
    query_id: Word | None = Field(None, alias="id")
    text: Text = Field(alias="query")
    reference_answer: _Answer = Field(None, alias="expected_answer")
    relevant: list[Word] = Field([], alias="expected_sources")
    category: str = ""
    metadata: dict[str, Any] = {}


def _plain_record(model: type[BaseModel], case: Case, relevant: Mapping[str, int]) -> dict[str, Any]:
    """The item of a case in a form that names relevant documents without grades."""
    documents = [doc_id for doc_id, grade in relevant.items() if grade > 0]
    own = {**own_record(case, {}, {}), "relevant": documents}
    names = zip(fields_of(model), model.model_fields, strict=True)
    return {alias: own[name] for alias, name in names if own.get(name)}


def _question_record(case: Case, relevant: Mapping[str, int], *_: object) -> dict[str, Any]:
    record = _plain_record(QuestionCase, case, relevant)
    documents = record.get("expectedDocumentId", [])
    return {**record, "expectedDocumentId": documents[0]} if len(documents) == 1 else record


def _source_record(case: Case, relevant: Mapping[str, int], *_: object) -> dict[str, Any]:
    record = _plain_record(SourceCase, case, relevant)
    if case.query_id == derived_id(case.text):
        del record["id"]
    return record


JSON_FORMS = {
    "json": CaseList("cases", QuestionCase, entry_of, _question_record),
    "json-cases": CaseList("test_cases", SourceCase, entry_of, _source_record),
}


def json_form(parsed: Parsed) -> str:
    """Which of the two forms a file has: "json" or "json-cases"."""
    value = parsed.value
    if isinstance(value, dict):
        return "json-cases" if "test_cases" in value else "json"
    items = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    named = {name for item in items for name in item}
    return "json-cases" if "query" in named and "question" not in named else "json"


def json_text(value: Any, indent: int | None = 2) -> str:
    """Plain data as JSON that people can read."""
    return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
