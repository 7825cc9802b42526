"""Contexts where services and stores put them, by function and by HTTP; what is not read is named."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import DataError, DataWarning
from ragbench.systems import HttpSystem, read_answer

RAIL, MILL = "The railway line opened in 1881 in the north.", "The old mill burnt down in 1902."
DATA = rb.Dataset(
    "lines",
    "test",
    {"rail.md": rb.Document("rail.md", RAIL), "mill.md": rb.Document("mill.md", MILL)},
    [rb.Case("q1", "When did it open?")],
    {"q1": {"rail.md": 1}},
)

DIFY = [
    {"position": 1, "document_name": "mill.md", "segment_id": "s2", "score": 0.9, "content": MILL},
    {"position": 2, "document_name": "rail.md", "segment_id": "s1", "score": 0.4, "content": RAIL},
]
AZURE = [
    {"content": MILL, "title": "Mill", "filepath": "mill.md", "chunk_id": "0"},
    {"content": RAIL, "title": "Rail", "filepath": "rail.md", "chunk_id": "0"},
]
RAGFLOW = [
    {"id": "c2", "content": MILL, "document_id": "u2", "document_name": "mill.md"},
    {"id": "c1", "content": RAIL, "document_id": "u1", "document_name": "rail.md"},
]
FOUND = [
    {"id": "c2", "content": MILL, "document_keyword": "mill.md", "similarity": 0.9},
    {"id": "c1", "content": RAIL, "document_keyword": "rail.md", "similarity": 0.4},
]
CHROMA = {
    "ids": [["mill.md", "rail.md"]],
    "documents": [[MILL, RAIL]],
    "metadatas": [[None, {"page": 1}]],
    "distances": [[0.1, 0.4]],
    "embeddings": None,
    "uris": None,
    "data": None,
    "included": ["documents", "metadatas", "distances"],
}
SAID = "It opened in 1881."
MESSAGE = {"role": "assistant", "content": SAID, "context": {"citations": AZURE, "intent": "[]"}}
PINECONE = [
    {"id": "u2", "score": 0.9, "metadata": {"text": MILL, "source": "s3://kb/mill.md"}},
    {"id": "u1", "score": 0.4, "metadata": {"text": RAIL, "source": "s3://kb/rail.md"}},
]
PINECONE_FIELDS = [
    {"_id": "u2", "_score": 0.9, "fields": {"text": MILL, "source": "mill.md"}},
    {"_id": "u1", "_score": 0.4, "fields": {"text": RAIL, "source": "rail.md"}},
]
MILVUS = [
    {"id": 2, "distance": 0.9, "entity": {"text": MILL, "source": "mill.md"}},
    {"id": 1, "distance": 0.4, "entity": {"text": RAIL, "source": "rail.md"}},
]
ELASTIC_FIELDS = [
    {"_id": "u2", "_score": 0.9, "fields": {"text": [MILL], "file_name": ["mill.md"]}},
    {"_id": "u1", "_score": 0.4, "fields": {"text": [RAIL], "file_name": ["rail.md"]}},
]
SOURCE_URI = "x-amz-bedrock-kb-source-uri"
BEDROCK = [
    {"content": {"text": MILL}, "score": 0.9, "metadata": {SOURCE_URI: "s3://kb/mill.md"}},
    {"content": {"text": RAIL}, "score": 0.4, "metadata": {SOURCE_URI: "s3://kb/rail.md"}},
]
JAVASCRIPT = [
    {"pageContent": MILL, "metadata": {"source": "/kb/mill.md"}},
    {"pageContent": RAIL, "metadata": {"source": "/kb/rail.md"}},
]
SPRING = [
    {"id": "u2", "text": MILL, "metadata": {"fileName": "mill.md"}},
    {"id": "u1", "text": RAIL, "metadata": {"fileName": "rail.md"}},
]
AZURE_SEARCH = [
    {"id": "u2", "content": MILL, "sourcefile": "mill.md", "sourcepage": "mill.md#page=2"},
    {"id": "u1", "content": RAIL, "sourcefile": "rail.md", "sourcepage": "rail.md#page=1"},
]
OPENAI_SEARCH: dict[str, Any] = {
    "type": "file_search_call",
    "results": [
        {"file_id": "u2", "filename": "mill.md", "score": 0.9, "text": MILL},
        {"file_id": "u1", "filename": "rail.md", "score": 0.4, "text": RAIL},
    ],
}
OPENAI_MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": SAID}]}
REPLIES: dict[str, tuple[str, Any]] = {
    "Dify": (SAID, {"answer": SAID, "metadata": {"retriever_resources": DIFY, "usage": {}}}),
    "Dify's last event": (SAID, {"answer": SAID, "retriever_resources": DIFY}),
    "Azure": (SAID, {"choices": [{"index": 0, "message": MESSAGE}], "usage": {"prompt_tokens": 3}}),
    "Azure's message": (SAID, MESSAGE),
    "a message in a table": (SAID, {"message": MESSAGE}),
    "RAGFlow's answer": (
        SAID,
        {"code": 0, "data": {"answer": SAID, "reference": {"total": 2, "chunks": RAGFLOW}}},
    ),
    "RAGFlow's chat": (
        SAID,
        {"choices": [{"message": {"content": SAID, "reference": {"chunks": RAGFLOW}}}]},
    ),
    "RAGFlow's search": (
        "",
        {"code": 0, "data": {"chunks": FOUND, "doc_aggs": [{"doc_name": "mill.md"}], "total": 2}},
    ),
    "Pinecone": ("", {"matches": PINECONE, "namespace": ""}),
    "Pinecone's fields": ("", {"result": {"hits": PINECONE_FIELDS}, "usage": {}}),
    "Milvus": ("", [MILVUS]),
    "Elasticsearch's fields": ("", {"took": 3, "hits": {"hits": ELASTIC_FIELDS}}),
    "Bedrock": ("", {"retrievalResults": BEDROCK}),
    "LangChain.js": (SAID, {"text": SAID, "sourceDocuments": JAVASCRIPT}),
    "Spring AI": (SAID, {"answer": SAID, "documents": SPRING}),
    "Azure AI Search": (SAID, {"answer": SAID, "results": AZURE_SEARCH}),
    "OpenAI's file search": (SAID, {"id": "r", "output": [OPENAI_SEARCH, OPENAI_MESSAGE]}),
    "Chroma's query": ("", CHROMA),
    "Chroma's get": ("", {"ids": ["mill.md", "rail.md"], "documents": [MILL, RAIL]}),
    "Chroma's ids alone": ("", {"ids": [["mill.md", "rail.md"]], "documents": None}),
    "Chroma's reply as contexts": (SAID, {"answer": SAID, "contexts": CHROMA}),
    "Chroma's reply as results": (SAID, {"answer": SAID, "results": CHROMA}),
}


class Message:
    """What a client returns in place of the JSON."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def dicts() -> Iterator[Any]:
    yield {"id": "mill.md", "text": MILL}
    yield {"id": "rail.md", "text": RAIL}


