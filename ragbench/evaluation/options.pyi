"""The options of `evaluate` with all that each accepts, for type checkers and editors; a test compares
them with the fields of `EvaluationSpec`, which declares, checks and describes them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ragbench.evaluation.targets import Targets
from ragbench.judges import Criterion
from ragbench.registry import Measure
from ragbench.types import Chunk, LLMLike, Retriever

class EvaluationOptions(TypedDict, total=False):
    """The fields of `EvaluationSpec`."""

    perspectives: str | Sequence[str]
    categories: str | Sequence[str]
    suite: str
    limit: int
    seed: int
    ks: str | Sequence[int]
    measures: str | Iterable[str | Measure]
    embedder: Any
    support_model: str
    detector: str | Callable[[str], float] | None
    judge: LLMLike
    criteria: str | Path | Criterion | Callable[..., Any] | Mapping[str, Any] | Sequence[Any]
    combine_criteria: bool
    interventions: str | Sequence[str]
    fail_under: str | Mapping[str, float]
    targets: Targets | Mapping[str, float] | str | Path | None
    baseline: Any
    name: str
    concurrency: int
    timeout_s: float

class PipelineOptions(EvaluationOptions, total=False):
    """What `evaluate` accepts: also the arguments of a `Pipeline`."""

    retriever: str | Retriever | Callable[[Sequence[Chunk]], Retriever]
    index_text: str | Callable[..., Any]
    rewrite: str | Callable[..., Any]
    rewrite_llm: LLMLike
    filter: str | Callable[..., Any]
    fusion: str | Callable[..., Any]
    chunker: str | Callable[..., Any]
    chunk_size: int
    chunk_overlap: int
    tokenizer: str
    language: str
    reranker: str | Callable[..., Any]
    rerank_depth: int
    diversity: str | Callable[..., Any]
    expand: str | Callable[..., Any]
    depth: int
    llm: LLMLike
    prompt: str
    k: int
    max_context_tokens: int | None
    max_tokens: int
    temperature: float
    history: str
