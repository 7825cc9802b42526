"""The models of a case, a document and a safety sample in every form of test set: which fields
there are, the values that each takes, the words for harmful, and the problem with its line.

Whole numbers in ids and words count as texts, since people write `id: 7`; other numbers do not,
because YAML has already read 3.10 as 3.1. An empty field (null) is a missing one. A field may have
the name of any form: `query_id`, `id` and `case_id` are the same.
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
from ragbench.testsets.located_data import Keys, Record
from ragbench.testsets.problems import Problem, nearest, suggestion
from ragbench.types import LATENCY_BUDGETS, TURN_MARK, Case, Dataset, Document, SafetySample, Span

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
    """Return a text that is not empty, or the digits of a whole number; ValueError for other values."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError("a text that is not empty (numbers with a point, true and false need quotes)")


def _identifier(value: Any) -> Any:
    """Return an id as a text; 7.0 becomes "7", as a column with an empty cell holds floats."""
    if isinstance(value, float) and value == value // 1:
        value = int(value)
    return _word(value)


def _graded(value: Any) -> Any:
    """Return relevant ids with the grade 1: for a list of ids, one id, or ids in one text; any other
    value unchanged, such as ids with their grades.

    >>> _graded(["a", "b"]), _graded("a; b"), _graded(7), _graded({"a": 3})
    ({'a': 1, 'b': 1}, {'a': 1, 'b': 1}, {7: 1}, {'a': 3})
    """
    if isinstance(value, str):
        return dict.fromkeys(_listed(value), 1)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {value: 1}
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return dict.fromkeys(value, 1)
    return value


def _whole(value: Any) -> Any:
    """Return 1 for 1.0 and "1", as tables hold whole numbers; any other value unchanged."""
    if isinstance(value, float) and value == value // 1:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}(\.0*)?", value.strip()):
        return int(value.partition(".")[0])
    return value


def _listed(value: Any) -> Any:
    """Return the parts of a text such as "a; b", as a cell of a table holds a list; any other value
    unchanged.
    """
    if not isinstance(value, str):
        return value
    return [part.strip() for part in re.split("[;|]", value) if part.strip()]


def _sentences(value: Any) -> Any:
    """Return the parts of a text such as "One; two.|Three."; any other value unchanged."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split("|")]


def _budgets(value: Any) -> Any:
    """Return budgets by stage; one number becomes the budget of the stage "total"."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    return value if isinstance(value, dict) else {"total": value}


def _paired(value: Any, info: ValidationInfo) -> Any:
    """Return {id: grade} for a list of grades; any other value unchanged.

    The ids are in another field of the same line, which pydantic has read before: `relevant` for
    `relevance_grades`, `relevant_chunks` for `chunk_relevance_grades`.
    """
    if not isinstance(value, list):
        return value
    field_of_ids = "relevant" if info.field_name == "relevance_grades" else "relevant_chunks"
    ids = info.data.get(field_of_ids, ())
    if len(value) != len(ids):
        raise ValueError(f"{len(ids)} grades, one for each relevant id")
    return dict(zip(ids, value, strict=True))


def _fact(value: Any) -> Any:
    """Return a fact with its aliases as a list, from a text, a list or {fact, aliases}."""
    if isinstance(value, dict) and "fact" in value and isinstance(value.get("aliases", []), list):
        return [value["fact"], *value.get("aliases", [])]
    if isinstance(value, list):
        return value
    return [value]


def _turn(value: Any) -> Any:
    """Return [question, answer] for {question, answer}; any other value unchanged."""
    if isinstance(value, dict) and value.keys() == {"question", "answer"}:
        return [value["question"], value["answer"]]
    return value


def _known_budgets(value: dict[str, float]) -> dict[str, float]:
    """Return latency budgets; ValueError if a name is not a stage or figure with a budget."""
    for name in value:
        if name not in LATENCY_BUDGETS:
            known = f"budgets of {', '.join(LATENCY_BUDGETS)}, not of {name!r}"
            raise ValueError(suggestion(name, LATENCY_BUDGETS, known))
    return value


