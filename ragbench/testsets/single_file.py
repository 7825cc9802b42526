"""ragbench's own form: everything about a test set in one JSONL file. The kind of a line follows
from its id::

    {"testset": "handbook", "split": "test", "corpus": "docs"}                 at most one, anywhere
    {"query_id": "q1", "text": "...", "relevant": {"setup_guide": 2}, ...}     a case: every label of `Case`
    {"doc_id": "setup_guide", "text": "...", "title": "...", "metadata": {}}   a document
    {"sample_id": "s1", "kind": "input", "text": "...", "label": "attack"}     a safety sample; kind input or output

Documents are named by their ids. They may be in the file; or `corpus` names what `load_corpus`
takes (a folder of texts, a corpus.jsonl: relative to the file; or a dataset by name); or they are
known to the system under test only. `evidence` is {doc_id, start, end, quote}: characters of title
and text as `Document.full_text` joins them. A quote is compared with the text there, found again
where the document has changed, and dropped with a warning where it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, model_validator

from ragbench.datasets.jsonl import json_line, shown
from ragbench.testsets.parser import Keys, Record, json_records, read_bytes
from ragbench.testsets.problems import Problem, meant
from ragbench.testsets.safety import Kind, SampleLine, read_samples, sample_record
from ragbench.testsets.validation import (
    STRICT,
    AnyGrade,
    Budgets,
    Content,
    Count,
    Entry,
    Facts,
    Outcome,
    Sections,
    Text,
    Word,
    check,
    entry_of,
)
from ragbench.types import Case, Dataset, Document, SafetySample, Span


class EvidenceItem(BaseModel):
    """A piece of gold evidence."""

    model_config = STRICT
    doc_id: Word
    start: Count
    end: Count
    quote: str | None = None

    @model_validator(mode="after")
    def _in_order(self) -> EvidenceItem:
        if self.end <= self.start:
            raise ValueError("an end after the start")
        return self


class Labels(BaseModel):
    """The fields of a case in addition to its id and its question: the same fields in this form and
    in YAML.
    """

    model_config = STRICT
    category: str = ""
    query_type: str = ""
    reference_answer: str | None = None
    relevant: dict[Word, AnyGrade] = {}
    evidence: list[EvidenceItem] = []
    gold_facts: Facts = []
    required_keywords: list[Word] = []
    expected_claims: list[Word] = []
    forbidden_claims: list[Word] = []
    expected_citations: list[Word] = []
    expected_outcome: Outcome | None = None
    expected_sections: Sections = []
    expected_chunks: list[Word] = []
    relevant_chunks: dict[Word, AnyGrade] = {}
    required_flags: list[Word] = []
    forbidden_flags: list[Word] = []
    min_citations: Count | None = None
    latency_budget_ms: Budgets = {}
    user_roles: list[Word] = []
    metadata: dict[str, Any] = {}


class _Question(BaseModel):
    query_id: Word
    text: Text


class OwnCase(Labels, _Question):
    """A line with a `query_id`. (pydantic puts the fields of the last base first.)"""


class DocumentLine(BaseModel):
    """A line with a `doc_id`."""

    model_config = STRICT
    doc_id: Word
    text: str
    title: str = ""
    metadata: dict[str, Any] = {}


class OwnSample(SampleLine):
    """A line with a `sample_id`."""

    kind: Kind


class HeadLine(BaseModel):
    """The line with the name of the set."""

    model_config = STRICT
    testset: Word
    split: Word = "test"
    corpus: Word = ""


_KINDS = ("query_id", "doc_id", "sample_id", "testset")
CASE_FIELDS = tuple(OwnCase.model_fields)


def read_single(path: Path) -> Content:
    """Return the content of a file."""
    content, file = Content(), path.name
    entries: list[Entry] = []
    samples: dict[Kind, list[Record]] = {"input": [], "output": []}
    documents: list[Record] = []
    head: Record | None = None
    record = None
    for record in json_records(read_bytes(path), file, content.problems):
        kind = next((name for name in _KINDS if name in record.value), "")
        if kind == "doc_id":
            documents.append(record)
        elif kind == "testset" and head is not None:
            expected = f"one such line: line {head.line} is one"
            content.problems.append(
                record.problem(("testset",), shown(record.value["testset"]), expected)
            )
        elif kind == "testset":
            head = record
            if line := check(HeadLine, record, content):
                content.name, content.split, content.corpus = line.testset, line.split, line.corpus
        elif kind == "query_id":
            if case := check(OwnCase, record, content):
                entries.append(entry_of(case, record))
        elif kind == "sample_id":
            if sample := check(OwnSample, record, content):
                fields = {name: value for name, value in record.value.items() if name != "kind"}
                samples[sample.kind].append(replace(record, value=fields))
        else:
            names = list(map(str, record.value))
            expected = meant(
                "".join(names[:1]),
                _KINDS,
                "query_id (a case), doc_id (a document), sample_id or testset",
            )
            content.problems.append(
                record.problem((), f"a line with {', '.join(names[:5]) or 'no field'}", expected)
            )
    if record is None and not content.problems:
        content.problems.append(
            Problem(0, "", "the file is empty", "one object with a query_id per line", file)
        )
    content.add_entries(entries, "query_id")
    read_documents(documents, content)
    for of_kind, records in samples.items():
        read_samples(records, of_kind, content)
    if content.corpus:
        check_reference(content, head or Record(None, file), ("corpus",))
    return content


def read_documents(records: Iterable[Record], content: Content) -> None:
    """Add the documents of these records to `content`."""
    seen: dict[str, Record] = {}
    for record in records:
        line = check(DocumentLine, record, content)
        if line is not None and content.is_new(seen, line.doc_id, record, "doc_id"):
            content.documents[line.doc_id] = Document(**dict(line))


def check_reference(content: Content, record: Record, keys: Keys) -> None:
    """Refuse documents in the file next to a reference to others."""
    if content.documents:
        expected = "documents in the file or a reference to others, not both"
        content.problems.append(record.problem(keys, shown(content.corpus), expected))


def entry_of_case(dataset: Dataset, case: Case) -> Entry:
    """Return a case of a dataset with its relevant documents, and the texts of its evidence."""
    corpus = dataset.corpus
    quotes = tuple(
        corpus[span.doc_id].full_text[span.start : span.end] if span.doc_id in corpus else None
        for span in case.evidence
    )
    return Entry(case, dict(dataset.qrels.get(case.query_id, {})), quotes=quotes)


def case_line(entry: Entry) -> dict[str, Any]:
    """Return the line of a case; labels that it does not have are left out."""
    record: dict[str, Any] = {}
    for name in CASE_FIELDS:
        value: Any = entry.relevant if name == "relevant" else getattr(entry.case, name)
        if name == "evidence":
            value = [_evidence_line(span, entry.quote(number)) for number, span in enumerate(value)]
        elif name == "gold_facts":
            value = [list(fact) for fact in value]
        elif name == "expected_sections":
            value = [{"doc_id": doc_id, "section": section} for doc_id, section in value]
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        if value is not None and (
            value not in ("", [], {}) or name in ("query_id", "text", "reference_answer")
        ):
            record[name] = value
    return record


def single_text(content: Content) -> str:
    """Return the whole file."""
    head = {"testset": content.name, "split": content.split} | (
        {"corpus": content.corpus} if content.corpus else {}
    )
    records: list[dict[str, Any]] = [head] if content.name else []
    records += [case_line(entry) for entry in content.entries]
    samples: dict[Kind, Sequence[SafetySample]] = {
        "input": content.inputs,
        "output": content.outputs,
    }
    for kind, of_kind in samples.items():
        records += [
            {"sample_id": sample.sample_id, "kind": kind, **sample_record(sample, kind)}
            for sample in of_kind
        ]
    records += [document_record(document) for document in content.documents.values()]
    return "".join(map(json_line, records))


def document_record(document: Document) -> dict[str, Any]:
    """Return the line of a document."""
    record: dict[str, Any] = {"doc_id": document.doc_id, "text": document.text}
    record |= {"title": document.title} if document.title else {}
    return {**record, "metadata": dict(document.metadata)} if document.metadata else record


def _evidence_line(span: Span, quote: str | None) -> dict[str, Any]:
    line: dict[str, Any] = {"doc_id": span.doc_id, "start": span.start, "end": span.end}
    return line if quote is None else {**line, "quote": quote}
