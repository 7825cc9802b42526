"""From what a system returns or has written (a text, a table, an object, a line of a log) to an
Answer.

No framework is imported: the documents, messages and graph states of LangChain, the responses and
nodes of LlamaIndex, the documents and pipeline results of Haystack and the hits of vector stores
are recognised by the names of their fields, whether these are keys or attributes. Tables (pandas,
Arrow, polars), queries of LanceDB and streams are read to their end.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from ragbench.testsets.fields import (
    ANSWERS,
    CONTEXTS,
    REPLIES,
    RETRIEVED,
    first,
    is_empty,
    is_missing,
    read_cell,
    read_list,
    without_none,
)
from ragbench.text import without_surrogates
from ragbench.types import (
    GUARDRAIL_BLOCKED,
    RETRIEVAL_ONLY,
    Answer,
    Call,
    Completion,
    Passage,
)

EMPTY_CONTEXT = "an empty context is left out"
BAD_SCORE = "a score that is not a finite number is left out"
"""Notes on what a system gave and cannot be used, one for each."""

ANSWER_FIELDS = (*REPLIES, "answer", "text", "completion", "output_text", "result")
_LISTED = (*RETRIEVED, *CONTEXTS)  # which may be a list that a table holds as a text
CONTEXT_FIELDS = (
    *_LISTED,
    *"source_nodes sources results source_documents documents hits points chunks".split(),
    "retriever_resources",
)
"""Where an answer and its contexts are read from, the first that is there."""

_INNER_CONTEXTS = (
    ("metadata", "retriever_resources"),  # Dify
    ("context", "citations"),  # Azure OpenAI on your data
    ("reference", "chunks"),  # RAGFlow
)
"""Where services put contexts next to an answer, field inside field."""

# such as a number of hits, unless it is a list
_MAY_BE_OTHER = "context documents hits points chunks".split()
_CONTEXT = {
    "id": "id _id chunk_id passage_id id_ node_id segment_id docno".split(),
    "doc_id": "doc_id document_id ref_doc_id".split(),
    "text": "text content page_content excerpt snippet body".split(),
    "score": "score _score relevance_score _relevance_score similarity".split(),
}
_ABOUT = ("_source", "payload", "metadata", "meta")  # tables with more fields of a context
_SOURCES = (
    *_CONTEXT["doc_id"],
    *"source file_path file_name filepath filename file path url".split(),
    *"document_name document_keyword docnm_kwd".split(),
)
"""Where a context names its document, by id, path, address or file name."""

_MAX_DEPTH = 6
_MIN_TEXT = 20  # characters of a passage
_NOT_CONTEXTS = {"messages", "history", "chat_history", "calls", "passages", "usage"}
_WRAPPERS = (*ANSWER_FIELDS, "output", "data", "message", "response_gen")
_STATUS = ("data", "message")  # which are texts about the request, where contexts are next to them
_ERRORS = ("error", "errors", "exception", "fault")
_REASONS = ("message", "msg", "detail", "details", "reason", "faultstring", "description", "title")
_FAILED = ("error", "failed", "failure")
_CODES = ("status", "status_code", "statuscode", "code")
"""Where a reply of status 200 states that there is no answer, why, and by which words or codes."""

_QUESTIONERS = ("human", "user", "system", "developer")
_RECORD = tuple("citations flags outcome confidence usage latency_ms error".split())
_ATTRIBUTES = (
    *(name for names in _CONTEXT.values() for name in names),
    *(*_ABOUT, *_WRAPPERS, *CONTEXT_FIELDS, *_RECORD, *_SOURCES),
    *"node choices delta messages usage_metadata type role artifact".split(),
    *(f"{kind}_tokens" for kind in ("input", "output", "prompt", "completion")),
)
_AS_ROWS = {"to_pylist": (), "to_dicts": (), "to_list": (), "to_dict": ("records",), "tolist": ()}
"""The methods by which Arrow, polars, LanceDB, pandas and numpy give the rows of a table, a query or
an array."""

_NUMBERED = re.compile(r"~\d+\Z")
_RENAMED = re.compile(r"~~\d+\Z")  # what `match_passages` adds where one id has several texts

_Text = Annotated[str, AfterValidator(without_surrogates)]
_NumbersAsText = ConfigDict(coerce_numbers_to_str=True)


class _Context(BaseModel):
    model_config = _NumbersAsText
    id: _Text = ""
    doc_id: _Text = ""
    text: _Text = ""
    score: Annotated[float | None, BeforeValidator(lambda value: _number(value))] = None
    sources: tuple[_Text, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.id and not self.text:
            raise ValueError("expected an id or a text")
        return self


_Contexts = list[Annotated[_Context | None, BeforeValidator(lambda value: _context(value))]]
"""Contexts; None where the system gave an empty one."""


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

    An empty context ("", null, NaN) is left out, as is a score that is not finite; both are counted
    in `notes`. A field for the answer that is empty or null is an empty answer. A list or a table
    may be a text, as it comes out of a CSV file. Texts that no known field holds are named in
    `notes`, too.

    A context without an id gets one made from its text; one whose id another has gets a number
    ("7~2"), also where it is the same once more, so that numbers in the text mean what the system
    meant. A citation is the id of a context, or its number from 1; without `citations`, or where
    they are tables, they are read from the text ("[1]"). Without `outcome` it is inferred from the
    wording. Contexts without an answer carry the flag "retrieval_only"; an empty answer is one.

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
    fields = _filled(record)
    if fields.keys().isdisjoint(("answer", "contexts", "error", "flags", "outcome")):
        names = ", ".join(map(str, fields)) or "none"
        raise DataError(f"neither an answer nor contexts; expected a field 'answer', found {names}")
    try:
        parsed = _Record.model_validate(fields)
    except ValidationError as exc:  # pydantic's own text repeats the whole input
        raise DataError(one_line(problems_of(exc))) from None
    answer = _answer(query_id, parsed, model)
    if not answer.contexts and not answer.passages and (note := _unread(value)):
        return replace(answer, notes=(*answer.notes, note))
    return answer


def _filled(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that hold something, with lists and tables in place of their texts."""
    fields = {}
    for name, value in record.items():
        if is_missing(value) or (is_empty(value) and name not in ("answer", "text")):
            continue
        if name in ("contexts", "citations", "flags"):
            value = read_list(value)
            is_list = isinstance(value, list)
            if name == "citations" and is_list and any(isinstance(each, Mapping) for each in value):
                continue  # passages and not their ids
        elif name in ("usage", "latency_ms", "calls") and isinstance(value, str):
            value = read_cell(value)
        fields[name] = value
    return fields