def _harm(value: Any) -> bool:
    """Return True for the label of a harmful text, False for the label of a harmless one; ValueError
    for an unknown label.

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
    """A piece of gold evidence: characters of a document, maybe with the text at that place; or a
    text alone, which is looked for in its document, or in all documents if none is named.

    A text alone has start and end 0 until it is found.
    """

    model_config = _STRICT
    doc_id: Word = ""
    start: Count | None = None
    end: Count | None = None
    quote: str | None = None

    @model_validator(mode="after")
    def _placed_or_quoted(self) -> Self:
        """Check that the evidence has offsets in a document, or a quote; a quote without offsets gets
        0 and 0, which mean that it has to be searched for.
        """
        if self.start is None and self.end is None and (self.quote or "").strip():
            self.start = 0
            self.end = 0
            return self
        if self.start is None or self.end is None or not self.doc_id:
            raise ValueError("a quote, or doc_id, start and end")
        if self.end <= self.start:
            raise ValueError("an end after the start")
        return self


class ExpectedChunk(BaseModel):
    """A document that should be retrieved, with or without a heading in it; or the id of a chunk."""

    model_config = _STRICT
    doc_id: Word | None = None
    section: Word | None = None
    chunk_id: Word | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_id(cls, value: Any) -> Any:
        """Take a text in place of an object for the id of a chunk."""
        return value if isinstance(value, dict) else {"chunk_id": value}

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        """Check that a document (with or without a section) or a chunk is named, and not both."""
        if (self.doc_id is None) == (self.chunk_id is None) or (self.chunk_id and self.section):
            raise ValueError("{doc_id} or {doc_id, section}, or {chunk_id}")
        return self


def _named(default: Any, *names: str) -> Any:
    """Return a field that has any of these names in files."""
    return Field(default, validation_alias=AliasChoices(*names))


class Labels(BaseModel):
    """The labels of a case, as files hold them."""

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
    """A case: its question and its labels. A missing id is made from the question; in a conversation
    from the first question and the number of the turn.
    """

    query_id: Id = _named("", "query_id", "id", "case_id")
    text: Word = _named(..., "text", "query", "question")

    @model_validator(mode="after")
    def _with_id(self) -> Self:
        """Derive a missing id from the question, in a conversation from its first question."""
        if self.query_id:
            return self
        if self.turns:
            first_question, _ = self.turns[0]
            self.query_id = f"{derived_id(first_question)}{TURN_MARK}{len(self.turns) + 1}"
        else:
            self.query_id = derived_id(self.text)
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
    """The fields of a file next to its cases; `corpus` names documents in another place."""

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
    """A case of a file with its relevant documents (doc_id -> grade); `quotes` are the texts that its
    pieces of evidence should hold, in their order (None: not given).
    """

    case: Case
    relevant: dict[str, int]
    record: Record = Record(None)
    quotes: tuple[str | None, ...] = ()

    def evidence(self) -> Iterator[tuple[Span, str | None]]:
        """Yield each piece of evidence with the text that it should hold."""
        return zip_longest(self.case.evidence, self.quotes)


@dataclass(slots=True)
class Content:
    """The content of a file or a folder, and its problems.

    `corpus` is the path or the name of documents in another place; `documents` are those in the file,
    by id. `inputs` and `outputs` are safety samples.
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
    # a field that no form knows -> the lines with it
    unknown: dict[str, list[str]] = field(default_factory=dict)

    def take_head(self, record: Record) -> bool:
        """Set the name, split, corpus and other fields from the record next to the cases; return True.

        If one of them is wrong, set none, add its problem to `problems`, and return False.
        """
        head = check(Head, record, self)
        if head is None:
            return False
        self.name = head.name
        self.split = head.split
        self.corpus = head.corpus
        self.others = head.model_extra or {}
        return True

    def unique(
        self, model: type[M], records: Iterable[Record], name: str
    ) -> Iterator[tuple[M, Record]]:
        """Yield (line, record) for each record that fits the model and whose id, the field `name`, is
        new or empty. The problems of the other records are added to `problems`.
        """
        record_of_id: dict[str, Record] = {}
        for record in records:
            line = check(model, record, self)
            if line is None:  # `check` has noted why
                continue
            identifier = getattr(line, name)
            if identifier in record_of_id:
                earlier = record_of_id[identifier].line
                expected = f"another id: line {earlier} has this one"
                self.problems.append(record.problem((name,), shown(identifier), expected))
                continue
            if identifier:
                record_of_id[identifier] = record
            yield line, record

    def add(
        self,
        cases: Iterable[Record] = (),
        documents: Iterable[Record] = (),
        inputs: Iterable[Record] = (),
        outputs: Iterable[Record] = (),
    ) -> None:
        """Check records and add them; a missing id of a safety sample is made from its text."""
        for case, record in self.unique(CaseLine, cases, "query_id"):
            self.entries.append(entry_of(case, record))
        for document, _ in self.unique(DocumentLine, documents, "doc_id"):
            self.documents[document.doc_id] = Document(**dict(document))
        self.inputs += self._samples("input", inputs)
        self.outputs += self._samples("output", outputs)

    def _samples(self, kind: Kind, records: Iterable[Record]) -> list[SafetySample]:
        """Return the safety samples in records; a missing id is derived from the text of the sample,
        with a number ("input-5d1c69e247-2") if earlier samples have the same text.
        """
        samples = []
        n_copies: Counter[str] = Counter()  # derived id -> samples with this text so far
        for line, _ in self.unique(SampleLine, records, "sample_id"):
            from_text = derived_id(line.text, kind)
            n_copies[from_text] += 1
            sample_id = line.sample_id or nth_id(from_text, n_copies[from_text])
            # what a file calls `label` is `harmful` in a sample, which ignores fields that it lacks
            labels = line.model_dump() | {"sample_id": sample_id, "harmful": line.label}
            samples.append(_ADAPTERS[SafetySample].validate_python(labels))
        return samples


