"""First lines of users of beir, ir_measures, ragas, LangChain or pandas: each works, or one
sentence explains why.
"""

from __future__ import annotations

import pickle
import re
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.hints.calls import explains_calls

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


class ChatEngine:
    """As a chat engine of LlamaIndex."""

    def chat(self, message: str) -> str:
        return "Most of it."


def chat_engine() -> Any:
    return ChatEngine()


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


ROWS = [  # of ragas before 0.2
    {
        "question": "How long do cats sleep?",
        "answer": "Most of the day.",
        "contexts": ["Cats sleep most of the day."],
        "ground_truth": "Most of the day.",
    },
    {
        "question": "When do dogs bark?",
        "answer": "At noon.",
        "contexts": ["Dogs bark at night."],
        "ground_truth": "At night.",
    },
]
NEW_NAMES = ("user_input", "response", "retrieved_contexts", "reference")
OF_DEEPEVAL = ("input", "actual_output", "retrieval_context", "expected_output")


@dataclass
class LLMTestCase:
    """As a test case of DeepEval."""

    input: str
    actual_output: str
    retrieval_context: list[str]
    expected_output: str


def renamed(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [dict(zip(names, row.values(), strict=True)) for row in ROWS]


def recalls_answers(data: Any) -> bool:
    result = rb.evaluate(data, perspectives=["answer"])
    scores = result.scores[result.scores["measure"] == "token_f1"]["value"]
    return len(result.answers) == 2 and scores.tolist() == [1.0, 0.5]


def retrieved(system: Any = "bm25", **options: Any) -> Any:
    return rb.evaluate(data(), system, perspectives=["retrieval"], **options)


def named(*measures: Any) -> list[str]:
    return list(dict.fromkeys(rb.evaluate(data(), "bm25", measures=measures).scores["measure"]))


def answer(question: str) -> dict[str, Any]:
    return {"answer": "Most of the day.", "contexts": [CORPUS["cats"]]}


Qrel = namedtuple("Qrel", "query_id doc_id relevance iteration")


def failing() -> rb.Result:
    """The second answer is wrong."""
    corpus = {doc_id: rb.Document(doc_id, text) for doc_id, text in CORPUS.items()}
    facts = {"q1": ("most of the day",), "q2": ("at night",)}
    cases = [rb.Case(name, text, gold_facts=(facts[name],)) for name, text in QUERIES.items()]
    pets = rb.Dataset("pets", "test", corpus, cases, QRELS)
    return rb.evaluate(pets, answer)


def evaluated() -> rb.Result:
    return rb.evaluate(data(), retriever="bm25", perspectives="retrieval")


def numbered_rows(score: float) -> pd.DataFrame:
    """Scores of 12 questions that are numbered from 0."""
    return pd.DataFrame({"id": range(12), "score": score})


def concluded() -> Any:
    """The conclusion of two systems, "old" and "new"."""
    return rb.compare({"old": numbered_rows(0.1), "new": numbered_rows(0.6)})


WORKS: dict[str, Callable[[], Any]] = {
    "a leaderboard of several measures": lambda: (
        {"RR", "R@3"} <= set(retrieved({"a": "bm25", "b": "bm25"}).leaderboard(["RR", "R@3"]))
    ),
    "a retriever by keyword": lambda: "bm25" in evaluated().name,
    "to_pandas": lambda: list(evaluated().to_pandas()["query_id"]) == ["q1", "q2"],
    "the length of a result": lambda: len(evaluated()) == 2,
    "head of a dataset": lambda: len(data().head(1)) == 1,
    "a loop over cases": lambda: [case.query_id for case in data()] == ["q1", "q2"],
    "a frame of cases": lambda: list(pd.DataFrame(list(data()))["text"]) == list(QUERIES.values()),
    "one measure by name": lambda: (
        set(rb.score_run(QRELS, {"q1": {"cats": 1.0}, "q2": {"dogs": 1.0}}, "nDCG@10")["measure"])
        == {"nDCG@10"}
    ),
    "compare by one measure": lambda: (
        len(rb.compare(frame(0.5), frame(0.9), measures="nDCG@10")) == 1
    ),
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
        len(rb.compare(frame(0.5), frame(1), measures=["NDCG@10"])) == 1
    ),
    "measures in one text": lambda: (
        set(rb.score_run(QRELS, {"q1": {"cats": 1.0}}, "P_5,map")["measure"]) == {"P@5", "AP"}
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
    # data in hand
    "rows of ragas": lambda: recalls_answers(ROWS),
    "rows of ragas 0.2": lambda: recalls_answers(renamed(NEW_NAMES)),
    "rows of DeepEval": lambda: recalls_answers(renamed(OF_DEEPEVAL)),
    "test cases": lambda: recalls_answers([LLMTestCase(**r) for r in renamed(OF_DEEPEVAL)]),
    "a frame of rows": lambda: recalls_answers(pd.DataFrame(ROWS)),
    "a mapping of columns": lambda: recalls_answers(pd.DataFrame(ROWS).to_dict("list")),
    "rows of arrays": lambda: recalls_answers(
        [{**r, "contexts": np.array(r["contexts"])} for r in ROWS]
    ),
    "questions and a function": lambda: (
        rb.evaluate(["How long do cats sleep?"], answer, perspectives=["context"]).answers[0].text
    ),
    "rows and a system": lambda: (
        rb.evaluate(ROWS, answer, perspectives=["answer"]).answers[1].text == "Most of the day."
    ),
    "what beir loads": lambda: retrieved().scores.equals(
        rb.evaluate((CORPUS, QUERIES, QRELS), perspectives=["retrieval"]).scores
    ),
    "names choose measures": lambda: named("nDCG@10", "recall@3") == ["nDCG@10", "R@3"],
    "names of trec_eval": lambda: (
        set(named("ndcg_cut_10", "map", "recip_rank", "P_5")) == {"nDCG@10", "AP", "RR", "P@5"}
    ),
    "measures of ir_measures": lambda: named(ir_measures.RR, ir_measures.R @ 3) == ["RR", "R@3"],
    "targets as a mapping": lambda: (
        retrieved(targets={"nDCG@5": 0.6}).settings["targets"]["nDCG@5"] == 0.6
    ),
    "several systems": lambda: len(retrieved(["bm25", "dense:wordllama"])) == 2,
    "systems by name": lambda: retrieved({"old": "bm25"})["old"].name == "old",
    "options of the pipeline": lambda: "fixed 64" in retrieved(chunker="fixed", chunk_size=64).name,
    "a limit": lambda: len(retrieved(limit=1).questions) == 1,
    # results
    "compare results": lambda: set(rb.compare(retrieved(), retrieved())["difference"]) == {0},
    "a result as a frame": lambda: retrieved().to_frame()["nDCG@10"].tolist() == [1.0, 1.0],
    "pandas on a result": lambda: list(pd.DataFrame(retrieved())["query_id"]) == ["q1", "q2"],
    "a short repr": lambda: len(repr(retrieved()).splitlines()) < 24,
    "the mean of a result": lambda: retrieved().mean()["nDCG@10"] == 1.0,
    "a measure of a result": lambda: retrieved()["ndcg@10"].to_dict() == {"q1": 1.0, "q2": 1.0},
    "a column of a result": lambda: retrieved()["question"]["q1"] == QUERIES["q1"],
    "failures of a result": lambda: list(failing().failures["query_id"]) == ["q2"],
    "the worst of a result": lambda: (
        list(failing().worst(1, "gold_fact_coverage")["query_id"]) == ["q2"]
        and len(retrieved().worst(1)) == 1
    ),
    "compare a list": lambda: set(rb.compare([retrieved(), retrieved()])["difference"]) == {0},
    "compare by name": lambda: (
        rb.compare({"a": frame(0.5), "b": frame(1.0)})["name"].tolist() == ["b"]
    ),
    "compare several": lambda: len(rb.compare(frame(0.5), frame(1.0), frame(0.7))) == 2,
    "compare results of several systems": lambda: (
        len(rb.compare(retrieved({"a": "bm25", "b": "bm25"}))) == 1
    ),
    "diagnose a result": lambda: set(rb.diagnose(failing())["query_id"]) == {"q1", "q2"},
    "a dataset in pandas": lambda: data().to_pandas()["text"].tolist() == list(QUERIES.values()),
    "a measure by name": lambda: rb.measures()["ndcg@10"]["better"] == "higher",
    "a column of the measures": lambda: "nDCG@{k}" in set(rb.measures()["measure"]),
    "an embedder as retriever": lambda: rb.make_retriever(SentenceModel(), chunks()).search(
        QUERIES, 2
    )["q1"],
    "an embedder of LangChain as retriever": lambda: rb.make_retriever(
        LangChainEmbeddings(), chunks()
    ).search(QUERIES, 2)["q1"],
    "a retriever with an embedder": lambda: rb.make_retriever(
        "hybrid", chunks(), embedder=SentenceModel()
    ).search(QUERIES, 2)["q1"],
    "a row of the measures": lambda: rb.measures().loc["ndcg@10"]["level"] == "document",
    "a cell of the measures": lambda: rb.measures().loc["nDCG@10", "better"] == "higher",
    "some of the measures": lambda: (
        len(rb.measures().loc[rb.measures()["judged"]]) == rb.measures()["judged"].sum() > 0
    ),
    "the mean of one measure": lambda: retrieved().mean("ndcg@10") == 1.0,
    "a measure of pytrec_eval": lambda: (
        set(rb.score_run(QRELS, {"q1": {"cats": 1.0}}, "ndcg_cut.10")["measure"]) == {"nDCG@10"}
    ),
    "labels of one result": lambda: rb.trust(failing(), criterion="relevance").n >= 0,
    # a dataset as a sequence
    "a question by its id": lambda: data()["q2"].text == QUERIES["q2"],
    "a question in a dataset": lambda: (
        "q1" in data() and data()[0] in data() and "q9" not in data()
    ),
    "cases of a dataset": lambda: (
        (len(data()), data()[0].query_id, data()[-1:].queries) == (2, "q1", {"q2": QUERIES["q2"]})
    ),
    "a sample": lambda: len(rb.load_dataset("pydoc").sample(20)) == 20,
    "a pipeline on a dict": lambda: (
        rb.Pipeline(CORPUS).answer("q", "How long do cats sleep?").text.startswith("Cats")
    ),
    "a pipeline with a function as model": lambda: (
        rb.Pipeline(data(), llm=lambda prompt: "All day [1].")
        .answer("q1", "How long do cats sleep?")
        .text
    ),
    "the mean of scores": lambda: (
        rb.score_run(QRELS, {"q1": {"cats": 1.0}, "q2": {}}).mean()["nDCG@10"] == 0.5
        and retrieved().scores.mean()["nDCG@10"] == 1.0
    ),
    "a measure of scores": lambda: (
        rb.score_run(QRELS, {"q1": {"cats": 1.0}, "q2": {}})["ndcg@10"].to_dict()
        == {"q1": 1.0, "q2": 0.0}
    ),
    "a field of a conclusion": lambda: concluded()["decision"] == concluded().decision == "better",
    "an arm of a conclusion": lambda: (
        concluded()["new"] == concluded().arms["new"] == concluded().arms[0]
        and concluded().to_dict()["arms"][0]["name"] == "new"
    ),
    "tables indexed by question": lambda: (
        rb.compare(numbered_rows(0.1).set_index("id"), numbered_rows(0.6).set_index("id")).decision
        == "better"
    ),
    "some questions of a dataset": lambda: data()[["q2"]].queries == {"q2": QUERIES["q2"]},
    "a row of a result's measures": lambda: retrieved().measures["ndcg@5"]["value"] == 1.0,
    "locations of rows by name": lambda: (
        retrieved().measures.loc["ndcg@5", "value"] == 1.0
        and retrieved().questions.loc["q1", "question"] == QUERIES["q1"]
        and len(retrieved().scores.loc["RR"]) == 2
        and retrieved({"a": "bm25"}).leaderboard().loc["a", "rank"] == 1
    ),
    "columns of a result": lambda: list(retrieved()[["ndcg@10", "R@5"]]) == ["nDCG@10", "R@5"],
    "a result as a run": lambda: set(rb.score_run(QRELS, retrieved(), "RR")["value"]) == {1.0},
    "an engine that chats": lambda: (
        rb.evaluate(data(), chat_engine(), perspectives=["answer"]).answers[0].text == "Most of it."
    ),
    "scores of several results by measure": lambda: (
        list(retrieved({"a": "bm25", "b": "bm25"}).scores["RR"]["name"]) == ["a", "a", "b", "b"]
    ),
    "a measure in a result": lambda: (
        "ndcg@10" in retrieved() and "q1" in retrieved() and "nope" not in retrieved()
    ),
    "a measure among all": lambda: "nDCG@10" in rb.measures() and "nope" not in rb.measures(),
    "a question of a result": lambda: retrieved()["q1"]["question"] == QUERIES["q1"],
    "an arm in a conclusion": lambda: "new" in concluded() and "B" not in concluded(),
    "answers of a function as model": lambda: rb.generate_answers(
        data(), run(), chunks(), lambda prompt: "Yes."
    ),
}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "documents of an evaluation": (
        lambda: rb.evaluate(data(), "bm25", documents="docs"),  # type: ignore[call-arg]
        "unknown option 'documents'; use rb.evaluate(rb.load_dataset(tests, corpus=folder), system)",
    ),
    "a function of a question and a depth": (
        lambda: rb.evaluate(data(), lambda query, k: ["cats"]),
        "cannot be called with a question alone: missing a required argument: 'k'; pass a function",
    ),
    "a question as the id of a case": (
        lambda: rb.Case("What is a list?", "A sequence."),
        "write rb.Case('q1', 'What is a list?', reference_answer=...)",
    ),
    "a vector store": (lambda: rb.evaluate(data(), "faiss"), "did you mean 'dense:minilm'?"),
    "an axis outside of the axes": (
        lambda: rb.sweep({"retriever": ["bm25"]}),
        "a parameter of the configurations is in [axes]",
    ),
    "documents of a test set": (
        lambda: rb.load_dataset("tests.csv", docs="docs"),  # type: ignore[call-arg]
        "load_dataset has no option 'docs'; did you mean 'corpus'?",
    ),
    "options in place of a system": (
        lambda: rb.evaluate(data(), {"retriever": "bm25", "chunk_size": 256}),  # type: ignore[dict-item]
        "the system is a dict of options; call rb.evaluate(data, retriever='bm25', chunk_size=256)",
    ),
    "several runs at once": (
        lambda: rb.score_run(QRELS, ["a.run", "b.run"], "RR"),  # type: ignore[arg-type]
        "run is a list of 2 texts; score one run at a time, such as 'a.run'",
    ),
    "a text of JSON": (
        lambda: rb.evaluate('[{"question": "Who?"}]'),
        "the dataset is a text of JSON; call rb.evaluate(json.loads(text), system)",
    ),
    "a class as a system": (
        lambda: rb.evaluate(data(), LangChainDocument),
        "LangChainDocument is a class; pass an object of it",
    ),
    "a measure without its depth": (
        lambda: retrieved()["recall"],
        "unknown measure 'recall'; did you mean 'R@10'?",
    ),
    "a judged measure of another tool": (
        lambda: retrieved().mean("answer_relevancy"),
        "'answer_relevancy': llm_relevance was not measured here; it needs a judge, rb.evaluate(",
    ),
    "a column without its depth": (
        lambda: retrieved({"a": "bm25"}).leaderboard()["recall"],
        "unknown column or row 'recall'; did you mean 'R@10'?",
    ),
    "an unknown location": (lambda: retrieved().questions.loc["q9"], "unknown column or row 'q9'"),
    "parts of a dataset": (
        lambda: rb.load_dataset(corpus={}, queries={}, qrels={}),  # type: ignore[call-arg,arg-type]
        "load_dataset has no option 'queries'; use rb.Dataset.from_dicts(corpus, queries, qrels)",
    ),
    "rows as the name of a dataset": (
        lambda: rb.load_dataset([{"question": "Who?"}]),  # type: ignore[arg-type]
        "Data in hand is for rb.Dataset.from_dicts",
    ),
    "a system and a dataset exchanged": (
        lambda: rb.evaluate("bm25", data()),  # type: ignore[arg-type]
        "were the two given the other way round?",
    ),
    "a ranking as a system": (
        lambda: rb.evaluate(data(), {"q1": ["cats"]}),  # type: ignore[list-item]
        "the system is a run, query -> document -> score",
    ),
    "a judged measure without a judge": (
        lambda: rb.evaluate(data(), "bm25", measures=["llm_faithfulness"]),
        "llm_faithfulness needs a judge, but none is named; name one",
    ),
    "an argument given twice": (
        lambda: rb.score_run(data().qrels, {}, qrels={}),  # type: ignore[misc]
        "score_run: qrels is given twice, by its place and by its name",
    ),
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
    "beir's order": (
        lambda: rb.evaluate(CORPUS, QUERIES, QRELS),  # type: ignore[arg-type]
        "evaluate((corpus, queries, qrels), system)",
    ),
    "a number as data": (lambda: rb.evaluate(7), "the data is int"),
    "another tool's keyword": (
        lambda: rb.evaluate(data(), metrics=["nDCG@10"]),  # type: ignore[call-arg]
        "unknown option 'metrics'; did you mean 'measures'?",
    ),
    "a measure of ragas": (
        lambda: rb.evaluate(ROWS, measures=["faithfulness"]),
        "criteria=['faithfulness']), which measures llm_faithfulness",
    ),
    "a model without provider": (
        lambda: rb.evaluate(data(), answer, judge="gpt-4o-mini"),
        "Write 'openai:gpt-4o-mini'",
    ),
    "a misspelt set of beir": (
        lambda: rb.load_dataset("beir/scifct"),
        "did you mean 'scifact'",
    ),
    "a grid without sections": (
        lambda: rb.sweep({"retriever": ["bm25"]}),
        "unknown key 'retriever'. Known: sweep, fixed, axes",
    ),
    "a run as system": (
        lambda: rb.evaluate(data(), run()),  # type: ignore[arg-type]
        "rb.score_run(data.qrels, run, measures) scores it",
    ),
    "an embedder of bm25": (
        lambda: rb.make_retriever("bm25", chunks(), embedder="minilm"),
        "takes no embedder",
    ),
    "the causes of a dataset": (
        lambda: rb.diagnose(data()),  # type: ignore[call-overload]
        "or the result of rb.evaluate alone",
    ),
    "an unknown measure of a result": (
        lambda: retrieved()["ndgc@10"],
        "did you mean 'nDCG@10'",
    ),
    "an unknown measure by name": (
        lambda: rb.measures()["nDCGG@10"],
        "did you mean 'nDCG@10'",
    ),
    "k of one's own system": (lambda: rb.evaluate(data(), answer, k=3), "set it in your system"),
    "a retriever in capitals": (lambda: rb.evaluate(data(), "BM25"), "did you mean 'bm25'?"),
    "texts to index": (
        lambda: rb.make_retriever("bm25", list(CORPUS.values())),  # type: ignore[arg-type]
        "expected chunks as from `rb.chunk`",
    ),
    "an unknown question": (lambda: data()["q9"], "unknown question 'q9'. Known: q1, q2"),
    "a protocol as a class": (
        lambda: rb.Retriever("bm25"),  # type: ignore[call-arg, misc]
        "Retriever is a protocol, not an object; use rb.make_retriever('bm25', chunks)",
    ),
    "a model by the protocol": (lambda: rb.LLM("openai:x"), "use rb.load_llm("),  # type: ignore[call-arg, misc]
    "another name of a size": (
        lambda: rb.chunk(CORPUS, size=100),  # type: ignore[call-arg]
        "chunk has no option 'size'; did you mean 'chunk_size'? Expected chunk(dataset, ",
    ),
    "another name of the depth": (
        lambda: rb.retrieve(index(), QUERIES, top_k=3),  # type: ignore[call-arg]
        "did you mean 'depth'?",
    ),
    "a retriever's name in place of one": (
        lambda: rb.retrieve("bm25", QUERIES),  # type: ignore[arg-type]
        "'bm25' does not search; expected a retriever, as in rb.retrieve(rb.make_retriever(",
    ),
    "documents to index": (
        lambda: rb.make_retriever("bm25", CORPUS),  # type: ignore[arg-type]
        "expected chunks as from `rb.chunk`",
    ),
    "a judge of a result": (
        lambda: rb.judge(retrieved()),  # type: ignore[call-arg]
        "judge: missing a required argument: 'criterion'. Use rb.judge(result.answers, criterion, llm, dataset=data",
    ),
    "a report without a file": (
        lambda: rb.write_report(retrieved()),  # type: ignore[call-arg]
        "missing a required argument: 'path'",
    ),
    "saved nowhere": (lambda: rb.save(retrieved()), "missing a required argument: 'folder'"),  # type: ignore[call-arg]
    "all in a list": (
        lambda: rb.compare_all([frame(0.5)]),  # type: ignore[call-arg, arg-type]
        "missing a required argument: 'baseline'",
    ),
    "a dataset to explore": (
        lambda: rb.explore(data()),  # type: ignore[arg-type]
        "expected results of rb.evaluate or rb.load_results, found Case",
    ),
    "runs to compare": (
        lambda: rb.compare(run(), run()),
        "score runs with rb.score_run(qrels, run), and compare these scores",
    ),
    "names for compare": (
        lambda: rb.compare(frame(0.5), frame(1.0), names=["a", "b"]),  # type: ignore[call-overload]
        "compare has no option 'names'; use names of systems as in compare({'old': a, 'new': b})",
    ),
    "a run before its judgements": (
        lambda: rb.score_run({"q1": {"cats": 1.0, "tax": 0.5}}, QRELS),  # type: ignore[arg-type]
        "score_run(qrels, run) takes judgements first",
    ),
    "another tool's measures": (
        lambda: rb.score_run(QRELS, run(), metrics=["map"]),  # type: ignore[call-arg]
        "score_run has no option 'metrics'; did you mean 'measures'?",
    ),
    "judgements and a run to evaluate": (
        lambda: rb.evaluate(qrels=QRELS, run=run()),  # type: ignore[call-arg]
        "evaluate has no option 'qrels'; use rb.score_run(qrels, run, measures)",
    ),
    "data by another name": (
        lambda: rb.evaluate(data=data()),  # type: ignore[call-arg]
        "evaluate has no option 'data'; did you mean 'dataset'?",
    ),
    "numbers without questions": (
        lambda: rb.compare(np.array([0.1, 0.2]), np.array([0.3, 0.4])),
        "expected {question id: score} or pandas.Series(scores, index=question_ids)",
    ),
    "a test by name": (
        lambda: rb.compare(numbered_rows(0.1), numbered_rows(0.6), test="wilcoxon"),  # type: ignore[call-overload]
        "compare has no option 'test'; leave it out: one paired test of the mean",
    ),
    "an unknown field of a conclusion": (
        lambda: concluded()["decisoin"],
        "did you mean 'decision'?",
    ),
    "an unknown arm": (lambda: concluded().arms["B"], "unknown configuration 'B'. Known: new, old"),
    "rows as a dataset": (
        lambda: rb.Dataset(ROWS),  # type: ignore[call-arg, arg-type]
        "Dataset: missing a required argument: 'split'. Use rb.Dataset.from_dicts(corpus, queries, qrels)",
    ),
    "a result of scores": (
        lambda: rb.Result(frame(0.5)),  # type: ignore[call-arg, arg-type]
        "Use rb.evaluate(data, system), or rb.load_result(folder)",
    ),
    "tables by other names": (
        lambda: rb.compare(a=frame(0.5), b=frame(1.0)),  # type: ignore[call-overload]
        "compare has no option 'a'; did you mean 'baseline'? Expected compare(baseline, contender=..., *others",
    ),
    "a depth of scores": (
        lambda: rb.score_run(QRELS, run(), k=10),  # type: ignore[call-arg]
        "score_run has no option 'k'; use measures=['nDCG@10']",
    ),
    "two names of results": (
        lambda: retrieved({"a": "bm25", "b": "bm25"}).compare("a", "b"),
        "or rb.compare(results['a'], results['b'])",
    ),
    "a ranking by another word": (
        lambda: retrieved({"a": "bm25", "b": "bm25"}).leaderboard(by="nDCG@10"),
        "Results.leaderboard has no option 'by'; did you mean 'measure'?",
    ),
    "a folder before its result": (
        lambda: rb.save("folder", retrieved()),  # type: ignore[arg-type]
        "save: result is str, expected Result. Use rb.save(result, folder)",
    ),
    "a depth by place": (
        lambda: rb.retrieve(index(), "cats", 3),  # type: ignore[arg-type]
        "retrieve: chunks is int, expected Sequence or NoneType",
    ),
    "a conclusion as truth": (
        lambda: bool(concluded()),
        "a conclusion is neither true nor false; write conclusion.decision in",
    ),
    "a difference by name": (
        lambda: concluded()["difference"],
        "unknown field or configuration 'difference'; use conclusion.arms['name'].difference",
    ),
    "a measure as an argument": (
        lambda: rb.measures("nDCG@10"),  # type: ignore[call-arg]
        "measures: too many positional arguments. Expected measures()",
    ),
    "a column by another word": (
        lambda: rb.compare(frame(0.5), frame(0.9))["delta"],
        "unknown column or row 'delta'; did you mean 'difference'?",
    ),
    "a measure of a conclusion": (
        lambda: concluded()["nDCG@10"],
        "use rb.compare(a, b, measures=['nDCG@10'])",
    ),
    "a conclusion as text": (
        lambda: concluded() == "better",
        "a conclusion is not a text; write conclusion.decision == 'better'",
    ),
    "options as a system": (
        lambda: rb.evaluate(data(), {"bm25": {"chunk_size": 64}}),  # type: ignore[dict-item]
        "call rb.evaluate(data, 'bm25', chunk_size=64) for each system, or rb.sweep(grid)",
    ),
    "a correction by name": (
        lambda: rb.compare(frame(0.5), frame(0.9), correction="holm"),  # type: ignore[call-overload]
        "several contenders are always corrected by Holm's method",
    ),
    "runs with judgements": (
        lambda: rb.compare(run(), run(), qrels=QRELS),  # type: ignore[call-overload]
        "use rb.score_run(qrels, run) of each run",
    ),
    "a number of questions": (lambda: rb.evaluate(data(), "bm25", n=1), "did you mean 'limit'?"),  # type: ignore[call-arg]
    "threads": (lambda: rb.evaluate(data(), "bm25", n_jobs=1), "did you mean 'concurrency'?"),  # type: ignore[call-arg]
    "a model with a slash": (
        lambda: rb.load_llm("openai/gpt-4o-mini"),
        "Write 'openai:gpt-4o-mini'",
    ),
    "a folder to chunk": (lambda: rb.chunk("docs"), "rb.testsets.load_corpus(folder)"),
    "depths of a comparison": (
        lambda: rb.compare(frame(0.5), frame(0.9), k=10),  # type: ignore[call-overload]
        "use measures=['nDCG@10']",
    ),
    "several depths": (
        lambda: rb.evaluate(data(), "bm25", k_values=[1, 5]),  # type: ignore[call-arg]
        "did you mean 'ks'?",
    ),
    "a function by another word": (
        lambda: rb.Measure("words", fn=len),  # type: ignore[call-arg]
        "did you mean 'function'?",
    ),
    "a model to load by keyword": (
        lambda: rb.load_llm(model="openai:x"),  # type: ignore[call-arg]
        "did you mean 'name'?",
    ),
    "a seed by another word": (
        lambda: rb.evaluate(data(), "bm25", random_state=0),  # type: ignore[call-arg]
        "did you mean 'seed'?",
    ),
    "a split of a dataset": (
        lambda: rb.evaluate(data(), "bm25", split="dev"),  # type: ignore[call-arg]
        "use rb.load_dataset(name, split)",
    ),
    "lists in place of rows": (
        lambda: rb.evaluate(questions=["Who?"], answers=["Me."]),  # type: ignore[call-arg]
        "use rb.evaluate(rows), of dicts such as {'question'",
    ),
    "bounds of all measures": (
        lambda: rb.compare(numbered_rows(0.1), numbered_rows(0.6), bounds=(0, 1)),  # type: ignore[call-overload]
        "bounds is (0, 1); expected measure -> (low, high)",
    ),
    "axes of a sweep": (
        lambda: rb.sweep(data(), retriever=["bm25", "dense:minilm"]),  # type: ignore[call-arg, arg-type]
        "sweep has no option 'retriever'; use rb.sweep({'fixed':",
    ),
    "a threshold of all measures": (
        lambda: rb.evaluate(data(), "bm25", fail_under=0.8),  # type: ignore[arg-type]
        'fail_under: Targets: "nDCG@5=0.6,claim_support=0.85"',
    ),
    "rows of tuples": (
        lambda: rb.evaluate([("Who?", "Me.")]),
        "a row is tuple; expected a question, or a dict such as {'question':",
    ),
    "a group of questions": (
        lambda: rb.compare(frame(0.5), frame(0.9), groupby="topic"),  # type: ignore[call-overload]
        "use rb.compare of the rows of one group at a time",
    ),
    "tags": (lambda: rb.evaluate(data(), "bm25", tags=["a"]), "did you mean 'name'?"),  # type: ignore[call-arg]
    "a measure that was not scored": (
        lambda: rb.score_run(QRELS, {"q1": {"cats": 1.0}}, ["RR"])["MRR@7"],
        "RR@7 was not measured here",
    ),
    "a size in place of a chunker": (
        lambda: rb.chunk(CORPUS, 200),  # type: ignore[arg-type]
        "chunker is 200; write chunk_size=200",
    ),
    "weights of a hybrid": (
        lambda: rb.make_retriever("hybrid:wordllama", chunks(), alpha=0.5),  # type: ignore[call-arg]
        "did you mean 'fusion'?",
    ),
    "a dry run of a call": (
        lambda: rb.dry_run(data(), "bm25"),  # type: ignore[call-arg]
        "Use with rb.dry_run() as plan: rb.evaluate(data, system)",
    ),
    "an unknown row": (
        lambda: retrieved().measures["nope"],
        "unknown column or row 'nope'. Known: measure, perspective, ",
    ),
    "columns of numbers alone": (
        lambda: rb.compare(numbered_rows(0.1)["score"], numbered_rows(0.6)["score"]),
        "A is Series of numbers without questions",
    ),
    "a model by another word": (
        lambda: rb.evaluate(data(), model="bm25"),  # type: ignore[call-arg]
        "unknown option 'model'; did you mean 'llm'?",
    ),
    "a measure without a name": (
        lambda: rb.Measure(lambda case, given, contexts: 1.0),  # type: ignore[arg-type]
        "expected rb.Measure('answer_words', function)",
    ),
    "an embedder of one row": (
        lambda: rb.retrieval.Dense(chunks(), lambda texts: [1.0]),
        "one row of numbers",
    ),
}


