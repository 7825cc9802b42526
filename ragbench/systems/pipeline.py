"""ragbench's own pipeline as a system under test: chunks, a retriever, a generator; the defaults of
its parameters, and what becomes of a conversation's history.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from itertools import zip_longest
from time import perf_counter
from typing import Any, NamedTuple, Self

from ragbench import store
from ragbench.errors import ConfigError, check_known, plural
from ragbench.extension import object_name
from ragbench.generation import check_llm, generate_answers
from ragbench.generation.answer_generation import read_reply
from ragbench.generation.generator_prompts import GENERATION_SYSTEM, check_prompt, closed_book
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.language import language_of
from ragbench.llms import NO_ANSWERS, NO_MODEL, TIMEOUT_S, check_servers, generate_many, load_llm
from ragbench.retrieval.chunkers import chunk
from ragbench.retrieval.retrievers import RETRIEVERS, BeirRetriever
from ragbench.retrieval.steps.rewrite import standalone, wordings
from ragbench.retrieval.steps.stepped_search import STEP_PARAMETERS, Search, check_steps
from ragbench.systems.function import Message
from ragbench.systems.templates import as_text
from ragbench.types import (
    Answer,
    Call,
    Case,
    Chunk,
    Completion,
    Corpus,
    Dataset,
    LLMLike,
    Retriever,
    Run,
    as_documents,
)

HISTORIES = ("", "last", "all", "rewrite")


class _Rewriting(NamedTuple):
    """The texts in place of a question or a conversation, and the model's reply that has them; None
    if a user's function made them.
    """

    texts: tuple[str, ...]
    reply: Completion | None


def _name_of(
    retriever: Any, chunker: Any, chunk_size: int, llm: Any, steps: Mapping[str, Any]
) -> str:
    """Return the name of a pipeline, such as "bm25, recursive 256, extractive"."""

    def shown(value: Any) -> str:
        return str(value) if isinstance(value, str | int) else object_name(value)

    parts = [shown(retriever)]
    if steps["reranker"]:
        parts.append(f"reranked by {shown(steps['reranker'])}")
    parts += [f"{name} {shown(steps[name])}" for name in STEP_PARAMETERS if steps[name]]
    parts.append(f"{shown(chunker)} {chunk_size}")
    parts.append("no answers" if llm == NO_ANSWERS else shown(llm))
    return ", ".join(filter(None, parts))


def _dataset_of(data: Any) -> Dataset:
    """Return the data of a pipeline as a dataset; a corpus becomes one without questions.

    Raises:
        ConfigError: it is the name of a retriever, which is the second argument.
    """
    if isinstance(data, str) and data.partition(":")[0] in RETRIEVERS:
        raise ConfigError(f"Pipeline takes the data first: rb.Pipeline(data, {data!r})")
    if isinstance(data, Dataset):
        return data
    return Dataset("", "", as_documents(data), (), {})


def _check_parts(parts: Mapping[str, Any], prompt: str, k: int, depth: int) -> None:
    """Refuse parts of a pipeline that are unknown or contradict each other, before anything is
    computed. `parts` has the retriever, chunker, history, language model and steps by their names.

    Raises:
        ConfigError: a part or the prompt is unknown, or parts do not fit together; `k` is less than
            1 or more than `depth`.
        ModelError: the server of a language model cannot be reached.
    """
    if k < 1 or depth < k:
        raise ConfigError(
            f"k is {k} and depth {depth}; expected k of 1 or more, and a depth of at least k"
        )
    check_known("history", HISTORIES, parts["history"])
    check_steps(parts)
    check_llm(parts["llm"])
    check_servers(parts["llm"])
    check_prompt(prompt)
    check_servers(parts["rewrite_llm"])


@suggesting(
    **dict.fromkeys(["query", "ask", "invoke"], "pipeline.answer(query_id, question)"),
    evaluate="rb.evaluate(data, pipeline)",
    **dict.fromkeys(
        ["from_yaml", "from_toml", "from_file", "from_config", "load"],
        "rb.load_system('system.toml', dataset)",
    ),
    **dict.fromkeys(["fit", "index", "build"], "rb.Pipeline(dataset, 'bm25'), which indexes"),
)
class Pipeline(metaclass=Suggesting):
    """Chunks of a corpus, indexed, and answers made from the best `k`: the steps of
    `evaluate.ipynb` as one system.

    The arguments are the arguments of `chunk`, `make_retriever`, `retrieve`, `rerank` and
    `generate_answers`, and the steps of a search (`ragbench.retrieval.steps`; `ragbench list
    steps`): `index_text`, `rewrite` (by `rewrite_llm`, or else `llm`), `filter`, `fusion`,
    `rerank_depth`, `diversity`, `expand`. Constructing it is indexing. `chunks` are its chunks,
    which the ids in `contexts` of its answers name (its answers carry no passages: the texts are
    stored once, there); with `expand` these ids are of `passages`. `run` is the ranking for the
    questions asked so far, query_id -> chunk_id -> score, `depth` deep: deeper than the `k` that
    reached the answer. `stages` are the runs of each step, `usage` the replies of models to the
    steps, by part: "index", "rewriter", "reranker". `seconds` has the times that the stages "chunk", "index",
    "search" and "generate" took, the last two for all questions asked in a batch. `language` is the
    code of the corpus' language, detected unless given. Threads may share it.

    In a conversation `history` states which question is searched for and answered: "last" (or "")
    the last question alone, "all" it and all turns before it, "rewrite" a question that the
    language model writes from them; the answer has it as a call of that name, and after it the
    results of the last question alone, as a call "last". If `rewrite` made other texts of a
    question, they are calls of its name, and the results of the question itself are a call
    "question".

    With the `llm` "none" it only retrieves: its answers hold contexts alone, and have the flag
    "retrieval_only".

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
        index_text: str | Callable[..., Any] = "",
        rewrite: str | Callable[..., Any] = "",
        rewrite_llm: LLMLike = "",
        filter: str | Callable[..., Any] = "",
        fusion: str | Callable[..., Any] = "",
        reranker: str | Callable[..., Any] = "",
        rerank_depth: int = 0,
        diversity: str | Callable[..., Any] = "",
        expand: str | Callable[..., Any] = "",
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
        """Check all arguments, then chunk and index the documents of the dataset."""
        self._dataset = _dataset_of(dataset)
        chunking = {"chunker": chunker, "chunk_size": chunk_size, "chunk_overlap": chunk_overlap}
        steps = {
            "index_text": index_text,
            "rewrite": rewrite,
            "rewrite_llm": rewrite_llm,
            "filter": filter,
            "fusion": fusion,
            "reranker": reranker,
            "rerank_depth": rerank_depth,
            "diversity": diversity,
            "expand": expand,
        }
        self._generation: dict[str, Any] = {
            "prompt": prompt,
            "k": k,
            "max_context_tokens": max_context_tokens,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        parts = {"retriever": retriever, "chunker": chunker, "history": history, "llm": llm}
        _check_parts({**parts, **steps}, prompt, k, depth)
        self.depth = depth
        self.tokenizer = tokenizer
        self.llm = llm if isinstance(llm, str) else load_llm(llm)
        self.name = name or _name_of(retriever, chunker, chunk_size, self.llm, steps)
        self._history = history
        self._rewrite = rewrite
        self._rewrite_llm = rewrite_llm
        self._forget_questions()
        self._index_corpus(retriever, chunking, steps, language)

    def _forget_questions(self) -> None:
        """Forget the runs and the rewritten texts of the questions asked so far."""
        self.run: Run = {}
        self.stages: dict[str, Run] = {}
        self._rewritten: dict[str, _Rewriting] = {}  # by the question or the conversation
        self._lock = threading.Lock()

    def _index_corpus(
        self,
        retriever: str | Retriever | Callable[[Sequence[Chunk]], Retriever],
        chunking: Mapping[str, Any],
        steps: Mapping[str, Any],
        language: str,
    ) -> None:
        """Chunk and index the corpus, and measure the seconds of both; `chunking` are options of
        `chunk`, `language` is detected if it is "".
        """
        dataset = self._dataset
        start = perf_counter()
        self.chunks = chunk(dataset, tokenizer=self.tokenizer, **chunking)
        chunked = perf_counter()
        self.language = language_of(self.chunks, language, [*dataset.queries.values()]).code
        self._search = Search(
            self.chunks,
            dataset.corpus,
            dataset.case_of,
            retriever,
            language=self.language,
            depth=self.depth,
            k=self.k,
            tokenizer=self.tokenizer,
            steps=steps,
        )
        self.index = self._search.index
        self.is_timed = not isinstance(self.index, BeirRetriever)  # it encodes all in each search
        self.seconds = {"chunk": chunked - start, "index": perf_counter() - chunked}

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {plural(len(self.chunks), 'chunk')})"

    def retrieve(self, queries: Mapping[str, str]) -> Run:
        """Return query_id -> chunk_id -> score for these questions, best first."""
        *_, run = self._search.stages(queries, self._wordings(queries)).values()
        return run

    @property
    def usage(self) -> dict[str, list[Completion]]:
        """Return part -> completions of models for the steps so far."""
        replies = [rewriting.reply for rewriting in self._rewritten.values()]
        return {**self._search.usage, "rewriter": [reply for reply in replies if reply is not None]}

    def allows(self, query_id: str, text: str, doc_id: str) -> bool:
        """Return True if the filter lets a question find a document."""
        return self._search.allows(query_id, text, doc_id)

    def passages(self, doc_ids: Iterable[str] = ()) -> Sequence[Chunk]:
        """Return the passages that the ids of `run` name: `chunks`, or, if a search expands them, all
        passages of these documents and the passages that were handed over so far.
        """
        return self._search.passages(doc_ids)

    @property
    def joined(self) -> frozenset[str]:
        """Return the ids of those `passages` that were joined of several chunks of one question."""
        return self._search.joined

    def answer(
        self,
        query_id: str,
        query: str,
        *,
        history: Sequence[Message] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """Answer one question. Its `latency_ms` has the times that a user would wait: "search" (nothing is
        taken from the cache), "generate" and "total".

        If the model's reply came from the reply store, or its request failed, it has "search" alone: the
        other two are not known.
        """
        histories = {query_id: history}
        asking = {"timeout_s": timeout_s}
        [answer], seconds = self._ask({query_id: query}, histories, store.bypassed(), asking)
        seconds["total"] = sum(seconds.values())
        is_model_asked = self.llm not in NO_MODEL and answer.usage is not None
        # `generate_answers` gives no time for a reply from the store, and for a failed request
        if is_model_asked and "generate" not in answer.latency_ms:
            seconds = {"search": seconds["search"]}
        latency_ms = {stage: 1000 * took for stage, took in seconds.items()}
        return replace(answer, latency_ms=latency_ms)

    def answer_many(
        self,
        queries: Mapping[str, str],
        histories: Mapping[str, Sequence[Message]] | None = None,
        *,
        concurrency: int = 8,
        timeout_s: float = TIMEOUT_S,
    ) -> list[Answer]:
        """Answer all questions in one batch, and return the answers in the order of the questions.

        The answers are the same as from `retrieve` and `generate_answers`; `concurrency` and `timeout_s` are
        options of `generate_many`. The `latency_ms` of an answer has the time of the language model
        alone: no user waits for a batch. `seconds` grows by the time of each stage.
        """
        asking = {"concurrency": concurrency, "timeout_s": timeout_s}
        answers, took = self._ask(queries, histories or {}, nullcontext(), asking)
        with self._lock:
            for stage, seconds in took.items():
                self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        return answers

    @property
    def k(self) -> int:
        """Return the number of chunks that an answer is made from."""
        return int(self._generation["k"])

    def answer_from(
        self,
        cases: Sequence[Case],
        contexts: Mapping[str, Sequence[Chunk]],
        *,
        concurrency: int = 8,
        timeout_s: float = TIMEOUT_S,
    ) -> list[Answer]:
        """Answer questions from given contexts in place of retrieved ones, using all of them. A question
        without contexts is answered by the language model alone (closed-book).

        Args:
            cases: the questions.
            contexts: query_id -> chunks, best first, of every question; an empty list for closed-book.
        """
        run: Run = {}
        chunk_of: dict[str, Chunk] = {}
        for query_id, chunks in contexts.items():
            run[query_id] = {chunk.chunk_id: 1 / rank for rank, chunk in enumerate(chunks, 1)}
            chunk_of |= {chunk.chunk_id: chunk for chunk in chunks}
        asking: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
        most_chunks = max([1, *map(len, run.values())])
        options = {**self._generation, "k": most_chunks}  # all chunks of each question
        dataset = replace(self._dataset, cases=cases, qrels={})
        answers = generate_answers(
            dataset, run, [*chunk_of.values()], self.llm, **options, **asking
        )
        if self.llm in NO_MODEL:  # without contexts there is nothing to extract from
            return answers
        without_contexts = [case for case in cases if not contexts[case.query_id]]
        closed_book_answers = self._answer_closed_book(without_contexts, asking)
        return [closed_book_answers.get(answer.query_id, answer) for answer in answers]

    def _answer_closed_book(
        self, cases: Sequence[Case], asking: Mapping[str, Any]
    ) -> dict[str, Answer]:
        """Return query_id -> the language model's answer without documents; `asking` are options of
        `generate_many`.
        """
        replies = generate_many(
            load_llm(self.llm),
            [closed_book(case.text) for case in cases],
            system=GENERATION_SYSTEM,
            max_tokens=self._generation["max_tokens"],
            temperature=self._generation["temperature"],
            label="answers without documents",
            **asking,
        )
        answers = {}
        for case, reply in zip(cases, replies, strict=True):
            answers[case.query_id] = read_reply(case.query_id, reply, ())
        return answers

    def with_llm(self, llm: LLMLike, **generation: Any) -> Self:
        """Return the same pipeline, its index shared, with another writer of answers; nothing is
        asked yet.

        `generation` are arguments of the pipeline that change, too: prompt, k, max_context_tokens,
        max_tokens, temperature.
        """
        if llm not in NO_MODEL:
            check_llm(llm)
        other = copy(self)
        other.llm = llm if isinstance(llm, str) else load_llm(llm)
        other._forget_questions()
        other._generation = {**self._generation, **generation}
        other.seconds = dict(self.seconds)
        return other

    def _ask(
        self,
        queries: Mapping[str, str],
        histories: Mapping[str, Sequence[Message]],
        around_search: AbstractContextManager[None],
        asking: Mapping[str, Any],
    ) -> tuple[list[Answer], dict[str, float]]:
        """Return the answers, and the seconds of the stages "search" and, if answers are written,
        "generate". The runs of the search are added to `run` and `stages`.

        Args:
            queries: query_id -> question.
            histories: query_id -> the earlier messages of its conversation.
            around_search: a context that is entered for the search alone, such as one in which
                nothing is taken from the cache.
            asking: options of `generate_many`.
        """
        start = perf_counter()
        standalone_texts = self._standalone(queries, histories, asking)
        texts = {**queries, **standalone_texts}
        wordings = self._wordings(texts, **asking)
        with around_search:
            stages = self._search.stages(texts, wordings, **asking)
        *_, run = stages.values()  # of the last stage
        searched = perf_counter()
        self._add_runs(stages)
        cases = [Case(query_id, query) for query_id, query in texts.items()]
        dataset = replace(self._dataset, cases=cases, qrels={})
        answers = generate_answers(
            dataset, run, self.passages(), self.llm, **self._generation, **asking
        )
        seconds = {"search": searched - start}
        if self.llm != NO_ANSWERS:
            seconds["generate"] = perf_counter() - searched
        calls_of = self._calls(queries, standalone_texts, wordings, asking)
        with_calls = []
        for answer in answers:
            with_calls.append(replace(answer, calls=calls_of.get(answer.query_id, ())))
        return with_calls, seconds

    def _add_runs(self, stages: Mapping[str, Run]) -> None:
        """Add the runs of a search to `stages`, and the one of its last stage to `run`."""
        *_, last_run = stages.values()
        with self._lock:
            self.run = {**self.run, **last_run}
            for name, run in stages.items():
                self.stages[name] = {**self.stages.get(name, {}), **run}

    def _calls(
        self,
        queries: Mapping[str, str],
        standalone_texts: Mapping[str, str],
        wordings: Mapping[str, Sequence[str]],
        asking: Mapping[str, Any],
    ) -> dict[str, tuple[Call, ...]]:
        """Return query_id -> the calls that document how a question was rewritten; {} if none was.

        The calls, in order, and their names:

        - the text that was made of a conversation: "all" or "rewrite", the value of `history`;
        - the texts that the step `rewrite` made of it: the name of this step;
        - the question as it was asked, with the chunks that it alone finds: "last" in a conversation,
          otherwise "question". It is searched for here, only for this call.

        Args:
            queries: query_id -> the question as it was asked.
            standalone_texts: query_id -> the question with its history, of a conversation.
            wordings: query_id -> the texts that the step `rewrite` made of it.
            asking: options of `generate_many`.
        """
        rewritten_ids = {**standalone_texts, **wordings}
        if not rewritten_ids:
            return {}
        originals = {query_id: queries[query_id] for query_id in rewritten_ids}
        no_wordings: dict[str, Sequence[str]] = {}  # each is searched for as it was asked
        *_, run_of_originals = self._search.stages(originals, no_wordings, **asking).values()
        rewrite = self._rewrite if isinstance(self._rewrite, str) else object_name(self._rewrite)
        calls_of: dict[str, tuple[Call, ...]] = {}
        for query_id, question in originals.items():
            calls = []
            if query_id in standalone_texts:
                calls.append(Call(self._history, standalone_texts[query_id]))
            calls += [Call(rewrite, text) for text in wordings.get(query_id, ())]
            name_of_original = "last" if query_id in standalone_texts else "question"
            found_ids = tuple(run_of_originals[query_id])[: self.k]
            calls.append(Call(name_of_original, question, found_ids))
            calls_of[query_id] = tuple(calls)
        return calls_of

    @property
    def _rewriter(self) -> LLMLike:
        return self._rewrite_llm or self.llm

    def _standalone(
        self,
        queries: Mapping[str, str],
        histories: Mapping[str, Sequence[Message]],
        asking: Mapping[str, Any],
    ) -> dict[str, str]:
        """Return query_id -> the text that is searched for and answered in place of a question that has a
        history, by the option `history`.

        "all": the whole conversation. "rewrite": one question, into which the language model has put what
        the history says. {} for any other value: histories are not used.
        """
        earlier = {}  # query_id -> the text of its history
        conversations = {}  # query_id -> the same, and the question
        for query_id, query in queries.items():
            if histories.get(query_id):
                earlier[query_id] = as_text([*histories[query_id]])
                conversations[query_id] = f"{earlier[query_id]}\n{query}"
        if self._history == "all":
            return conversations
        if self._history != "rewrite":
            return {}
        to_rewrite = {}
        for query_id, conversation in conversations.items():
            if conversation not in self._rewritten:  # each is rewritten once
                to_rewrite[query_id] = earlier[query_id]
        if to_rewrite:
            texts, replies = standalone(queries, to_rewrite, self._rewriter, **asking)
            for query_id, reply in zip(to_rewrite, replies, strict=True):
                rewriting = _Rewriting((texts[query_id],), reply)
                self._rewritten[conversations[query_id]] = rewriting
        standalone_texts = {}
        for query_id, conversation in conversations.items():
            [text] = self._rewritten[conversation].texts
            standalone_texts[query_id] = text
        return standalone_texts

    def _wordings(self, queries: Mapping[str, str], **asking: Any) -> dict[str, tuple[str, ...]]:
        """Return query_id -> texts that are searched for in place of a question; {} without a step
        that rewrites. `asking` are options of `generate_many`.
        """
        if not self._rewrite:
            return {}
        to_rewrite = {}
        for query_id, question in queries.items():
            if question not in self._rewritten:  # each is rewritten once
                to_rewrite[query_id] = question
        if to_rewrite:
            texts, replies = wordings(to_rewrite, self._rewrite, self._rewriter, **asking)
            # a user's function rewrites without replies: None stands for each
            for (query_id, question), reply in zip_longest(to_rewrite.items(), replies):
                self._rewritten[question] = _Rewriting(texts[query_id], reply)
        return {query_id: self._rewritten[text].texts for query_id, text in queries.items()}
