"""Embedders of a server, on loopback: batched, kept, priced, counted by a dry run, within the
budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import store
from ragbench.cli import app
from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.llms.failures import RetryPolicy
from ragbench.retrieval.embedders import check_embedder, load_embedder
from ragbench.types import Case, Dataset, Document

KEY = "sk-test-7f3a9d-do-not-show"
SMALL = "openai:text-embedding-3-small"
WORDS = ["cat", "dog", "rail", "line", "opened"]


@pytest.fixture
def serve(loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A server that counts words, as OpenAI's and as Ollama's; `refuse` gives that reply in place
    of a vector.
    """

    def start(refuse: Any = None) -> Any:
        def reply(asked: Any) -> Any:
            if refuse is not None:
                return refuse
            vectors = [
                [float(text.lower().count(word)) + 0.01 for word in WORDS]
                for text in asked.body["input"]
            ]
            if asked.path.endswith("/api/embed"):
                return wire.Answered({"embeddings": vectors, "prompt_eval_count": 5 * len(vectors)})
            data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
            return wire.Answered(
                {"data": data[::-1], "usage": {"prompt_tokens": 1000 * len(vectors)}}
            )

        server = loopback(reply)
        llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        llm_environment.setenv("RAG_EVAL_OLLAMA_BASE_URL", server.url)
        llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", KEY)
        return server

    return start


@pytest.mark.parametrize(
    ("name", "path"), [(SMALL, "/v1/embeddings"), ("ollama:nomic-embed-text", "/api/embed")]
)
def test_texts_go_in_batches_and_are_asked_for_once(serve: Any, name: str, path: str) -> None:
    server = serve()
    texts = ["a cat", "", "the line", *(f"dog {i}" for i in range(200))]
    rows = load_embedder(name).encode(texts)
    assert rows.shape == (203, len(WORDS))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 0, *[1] * 201], atol=1e-6)
    assert rows[0].argmax() == 0
    assert [asked.path for asked in server.asked] == [path] * 2
    assert "" not in [text for asked in server.asked for text in asked.body["input"]]
    again = load_embedder(name).encode([*texts, "a new cat"])  # only what is new is sent
    assert server.asked[2].body["input"] == ["a new cat"]
    np.testing.assert_array_equal(again[:-1], rows)


def test_another_server_is_another_embedder(serve: Any, loopback: Any, wire: Any) -> None:
    serve()
    other = loopback(
        lambda asked: wire.Answered({"data": [{"embedding": [1, 0]} for _ in asked.body["input"]]})
    )
    assert load_embedder(SMALL).encode(["a cat"]).shape == (1, 5)
    assert load_embedder(f"{SMALL}@{other.url}/v1").encode(["a cat"]).shape == (1, 2)
    assert [asked.path for asked in other.asked] == ["/v1/embeddings"]


def test_what_was_kept_is_enough_offline(serve: Any, llm_environment: pytest.MonkeyPatch) -> None:
    server = serve()
    rows = load_embedder(SMALL).encode(["a cat"])
    store.clear()
    llm_environment.setenv("RAGBENCH_REPLIES", "offline")
    np.testing.assert_array_equal(load_embedder(SMALL).encode(["a cat"]), rows)
    with pytest.raises(
        ModelError, match="offline, and the reply store has no reply to the prompt 'a dog'"
    ):
        load_embedder(SMALL).encode(["a dog"])
    assert len(server.asked) == 1


def test_a_dry_run_counts_texts_and_sends_nothing(serve: Any) -> None:
    server = serve()
    load_embedder(SMALL).encode(["a cat"])
    with rb.dry_run() as plan:
        load_embedder(SMALL).encode(["a cat", "a dog" * 100])
    [one] = plan.models
    assert (one.model, one.cached, one.to_send, one.input_tokens) == (SMALL, 1, 1, 128)
    assert one.cost == pytest.approx(128 * 0.02 / 1e6, rel=0.01)
    assert len(server.asked) == 1
    assert load_embedder(SMALL).encode(["a cat", "a dog" * 100]).shape == (
        2,
        5,
    )  # no stand-in was kept