def _answer_of(table: Mapping[str, Any]) -> Any:
    """Return the answer among the fields, if any; a table is not one; a list is, to be refused."""
    for name in ANSWER_FIELDS:
        value = table.get(name)
        if is_empty(value):
            continue
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, str | Real) or (isinstance(value, list) and name != "result"):
            return value
    return None


def _stated_failure(table: Mapping[str, Any], *, has_answer: bool) -> str:
    """Return the reason why a reply states that it failed; "" where it states no failure.

    Errors and a status in words count next to an answer, too; a code of HTTP or "success" being
    false count where there is no answer.

    >>> _stated_failure({"error": {"message": "out of memory", "code": 7}}, has_answer=False)
    'out of memory'
    >>> _stated_failure({"success": False, "message": "busy"}, has_answer=False)
    'busy'
    >>> _stated_failure({"error": {}, "errors": [], "status": "ok"}, has_answer=False)
    ''
    """
    reason = first(table, _REASONS)
    stated = ""
    for name in _ERRORS:
        value = table.get(name)
        if words := _reason_of(value):
            return words
        if isinstance(value, Real) and not is_missing(value) and value:
            stated = stated or f"{name} is {value!r}"
    status = table.get("status")
    if isinstance(status, str) and status.strip().casefold() in _FAILED:
        stated = stated or f"status is {status!r}"
    if not has_answer:
        for name in ("success", "ok"):
            if table.get(name) is False:
                stated = stated or f"{name} is False"
        for name in _CODES:
            code = table.get(name)
            if isinstance(code, int) and 400 <= code < 600:
                stated = stated or f"{name} is {code}"
    return reason if stated and isinstance(reason, str) and reason.strip() else stated


def _reason_of(error: Any) -> str:
    """Return the words of an error: a text, a table with a message, or the first of several."""
    if is_empty(error):
        return ""
    if isinstance(error, str):
        return error
    if isinstance(error, list | tuple):
        return next(filter(None, map(_reason_of, error)), "")
    if isinstance(error, Mapping) and any(error.values()):
        words = first(error, _REASONS)
        return words if isinstance(words, str) and words.strip() else shown(dict(error), 200)
    return ""


def _unread(value: Any) -> str:
    """Return the note on the longest list of texts inside a reply without contexts; "" for none."""
    lists = [*_lists_of_texts(_table(value), ())]
    if not lists:
        return ""
    count, path = max(lists)
    return f"a list of {count} texts at {'.'.join(path)} is not read"


def _lists_of_texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for name, entry in value.items():
            if name not in _NOT_CONTEXTS:
                yield from _lists_of_texts(entry, (*path, str(name)))
    elif isinstance(value, list | tuple) and value and path:
        if path[-1] != "choices" and all(map(_is_passage, value)):
            yield len(value), path
        else:
            for number, entry in enumerate(value[:3]):
                yield from _lists_of_texts(entry, (*path, str(number)))


