"""One index behind several doors gives the same answers and the same scores, to the last digit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ragbench as rb
from ragbench.systems import HttpSystem, McpSystem, Pipeline, ask, match_passages
from ragbench.types import Answer, Dataset

pytest.importorskip("mcp")
K = 3
SERVER = Path(__file__).with_name("notes_server.py")
PATHS = {"contexts": "$.hits", "context": {"id": "ref", "text": "body", "score": "rank"}}
EXTRACTED = {
    **PATHS,
    "answer": "$.reply.text",
    "citations": "$.cites",
    "confidence": "$.sure",
    "outcome": "$.kind",
}


def comparable(answers: Sequence[Answer]) -> list[Answer]:
    """The answers, without how long it took and without the texts that a pipeline keeps in its
    chunks.
    """
    return [replace(answer, latency_ms={}, passages=(), usage=None) for answer in answers]


def scores(data: Dataset, answers: Sequence[Answer], chunks: Sequence[rb.Chunk]) -> pd.DataFrame:
    run = match_passages(answers, data).run
    ranked = {
        answer.query_id: {chunk_id: float(-rank) for rank, chunk_id in enumerate(answer.contexts)}
        for answer in answers
    }
    parts = [
        rb.score_run(data.qrels, run, ["nDCG@10", "R@5", "RR", "AP"]),
        rb.metrics.score_answers(data, answers, embedder="wordllama"),
        rb.metrics.score_spans(data, ranked, chunks, tokenizer="minilm"),
    ]
    joined: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return joined


def asked(system: Any, data: Dataset) -> list[Answer]:
    with closing(system):
        return ask(system, data)


@pytest.fixture(scope="module")
def by_model(
    real_data: tuple[str, Dataset], reader: Callable[[], rb.llms.ScriptedLLM]
) -> tuple[list[Answer], Any]:
    """The pipeline in this process with a language model: its answers and its chunks."""
    pipeline = Pipeline(real_data[1], chunk_size=128, k=K, llm=reader())
    return ask(pipeline, real_data[1]), pipeline.chunks


@pytest.fixture(scope="module")
def by_extraction(real_data: tuple[str, Dataset]) -> tuple[list[Answer], Any]:
    pipeline = Pipeline(real_data[1], chunk_size=128, k=K)
    return ask(pipeline, real_data[1]), pipeline.chunks


def check(data: Dataset, answers: list[Answer], expected: tuple[list[Answer], Any]) -> None:
    assert comparable(answers) == comparable(expected[0])
    pd.testing.assert_frame_equal(
        scores(data, answers, expected[1]), scores(data, expected[0], expected[1]), check_exact=True
    )


def test_the_answers_differ_from_question_to_question(by_model: tuple[list[Answer], Any]) -> None:
    assert (
        len({answer.text for answer in by_model[0]}) > 20
    )  # otherwise the tests below could not fail


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("ask", {"reply": {**PATHS, "answer": "$.reply.text"}}),
        ("stream", {"reply": PATHS, "delta": "$.delta"}),
    ],
)
def test_http(
    real_data: Any, web_service: str, by_model: Any, path: str, options: dict[str, Any]
) -> None:
    system = HttpSystem(f"{web_service}/{path}", body={"text": "{query}"}, **options)
    check(real_data[1], asked(system, real_data[1]), by_model)


def test_http_extractive(real_data: Any, web_service: str, by_extraction: Any) -> None:
    system = HttpSystem(f"{web_service}/extract", body={"text": "{query}"}, reply=EXTRACTED)
    check(real_data[1], asked(system, real_data[1]), by_extraction)


def test_http_passages_without_ids_find_their_documents_again(
    real_data: Any, web_service: str, by_model: Any
) -> None:
    system = HttpSystem(
        f"{web_service}/bare",
        body={"text": "{query}"},
        reply={"answer": "$.reply.text", "contexts": "$.hits"},
    )
    matched = match_passages(asked(system, real_data[1]), real_data[1])
    expected = match_passages(by_model[0], real_data[1])
    # A text that several documents hold is credited to none of them for certain.
    texts = {chunk.chunk_id: chunk.text for chunk in by_model[1]}
    corpus = [document.full_text for document in real_data[1].corpus.values()]
    clear = {
        answer.query_id
        for answer in by_model[0]
        if all(sum(texts[context] in text for text in corpus) == 1 for context in answer.contexts)
    }
    assert clear
    assert {query: list(matched.run[query]) for query in clear} == {
        query: list(expected.run[query]) for query in clear
    }
    assert matched.counts["exact"] == sum(matched.counts.values()) - matched.counts["several"]
    used = {chunk_id for answer in by_model[0] for chunk_id in answer.contexts}
    assert {chunk.text for chunk in matched.chunks} == {
        c.text for c in by_model[1] if c.chunk_id in used
    }


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_mcp(
    real_data: Any,
    reader: Any,
    notes_url: str,
    passed_on: list[str],
    by_model: Any,
    by_extraction: Any,
    door: str,
) -> None:
    name, data = real_data
    command = [sys.executable, str(SERVER), "--dataset", name]
    where = {"server": notes_url} if door == "http" else {"server": command, "env": passed_on}
    with McpSystem(**where, tool="answer", sampling=reader()) as system:
        answers = ask(system, data)
        assert {"search", "answer", "extract"} <= set(system.tools())
        few = data.select(list(data.queries)[:3])
        varied = rb.evaluate(few, system, perspectives="answer", interventions="paraphrase").output
        assert varied is not None
        assert [answer.failed for answer in varied.variations["paraphrase"].answers] == [False] * 3
    check(data, answers, by_model)
    assert all(answer.usage is not None and answer.usage.input_tokens > 50 for answer in answers)
    assert answers[0].usage is not None
    assert answers[0].usage.model == "scripted:reader"
    if door == "http":
        with McpSystem(notes_url, tool="extract") as extracting:
            check(data, ask(extracting, data), by_extraction)
        with McpSystem(notes_url, tool="search") as searching:
            found = ask(searching, data)
        assert {answer.flags for answer in found} == {("retrieval_only",)}
        assert match_passages(found, data).run == match_passages(answers, data).run