def test_there_are_75_or_more() -> None:
    assert len(WORKS) + len(REFUSED) >= 75


@pytest.mark.parametrize("name", WORKS)
def test_it_works(name: str) -> None:
    assert WORKS[name]()


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_one_sentence(name: str) -> None:
    snippet, message = REFUSED[name]
    with pytest.raises(rb.RagbenchError, match=re.escape(message)) as refused:
        snippet()
    assert "\n" not in str(refused.value)


MISNAMED: dict[str, tuple[Callable[[], Any], str]] = {
    "fusion of rankings": (lambda: rb.rrf, "use rb.make_retriever('hybrid:minilm', chunks)"),  # type: ignore[attr-defined]
    "a criterion of DeepEval": (lambda: rb.GEval, "criteria=[rb.Criterion('politeness', "),  # type: ignore[attr-defined]
    "a list of measures": (lambda: rb.available_metrics, "use rb.measures()"),  # type: ignore[attr-defined]
    "contexts of a question": (lambda: data()[0].contexts, "use case.evidence"),
    "a run to write": (lambda: rb.write_run, "use rb.save(result, folder), which writes its run"),  # type: ignore[attr-defined]
    "results in one table": (lambda: rb.concat, "use rb.Results([a, b])"),  # type: ignore[attr-defined]
    "a vector store to make": (lambda: rb.VectorStore, "use rb.make_retriever('dense:minilm'"),  # type: ignore[attr-defined]
    "a judge as a class": (lambda: rb.LLMJudge, "criteria=[rb.Criterion('politeness', "),  # type: ignore[attr-defined]
    "embeddings of a framework": (
        lambda: rb.HuggingFaceEmbeddings,  # type: ignore[attr-defined]
        "use rb.retrieval.load_embedder('minilm').encode(texts)",
    ),
    "a dataset of a frame": (lambda: rb.from_dataframe, "rb.Dataset.from_frames("),  # type: ignore[attr-defined]
    "a method as an attribute": (lambda: retrieved().means, "did you mean 'mean()'?"),
    "a measure of a result by a usual word": (lambda: retrieved().hit_rate, "result['Success@10']"),
    "a measure as a class": (
        lambda: rb.metrics.AnswerRelevancyMetric,  # type: ignore[attr-defined]
        "judge='provider:model', criteria=['relevance']), which measures llm_relevance",
    ),
    "a measure at a depth": (lambda: rb.recall_at_3, "use rb.score_run(qrels, run, 'R@3')"),  # type: ignore[attr-defined]
    "a loader of documents": (lambda: rb.DirectoryLoader, "or rb.testsets.load_corpus(folder)"),  # type: ignore[attr-defined]
    "a collection of beir": (lambda: rb.from_beir, "use rb.load_dataset('beir/scifact')"),  # type: ignore[attr-defined]
    "a run to load": (lambda: rb.load_run, "use rb.metrics.read_run"),  # type: ignore[attr-defined]
    "judgements to read": (lambda: rb.load_qrels, "use rb.metrics.read_qrels"),  # type: ignore[attr-defined]
    "failures by a function": (lambda: rb.show_failures, "use result.failures"),  # type: ignore[attr-defined]
    "the worst by a function": (lambda: rb.worst, "use result.worst"),  # type: ignore[attr-defined]
    "another tool": (lambda: rb.read_ragas, "use rb.compare(old, new)"),  # type: ignore[attr-defined]
    "a verb and a noun": (
        lambda: rb.plot_leaderboard,  # type: ignore[attr-defined]
        "use rb.Results([a, b]).leaderboard()",
    ),
    "a part of the questions": (lambda: data().subset(["q1"]), "did you mean 'select()'?"),  # type: ignore[attr-defined]
    "a leaderboard": (
        lambda: rb.leaderboard,  # type: ignore[attr-defined]
        "module 'ragbench' has no attribute 'leaderboard'; use rb.Results([a, b]).leaderboard()",
    ),
    "a plot of a result": (
        lambda: retrieved().plot(),
        "Result has no attribute 'plot'; use rb.write_report(result, 'report.html')",
    ),
    "the winner of several": (
        lambda: retrieved({"a": "bm25", "b": "bm25"}).winner,
        "Results has no attribute 'winner'; use results.conclude().choice",
    ),
    "a frame of a result": (lambda: retrieved().df, "use result.to_frame()"),
    "a filter of a dataset": (
        lambda: data().filter(len),  # type: ignore[attr-defined]
        "use dataset.select(query_ids)",
    ),
    "a measure as a function": (
        lambda: rb.metrics.ndcg,  # type: ignore[attr-defined]
        "module 'ragbench.metrics' has no attribute 'ndcg'; use rb.score_run(qrels, run, 'nDCG@10')",
    ),
    "a plot that is called otherwise": (lambda: rb.plots.forest, "use rb.plots.plot_decision"),  # type: ignore[attr-defined]
    "a misspelt name of a submodule": (
        lambda: rb.statistics.sumarise,  # type: ignore[attr-defined]
        "did you mean 'summarise'?",
    ),
    "a search of LangChain": (lambda: index().invoke("cats"), "use retriever.search(queries, k)"),  # type: ignore[attr-defined]
    "the p of a conclusion": (
        lambda: rb.compare({"q1": 1.0}, {"q1": 0.5}).pvalue,
        "use conclusion.arms['name'].p_adjusted",
    ),
    "load": (lambda: rb.load, "use rb.load_result(folder), or rb.load_results(folder)"),  # type: ignore[attr-defined]
    "the scores of a result": (
        lambda: retrieved().score,
        "use result.mean('nDCG@10'), or result.scores",
    ),
    "the corpus of a dataset": (lambda: data().corpuss, "did you mean 'corpus'?"),  # type: ignore[attr-defined]
    "the question of a case": (lambda: data()[0].question, "use case.text"),
    "the id of a chunk": (lambda: chunks()[0].id, "use chunk.chunk_id"),  # type: ignore[attr-defined]
    "pandas on a result": (
        lambda: retrieved().sort_values("nDCG@10"),
        "Result has no attribute 'sort_values'; use result.to_frame().sort_values",
    ),
    "columns of a result": (lambda: retrieved().columns, "use result.to_frame().columns"),
    "pandas on a dataset": (
        lambda: data().to_csv("x.csv"),  # type: ignore[attr-defined]
        "use dataset.to_frame().to_csv",
    ),
    "pandas on a conclusion": (
        lambda: concluded().to_csv("x.csv"),
        "use pandas.DataFrame(conclusion.arms).to_csv",
    ),
    "a dataset from a file": (
        lambda: rb.Dataset.from_csv("x.csv"),  # type: ignore[attr-defined]
        "Dataset has no attribute 'from_csv'; use rb.load_dataset(path or name)",
    ),
    "a judge to load": (lambda: rb.load_judge, "use rb.load_llm('provider:model')"),  # type: ignore[attr-defined]
    "an embedder to make": (lambda: rb.make_embedder, "use rb.retrieval.load_embedder"),  # type: ignore[attr-defined]
    "documents to load": (lambda: rb.load_documents, "use rb.testsets.load_corpus"),  # type: ignore[attr-defined]
    "a test of significance": (lambda: rb.significance_test, "use rb.compare(a, b)"),  # type: ignore[attr-defined]
    "names to list": (lambda: rb.list_datasets, "use the command `ragbench list datasets`"),  # type: ignore[attr-defined]
    "the winner of a table": (
        lambda: rb.compare(frame(0.5), frame(0.9)).winner,
        "'winner'; use rb.Results([a, b]).conclude() of two results, or table['decision']",
    ),
    "a column of a table by another word": (
        lambda: rb.compare(frame(0.5), frame(0.9)).significant,
        "or table['decision']",
    ),
    "a column that scores lack": (
        lambda: rb.score_run(QRELS, {"q1": {"cats": 1.0}}).metric,
        "did you mean 'measure'?",
    ),
    "the interval of a result": (lambda: retrieved().ci, "use result.measures"),
    "what a result retrieved": (lambda: retrieved().retrieved, "use result.run"),
    "improvements": (lambda: concluded().improved, "use conclusion.arms['name'].wins"),
    "the p values of a conclusion": (
        lambda: concluded().p_values,
        "use conclusion.arms['name'].p_adjusted",
    ),
    "a size of a sample": (
        lambda: rb.sample_size,  # type: ignore[attr-defined]
        "use rb.compare(a, b), which states how many questions",
    ),
    "the size of a result": (lambda: retrieved().n, "use len(result)"),
    "a test set to draft": (lambda: rb.draft_testset, "use the commands `ragbench testset draft`"),  # type: ignore[attr-defined]
    "groups of a result": (lambda: retrieved().breakdown("category"), "or result.categories"),
    "the contexts of a result": (
        lambda: retrieved().contexts,
        "result.answer_of[query_id].contexts",
    ),
    "the time of a result": (lambda: retrieved().timestamp, "use result.made_at"),
    "a sorted sweep": (
        lambda: retrieved({"a": "bm25", "b": "bm25"}).sort("RR"),
        "use results.leaderboard(measure)",
    ),
    "a model by its word": (lambda: rb.llm, "use rb.load_llm("),  # type: ignore[attr-defined]
    "a splitter of LangChain": (lambda: rb.split_documents, "use rb.chunk(corpus, chunker)"),  # type: ignore[attr-defined]
    "a measure as a column": (
        lambda: rb.score_run(QRELS, {"q1": {"cats": 1.0}}).nDCG,
        "use table['nDCG@1']",
    ),
    "the judgements of a case": (
        lambda: data()[0].relevant_docs,
        "use dataset.qrels[case.query_id]",
    ),
    "the metadata of a chunk": (
        lambda: chunks()[0].metadata,  # type: ignore[attr-defined]
        "use dataset.corpus[chunk.doc_id]",
    ),
    "one document": (lambda: data().get_document("cats"), "use dataset.corpus[doc_id]"),  # type: ignore[attr-defined]
    "the summary of a table": (
        lambda: rb.compare(frame(0.5), frame(0.9)).summary(),
        "use rb.Results([a, b]).conclude() of two results, or table['decision']",
    ),
    "a synonym in a longer name": (
        lambda: rb.compare(frame(0.5), frame(0.9)).mean_diff,
        "did you mean 'difference'?",
    ),
    "a recommendation": (lambda: concluded().recommendation, "did you mean 'next_step'?"),
    "a retriever to load": (lambda: rb.load_retriever, "did you mean 'make_retriever'?"),  # type: ignore[attr-defined]
    "results to open": (lambda: rb.open_results, "did you mean 'load_results'?"),  # type: ignore[attr-defined]
    "the average of a result": (lambda: retrieved().aggregate(), "use result.mean()"),
    "the table of a conclusion": (
        lambda: concluded().table,
        "use pandas.DataFrame(conclusion.arms)",
    ),
    "a misspelt constructor": (
        lambda: rb.Dataset.from_dict(CORPUS),  # type: ignore[attr-defined]
        "Dataset has no attribute 'from_dict'; did you mean 'from_dicts()'?",
    ),
    "a measure in other case": (
        lambda: retrieved().NDCG,
        "use result.mean('nDCG@10'), or result['nDCG@10']",
    ),
    "a word of a longer name": (
        lambda: rb.paired_bootstrap,  # type: ignore[attr-defined]
        "module 'ragbench' has no attribute 'paired_bootstrap'; use rb.compare(a, b)",
    ),
    "a class with a word in it": (lambda: rb.LLMTestCase, "use rb.evaluate(rows)"),  # type: ignore[attr-defined]
    "a function of another package": (
        lambda: rb.evaluate_retrieval,  # type: ignore[attr-defined]
        "use rb.evaluate(data, system), or rb.score_run(qrels, run)",
    ),
    "the interval of an arm": (
        lambda: concluded().arms["new"].ci,
        "use arm.ci_low and arm.ci_high",
    ),
    "the interval of a conclusion": (
        lambda: concluded().confidence_interval,
        "use conclusion.arms['name'].ci_low",
    ),
    "a printed result": (lambda: retrieved().show(), "use print(result)"),
    "a word of a class": (lambda: rb.SingleTurnSample, "use rb.evaluate(rows)"),  # type: ignore[attr-defined]
    "a name of the root": (lambda: rb.metrics.compare, "use rb.compare"),  # type: ignore[attr-defined]
    "a name that the root explains": (
        lambda: rb.metrics.faithfulness,  # type: ignore[attr-defined]
        "which measures llm_faithfulness",
    ),
    "results of a folder": (
        lambda: rb.Results.from_folder("x"),  # type: ignore[attr-defined]
        "Results has no attribute 'from_folder'; use rb.load_results(folder)",
    ),
    "the names of measures": (lambda: rb.metrics.list(), "use rb.measures()"),  # type: ignore[attr-defined]
    "another word for a difference": (
        lambda: concluded().arms["new"].delta,
        "Arm has no attribute 'delta'; did you mean 'difference'?",
    ),
    "a field of an arm": (lambda: concluded().ties, "use conclusion.arms['name'].ties"),
    "the score of a criterion": (
        lambda: rb.Criterion("tone", question="Polite?").score("Hello"),  # type: ignore[attr-defined]
        "use rb.evaluate(rows, judge='provider:model', criteria=[criterion])",
    ),
    "a name of a submodule": (lambda: index() and rb.rerank, "use rb.retrieval.rerank"),  # type: ignore[attr-defined]
    "a record as a dict": (lambda: data()[0].to_dict(), "use dataclasses.asdict(record)"),
    "nothing near": (
        lambda: concluded().colour,
        "Conclusion has no attribute 'colour'; it has action, arms, baseline, choice",
    ),
    "the decisions of a conclusion": (
        lambda: rb.compare({"q1": 1.0}, {"q1": 0.5}).decisions,
        "Conclusion has no attribute 'decisions'; did you mean 'decision'?",
    ),
}