def scored() -> Iterator[Any]:
    yield {"text": MILL, "score": 0.9}
    yield {"text": RAIL, "score": 0.4}


def documents() -> Iterator[Any]:
    yield {"page_content": MILL, "metadata": {"source": "mill.md"}}
    yield {"page_content": RAIL, "metadata": {"source": "rail.md"}}


def hits() -> Iterator[Any]:
    yield {"_id": "mill.md", "_score": 0.9, "_source": {"text": MILL}, "text": MILL}
    yield {"_id": "rail.md", "_score": 0.4, "_source": {"text": RAIL}, "text": RAIL}


OBJECTS = {
    "a generator of dicts": dicts,
    "a generator of texts with scores": scored,
    "a generator of documents": documents,
    "a generator of hits": hits,
    "an object of Azure": lambda: Message(choices=[Message(message=Message(**MESSAGE))]),
    "an iterator": lambda: iter([*dicts()]),
    "hits of Weaviate": lambda: Message(
        objects=[
            Message(uuid="u2", properties={"text": MILL, "source": "mill.md"}),
            Message(uuid="u1", properties={"text": RAIL, "source": "rail.md"}),
        ]
    ),
    "a response of OpenAI": lambda: Message(
        output_text=SAID,
        output=[
            Message(
                type="file_search_call",
                results=[Message(**result) for result in OPENAI_SEARCH["results"]],
            ),
            Message(type="message", content=[Message(type="output_text", text=SAID)]),
        ],
    ),
    "a batch of one question": lambda: [
        [
            Message(page_content=MILL, metadata={"source": "mill.md"}),
            Message(page_content=RAIL, metadata={"source": "rail.md"}),
        ]
    ],
}


