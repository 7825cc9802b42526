"""From what a system returns or has written (a text, a table, an object, a line of a log) to an
Answer.

No framework is imported: the documents, messages and graph states of LangChain, the responses and
nodes of LlamaIndex, the documents and pipeline results of Haystack and the hits of vector stores
are recognised by the names of their fields, whether these are keys or attributes. Tables (pandas,
Arrow, polars), queries of LanceDB and streams are read to their end.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationError,
    model_validator,
)
from pydantic import FiniteFloat as Finite

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.generation.citations import parse_citations
from ragbench.llms.reply_text import read_outcome, without_thoughts
from ragbench.systems.credentials import one_line, problems_of
from ragbench.testsets.fields import CONTEXTS, REPLIES, RETRIEVED, first, without_none
from ragbench.text import without_surrogates
from ragbench.types import Answer, Call, Completion, Passage

RETRIEVAL_ONLY = "retrieval_only"
"""The flag of an answer without a text on purpose: the system finds passages and writes nothing."""

ANSWER_FIELDS = ("answer", "text", *REPLIES, "completion", "output_text", "result")
CONTEXT_FIELDS = (
    *CONTEXTS,
    *RETRIEVED,
    *"source_nodes sources results source_documents documents hits points".split(),
)
"""Where an answer and its contexts are read from, the first that is there."""

# such as a number of hits, unless it is a list
_MAY_BE_OTHER = "context documents hits points".split()
_CONTEXT = {
    "id": "id _id chunk_id passage_id id_ node_id docno".split(),
    "doc_id": "doc_id document_id ref_doc_id".split(),
    "text": "text content page_content excerpt snippet body".split(),
    "score": "score _score relevance_score _relevance_score similarity".split(),
}
_ABOUT = ("_source", "payload", "metadata", "meta")  # tables with more fields of a context
_SOURCES = (*_CONTEXT["doc_id"], "source", "file_path", "file_name")
_WRAPPERS = (*ANSWER_FIELDS, "output", "data", "message", "response_gen")
_STATUS = ("data", "message")  # which are texts about the request, where contexts are next to them
_QUESTIONERS = ("human", "user", "system", "developer")
_RECORD = tuple("citations flags outcome confidence usage latency_ms error".split())
_ATTRIBUTES = (
    *(name for names in _CONTEXT.values() for name in names),
    *(*_ABOUT, *_WRAPPERS, *CONTEXT_FIELDS, *_RECORD),
    *"node choices delta messages usage_metadata type role artifact".split(),
    *(f"{kind}_tokens" for kind in ("input", "output", "prompt", "completion")),
)
_AS_ROWS = {"to_pylist": (), "to_dicts": (), "to_list": (), "to_dict": ("records",)}
"""The methods by which Arrow, polars, LanceDB and pandas give the rows of a table or a query."""

_NUMBERED = re.compile(r"~\d+\Z")
_RENAMED = re.compile(r"~~\d+\Z")  # what `match_passages` adds where one id has several texts

_Text = Annotated[str, AfterValidator(without_surrogates)]
_NumbersAsText = ConfigDict(coerce_numbers_to_str=True)


class _Context(BaseModel):
    model_config = _NumbersAsText
    id: _Text = ""
    doc_id: _Text = ""
    text: _Text = ""
    score: Finite | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.id and not self.text:
            raise ValueError("expected an id or a text")
        return self


_Contexts = list[Annotated[_Context, BeforeValidator(lambda value: read_context(value))]]


class _Call(BaseModel):
    name: _Text = ""
    query: _Text = ""
    contexts: _Contexts = []


class _Usage(BaseModel):
    model: str | None = None
    input_tokens: NonNegativeInt | None = Field(
        None, validation_alias=AliasChoices("input_tokens", "prompt_tokens")
    )
    output_tokens: NonNegativeInt | None = Field(
        None, validation_alias=AliasChoices("output_tokens", "completion_tokens")
    )


class _Record(BaseModel):
    model_config = _NumbersAsText
    answer: _Text = ""
    contexts: _Contexts = []
    calls: list[_Call] = []
    citations: list[_Text | int] | None = None
    flags: list[_Text] = []
    outcome: Literal["success", "no_results", "uncertain", "blocked", "failed"] | None = None
    confidence: Finite | None = None
    usage: Annotated[_Usage | None, BeforeValidator(lambda value: _table(value))] = None
    latency_ms: dict[str, Finite] = {}
    error: _Text | None = None


def read_answer(query_id: str, value: object, *, model: str = "") -> Answer:
    """Return the answer that a value holds; `model` names who used the tokens where it does not.

    A text is the answer. A list, a data frame or one document is contexts. A pair of a text and a
    list is both. A stream is read to its end: texts, messages and answers in pieces are joined. Of
    a table or an object are read `answer` (or `text`, `response`, `generated_answer`,
    `predicted_answer`, `generation`, `result`), `contexts` (or `context`, `retrieved_contexts`,
    `sources`, `results`, `source_documents`, `source_nodes`, `documents`, `hits`, `points`; in rank
    order, each a text, a table with `id`, `text`, `score`, `doc_id`, a row `(id, text, score)`, or
    a document as LangChain, LlamaIndex and search engines give them), `citations`, `flags`,
    `outcome`, `confidence`, `usage` (`model`, `input_tokens`, `output_tokens`), `latency_ms` (stage
    -> ms), `calls` (of tools and searches: `name`, `query`, `contexts`) and `error`; other fields
    are ignored. Where an answer is not among them it is looked for in a chat's reply (`content`,
    `choices`), a graph's state (`messages`) and the results of Haystack's components. In a record
    with `text`, which is how ragbench itself stores answers, contexts that are strings are ids.

    A context without an id gets one made from its text; one whose id another has gets a number
    ("7~2"), also where it is the same once more, so that numbers in the text mean what the system
    meant. A citation is the id of a context, or its number from 1; without `citations` they are
    read from the text ("[1]"). Without `outcome` it is inferred from the wording. Contexts without
    an answer carry the flag "retrieval_only"; an empty answer is one.

    >>> read_answer("q1", ("In 1881 [2].", ["It was planned.", {"id": "a", "text": "It opened."}])).citations
    ('a',)
    >>> read_answer("q1", {"llm": {"replies": ["In 1881."]}, "retriever": {"documents": ["It opened."]}}).text
    'In 1881.'
    >>> read_answer("q1", {"answer": ["In 1881."]})
    Traceback (most recent call last):
    ragbench.errors.DataError: answer is ['In 1881.']: input should be a valid string

    Raises:
        DataError: naming every field that is not what it should be.
    """
    record = _as_record(value)
    if record is None:
        raise DataError(
            f"{shown(value, 60)} ({type(value).__name__}); expected a text, a dict "
            'with "answer" and "contexts", or an Answer'
        )
    fields = without_none(record)
    if fields.keys().isdisjoint(("answer", "contexts", "error")):
        names = ", ".join(map(str, fields)) or "none"
        raise DataError(f"neither an answer nor contexts; expected a field 'answer', found {names}")
    try:
        parsed = _Record.model_validate(fields)
    except ValidationError as exc:  # pydantic's own text repeats the whole input
        raise DataError(one_line(problems_of(exc))) from None
    return _answer(query_id, parsed, model)


def _answer_of(table: Mapping[str, Any]) -> Any:
    """Return the answer among the fields, if any; a table is not one; a list is, to be refused."""
    for name in ANSWER_FIELDS:
        value = table.get(name)
        if isinstance(value, str | Real) or (isinstance(value, list) and name != "result"):
            return value
    return None


def _contexts_of(table: Mapping[str, Any]) -> Any:
    """Return the contexts among the fields, if any."""
    for name in CONTEXT_FIELDS:
        value = _rows(table.get(name))
        if isinstance(value, Mapping):
            value = value.get("hits")  # as Elasticsearch replies
        if isinstance(value, str) and name == "context":
            return [value]
        if isinstance(value, list | tuple) or (value is not None and name not in _MAY_BE_OTHER):
            return value
    return None


def _rows(value: Any) -> Any:
    """Return the rows of a table or a query; any other value as it is."""
    for method, arguments in _AS_ROWS.items():
        if hasattr(value, method) and (method != "to_dict" or hasattr(value, "columns")):
            return getattr(value, method)(*arguments)
    return value


def _table(value: Any) -> Any:
    """Return the fields of an object that hold something as a table; any other value as it is."""
    if value is None or isinstance(value, Mapping | str | Real | list | tuple | type):
        return value
    fields = {
        name: entry
        for name in _ATTRIBUTES
        if (entry := getattr(value, name, None)) is not None
        and (isinstance(entry, str) or not callable(entry))
    }
    if isinstance(fields.get("data"), str):  # Haystack's GeneratedAnswer
        fields["answer"] = fields.pop("data")
    if not fields and hasattr(value, "to_dict"):  # a document of tantivy: lists of values
        fields = {
            name: entry[0] if isinstance(entry, list) and len(entry) == 1 else entry
            for name, entry in value.to_dict().items()
        }
    return fields or value


def _as_record(value: Any) -> Mapping[str, Any] | None:
    """Return a table with an answer, contexts, or both; None where the shape is not known."""
    if isinstance(value, str):
        return {"answer": value}
    if isinstance(value, Iterator):
        pieces = [*map(_as_record, value)]
        if None in pieces:
            return None
        merged = {name: entry for piece in pieces for name, entry in (piece or {}).items()}
        return {
            **merged,
            "answer": "".join(str(_answer_of(piece) or "") for piece in pieces if piece) or None,
        }
    if isinstance(value, tuple) and [*map(type, value)] == [str, list]:
        return {"answer": value[0], "contexts": value[1]}
    value = _rows(value)
    if isinstance(value, list | tuple):
        return {"contexts": value, "flags": [RETRIEVAL_ONLY]}
    table = _table(value)
    if not isinstance(table, Mapping):
        return None
    if {"page_content", "node"} & table.keys() or {"content", "score"} <= table.keys():
        return {"contexts": [table], "flags": [RETRIEVAL_ONLY]}
    fields = {"answer": _answer_of(table), "contexts": _contexts_of(table)}
    if fields["answer"] is None:
        is_status = fields["contexts"] is not None or table.get("error") is not None
        status = {name for name in _STATUS if is_status and isinstance(table.get(name), str)}
        others = {name: entry for name, entry in table.items() if name not in status}
        table = {**table, **_inside(others)}
    elif "answer" not in table and "text" in table and fields["contexts"]:  # as ragbench stores it
        stored = {str(passage.get("passage_id")): passage for passage in table.get("passages", ())}
        for part in (fields, *(calls := [dict(call) for call in table.get("calls", ())])):
            part["contexts"] = [
                stored.get(entry, {"id": entry}) if isinstance(entry, str) else entry
                for entry in part["contexts"]
            ]
        fields["calls"] = calls
    return {**table, **without_none(fields)}


def _inside(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record inside a chat's reply, a graph's state, or the results of components by
    their names; {} where there is none.
    """
    content = table.get("content")
    if isinstance(content, str | list):  # a message of a chat model
        parts = [content] if isinstance(content, str) else content
        return {**(_as_record(iter(parts)) or {}), "usage": table.get("usage_metadata")}
    if choices := table.get("choices"):
        return _as_record(first(_table(choices[0]), ("message", "delta"))) or {}
    if isinstance(messages := table.get("messages"), list):
        record: dict[str, Any] = {}
        contexts: list[Any] = []
        for message in map(_table, messages):
            kind = first(message, ("type", "role"))
            if kind == "tool":
                documents = first(message, ("artifact", "content"))
                contexts += documents if isinstance(documents, list) else [documents]
            elif kind not in _QUESTIONERS:
                record = dict(_as_record(message) or {})
        return {**record, "contexts": contexts or None}
    if (wrapped := first(table, _WRAPPERS)) is not None:
        return _as_record(wrapped) or {}
    merged: dict[str, Any] = {}
    for part in (table, *(part for part in table.values() if isinstance(part, Mapping))):
        if isinstance(part.get("documents"), list):
            merged["contexts"] = part["documents"]
        for name in ("replies", "answers"):
            if isinstance(part.get(name), list) and part[name]:
                merged |= _as_record(part[name][0]) or {}
    return merged


