"""What retrievers and chains return, recognised by its shape: no framework is imported.

Objects are read by the names of their attributes, as tables are by their keys: LangChain's
documents, messages and graph states, LlamaIndex's responses and nodes, Haystack's documents and
pipeline results, hits of vector stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from types import GeneratorType
from typing import Any

from ragbench.testsets.fields import CONTEXTS, REPLIES, RETRIEVED

ANSWER_FIELDS = ("answer", "text", *REPLIES, "result")
CONTEXT_FIELDS = (
    *CONTEXTS,
    *RETRIEVED,
    "sources",
    "results",
    "source_documents",
    "source_nodes",
    "documents",
    "hits",
)
"""Where an answer and its contexts are read from, the first that is there; the last three names may
mean other things elsewhere, such as a number of hits, and count where they hold a list."""

TEXT_FIELDS = ("text", "content", "page_content", "excerpt", "snippet", "body")
_CONTEXT_NAMES = (
    "id",
    "_id",
    "id_",
    "node_id",
    "chunk_id",
    "passage_id",
    "docno",
    "doc_id",
    "document_id",
    "ref_doc_id",
    *TEXT_FIELDS,
    "metadata",
    "meta",
    "payload",
    "node",
    "score",
    "_score",
    "relevance_score",
    "similarity",
)
_RECORD_NAMES = ("citations", "flags", "outcome", "confidence", "usage", "latency_ms", "error")
_QUESTIONERS = ("human", "user", "system", "developer")
_STATUS = ("data", "message")  # which are texts about the request, where contexts are next to them
_METHODS = ("invoke", "query", "retrieve")


def to_callable(given: object) -> Callable[..., Any] | None:
    """Return the function of a question that an object is or has: itself, or its method `invoke`
    (LangChain), `query` or `retrieve` (LlamaIndex).

    >>> class Engine:
    ...     def query(self, question: str) -> str:
    ...         return question.upper()
    >>> to_callable(Engine())("why?"), to_callable(3)
    ('WHY?', None)
    """
    named = (given, *(getattr(given, name, None) for name in _METHODS))
    return None if isinstance(given, type) else next((one for one in named if callable(one)), None)


def as_record(found: object) -> Mapping[str, Any] | None:
    """Return what `read_answer` reads, from what a system returned; None where its shape is not
    known.

    A text is the answer. A list, a data frame or one document is contexts. A pair of a text and a
    list is both. A table or an object with a field for an answer or for contexts is taken as it is;
    those of chat models (`content`, `choices`), of graphs (`messages`), of Haystack (`replies` and
    `documents` by component) and of Chroma (`ids`, `documents`, `distances` in parallel) are
    rearranged. A generator of texts is read to its end.

    >>> as_record(("In 1881.", ["It opened in 1881."]))
    {'answer': 'In 1881.', 'contexts': ['It opened in 1881.']}
    >>> as_record({"llm": {"replies": ["In 1881."]}, "retriever": {"documents": [{"content": "It opened."}]}})
    {'answer': 'In 1881.', 'contexts': [{'content': 'It opened.'}]}
    >>> as_record({"ids": [["a", "b"]], "documents": [["one", "two"]], "distances": [[0.1, 0.4]]})["contexts"]
    [{'id': 'a', 'text': 'one', 'score': -0.1}, {'id': 'b', 'text': 'two', 'score': -0.4}]
    """
    if isinstance(found, str):
        return {"answer": found}
    if (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[0], str)
        and isinstance(found[1], list)
    ):
        return {"answer": found[0], "contexts": found[1]}
    if isinstance(found, GeneratorType):
        pieces = list(found)
        return (
            {"answer": "".join(pieces)} if all(isinstance(piece, str) for piece in pieces) else None
        )
    if hasattr(found, "to_dict") and hasattr(found, "columns"):  # a data frame
        found = found.to_dict("records")
    if isinstance(found, list | tuple):
        return {"contexts": list(found), "flags": ["retrieval_only"]}
    if isinstance(found, Mapping):
        return _parallel(found) or _completed(found)
    return _of_object(found)


def as_context(value: Any) -> Any:
    """Flatten one context to a table: documents and nodes of frameworks, hits of search engines,
    pairs with a score.

    >>> as_context({"_id": "a", "_score": 2.5, "_source": {"text": "It opened."}})
    {'text': 'It opened.', '_id': 'a', '_score': 2.5}
    >>> as_context(("It opened.", 0.5)), as_context({"id": 7, "payload": {"text": "It opened.", "source": "rail.md"}})
    ({'text': 'It opened.', 'score': 0.5}, {'doc_id': 'rail.md', 'text': 'It opened.', 'id': 7})
    """
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], Real):
        inner = as_context(value[0])
        inner = (
            {"text" if isinstance(inner, str) else "id": inner}
            if isinstance(inner, str | int)
            else inner
        )
        if isinstance(inner, Mapping):
            return {**inner, "score": value[1]}
    if not isinstance(value, Mapping | str | Real | list | tuple | None):
        as_dict = getattr(value, "to_dict", None)
        value = _attributes(value, _CONTEXT_NAMES) or (as_dict() if callable(as_dict) else value)
    if not isinstance(value, Mapping):
        return value
    if (node := value.get("node")) is not None:
        return as_context({**_attributes(node, _CONTEXT_NAMES), "score": value.get("score")})
    value = {key: _only_text(entry) for key, entry in value.items() if entry is not None}
    if isinstance(source := value.pop("_source", None) or value.pop("payload", None), Mapping):
        value = {
            "metadata": source,
            **{key: source[key] for key in TEXT_FIELDS if key in source},
            **value,
        }
    about = value.pop("metadata", None) or value.pop("meta", None) or {}
    if isinstance(about, Mapping):
        named = [
            about.get(key)
            for key in ("doc_id", "document_id", "source", "ref_doc_id", "file_path", "file_name")
        ]
        named = [one for one in (*named, value.get("ref_doc_id")) if one]
        texts = (
            {}
            if any(key in value for key in TEXT_FIELDS)
            else {key: about[key] for key in TEXT_FIELDS if key in about}
        )
        value = {**({"doc_id": str(named[0])} if named else {}), **texts, **value}
    return {
        key: entry if key not in _CONTEXT_NAMES or isinstance(entry, str | Real) else str(entry)
        for key, entry in value.items()
    }


def _only_text(value: Any) -> Any:
    """Unwrap the text of a list with nothing else, in which tantivy has every field of a document."""
    return (
        value[0]
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)
        else value
    )


def _attributes(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a table or an object with one of these names that hold something;
    methods are not fields.
    """
    fields = value if isinstance(value, Mapping) else None
    found = {
        name: getattr(value, name, None) if fields is None else fields.get(name) for name in names
    }
    return {
        name: entry
        for name, entry in found.items()
        if entry is not None and (isinstance(entry, str) or not callable(entry))
    }


