"""Pipeline: the steps of the notebook as one system."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataWarning, ModelError
from ragbench.systems import Pipeline, ask
from ragbench.types import Dataset


@pytest.fixture(scope="module")
def pydoc() -> Dataset:
    data: Dataset = rb.load_dataset("pydoc")
    return data.select(list(data.queries)[:12])


def scripted() -> rb.llms.ScriptedLLM:
    """Answers with the start of its first document, so that another context is another answer."""
    return rb.llms.ScriptedLLM(lambda prompt: f"{prompt.partition('</document>')[0][-80:]} [1]")


@pytest.mark.parametrize("retriever", ["bm25", "hybrid:wordllama"])
@pytest.mark.parametrize("llm", ["extractive", "scripted"])
def test_a_batch_is_retrieve_and_generate_answers(pydoc: Dataset, retriever: str, llm: str) -> None:
    chunks = rb.chunk(pydoc, "recursive", chunk_size=128)
    run = rb.retrieve(rb.make_retriever(retriever, chunks), pydoc.queries, chunks)
    expected = rb.generate_answers(
        pydoc, run, chunks, scripted() if llm == "scripted" else llm, k=3
    )
    system = Pipeline(
        pydoc, retriever, chunk_size=128, k=3, llm=scripted() if llm == "scripted" else llm
    )
    assert ask(system, pydoc) == expected
    assert system.chunks == chunks
    assert system.run == run


@pytest.mark.parametrize("llm", ["extractive", "scripted"])
def test_one_by_one_the_answers_are_the_same_and_say_how_long_a_user_waits(
    pydoc: Dataset, llm: str
) -> None:
    batch = ask(Pipeline(pydoc, llm=scripted() if llm == "scripted" else llm), pydoc)
    pipeline = Pipeline(pydoc, llm=scripted() if llm == "scripted" else llm)
    alone = [pipeline.answer(query_id, query) for query_id, query in pydoc.queries.items()]
    assert [replace(answer, latency_ms={}) for answer in alone] == [
        replace(answer, latency_ms={}) for answer in batch
    ]
    for answer in alone:
        assert set(answer.latency_ms) == {"search", "generate", "total"}
        assert answer.latency_ms["total"] == pytest.approx(
            answer.latency_ms["search"] + answer.latency_ms["generate"]
        )


def test_a_reply_of_the_store_has_no_latency(pydoc: Dataset) -> None:
    kept = rb.llms.ScriptedLLM(lambda prompt: rb.types.Completion("Yes [1].", "m", cached=True))
    answer = Pipeline(pydoc, llm=kept).answer("q", "What does a try statement do?")
    assert set(answer.latency_ms) == {"search"}


def test_a_model_that_fails_gives_failed_answers(pydoc: Dataset) -> None:
    with pytest.warns(DataWarning, match="12 of 12 answers failed"):
        answers = ask(Pipeline(pydoc, llm=rb.llms.ScriptedLLM([])), pydoc)
    assert {answer.outcome for answer in answers} == {"failed"}


def test_a_model_server_is_looked_for_before_anything_is_indexed(
    pydoc: Dataset, llm_environment: pytest.MonkeyPatch
) -> None:
    llm_environment.setenv("RAG_EVAL_OLLAMA_BASE_URL", "http://127.0.0.1:9")
    llm_environment.setattr("ragbench.systems.pipeline.chunk", None)
    with pytest.raises(
        ModelError, match=r"ollama:m: no server takes connections at 127\.0\.0\.1, port 9"
    ):
        Pipeline(pydoc, llm="ollama:m")
    llm_environment.undo()
    llm_environment.setenv("RAG_EVAL_OLLAMA_BASE_URL", "http://127.0.0.1:9")
    llm_environment.setenv("RAGBENCH_REPLIES", "offline")
    assert "ollama:m" in Pipeline(pydoc, llm="ollama:m").name


def test_what_cannot_work_is_refused_before_anything_is_indexed(pydoc: Dataset) -> None:
    with pytest.raises(ConfigError, match="has none; name them with `corpus`"):
        Pipeline(replace(pydoc, corpus={}))
    with pytest.raises(ConfigError, match="depth of at least k"):
        Pipeline(pydoc, k=10, depth=5)
    with pytest.raises(ConfigError, match="did you mean 'bm25'"):
        Pipeline(pydoc, "bm-25")
    with pytest.raises(ConfigError, match="unknown LLM provider"):
        Pipeline(pydoc, llm="olama:x")


def test_its_name_lists_its_parts(pydoc: Dataset) -> None:
    assert (
        Pipeline(pydoc, "bm25", llm=scripted(), name="").name
        == "bm25, recursive 256, scripted:test"
    )
    assert Pipeline(pydoc, name="ours").name == "ours"
