"""The one model of a case, of a document and of a safety sample, in every form of test set; each
problem with its line, its value and what was expected.

Whole numbers are taken as texts in ids and words, since people write `id: 7`; other numbers do not,
because 3.10 has become 3.1 by then. An empty field (null) is a missing one. A field may have the
name of any form: `query_id`, `id` and `case_id` are the same.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import zip_longest
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from ragbench.datasets.jsonl import shown
from ragbench.testsets.fields import without_none
from ragbench.testsets.parser import Keys, Record
from ragbench.testsets.problems import Problem, nearest, suggestion
from ragbench.types import (
    LATENCY_BUDGETS,
    TURN_MARK,
    Case,
    Dataset,
    Document,
    SafetySample,
    Span,
)

HARMFUL = "attack injection jailbreak malicious unsafe harmful leak leaked positive".split()
HARMLESS = "benign safe harmless clean legitimate no_leak none negative".split()
Kind = Literal["input", "output"]
M = TypeVar("M", bound=BaseModel)

_ADAPTERS = {kind: TypeAdapter[Any](kind) for kind in (Case, Document, SafetySample)}
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_HARM = dict.fromkeys((*HARMFUL, "true", "1"), True) | dict.fromkeys(
    (*HARMLESS, "false", "0"), False
)


def _word(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError("a text that is not empty (numbers with a point, true and false need quotes)")


def _identifier(value: Any) -> Any:
    """Return an id as a text; 7.0 is 7, as a column with an empty cell has it."""
    return _word(int(value) if isinstance(value, float) and value == value // 1 else value)


def _graded(value: Any) -> Any:
    """Return relevant ids with their grades: a list, or ids in one text ("a; b"), have grade 1."""
    if isinstance(value, str):
        return dict.fromkeys(_listed(value), 1)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {value: 1}
    ids = isinstance(value, list) and all(isinstance(item, str | int | float) for item in value)
    return dict.fromkeys(value, 1) if ids else value


def _whole(value: Any) -> Any:
    """Return a whole number for 1.0 and "1", as tables have them; any other value as it is."""
    if isinstance(value, float) and value == value // 1:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}(\.0*)?", value.strip()):
        return int(value.partition(".")[0])
    return value


def _listed(value: Any) -> Any:
    """Return the entries of a text such as "a; b", as a cell of a table has them."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in re.split("[;|]", value) if part.strip()]


def _sentences(value: Any) -> Any:
    """Return the entries of a text such as "One; two.|Three." """
    return [part.strip() for part in value.split("|")] if isinstance(value, str) else value


def _budgets(value: Any) -> Any:
    """Return budgets by stage; one number is the budget of all."""
    with suppress(ValueError, TypeError):
        value = float(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else {"total": value}


def _paired(value: Any, info: ValidationInfo) -> Any:
    """Return grades by id, of a list as long as that of the ids, which is another field."""
    name = "relevant" if info.field_name == "relevance_grades" else "relevant_chunks"
    ids = info.data.get(name, ())
    if not isinstance(value, list):
        return value
    if len(value) != len(ids):
        raise ValueError(f"{len(ids)} grades, one for each relevant id")
    return dict(zip(ids, value, strict=True))


def _fact(value: Any) -> Any:
    """Return a fact with its aliases: also of a text alone, and of {fact, aliases}."""
    if isinstance(value, dict) and "fact" in value and isinstance(value.get("aliases", []), list):
        return [value["fact"], *value.get("aliases", [])]
    return value if isinstance(value, list) else [value]


def _turn(value: Any) -> Any:
    """Return an earlier question and its answer: also of {question, answer}."""
    is_named = isinstance(value, dict) and value.keys() == {"question", "answer"}
    return [value["question"], value["answer"]] if is_named else value


def _known_budgets(value: dict[str, float]) -> dict[str, float]:
    """Return latency budgets, if each is of a known stage or figure."""
    for name in value:
        if name not in LATENCY_BUDGETS:
            known = f"budgets of {', '.join(LATENCY_BUDGETS)}, not of {name!r}"
            raise ValueError(suggestion(name, LATENCY_BUDGETS, known))
    return value


def _harm(value: Any) -> bool:
    """Return the label of a text; True and 1 are labels too.

    >>> _harm("Injection"), _harm("clean"), _harm(1), _harm(False)
    (True, False, True, False)
    """
    key = str(value).strip().lower().replace(" ", "_").replace("-", "_")
    if key not in _HARM:
        raise ValueError(
            f"a label: {', '.join(HARMFUL)}, true or 1; {', '.join(HARMLESS)}, false or 0"
        )
    return _HARM[key]


Word = Annotated[str, BeforeValidator(_word)]
Id = Annotated[str, BeforeValidator(_identifier)]
Words = Annotated[list[Word], BeforeValidator(_listed)]
Sentences = Annotated[list[Word], BeforeValidator(_sentences)]
Grade = Annotated[int, Field(ge=-10_000, le=10_000), BeforeValidator(_whole)]
Grades = dict[Id, Grade]
Relevant = Annotated[Grades, BeforeValidator(_graded)]
Paired = Annotated[Grades, BeforeValidator(_paired)]
Budgets = Annotated[
    dict[Word, Annotated[float, Field(gt=0)]],
    BeforeValidator(_budgets),
    AfterValidator(_known_budgets),
]
Count = Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_whole)]


