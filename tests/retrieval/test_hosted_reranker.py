"""Rerankers of a server, on loopback: their documented replies, kept, counted by a dry run, no keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import ConfigError, ModelError
from ragbench.retrieval import rerank
from ragbench.retrieval.steps.search import check_steps
from ragbench.types import Chunk, Run

KEY = "rk-test-41b7-do-not-show"
CHUNKS = [Chunk(f"d{i}#0", f"d{i}", 0, len(t), t) for i, t in enumerate(["a", "bbb", "cc"])]
RUN: Run = {"q": {"d0#0": 3.0, "d1#0": 2.0, "d2#0": 1.0}, "r": {"d2#0": 1.0}, "none": {}}
QUERIES = {"q": "long?", "r": "short?", "none": "?"}


@pytest.fixture
def serve(loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A server that scores by length, as Cohere and Jina ("results") or Voyage ("data") reply."""

    def start(field: str = "results", refuse: Any = None) -> Any:
        def reply(asked: Any) -> Any:
            if refuse is not None:
                return refuse
            scored = [
                {"index": i, "relevance_score": len(text) / 10}
                for i, text in enumerate(asked.body["documents"])
            ]
            return wire.Answered({field: scored[::-1], "usage": {"total_tokens": 7}})

        for provider in ("COHERE", "VOYAGE", "JINA"):
            llm_environment.setenv(f"{provider}_API_KEY", KEY)
        return loopback(reply)

    return start


@pytest.mark.parametrize(
    ("provider", "field", "limit"),
    [("cohere", "results", "top_n"), ("voyage", "data", "top_k"), ("jina", "results", "top_n")],
)
def test_each_question_is_one_request_and_asked_once(
    serve: Any, provider: str, field: str, limit: str
) -> None:
    server = serve(field)
    name = f"{provider}:rank-1@{server.url}"
    reranked = rerank(RUN, QUERIES, CHUNKS, name, k=9)
    assert reranked == {
        "q": {"d1#0": 0.3, "d2#0": 0.2, "d0#0": 0.1},
        "r": {"d2#0": 0.2},
        "none": {},
    }
    assert {asked.path.rpartition("/")[2] for asked in server.asked} == {"rerank"}
    bodies = {asked.body["query"]: asked.body for asked in server.asked}
    assert bodies["long?"] == {
        "model": "rank-1",
        "query": "long?",
        "documents": ["a", "bbb", "cc"],
        limit: 3,
    }
    assert rerank(RUN, QUERIES, CHUNKS, name, k=9) == reranked
    assert len(server.asked) == 2, "paid once"
    shallow = rerank(RUN, QUERIES, CHUNKS, name, k=9, depth=2)["q"]
    assert list(shallow) == ["d1#0", "d0#0", "d2#0"]
    assert server.asked[2].body["documents"] == ["a", "bbb"]


def test_a_dry_run_counts_and_sends_nothing(serve: Any) -> None:
    server = serve()
    with rb.dry_run() as plan:
        order = rerank(RUN, QUERIES, CHUNKS, f"cohere:rank-1@{server.url}", k=9)
    assert [(model.model, model.to_send) for model in plan.models] == [("cohere:rank-1", 2)]
    assert list(order["q"]) == list(RUN["q"])
    assert server.asked == []


def test_what_a_server_refuses_is_an_error_without_the_key(serve: Any, wire: Any) -> None:
    server = serve(refuse=wire.Answered({"message": f"bad key {KEY}"}, status=401))
    with pytest.raises(ModelError, match="the key was refused; set JINA_API_KEY") as caught:
        rerank(RUN, QUERIES, CHUNKS, f"jina:rank-1@{server.url}", k=9)
    assert KEY not in str(caught.value)


def test_a_reply_of_too_few_scores_is_refused(serve: Any, wire: Any) -> None:
    few = wire.Answered({"results": [{"index": 0, "relevance_score": 1.0}]})
    server = serve(refuse=few)
    with pytest.raises(ModelError, match="1 scores for 3 texts"):
        rerank({"q": RUN["q"]}, QUERIES, CHUNKS, f"cohere:rank-1@{server.url}", k=9)


def test_a_key_that_is_missing_is_named_before_anything_is_sent(
    llm_environment: pytest.MonkeyPatch,
) -> None:
    llm_environment.delenv("COHERE_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="cohere:rank-1: no key; set COHERE_API_KEY"):
        check_steps({"retriever": "bm25", "reranker": "cohere:rank-1"})
    with pytest.raises(ConfigError, match="'voyage:' names no model; write voyage:<model>"):
        check_steps({"retriever": "bm25", "reranker": "voyage:"})
