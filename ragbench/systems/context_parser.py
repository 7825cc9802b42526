"""Contexts as systems return them: in which fields and fields inside of fields they are, and the
id, document, text and score of each; `reply_tables` has the plain names.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from ragbench.systems.reply_tables import (
    CONTEXT_FIELDS,
    CONTEXT_PARTS,
    LIST_FIELDS,
    METADATA_FIELDS,
    SOURCE_FIELDS,
    as_rows,
    as_table,
    with_plain_names,
    without_lists_of_one,
)
from ragbench.testsets.fields import first, is_empty, is_missing, read_list, without_none
from ragbench.text import without_surrogates

ValidText = Annotated[str, AfterValidator(without_surrogates)]

_INNER_FIELDS = (
    ("metadata", "retriever_resources"),  # Dify
    ("context", "citations"),  # Azure OpenAI on your data
    ("reference", "chunks"),  # RAGFlow
)
"""Where services put contexts next to an answer: (field, field inside it)."""

_AMBIGUOUS_FIELDS = ("context", "documents", "hits", "points", "chunks", "matches", "objects")
"""Fields that hold contexts only if they are a list; else e.g. a number of hits."""

_ID_OR_SCORE = {*CONTEXT_PARTS["id"], *CONTEXT_PARTS["score"]}
_MESSAGE_MARKS = {"type", "role", "usage_metadata", "delta", "choices"}
_CHROMA_COLUMNS = {"id": "ids", "text": "documents", "metadata": "metadatas"}


class ParsedContext(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)
    id: ValidText = ""
    doc_id: ValidText = ""
    text: ValidText = ""
    score: Annotated[float | None, BeforeValidator(lambda value: _number(value))] = None
    sources: tuple[ValidText, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.id and not self.text:
            raise ValueError("expected an id or a text")
        return self


ParsedContexts = list[
    Annotated[ParsedContext | None, BeforeValidator(lambda value: _context_or_none(value))]
]
"""Contexts in rank order; None where the system returned an empty one."""


def contexts_of(table: Mapping[str, Any]) -> Any:
    """Return the contexts among the fields of a reply, as the system wrote them; None if no field
    holds any.

    The usual fields are looked at first, then fields inside of others, where some services put
    contexts, then the results of searches in a response of OpenAI.
    """
    for name in CONTEXT_FIELDS:
        contexts = _contexts_in_field(name, table.get(name))
        if contexts is not None:
            return contexts
    for field, inner_field in _INNER_FIELDS:
        inner = as_table(table.get(field))
        if isinstance(inner, Mapping) and isinstance(inner.get(inner_field), list):
            return inner[inner_field]
    return _results_of_searches(table.get("output"))


def _contexts_in_field(name: str, value: Any) -> Any:
    """Return the contexts that the value of a field holds, which has one of the usual names for
    contexts; None if it holds none.

    Contexts that are not a list are returned, too, so that they are refused later with a message, but
    not from a field of `_AMBIGUOUS_FIELDS`: "hits": 3 is a number of hits.
    """
    value = as_rows(value)
    if isinstance(value, Mapping):
        if is_chroma(value):
            return chroma_contexts(value)
        value = value.get("hits")  # as Elasticsearch replies
    if is_empty(value):
        return None
    if isinstance(value, str) and name in LIST_FIELDS:
        return read_list(value)  # a list that a table holds as a text
    if name in _AMBIGUOUS_FIELDS and not isinstance(value, list | tuple):
        return None
    return value


def _results_of_searches(output: Any) -> list[Any] | None:
    """Return the results of all searches in the field "output" of a response of OpenAI, a list of
    calls and messages; None if there are none.
    """
    if not isinstance(output, list):
        return None
    all_results: list[Any] = []
    for item in output:
        table = as_table(item)
        results = table.get("results") if isinstance(table, Mapping) else None
        if isinstance(results, list):
            all_results += results
    return all_results or None


def are_contexts(parts: Sequence[Any]) -> bool:
    """Return True if the values of a generator are contexts, False if they are pieces of an answer.

    Contexts are documents, hits, (text, score) pairs, and mappings of a text with its id, score or
    source. Several parts that share one id are the pieces of one message: False.
    """
    if not parts:
        return False
    ids: list[Any] = []  # of each part; None if it has none
    for part in parts:
        if isinstance(part, tuple) and len(part) >= 2 and isinstance(part[-1], Real):
            ids.append(None)  # a text with its score
            continue
        table = as_table(part)
        if not isinstance(table, Mapping) or not _is_context(table):
            return False
        ids.append(first(table, CONTEXT_PARTS["id"]))
    have_one_id = ids[0] is not None and len({*map(str, ids)}) == 1
    are_one_message = len(parts) > 1 and have_one_id
    return not are_one_message


def _is_context(table: Mapping[str, Any]) -> bool:
    """Return True for a table of a text with an id, a score, a source or metadata; False for a
    message.
    """
    names = with_plain_names(table).keys()
    if names & _MESSAGE_MARKS:
        return False
    if "node" in names or "page_content" in names:
        return True
    has_text = not names.isdisjoint(CONTEXT_PARTS["text"])
    is_described = bool(names & {*_ID_OR_SCORE, *SOURCE_FIELDS, *METADATA_FIELDS})
    return has_text and is_described


def is_chroma(table: Mapping[str, Any]) -> bool:
    """Return True for a whole reply of Chroma."""
    has_columns = not table.keys().isdisjoint(("documents", "distances", "metadatas"))
    return isinstance(table.get("ids"), list) and has_columns


def chroma_contexts(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the contexts of a reply of Chroma, whose fields are lists in parallel: a list of values,
    or such a list for each query, of which the first is read.

    >>> chroma_contexts({"ids": [["a", "b"]], "documents": [["It opened.", None]], "metadatas": None})
    [{'id': 'a', 'text': 'It opened.'}, {'id': 'b'}]
    """
    columns = {}  # part of a context -> its values, one for each context
    for part, name in _CHROMA_COLUMNS.items():
        values = table.get(name)
        if isinstance(values, list) and values and isinstance(values[0], list):
            values = values[0]  # of the first query
        if isinstance(values, list):
            columns[part] = values
    contexts = []
    for values_of_context in zip(*columns.values(), strict=False):
        context = dict(zip(columns, values_of_context, strict=True))
        contexts.append(without_none(context))
    return contexts


