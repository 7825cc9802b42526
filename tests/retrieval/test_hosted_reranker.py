"""Rerankers of a server, on loopback: their documented replies, kept, counted by a dry run, no keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.retrieval import rerank
from ragbench.retrieval.steps.stepped_search import check_steps
from ragbench.systems import Pipeline
from ragbench.types import Case, Chunk, Dataset, Document, Run

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
    with pytest.raises(ConfigError, match="'voyage:' names no model; write 'voyage:<model>'"):
        check_steps({"retriever": "bm25", "reranker": "voyage:"})


def replies(wire: Any, searches: int = 1, tokens: int = 0) -> Callable[[Any], Any]:
    """Replies as Cohere bills them, by the search, or as Voyage does, by the token."""

    def reply(asked: Any) -> Any:
        scored = [
            {"index": i, "relevance_score": len(text) / 100}
            for i, text in enumerate(asked.body["documents"])
        ]
        if searches:
            meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": searches}}
            return wire.Answered({"id": "x", "results": scored, "meta": meta})
        return wire.Answered({"data": scored, "usage": {"total_tokens": tokens}})

    return reply


DATA = Dataset(
    "demo",
    "test",
    {
        "cats": Document("cats", "Cats sleep most of the day. Cats hunt at night."),
        "dogs": Document("dogs", "Dogs sleep at night. Dogs bark at strangers."),
    },
    [Case("q1", "When do cats sleep?"), Case("q2", "Who barks at night?")],
    {"q1": {"cats": 1}, "q2": {"dogs": 1}},
)


@pytest.mark.parametrize(
    ("model", "searches", "tokens", "usd"),
    [
        ("cohere:rerank-v3.5", 1, 0, 2 * 0.002),
        ("cohere:rerank-v4.0-pro", 3, 0, 2 * 3 * 0.0025),
        ("voyage:rerank-2.5", 0, 1_000, 2 * 1_000 * 0.05 / 1e6),
        ("voyage:rerank-2.5", 0, 0, None),  # no usage figures
        ("jina:jina-reranker-v2", 0, 1_000, None),  # no price
    ],
)
def test_its_price_is_a_cost_of_the_result_and_of_each_question(
    serve: Any, loopback: Any, wire: Any, model: str, searches: int, tokens: int, usd: float | None
) -> None:
    serve()
    server = loopback(replies(wire, searches, tokens))
    pipeline = Pipeline(DATA, "bm25", reranker=f"{model}@{server.url}", llm="none")
    result = rb.evaluate(DATA, pipeline, perspectives="retrieval")
    [cost] = [cost for cost in result.costs if cost.part == "reranker"]
    assert (cost.model, cost.requests, cost.failed) == (model, 2, 0)
    assert len(server.asked) == 2, "the latency is measured with stored replies"
    expected = None if usd is None else pytest.approx(usd)
    assert cost.usd == expected
    assert result.facts["reranker_cost_usd"] == expected
    assert result.facts["cost_usd"] == expected
    [row] = rb.Results([result]).leaderboard().to_dict("records")
    if usd is not None:
        assert row["cost_per_1000_usd"] == pytest.approx(500 * usd)
    else:
        assert row["cost_per_1000_usd"] != 0


def test_a_dry_run_and_the_maximum_cost_know_the_price(
    serve: Any, loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    serve()
    server = loopback(replies(wire))
    name = f"cohere:rerank-v3.5@{server.url}"
    with rb.dry_run() as plan:
        rerank(RUN, QUERIES, CHUNKS, name, k=9)
    [model] = plan.models
    assert model.to_send == 2
    assert model.cost == pytest.approx(0.004)
    many = [Chunk(f"e{i}#0", f"e{i}", 0, 3, f"{i:03}") for i in range(150)]
    deep: Run = {"q": {chunk.chunk_id: 1.0 for chunk in many}, "r": {"e0#0": 1.0}}
    with rb.dry_run() as plan:
        rerank(deep, QUERIES, many, name, k=9)
    assert [model.max_cost for model in plan.models] == [pytest.approx(0.006)], "2 searches and 1"
    llm_environment.setenv("RAGBENCH_MAX_COST", "0.0021")
    with pytest.raises(ModelError, match=r"budget: cohere:rerank-v3.5 may cost 0.0020 dollars"):
        rerank(RUN, QUERIES, CHUNKS, name, k=9)
    assert len(server.asked) == 1
    with pytest.raises(ConfigError, match="the price of jina:mine is unknown"):
        check_steps({"retriever": "bm25", "reranker": f"jina:mine@{server.url}"})


def test_a_busy_server_is_waited_for_and_a_slow_one_is_not(
    serve: Any, loopback: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(
        "ragbench.llms.failures.RetryPolicy._back_off", lambda *args: waits.append(1.0)
    )
    serve()
    good = replies(wire)
    refusals = [
        wire.Answered(status=429, headers={"retry-after": "0"}),
        wire.Answered(status=503),
    ]
    server = loopback(lambda asked: refusals.pop() if refusals else good(asked))
    one: Run = {"q": RUN["q"]}
    ranked = rerank(one, QUERIES, CHUNKS, f"cohere:rank-1@{server.url}", k=9)
    assert list(ranked["q"]) == ["d1#0", "d2#0", "d0#0"]
    assert len(server.asked) == 3
    slow = loopback(lambda asked: wire.Answered(good(asked).body, delay_s=5.0))
    with pytest.raises(ModelError, match=r"no reply within 0\.2") as caught:
        rerank(one, QUERIES, CHUNKS, f"cohere:rank-2@{slow.url}", k=9, timeout_s=0.2)
    assert caught.value.failure == FailureKind.TIMEOUT