def check(
    model: type[M], record: Record, content: Content, *, is_lenient: bool = False
) -> M | None:
    """Return a record as an object of a model, which checks its fields; None if a field is wrong.

    The problems of wrong fields are added to `content.problems`. A field that the model does not know
    becomes metadata, and is noted in `content.unknown`. It is a problem instead if the model has no
    metadata, or if its name looks misspelt. The model `Head` (the fields next to the cases) keeps
    unknown fields unchanged.

    Args:
        is_lenient: accept names that look misspelt, as in records of other tools.
    """
    if not isinstance(record.value, dict):
        content.problems.append(record.problem((), shown(record.value, 60), "{...} with fields"))
        return None
    known_names = fields_of(model)
    values = without_none(record.value)  # a field with null counts as missing
    n_earlier_problems = len(content.problems)
    takes_unknown = "metadata" in known_names or model is Head
    unknown_names = [name for name in record.value if name not in known_names]
    for name in unknown_names:
        is_misspelt = not is_lenient and nearest(name, known_names) != ""
        if is_misspelt or not takes_unknown:
            values.pop(name, None)
            content.problems.append(_unknown_field(record, (name,), known_names))
        elif name in values and model is not Head:
            _move_to_metadata(name, values)
            content.unknown.setdefault(name, []).append(f"line {record.line}")
    try:
        item = model.model_validate(values)
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            content.problems.append(_problem_of_error(model, dict(error), record))
        return None
    has_problems = len(content.problems) > n_earlier_problems
    return None if has_problems else item


