"""Shapes in which frameworks and services reply (messages, graphs, components, hits, streams), read
as records with an answer and contexts.
"""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

from ragbench.systems.context_parser import are_contexts, chroma_contexts, contexts_of, is_chroma
from ragbench.systems.reply_failures import stated_failure
from ragbench.systems.reply_tables import (
    ANSWER_FIELDS,
    LIST_FIELDS,
    WRAPPER_FIELDS,
    as_rows,
    as_table,
    with_plain_names,
)
from ragbench.testsets.fields import ANSWERS, first, is_empty, is_missing
from ragbench.types import RETRIEVAL_ONLY

_STATUS_FIELDS = ("data", "message")
"""Fields that hold a text about the request if contexts or an error are next to them."""

_QUESTIONERS = ("human", "user", "system", "developer")
_MAX_DEPTH = 6
_MIN_TEXT = 20  # characters of a passage
_NOT_CONTEXTS = {"messages", "history", "chat_history", "calls", "passages", "usage"}


def as_record(value: Any) -> Mapping[str, Any] | None:
    """Return the output of a system, of whatever shape, as a record: a mapping with "answer",
    "contexts", or both. None if the shape is not known.

    A text is an answer. A list or a data frame holds contexts; so does the list of a single query in a
    list, [[hit, hit]]. A tuple (text, list) has both. An iterator is a stream, which is read to its
    end. Any other object is read as a table of its fields.
    """
    if isinstance(value, str):
        return {"answer": value}
    if isinstance(value, Iterator):
        return _record_of_stream([*value])
    if isinstance(value, tuple) and [*map(type, value)] == [str, list]:
        text, contexts = value
        return {"answer": text, "contexts": contexts}
    value = as_rows(value)
    if isinstance(value, list | tuple):
        contexts = value[0] if _has_hits_of_one_query(value) else value
        return _contexts_alone(contexts)
    table = as_table(value)
    if not isinstance(table, Mapping):
        return None
    return _record_of_table(with_plain_names(table))


def _contexts_alone(contexts: Sequence[Any]) -> dict[str, Any]:
    """Return the record of a system that retrieves and writes no answer."""
    return {"contexts": contexts, "flags": [RETRIEVAL_ONLY]}


def _has_hits_of_one_query(results: Sequence[Any]) -> bool:
    """Return True for a list of one list of hits, [[hit, hit]]: Milvus and batches of one query return
    their results in this form.
    """
    if len(results) != 1 or not isinstance(results[0], list):
        return False
    return all(isinstance(as_table(hit), Mapping) for hit in results[0])


def _record_of_stream(parts: list[Any]) -> dict[str, Any] | None:
    """Return the record of a stream's parts; None if the shape of a part is not known.

    If all parts are contexts, the record has these contexts alone. Else they are pieces of an answer:
    their texts are joined, and every other field is from the last piece that has it.
    """
    if are_contexts(parts):
        return _contexts_alone(parts)
    merged: dict[str, Any] = {}
    texts = []
    for part in parts:
        piece = as_record(part)
        if piece is None:
            return None
        merged.update(piece)
        texts.append(str(_answer_in(piece) or ""))
    merged["answer"] = "".join(texts) or None  # None: no piece has a text
    return merged


def _record_of_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record ("answer", "contexts" and other fields) in a table: the fields of a reply.

    The table may be
    - a reply of Chroma, or a single context: the record has contexts alone;
    - a stored answer of ragbench, {"text": "So. [1]", "contexts": ["a"], "passages": [...]}: its
      contexts are ids, which are replaced by the passages;
    - a reply with an answer in a field of a usual name, and maybe contexts;
    - any other, such as {"choices": [{"message": {"content": "So."}}]}: a record inside one of its
      fields is searched, and the fields of that record are added.
    """
    if is_chroma(table):
        return _contexts_alone(chroma_contexts(table))
    if _is_single_context(table):
        return _contexts_alone([table])
    answer = _answer_in(table)
    contexts = contexts_of(table)
    failure = stated_failure(table, has_answer=not is_empty(answer))
    record = {**table, "error": failure or None}
    is_stored_answer = "answer" not in table and isinstance(table.get("text"), str)
    has_stored_contexts = is_stored_answer and bool(contexts)
    if has_stored_contexts:
        record["calls"] = _calls_with_passages(table)
        contexts = _with_stored_passages(contexts, table)
    if answer is None and not has_stored_contexts:
        searched = record
        if contexts is not None or failure:
            # {"contexts": [...], "message": "ok"}: "message" and "data" are about the request
            searched = _without_status_texts(record)
        record |= _record_inside(searched)
    # the answer and the contexts of the table itself come before those of a record inside it
    if answer is not None:
        record["answer"] = answer
    if contexts is not None:
        record["contexts"] = contexts
    return record | _empty_parts(record)


def _empty_parts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"answer": ""} if a record has no answer but an empty field for it, and {"contexts": []}
    for contexts likewise: then the system returned an empty answer, or found nothing. A part without
    any field is left out, because it is unknown.
    """
    parts: dict[str, Any] = {}
    if is_missing(record.get("answer")) and _has_empty_answer(record):
        parts["answer"] = ""
    has_field_for_contexts = not record.keys().isdisjoint(LIST_FIELDS)
    if is_missing(record.get("contexts")) and has_field_for_contexts:
        parts["contexts"] = []
    return parts


def _is_single_context(table: Mapping[str, Any]) -> bool:
    """Return True for a document or node of a framework, and for a text with its score."""
    names = table.keys()
    return "page_content" in names or "node" in names or names >= {"content", "score"}


def _has_empty_answer(record: Mapping[str, Any]) -> bool:
    """Return True if a field for the answer is there and empty."""
    return any(name in record and is_empty(record[name]) for name in (*ANSWER_FIELDS, *ANSWERS))


