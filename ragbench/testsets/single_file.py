"""ragbench's own form: everything about a test set in one JSONL file. The kind of a line follows from its id::

    {"testset": "handbook", "split": "test", "corpus": "docs"}                 at most one, anywhere
    {"query_id": "q1", "text": "...", "relevant": {"setup_guide": 2}, ...}     a case: every label of `Case`
    {"doc_id": "setup_guide", "text": "...", "title": "...", "metadata": {}}   a document
    {"sample_id": "s1", "kind": "input", "text": "...", "label": "attack"}     a safety sample; kind input or output

Documents are named by their ids. They may be in the file; or `corpus` names what `load_corpus` takes (a folder of
texts, a corpus.jsonl: relative to the file; or a dataset by name); or they are known to the system under test only.
`evidence` is {doc_id, start, end, quote}: characters of title and text as `Document.full_text` joins them. A quote is
compared with the text there, found again where the document has changed, and dropped with a warning where it is
gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, model_validator

from ragbench.datasets.jsonl import json_line, shown
from ragbench.testsets.parser import Keys, Parsed, json_records, read_bytes
from ragbench.testsets.problems import field_name, meant
from ragbench.testsets.safety import Kind, SampleLine, read_samples, sample_record
from ragbench.testsets.validation import (
    STRICT,
    AnyGrade,
    Budgets,
    Count,
    Facts,
    Outcome,
    Reading,
    Sections,
    Text,
    Word,
    check,
    entry_of,
    once,
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
    """The fields of a case in addition to its id and its question: the same fields in this form and in YAML."""

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


_KINDS = {"query_id": OwnCase, "doc_id": DocumentLine, "sample_id": OwnSample, "testset": HeadLine}
CASE_FIELDS = tuple(OwnCase.model_fields)


def read_single(path: Path, raw: bytes | None = None, *, documents: bool = True) -> Reading:
    """The content of a file, or of its bytes `raw`; with `documents` those that its head refers to are read too."""
    reading = Reading()
    file = path.name
    entries, samples = [], []
    lines: dict[str, int] = {}
    head, corpus, number = 0, "", 0
    for number, parsed in json_records(read_bytes(path) if raw is None else raw, file):
        reading.problems += parsed.problems
        if not parsed.whole:
            continue
        kind = next((name for name in _KINDS if name in parsed.value), "")
        if kind == "query_id":
            if (item := check(OwnCase, parsed, (), reading)) is not None:
                entries.append(entry_of(item)._replace(line=number, file=file))
        elif kind == "doc_id":
            read_document(parsed, (), reading, lines, number)
        elif kind == "sample_id":
            if check(OwnSample, parsed, (), reading) is not None:
                samples.append((number, parsed))
        elif kind == "testset":
            if head:
                shown_name = shown(parsed.value["testset"])
                reading.wrong(number, "testset", shown_name, f"one such line: line {head} is one", file)
            elif (line := check(HeadLine, parsed, (), reading)) is not None:
                reading.name, reading.split, corpus = line.testset, line.split, line.corpus
            head = head or number
        else:
            names = list(map(str, parsed.value))
            expected = meant("".join(names[:1]), _KINDS, "query_id (a case), doc_id (a document), sample_id or testset")
            reading.wrong(number, "", f"a line with {', '.join(names[:5]) or 'no field'}", expected, file)
    if not number:
        reading.wrong(0, "", "the file is empty", "one object with a query_id per line", file)
    once(reading, entries, "query_id")
    for number, parsed in samples:
        fields = dict(parsed.value)
        which = fields.pop("kind")
        read_samples([(number, Parsed(fields, parsed.places, file=file), ())], which, reading)
    if corpus and documents:
        refer(corpus, path, reading, head)
    return reading


def read_document(parsed: Parsed, keys: Keys, reading: Reading, lines: dict[str, int], number: int) -> None:
    """Put the document at `keys` into `reading`; `lines` (id -> line) is of those before it, and gets this one."""
    if (found := check(DocumentLine, parsed, keys, reading)) is not None:
        reading.is_new(lines, found.doc_id, number, field_name((*keys, "doc_id")), parsed.file)
        reading.documents[found.doc_id] = Document(**dict(found))


def own_record(
    case: Case,
    relevant: Mapping[str, int],
    corpus: Mapping[str, Document],
    quotes: Mapping[Span, str] | None = None,
) -> dict[str, Any]:
    """The line of a case; labels that it does not have are left out. `quotes` are those of documents elsewhere."""
    record: dict[str, Any] = {}
    for name in CASE_FIELDS:
        value = relevant if name == "relevant" else getattr(case, name)
        if name == "evidence":
            value = [_evidence_record(span, corpus, quotes or {}) for span in case.evidence]
        elif name == "gold_facts":
            value = [list(fact) for fact in case.gold_facts]
        elif name == "expected_sections":
            value = [{"doc_id": doc_id, "section": section} for doc_id, section in case.expected_sections]
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        if value is not None and (value not in ("", [], {}) or name in ("query_id", "text", "reference_answer")):
            record[name] = value
    return record


def single_text(dataset: Dataset) -> str:
    """The whole file."""
    records: list[dict[str, Any]] = [{"testset": dataset.name, "split": dataset.split}]
    records += [own_record(case, dataset.qrels.get(case.query_id, {}), dataset.corpus) for case in dataset.cases]
    samples: dict[Kind, Sequence[SafetySample]] = {"input": dataset.safety_inputs, "output": dataset.safety_outputs}
    for kind, own in samples.items():
        records += [{"sample_id": sample.sample_id, "kind": kind, **sample_record(sample, kind)} for sample in own]
    records += [document_record(document) for document in dataset.corpus.values()]
    return "".join(map(json_line, records))


def document_record(document: Document) -> dict[str, Any]:
    """The line of a document."""
    record: dict[str, Any] = {"doc_id": document.doc_id, "text": document.text}
    record |= {"title": document.title} if document.title else {}
    return {**record, "metadata": dict(document.metadata)} if document.metadata else record


def _evidence_record(span: Span, corpus: Mapping[str, Document], quotes: Mapping[Span, str]) -> dict[str, Any]:
    record: dict[str, Any] = {"doc_id": span.doc_id, "start": span.start, "end": span.end}
    if span.doc_id in corpus:
        record["quote"] = corpus[span.doc_id].full_text[span.start : span.end]
    elif span in quotes:
        record["quote"] = quotes[span]
    return record


def refer(corpus: str, path: Path, reading: Reading, line: int) -> None:
    """Read the documents that the file at `path` refers to: a place next to it, or what `load_corpus` takes."""
    from ragbench.datasets.corpus import load_corpus
    from ragbench.errors import RagbenchError

    near = path.parent / corpus
    expected = "documents in the file or a reference to others, not both" if reading.documents else ""
    try:
        if not expected:
            reading.documents.update(load_corpus(near if near.exists() else corpus).corpus)
    except (RagbenchError, OSError, ValueError) as exc:
        expected = f"documents that can be read ({exc})"
    if expected:
        reading.wrong(line, "corpus", shown(corpus), expected, path.name)
