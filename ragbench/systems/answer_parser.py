"""Converts a system's output (a dict, a line of a log, a reply) to an Answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic import FiniteFloat as Finite

from ragbench.errors import DataError
from ragbench.generation.citations import parse_citations
from ragbench.llms.reply_text import read_outcome, without_thoughts
from ragbench.systems.credentials import one_line, problems_of
from ragbench.systems.shapes import (
    ANSWER_FIELDS,
    CONTEXT_FIELDS,
    TEXT_FIELDS,
    as_context,
    as_record,
)
from ragbench.testsets.fields import IDS, QUESTIONS
from ragbench.text import without_surrogates
from ragbench.types import Answer, Completion, Passage

RETRIEVAL_ONLY = "retrieval_only"
"""The flag of an answer without a text on purpose: the system finds passages and writes nothing."""

_RENAMED = re.compile(r"~~\d+\Z")  # what `match_passages` adds where one id has several texts


def _known(value: Any) -> Any:
    """Drop JSON's nulls: such a field is not there."""
    return (
        {key: entry for key, entry in value.items() if entry is not None}
        if isinstance(value, Mapping)
        else value
    )


class _Context(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    id: str = Field(
        "",
        validation_alias=AliasChoices(
            "id",
            "_id",
            "chunk_id",
            "passage_id",
            "id_",
            "node_id",
            "docno",
            "doc_id",
            "document_id",
        ),
    )
    doc_id: str = Field("", validation_alias=AliasChoices("doc_id", "document_id"))
    text: str = Field("", validation_alias=AliasChoices(*TEXT_FIELDS))
    score: Finite | None = Field(
        None, validation_alias=AliasChoices("score", "_score", "relevance_score", "similarity")
    )

    @model_validator(mode="after")
    def _something(self) -> _Context:
        if not self.id and not self.text:
            raise ValueError("expected an id or a text")
        return self


class _Usage(BaseModel):
    model: str = ""
    input_tokens: int = Field(
        0, ge=0, validation_alias=AliasChoices("input_tokens", "prompt_tokens")
    )
    output_tokens: int = Field(
        0, ge=0, validation_alias=AliasChoices("output_tokens", "completion_tokens")
    )


class _Record(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    answer: str = Field("", validation_alias=AliasChoices(*ANSWER_FIELDS))
    contexts: list[Annotated[_Context, BeforeValidator(as_context)]] = Field(
        [], validation_alias=AliasChoices(*CONTEXT_FIELDS)
    )
    citations: list[str | int] | None = None
    flags: list[str] = []
    outcome: Literal["success", "no_results", "uncertain", "blocked", "failed"] | None = None
    confidence: Finite | None = None
    usage: Annotated[_Usage, BeforeValidator(_known)] | None = None
    latency_ms: dict[str, Finite] = {}
    error: str | None = None


def read_answer(query_id: str, record: Mapping[str, Any], *, model: str = "") -> Answer:
    """Return the answer that a record holds; `model` names who used the tokens where the record
    does not.

    Read are `answer` (or `text`, `response`, `generated_answer`, `predicted_answer`, `generation`,
    `result`), `contexts` (or `context`, `retrieved_contexts`, `sources`, `results`,
    `source_documents`, `source_nodes`, `documents`, `hits`; in rank order, each a text, a table
    with `id`, `text`, `score`, `doc_id`, or a document as LangChain, LlamaIndex and search engines
    give them), `citations`, `flags`, `outcome`, `confidence`, `usage` (`model`, `input_tokens`,
    `output_tokens`), `latency_ms` (stage -> ms) and `error`; other fields are ignored. A record
    with none of these is read by its shape: a chat's reply, a graph's state, the results of a
    pipeline's components (`ragbench.systems.shapes`). In a record with `text`, which is how
    ragbench itself stores answers, contexts that are strings are ids.

    A context without an id gets one made from its text; one whose id another has gets a number
    ("7~2"), also where it is the same once more, so that numbers in the text mean what the system
    meant. A citation is the id of a context, or its number from 1; without `citations` they are
    read from the text ("[1]"). Without `outcome` it is inferred from the wording. An answer without
    a text that has contexts carries the flag "retrieval_only".

    >>> read_answer("q1", {"answer": ["In 1881."]})
    Traceback (most recent call last):
    ragbench.errors.DataError: answer is ['In 1881.']: input should be a valid string

    Raises:
        DataError: naming every field that is not what it should be.
    """
    record = as_record(record) or record
    fields = {
        key: well_formed(value)
        for key, value in record.items()
        if value is not None and not _unrelated(key, value)
    }
    for key in ("context", "hits"):
        if isinstance(fields.get(key), str):
            fields[key] = [fields[key]]
        elif isinstance(fields.get(key), Mapping):
            fields[key] = fields[key]["hits"]
    if not any(key in fields for key in (*ANSWER_FIELDS, *CONTEXT_FIELDS, "error")):
        raise DataError(
            f"neither an answer nor contexts; expected a field 'answer', "
            f"found {', '.join(record) or 'none'}"
        )
    strings_are = "text"
    if "passages" in fields or (
        "answer" not in fields and "text" in fields
    ):  # as ragbench itself stores answers
        strings_are = "id"
        _put_passages_into_contexts(fields)
    for key in CONTEXT_FIELDS:
        if isinstance(fields.get(key), Sequence) and not isinstance(fields[key], str):
            fields[key] = [_as_table(entry, strings_are) for entry in fields[key]]
    try:
        answer = _answer(query_id, _Record.model_validate(fields), model)
    except ValidationError as exc:
        raise DataError(
            one_line(problems_of(exc))
        ) from None  # pydantic's own text repeats the whole input
    if any(fields.get(key) is not None for key in (*ANSWER_FIELDS, "error", "flags", "outcome")):
        return answer
    return replace(
        answer, unread=tuple(str(key) for key, value in fields.items() if _may_answer(key, value))
    )


def _may_answer(key: str, value: Any) -> bool:
    """Return True if the answer of a system may be in a field that is not known: it holds a text,
    or an object.
    """
    if key in (*_Record.model_fields, *CONTEXT_FIELDS, *QUESTIONS, *IDS):
        return False
    if isinstance(value, Mapping | list | tuple):
        parts = value.values() if isinstance(value, Mapping) else value
        return any(_may_answer("", part) for part in parts)
    return bool(value) and not isinstance(value, Real | bytes)


def _as_table(entry: Any, strings_are: str) -> Any:
    if isinstance(entry, int) and not isinstance(entry, bool):
        return {"id": entry}
    return {strings_are: entry} if isinstance(entry, str) else entry


def _put_passages_into_contexts(fields: dict[str, Any]) -> None:
    passages = {}
    for passage in fields.pop("passages", ()):
        if isinstance(passage, Mapping):
            known = {key: value for key, value in passage.items() if key != "doc_id" or value}
            passages[str(passage.get("passage_id", ""))] = {
                **known,
                "id": passage.get("passage_id", ""),
            }
    ids = fields.get("contexts", [])
    if isinstance(ids, Sequence) and not isinstance(ids, str):
        fields["contexts"] = [
            passages.get(entry, entry) if isinstance(entry, str) else entry for entry in ids
        ]


def _unrelated(key: str, value: Any) -> bool:
    """Return True if a field has the name of an answer or of contexts, and is something else: a
    number of hits, a session."""
    if key == "result":
        return not isinstance(value, str)
    if key == "hits" and isinstance(value, Mapping):  # as Elasticsearch replies
        return not isinstance(value.get("hits"), list)
    return key in ("context", "documents", "hits") and not isinstance(
        value, list | tuple if key != "context" else list | tuple | str
    )


def well_formed(value: Any) -> Any:
    """Replace half a surrogate pair, from a broken JSON escape, which cannot be in a file, by
    U+FFFD.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {well_formed(key): well_formed(entry) for key, entry in value.items()}
    return [well_formed(entry) for entry in value] if isinstance(value, list | tuple) else value


def _answer(query_id: str, record: _Record, model: str) -> Answer:
    passages = _passages(record.contexts)
    ids = tuple(passage.passage_id for passage in passages)
    text = without_thoughts(record.answer)
    outcome: str | None = "failed" if record.error is not None else record.outcome
    flags = tuple(dict.fromkeys(record.flags))
    if not text and outcome is None and (ids or RETRIEVAL_ONLY in flags):
        flags = tuple(dict.fromkeys((*flags, RETRIEVAL_ONLY)))
    elif outcome is None:
        outcome = read_outcome(text)
    if record.citations is not None:
        citations = tuple(dict.fromkeys(_cited(citation, ids) for citation in record.citations))
    else:
        citations = parse_citations(text, ids) if outcome == "success" else ()
    first_of = _first_of(ids, passages)
    citations = tuple(dict.fromkeys(first_of.get(citation, citation) for citation in citations))
    used, error = record.usage, record.error
    if outcome == "failed":
        error = error or "the system reports a failure without a reason"
    usage = None
    if used is not None:
        usage = Completion(
            record.answer, used.model or model, used.input_tokens, used.output_tokens
        )
    known = tuple(one for one in passages if one.text or one.doc_id or one.score is not None)
    return Answer(
        query_id,
        text,
        ids,
        citations,
        flags,
        outcome,
        record.confidence,
        usage,
        dict(record.latency_ms),
        error,
        passages=known,
    )


def _passages(contexts: Sequence[_Context]) -> list[Passage]:
    """Give each context an id that no other of this answer has: "[3]" in a text means the third,
    twice there or not.
    """
    found: dict[str, Passage] = {}
    numbers: dict[str, int] = {}
    for context in contexts:
        own = context.id or text_id(context.text)
        number = (
            numbers.get(own, 0) + 1
        )  # two excerpts of one document under the document's id, or one twice
        while (passage_id := own if number == 1 else f"{own}~{number}") in found:
            number += 1
        numbers[own] = number
        doc_id = context.doc_id or (own if number > 1 else "")
        found[passage_id] = Passage(passage_id, context.text, doc_id, context.score)
    return list(found.values())


def text_id(text: str) -> str:
    """Return the id of a passage that came without one: it depends on its text alone.

    >>> text_id("It opened in 1881.")
    'text-9eb86fd78f1c'
    """
    return f"text-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _first_of(contexts: Sequence[str], passages: Sequence[Passage]) -> dict[str, str]:
    """Map each context to the first that is the same: the id that the system gave, and the text."""
    text_of = {passage.passage_id: passage.text for passage in passages}
    before = {context: _RENAMED.sub("", context) for context in contexts}
    given, firsts = set(before.values()), dict[tuple[str, str], str]()
    found = {}
    for context in contexts:
        head, _, number = before[context].rpartition("~")
        own = head if head in given and number.isdecimal() else before[context]
        found[context] = firsts.setdefault((own, text_of.get(context, "")), context)
    return found


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
