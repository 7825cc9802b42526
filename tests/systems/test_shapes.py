"""What frameworks return is read by its shape: the classes below have the attributes of theirs, and
no more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Obj
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ragbench as rb
from ragbench.errors import DataError, DataWarning
from ragbench.systems import FunctionSystem
from ragbench.systems.answer_parser import read_answer
from ragbench.types import Case, Dataset, Document

TEXT = "It opened in 1881."
NODE = Obj(node_id="n7", id_="n7", text=TEXT, metadata={}, ref_doc_id="rail")
TANTIVY = Obj(to_dict=lambda: {"id": ["rail"], "body": [TEXT]})
TOOL = Obj(
    type="tool",
    content=TEXT,
    artifact=[Obj(page_content=TEXT, metadata={"source": "rail"}, id=None)],
)
RETRIEVED = {
    "texts": [TEXT],
    "dicts": [{"text": TEXT, "doc_id": "rail"}],
    "LangChain documents": [
        Obj(page_content=TEXT, metadata={"source": "rail"}, id=None, type="Document")
    ],
    "LangChain documents with scores": [
        (Obj(page_content=TEXT, metadata={"source": "rail"}), np.float32(0.5))
    ],
    "LlamaIndex nodes with scores": [Obj(node=NODE, score=0.5)],
    "one LlamaIndex node": Obj(node=NODE, score=0.5),
    "Haystack retriever": {
        "documents": [Obj(id="f00", content=TEXT, meta={"file_path": "rail"}, score=0.5)]
    },
    "Qdrant points": [Obj(id=3, payload={"text": TEXT, "source": "rail"}, score=0.5)],
    "Qdrant response": Obj(
        points=None, documents=[{"id": 3, "payload": {"text": TEXT, "source": "rail"}}]
    ),
    "Qdrant query response": Obj(points=[Obj(id=3, payload={"text": TEXT, "source": "rail"})]),
    "LanceDB query": Obj(
        text=lambda text: None, to_list=lambda: [{"id": "rail", "text": TEXT, "_distance": 0.5}]
    ),
    "Arrow table": pa.table({"id": ["rail"], "text": [TEXT], "_relevance_score": [0.5]}),
    "tantivy documents": [TANTIVY],
    "tantivy documents with scores": [(0.5, TANTIVY)],
    "row of a database": [("rail", TEXT, 0.5)],
    "PyTerrier frame": pd.DataFrame(
        [{"qid": "1", "docno": "rail", "text": TEXT, "score": 0.5, "rank": 0}]
    ),
    "nothing found": [],
}
ANSWERED = {
    "text and contexts": ("In 1881.", [TEXT]),
    "retrieval chain": {
        "input": "?",
        "answer": "In 1881.",
        "context": RETRIEVED["LangChain documents"],
    },
    "LangServe": {
        "output": {"answer": "In 1881.", "context": [{"page_content": TEXT, "metadata": {}}]}
    },
    "Hayhooks": {
        "result": {
            "llm": {"replies": ["In 1881."]},
            "retriever": {"documents": [{"content": TEXT}]},
        }
    },
    "Haystack answer": {
        "answers": {"answers": [Obj(data="In 1881.", query="?", documents=[Obj(content=TEXT)])]}
    },
    "LlamaIndex response": Obj(
        response="In 1881.", source_nodes=[Obj(node=NODE, score=0.5)], metadata={}
    ),
    "LlamaIndex chat": Obj(
        response="In 1881.", sources=[Obj(raw="x")], source_nodes=[Obj(node=NODE, score=0.5)]
    ),
    "LangGraph state": {
        "messages": [Obj(type="human", content="?"), TOOL, Obj(type="ai", content="In 1881.")]
    },
    "chat messages": {
        "messages": [
            {"role": "tool", "content": TEXT},
            {"role": "assistant", "content": "In 1881."},
        ]
    },
    "LangGraph state with contexts": {
        "messages": [Obj(type="human", content="?"), Obj(type="ai", content="In 1881.")],
        "context": RETRIEVED["LangChain documents"],
    },
    "LangGraph state with a generation": {
        "question": "?",
        "documents": RETRIEVED["LangChain documents"],
        "generation": "In 1881.",
    },
    "LangGraph state with a message": {
        "documents": RETRIEVED["LangChain documents"],
        "generation": Obj(type="ai", content="In 1881."),
    },
    "contexts in a table": {"answer": "In 1881.", "contexts": pd.DataFrame([{"text": TEXT}])},
    "Haystack evaluation": {"question": "?", "contexts": [TEXT], "predicted_answer": "In 1881."},
    "replies next to documents": {
        "documents": [Obj(content=TEXT, meta={})],
        "llm": {"replies": ["In 1881."]},
    },
    "an object of one's own": Obj(answer="In 1881.", contexts=[TEXT], answer_many=lambda: None),
}
PLAIN = {
    "text": "In 1881.",
    "completion": {"completion": "In 1881."},
    "OpenAI responses": Obj(id="x", output_text="In 1881.", output=[], usage=None),
    "LangChain message": Obj(
        type="ai", content=[{"text": "In "}, "1881."], usage_metadata={"input_tokens": 9}
    ),
    "chat completion": Obj(
        choices=[Obj(message=Obj(content="In 1881.", role="assistant"))], usage=None
    ),
    "chat completion as JSON": {"id": "x", "choices": [{"message": {"content": "In 1881."}}]},
    "agent": {"output": "In 1881."},
}


def answer_to(returned: Any) -> rb.Answer:
    return FunctionSystem(lambda question: returned, name="ours").answer("q1", "When?")


@pytest.mark.parametrize("kind", RETRIEVED)
def test_what_a_retriever_returns_is_contexts(kind: str) -> None:
    found = answer_to(RETRIEVED[kind])
    assert (found.text, found.error, found.flags) == ("", None, ("retrieval_only",))
    for passage in found.passages:
        assert passage.text == TEXT
        assert kind == "texts" or "rail" in (passage.passage_id, passage.doc_id)
        assert passage.score in (None, 0.5)
    assert len(found.contexts) == (kind != "nothing found")


@pytest.mark.parametrize("kind", ANSWERED)
def test_what_a_chain_returns_is_an_answer_with_contexts(kind: str) -> None:
    found = answer_to(ANSWERED[kind])
    assert (found.text, found.outcome, [p.text for p in found.passages]) == (
        "In 1881.",
        "success",
        [TEXT],
    )


@pytest.mark.parametrize("kind", PLAIN)
def test_what_a_model_returns_is_an_answer(kind: str) -> None:
    found = answer_to(PLAIN[kind])
    assert (found.text, found.contexts) == ("In 1881.", ())
    assert kind != "LangChain message" or (found.usage and found.usage.input_tokens == 9)


@pytest.mark.parametrize("messages", [[], [Obj(type="human", content="?")]])
def test_a_question_is_no_answer(messages: list[Any]) -> None:
    assert answer_to({"messages": messages, "context": [TEXT]}).text == ""


DATA = Dataset(
    "demo",
    "test",
    {"rail": Document("rail", TEXT)},
    [Case("q1", "When?"), Case("q2", "Who?")],
    {"q1": {"rail": 1}, "q2": {}},
)


@pytest.mark.parametrize(
    "context", ["The tram to the harbour was closed after a winter storm in 1953.", {"id": "d77"}]
)
def test_passages_of_other_documents_are_a_warning_and_no_zeros(context: object) -> None:
    with pytest.warns(DataWarning, match="none of its passages") as warned:
        result = rb.evaluate(DATA, lambda question: {"answer": "In 1881.", "contexts": [context]})
    assert len(warned) == 1
    [retrieval] = [one for one in result.perspectives if one.name == "retrieval"]
    assert not retrieval.measured
    assert "nDCG@5" not in set(result.scores["measure"])
    assert not result.passed
    gate = rb.evaluation.load_targets().gated("nDCG@5=0.1")
    with pytest.warns(DataWarning, match="none of its passages"):
        gated = rb.evaluate(
            DATA, lambda question: {"answer": "1881", "contexts": [context]}, targets=gate
        )
    assert not gated.passed


def pieces(question: str) -> Iterator[str]:
    yield from ("In ", "1881.")


async def async_pieces(question: str) -> AsyncIterator[str]:
    yield "In "
    yield "1881."


def messages(question: str) -> Iterator[Any]:
    yield from (Obj(type="AIMessageChunk", content=piece) for piece in ("In ", "", "1881."))


def choices(question: str) -> Iterator[Any]:
    for piece in ("In ", "1881.", None):
        yield Obj(choices=[Obj(delta=Obj(content=piece, role=None))], usage=None)
    yield Obj(choices=[], usage=Obj(prompt_tokens=3, completion_tokens=2))


def parts(question: str) -> Iterator[Any]:
    yield from ({"question": "?"}, {"context": [TEXT]}, {"answer": "In "}, {"answer": "1881."})


def nodes(question: str) -> Any:
    return Obj(response_gen=pieces(question), source_nodes=[Obj(node=NODE, score=0.5)])


async def retrieved(question: str) -> list[str]:
    return [TEXT]


class Engine:
    """As a query engine is: not callable, with a method."""

    name = "engine"

    async def query(self, question: str) -> Any:
        return ANSWERED["LlamaIndex response"]


@pytest.mark.parametrize(
    ("given", "text", "n_contexts"),
    [
        (pieces, "In 1881.", 0),
        (async_pieces, "In 1881.", 0),
        (messages, "In 1881.", 0),
        (choices, "In 1881.", 0),
        (parts, "In 1881.", 1),
        (nodes, "In 1881.", 1),
        (retrieved, "", 1),
    ],
)
def test_streams_and_coroutines_are_read_to_their_end(
    given: Callable[[str], Any], text: str, n_contexts: int
) -> None:
    system = FunctionSystem(given)
    assert (found := system.answer("q1", "When?")).error is None
    assert (found.text, len(found.contexts)) == (text, n_contexts)
    assert given is not choices or (found.usage and found.usage.input_tokens == 3)
    system.close()


def broken(question: str) -> Iterator[str]:
    yield "In "
    raise ConnectionError("gone")


def test_a_stream_that_breaks_is_a_failed_answer() -> None:
    assert FunctionSystem(broken).answer("q1", "When?").error == "ConnectionError: gone"


def test_a_stream_of_what_is_no_text_is_a_failure() -> None:
    assert "cannot be read as an answer" in (answer_to(iter([1, 2])).error or "")


def test_an_object_with_a_query_method_is_a_system_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Dataset(
        "demo", "test", {"rail": Document("rail", TEXT)}, [Case("q1", "When?")], {"q1": {"rail": 1}}
    )
    (tmp_path / "my_engine.py").write_text(
        "from tests.systems.test_shapes import Engine\nengine = Engine()\n"
    )
    monkeypatch.chdir(tmp_path)
    for system in (Engine(), Engine().query, "my_engine:engine"):
        result = rb.evaluate(data, system, perspectives=["retrieval"])  # type: ignore[arg-type]
        assert result.measures.set_index("measure").loc["nDCG@5", "value"] == 1.0


GRAPH = Obj(
    builder=Obj(
        input_schema="state", schemas={"state": {"question": 0, "messages": 0, "answer": 0}}
    ),
    invoke=lambda state: {
        "messages": [*state["messages"], Obj(type="ai", content=f"{state['question']} 1881.")]
    },
)
CHAIN = Obj(
    get_input_jsonschema=lambda: {"properties": {"input": {}}},
    invoke=lambda state: f"{state['input']} 1881.",
)
TEXT_CHAIN = Obj(
    get_input_jsonschema=lambda: {"type": "string"}, invoke=lambda question: f"{question} 1881."
)
PIPELINE = Obj(
    inputs=lambda: {
        "retriever": {"query": {"is_mandatory": True}, "top_k": {"is_mandatory": False}},
        "prompt": {"question": {"is_mandatory": False}, "template": {"is_mandatory": False}},
    },
    graph=["retriever", "prompt", "llm"],
    run=lambda data, include_outputs_from: (
        {
            "llm": {"replies": [f"{data['prompt']['question']} 1881."]},
            "retriever": {"documents": [Obj(content=data["retriever"]["query"], meta={})]},
        }
        if include_outputs_from == {"retriever", "prompt", "llm"}
        and "top_k" not in data["retriever"]
        else {}
    ),
)


@pytest.mark.parametrize("stack", [GRAPH, CHAIN, TEXT_CHAIN, PIPELINE])
def test_graphs_chains_and_pipelines_get_the_question_where_they_take_it(stack: Any) -> None:
    found = FunctionSystem(stack).answer("q1", "In")
    assert (found.text, found.error) == ("In 1881.", None)
    assert [passage.text for passage in found.passages] == (["In"] if stack is PIPELINE else [])


def test_a_retriever_of_haystack_is_a_system() -> None:
    retriever = Obj(run=lambda query: {"documents": [Obj(content=query, meta={}, score=0.5)]})
    assert [one.text for one in FunctionSystem(retriever).answer("q1", "It").passages] == ["It"]


def test_a_pair_of_an_id_and_a_score_is_a_context_and_of_nothing_a_clear_error() -> None:
    assert [one.passage_id for one in read_answer("q", {"contexts": [[7, 0.5]]}).passages] == ["7"]
    with pytest.raises(DataError, match=r"contexts\.0"):
        read_answer("q", {"contexts": [[None, 0.5]]})
