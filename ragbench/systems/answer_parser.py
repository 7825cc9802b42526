"""The answer in the output of a system (a text, a table, an object, a line of a log): its text,
outcome, citations, tokens, and notes on unusable parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    ValidationError,
)
from pydantic import FiniteFloat as Finite

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError
from ragbench.generation.citations import parse_citations
from ragbench.llms.reply_text import read_outcome, without_thoughts
from ragbench.systems.context_parser import ParsedContext, ParsedContexts, ValidText
from ragbench.systems.credentials import one_line, problems_of
from ragbench.systems.passage_ids import cited_id, first_equal_ids, own_id_of, passages_of
from ragbench.systems.reply_records import as_record, unread_texts
from ragbench.systems.reply_tables import as_table
from ragbench.testsets.fields import is_empty, is_missing, read_cell, read_list
from ragbench.types import GUARDRAIL_BLOCKED, RETRIEVAL_ONLY, Answer, Call, Completion, Passage

EMPTY_CONTEXT = "an empty context is left out"
BAD_SCORE = "a score that is not a finite number is left out"
"""Notes on parts of a reply that cannot be used, one for each."""


class _Call(BaseModel):
    name: ValidText = ""
    query: ValidText = ""
    contexts: ParsedContexts = []


class _Usage(BaseModel):
    model: str | None = None
    input_tokens: NonNegativeInt | None = Field(
        None, validation_alias=AliasChoices("input_tokens", "prompt_tokens")
    )
    output_tokens: NonNegativeInt | None = Field(
        None, validation_alias=AliasChoices("output_tokens", "completion_tokens")
    )


class _Record(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    answer: ValidText = ""
    contexts: ParsedContexts = []
    calls: list[_Call] = []
    citations: list[ValidText | int] | None = None
    flags: list[ValidText] = []
    outcome: Literal["success", "no_results", "uncertain", "blocked", "failed"] | None = None
    confidence: Finite | None = None
    usage: Annotated[_Usage | None, BeforeValidator(as_table)] = None
    latency_ms: dict[str, Finite] = {}
    error: ValidText | None = None


def read_answer(query_id: str, value: object, *, model: str = "") -> Answer:
    """Return the answer that the output of a system holds; `model` names the model that used the
    tokens, if the output does not.

    A text is the answer. A list, a data frame or one document is contexts. A pair of a text and a
    list is both. A stream is read to its end: texts, messages and answers in pieces are joined. Of
    a table or an object these fields are read; their names may have any spelling:

    - `answer` (or `text`, `response`, `generated_answer`, `predicted_answer`, `generation`, `result`);
    - `contexts` (or `context`, `retrieved_contexts`, `sources`, `results`, `source_documents`,
      `source_nodes`, `documents`, `hits`, `points`, `matches`, `objects`), best first. Each is a text, a
      table with `id`, `text`, `score`, `doc_id`, a row `(id, text, score)`, or a document of LangChain,
      LlamaIndex or a search engine;
    - `calls` of tools and searches: `name`, `query`, `contexts`;
    - `usage`: `model`, `input_tokens`, `output_tokens`;
    - `latency_ms`: stage -> ms;
    - `citations`, `flags`, `outcome`, `confidence`, `error`.

    Without an answer there, one is looked for in a chat's reply (`content`, `choices`), a graph's state
    (`messages`) and the results of Haystack's components. ragbench itself stores an answer as `text`,
    and the ids of its contexts in `contexts`: they are read as ids if `text` is there and `answer` is not.

    An empty context ("", null, NaN) is left out, as is a score that is not finite; both are counted
    in `notes`. A field for the answer that is empty or null is an empty answer. A list or a table
    may be a text, as it comes out of a CSV file. Texts that no known field holds are named in
    `notes`, too.

    A context without an id gets an id that is made from its text. A context with the id of an earlier
    one gets a number after it ("7~2"), even if the two are the same, so that numbers in the text keep
    the meaning that they have for the system. A citation is the id of a context, or its number from
    1; without `citations`, or if they are tables, citations are read from the text ("[1]"). Without
    `outcome` it is inferred from the wording. Contexts without an answer carry the flag "retrieval_only"; an
    empty answer counts as an answer.

    >>> read_answer("q1", ("In 1881 [2].", ["It was planned.", {"id": "a", "text": "It opened."}])).citations
    ('a',)
    >>> read_answer("q1", {"llm": {"replies": ["In 1881."]}, "retriever": {"documents": ["It opened."]}}).text
    'In 1881.'
    >>> read_answer("q1", {"answer": ["In 1881."]})
    Traceback (most recent call last):
    ragbench.errors.DataError: answer is ['In 1881.']: input should be a valid string

    Raises:
        DataError: naming every invalid field.
    """
    record = as_record(value)
    if record is None:
        raise DataError(
            f"{shown(value, 60)} ({type(value).__name__}); expected a text, a dict "
            'with "answer" and "contexts", or an Answer'
        )
    fields = _filled(record)
    if fields.keys().isdisjoint(("answer", "contexts", "error", "flags", "outcome")):
        table = as_table(value)
        names = ", ".join(map(str, table if isinstance(table, Mapping) else fields)) or "none"
        note = unread_texts(value)
        unread = f"; {note}" if note else ""
        raise DataError(
            f"neither an answer nor contexts; expected a field 'answer', found {names}{unread}"
        )
    try:
        parsed = _Record.model_validate(fields)
    except ValidationError as exc:  # pydantic's own text repeats the whole input
        raise DataError(one_line(problems_of(exc))) from None
    answer = _answer(query_id, parsed, model)
    if answer.contexts or answer.passages:
        return answer
    note = unread_texts(value)
    return replace(answer, notes=(*answer.notes, note)) if note else answer


def _filled(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record without the empty ones; an empty answer is kept, as it is an answer.

    A list or a table that is written out as a text, as in a cell of a CSV file, is read.
    """
    fields = {}
    for name, value in record.items():
        is_answer = name in ("answer", "text")
        if is_missing(value):  # None and NaN, but not ""
            continue
        if is_empty(value) and not is_answer:  # "" and white space, too
            continue
        if name in ("contexts", "citations", "flags"):
            value = read_list(value)  # "['a', 'b']" -> ["a", "b"]; a plain text "a" -> ["a"]
        if name in ("usage", "latency_ms", "calls") and isinstance(value, str):
            value = read_cell(value)  # '{"total": 3}' -> {"total": 3}; a plain text stays a text
        if name == "citations" and _has_tables(value):
            continue  # the tables are passages; citations are read from the text
        fields[name] = value
    return fields


