"""ragbench's own pipeline as a system under test: chunks, a retriever, a generator."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

from ragbench import store
from ragbench.errors import ConfigError, check_known
from ragbench.extension import object_name
from ragbench.generation import check_llm, generate_answers
from ragbench.generation.answers import read_reply
from ragbench.generation.prompts import GENERATION_SYSTEM, REWRITE, check_prompt, closed_book, fill
from ragbench.language import language_of
from ragbench.llms import check_servers, generate_many, load_llm
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.retrievers import BeirRetriever
from ragbench.retrieval.steps.search import STEP_PARAMETERS, Search, check_steps
from ragbench.systems.function import Message
from ragbench.systems.templates import as_text
from ragbench.types import (
    Answer,
    Call,
    Case,
    Chunk,
    Corpus,
    Dataset,
    LLMLike,
    Retriever,
    Run,
    as_documents,
)

HISTORIES = ("", "last", "all", "rewrite")


def _name_of(
    retriever: Any, chunker: Any, chunk_size: int, llm: Any, steps: Mapping[str, Any]
) -> str:
    def text(part: Any) -> str:
        return part if isinstance(part, str) else object_name(part)

    parts = [text(retriever)]
    if steps["reranker"]:
        parts.append(f"reranked by {text(steps['reranker'])}")
    for name in STEP_PARAMETERS:
        if steps[name]:
            value = steps[name]
            parts.append(f"{name} {value if isinstance(value, int) else text(value)}")
    parts += [f"{text(chunker)} {chunk_size}", text(llm)]
    return ", ".join(filter(None, parts))


class Pipeline:
    """Chunks of a corpus, indexed, and answers made from the best `k`: the steps of
    `evaluate.ipynb` as one system.

    The arguments are those of `chunk`, `make_retriever`, `retrieve`, `rerank` and
    `generate_answers`, and the steps of a search (`ragbench.retrieval.steps`; `ragbench list steps`):
    `fusion`, `rerank_depth`, `diversity`. Constructing it is indexing. `chunks` are its chunks, which the ids in
    `contexts` of its answers name (its answers carry no passages: the texts are stored once,
    there). `run` is what was retrieved for the questions asked so far, query_id -> chunk_id ->
    score, `depth` deep: deeper than the `k` that reached the answer. `seconds` has what the stages
    "chunk", "index", "search" and "generate" took, the last two for all questions asked in a batch.
    `language` is the code of the corpus' language, detected unless given. Threads may share it.

    In a conversation `history` states what is searched for and answered: "last" (or "") the last
    question alone, "all" it and all turns before it, "rewrite" a question that the language model
    writes from them; the answer has it as a call of that name, and after it what the last question
    alone would have found, as a call "last".

    Retriever, chunker, reranker and language model may be of your own, as objects or as
    "package.module:attribute". `name` is made of them unless given.

    >>> from ragbench.types import Document
    >>> corpus = {"cats": Document("cats", "Cats sleep most of the day.")}
    >>> pipeline = Pipeline(corpus)
    >>> pipeline.name, pipeline.answer("q1", "How long do cats sleep each day?").text
    ('bm25, recursive 256, extractive', 'Cats sleep most of the day. [1]')
    >>> list(pipeline.run["q1"])
    ['cats#0-27']
    """

    sends_nothing = True  # but by language models, which count it

    def __init__(
        self,
        dataset: Dataset | Corpus,
        retriever: str | Retriever | Callable[[Sequence[Chunk]], Retriever] = "bm25",
        *,
        chunker: str | Callable[..., Any] = "recursive",
        chunk_size: int = 256,
        chunk_overlap: int = 0,
        tokenizer: str = "minilm",
        language: str = "",
        fusion: str | Callable[..., Any] = "",
        reranker: str | Callable[..., Any] = "",
        rerank_depth: int = 0,
        diversity: str | Callable[..., Any] = "",
        depth: int = 100,
        llm: LLMLike = "extractive",
        prompt: str = "cited",
        k: int = 5,
        max_context_tokens: int | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        history: str = "",
        name: str = "",
    ) -> None:
        if not isinstance(dataset, Dataset):
            dataset = Dataset("", "", as_documents(dataset), (), {})
        if k < 1 or depth < k:
            raise ConfigError(
                f"k is {k} and depth {depth}; expected k of 1 or more, and a depth of at least k"
            )
        steps = {
            "fusion": fusion,
            "reranker": reranker,
            "rerank_depth": rerank_depth,
            "diversity": diversity,
        }
        check_steps({"retriever": retriever, **steps})
        check_llm(llm)
        check_servers(llm)
        check_prompt(prompt)
        check_known("history", HISTORIES, history)
        if history == "rewrite" and llm == "extractive":
            raise ConfigError("history 'rewrite' asks a language model; name one as llm")
        self._history = history
        self._generation: dict[str, Any] = {
            "prompt": prompt,
            "k": k,
            "max_context_tokens": max_context_tokens,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        start = perf_counter()
        self.chunks = chunk(
            dataset,
            chunker,
            chunk_size=chunk_size,
            chunk_overlap=chunk_overlap,
            tokenizer=tokenizer,
        )
        self.run: Run = {}
        self.depth, self.tokenizer = depth, tokenizer
        chunked = perf_counter()
        llm = llm if isinstance(llm, str) else load_llm(llm)
        self.name = name or _name_of(retriever, chunker, chunk_size, llm, steps)
        self._dataset = dataset
        self.language = language_of(self.chunks, language, [*dataset.queries.values()]).code
        self._search = Search(
            self.chunks, retriever, language=self.language, depth=depth, steps=steps
        )
        self.index = self._search.index
        self.is_timed = not isinstance(self.index, BeirRetriever)  # it encodes all in each search
        self.seconds = {"chunk": chunked - start, "index": perf_counter() - chunked}
        self.llm = llm
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self.chunks)} chunk{'s' * (len(self.chunks) != 1)})"

    def retrieve(self, queries: Mapping[str, str]) -> Run:
        """Return query_id -> chunk_id -> score for these questions, best first."""
        *_, run = self._search.stages(queries).values()
        return run

    def answer(self, query_id: str, query: str, *, history: Sequence[Message] = ()) -> Answer:
        """Answer one question; `latency_ms` has "search", "generate" and "total", as a user would
        wait: its search takes nothing from the cache.
        """
        [answer], seconds = self._ask({query_id: query}, {query_id: history}, store.bypassed())
        seconds["total"] = sum(seconds.values())
        # A reply of the store took the model no time now: without a "generate" of its own there is
        # no total either.
        is_timed = "generate" in answer.latency_ms or answer.usage is None
        stages = seconds if is_timed or self.llm == "extractive" else ("search",)
        return replace(answer, latency_ms={stage: 1000 * seconds[stage] for stage in stages})

    def answer_many(
        self,
        queries: Mapping[str, str],
        histories: Mapping[str, Sequence[Message]] | None = None,
    ) -> list[Answer]:
        """Answer all in one batch: exactly as `retrieve` and `generate_answers`, in the order of
        the questions.

        `latency_ms` holds only what a language model took for each; no user waits for a batch.
        """
        answers, took = self._ask(queries, histories or {}, nullcontext())
        with self._lock:
            for stage, seconds in took.items():
                self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        return answers

    @property
    def k(self) -> int:
        """Return the number of chunks that an answer is made from."""
        return int(self._generation["k"])

    def answer_from(
        self, cases: Sequence[Case], contexts: Mapping[str, Sequence[Chunk]]
    ) -> list[Answer]:
        """Answer questions from contexts that no retriever chose, all of them; from none, the
        language model answers closed-book.
        """
        run = {
            query_id: {chunk.chunk_id: 1 / rank for rank, chunk in enumerate(chunks, 1)}
            for query_id, chunks in contexts.items()
        }
        texts = {chunk.chunk_id: chunk for chunks in contexts.values() for chunk in chunks}
        options = {**self._generation, "k": max([1, *map(len, run.values())])}
        dataset = replace(self._dataset, cases=cases, qrels={})
        answers = generate_answers(dataset, run, [*texts.values()], self.llm, **options)
        if self.llm == "extractive":  # without contexts it has nothing to extract from
            return answers
        others = [case for case in cases if not contexts[case.query_id]]
        replies = generate_many(
            load_llm(self.llm),
            [closed_book(case.text) for case in others],
            system=GENERATION_SYSTEM,
            max_tokens=options["max_tokens"],
            temperature=options["temperature"],
            label="answers without documents",
        )
        by_memory = {
            case.query_id: read_reply(case.query_id, reply, ())
            for case, reply in zip(others, replies, strict=True)
        }
        return [by_memory.get(answer.query_id, answer) for answer in answers]

    def with_llm(self, llm: LLMLike, **generation: Any) -> Self:
        """Return the same pipeline, its index shared, with another writer of answers; nothing is
        asked yet.

        `generation` are further arguments of it that change: prompt, k, max_context_tokens,
        max_tokens, temperature.
        """
        check_llm(llm)
        other = copy(self)
        model = llm if isinstance(llm, str) else load_llm(llm)
        other.llm, other.run, other._lock = model, {}, threading.Lock()
        other._generation, other.seconds = {**self._generation, **generation}, dict(self.seconds)
        return other

    def _ask(
        self,
        queries: Mapping[str, str],
        histories: Mapping[str, Sequence[Message]],
        around_search: AbstractContextManager[None],
    ) -> tuple[list[Answer], dict[str, float]]:
        """Return the answers, and the seconds of the stages "search" and "generate"."""
        start = perf_counter()
        new = self._standalone(queries, histories)
        texts = {**queries, **new}
        with around_search:
            run = self.retrieve(texts)
        searched = perf_counter()
        with self._lock:
            self.run = {**self.run, **run}
        cases = [Case(query_id, query) for query_id, query in texts.items()]
        dataset = replace(self._dataset, cases=cases, qrels={})
        answers = generate_answers(dataset, run, self.chunks, self.llm, **self._generation)
        seconds = {"search": searched - start, "generate": perf_counter() - searched}
        plain = self.retrieve({query_id: queries[query_id] for query_id in new}) if new else {}
        calls = {
            q: (
                Call(self._history, text),
                Call("last", queries[q], (*plain[q],)[: self.k]),
            )
            for q, text in new.items()
        }
        return [replace(each, calls=calls.get(each.query_id, ())) for each in answers], seconds

    def _standalone(
        self, queries: Mapping[str, str], histories: Mapping[str, Sequence[Message]]
    ) -> dict[str, str]:
        """Return what is searched for and answered in place of each question that has a history."""
        how = self._history
        before = {q: as_text([*histories[q]]) for q in queries if histories.get(q)}
        if how == "all":
            return {query_id: f"{text}\n{queries[query_id]}" for query_id, text in before.items()}
        if how != "rewrite" or not before:
            return {}
        prompts = [fill(REWRITE, queries[query_id], [text]) for query_id, text in before.items()]
        replies = generate_many(load_llm(self.llm), prompts, label="questions")
        texts = (reply.text.strip() for reply in replies)
        return {q: text or queries[q] for q, text in zip(before, texts, strict=True)}