class Evidence(BaseModel):
    """A piece of gold evidence: characters of a document, and the text that should be there; or the
    text alone, which is looked for in the document, or in all where none is named.

    A text alone has start and end 0 until it is found.
    """

    model_config = _STRICT
    doc_id: Word = ""
    start: Count | None = None
    end: Count | None = None
    quote: str | None = None

    @model_validator(mode="after")
    def _placed_or_quoted(self) -> Self:
        has_quote = bool((self.quote or "").strip())
        if self.start is None and self.end is None and has_quote:
            self.start = self.end = 0
        elif self.start is None or self.end is None or not self.doc_id:
            raise ValueError("a quote, or doc_id, start and end")
        elif self.end <= self.start:
            raise ValueError("an end after the start")
        return self


class ExpectedChunk(BaseModel):
    """A document that should be found, with or without a heading in it; or the id of a chunk."""

    model_config = _STRICT
    doc_id: Word | None = None
    section: Word | None = None
    chunk_id: Word | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_id(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"chunk_id": value}

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.doc_id is None) == (self.chunk_id is None) or (self.chunk_id and self.section):
            raise ValueError("{doc_id} or {doc_id, section}, or {chunk_id}")
        return self


def _named(default: Any, *names: str) -> Any:
    """Return a field that files call by any of these names."""
    return Field(default, validation_alias=AliasChoices(*names))


class Labels(BaseModel):
    """The labels of a case, as files have them."""

    model_config = _STRICT
    query_id: Id = _named(..., "query_id", "id", "case_id")
    category: str = ""
    query_type: str = ""
    reference_answer: str | None = _named(
        None, "reference_answer", "expected_answer", "expectedAnswer"
    )
    relevant: Relevant = _named(
        {}, "relevant", "relevant_docs", "expected_sources", "expectedDocumentId"
    )
    relevance_grades: Paired = {}
    evidence: list[Evidence] = []
    gold_facts: Annotated[
        list[Annotated[list[Word], Field(min_length=1), BeforeValidator(_fact)]],
        BeforeValidator(_sentences),
    ] = []
    required_keywords: Words = _named(
        [], "required_keywords", "requiredKeywords", "expected_answer_contains"
    )
    expected_claims: Sentences = []
    forbidden_claims: Sentences = []
    expected_citations: Words = []
    expected_outcome: Literal["success", "no_results", "uncertain", "blocked"] | None = None
    expected_sections: list[ExpectedChunk] = []
    expected_chunks: list[ExpectedChunk] = []
    relevant_chunks: Relevant = {}
    chunk_relevance_grades: Paired = {}
    required_flags: Words = []
    forbidden_flags: Words = []
    min_citations: Count | None = None
    latency_budget_ms: Budgets = {}
    user_roles: Words = []
    turns: list[
        Annotated[list[str], Field(min_length=2, max_length=2), BeforeValidator(_turn)]
    ] = []
    metadata: dict[str, Any] = {}


class CaseLine(Labels):
    """A case: its question and its labels. A missing id is made from the question, in a conversation
    from the first one.
    """

    query_id: Id = _named("", "query_id", "id", "case_id")
    text: Word = _named(..., "text", "query", "question")

    @model_validator(mode="after")
    def _with_id(self) -> Self:
        first, *_ = (*(question for question, _ in self.turns), self.text)
        turn = f"{TURN_MARK}{len(self.turns) + 1}" if self.turns else ""
        self.query_id = self.query_id or derived_id(first) + turn
        return self


class DocumentLine(BaseModel):
    """A document."""

    model_config = _STRICT
    doc_id: Word = _named(..., "doc_id", "_id")
    text: str
    title: str = ""
    metadata: dict[str, Any] = {}