def _has_tables(citations: Any) -> bool:
    if not isinstance(citations, list):
        return False
    return any(isinstance(citation, Mapping) for citation in citations)


def _answer(query_id: str, record: _Record, model: str) -> Answer:
    """Return the answer in a checked record. `model` is for a usage that does not name its model."""
    passages = passages_of([context for context in record.contexts if context is not None])
    text = without_thoughts(record.answer)
    flags = list(dict.fromkeys(record.flags))
    outcome = _outcome(record, text)
    if outcome is None and RETRIEVAL_ONLY not in flags:
        flags.append(RETRIEVAL_ONLY)
    error = record.error
    if outcome == "failed":
        error = error or "the system reports a failure without a reason"
    return Answer(
        query_id,
        text,
        contexts=tuple(passage.passage_id for passage in passages),
        citations=_citations(record, passages, text, outcome),
        flags=tuple(flags),
        outcome=outcome,
        confidence=record.confidence,
        usage=_completion(record, model),
        latency_ms=record.latency_ms,
        error=error,
        passages=tuple(passage for passage in passages if _says_more_than_id(passage)),
        calls=_calls(record),
        notes=_notes(record.contexts),
    )


def _outcome(record: _Record, text: str) -> str | None:
    """Return the outcome of a record: the first of these that applies.

    "failed" if it has an error; the outcome that the system reports; "blocked" if a guardrail flagged it;
    None for contexts without an answer; else the outcome that the wording of the answer `text` shows.
    """
    if record.error is not None:
        return "failed"
    if record.outcome is not None:
        return record.outcome
    if GUARDRAIL_BLOCKED in record.flags:
        return "blocked"
    has_answer_field = "answer" in record.model_fields_set  # even an empty one
    is_retrieval_only = RETRIEVAL_ONLY in record.flags or not has_answer_field
    if is_retrieval_only and not text:
        return None
    return read_outcome(text)


def _citations(
    record: _Record, passages: Sequence[Passage], text: str, outcome: str | None
) -> tuple[str, ...]:
    """Return the ids of the cited contexts, each once. They are in the field "citations"; without this
    field, the marks such as "[1]" in the text of a successful answer are read.

    A citation of an empty context, or of a number that no context has, is kept as "invalid:7".
    """
    passage_ids = [passage.passage_id for passage in passages]
    # the system's numbers count empty contexts (None), too, which have no passage: their id is ""
    remaining_ids = iter(passage_ids)
    numbered_ids = ["" if context is None else next(remaining_ids) for context in record.contexts]
    citations: Sequence[str] = ()
    if record.citations is not None:
        citations = [cited_id(citation, numbered_ids) for citation in record.citations]
    elif outcome == "success":
        citations = parse_citations(text, numbered_ids)
    # equal contexts count as one, under the id of the first
    first_of = first_equal_ids(passage_ids, passages)
    distinct_ids = dict.fromkeys(first_of.get(citation, citation) for citation in citations)
    return tuple(distinct_ids)


def _completion(record: _Record, model: str) -> Completion | None:
    """Return the tokens that an answer used; None if the system does not report them."""
    usage = record.usage
    if usage is None:
        return None
    return Completion(
        record.answer, usage.model or model, usage.input_tokens or 0, usage.output_tokens or 0
    )


def _calls(record: _Record) -> tuple[Call, ...]:
    """Return the calls of tools, without their empty contexts."""
    calls = []
    for call in record.calls:
        context_ids = [own_id_of(context) for context in call.contexts if context is not None]
        calls.append(Call(call.name, call.query, tuple(context_ids)))
    return tuple(calls)


def _says_more_than_id(passage: Passage) -> bool:
    """Return True if a passage has a text, a document, a source or a score."""
    has_score = passage.score is not None
    return bool(passage.text or passage.doc_id or passage.sources or has_score)


def _notes(contexts: Sequence[ParsedContext | None]) -> tuple[str, ...]:
    """Return a note for each context that is empty and each score that is not finite."""
    notes = []
    for context in contexts:
        if context is None:
            notes.append(EMPTY_CONTEXT)
        elif context.score is not None and not math.isfinite(context.score):
            notes.append(BAD_SCORE)
    return tuple(notes)
