"""FunctionSystem: any function gives exactly one answer."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from ragbench.errors import ConfigError, DataWarning
from ragbench.systems import FunctionSystem, ask
from ragbench.types import Answer, Case, Dataset

DATA = Dataset("demo", "test", {}, [Case(f"q{i}", f"question {i}?") for i in range(20)], {})


def test_a_function_of_any_keywords_gets_none() -> None:
    def answer(question: str, **options: object) -> str:
        return f"{question} {options}"

    assert FunctionSystem(answer).answer("q1", "Why?", history=()).text == "Why? {}"


def test_a_text_a_dict_and_an_answer_are_answers() -> None:
    assert FunctionSystem(lambda q: f"{q} Yes.").answer("q1", "Why?").text == "Why? Yes."
    found = FunctionSystem(
        lambda q: {"answer": "Yes [2].", "contexts": ["one", {"id": "b", "text": "two"}]}
    ).answer("q1", "Why?")
    assert (found.citations, found.outcome) == (("b",), "success")
    assert FunctionSystem(lambda q: Answer("other", "Yes.")).answer("q1", "Why?").query_id == "q1"


@dataclass
class Page:
    """As LangChain's documents are."""

    page_content: str
    metadata: dict[str, Any]
    id: str | None = None


@dataclass
class Node:
    node_id: str
    text: str
    metadata: dict[str, Any]


@dataclass
class Scored:
    """As LlamaIndex's nodes with their scores are."""

    node: Node
    score: float


@pytest.mark.parametrize(
    "contexts",
    [
        {"context": [{"page_content": "It opened in 1881.", "metadata": {"source": "rail"}}]},
        {"context": [Page("It opened in 1881.", {"source": "rail"})]},
        {"source_documents": (Page("It opened in 1881.", {"doc_id": "rail"}),)},
        {"source_nodes": [Scored(Node("n7", "It opened in 1881.", {"document_id": "rail"}), 0.5)]},
        {
            "source_nodes": [
                {"node": {"id_": "n7", "text": "It opened in 1881.", "metadata": {}}, "score": 0.5}
            ]
        },
        {"results": [{"document": {"text": "It opened in 1881."}, "relevance_score": 0.5}]},
        {"sources": [{"chunk": {"id": "n7", "content": "It opened in 1881."}, "score": 0.5}]},
        {"sources": [{"document": {"id": "rail", "text": "It opened in 1881."}}]},
        {"documents": [{"id": "rail", "content": "It opened in 1881."}]},
        {"hits": [{"id": "rail", "text": "It opened in 1881."}]},
        {
            "hits": {
                "total": 1,
                "hits": [{"_id": "rail", "_score": 0.5, "_source": {"text": "It opened in 1881."}}],
            }
        },
        {"context": "It opened in 1881."},
    ],
)
def test_contexts_are_found_under_the_names_that_frameworks_use(contexts: dict[str, Any]) -> None:
    found = FunctionSystem(lambda q: {"answer": "In 1881 [1].", **contexts}).answer("q1", "When?")
    [passage] = found.passages
    assert (found.text, passage.text, found.citations) == (
        "In 1881 [1].",
        "It opened in 1881.",
        (passage.passage_id,),
    )
    if "rail" in str(contexts):
        assert "rail" in (passage.passage_id, passage.doc_id)
    if "0.5" in str(contexts):
        assert passage.score == 0.5


def test_a_count_of_hits_is_not_a_list_of_contexts() -> None:
    assert (
        FunctionSystem(lambda q: {"answer": "In 1881.", "hits": 3, "documents": {}})
        .answer("q1", "?")
        .contexts
        == ()
    )


def test_the_answer_of_a_retrieval_chain_is_its_result() -> None:
    found = FunctionSystem(lambda q: {"result": "In 1881.", "source_documents": []}).answer(
        "q1", "When?"
    )
    assert (found.text, found.flags) == ("In 1881.", ())


def test_an_abstention_is_detected_by_its_wording() -> None:
    assert (
        FunctionSystem(lambda q: "The documents do not say that.").answer("q", "?").outcome
        == "no_results"
    )


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (None, "None (NoneType); expected a text"),
        (7, "7 (int)"),
        (object, "<class 'object'> (type)"),
        ({}, "found none"),
        ({"reply": "Yes."}, "expected a field 'answer', found reply"),
        ({"answer": 7.5, "confidence": "high"}, "confidence is 'high'"),
        (
            {"answer": "Yes.", "contexts": [{"text": "a", "score": "high"}]},
            r"contexts.0.score is 'high'",
        ),
        ({"answer": "Yes.", "outcome": "fine"}, "outcome is 'fine'"),
    ],
)
def test_an_invalid_answer_is_a_failed_one_with_the_reason(returned: Any, error: str) -> None:
    answer = FunctionSystem(lambda q: returned, name="ours").answer("q1", "Why?")
    assert answer.outcome == "failed"
    assert answer.text == ""
    assert error in (answer.error or "")


def test_exceptions_are_counted_and_do_not_end_the_run() -> None:
    def ours(question: str) -> str:
        if question in ("question 3?", "question 7?"):
            raise ValueError(f"cannot do {question}")
        return question

    with pytest.warns(
        DataWarning,
        match=r"ours: 2 of 20 answers failed, the first for query 'q3': ValueError: cannot",
    ):
        answers = ask(FunctionSystem(ours), DATA)
    assert [answer.query_id for answer in answers] == list(DATA.queries)
    assert [answer.query_id for answer in answers if answer.error] == ["q3", "q7"]
    assert all(answer.latency_ms["total"] >= 0 for answer in answers)


def test_ctrl_c_in_the_function_ends_the_run() -> None:
    def ours(question: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(FunctionSystem(ours), DATA)


def test_asynchronous_functions_share_one_loop_and_run_concurrently() -> None:
    loops = set()
    at_once = most = 0

    async def ours(question: str) -> str:
        nonlocal at_once, most
        loops.add(asyncio.get_running_loop())
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.2)
        at_once -= 1
        return question.upper()

    system = FunctionSystem(ours)
    answers = ask(system, DATA, concurrency=10)
    system.close()
    assert [answer.text for answer in answers] == [case.text.upper() for case in DATA.cases]
    assert len(loops) == 1
    assert most == 10


def test_an_asynchronous_function_works_inside_a_running_loop_as_in_jupyter() -> None:
    async def ours(question: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"answer": "Yes."}

    async def notebook() -> str:
        system = FunctionSystem(ours)
        try:
            return system.answer("q1", "Why?").text
        finally:
            system.close()

    assert asyncio.run(notebook()) == "Yes."


def test_a_system_that_is_dropped_leaves_no_thread() -> None:
    async def ours(question: str) -> str:
        return "Yes."

    system = FunctionSystem(ours, name="dropped loop")
    system.answer("q1", "Why?")
    assert any(thread.name == "dropped loop" for thread in threading.enumerate())
    del system
    assert not any(thread.name == "dropped loop" for thread in threading.enumerate())


def test_an_exception_of_an_asynchronous_function_is_the_answers() -> None:
    async def ours(question: str) -> str:
        raise OSError("no disk")

    system = FunctionSystem(ours)
    assert system.answer("q1", "Why?").error == "OSError: no disk"
    system.close()


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="neither a function of the question"):
        FunctionSystem("bm25")