_WRAPPERS = ("node", "document", "chunk")
"""Fields that hold a context next to its score, as of LlamaIndex and rerankers."""


def read_context(value: Any) -> Any:
    """Flatten one context to a table with `id`, `doc_id`, `text`, `score` and `sources`, as far as it
    has them.

    A context is a text, an id (a number), a document or node of a framework, a hit of a search
    engine, a pair with a score, or a row of an id, a text and a score. A value of another shape is
    returned as it is.

    >>> read_context({"_id": "a", "_score": 2.5, "_source": {"text": "It opened."}})
    {'id': 'a', 'text': 'It opened.', 'score': 2.5}
    >>> read_context(("It opened.", 0.5)), read_context({"id": 7, "payload": {"text": "It opened.", "source": "a.md"}})
    ({'text': 'It opened.', 'score': 0.5}, {'id': '7', 'doc_id': 'a.md', 'text': 'It opened.'})
    >>> read_context((7, "It opened.", 0.5))
    {'id': '7', 'text': 'It opened.', 'score': 0.5}
    """
    if isinstance(value, list | tuple) and value and isinstance(value[0], float):
        value = (*value[1:], value[0])  # tantivy puts the score first
    if isinstance(value, tuple) and len(value) == 2 and value[1] is None:
        value = value[0]  # a pair with an empty score
    match value:
        case [hit, Real() as score]:
            context = read_context(hit)
            return {**context, "score": score} if isinstance(context, Mapping) else value
        case [str() | int() as chunk_id, str() as text, Real() as score]:
            return {"id": str(chunk_id), "text": text, "score": score}
    match as_table(value):
        case str() as text:
            return {"text": text}
        case int() as context_id:
            return {"id": context_id}
        case Mapping() as table:
            return _context_in_table(table)
        case other:
            return other


def _context_in_table(table: Mapping[str, Any]) -> Any:
    """Return the context that a table (the fields of one search hit) holds.

    Some services wrap it: {"document": {"text": ...}, "score": 0.7} -> the context in "document", with
    the score next to it. A table without such a wrapper is itself the context.
    """
    for name in _WRAPPERS:
        inner = as_table(table.get(name))
        if isinstance(inner, Mapping):
            score = first(table, CONTEXT_PARTS["score"])
            context = read_context(inner)
            return context if score is None else {**context, "score": score}
    return _context_of(table)