def _calls_with_passages(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a stored answer, with passages in place of the ids of their contexts."""
    calls = []
    for call in table.get("calls", ()):
        contexts = _with_stored_passages(call["contexts"], table)
        calls.append({**call, "contexts": contexts})
    return calls


def _answer_in(table: Mapping[str, Any]) -> Any:
    """Return the first value among the fields for an answer that is not empty; None if there is none.

    A table, and a list in the field "result", are not answers and are skipped. Any other list is
    returned, so that it is refused later with a message.
    """
    for name in ANSWER_FIELDS:
        value = table.get(name)
        if is_empty(value):
            continue
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, str | Real):
            return value
        if isinstance(value, list) and name != "result":
            return value
    return None


def _with_stored_passages(contexts: Sequence[Any], table: Mapping[str, Any]) -> list[Any]:
    """Return `contexts` with passages in place of ids; an id without a passage becomes {"id": ...}.

    `table` is a stored answer of ragbench, which lists ids as contexts and has the "passages" apart.
    """
    stored = {str(passage.get("passage_id")): passage for passage in table.get("passages", ())}
    passages = []
    for context in contexts:
        if isinstance(context, str):
            passages.append(stored.get(context, {"id": context}))
        else:
            passages.append(context)
    return passages


def _without_status_texts(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply without texts about the request, such as "message": "ok", which could be taken for
    an answer.
    """
    fields = dict(table)
    for name in _STATUS_FIELDS:
        if isinstance(fields.get(name), str):
            del fields[name]
    return fields


def _record_inside(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record (a table with "answer", "contexts", ...) inside a chat's reply, a graph's
    state, or the results of components by their names; {} if there is none.
    """
    content = table.get("content")
    if isinstance(content, str | list):  # a message of a chat model: a text, or its pieces
        pieces = [content] if isinstance(content, str) else content
        record = _record_of_stream(pieces) or {}
        return {**record, "usage": table.get("usage_metadata")}
    choices = table.get("choices")
    if choices:  # of OpenAI's chat
        message = first(as_table(choices[0]), ("message", "delta"))
        return as_record(message) or {}
    messages = table.get("messages")
    if isinstance(messages, list):  # the state of a graph
        return _record_of_messages(messages)
    output = table.get("output")
    if isinstance(output, list):  # of a response of OpenAI: its last message
        for item in map(as_table, reversed(output)):
            if isinstance(item, Mapping) and item.get("type") == "message":
                return _record_inside(item)
    wrapped = first(table, WRAPPER_FIELDS)
    if wrapped is not None:
        return as_record(wrapped) or {}
    return _record_of_components(table)


def _record_of_messages(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the record of a conversation: its last answer, and the results of all its tools as
    contexts; the contexts are None if no tool was called.
    """
    record: dict[str, Any] = {}
    contexts: list[Any] = []
    for message in messages:
        table = as_table(message)
        role = first(table, ("type", "role"))
        if role == "tool":
            documents = first(table, ("artifact", "content"))
            if isinstance(documents, list):
                contexts.extend(documents)
            else:
                contexts.append(documents)
        elif role not in _QUESTIONERS:
            record = dict(as_record(table) or {})
    return {**record, "contexts": contexts or None}


def _record_of_components(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record in the output of a pipeline of Haystack; {} if it has none.

    `table` is component -> its results. The contexts are the "documents" of the last component with
    such a list. The answer is the first entry of the last list "replies" or "answers".
    """
    record: dict[str, Any] = {}
    results_of_components = [part for part in table.values() if isinstance(part, Mapping)]
    for results in (table, *results_of_components):  # the table may be the results of one component
        if isinstance(results.get("documents"), list):
            record["contexts"] = results["documents"]
        for name in ("replies", "answers"):
            replies = results.get(name)
            if isinstance(replies, list) and replies:
                record.update(as_record(replies[0]) or {})
    return record


def unread_texts(value: Any) -> str:
    """Return a note on the longest list of texts inside a reply without contexts, because it may hold
    the contexts: "a list of 5 texts at data.hits is not read". "" if there is no such list.
    """
    lists = [*_lists_of_texts(as_table(value), ())]
    if not lists:
        return ""
    longest = max(lists)
    return f"a list of {longest.n_entries} texts at {'.'.join(longest.path)} is not read"


class _ListOfTexts(NamedTuple):
    n_entries: int
    path: tuple[str, ...]


def _lists_of_texts(value: Any, path: tuple[str, ...]) -> Iterator[_ListOfTexts]:
    """Yield each list of passages inside a value, at most six levels deep.

    Lists inside a list of passages are left out. In any other list only the first three entries are
    searched. `path` is the path of the value: names of fields and numbers of entries.
    """
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for name, entry in value.items():
            if name not in _NOT_CONTEXTS:
                yield from _lists_of_texts(entry, (*path, str(name)))
    elif isinstance(value, list | tuple) and value and path:
        is_answers = path[-1] == "choices"  # of OpenAI
        if not is_answers and all(map(_is_passage, value)):
            yield _ListOfTexts(len(value), path)
            return
        for number, entry in enumerate(value[:3]):
            yield from _lists_of_texts(entry, (*path, str(number)))


def _is_passage(value: Any) -> bool:
    """Return True if a value may be a context: a text of 20 characters or more with a blank in it, or
    a table that holds such a text, at most one table deeper.
    """
    if isinstance(value, str):
        return len(value) >= _MIN_TEXT and " " in value.strip()
    if not isinstance(value, Mapping):
        return False
    entries = list(value.values())
    for inner in value.values():
        if isinstance(inner, Mapping):
            entries += inner.values()
    return any(_is_passage(entry) for entry in entries if isinstance(entry, str))
