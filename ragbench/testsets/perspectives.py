"""A folder of JSONL files by perspective, joined by `case_id`. Each file and each field but the ids
may be missing::

    cases.jsonl                {case_id, query, user_roles, query_type, category, reference_answer, required_keywords}
    retrieval_labels.jsonl     {case_id, relevant_docs, relevance_grades, relevant_chunks, chunk_relevance_grades}
    context_labels.jsonl       {case_id, gold_facts, expected_chunks}
    groundedness_labels.jsonl  {case_id, expected_claims, expected_citations, forbidden_claims}
    pipeline_labels.jsonl      {case_id, expected_outcome, required_flags, forbidden_flags, min_citations,
                                latency_budget_ms}
    safety_inputs.jsonl, safety_outputs.jsonl   {text, label, category, sample_id, source, contexts}
    corpus.jsonl               {_id, title, text}: the documents, where they belong to the set

A file of another name is named in a warning, and is a problem where it looks like a misspelt one of
these. Grades are 0 to 3, {id: grade} or a list as long as the ids; without one, a named document or
chunk has grade 1. A fact is a text, [text, alias, ...] or {fact, aliases}; an expected chunk is an
id or {doc_id, section}. A latency budget is {stage: milliseconds}, or one number for the total.
Labels of safety files: see `safety.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationInfo,
    create_model,
    model_validator,
)

from ragbench.datasets.jsonl import json_line, shown
from ragbench.datasets.records import document, warn
from ragbench.errors import DataError
from ragbench.testsets.parser import Record, json_records, read_bytes
from ragbench.testsets.problems import Problem, meant, nearest
from ragbench.testsets.safety import Kind, read_samples, sample_record
from ragbench.testsets.single_file import Labels
from ragbench.testsets.validation import STRICT, Content, Facts, Grade, Text, Word, check, entry_of
from ragbench.types import SafetySample

T = TypeVar("T")


_FIELDS = {
    "cases.jsonl": (
        "user_roles",
        "query_type",
        "category",
        "reference_answer",
        "required_keywords",
        "metadata",
    ),
    "groundedness_labels.jsonl": ("expected_claims", "expected_citations", "forbidden_claims"),
    "pipeline_labels.jsonl": (
        "expected_outcome",
        "required_flags",
        "forbidden_flags",
        "min_citations",
        "latency_budget_ms",
    ),
}
"""Fields of files that are called and formed as in JSONL; the other two files have their own."""

CASES = "cases.jsonl"
_DATA = (".jsonl", ".json", ".yaml", ".yml", ".csv", ".tsv")


def _line_model(file: str, **own: Any) -> type[BaseModel]:
    """Return the model of a line: `case_id`, and those fields of `Labels` that the file has."""
    kinds = get_type_hints(Labels, include_extras=True)
    fields = {name: (kinds[name], Labels.model_fields[name].default) for name in _FIELDS[file]}
    return create_model(  # type: ignore
        file, __config__=STRICT, query_id=(Word, Field(alias="case_id")), **own, **fields
    )


def _paired(ids: str) -> tuple[BeforeValidator, AfterValidator]:
    """Return validators of grades: a list as long as the field `ids` becomes {id: grade}; a named
    id has no grade 0.
    """

    def pair(value: object, info: ValidationInfo) -> object:
        named = info.data.get(ids)
        if not isinstance(value, list) or named is None:
            return value
        if len(value) != len(named):
            raise ValueError(f"{len(named)} grades, one for each of {ids}")
        return dict(zip(named, value, strict=True))

    def relevant(value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        for each in info.data.get(ids) or ():
            if value.get(each) == 0:
                raise ValueError(
                    f"1, 2 or 3 as the grade of {shown(each, 40)}, since {ids} names it"
                )
        return value

    return BeforeValidator(pair), AfterValidator(relevant)


class RetrievalLine(BaseModel):
    """A line of retrieval_labels.jsonl."""

    model_config = STRICT
    query_id: Word = Field(alias="case_id")
    relevant_docs: list[Word] = []
    relevance_grades: Annotated[dict[Word, Grade], *_paired("relevant_docs")] = {}
    relevant_chunks: list[Word] = []
    chunk_relevance_grades: Annotated[dict[Word, Grade], *_paired("relevant_chunks")] = {}


class ExpectedChunk(BaseModel):
    """The id of a chunk, or a document and a heading in it."""

    model_config = STRICT
    chunk_id: Word | None = None
    doc_id: Word | None = None
    section: Word | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_id(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return {"chunk_id": value}
        if ("chunk_id" in value) == ("doc_id" in value and "section" in value):
            raise ValueError("the id of a chunk, or {doc_id, section}")
        return value


class ContextLine(BaseModel):
    """A line of context_labels.jsonl."""

    model_config = STRICT
    query_id: Word = Field(alias="case_id")
    gold_facts: Facts = []
    expected_chunks: list[ExpectedChunk] = []


SAFETY_FILES: dict[str, Kind] = {"safety_inputs.jsonl": "input", "safety_outputs.jsonl": "output"}
_LABELS: dict[str, type[BaseModel]] = {
    "retrieval_labels.jsonl": RetrievalLine,
    "context_labels.jsonl": ContextLine,
    "groundedness_labels.jsonl": _line_model("groundedness_labels.jsonl"),
    "pipeline_labels.jsonl": _line_model("pipeline_labels.jsonl"),
}


def read_perspectives(folder: Path) -> Content:
    """Return the cases of a folder with their labels of every perspective, and its safety samples."""
    content = Content(name=folder.resolve().name)
    files = (CASES, *_LABELS, *SAFETY_FILES, "corpus.jsonl", "testset.json")
    others = [
        path.name
        for path in sorted(folder.iterdir())
        if path.suffix in _DATA and path.name not in files
    ]
    for name in filter(lambda name: nearest(name, files), others):
        expected = meant(name, files, "one of these")
        content.problems.append(
            Problem(0, "", "this file has the name of no perspective", expected, name)
        )
    warn(folder.name, "files have the name of no perspective and are not read", others)
    content.documents = read_records(folder, "corpus.jsonl", document, content)
    written: set[str] = (
        set()
    )  # also ids of lines that are wrong in something else: their labels are no problem
    cases = _by_id(
        folder, CASES, _line_model(CASES, text=(Text, Field(alias="query"))), content, written
    )
    labels: dict[str, dict[str, Any]] = {case_id: {} for case_id in cases}
    for file, model in _LABELS.items():
        for case_id, (record, line) in _by_id(folder, file, model, content).items():
            if case_id in labels:
                labels[case_id] |= _labels(line)
            elif case_id not in written:
                is_there = (folder / CASES).is_file()
                expected = (
                    meant(case_id, labels, f"a case of {CASES}")
                    if is_there
                    else f"{CASES}, which holds its query"
                )
                content.problems.append(record.problem(("case_id",), shown(case_id), expected))
    content.entries = [
        entry_of(line, record, **labels[case_id]) for case_id, (record, line) in cases.items()
    ]
    read_safety(folder, content)
    return content


def read_safety(folder: Path, content: Content) -> None:
    """Add the samples of safety_inputs.jsonl and safety_outputs.jsonl to `content`."""
    for file, kind in SAFETY_FILES.items():
        read_samples(lines_of(folder, file, content), kind, content)


def safety_texts(inputs: Iterable[SafetySample], outputs: Iterable[SafetySample]) -> dict[str, str]:
    """Return file name -> content, of the files with samples; "" where there are none."""
    return {
        "safety_inputs.jsonl": "".join(
            json_line(sample_record(sample, "input")) for sample in inputs
        ),
        "safety_outputs.jsonl": "".join(
            json_line(sample_record(sample, "output")) for sample in outputs
        ),
    }


def read_records(
    folder: Path, file: str, read: Callable[[dict[str, Any]], T], content: Content
) -> dict[str, T]:
    """Return the records of a file by their `_id`; what `read` refuses, and a repeated id, is a
    problem.
    """
    values: dict[str, T] = {}
    seen: dict[str, Record] = {}
    for record in lines_of(folder, file, content):
        try:
            value = read(record.value)
        except DataError as exc:
            content.problems.append(record.problem((), str(exc), ""))
            continue
        if content.is_new(seen, str(record.value["_id"]), record, "_id"):
            values[str(record.value["_id"])] = value
    return values


def lines_of(folder: Path, file: str, content: Content) -> Iterator[Record]:
    """Yield the object of each line of a file that may be missing; an empty one is a problem."""
    if not (folder / file).is_file():
        return
    raw = read_bytes(folder / file)
    if not raw.strip():
        content.problems.append(
            Problem(0, "", "the file is empty", "one object per line, or no such file", file)
        )
    yield from json_records(raw, file, content.problems)


def _by_id(
    folder: Path, file: str, model: type[BaseModel], content: Content, ids: set[str] | None = None
) -> dict[str, tuple[Record, Any]]:
    """Return the records and items of a file by case; `ids` gets those of wrong ones, too."""
    items: dict[str, tuple[Record, Any]] = {}
    seen: dict[str, Record] = {}
    for record in lines_of(folder, file, content):
        if ids is not None:
            ids.add(str(record.value.get("case_id")))
        item: Any = check(model, record, content)
        if item is not None and content.is_new(seen, item.query_id, record, "case_id"):
            items[item.query_id] = record, item
    return items


def _labels(line: BaseModel) -> dict[str, Any]:
    """Return the labels of a line as `Case` has them, and its relevant documents."""
    labels = {name: value for name, value in line if name != "query_id"}
    if isinstance(line, RetrievalLine):
        return {
            "relevant": _with_ones(line.relevance_grades, line.relevant_docs),
            "relevant_chunks": _with_ones(line.chunk_relevance_grades, line.relevant_chunks),
        }
    if isinstance(line, ContextLine):
        chunks = line.expected_chunks
        labels["expected_chunks"] = [
            chunk.chunk_id for chunk in chunks if chunk.chunk_id is not None
        ]
        labels["expected_sections"] = [
            (chunk.doc_id, chunk.section) for chunk in chunks if chunk.doc_id is not None
        ]
    return labels


def _with_ones(grades: Mapping[str, int], ids: Iterable[str]) -> dict[str, int]:
    return {**grades, **{each: 1 for each in ids if each not in grades}}
