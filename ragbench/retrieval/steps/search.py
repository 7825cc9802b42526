"""All steps of a search in a row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragbench.errors import ConfigError
from ragbench.retrieval.dense import Dense, Hybrid
from ragbench.retrieval.retrievers import check_retriever, make_retriever
from ragbench.retrieval.search import retrieve
from ragbench.retrieval.steps.fusion import check_fusion
from ragbench.retrieval.steps.order import check_reranker, diversify, rerank
from ragbench.retrieval.steps.values import read_step
from ragbench.types import Chunk, Retriever, Run

STEP_PARAMETERS = ("fusion", "rerank_depth", "diversity")
"""Parameters of the pipeline that set a step and are no part of a configuration where they are "" or
0.
"""

_VARIETY_EMBEDDER = "wordllama"  # of a search that has no vectors of its own


def check_steps(parameters: Mapping[str, Any]) -> None:
    """Refuse values of the steps that no search could use, or that would change nothing.

    Raises:
        ConfigError: naming the parameter, its value and what was expected.
    """
    retriever = parameters.get("retriever", "bm25")
    check_retriever(retriever)
    is_hybrid = isinstance(retriever, str) and retriever.partition(":")[0] == "hybrid"
    check_fusion(parameters.get("fusion", ""), 1 + is_hybrid, 1)
    reranker, rerank_depth = parameters.get("reranker", ""), parameters.get("rerank_depth", 0)
    if reranker:
        check_reranker(reranker)
    if rerank_depth < 0:
        raise ConfigError(f"rerank_depth is {rerank_depth}; expected 0 (all chunks) or more")
    if rerank_depth and not reranker:
        raise ConfigError(
            f"rerank_depth is {rerank_depth}, which has no effect without a reranker; name one, or "
            "leave rerank_depth out"
        )
    read_step("diversity", parameters.get("diversity", ""))


class Search:
    """Chunks that are indexed, and the steps from a question to what is handed over, in a row.

    Args:
        chunks: of the corpus.
        retriever: as `make_retriever` takes it.
        language: of the chunks: a code.
        depth: number of chunks per question.
        steps: the values of `STEP_PARAMETERS` and the reranker, checked by `check_steps`.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        retriever: str | Retriever | Callable[[Sequence[Chunk]], Retriever],
        *,
        language: str,
        depth: int,
        steps: Mapping[str, Any],
    ) -> None:
        self.index = make_retriever(
            retriever, chunks, language=language, fusion=steps.get("fusion", "")
        )
        self._chunks, self._depth, self._steps = chunks, depth, steps
        self._vectors = self._vectors_of(language) if steps.get("diversity") else None

    def stages(self, queries: Mapping[str, str]) -> dict[str, Run]:
        """Return step -> its run, query_id -> id -> score, best first; the last is handed over."""
        steps, chunks = self._steps, self._chunks
        run = retrieve(self.index, queries, chunks, depth=self._depth)
        stages = {"search": run}
        if reranker := steps.get("reranker"):
            depth = steps.get("rerank_depth", 0)
            run = rerank(run, queries, chunks, reranker, k=len(chunks), depth=depth)
            stages["reranker"] = run
        if self._vectors is not None:
            vectors = self._vectors.vectors_of
            run = diversify(run, queries, chunks, steps["diversity"], vectors, depth=self._depth)
            stages["diversity"] = run
        return stages

    def _vectors_of(self, language: str) -> Dense:
        """Return the vectors that tell how alike chunks are: those of the search, where it has any."""
        index = self.index.retrievers[1] if isinstance(self.index, Hybrid) else self.index
        if isinstance(index, Dense):
            return index
        return Dense(self._chunks, _VARIETY_EMBEDDER, language=language)