class SampleLine(BaseModel):
    """A text that is harmful or not, in the words that people use."""

    model_config = _STRICT
    sample_id: Word | None = None
    kind: Kind | None = None
    text: Word
    label: Annotated[bool, BeforeValidator(_harm)]
    category: str = ""
    source: str = ""
    contexts: list[str] = []


class Head(BaseModel):
    """What a file has next to its cases; `corpus` names documents that are elsewhere."""

    model_config = ConfigDict(extra="allow", strict=True)
    version: Any = None
    name: Word = _named("", "name", "testset")
    split: Word = "test"
    corpus: Word = ""
    cases: list[Any] = _named([], "cases", "test_cases")
    documents: list[Any] = []
    safety_inputs: list[Any] = []
    safety_outputs: list[Any] = []


class Entry(NamedTuple):
    """A case of a file with its relevant documents, and the texts that its evidence should be
    (None: not given).
    """

    case: Case
    relevant: dict[str, int]
    record: Record = Record(None)
    quotes: tuple[str | None, ...] = ()

    def evidence(self) -> Iterator[tuple[Span, str | None]]:
        """Yield each piece of evidence with the text that it should be."""
        return zip_longest(self.case.evidence, self.quotes)


@dataclass(slots=True)
class Content:
    """The content of a file or a folder, and what is wrong with it; `corpus` names documents that
    are elsewhere.
    """

    name: str = ""
    split: str = "test"
    corpus: str = ""
    others: dict[str, Any] = field(default_factory=dict)  # fields next to the cases
    documents: dict[str, Document] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    inputs: list[SafetySample] = field(default_factory=list)
    outputs: list[SafetySample] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(
        default_factory=dict
    )  # a field that no form knows -> the lines that have it

    def take_head(self, record: Record) -> bool:
        """Check the fields next to the cases and take them over; False where they are wrong."""
        if head := check(Head, record, self):
            self.name, self.split, self.corpus = head.name, head.split, head.corpus
            self.others = head.model_extra or {}
        return head is not None

    def unique(
        self, model: type[M], records: Iterable[Record], name: str
    ) -> Iterator[tuple[M, Record]]:
        """Yield the records that are as the model has them, and whose id no earlier one has."""
        seen: dict[str, Record] = {}
        for record in records:
            if (line := check(model, record, self)) is None:
                continue
            identifier = getattr(line, name)
            earlier = seen.setdefault(identifier, record) if identifier else record
            if earlier is record:
                yield line, record
            else:
                expected = f"an id of its own: line {earlier.line} has this one"
                self.problems.append(record.problem((name,), shown(identifier), expected))

    def add(
        self,
        cases: Iterable[Record] = (),
        documents: Iterable[Record] = (),
        inputs: Iterable[Record] = (),
        outputs: Iterable[Record] = (),
    ) -> None:
        """Check records and add them; an absent id of a safety sample is made from its text."""
        for case, record in self.unique(CaseLine, cases, "query_id"):
            self.entries.append(entry_of(case, record))
        for document, _ in self.unique(DocumentLine, documents, "doc_id"):
            self.documents[document.doc_id] = Document(**dict(document))
        for kind, records, samples in (
            ("input", inputs, self.inputs),
            ("output", outputs, self.outputs),
        ):
            copies: Counter[str] = Counter()
            for line, _ in self.unique(SampleLine, records, "sample_id"):
                stem = derived_id(line.text, kind)
                copies[stem] += 1
                sample_id = line.sample_id or nth_id(stem, copies[stem])
                labels = line.model_dump() | {"sample_id": sample_id, "harmful": line.label}
                samples.append(_ADAPTERS[SafetySample].validate_python(labels))


def check(
    model: type[M], record: Record, content: Content, *, is_lenient: bool = False
) -> M | None:
    """Return a record as a model, or None and what is wrong with it in `content.problems`.

    Fields that the model does not know become metadata where it has any, unless they look like a
    misspelt one and the record is not another tool's (`is_lenient`).
    """
    if not isinstance(record.value, dict):
        content.problems.append(record.problem((), shown(record.value, 60), "{...} with fields"))
        return None
    names = fields_of(model)
    clean = without_none(record.value)
    n_before = len(content.problems)
    for name in [name for name in record.value if name not in names]:
        value = clean.pop(name, None)
        is_misspelt = not is_lenient and nearest(name, names) != ""
        if is_misspelt or not ("metadata" in names or model is Head):
            content.problems.append(_unknown(record, (name,), names))
        elif model is Head:
            clean[name] = value
        elif value is not None and isinstance(metadata := clean.get("metadata", {}), dict):
            clean["metadata"] = {**metadata, name: value}
            content.unknown.setdefault(name, []).append(f"line {record.line}")
    try:
        item = model.model_validate(clean)
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            content.problems.append(_problem(model, dict(error), record))
        return None
    return item if len(content.problems) == n_before else None


