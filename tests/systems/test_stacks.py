"""What the real packages return, where they are installed: the same answer as a direct call gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragbench.systems import FunctionSystem
from ragbench.types import Answer

TEXT = "It opened in 1881."


def asked(system: Any, question: str = "opened") -> Answer:
    answer = FunctionSystem(system).answer("q1", question)
    assert answer.error is None
    return answer


def found(answer: Answer) -> list[tuple[str, str, float | None]]:
    return [(one.passage_id, one.text, one.score) for one in answer.passages]


def test_qdrant() -> None:
    qdrant = pytest.importorskip("qdrant_client")
    models, client = qdrant.models, qdrant.QdrantClient(":memory:")
    vectors = models.VectorParams(size=2, distance=models.Distance.DOT)
    client.create_collection("docs", vectors_config=vectors)
    client.upsert("docs", [models.PointStruct(id=7, vector=[1, 0], payload={"text": TEXT})])
    answer = asked(lambda question: client.query_points("docs", query=[0.5, 0.0]))
    assert found(answer) == [("7", TEXT, 0.5)]


@pytest.mark.filterwarnings("ignore:create_fts_index is deprecated")
def test_lancedb(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb")
    rows = [{"id": "rail", "text": TEXT, "vector": [1.0, 0.0]}]
    table = lancedb.connect(tmp_path).create_table("docs", rows)
    query = table.search([1.0, 0.1]).limit(1)
    for returned in (query, query.to_arrow(), query.to_pandas(), query.to_list()):
        assert found(asked(lambda question, returned=returned: returned)) == [("rail", TEXT, None)]
    table.create_fts_index("text")
    [(_, _, score)] = found(asked(lambda question: table.search(question, query_type="fts")))
    assert score == pytest.approx(table.search("opened", query_type="fts").to_list()[0]["_score"])


def test_tantivy() -> None:
    tantivy = pytest.importorskip("tantivy")
    schema = tantivy.SchemaBuilder()
    for field in ("id", "body"):
        schema.add_text_field(field, stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer()
    writer.add_document(tantivy.Document(id="rail", body=TEXT))
    writer.commit()
    index.reload()
    searcher = index.searcher()
    [(score, address)] = searcher.search(index.parse_query("opened", ["body"]), 3).hits
    document = searcher.doc(address)
    assert found(asked(lambda question: [(score, document)])) == [("rail", TEXT, score)]
    assert found(asked(lambda question: [document])) == [("rail", TEXT, None)]
    refused = FunctionSystem(lambda question: [(score, address)]).answer("q1", "opened")
    assert "DocAddress" in (refused.error or "")


def test_haystack() -> None:
    haystack = pytest.importorskip("haystack")
    builders = pytest.importorskip("haystack.components.builders")
    retrievers = pytest.importorskip("haystack.components.retrievers.in_memory")
    stores = pytest.importorskip("haystack.document_stores.in_memory")

    class Model:
        @haystack.component.output_types(replies=list[str])  # type: ignore[untyped-decorator,unused-ignore]
        def run(self, prompt: str) -> dict[str, list[str]]:
            return {"replies": [prompt]}

    store = stores.InMemoryDocumentStore()
    store.write_documents([haystack.Document(id="rail", content=TEXT)])
    pipeline = haystack.Pipeline()
    pipeline.add_component("retriever", retrievers.InMemoryBM25Retriever(store))
    prompt = builders.PromptBuilder(
        "{{ documents[0].content }} {{ question }}", required_variables="*"
    )
    pipeline.add_component("prompt", prompt)
    pipeline.add_component("model", haystack.component(Model)())
    pipeline.connect("retriever", "prompt.documents")
    pipeline.connect("prompt", "model")
    answer = asked(pipeline)
    assert answer.text == f"{TEXT} opened"
    [document] = retrievers.InMemoryBM25Retriever(store).run(query="opened")["documents"]
    assert found(answer) == found(asked(retrievers.InMemoryBM25Retriever(store)))
    assert found(answer) == [("rail", TEXT, document.score)]


def test_langchain_and_langgraph() -> None:
    pytest.importorskip("langgraph")
    documents = pytest.importorskip("langchain_core.documents")
    language_models = pytest.importorskip("langchain_core.language_models")
    messages = pytest.importorskip("langchain_core.messages")
    prompts = pytest.importorskip("langchain_core.prompts")
    runnables = pytest.importorskip("langchain_core.runnables")
    graphs = pytest.importorskip("langgraph.graph")
    from typing_extensions import TypedDict

    class State(TypedDict):  # its own on Python 3.11
        question: str
        context: list[Any]
        answer: str

    documents = [documents.Document(page_content=TEXT, id="rail")]
    graph: Any = graphs.StateGraph(State)
    graph.add_node("search", lambda state: {"context": documents})
    graph.add_node("answer", lambda state: {"answer": state["question"]})
    graph.add_edge(graphs.START, "search")
    graph.add_edge("search", "answer")
    answer = asked(graph.compile())
    assert (answer.text, found(answer)) == ("opened", [("rail", TEXT, None)])
    agent: Any = graphs.StateGraph(graphs.MessagesState)
    tool = messages.ToolMessage("", artifact=documents, tool_call_id="1")
    agent.add_node(
        "a", lambda state: {"messages": [tool, messages.AIMessage(state["messages"][0].content)]}
    )
    agent.add_edge(graphs.START, "a")
    assert found(asked(agent.compile())) == [("rail", TEXT, None)]
    chain = prompts.ChatPromptTemplate.from_template(
        "{question}"
    ) | language_models.FakeListChatModel(responses=["In 1881."])
    assert asked(chain).text == "In 1881."
    assert asked(lambda question: chain.stream({"question": question})).text == "In 1881."
    assert asked(lambda question: chain.astream({"question": question})).text == "In 1881."
    rag = runnables.RunnablePassthrough.assign(context=lambda state: documents).assign(answer=chain)
    for returned in (rag, lambda question: rag.stream({"question": question})):
        answer = asked(returned)
        assert (answer.text, found(answer)) == ("In 1881.", [("rail", TEXT, None)])


def test_llama_index() -> None:
    pytest.importorskip("llama_index.core")
    responses = pytest.importorskip("llama_index.core.base.response.schema")
    schema = pytest.importorskip("llama_index.core.schema")

    nodes = [schema.NodeWithScore(node=schema.TextNode(text=TEXT, id_="rail"), score=0.5)]
    stream = responses.StreamingResponse(
        response_gen=(piece for piece in ("In ", "1881.")), source_nodes=nodes
    )
    answer = asked(lambda question: stream)
    assert (answer.text, found(answer)) == ("In 1881.", [("rail", TEXT, 0.5)])
