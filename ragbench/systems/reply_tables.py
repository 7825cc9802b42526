"""Names of the fields in which systems return answers and contexts, and foreign objects as tables.

No framework is imported: documents and messages of LangChain, responses and nodes of LlamaIndex,
documents and results of Haystack and hits of vector stores are recognised by the names of their
fields, whether these are keys or attributes. Tables (pandas, Arrow, polars) and queries of LanceDB
are read to their end.
"""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from ragbench.testsets.fields import CONTEXTS, REPLIES, RETRIEVED, column_name

ANSWER_FIELDS = (*REPLIES, "answer", "text", "completion", "output_text", "result")
LIST_FIELDS = (*RETRIEVED, *CONTEXTS)
"""Fields of contexts whose list may be a text, as in a CSV file."""
CONTEXT_FIELDS = (
    *LIST_FIELDS,
    *"source_nodes sources results source_documents documents hits points chunks".split(),
    *"matches objects retriever_resources retrieval_results".split(),
)
"""Where an answer and its contexts are read from; the first field that holds something counts."""

CONTEXT_PARTS = {
    "id": "id _id chunk_id passage_id id_ node_id segment_id docno".split(),
    "doc_id": "doc_id document_id ref_doc_id".split(),
    "text": "text content page_content excerpt snippet body".split(),
    "score": "score _score relevance_score _relevance_score similarity".split(),
}
"""Part of a context -> the names of its field."""
METADATA_FIELDS = ("_source", "payload", "metadata", "meta", "properties", "entity", "fields")
"""Tables inside a context that hold more of its fields: of Elasticsearch, Qdrant, LangChain,
Haystack, Weaviate, Milvus, Vespa and Pinecone.
"""
SOURCE_FIELDS = (
    *CONTEXT_PARTS["doc_id"],
    *"source source_file sourcefile file_path file_name filepath filename file path".split(),
    *"source_url url uri x_amz_bedrock_kb_source_uri".split(),
    *"document_name document_keyword docnm_kwd".split(),
)
"""Where a context names its document, by id, path, address or file name."""

WRAPPER_FIELDS = (*ANSWER_FIELDS, "output", "data", "message", "response_gen")
"""Fields that may hold a whole reply."""

_RECORD_FIELDS = ("citations", "flags", "outcome", "confidence", "usage", "latency_ms", "error")
_MESSAGE_FIELDS = "node choices delta messages usage_metadata type role artifact".split()
_TOKEN_FIELDS = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens")
_ATTRIBUTES = (
    *(name for names in CONTEXT_PARTS.values() for name in names),
    *METADATA_FIELDS,
    *WRAPPER_FIELDS,
    *CONTEXT_FIELDS,
    *_RECORD_FIELDS,
    *SOURCE_FIELDS,
    *_MESSAGE_FIELDS,
    *_TOKEN_FIELDS,
)
"""The attributes that are read from an object."""

_ROW_METHODS = {
    "to_pylist": (),  # Arrow
    "to_dicts": (),  # polars
    "to_list": (),  # LanceDB
    "to_dict": ("records",),  # pandas
    "tolist": (),  # numpy
}
"""Method that returns the rows of a table, a query or an array -> its arguments."""


def as_rows(value: Any) -> Any:
    """Return the rows of a data frame, a query's result or an array as lists and dicts; any other value
    unchanged.
    """
    for method, arguments in _ROW_METHODS.items():
        if not hasattr(value, method):
            continue
        if method == "to_dict" and not hasattr(value, "columns"):  # an object, not a data frame
            continue
        return getattr(value, method)(*arguments)
    return value


def as_table(value: Any) -> Any:
    """Return an object of a library, such as a message of LangChain, as a dict of its fields that are
    not None. A mapping, text, number or list is returned unchanged, and so is an object without any
    known field (`_ATTRIBUTES`).
    """
    if value is None or isinstance(value, Mapping | str | Real | list | tuple | type):
        return value
    fields: dict[str, Any] = {}
    for name in _ATTRIBUTES:
        entry = getattr(value, name, None)
        # the `text` of a message of LangChain is a str that can also be called, as it once was a method
        is_method = callable(entry) and not isinstance(entry, str)
        if entry is not None and not is_method:
            fields[name] = entry
    if isinstance(fields.get("data"), str):  # Haystack's GeneratedAnswer
        fields["answer"] = fields.pop("data")
    if not fields and hasattr(value, "to_dict"):
        fields = without_lists_of_one(value.to_dict())
    return fields or value


def without_lists_of_one(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document (field -> list of values, as of tantivy and Elasticsearch) with single values
    unpacked: {"title": ["A"], "tags": ["b", "c"]} -> {"title": "A", "tags": ["b", "c"]}.
    """
    fields = {}
    for name, values in document.items():
        if isinstance(values, list) and len(values) == 1:
            fields[name] = values[0]
        else:
            fields[name] = values
    return fields


def with_plain_names(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with each field under its plain name, too.

    >>> with_plain_names({"Final Answer": "So.", "pageContent": "It opened."})
    {'final_answer': 'So.', 'page_content': 'It opened.', 'Final Answer': 'So.', 'pageContent': 'It opened.'}
    """
    plain = {column_name(str(name)): entry for name, entry in table.items()}
    return {**plain, **table}
