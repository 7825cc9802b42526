"""The steps of a search: hand-computed numbers, parity with other libraries, what is refused."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ragbench as rb
from ragbench.array_types import FloatArray
from ragbench.errors import ConfigError, ModelError
from ragbench.evaluation.parameters import (
    check_parameters,
    config_name,
    configuration,
    pipeline_settings,
)
from ragbench.retrieval import BM25, Dense, Hybrid, rerank
from ragbench.retrieval.steps.expand import Expansion
from ragbench.retrieval.steps.filter import FilteredRetriever
from ragbench.retrieval.steps.fusion import fuse, fused_search, normalised
from ragbench.retrieval.steps.index_text import index_texts
from ragbench.retrieval.steps.order import diversify
from ragbench.retrieval.steps.rewrite import wordings
from ragbench.retrieval.steps.stepped_search import STEP_PARAMETERS, check_steps
from ragbench.sweep import plan, read_grid
from ragbench.systems import Pipeline
from ragbench.testsets.writer import save_dataset
from ragbench.text import token_offsets
from ragbench.types import Call, Case, Chunk, Dataset, Document, Run, Span

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
    assert run == {"q": {"b": 1.5, "a": 1.0}, "r": {"b": 9.0, "c": 1.0}}, "one ranking stays"
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


@pytest.mark.filterwarnings("ignore")  # of the other library
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


@pytest.mark.filterwarnings("ignore")  # of the other library
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
            lambda ids, vectors=vectors: vectors[[int(one) for one in ids]],  # type: ignore
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


# --- expansion

TEXT = "# One\n\nAnna came. Bob left.\n\n## Two\n\nCarl sat.\n\n# Three\n\nDora sang. Emil ran."
PIECES = [
    "# One\n\nAnna came.",
    "Bob left.",
    "## Two\n\nCarl sat.",
    "# Three\n\nDora sang.",
    "Emil ran.",
]
BOOK = {"b": Document("b", TEXT), "s": Document("s", "Short. End.")}


def pieces() -> list[Chunk]:
    starts = [TEXT.index(piece) for piece in PIECES]
    return [
        *(
            Chunk.cut("b", TEXT, start, start + len(piece))
            for start, piece in zip(starts, PIECES, strict=True)
        ),
        Chunk.cut("s", "Short. End.", 0, 6),
        Chunk.cut("s", "Short. End.", 7, 11),
    ]


def expanded(expand: Any, numbers: Sequence[int], k: int = 5) -> list[str]:
    """The texts of the passages for the chunks of these numbers, best first."""
    chunks = pieces()
    expansion = Expansion(chunks, BOOK, expand, k=k, tokenizer="minilm")
    scores = {chunks[number].chunk_id: -float(rank) for rank, number in enumerate(numbers)}
    run = expansion.run({"q": scores})["q"]
    assert list(run.values()) == [1 / rank for rank in range(1, len(run) + 1)]
    texts = {passage.chunk_id: passage.text for passage in expansion.passages(["b", "s"])}
    return [texts[passage_id] for passage_id in run]


@pytest.mark.parametrize(
    ("expand", "numbers", "expected"),
    [
        # at the ends of a document there are fewer neighbours
        ("window:1", [0], ["# One\n\nAnna came. Bob left."]),
        ("window:1", [4, 5], ["# Three\n\nDora sang. Emil ran.", "Short. End."]),
        ("window:9", [2], [TEXT]),
        # overlapping windows are two passages; one that lies within another before it is left out
        ("window:1", [1, 2], [TEXT[: TEXT.index("\n\n# Three")], TEXT[TEXT.index("Bob") : TEXT.index(" Emil")]]),
        ("window:1", [1, 0], [TEXT[: TEXT.index("\n\n# Three")]]),
        # a section ends at a heading of any level, and has its own heading
        ("parent", [1, 0, 2], ["# One\n\nAnna came. Bob left.", "## Two\n\nCarl sat."]),
        ("parent", [6], ["Short. End."]),
        ("document", [3, 5, 1], [TEXT, "Short. End."]),
        # neighbours among the best k chunks are joined, where the best of them stood
        ("merge", [4, 0, 3, 1, 5], ["# Three\n\nDora sang. Emil ran.", "# One\n\nAnna came. Bob left.", "Short."]),
        ("merge", [4, 6, 3, 5], ["# Three\n\nDora sang. Emil ran.", "Short. End."]),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_handed_over(expand: str, numbers: list[int], expected: list[str]) -> None:
    assert expanded(expand, numbers) == expected


def test_the_best_k_alone_are_merged() -> None:
    assert expanded("merge", [4, 1, 3], k=2) == ["Emil ran.", "Bob left.", "# Three\n\nDora sang."]


def test_parents_have_at_most_n_tokens() -> None:
    sizes = [len(offsets) for offsets in token_offsets(PIECES, "minilm")]
    assert sizes == [5, 3, 6, 5, 3]  # "#" and "." are tokens
    first, last = TEXT[: TEXT.index("\n\n## Two")], TEXT[TEXT.index("# Three") :]
    assert expanded("parent:8", [0, 3, 1, 4]) == [first, last]
    assert expanded("parent:7", [0, 3, 1]) == [PIECES[0], PIECES[3], PIECES[1]]
    assert expanded("parent:2", [2]) == ["## Two\n\nCarl sat."], "a chunk is never cut"
    assert expanded("parent:1000", [2, 6]) == [TEXT, "Short. End."]


def test_a_section_of_a_chunk_in_several_is_all_of_them() -> None:
    chunk = Chunk.cut("b", TEXT, TEXT.index("Bob"), TEXT.index("Carl") + 9)
    expansion = Expansion([chunk], BOOK, "parent", k=5, tokenizer="minilm")
    expansion.run({"q": {chunk.chunk_id: 1.0}})
    [passage] = expansion.passages([])
    assert passage.text == TEXT[: TEXT.index("\n\n# Three")]


def test_an_expansion_of_your_own() -> None:
    def to_the_end(chunk: Chunk, document: Document) -> tuple[int, int]:
        return chunk.start, len(document.full_text)

    assert expanded(to_the_end, [3, 5]) == [TEXT[TEXT.index("# Three") :], "Short. End."]
    with pytest.raises(ConfigError, match="expand returned 'x' for a document of 77"):
        expanded(lambda chunk, document: "x", [1])


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_a_sentence_window_is_that_of_llama_index() -> None:
    node_parser = pytest.importorskip(
        "llama_index.core.node_parser", reason="pip install llama-index-core"
    )
    schema = pytest.importorskip("llama_index.core.schema")
    text = "Anna came. Bob left. Carl sat. Dora sang. Emil ran."
    ends = [match.span() for match in re.finditer(r"\w+ \w+\.", text)]
    parser = node_parser.SentenceWindowNodeParser(
        window_size=2, sentence_splitter=lambda text: re.findall(r"\w+ \w+\.", text)
    )
    nodes = parser.get_nodes_from_documents([schema.Document(text=text)])
    chunks = [Chunk.cut("d", text, *span) for span in ends]
    expansion = Expansion(chunks, {"d": Document("d", text)}, "window:2", k=5, tokenizer="minilm")
    for chunk, node in zip(chunks, nodes, strict=True):
        [passage_id] = expansion.run({"q": {chunk.chunk_id: 1.0}})["q"]
        texts = {passage.chunk_id: passage.text for passage in expansion.passages([])}
        assert texts[passage_id] == node.metadata["window"]


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_parents_are_those_of_langchain() -> None:
    retrievers = pytest.importorskip(
        "langchain_classic.retrievers", reason="pip install langchain-classic"
    )
    documents = pytest.importorskip("langchain_core.documents")
    embeddings = pytest.importorskip("langchain_core.embeddings")
    stores = pytest.importorskip("langchain_core.vectorstores")
    splitters = pytest.importorskip("langchain_text_splitters")
    storage = pytest.importorskip("langchain_core.stores")

    class Letters(embeddings.Embeddings):  # type: ignore
        def embed_query(self, text: str) -> list[float]:
            return [text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrst"]

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

    class Cut(splitters.TextSplitter):  # type: ignore
        def __init__(self, cut: Any) -> None:
            super().__init__()
            self.cut = cut

        def split_text(self, text: str) -> list[str]:
            return list(self.cut(text))

    chunks = pieces()[:5]
    expansion = Expansion(chunks, BOOK, "parent:9", k=5, tokenizer="minilm")
    parents = list(dict.fromkeys(passage.text for passage in expansion.passages(["b"])))
    theirs = retrievers.ParentDocumentRetriever(
        vectorstore=stores.InMemoryVectorStore(Letters()),
        docstore=storage.InMemoryStore(),
        parent_splitter=Cut(lambda text: parents),
        child_splitter=Cut(lambda text: [piece for piece in PIECES if piece in text]),
        search_kwargs={"k": 5},
    )
    theirs.add_documents([documents.Document(page_content=TEXT)])
    ours = Dense(chunks, lambda texts: Letters().embed_documents(texts))
    for question in ("Dora sang", "Bob left", "Carl sat", "Anna came"):
        run = expansion.run(ours.search({"q": question}, 5))["q"]
        texts = {passage.chunk_id: passage.text for passage in expansion.passages([])}
        assert [texts[passage_id] for passage_id in run] == [
            found.page_content for found in theirs.invoke(question)
        ]


@pytest.mark.parametrize("expand", ["window:1", "parent", "parent:64", "document", "merge"])
def test_an_arm_that_expands_pays_for_its_text(expand: str) -> None:
    pipeline = Pipeline(
        DATA,
        "hybrid:wordllama",
        chunker="sentence",
        chunk_size=8,
        expand=expand,
        k=2,
        max_context_tokens=16,
    )
    result = rb.evaluate(DATA, pipeline, perspectives="retrieval,context", ks="1,2")
    output = result.output
    assert output is not None
    text_of = {passage.chunk_id: passage for passage in output.chunks}
    for answer in output.answers:
        texts = [text_of[context].text for context in answer.contexts]
        assert sum(map(len, token_offsets(texts, "minilm"))) <= 16
        assert len(answer.contexts) <= 2
        handed_over = [*answer.contexts, *answer.cut]
        assert handed_over == list(output.ranking[answer.query_id])[:2]
    for passage in output.chunks:
        assert passage.text == CORPUS[passage.doc_id].full_text[passage.start : passage.end]
    assert result.facts["chunks"] == len(pipeline.chunks), "statistics are of what is searched"
    scores = result.scores.set_index(["query_id", "measure"])["value"]
    first = text_of[next(iter(output.ranking["q1"]))]
    covered = max(0, min(first.end, 26) - first.start) if first.doc_id == "cats" else 0
    assert scores["q1", "span_recall@1"] == pytest.approx(covered / 26)


def test_joined_chunks_count_once_for_the_question_that_has_them() -> None:
    """The evidence lies in two neighbouring chunks; one question joins them, the other has one."""
    text = "Cats sleep all day. They nap. Dogs bark. Birds sing."
    corpus = {"d": Document("d", text)}
    evidence = (Span("d", 0, 29),)  # the first two sentences
    cases = [
        Case("both", "cats sleep nap", evidence=evidence),
        Case("one", "cats sleep", evidence=evidence),
    ]
    data = Dataset("demo", "test", corpus, cases, {"both": {"d": 1}, "one": {"d": 1}})

    def scored(expand: str) -> dict[tuple[str, str], float]:
        pipeline = Pipeline(
            data, "bm25", chunker="sentence", chunk_size=5, expand=expand, k=2, llm="none"
        )
        result = rb.evaluate(data, pipeline, perspectives="retrieval", ks="1,2")
        frame = result.scores
        keys = zip(frame["query_id"], frame["measure"], strict=True)
        values = dict(zip(keys, frame["value"], strict=True))
        ceilings = result.measures.set_index("measure")["ceiling"]
        return {**values, ("ceiling", "span:R@1"): float(ceilings["span:R@1"])}

    plain, merged = scored(""), scored("merge")
    assert plain["both", "span:R@1"] == plain["one", "span:R@1"] == 1 / 2
    # joined, the two are the only passage that the first question can have
    assert merged["both", "span:R@1"] == merged["both", "span:nDCG@2"] == 1
    # the second question has the first chunk and could have the second one as well
    assert merged["one", "span:R@1"] == 1 / 2
    assert merged["one", "span:nDCG@2"] == plain["one", "span:nDCG@2"]
    assert merged["ceiling", "span:R@1"] == (1 + 1 / 2) / 2


# --- all of them


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": "rff:60"}, "unknown fusion 'rff'; did you mean 'rrf'"),
        ({"fusion": "rrf"}, "fusion is 'rrf'; write rrf:<k>, such as 'rrf:1'"),
        ({"fusion": "rrf:-1"}, "'rrf:-1'; expected a whole number from 0 after rrf:"),
        ({"fusion": "weights:1.5"}, "expected a number from 0 to 1 after weights:"),
        ({"fusion": "weights:nan"}, "expected a number from 0 to 1 after weights:"),
        (
            {"retriever": "bm25", "fusion": "rrf:1"},
            "has no effect: this search returns one ranking",
        ),
        ({"diversity": "mmr:2"}, "expected a number from 0 to 1 after mmr:"),
        ({"diversity": "mmr:"}, "write mmr:<w>, such as 'mmr:0.5'"),
        ({"expand": "windw:1"}, "unknown expand 'windw'; did you mean 'window'"),
        ({"expand": "window"}, "expand is 'window'; write window:<N>, such as 'window:1'"),
        ({"expand": "window:0"}, "expected a whole number from 1 after window:"),
        ({"expand": "parent:x"}, "expected a whole number from 1 after parent:"),
        ({"expand": "merge:2"}, "expand is 'merge:2'; write merge"),
        (
            {"expand": "window:1", "chunker": "document"},
            "has no effect with the chunker 'document'",
        ),
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
    assert configuration({**before, "rewrite_llm": "env"}) == before, "nothing asks it"
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


# --- what is indexed

GUIDE = "# Rails\n\nIt opened in 1881.\n\n## Gauge\n\nIt is narrow.\n\n### Width\n\nOne metre."
GUIDE += "\n\n## Fares\n\nThey rose."
PARTS = ["It opened in 1881.", "## Gauge\n\nIt is narrow.", "One metre.", "## Fares\n\nThey rose."]


def guide_chunks(text: str = GUIDE) -> list[Chunk]:
    starts = [text.index(part) for part in PARTS]
    return [
        Chunk.cut("g", text, start, start + len(part))
        for start, part in zip(starts, PARTS, strict=True)
    ]


def indexed(how: Any, title: str = "", llm: Any = "") -> list[str]:
    document = Document("g", GUIDE, title=title)
    chunks = guide_chunks(document.full_text)
    found, _ = index_texts(chunks, {"g": document}, how, llm)
    assert [(each.chunk_id, each.start) for each in found] == [
        (each.chunk_id, each.start) for each in chunks
    ]
    return [each.text for each in found]


def test_titles_and_headings_come_before_a_chunk() -> None:
    assert indexed("title") == [f"Rails\n\n{part}" for part in PARTS]
    assert indexed("title", "Guide") == [f"Guide\n\n{part}" for part in PARTS]
    # a heading that begins the chunk ends those of its level; it is in the chunk itself
    paths = ["Rails", "Rails", "Rails > Gauge > Width", "Rails"]
    assert indexed("headings") == [
        f"{path}\n\n{part}" for path, part in zip(paths, PARTS, strict=True)
    ]
    assert indexed("headings", "Guide")[2] == "Guide > Rails > Gauge > Width\n\nOne metre."
    assert indexed("headings", "Rails")[0] == "Rails\n\nIt opened in 1881.", "named once"


def test_a_title_in_the_chunk_itself_is_left_out() -> None:
    document = Document("d", "It sleeps.", title="Cats")
    [whole], later = (
        [Chunk.cut("d", document.full_text, 0, 16)],
        Chunk.cut("d", document.full_text, 6, 16),
    )
    texts = index_texts([whole, later], {"d": document}, "title")[0]
    assert [each.text for each in texts] == ["Cats\n\nIt sleeps.", "Cats\n\nIt sleeps."]
    plain = Chunk.cut("e", "No title here.", 0, 14)
    for how in ("title", "headings"):
        corpus = {"e": Document("e", "No title here.")}
        assert index_texts([plain], corpus, how)[0][0].text == "No title here."


def test_underlined_headings_have_their_words() -> None:
    text = "=====\nRails\n=====\n\nIt opened.\n\nC#\n--\n\nIt compiles."
    chunks = [
        Chunk.cut("d", text, text.index(part), text.index(part) + 9) for part in ("It o", "It c")
    ]
    texts = index_texts(chunks, {"d": Document("d", text)}, "headings")[0]
    assert [each.text.partition("\n")[0] for each in texts] == ["Rails", "Rails > C#"]


def test_a_model_writes_the_context_of_each_chunk() -> None:
    llm = rb.llms.ScriptedLLM(lambda prompt: "About the\nrailway." if "metre" in prompt else "")
    document = {"g": Document("g", GUIDE)}
    found, replies = index_texts(guide_chunks(), document, "summary:env", llm)
    assert len(replies) == 4
    assert found[2].text == "About the railway.\n\nOne metre."
    failing = rb.llms.ScriptedLLM(_fail)
    with pytest.raises(ModelError, match="4 of 4 requests for contexts of chunks failed"):
        index_texts(guide_chunks(), document, "summary:env", failing)


def _fail(prompt: str) -> str:
    raise RuntimeError("no")


def test_an_index_text_of_your_own() -> None:
    assert indexed(lambda chunk, document: document.doc_id) == ["g"] * 4
    with pytest.raises(ConfigError, match="index_text returned None"):
        indexed(lambda chunk, document: None)


def test_a_prefix_is_in_the_index_only() -> None:
    corpus = {
        "r": Document("r", "It opened early.", title="Railway"),
        "m": Document("m", "It opened late.", title="Mill"),
    }
    data = Dataset("demo", "test", corpus, [Case("q", "railway")], {"q": {"r": 1}})
    sentences = lambda text: text.split("\n\n")  # noqa: E731
    plain = Pipeline(data, "bm25", chunker=sentences)
    titled = Pipeline(data, "bm25", chunker=sentences, index_text="title")
    assert list(plain.retrieve(data.queries)["q"]) == ["r#0-7"]
    assert list(titled.retrieve(data.queries)["q"]) == ["r#0-7", "r#9-25"]
    assert {chunk.text for chunk in titled.chunks} == {chunk.text for chunk in plain.chunks}
    assert titled.answer("q", "railway").contexts == ("r#0-7", "r#9-25")


# --- what is asked


def test_a_question_is_rewritten() -> None:
    asked: list[str] = []

    def write(prompt: str) -> str:
        asked.append(prompt)
        return "1. When was the opening?\n2) when did it OPEN?\n- Opening date"

    questions = {"q": "When did it open?"}
    for how, expected in (
        ("", ("When did it open?",)),
        ("several:3", ("When did it open?", "When was the opening?", "Opening date")),
        ("several:1", ("When did it open?", "When was the opening?")),
        ("decompose", ("When did it open?", "When was the opening?", "Opening date")),
        ("hyde", ("1. When was the opening? 2) when did it OPEN? - Opening date",)),
    ):
        assert wordings(questions, how, rb.llms.ScriptedLLM(write))[0] == {"q": expected}
    assert "Write 3 other wordings" in asked[0]
    assert "at most 4 simpler" in asked[2]
    general = rb.llms.ScriptedLLM(["What is an opening?"])
    assert wordings(questions, "step_back", general)[0]["q"] == (
        *questions.values(),
        "What is an opening?",
    )
    empty = rb.llms.ScriptedLLM([""])
    assert wordings(questions, "hyde", empty)[0] == {"q": ("When did it open?",)}
    with pytest.raises(ModelError, match="1 of 1 requests for rewritten questions failed"):
        wordings(questions, "hyde", rb.llms.ScriptedLLM(_fail))
    assert wordings(questions, lambda text: text.upper())[0] == {"q": ("WHEN DID IT OPEN?",)}
    assert wordings(questions, lambda text: ["a", "b", "A"])[0] == {"q": ("a", "b")}
    with pytest.raises(ConfigError, match="rewrite returned 3"):
        wordings(questions, lambda text: 3)


def test_a_rewritten_question_is_searched_paid_once_and_shown() -> None:
    prompts: list[str] = []

    def write(prompt: str) -> str:
        prompts.append(prompt)
        return "Who sleeps at night?" if "When do cats" in prompt else "strangers"

    llm = rb.llms.ScriptedLLM(write)
    pipeline = Pipeline(DATA, "bm25", chunker="document", rewrite="hyde", rewrite_llm=llm, k=1)
    result = rb.evaluate(DATA, pipeline, perspectives="retrieval,answer")
    assert len(prompts) == 2, "once for each question, however often it is searched for"
    first, second = result.answers
    assert first.calls == (
        Call("hyde", "Who sleeps at night?"),
        Call("question", "When do cats sleep?", first.calls[1].contexts),
    )
    assert first.calls[1].contexts[0].startswith("cats#")
    assert first.contexts[0].startswith("dogs#"), "the hypothetical passage lost it"
    assert second.contexts[0].startswith("dogs#")
    [cost] = [cost for cost in result.costs if cost.part == "rewriter"]
    assert (cost.requests, cost.failed) == (2, 0)


def test_several_queries_find_everything_that_any_wording_finds() -> None:
    llm = rb.llms.ScriptedLLM(["strangers\nopen eyes", "strangers\nopen eyes"])
    pipeline = Pipeline(
        DATA, "bm25", chunker="document", rewrite="several:2", rewrite_llm=llm, fusion="rrf:0"
    )
    run = pipeline.retrieve({"q1": "most day"})
    assert {chunk_id.partition("#")[0] for chunk_id in run["q1"]} == {"cats", "dogs", "fish"}
    assert set(run["q1"].values()) == {1.0}


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_several_queries_find_what_langchain_finds() -> None:
    multi_query = pytest.importorskip(
        "langchain_classic.retrievers.multi_query", reason="pip install langchain-classic"
    )
    documents = pytest.importorskip("langchain_core.documents")
    base = pytest.importorskip("langchain_core.retrievers")
    models = pytest.importorskip("langchain_core.language_models")
    draw = random.Random(5)
    words = [f"word{number}" for number in range(30)]
    corpus = {f"d{i}": Document(f"d{i}", " ".join(draw.choices(words, k=8))) for i in range(40)}
    data = Dataset("drawn", "test", corpus, [Case("q", "word0")], {"q": {"d0": 1}})
    chunks = rb.chunk(data, "document")
    index = BM25(chunks)
    doc_id_of = {chunk.chunk_id: chunk.doc_id for chunk in chunks}

    class Lexical(base.BaseRetriever):  # type: ignore
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            found = index.search({"q": query}, 100)["q"]
            return [documents.Document(page_content=doc_id_of[chunk_id]) for chunk_id in found]

    for _ in range(10):
        question, *others = (" ".join(draw.sample(words, 2)) for _ in range(4))
        reply = "\n".join(others)
        theirs = multi_query.MultiQueryRetriever.from_llm(
            Lexical(), llm=models.FakeListLLM(responses=[reply]), include_original=True
        )
        expected = [document.page_content for document in theirs.invoke(question)]
        llm = rb.llms.ScriptedLLM([reply])
        options: dict[str, Any] = {"rewrite": "several:3", "rewrite_llm": llm}
        pipeline = Pipeline(data, "bm25", chunker="document", **options)
        ours = [doc_id_of[chunk_id] for chunk_id in pipeline.retrieve({"q": question})["q"]]
        assert sorted(ours) == sorted(expected)
        assert len(set(ours)) == len(ours)


# --- what may be found


def allowed(case: Case, document: Document) -> bool:
    """Return True if the user may read the document."""
    return document.metadata.get("role", "") in ("", *case.user_roles)


SECRET = Dataset(
    "secret",
    "test",
    {
        "open": Document("open", "The budget is public."),
        "secret": Document("secret", "The budget budget budget.", metadata={"role": "boss"}),
    },
    [
        Case("staff", "budget", evidence=(Span("secret", 0, 10),)),
        Case("boss", "budget", user_roles=("boss",)),
    ],
    {"staff": {"secret": 1}, "boss": {"secret": 1}},
)


@pytest.mark.parametrize("retriever", ["bm25", "hybrid:wordllama", "dense:wordllama"])
def test_a_filter_keeps_documents_from_a_question(retriever: str) -> None:
    pipeline = Pipeline(SECRET, retriever, filter=allowed)
    run = pipeline.retrieve(SECRET.queries)
    assert list(run["staff"]) == ["open#0-21"]
    assert set(run["boss"]) == {"open#0-21", "secret#0-25"}
    result = rb.evaluate(SECRET, pipeline, perspectives="retrieval,answer")
    assert result.output is not None
    assert result.output.filtered == {"staff": ("secret",)}


def test_a_filtered_search_is_as_deep_as_one_of_the_allowed_chunks() -> None:
    texts = [f"cat {'cat ' * (i % 7)}dog number{i}" for i in range(60)]
    chunks = chunks_of(texts)
    may = {chunk.doc_id for chunk in chunks if int(chunk.doc_id[1:]) % 20 == 3}
    by_id = {chunk.chunk_id: chunk for chunk in chunks}
    whole = BM25(chunks).search({"q": "cat", "none": "quantum"}, 60)
    filtered = FilteredRetriever(BM25(chunks), by_id, lambda query_id, doc_id: doc_id in may)
    for k in (1, 2, 9):
        expected = [c for c in whole["q"] if by_id[c].doc_id in may][:k]
        found = filtered.search({"q": "cat", "none": "quantum"}, k)
        assert list(found["q"]) == expected
        assert found["none"] == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index_text": "titel"}, "unknown index_text 'titel'; did you mean 'title'"),
        ({"index_text": "summary"}, "write summary:<llm>, such as 'summary:env'"),
        ({"index_text": "summary:opnai:x"}, "opnai"),
        ({"rewrite": "hide", "rewrite_llm": "env"}, "unknown rewrite 'hide'; did you mean 'hyde'"),
        ({"rewrite": "hyde"}, "rewrite 'hyde' asks a language model; name one as llm"),
        ({"rewrite": "several:11"}, "expected a whole number from 1 to 10 after several:"),
        ({"filter": "my_filtr"}, "unknown filter 'my_filtr'. Known: package.module:attribute"),
    ],
    ids=str,
)
def test_steps_that_cannot_be_taken_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_steps({"retriever": "hybrid:wordllama", **options})


@pytest.mark.parametrize("step", ["expand", "fusion", "filter", "rerank_depth"])
def test_a_step_without_effect_on_a_service_is_refused(step: str, tmp_path: Path) -> None:
    value: Any = 5 if step == "rerank_depth" else "window:1"
    (tmp_path / "service.toml").write_text('[http]\nurl = "http://localhost:1/ask"\n')
    grid = tmp_path / "grid.toml"
    lines = ["[fixed]", 'system = "service.toml"', f"{step} = {value!r}", "[axes]", "k = [5]"]
    grid.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=f"{step} is .* no effect on the system 'service.toml'"):
        read_grid(grid)
    with pytest.raises(ConfigError, match=f"{step} is an option of ragbench's own pipeline"):
        rb.evaluate(DATA, lambda question: "?", **{step: value})
    with pytest.raises(ConfigError, match="options of ragbench's own pipeline"):
        pipeline_settings([f"{step}={value}"], "service.toml")


def test_the_grid_of_techniques_changes_one_thing_at_a_time() -> None:
    grid = read_grid("techniques", ["dataset=pydoc"])
    plain = grid.runs[grid.baseline]
    assert not plain.keys() & set(STEP_PARAMETERS)
    assert (plain["retriever"], plain["chunk_size"]) == ("hybrid:minilm", 256)
    changes = []
    for parameters in grid.runs.values():
        names = {*parameters, *plain}
        changes.append(sum(parameters.get(name) != plain.get(name) for name in names))
    assert 24 <= len(changes) <= 26
    assert sorted(set(changes)) == [0, 1, 2]
    assert changes.count(0) == 1
    assert all(run["llm"] == "none" for run in grid.runs.values())


def test_the_grid_of_techniques_with_a_model_is_foreseen(tmp_path: Path) -> None:
    testset = save_dataset(DATA, tmp_path / "demo")
    options = [f"dataset={testset}", "retriever=bm25", "rewrite_llm=ollama:m"]
    grid = read_grid("techniques_llm", options)
    assert [
        name
        for name in ("hyde", "several-3", "step-back", "decompose", "summary")
        if not any(name in run for run in grid.runs)
    ] == []
    assert "rewrite_llm" not in grid.runs[grid.baseline]
    planned = plan("techniques_llm", out=tmp_path, overrides=options)
    # two questions, rewritten in four ways; three chunks, for which "env" writes a context
    assert {model.model: model.to_send for model in planned.models} == {
        "ollama:m": 8,
        "ollama:llama3.1:8b": 3,
    }
