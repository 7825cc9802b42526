"""All steps of a search in a row: which there are and in which order they run, and which
combinations of them are refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ragbench.errors import ConfigError
from ragbench.llms import NO_MODEL, check_llm
from ragbench.retrieval.dense import Dense, Hybrid
from ragbench.retrieval.hosted_reranker import HostedReranker, is_hosted
from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.retrievers import check_retriever, make_retriever
from ragbench.retrieval.search import retrieve
from ragbench.retrieval.steps.expand import Expansion
from ragbench.retrieval.steps.filter import Filter, FilteredRetriever
from ragbench.retrieval.steps.fusion import check_fusion, fused_search
from ragbench.retrieval.steps.index_text import index_texts
from ragbench.retrieval.steps.order import check_reranker, diversify, rerank
from ragbench.retrieval.steps.values import read_step
from ragbench.types import (
    Case,
    Chunk,
    Completion,
    Document,
    Retriever,
    Run,
    chunk_places,
    chunks_by_id,
)

STEP_PARAMETERS = (
    "index_text",
    "rewrite",
    "rewrite_llm",
    "filter",
    "fusion",
    "rerank_depth",
    "diversity",
    "expand",
)
"""Parameters of the pipeline that set a step and are no part of a configuration where they are "" or
0.
"""

_VARIETY_EMBEDDER = "wordllama"  # of a search without vectors


_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(STEP_PARAMETERS, ""),
    "rerank_depth": 0,
    "retriever": "bm25",
    "chunker": "",
    "history": "",
    "reranker": "",
    "llm": "extractive",
}
"""Values of parameters that `check_steps` is not given."""


def check_steps(parameters: Mapping[str, Any]) -> None:
    """Refuse values of the steps that no search could use, or that would change nothing.

    `parameters` are the pipeline's, as far as they are set.

    Raises:
        ConfigError: naming the parameter, its value and the expected value.
    """
    values = {**_DEFAULTS, **parameters}
    check_retriever(values["retriever"])
    # the model of "summary:<llm>", which writes texts for the index; "" without one
    index_llm = read_step("index_text", values["index_text"]).text
    if index_llm:
        check_llm(index_llm)
    _check_rewriting(values)
    read_step("filter", values["filter"])  # raises for an unknown value
    rewriting = read_step("rewrite", values["rewrite"])
    # "hyde" searches for one text: there is still one ranking
    has_several_wordings = bool(rewriting.name) and rewriting.name != "hyde"
    check_fusion(
        values["fusion"],
        is_hybrid=_is_hybrid(values["retriever"]),
        is_rewritten=has_several_wordings,
    )
    _check_reranking(values["reranker"], values["rerank_depth"])
    read_step("diversity", values["diversity"])
    expand = values["expand"]
    if read_step("expand", expand).name and values["chunker"] == "document":
        raise ConfigError(
            f"expand is {expand!r}, which has no effect with the chunker 'document', whose chunks "
            "are whole documents; name another chunker, or leave expand out"
        )


def _is_hybrid(retriever: object) -> bool:
    """Return True for the name of a hybrid retriever, such as "hybrid:minilm"."""
    return str(retriever).partition(":")[0] == "hybrid"


def _check_rewriting(values: Mapping[str, Any]) -> None:
    """Refuse to rewrite questions by a language model if none is named.

    Questions are rewritten by the step `rewrite`, into other wordings, and by the history "rewrite",
    which turns a question of a conversation into one that needs no earlier turn. `rewrite_llm` does
    it, else `llm`, the model that answers. A user's function as the step `rewrite` needs no model.

    Args:
        values: parameter -> value, of all parameters in `_DEFAULTS`.

    Raises:
        ConfigError: neither of the two is a model, or `rewrite_llm` is an unknown one.
    """
    rewriting = read_step("rewrite", values["rewrite"])
    rewrite_llm = values["rewrite_llm"]
    if rewrite_llm and isinstance(rewrite_llm, str):  # not for a user's own model object
        check_llm(rewrite_llm)
    # `rewriting.name` is "" if the step is left out
    is_by_model = bool(rewriting.name) and not rewriting.function
    asks_model = is_by_model or values["history"] == "rewrite"
    # `NO_MODEL` has the values of `llm` that stand for no language model, such as "extractive"
    if asks_model and not rewrite_llm and values["llm"] in NO_MODEL:
        name = "rewrite" if is_by_model else "history"
        raise ConfigError(
            f"{name} {values[name]!r} asks a language model; name one as llm or rewrite_llm"
        )


def _check_reranking(reranker: Any, rerank_depth: int) -> None:
    """Refuse an unknown reranker, and a depth below 0 or without a reranker."""
    if reranker:
        check_reranker(reranker)
    if rerank_depth < 0:
        raise ConfigError(f"rerank_depth is {rerank_depth}; expected 0 (all chunks) or more")
    if rerank_depth and not reranker:
        raise ConfigError(
            f"rerank_depth is {rerank_depth!r}, which has no effect without a reranker; name one, "
            "or leave rerank_depth out"
        )


def summary_llm(parameters: Mapping[str, Any]) -> str:
    """Return the language model that writes texts for the index; "" if none does."""
    return read_step("index_text", parameters.get("index_text", "")).text


class Search:
    """Chunks that are indexed, and the steps from a question to the passages that are handed over.

    `index` is the retriever.

    Args:
        chunks: of the corpus.
        corpus: doc_id -> document.
        cases: query_id -> the case of a question, for the filter.
        retriever: as `make_retriever` takes it.
        language: of the chunks: a code.
        depth: number of chunks per question.
        k: number of chunks that an answer is made from.
        tokenizer: counts the tokens of the passages that are handed over.
        steps: the values of `STEP_PARAMETERS` and the reranker, checked by `check_steps`.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        corpus: Mapping[str, Document],
        cases: Mapping[str, Case],
        retriever: str | Retriever | Callable[[Sequence[Chunk]], Retriever],
        *,
        language: str,
        depth: int,
        k: int,
        tokenizer: str,
        steps: Mapping[str, Any],
    ) -> None:
        """Index the chunks and prepare the steps that are set: `steps` has a value for each one, by
        name; "" means that it is left out.
        """
        self._chunks, self._depth, self._steps = chunks, depth, steps
        indexed_chunks: Sequence[Chunk] = chunks
        self._index_replies: list[Completion] = []  # of the model of "summary:<llm>"
        if steps["index_text"]:
            indexed_chunks, self._index_replies = index_texts(
                chunks, corpus, steps["index_text"], summary_llm(steps)
            )
        # only a hybrid's index has two rankings to fuse
        fusion_of_index = steps["fusion"] if _is_hybrid(retriever) else ""
        self.index = make_retriever(
            retriever, indexed_chunks, language=language, fusion=fusion_of_index
        )
        self._reranker = steps["reranker"]
        if is_hosted(self._reranker):  # one object, which counts the replies of all searches
            self._reranker = HostedReranker(self._reranker)
        self._filter: Filter | None = None
        if steps["filter"]:
            self._filter = Filter(steps["filter"], cases, corpus)
        self._expansion: Expansion | None = None
        if steps["expand"]:
            self._expansion = Expansion(chunks, corpus, steps["expand"], k=k, tokenizer=tokenizer)
        self._vectors: Dense | None = None
        if steps["diversity"]:
            self._vectors = self._index_with_vectors(language)

    def stages(
        self,
        queries: Mapping[str, str],
        wordings: Mapping[str, Sequence[str]],
        **asking: Any,
    ) -> dict[str, Run]:
        """Search, and return stage -> its run (query_id -> id -> score, best first), in order.

        The stages are "search", then "reranker", "diversity" and "expand" as far as they are set.
        The passages of the last stage are the contexts of the answer.

        Args:
            queries: query_id -> question.
            wordings: query_id -> the texts that are searched for in place of the question. A
                question without an entry is searched for itself.
            asking: options of `generate_many`, for a reranker of a server.
        """
        steps, chunks = self._steps, self._chunks
        retriever: Retriever = self.index
        if wordings or self._filter is not None:
            # the index alone knows neither other wordings nor the filter
            retriever = _SearchForWordings(self, queries, wordings)
        run = retrieve(retriever, queries, chunks, depth=self._depth)
        stages = {"search": run}
        if self._reranker:
            n_read = steps["rerank_depth"]
            run = rerank(
                run, queries, chunks, self._reranker, k=len(chunks), depth=n_read, **asking
            )
            stages["reranker"] = run
        if self._vectors is not None:
            vectors = self._vectors.vectors_of
            run = diversify(run, queries, chunks, steps["diversity"], vectors, depth=self._depth)
            stages["diversity"] = run
        if self._expansion is not None:
            stages["expand"] = self._expansion.run(run)
        return stages

    @property
    def usage(self) -> dict[str, list[Completion]]:
        """Return what models replied so far, by part: "index", of the model that wrote texts for the
        index, and "reranker", of one that a server has.
        """
        is_hosted_reranker = isinstance(self._reranker, HostedReranker)
        reranker_replies = self._reranker.usage if is_hosted_reranker else []
        return {"index": self._index_replies, "reranker": reranker_replies}

    def retrievers(self, queries: Mapping[str, str]) -> list[Retriever]:
        """Return the retrievers whose rankings are fused: the lexical and the dense one if the index is
        a hybrid, else the index alone.

        If there is a filter, each of them only finds chunks of documents that it allows.
        """
        retrievers: list[Retriever] = [self.index]
        if isinstance(self.index, Hybrid):
            retrievers = [*self.index.retrievers]
        if self._filter is None:
            return retrievers
        by_id = chunks_by_id(self._chunks)

        def allows(query_id: str, doc_id: str) -> bool:
            return self.allows(query_id, queries[query_id], doc_id)

        return [FilteredRetriever(retriever, by_id, allows) for retriever in retrievers]

    def allows(self, query_id: str, text: str, doc_id: str) -> bool:
        """Return True if the filter lets a question find a document."""
        return self._filter is None or self._filter.allows(query_id, text, doc_id)

    def passages(self, doc_ids: Iterable[str]) -> Sequence[Chunk]:
        """Return the texts of the ids of the last stage: the chunks, or, with expansion, the
        passages that were handed over so far, after all possible passages of these documents.
        """
        if self._expansion is None:
            return self._chunks
        return self._expansion.passages(doc_ids)

    @property
    def joined(self) -> frozenset[str]:
        """Return the ids of the passages that were joined of several chunks of a question."""
        return frozenset(self._expansion.joined if self._expansion is not None else ())

    @property
    def places(self) -> Mapping[str, int]:
        """Return chunk_id -> its place among the chunks."""
        return chunk_places(self._chunks)

    @property
    def fusion(self) -> str | Callable[..., Any]:
        """Return how several rankings become one."""
        fusion: str | Callable[..., Any] = self._steps["fusion"]
        return fusion

    def _index_with_vectors(self, language: str) -> Dense:
        """Return a dense index of the chunks' own texts, whose vectors tell how similar chunks are.

        If the search is dense, this is its own index, unless it holds other texts than the
        chunks (the step "index_text"): then the chunks are encoded again by its embedder. If the
        search has no vectors, the chunks are encoded by wordllama, a small embedder.
        """
        index: Any = self.index
        if isinstance(self.index, Hybrid):
            _lexical, index = self.index.retrievers
        if not isinstance(index, Dense):
            return Dense(self._chunks, _VARIETY_EMBEDDER, language=language)
        if self._steps["index_text"]:
            return Dense(self._chunks, index.embedder, language=language)
        return index


class _SearchForWordings:
    """A search for the wordings of questions, as a retriever that takes the questions."""

    def __init__(
        self, search: Search, queries: Mapping[str, str], wordings: Mapping[str, Sequence[str]]
    ) -> None:
        self._retrievers, self._places = search.retrievers(queries), search.places
        self._wordings, self._fusion = wordings, search.fusion

    def search(self, queries: Queries, k: int) -> Run:
        """Return for each query the `k` best chunks, best first."""
        texts = {
            query_id: self._wordings.get(query_id, (text,))
            for query_id, text in as_queries(queries).items()
        }
        return fused_search(self._retrievers, texts, k, self._places, self._fusion)