def read_context(value: Any) -> Any:
    """Flatten one context to a table: documents and nodes of frameworks, hits of search engines,
    pairs with a score, rows of an id, a text and a score.

    >>> read_context({"_id": "a", "_score": 2.5, "_source": {"text": "It opened."}})
    {'id': 'a', 'text': 'It opened.', 'score': 2.5}
    >>> read_context(("It opened.", 0.5)), read_context({"id": 7, "payload": {"text": "It opened.", "source": "a.md"}})
    ({'text': 'It opened.', 'score': 0.5}, {'id': '7', 'doc_id': 'a.md', 'text': 'It opened.'})
    >>> read_context((7, "It opened.", 0.5))
    {'id': '7', 'text': 'It opened.', 'score': 0.5}
    """
    if isinstance(value, list | tuple) and value and isinstance(value[0], float):
        value = (*value[1:], value[0])  # as tantivy has them
    match value:
        case [hit, Real() as score]:
            inner = read_context(hit)
            return {**inner, "score": score} if isinstance(inner, Mapping) else value
        case [str() | int() as chunk_id, str() as text, Real() as score]:
            return {"id": str(chunk_id), "text": text, "score": score}
    value = _table(value)
    if isinstance(value, str | int):
        return {"text" if isinstance(value, str) else "id": value}
    if not isinstance(value, Mapping):
        return value
    if (node := value.get("node")) is not None:
        return {**read_context(node), "score": value.get("score")}
    about: Mapping[str, Any] = next(
        (value[name] for name in _ABOUT if isinstance(value.get(name), Mapping)), {}
    )
    fields = {part: first(value, names) for part, names in _CONTEXT.items()}
    fields["doc_id"] = fields["doc_id"] or first(about, _SOURCES)
    if fields["text"] is None:
        fields["text"] = first(about, _CONTEXT["text"])
    if fields["id"] is None:
        fields["id"] = fields["doc_id"]
    return {
        part: str(entry) if part in ("id", "doc_id") else entry
        for part, entry in fields.items()
        if entry is not None
    }


