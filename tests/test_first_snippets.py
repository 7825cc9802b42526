"""First lines of users of beir, ir_measures, ragas, LangChain or pandas: each works, or one
sentence explains why.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb

CORPUS = {
    "cats": "Cats sleep most of the day.",
    "dogs": "Dogs bark at night.",
    "tax": "Income tax rises in May.",
}
QUERIES = {"q1": "How long do cats sleep?", "q2": "When do dogs bark?"}
QRELS = {"q1": {"cats": 1}, "q2": {"dogs": 1}}


@dataclass
class LangChainDocument:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


class Splitter:
    """As a text splitter of LangChain."""

    def split_text(self, text: str) -> list[str]:
        return text.split(" of ")


class SentenceModel:
    """As a model of sentence-transformers: `encode`, no name, rows of any length."""

    def encode(self, texts: list[str]) -> Any:
        return np.array([[len(text), text.count("e"), 1.0] for text in texts])


class LangChainEmbeddings:
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]


def data() -> rb.Dataset:
    return rb.Dataset.from_dicts(CORPUS, QUERIES, QRELS)


def chunks() -> list[rb.Chunk]:
    return rb.chunk(CORPUS)


def index() -> rb.Retriever:
    return rb.make_retriever("bm25", chunks())


def run() -> dict[str, dict[str, float]]:
    return rb.retrieve(index(), QUERIES)


def frame(value: float) -> pd.DataFrame:
    rows = [
        {"query_id": f"q{i}", "measure": "nDCG@10", "value": value * (i % 3) / 3} for i in range(12)
    ]
    return pd.DataFrame(rows)


def lengths(texts: Any) -> Any:
    return [[len(text), 1.0] for text in texts]


def answer(question: str) -> dict[str, Any]:
    return {"answer": "Most of the day.", "contexts": [CORPUS["cats"]]}


Qrel = namedtuple("Qrel", "query_id doc_id relevance iteration")

WORKS: dict[str, Callable[[], Any]] = {
    # documents and chunks
    "chunk a dict": lambda: rb.chunk(CORPUS)[0].doc_id == "cats",
    "chunk a list": lambda: rb.chunk(["One text.", "Another."])[1].doc_id == "1",
    "chunk what beir loads": lambda: (
        rb.chunk({"d1": {"title": "A", "text": "B."}})[0].text == "A\n\nB."
    ),
    "chunk documents of LangChain": lambda: (
        rb.chunk([LangChainDocument("Cats nap.")])[0].text == "Cats nap."
    ),
    "chunk a frame": lambda: (
        rb.chunk(pd.DataFrame({"doc_id": [7], "text": ["Cats nap."]}))[0].doc_id == "7"
    ),
    "chunk by size": lambda: (
        len(rb.chunk({"d": "One two three four five six."}, "fixed", chunk_size=3)) > 1
    ),
    "chunk by the chunker's name": lambda: len(rb.chunk(data(), chunker="sentence")) == 3,
    "chunk with a splitter": lambda: rb.chunk(CORPUS, Splitter().split_text)[1].text == "the day.",
    "chunk with spans": lambda: (
        rb.chunk({"d": "abcdef"}, lambda text: [(0, 3), (2, 6)])[1].text == "cdef"
    ),
    # search
    "retrieve texts": lambda: next(
        iter(rb.retrieve(index(), ["When do dogs bark?"])["When do dogs bark?"])
    ),
    "retrieve one text": lambda: list(rb.retrieve(index(), "cats")) == ["cats"],
    "retrieve a dataset": lambda: list(rb.retrieve(index(), data())) == ["q1", "q2"],
    "retrieve with chunks": lambda: len(rb.retrieve(index(), QUERIES, chunks())) == 2,
    "search a text": lambda: rb.retrieval.BM25(chunks()).search("a dog", k=5)["a dog"],
    "search without k": lambda: rb.retrieval.BM25(chunks()).search(QUERIES)["q1"],
    "dense with a function": lambda: rb.retrieval.Dense(chunks(), lengths).search("cats", k=2)[
        "cats"
    ],
    "dense with a sentence model": lambda: rb.retrieval.Dense(chunks(), SentenceModel()).search(
        "cats", k=2
    )["cats"],
    "dense with embeddings of LangChain": lambda: rb.retrieval.Dense(
        chunks(), LangChainEmbeddings()
    ).search("a")["a"],
    "hybrid by name": lambda: rb.make_retriever("hybrid:wordllama", chunks()).search(QUERIES, 2)[
        "q1"
    ],
    # datasets
    "a dataset of dicts": lambda: data().queries == QUERIES,
    "qrels as lists": lambda: (
        rb.Dataset.from_dicts(CORPUS, QUERIES, {"q1": ["cats"]}).qrels == {"q1": {"cats": 1}}
    ),
    "qrels of ir_measures": lambda: rb.Dataset.from_dicts(
        CORPUS, QUERIES, [Qrel("q1", "cats", 2, "0")]
    ).qrels["q1"],
    "records of ragas": lambda: (
        rb.Dataset.from_dicts(CORPUS, [{"user_input": "Who naps?", "reference": "Cats."}])
        .cases[0]
        .reference_answer
        == "Cats."
    ),
    "reference answers": lambda: rb.Dataset.from_dicts(
        CORPUS, QUERIES, QRELS, answers={"q1": "All day."}
    ),
    "frames": lambda: (
        rb.Dataset.from_frames(
            pd.DataFrame({"_id": list(CORPUS), "text": list(CORPUS.values())}),
            pd.DataFrame({"qid": ["q1"], "query": ["Who?"]}),
            pd.DataFrame({"query-id": ["q1"], "corpus-id": ["cats"], "score": [1]}),
        ).qrels
        == {"q1": {"cats": 1}}
    ),
    # scores
    "measures in any case": lambda: (
        set(rb.score_run(QRELS, {"q1": {"cats": 1.0}}, ["ndcg@10", "map"])["measure"])
        == {"nDCG@10", "AP"}
    ),
    "a measure of compare in any case": lambda: (
        len(rb.compare(frame(1), frame(2), measures=["NDCG@10"])) == 1
    ),
    "a summary": lambda: len(rb.summarise(frame(1.0))) == 1,
    "measures as a frame": lambda: "nDCG@{k}" in set(rb.measures()["measure"]),
    # systems
    "evaluate a function": lambda: (
        rb.evaluate(data(), answer, perspectives=["answer"]).answers[0].text
    ),
    "evaluate a lambda": lambda: (
        rb.evaluate(data(), lambda q: "No idea.", perspectives=["answer"]).answers
    ),
    "evaluate a retriever's name": lambda: (
        rb.evaluate(data(), "bm25", perspectives=["retrieval"]).measures is not None
    ),
    "evaluate with a measure": lambda: (
        "words"
        in set(
            rb.evaluate(
                data(),
                answer,
                perspectives=["answer"],
                measures=[
                    rb.Measure(
                        "words",
                        lambda case, given, contexts: len(given.text.split()),
                        bounds=(0, None),
                    )
                ],
            ).scores["measure"]
        )
    ),
    "a pipeline on a dict": lambda: (
        rb.Pipeline(CORPUS).answer("q", "How long do cats sleep?").text.startswith("Cats")
    ),
    "a pipeline with a function as model": lambda: (
        rb.Pipeline(data(), llm=lambda prompt: "All day [1].")
        .answer("q1", "How long do cats sleep?")
        .text
    ),
    "answers of a function as model": lambda: rb.generate_answers(
        data(), run(), chunks(), lambda prompt: "Yes."
    ),
}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a text as corpus": (lambda: rb.chunk("One text."), "expected {doc_id: text}"),
    "an unknown chunker": (lambda: rb.chunk(CORPUS, "recursiv"), "did you mean 'recursive'"),
    "a splitter that rewrites": (
        lambda: rb.chunk(CORPUS, lambda text: [text.upper()]),
        "which is not in the text",
    ),
    "numbers as queries": (lambda: rb.retrieve(index(), [1, 2]), "a query is 1"),  # type: ignore[list-item]
    "an unknown measure": (
        lambda: rb.score_run(QRELS, run(), ["ndgc@10"]),
        "did you mean 'nDCG@10'",
    ),
    "an unknown retriever": (
        lambda: rb.make_retriever("dens:minilm", chunks()),
        "did you mean 'dense'",
    ),
    "qrels of unknown queries": (
        lambda: rb.Dataset.from_dicts(CORPUS, QUERIES, {"q9": {}}),
        "'q9' is not among",
    ),
    "a grade that is half": (
        lambda: rb.Dataset.from_dicts(CORPUS, QUERIES, {"q1": {"cats": 0.5}}),
        "grade 0.5 is not a whole number",
    ),
    "a frame without texts": (lambda: rb.chunk(pd.DataFrame({"doc_id": [1]})), "has no 'text'"),
    "an embedder of one row": (
        lambda: rb.retrieval.Dense(chunks(), lambda texts: [1.0]),
        "one row of numbers",
    ),
}


def test_there_are_43_or_more() -> None:
    assert len(WORKS) + len(REFUSED) >= 43


@pytest.mark.parametrize("name", WORKS)
def test_it_works(name: str) -> None:
    assert WORKS[name]()


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_one_sentence(name: str) -> None:
    snippet, message = REFUSED[name]
    with pytest.raises(
        rb.RagbenchError, match=message.replace("{", r"\{").replace("}", r"\}")
    ) as refused:
        snippet()
    assert "\n" not in str(refused.value)