def _context_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that a context has ("id", "doc_id", "text", "score", "sources").

    Its text and the id of its document may be in its metadata. A context without `doc_id` gets the
    name of its source, one without `id` its `doc_id`; a blank id counts as none. Without a `doc_id`
    to take its place, the id is left out, as is every part without a field. A blank `doc_id` without a
    source stays blank ("").
    """
    table = with_plain_names(table)
    with_metadata = [table, *map(with_plain_names, _metadata_of(table))]
    context_id = first(table, CONTEXT_PARTS["id"])
    doc_id = _first_in(with_metadata, CONTEXT_PARTS["doc_id"])
    text = _first_in(with_metadata, CONTEXT_PARTS["text"])
    if isinstance(text, Mapping):  # Bedrock has the text in a table
        text = first(text, CONTEXT_PARTS["text"])
    score = first(table, CONTEXT_PARTS["score"])
    sources = _sources_in(with_metadata)
    if is_empty(doc_id) and sources:
        doc_id = sources[0]
    if is_empty(context_id):
        context_id = doc_id
    other_sources = [source for source in dict.fromkeys(sources) if source != str(doc_id)]
    context: dict[str, Any] = {}
    if not is_missing(context_id):
        context["id"] = str(context_id)
    if not is_missing(doc_id):
        context["doc_id"] = str(doc_id)
    if not is_missing(text):
        context["text"] = text
    if score is not None:  # NaN is kept: the answer gets a note on it later
        context["score"] = score
    if other_sources:
        context["sources"] = tuple(other_sources)
    return context


def _metadata_of(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tables of metadata inside a context, each followed by those inside it."""
    metadata = []
    for name in METADATA_FIELDS:
        outer = table.get(name)
        if not isinstance(outer, Mapping):
            continue
        if name == "fields":  # Elasticsearch has a list for each field
            outer = without_lists_of_one(outer)
        metadata.append(outer)
        for inner_name in METADATA_FIELDS:
            inner = outer.get(inner_name)
            if isinstance(inner, Mapping):
                metadata.append(inner)
    return metadata


def _first_in(tables: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Any:
    """Return the first of the fields in the first table that has one; None if no table has."""
    for table in tables:
        entry = first(table, names)
        if entry is not None:
            return entry
    return None


def _sources_in(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of a context's document, the clearest field first; names may repeat."""
    sources = []
    for name in SOURCE_FIELDS:
        for table in tables:
            source = table.get(name)
            if isinstance(source, str | int) and source != "":
                sources.append(str(source))
    return sources


def _context_or_none(value: Any) -> Any:
    """Return one context as `read_context` does; None for an empty context.

    - {"text": "It opened."} is returned: it has a text or an id.
    - None, NaN, "", {}, and {"id": "", "text": null} are empty: None.
    - {"colour": "red"}, without any field for a text or an id, is a mistake and not an empty context. It
      is returned as `read_context` returns it, and `ParsedContext` refuses it later.

    Raises:
        ValueError: the value is a list of texts.
    """
    if hasattr(value, "tolist"):  # an array is a list here, and a number of numpy a number
        value = value.tolist()
    if isinstance(value, list | tuple) and value and all(isinstance(part, str) for part in value):
        raise ValueError(
            "a list of texts is not one context; expected a text, a table with a text, or a pair of "
            "a text and a score (several texts are several contexts of the list)"
        )
    is_empty_table = isinstance(value, Mapping) and not value
    if is_empty(value) or is_empty_table:
        return None
    context = read_context(value)
    if not isinstance(context, Mapping):
        return context
    is_filled = not is_empty(context.get("id")) or not is_empty(context.get("text"))
    is_mistake = isinstance(value, Mapping) and not _has_context_field(value)
    return context if is_filled or is_mistake else None


def _has_context_field(table: Mapping[str, Any]) -> bool:
    """Return True if a table has a field for a text or an id, be it an empty one."""
    names = (*CONTEXT_PARTS["text"], *CONTEXT_PARTS["id"], *METADATA_FIELDS)
    return not with_plain_names(table).keys().isdisjoint(names)


def _number(value: Any) -> Any:
    """Return a score of any numeric type as a float: NaN for NaN, NA and NaT, None for None and blank
    text. Anything else is returned unchanged, so that pydantic's error names it.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if is_missing(value):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