def check(system: Any, text: str) -> None:
    """The answer, its contexts in their order, and RR: the right document is the second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = rb.evaluate(DATA, system, perspectives=["retrieval"])
    assert (result.answers[0].text, len(result.answers[0].contexts)) == (text, 2)
    values = result.scores.set_index("measure")["value"]
    assert float(values["RR"]) == 0.5


@pytest.mark.parametrize("name", REPLIES)
def test_contexts_of_services_by_function_and_by_http(name: str, loopback: Any, wire: Any) -> None:
    text, reply = REPLIES[name]
    check(lambda question: reply, text)
    server = loopback(lambda asked: wire.Answered(reply))
    check(HttpSystem(server.url, body={"query": "{query}"}), text)


@pytest.mark.parametrize("name", OBJECTS)
def test_contexts_of_objects_and_generators(name: str) -> None:
    make = OBJECTS[name]
    has_answer = name in ("an object of Azure", "a response of OpenAI")
    check(lambda question: make(), SAID if has_answer else "")


def test_a_generator_of_pieces_is_still_an_answer() -> None:
    pieces = iter([{"answer": "It opened "}, {"answer": "in 1881."}, {"contexts": [RAIL]}])
    answer = read_answer("q1", pieces)
    assert (answer.text, len(answer.contexts)) == (SAID, 1)


@pytest.mark.parametrize(
    ("reply", "where"),
    [
        ({"answer": SAID, "evidences": [RAIL, MILL]}, "2 texts at evidences"),
        ({"answer": SAID, "evidences": (RAIL, MILL)}, "2 texts at evidences"),
        ({"answer": SAID, "contexts": [], "evidences": [RAIL, MILL]}, "2 texts at evidences"),
        ({"data": {"answer": SAID, "refs": {"parts": [RAIL] * 5}}}, "5 texts at data.refs.parts"),
        ({"text": SAID, "kbDocuments": AZURE}, "2 texts at kbDocuments"),
        (
            {"output": {"text": SAID}, "citations": [{"retrievedReferences": BEDROCK}]},
            "2 texts at citations.0.retrievedReferences",
        ),
        ({"answer": SAID, "citations": AZURE}, "2 texts at citations"),
        (
            {"choices": [{"message": {"content": SAID, "reference": AZURE}}]},
            "2 texts at choices.0.message.reference",
        ),
        (Message(answer=SAID, data={"refs": [RAIL, MILL]}), "2 texts at data.refs"),
    ],
)
def test_a_list_that_is_not_read_is_named(reply: Any, where: str) -> None:
    answer = read_answer("q1", reply)
    assert (answer.text, answer.contexts) == (SAID, ())
    assert answer.notes == (f"a list of {where} is not read",)


def test_a_list_that_is_not_read_is_named_where_there_is_no_answer() -> None:
    with pytest.raises(DataError, match=r"found code, refs; a list of 2 texts at refs is not read"):
        read_answer("q1", {"code": 0, "refs": AZURE})


def test_a_list_that_is_not_read_is_one_warning(loopback: Any, wire: Any) -> None:
    reply = {"data": {"answer": SAID, "refs": {"parts": [RAIL] * 5}}}
    server = loopback(lambda asked: wire.Answered(reply))
    with pytest.warns(DataWarning, match=r"a list of 5 texts at data\.refs\.parts is not read"):
        rb.evaluate(
            DATA, HttpSystem(server.url, body={"query": "{query}"}), perspectives=["answer"]
        )


@pytest.mark.parametrize(
    "reply",
    [
        {"answer": SAID, "contexts": [RAIL], "evidences": [RAIL, MILL]},
        {"choices": [{"message": {"content": SAID}, "finish_reason": "it came to its end"}]},
        {"answer": SAID, "history": [RAIL, MILL], "tags": ["a", "b"]},
        {"messages": [{"role": "user", "content": RAIL}, {"role": "assistant", "content": SAID}]},
    ],
)
def test_no_other_list_is_named(reply: Any) -> None:
    assert read_answer("q1", reply).notes == ()