def _answer(query_id: str, record: _Record, model: str) -> Answer:
    passages = _passages(record.contexts)
    ids = tuple(passage.passage_id for passage in passages)
    text, flags = without_thoughts(record.answer), dict.fromkeys(record.flags)
    outcome: str | None = "failed" if record.error is not None else record.outcome
    error, used = record.error, record.usage
    has_answer = "answer" in record.model_fields_set  # be it an empty one
    if not text and outcome is None and (RETRIEVAL_ONLY in flags or (ids and not has_answer)):
        flags[RETRIEVAL_ONLY] = None
    elif outcome is None:
        outcome = read_outcome(text)
    elif outcome == "failed":
        error = error or "the system reports a failure without a reason"
    citations: Iterable[str] = ()
    if record.citations is not None:
        citations = (_cited(citation, ids) for citation in record.citations)
    elif outcome == "success":
        citations = parse_citations(text, ids)
    first_of = _first_of(ids, passages)
    citations = dict.fromkeys(first_of.get(citation, citation) for citation in citations)
    usage = (
        Completion(
            record.answer, used.model or model, used.input_tokens or 0, used.output_tokens or 0
        )
        if used
        else None
    )
    return Answer(
        query_id,
        text,
        ids,
        tuple(citations),
        tuple(flags),
        outcome,
        record.confidence,
        usage,
        record.latency_ms,
        error,
        passages=tuple(
            passage
            for passage in passages
            if passage.text or passage.doc_id or passage.score is not None
        ),
        calls=tuple(
            Call(call.name, call.query, tuple(map(_stem, call.contexts))) for call in record.calls
        ),
    )