def _is_passage(value: Any) -> bool:
    """Return True for what may be a context: a text of some length, or a table with one."""
    if isinstance(value, Mapping):
        return any(isinstance(entry, str) and _is_passage(entry) for entry in value.values())
    return isinstance(value, str) and len(value) >= _MIN_TEXT and " " in value.strip()


def _contexts_of(table: Mapping[str, Any]) -> Any:
    """Return the contexts among the fields, if any."""
    for name in CONTEXT_FIELDS:
        value = _rows(table.get(name))
        if isinstance(value, Mapping) and _is_parallel(value):
            return _parallel(value)
        if isinstance(value, Mapping):
            value = value.get("hits")  # as Elasticsearch replies
        if is_empty(value):
            continue
        if isinstance(value, str) and name in _LISTED:
            return read_list(value)
        if isinstance(value, list | tuple) or name not in _MAY_BE_OTHER:
            return value
    for outer, inner in _INNER_CONTEXTS:
        part = _table(table.get(outer))
        value = part.get(inner) if isinstance(part, Mapping) else None
        if isinstance(value, list):
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
        parts = [*value]
        if _are_contexts(parts):
            return {"contexts": parts, "flags": [RETRIEVAL_ONLY]}
        pieces = [*map(_as_record, parts)]
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
    names = {name: str(name).strip().casefold().replace(" ", "_") for name in table}
    table = {**{names[name]: entry for name, entry in table.items()}, **table}
    if _is_parallel(table):
        return {"contexts": _parallel(table), "flags": [RETRIEVAL_ONLY]}
    if {"page_content", "node"} & table.keys() or {"content", "score"} <= table.keys():
        return {"contexts": [table], "flags": [RETRIEVAL_ONLY]}
    fields = {"answer": _answer_of(table), "contexts": _contexts_of(table)}
    failure = _stated_failure(table, has_answer=not is_empty(fields["answer"]))
    table["error"] = failure or None
    is_stored = "answer" not in table and isinstance(table.get("text"), str)
    if is_stored and fields["contexts"]:  # as ragbench stores it
        stored = {str(passage.get("passage_id")): passage for passage in table.get("passages", ())}
        for part in (fields, *(calls := [dict(call) for call in table.get("calls", ())])):
            part["contexts"] = [
                stored.get(entry, {"id": entry}) if isinstance(entry, str) else entry
                for entry in part["contexts"]
            ]
        fields["calls"] = calls
    elif fields["answer"] is None:
        is_status = fields["contexts"] is not None or bool(failure)
        status = {name for name in _STATUS if is_status and isinstance(table.get(name), str)}
        others = {name: entry for name, entry in table.items() if name not in status}
        table = {**table, **_inside(others)}
    record = {**table, **without_none(fields)}
    if is_missing(record.get("answer")) and any(
        name in table and is_empty(table[name]) for name in (*ANSWER_FIELDS, *ANSWERS)
    ):
        record["answer"] = ""
    if is_missing(record.get("contexts")) and not table.keys().isdisjoint(_LISTED):
        record["contexts"] = []
    return record


def _are_contexts(parts: Sequence[Any]) -> bool:
    """Return True if what a generator yields is contexts and not pieces of an answer: documents,
    hits, pairs with a score, tables of a text with its id, score or source.
    """
    ids: list[Any] = []
    for part in parts:
        if isinstance(part, tuple) and len(part) >= 2 and isinstance(part[-1], Real):
            ids.append(None)
            continue
        table = _table(part)
        if not isinstance(table, Mapping):
            return False
        about = {*_CONTEXT["id"], *_CONTEXT["score"], *_SOURCES, *_ABOUT} & table.keys()
        has_text = not {*_CONTEXT["text"]}.isdisjoint(table)
        if "node" not in table and "page_content" not in table and not (has_text and about):
            return False
        if {"type", "role", "usage_metadata", "delta", "choices"} & table.keys():  # of a message
            return False
        ids.append(first(table, _CONTEXT["id"]))
    is_one_message = len(parts) > 1 and ids[0] is not None and len({*map(str, ids)}) == 1
    return bool(parts) and not is_one_message


def _is_parallel(table: Mapping[str, Any]) -> bool:
    """Return True for a whole reply of Chroma."""
    has_lists = not {"documents", "distances", "metadatas"}.isdisjoint(table)
    return isinstance(table.get("ids"), list) and has_lists