def test_the_budget_is_respected_and_unknown_prices_are_refused(
    serve: Any, llm_environment: Any
) -> None:
    server = serve()
    llm_environment.setenv("RAGBENCH_MAX_COST", "0.0000001")
    with pytest.raises(ModelError, match="budget: openai:text-embedding-3-small may cost"):
        load_embedder(SMALL).encode(["a cat"])
    with pytest.raises(ConfigError, match="the price of openai:other is unknown"):
        check_embedder("openai:other")
    assert server.asked == []
    llm_environment.setenv("RAGBENCH_MAX_COST", "1")
    load_embedder(SMALL).encode(["a cat"])


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"error": {"message": f"bad key {KEY}"}}, 401, "the key was refused"),
        ({"data": [{"embedding": ["x"]}]}, 200, "openai:text-embedding-3-small"),
        ({"data": []}, 200, "for 1 texts"),
    ],
)
def test_what_goes_wrong_is_one_error_without_the_key(
    serve: Any, wire: Any, body: Any, status: int, message: str
) -> None:
    serve(wire.Answered(body, status=status))
    with pytest.raises(ModelError, match=message) as caught:
        load_embedder(SMALL).encode(["a cat"])
    assert KEY not in str(caught.value)


GOOD = {
    "data": [{"index": 1, "embedding": [1.0, 2.0]}, {"index": 0, "embedding": [3, 4]}],
    "model": "m",
}


@pytest.mark.parametrize(
    "change",
    [
        {"usage": [1]},
        {"usage": "x"},
        {"model": ["m"]},
        {"data": {"0": 1}},
        {"data": None},
        {"data": ["x", "y"]},
        {"data": [{"embedding": [1.0, 2.0]}, {"embedding": [1.0]}]},
        {"data": [{"embedding": [1.0, 2.0]}]},
        {"data": [{"embedding": []}, {"embedding": []}]},
        {"data": [{"embedding": ["1", "2"]}, {"embedding": [1, 2]}]},
        {"data": [{"embedding": [True, 2]}, {"embedding": [1, 2]}]},
        {"data": [{"embedding": [float("nan"), 2]}, {"embedding": [1, 2]}]},
        {"data": [{"embedding": [1e300, 2]}, {"embedding": [1, 2]}]},
        {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [3, 4]}]},
        {"data": [{"index": [1], "embedding": [1, 2]}, {"index": 0, "embedding": [3, 4]}]},
        {"embeddings": [[1, 2], [1]]},
        {"embeddings": "x"},
        {"embeddings": [[1, 2], None]},
        {"embeddings": [[1, 2]]},
        {"embeddings": [[1, 2], [1, 2]], "model": 7},
    ],
)
def test_vectors_of_another_form_are_unreadable(
    serve: Any, wire: Any, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    monkeypatch.setattr(RetryPolicy, "_back_off", lambda *args: None)
    serve(wire.Answered(json.dumps(GOOD | change).encode()))
    with pytest.raises(ModelError, match="the server's reply cannot be read") as caught:
        load_embedder("ollama:e" if "embeddings" in change else SMALL).encode(["a cat", "a dog"])
    assert caught.value.failure == FailureKind.UNREADABLE
    assert not [
        word
        for word in ("validation error", "object", "inhomogeneous")
        if word in str(caught.value)
    ]


def test_a_good_reply_is_in_the_order_of_the_texts(serve: Any, wire: Any) -> None:
    serve(wire.Answered(GOOD))
    np.testing.assert_allclose(
        load_embedder(SMALL).encode(["a cat", "a dog"])[0], [0.6, 0.8], atol=1e-6
    )


def test_without_a_key_or_a_model_nothing_starts(llm_environment: Any) -> None:
    with pytest.raises(ConfigError, match="no key; set RAG_EVAL_OPENAI_API_KEY"):
        check_embedder(SMALL)
    with pytest.raises(ConfigError, match="names no model"):
        check_embedder("openai:")


def test_it_is_a_retriever_on_the_command_line(serve: Any, tmp_path: Any, monkeypatch: Any) -> None:
    server = serve()
    corpus = {
        "rail": Document("rail", "The line opened in 1881."),
        "pets": Document("pets", "A cat is not a dog."),
    }
    data = Dataset(
        "demo", "test", corpus, [Case("q1", "When was the rail line opened?")], {"q1": {"rail": 1}}
    )
    result = rb.evaluate(data, f"dense:{SMALL}", perspectives=["retrieval"])
    assert result.measures.set_index("measure").loc["nDCG@5", "value"] == 1.0
    rb.testsets.save_testset(data, tmp_path / "my.jsonl", "jsonl")
    monkeypatch.chdir(tmp_path)
    sent = len(server.asked)
    words = ["eval", "--test-set", "my.jsonl", "hybrid:openai:text-embedding-3-large"]
    done = CliRunner().invoke(app, [*words, "--dry-run"])
    assert "openai:text-embedding-3-large" in done.output, done.output
    assert len(server.asked) == sent
    done = CliRunner().invoke(app, [*words, "--max-cost", "0.0000001"])
    assert done.exit_code == 2
    assert "budget" in done.output
    assert len(server.asked) == sent