def _stem(context: _Context) -> str:
    return context.id or text_id(context.text)


def _passages(contexts: Sequence[_Context]) -> list[Passage]:
    """Give each context an id that no other of this answer has: "[3]" in a text means the third,
    twice there or not.
    """
    passages: dict[str, Passage] = {}
    numbers: dict[str, int] = {}
    for context in contexts:
        stem = _stem(context)
        # two excerpts of one document under the document's id, or one twice
        number = numbers.get(stem, 0) + 1
        while (passage_id := stem if number == 1 else f"{stem}~{number}") in passages:
            number += 1
        numbers[stem] = number
        doc_id = context.doc_id or (stem if number > 1 else "")
        passages[passage_id] = Passage(passage_id, context.text, doc_id, context.score)
    return list(passages.values())


def text_id(text: str) -> str:
    """Return the id of a passage that came without one: it depends on its text alone.

    >>> text_id("It opened in 1881.")
    'text-9eb86fd78f1c'
    """
    return f"text-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _first_of(contexts: Sequence[str], passages: Sequence[Passage]) -> dict[str, str]:
    """Map each context to the first that is the same: the id that the system gave, and the text."""
    text_of = {passage.passage_id: passage.text for passage in passages}
    plain = {context: _RENAMED.sub("", context) for context in contexts}
    stems, firsts = set(plain.values()), dict[tuple[str, str], str]()
    first_of = {}
    for context, name in plain.items():
        stem = _NUMBERED.sub("", name)
        key = stem if stem in stems else name, text_of.get(context, "")
        first_of[context] = firsts.setdefault(key, context)
    return first_of


def distinct_contexts(answer: Answer) -> tuple[str, ...]:
    """Return an answer's contexts for a ranking, where one that the system gave twice counts once.

    >>> distinct_contexts(read_answer("q", {"contexts": [{"id": "a", "text": "x"}, {"id": "a", "text": "x"}]}))
    ('a',)
    """
    return tuple(dict.fromkeys(_first_of(answer.contexts, answer.passages).values()))


def _cited(citation: str | int, ids: Sequence[str]) -> str:
    """Return the id of a context, or its number from 1; a number that no context has is kept as
    "invalid:7".
    """
    text = str(citation)
    if text in ids or not (isinstance(citation, int) or text.isdecimal()):
        return text
    number = int(text)
    return ids[number - 1] if 1 <= number <= len(ids) else f"invalid:{number}"