@pytest.mark.parametrize("name", MISNAMED)
def test_an_attribute_that_does_not_exist_names_the_right_one(name: str) -> None:
    snippet, message = MISNAMED[name]
    with pytest.raises(AttributeError, match=re.escape(message)) as refused:
        snippet()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from ragbench import Faithfulness", "'Faithfulness' from 'ragbench'; use rb.evaluate("),
        ("from ragbench.retrieval import make_embedder", "did you mean 'load_embedder'?"),
    ],
)
def test_an_import_of_a_name_that_does_not_exist_names_the_right_one(
    line: str, message: str
) -> None:
    with pytest.raises(ImportError, match=re.escape(message)):
        exec(line)
    assert not hasattr(rb, "Faithfulness")


@pytest.mark.parametrize("compare", [lambda a, b: a - b, lambda a, b: a > b, lambda a, b: a <= b])
def test_operators_between_results_name_compare(compare: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(TypeError, match=re.escape("use rb.compare(a, b)")):
        compare(retrieved(), retrieved())


def test_a_third_argument_without_a_suffix_may_be_a_measure(tmp_path: Path) -> None:
    for name in ("a", "b"):
        numbered_rows(0.5).to_csv(tmp_path / f"{name}.csv")
    with pytest.raises(rb.RagbenchError, match=re.escape("measures=['faithfulness']")):
        rb.compare(tmp_path / "a.csv", tmp_path / "b.csv", "faithfulness")


def test_a_folder_of_documents_is_no_dataset_and_says_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "cats.md").write_text("Cats sleep.")
    with pytest.raises(rb.RagbenchError, match=re.escape("rb.load_dataset('tests.yaml', corpus=")):
        rb.load_dataset(tmp_path)


