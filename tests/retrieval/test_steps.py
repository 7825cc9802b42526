"""The steps of a search: hand-computed numbers, parity with other libraries, what is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ragbench as rb
from ragbench.array_types import FloatArray
from ragbench.errors import ConfigError
from ragbench.evaluation.parameters import check_parameters, config_name, configuration
from ragbench.retrieval import BM25, Dense, Hybrid, rerank
from ragbench.retrieval.steps.fusion import fuse, fused_search, normalised
from ragbench.retrieval.steps.order import diversify
from ragbench.systems import Pipeline
from ragbench.types import Case, Chunk, Dataset, Document, Run, Span

TEXTS = ["cat dog sun sea", "cat cat", "ice"]
VECTORS = {"cat": (1.0, 0.0), TEXTS[0]: (0.8, 0.6), TEXTS[1]: (0.6, 0.8), TEXTS[2]: (1.0, 0.0)}


def chunks_of(texts: Sequence[str]) -> list[Chunk]:
    return [Chunk(f"d{i}#0", f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]


class FixedEmbedder:
    """Vectors that the test has written down."""

    name = "fixed"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)


CORPUS = {
    "cats": Document("cats", "Cats sleep most of the day. Cats hunt at night."),
    "dogs": Document("dogs", "Dogs sleep at night. Dogs bark at strangers."),
    "fish": Document("fish", "Fish sleep with open eyes. Some fish hunt."),
}
DATA = Dataset(
    "demo",
    "test",
    CORPUS,
    [Case("q1", "When do cats sleep?", evidence=(Span("cats", 0, 26),)), Case("q2", "Who barks?")],
    {"q1": {"cats": 1}, "q2": {"dogs": 1}},
)


# --- fusion


def test_the_constant_of_reciprocal_rank_fusion_decides() -> None:
    # BM25 ranks d1, d0; Dense ranks d2, d0, d1.
    hybrid = Hybrid(chunks_of(TEXTS), FixedEmbedder(), fusion="rrf:1")
    expected = {"d1#0": 1 / 2 + 1 / 4, "d0#0": 1 / 3 + 1 / 3, "d2#0": 1 / 2}
    run = hybrid.search({"q": "cat"}, k=3)["q"]
    assert run == {chunk_id: round(score, 6) for chunk_id, score in expected.items()}
    assert list(run) == ["d1#0", "d0#0", "d2#0"]


def test_weights_are_of_scores_between_the_lowest_and_the_highest() -> None:
    chunks = chunks_of(TEXTS)
    lexical = BM25(chunks).search({"q": "cat"}, k=3)["q"]
    assert list(lexical) == ["d1#0", "d0#0"]  # 1 and 0
    run = Hybrid(chunks, FixedEmbedder(), fusion="weights:0.7").search({"q": "cat"}, k=3)["q"]
    # dense cosines are 1 (d2), .8 (d0) and .6 (d1): 1, .5 and 0 of the way from the lowest
    assert run == pytest.approx({"d2#0": 0.7 * 1, "d0#0": 0.7 * 0.5 + 0.3 * 0, "d1#0": 0.3 * 1})
    assert list(run) == ["d2#0", "d0#0", "d1#0"]
    for weight, retriever in ((0, BM25(chunks)), (1, Dense(chunks, FixedEmbedder()))):
        hybrid = Hybrid(chunks, FixedEmbedder(), fusion=f"weights:{weight}")
        first = [*retriever.search({"q": "cat"}, 3)["q"]]
        assert [*hybrid.search({"q": "cat"}, 3)["q"]][: len(first)] == first


def test_equal_scores_and_one_score_are_the_highest() -> None:
    assert normalised({"a": 2.0, "b": 2.0}) == {"a": 1.0, "b": 1.0}
    assert fuse([{"a": 2.0}, {}, {"a": 1.0, "b": 0.0}], "weights:0.5") == pytest.approx(
        {"a": 2 / 3, "b": 0.0}
    )
    assert fuse([{}, {}]) == {}


def test_several_wordings_are_fused_with_those_that_turn_up_twice() -> None:
    class Fixed:
        def search(self, queries: Mapping[str, str], k: int) -> Run:
            found = {"one": {"a": 3.0, "b": 2.0}, "two": {"b": 9.0, "c": 1.0}}
            return {query_id: found[text] for query_id, text in queries.items()}

    places = {"a": 0, "b": 1, "c": 2}
    run = fused_search([Fixed()], {"q": ("one", "two"), "r": ("two",)}, 2, places, "rrf:0")
    assert run == {"q": {"b": 1.5, "a": 1.0}, "r": {"b": 1.0, "c": 0.5}}
    # of a lexical and a dense search, both wordings: the weights are divided by their number
    both = fused_search([Fixed(), Fixed()], {"q": ("one", "two")}, 3, places, "weights:0.25")
    assert both["q"] == pytest.approx({"a": 0.5, "b": 0.5, "c": 0.0})
    assert list(both["q"]) == ["a", "b", "c"], "equal scores in the order of the chunks"


def test_a_fusion_of_your_own() -> None:
    def last(rankings: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
        return rankings[-1]

    hybrid = Hybrid(chunks_of(TEXTS), FixedEmbedder(), fusion=last)
    assert [*hybrid.search({"q": "cat"}, 3)["q"]] == ["d2#0", "d0#0", "d1#0"]
    broken = Hybrid(chunks_of(TEXTS), FixedEmbedder(), fusion=lambda rankings: {"x": 1.0})
    with pytest.raises(ConfigError, match="fusion returned"):
        broken.search({"q": "cat"}, 3)


def test_fusion_has_the_scores_of_ranx() -> None:
    ranx = pytest.importorskip("ranx", reason="ranx is not installed: pip install ranx")
    draw = random.Random(7)
    ids = [f"c{i}" for i in range(30)]

    def ranking() -> dict[str, float]:
        scores = {chunk_id: draw.random() for chunk_id in draw.sample(ids, 20)}
        return dict(sorted(scores.items(), key=lambda item: -item[1]))

    runs = [{f"q{i}": ranking() for i in range(20)} for _ in range(2)]
    theirs = [ranx.Run(run) for run in runs]
    for ours, method in (
        ("rrf:1", {"method": "rrf", "norm": None, "params": {"k": 1}}),
        ("rrf:60", {"method": "rrf", "norm": None, "params": {"k": 60}}),
        (
            "weights:0.7",
            {"method": "wsum", "norm": "min-max", "params": {"weights": (0.3, 0.7)}},
        ),
    ):
        expected = ranx.fuse(theirs, **method)
        for query_id in runs[0]:
            fused = fuse([run[query_id] for run in runs], ours, (0.3, 0.7))
            assert fused == pytest.approx(dict(expected.run[query_id]))


# --- order


def test_a_rerank_depth_leaves_the_others_below() -> None:
    read: list[list[str]] = []

    def score(query: str, texts: list[str]) -> list[float]:
        read.append(texts)
        return [float(len(text)) for text in texts]

    chunks = chunks_of(["a", "bbb", "cc", "dddd", "e"])
    run = {"q": {"d0#0": 9.0, "d1#0": 8.0, "d2#0": 7.0, "d3#0": 6.0, "d4#0": 5.0}, "none": {}}
    reranked = rerank(run, {"q": "?", "none": "?"}, chunks, score, k=9, depth=3)
    assert read == [["a", "bbb", "cc"]]
    assert reranked["q"] == {"d1#0": 3.0, "d2#0": 2.0, "d0#0": 1.0, "d3#0": 0.0, "d4#0": -1.0}
    assert reranked["none"] == {}
    assert rerank(run, {"q": "?", "none": "?"}, chunks, score, k=2, depth=3)["q"] == {
        "d1#0": 3.0,
        "d2#0": 2.0,
    }


def test_marginal_relevance_by_hand() -> None:
    vectors = {"a": (1.0, 0.0), "b": (0.8, 0.6), "c": (0.0, 1.0), "d": (1.0, 0.0)}

    def rows(ids: Sequence[str]) -> FloatArray:
        return np.array([vectors[chunk_id] for chunk_id in ids], dtype=np.float32)

    # relevance: a 1, b .8, c .5, d 0
    run = {"q": {"a": 12.0, "b": 10.0, "c": 7.0, "d": 2.0, "e": 1.0}, "none": {}}
    # after a: b .4 - .4 = 0, c .25 - 0, d 0 - .5; after c: b .4 - .4 (a is nearer), d -.5
    mixed = diversify(run, {}, [], "mmr:0.5", rows, depth=4)
    assert list(mixed["q"]) == ["a", "c", "b", "d", "e"]
    assert list(mixed["q"].values()) == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert mixed["none"] == {}
    kept = diversify(run, {}, [], "mmr:1", rows, depth=4)
    assert list(kept["q"]) == list(run["q"])
    # variety alone: c is unlike a, b is as unlike c as .6 and as a .8, d is a
    alone = diversify(run, {}, [], "mmr:0", rows, depth=4)
    assert list(alone["q"]) == ["a", "c", "b", "d", "e"]
    # of two equal values the one that comes first
    same = {"q": {"d": 5.0, "a": 5.0, "b": 5.0}}
    assert list(diversify(same, {}, [], "mmr:0.5", rows, depth=9)["q"]) == ["d", "b", "a"]


def test_marginal_relevance_is_that_of_langchain() -> None:
    utils = pytest.importorskip(
        "langchain_core.vectorstores.utils", reason="pip install langchain-core"
    )
    random_numbers = np.random.default_rng(3)
    for _ in range(20):
        vectors = random_numbers.normal(size=(12, 5))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        query = random_numbers.normal(size=5)
        query /= np.linalg.norm(query)
        cosines = vectors @ query
        order = np.argsort(-cosines)
        scores = {str(i): float(cosines[i]) for i in order}
        # theirs weighs cosines, ours cosines from 0 to 1: the weight that means the same
        spread = float(cosines.max() - cosines.min())
        weight = 0.6
        same = (weight / spread) / (weight / spread + 1 - weight)
        theirs = utils.maximal_marginal_relevance(query, [*vectors[order]], same, k=12)
        ours = diversify(
            {"q": scores},
            {},
            [],
            f"mmr:{weight}",
            lambda ids, vectors=vectors: vectors[[int(one) for one in ids]],  # type: ignore[misc]
            depth=12,
        )
        assert list(ours["q"]) == [str(order[i]) for i in theirs]


def test_an_order_of_your_own() -> None:
    chunks = chunks_of(["a", "b", "c"])
    run = {"q": {"d0#0": 3.0, "d1#0": 2.0, "d2#0": 1.0}}

    def backwards(question: str, found: Sequence[Chunk]) -> list[Chunk]:
        assert question == "?"
        return [*found[::-1]][:1]

    nothing = np.zeros((0, 2), dtype=np.float32)
    ordered = diversify(run, {"q": "?"}, chunks, backwards, lambda ids: nothing, depth=2)
    assert ordered == {"q": {"d1#0": 1.0, "d2#0": 0.5}}, "d0 was left out"
    with pytest.raises(ConfigError, match="diversity returned"):
        diversify(run, {"q": "?"}, chunks, lambda *_: ["x"], lambda ids: nothing, depth=2)


# --- all of them


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": "rff:60"}, "unknown fusion 'rff'; did you mean 'rrf'"),
        ({"fusion": "rrf"}, "fusion is 'rrf'; write rrf:<k>, such as 'rrf:1'"),
        ({"fusion": "rrf:-1"}, "'rrf:-1'; expected a whole number from 0 after rrf:"),
        ({"fusion": "weights:1.5"}, "expected a number from 0 to 1 after weights:"),
        ({"fusion": "weights:nan"}, "expected a number from 0 to 1 after weights:"),
        ({"retriever": "bm25", "fusion": "rrf:1"}, "has no effect: this search gives one ranking"),
        ({"diversity": "mmr:2"}, "expected a number from 0 to 1 after mmr:"),
        ({"diversity": "mmr:"}, "write mmr:<w>, such as 'mmr:0.5'"),
        ({"rerank_depth": 5}, "rerank_depth is 5, which has no effect without a reranker"),
        ({"rerank_depth": -5, "reranker": "x"}, "rerank_depth is -5; expected 0"),
    ],
    ids=str,
)
def test_values_that_no_search_could_use_are_refused(options: Any, message: str) -> None:
    options = {"retriever": "hybrid:wordllama", **options}
    for use in (check_parameters, lambda values: Pipeline(CORPUS, **values)):
        with pytest.raises(ConfigError, match=re.escape(message)):
            use(options)


def test_a_configuration_without_steps_has_its_name_of_before() -> None:
    before = {"retriever": "hybrid:minilm", "chunker": "fixed", "chunk_size": 128}
    empty = {"fusion": "", "rerank_depth": 0, "diversity": ""}
    assert configuration({**before, **empty}) == before
    assert config_name({**before, **empty}) == config_name(before)
    named = config_name({**before, **empty, "fusion": "rrf:1"})
    assert named.startswith("hybrid-minilm-rrf-1-fixed-128-")


def test_a_pipeline_has_the_steps_in_its_name_and_its_ranking() -> None:
    plain = Pipeline(DATA, "hybrid:wordllama", chunker="sentence", chunk_size=8)
    steps: dict[str, Any] = {"fusion": "rrf:1", "diversity": "mmr:0.3"}
    with_steps = Pipeline(DATA, "hybrid:wordllama", chunker="sentence", chunk_size=8, **steps)
    assert with_steps.name == (
        "hybrid:wordllama, fusion rrf:1, diversity mmr:0.3, sentence 8, extractive"
    )
    before, after = (one.retrieve(DATA.queries)["q1"] for one in (plain, with_steps))
    assert set(before) == set(after)
    assert list(after.values()) == [1 / rank for rank in range(1, len(after) + 1)]
    assert rb.evaluate(
        DATA, "hybrid:wordllama", perspectives="retrieval", chunk_size=8, **steps
    ).parameters