def _completed(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Complete a table with its answer, also where that is in another object: a message, a reply,
    the state of a graph."""
    if not _has_fields(found):
        return _wrapped(found) or found
    for name in ANSWER_FIELDS:
        value = found.get(name)
        if value is not None and not _is_table(name, value):
            inner = {} if isinstance(value, str | Real | list | tuple) else _of_object(value) or {}
            return {**found, **_answered(inner)}
    rest = {name: value for name, value in found.items() if name not in CONTEXT_FIELDS}
    rest = {
        name: value
        for name, value in rest.items()
        if not (name in _STATUS and isinstance(value, str))
    }
    return {**_answered(_wrapped(rest) or {}), **found}


def _answered(inner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a record inside another, with its tokens."""
    answer = next((inner[name] for name in ANSWER_FIELDS if isinstance(inner.get(name), str)), None)
    return (
        {}
        if answer is None
        else {name: inner[name] for name in ("usage",) if name in inner} | {"answer": answer}
    )


def _has_fields(found: Mapping[str, Any]) -> bool:
    """Return True if there is an answer or contexts; a table is neither, unless it holds hits as
    Elasticsearch replies."""
    names = (*ANSWER_FIELDS, *CONTEXT_FIELDS, "error")
    return any(found.get(name) is not None and not _is_table(name, found[name]) for name in names)


def _is_table(name: str, value: object) -> bool:
    return isinstance(value, Mapping) and not (name in ("hits", "context") and "hits" in value)


def _parallel(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read Chroma's reply to a query: for each question a list of ids, of documents, of distances,
    of metadata.
    """
    names = {"ids": "id", "documents": "text", "metadatas": "metadata", "distances": "score"}
    held = {new: found[old][0] for old, new in names.items() if _is_nested(found.get(old))}
    if "id" not in held:
        return None
    rows = [dict(zip(held, row, strict=True)) for row in zip(*held.values(), strict=True)]
    contexts = [{**row, "score": -row["score"]} if "score" in row else row for row in rows]
    return {"contexts": contexts, "flags": ["retrieval_only"]}


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)


def _wrapped(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the record inside a chat's reply, a graph's state, or the results of components by
    their names.
    """
    if choices := found.get("choices"):
        return _of_object(_attributes(choices[0], ("message", "text")).get("message"))
    if isinstance(messages := found.get("messages"), list) and messages:
        contexts: list[Any] = []
        answer: Mapping[str, Any] = {}
        for message in messages:
            held = _attributes(message, ("type", "role", "artifact", "content"))
            kind = held.get("type", held.get("role"))
            if kind == "tool":
                documents = held.get("artifact", held.get("content"))
                contexts += documents if isinstance(documents, list) else [documents]
            elif kind not in _QUESTIONERS:
                answer = _of_object(message) or {}
        return {**answer, **({"contexts": contexts} if contexts else {})} or None
    for name in ("output", "data", "message", "result", "response", "answer"):
        if found.get(name) is not None:
            return as_record(found[name])
    merged: dict[str, Any] = {}
    for part in (found, *(part for part in found.values() if isinstance(part, Mapping))):
        if isinstance(part.get("documents"), list):
            merged["contexts"] = part["documents"]
        for name in ("replies", "answers"):
            if isinstance(part.get(name), list) and part[name]:
                merged |= as_record(part[name][0]) or {}
    return merged or None


def _of_object(found: Any) -> Mapping[str, Any] | None:
    """Return the record of an object (or a chat message as a table)."""
    held = _attributes(
        found,
        ("content", "text", "usage_metadata", "page_content", "node", "score", "meta", "metadata"),
    )
    if "page_content" in held or "node" in held or ("content" in held and "score" in held):
        return {"contexts": [found], "flags": ["retrieval_only"]}
    if isinstance(content := held.get("content"), str | list):  # a message of a chat model
        parts = (
            [content]
            if isinstance(content, str)
            else [p if isinstance(p, str) else p.get("text", "") for p in content]
        )
        usage = {"usage": held["usage_metadata"]} if "usage_metadata" in held else {}
        return {"answer": "".join(parts), **usage}
    fields = _attributes(found, (*ANSWER_FIELDS, *CONTEXT_FIELDS, *_RECORD_NAMES))
    if "source_nodes" in fields:  # next to the raw outputs of tools in `sources`
        fields.pop("sources", None)
        pieces = getattr(found, "response_gen", None)
        if not fields.get("response") and isinstance(pieces, Iterator):
            fields["response"] = "".join(pieces) or getattr(found, "response_txt", None) or ""
    if _has_fields(fields) and not hasattr(found, "data"):
        return fields
    other = _attributes(found, ("data", "output", "message", "choices", "messages", "documents"))
    if isinstance(other.get("data"), str):  # Haystack's GeneratedAnswer
        return {"answer": other["data"], "contexts": other.get("documents", [])}
    return fields if _has_fields(fields) else _wrapped(other) if other else None