@cache
def fields_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names that the fields of a model have in files."""
    names: list[str] = []
    for name, info in model.model_fields.items():
        # a field with several names lists them as `choices`
        names += map(str, getattr(info.validation_alias, "choices", (name,)))
    return tuple(names)


def entry_of(line: CaseLine, record: Record) -> Entry:
    """Return the case of a checked line, with its relevant documents and their grades.

    An item of the line's `expected_chunks` is the id of a chunk, or a document, or a section of a
    document. The case gets the ids in `expected_chunks` and the sections in `expected_sections`. The
    documents are relevant, with the grade that the line states, else 1.
    """
    chunks = line.expected_chunks
    sections = [chunk for chunk in (*chunks, *line.expected_sections) if chunk.section]
    labels = line.model_dump()  # a case ignores the fields that it does not have
    labels["expected_chunks"] = [chunk.chunk_id for chunk in chunks if chunk.chunk_id]
    labels["expected_sections"] = [(chunk.doc_id, chunk.section) for chunk in sections]
    labels["relevant_chunks"] = line.relevant_chunks | line.chunk_relevance_grades
    grades = line.relevant | line.relevance_grades
    for chunk in chunks:
        if chunk.doc_id:
            grades.setdefault(chunk.doc_id, 1)  # keeps a grade that the line states
    case = _ADAPTERS[Case].validate_python(labels)
    quotes = tuple(piece.quote for piece in line.evidence)
    return Entry(case, grades, record, quotes)


def nth_id(stem: str, count: int) -> str:
    """Return the id for the `count`-th use of a stem: the stem, then "stem-2", "stem-3", ..."""
    return f"{stem}-{count}" if count > 1 else stem


def derived_id(text: str, kind: str = "q") -> str:
    """Return an id made from the text alone, which stays the same when other cases come and go.

    >>> derived_id("How do I install it?")
    'q-5d1c69e247'
    """
    return f"{kind}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}"


CASE_FIELDS = tuple(each.name for each in fields(Case))
"""Names of the fields of a case."""
_BEFORE_EVIDENCE = CASE_FIELDS.index("evidence")
_FIELDS_OF_LINE = (*CASE_FIELDS[:_BEFORE_EVIDENCE], "relevant", *CASE_FIELDS[_BEFORE_EVIDENCE:])
"""Names of the fields of a line, in its order."""


def entry_of_case(dataset: Dataset, case: Case) -> Entry:
    """Return a case of a dataset with its relevant documents, and the texts of its evidence."""
    quotes: list[str | None] = []
    for span in case.evidence:
        document = dataset.corpus.get(span.doc_id)
        # None: the document is not there, nor the text
        quotes.append(document.full_text[span.start : span.end] if document else None)
    return Entry(case, dict(dataset.qrels.get(case.query_id, {})), quotes=tuple(quotes))


def case_line(entry: Entry) -> dict[str, Any]:
    """Return a case as the record of a line, which `entry_of` reads back; labels that the case lacks
    are left out.
    """
    labels = plain(entry.case)
    for span, quote in zip(labels.get("evidence", ()), entry.quotes, strict=False):
        if quote is not None:
            span["quote"] = quote
        is_located = span["end"] > 0
        if not is_located:  # the quote was never searched for in its document
            del span["start"], span["end"]
        if not span["doc_id"]:
            del span["doc_id"]
    if entry.case.expected_sections:
        labels["expected_sections"] = [
            {"doc_id": doc_id, "section": section}
            for doc_id, section in entry.case.expected_sections
        ]
    if entry.relevant:
        labels["relevant"] = entry.relevant
    return {name: labels[name] for name in _FIELDS_OF_LINE if name in labels}


def sample_line(sample: SafetySample, kind: Kind) -> dict[str, Any]:
    """Return the record of a safety sample."""
    line = plain(sample)
    labels = ("benign", "attack") if kind == "input" else ("clean", "leak")
    # `harmful` is False or True, and so the index 0 or 1
    return line | {"label": labels[line.pop("harmful")], "kind": kind}


def plain(record: Case | Document | SafetySample) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults."""
    fields: dict[str, Any] = _ADAPTERS[type(record)].dump_python(record, exclude_defaults=True)
    return fields


def _move_to_metadata(name: str, fields: dict[str, Any]) -> None:
    """Move a field into the field "metadata"; drop it if that field holds no object."""
    value = fields.pop(name)
    metadata = fields.get("metadata", {})
    if isinstance(metadata, dict):
        fields["metadata"] = {**metadata, name: value}


def _unknown_field(record: Record, keys: Keys, names: Iterable[str]) -> Problem:
    """Return the problem of a field that has none of the known `names`."""
    expected = suggestion(str(keys[-1]), names, f"one of {', '.join(names)}")
    return record.problem(keys, "an unknown field", expected)


def _problem_of_error(model: type[BaseModel], error: dict[str, Any], record: Record) -> Problem:
    """Return an error of pydantic as the problem of a record: its field, the value found, the value
    expected.

    Args:
        model: the model that the record was validated as.
        error: an item of `ValidationError.errors()`; its "loc" has the keys of the wrong value.
    """
    # pydantic adds "[key]" to the keys if a key itself is wrong
    keys = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        # the model whose object has the unknown field; only evidence and chunks are nested objects
        inner_model: type[BaseModel] = model
        if len(keys) > 1:
            inner_model = Evidence if keys[0] == "evidence" else ExpectedChunk
        return _unknown_field(record, keys, fields_of(inner_model))
    if error["type"] == "missing":
        return record.problem(keys, "missing", "a value")
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    # "... or instance of Case" is of no help in a file
    expected, _, _ = message.partition(" or instance")
    return record.problem(keys, shown(error["input"], 60), expected)
