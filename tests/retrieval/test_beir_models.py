"""Retrieval models of the package beir: the same scores as its own evaluation."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.types import Case, Dataset, Document

WORDS = "cats dogs sleep bark most of the day night all how long do they eat fish".split()


class Encoder:
    """A sum of random vectors, one for each word, in BEIR's interface of a model."""

    def encode_queries(self, queries: Sequence[str], **options: Any) -> Any:
        import torch

        vectors = np.zeros((len(queries), 64), dtype=np.float32)
        for row, text in enumerate(queries):
            for word in text.lower().replace(".", "").replace("?", "").split():
                vectors[row] += np.random.default_rng(zlib.crc32(word.encode())).normal(size=64)
        return torch.from_numpy(vectors)

    def encode_corpus(self, corpus: Sequence[Mapping[str, str]], **options: Any) -> Any:
        return self.encode_queries([f"{one['title']} {one['text']}" for one in corpus])


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """beir sets the level of its loggers."""
    yield
    logging.getLogger("beir").setLevel(logging.NOTSET)


@pytest.fixture
def data() -> Dataset:
    rng = np.random.default_rng(7)
    corpus = {
        f"d{i}": Document(f"d{i}", " ".join(rng.choice(WORDS, 9)), title=str(rng.choice(WORDS)))
        for i in range(40)
    }
    cases = [Case(f"q{i}", " ".join(rng.choice(WORDS, 4))) for i in range(12)]
    qrels = {
        case.query_id: {f"d{rng.integers(40)}": int(rng.integers(1, 3)) for _ in range(4)}
        for case in cases
    }
    return Dataset("words", "test", corpus, cases, qrels)


def model(**options: Any) -> Any:
    from beir.retrieval.search.dense import DenseRetrievalExactSearch

    return DenseRetrievalExactSearch(Encoder(), **options)


@pytest.mark.parametrize("score_function", ["cos_sim", "dot"])
def test_scores_are_those_of_beir(data: Dataset, score_function: str) -> None:
    from beir.retrieval.evaluation import EvaluateRetrieval

    theirs = EvaluateRetrieval(model(), k_values=[1, 5, 10, 100], score_function=score_function)
    corpus = {doc.doc_id: {"title": doc.title, "text": doc.text} for doc in data.corpus.values()}
    run = theirs.retrieve(corpus, dict(data.queries))
    ndcg, _, recall, precision = theirs.evaluate(data.qrels, run, [1, 5, 10])
    result = rb.evaluate(data, theirs, perspectives=["retrieval"])
    ours = result.scores.groupby("measure")["value"].mean()
    for k in (1, 5, 10):
        expected = (ndcg[f"NDCG@{k}"], recall[f"Recall@{k}"], precision[f"P@{k}"])
        # beir rounds to 5 digits
        assert (ours[f"nDCG@{k}"], ours[f"R@{k}"], ours[f"P@{k}"]) == pytest.approx(
            expected, abs=5.1e-6
        )
    assert "search_ms" not in result.timings, "each search encodes the corpus"


def test_a_model_is_a_retriever_of_chunks(data: Dataset) -> None:
    chunks = rb.chunk(data, "fixed", chunk_size=4)
    run = rb.make_retriever(model(), chunks).search({"q": "cats sleep"}, 3)
    assert len(run["q"]) == 3
    assert set(run["q"]) <= {chunk.chunk_id for chunk in chunks}
    assert list(run["q"].values()) == sorted(run["q"].values(), reverse=True)
    pipeline = rb.Pipeline(data, model(), chunk_size=4, chunker="fixed")
    assert pipeline.answer("q", "How long do cats sleep?").contexts


def test_a_model_without_a_score_function(data: Dataset) -> None:
    class Lexical:
        def search(self, corpus: Any, queries: Any, top_k: int, *args: Any, **kwargs: Any) -> Any:
            assert not args
            assert not kwargs
            return {query_id: dict.fromkeys(list(corpus)[:top_k], 1.0) for query_id in queries}

    chunks = rb.chunk(data, "document")
    run = rb.make_retriever(Lexical(), chunks).search({"q": "cats"}, 2)
    assert run == {"q": {chunks[0].chunk_id: 1.0, chunks[1].chunk_id: 1.0}}
    with pytest.raises(ConfigError, match="expected a name"):
        rb.make_retriever(object(), chunks)