def _parallel(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the contexts that Chroma gives as lists in parallel, one of each for each query.

    >>> _parallel({"ids": [["a", "b"]], "documents": [["It opened.", None]], "metadatas": None})
    [{'id': 'a', 'text': 'It opened.'}, {'id': 'b'}]
    """
    columns = {"id": "ids", "text": "documents", "metadata": "metadatas"}
    lists = {}
    for part, name in columns.items():
        values = table.get(name)
        if isinstance(values, list) and values and isinstance(values[0], list):
            values = values[0]
        if isinstance(values, list):
            lists[part] = values
    rows = zip(*lists.values(), strict=False)
    return [without_none(dict(zip(lists, row, strict=True))) for row in rows]


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
    tables = [value]
    for name in _ABOUT:
        if isinstance(inner := value.get(name), Mapping):
            tables.append(inner)
            tables += [inner[each] for each in _ABOUT if isinstance(inner.get(each), Mapping)]
    fields: dict[str, Any] = {part: first(value, names) for part, names in _CONTEXT.items()}
    for part in ("doc_id", "text"):
        if fields[part] is None:
            fields[part] = next(
                (entry for each in tables if (entry := first(each, _CONTEXT[part])) is not None),
                None,
            )
    sources = [
        str(each[name])
        for name in _SOURCES
        for each in tables
        if isinstance(each.get(name), str | int) and each[name] != ""
    ]
    if is_empty(fields["doc_id"]) and sources:
        fields["doc_id"] = sources[0]
    if is_empty(fields["id"]):
        fields["id"] = fields["doc_id"]
    others = [source for source in dict.fromkeys(sources) if source != str(fields["doc_id"])]
    if others:
        fields["sources"] = tuple(others)
    return {
        part: str(entry) if part in ("id", "doc_id") else entry
        for part, entry in fields.items()
        if (part == "score" and entry is not None) or not is_missing(entry)
    }


def _context(value: Any) -> Any:
    """Return one context as `read_context` does; None for an empty one."""
    if is_empty(value) or (isinstance(value, Mapping) and not value):
        return None
    table = read_context(value)
    if not isinstance(table, Mapping) or not is_empty(table.get("id")):
        return table
    if is_empty(table.get("text")) and (not isinstance(value, Mapping) or _is_hole(value)):
        return None
    return table


def _is_hole(value: Mapping[str, Any]) -> bool:
    """Return True for a table with a field for a text or an id, which holds nothing."""
    names = (*_CONTEXT["text"], *_CONTEXT["id"], *_ABOUT)
    return any(name in value for name in names)


def _number(value: Any) -> Any:
    """Return a score of any numeric type as a float, NaN for a missing value; None for none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if is_missing(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return value  # pydantic's error names it


def _answer(query_id: str, record: _Record, model: str) -> Answer:
    contexts = [context for context in record.contexts if context is not None]
    passages = _passages(contexts)
    ids = tuple(passage.passage_id for passage in passages)
    found = iter(ids)
    # a number in the text means what the system meant: empty contexts keep theirs
    numbered = [next(found) if context is not None else "" for context in record.contexts]
    text, flags = without_thoughts(record.answer), dict.fromkeys(record.flags)
    outcome: str | None = "failed" if record.error is not None else record.outcome
    error, used = record.error, record.usage
    has_answer = "answer" in record.model_fields_set  # be it an empty one
    if outcome is None and GUARDRAIL_BLOCKED in flags:
        outcome = "blocked"
    elif not text and outcome is None and (RETRIEVAL_ONLY in flags or not has_answer):
        flags[RETRIEVAL_ONLY] = None
    elif outcome is None:
        outcome = read_outcome(text)
    elif outcome == "failed":
        error = error or "the system reports a failure without a reason"
    citations: Iterable[str] = ()
    if record.citations is not None:
        citations = (_cited(citation, numbered) for citation in record.citations)
    elif outcome == "success":
        citations = parse_citations(text, numbered)
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
            if passage.text or passage.doc_id or passage.sources or passage.score is not None
        ),
        calls=tuple(
            Call(call.name, call.query, tuple(_stem(each) for each in call.contexts if each))
            for call in record.calls
        ),
        notes=_notes(record.contexts),
    )


def _notes(contexts: Sequence[_Context | None]) -> tuple[str, ...]:
    """Return a note for each context that is empty and each score that is not finite."""
    notes = []
    for context in contexts:
        if context is None:
            notes.append(EMPTY_CONTEXT)
        elif context.score is not None and not math.isfinite(context.score):
            notes.append(BAD_SCORE)
    return tuple(notes)


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
        score = context.score
        if score is not None and not math.isfinite(score):
            score = None
        passages[passage_id] = Passage(passage_id, context.text, doc_id, score, context.sources)
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
    if (text and text in ids) or not (isinstance(citation, int) or text.isdecimal()):
        return text
    number = int(text)
    cited = ids[number - 1] if 1 <= number <= len(ids) else ""
    return cited or f"invalid:{number}"