@cache
def fields_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names that files have for the fields of a model."""
    names: list[str] = []
    for name, info in model.model_fields.items():
        names += map(str, getattr(info.validation_alias, "choices", (name,)))
    return tuple(names)


def entry_of(line: CaseLine, record: Record) -> Entry:
    """Return a checked case and its relevant documents, by default of grade 1."""
    chunks = line.expected_chunks
    labels = line.model_dump() | {  # of which a case takes the fields that it has
        "expected_chunks": [chunk.chunk_id for chunk in chunks if chunk.chunk_id],
        "expected_sections": [
            (chunk.doc_id, chunk.section)
            for chunk in (*chunks, *line.expected_sections)
            if chunk.section
        ],
        "relevant_chunks": line.relevant_chunks | line.chunk_relevance_grades,
    }
    relevant = line.relevant | line.relevance_grades
    for chunk in chunks:
        if chunk.doc_id:
            relevant.setdefault(chunk.doc_id, 1)
    case = _ADAPTERS[Case].validate_python(labels)
    return Entry(case, relevant, record, tuple(piece.quote for piece in line.evidence))


def nth_id(stem: str, count: int) -> str:
    """Return an id, of the second and later ones with a number: `count` have it by now."""
    return f"{stem}-{count}" if count > 1 else stem


def derived_id(text: str, kind: str = "q") -> str:
    """Return the id of a case that has none: it stays the same when other cases come and go.

    >>> derived_id("How do I install it?")
    'q-5d1c69e247'
    """
    return f"{kind}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"


CASE_FIELDS = tuple(each.name for each in fields(Case))


def entry_of_case(dataset: Dataset, case: Case) -> Entry:
    """Return a case of a dataset with its relevant documents, and the texts of its evidence."""
    corpus = dataset.corpus
    quotes = tuple(
        corpus[span.doc_id].full_text[span.start : span.end] if span.doc_id in corpus else None
        for span in case.evidence
    )
    return Entry(case, dict(dataset.qrels.get(case.query_id, {})), quotes=quotes)


def case_line(entry: Entry) -> dict[str, Any]:
    """Return the record of a case; labels that it does not have are left out."""
    labels = plain(entry.case)
    for piece, quote in zip(labels.get("evidence", ()), entry.quotes, strict=False):
        if quote is not None:
            piece["quote"] = quote
        if piece["end"] == 0:  # a quote that was never looked for
            del piece["start"], piece["end"]
        if not piece["doc_id"]:
            del piece["doc_id"]
    if "expected_sections" in labels:
        labels["expected_sections"] = [
            {"doc_id": doc_id, "section": section}
            for doc_id, section in entry.case.expected_sections
        ]
    if entry.relevant:
        labels["relevant"] = entry.relevant
    order = (*CASE_FIELDS[:5], "relevant", *CASE_FIELDS[5:])
    return {name: labels[name] for name in order if name in labels}


def sample_line(sample: SafetySample, kind: Kind) -> dict[str, Any]:
    """Return the record of a safety sample."""
    line = plain(sample)
    labels = ("benign", "attack") if kind == "input" else ("clean", "leak")
    return line | {"label": labels[line.pop("harmful")], "kind": kind}


def plain(record: Case | Document | SafetySample) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults."""
    fields: dict[str, Any] = _ADAPTERS[type(record)].dump_python(record, exclude_defaults=True)
    return fields


def _unknown(record: Record, keys: Keys, names: Iterable[str]) -> Problem:
    expected = suggestion(str(keys[-1]), names, f"one of {', '.join(names)}")
    return record.problem(keys, "an unknown field", expected)


def _problem(model: type[BaseModel], error: dict[str, Any], record: Record) -> Problem:
    keys = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        inner = fields_of(Evidence if keys[0] == "evidence" else ExpectedChunk)
        return _unknown(record, keys, inner if len(keys) > 1 else fields_of(model))
    if error["type"] == "missing":
        return record.problem(keys, "missing", "a value")
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return record.problem(keys, shown(error["input"], 60), expected.partition(" or instance")[0])