def test_a_saved_result_is_no_dataset_and_says_how_to_read_it(tmp_path: Path) -> None:
    rb.save(retrieved(), tmp_path / "result")
    with pytest.raises(rb.RagbenchError, match=re.escape("which rb.load_result(")):
        rb.evaluate(str(tmp_path / "result"))


def test_a_record_that_is_read_like_a_dict_names_its_attribute() -> None:
    case: Any = data()[0]
    with pytest.raises(TypeError, match=r"Case is a record, not a dict; use \.text"):
        case["text"]
    with pytest.raises(TypeError, match=r"Case is a record, not a dict; use case\.text"):
        case["question"]


def test_a_table_that_is_called_says_to_leave_out_the_parentheses() -> None:
    result = retrieved()
    for table in (result.scores, result.measures, result.questions, result.failures):
        with pytest.raises(TypeError, match="a table, not a function: leave out the parentheses"):
            table()
    leaderboard = retrieved({"a": "bm25"}).leaderboard()
    assert not callable(leaderboard[leaderboard["rank"] == 1])  # pandas calls callable keys


def test_a_module_that_is_called_names_what_to_call() -> None:
    with pytest.raises(TypeError, match=r"ragbench.report is a module, .* rb.write_report\(result"):
        rb.report([], "report.html")  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"one of its functions: budget_curves, "):
        rb.plots([])  # type: ignore[operator]


def test_conclusions_are_equal_by_their_fields() -> None:
    assert concluded() == concluded()
    assert concluded() != rb.compare({"q1": 1.0}, {"q1": 0.5})
    assert hash(concluded().arms[0]) == hash(concluded().arms[0])


def public_objects() -> Iterator[tuple[str, Any]]:
    """Every public class and function that a name of the root or of its submodules gives."""
    for name in rb.__all__:
        value = getattr(rb, name)
        if not isinstance(value, ModuleType):
            yield name, value
            continue
        for inner in value.__all__:
            yield f"{name}.{inner}", getattr(value, inner)


def test_every_public_function_explains_a_call_that_does_not_fit() -> None:
    functions = {name: value for name, value in public_objects() if isfunction(value)}
    assert len(functions) > 150
    for name, function in functions.items():
        assert explains_calls(function), name
        assert pickle.loads(pickle.dumps(function)) is function, name


def test_every_public_record_explains_a_name_that_does_not_exist() -> None:
    checked = 0
    for name, value in public_objects():
        if not isclass(value) or issubclass(value, BaseException | tuple | StrEnum):
            continue
        if getattr(value, "_is_protocol", False) or hasattr(value, "comm"):  # a widget
            continue
        assert "__getattr__" in vars(value), name
        checked += 1
    assert checked > 35


def test_records_are_copied_and_pickled_as_before() -> None:
    import copy

    for record in (data(), data()[0], chunks()[0], rb.compare({"q1": 1.0}, {"q1": 0.5})):
        assert copy.deepcopy(record) is not None
        assert repr(pickle.loads(pickle.dumps(record))) == repr(record)
