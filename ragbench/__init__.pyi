from . import (
    diagnosis,
    embedders,
    errors,
    evaluation,
    generation,
    judges,
    labelling,
    llms,
    metrics,
    plots,
    report,
    retrievers,
    scoring,
    statistics,
    systems,
    testsets,
    types,
)
from .chunkers import chunk
from .datasets import load_dataset
from .datasets.testsets import load_testset
from .diagnosis import diagnose
from .errors import RagbenchError
from .evaluation import Result, Results, evaluate, load_result, load_results, save
from .generation import generate_answers
from .history import history, trend
from .judges import judge
from .llms import dry_run, load_llm
from .registry import Measure, measures
from .report import explore, write_report
from .retrievers import make_retriever, retrieve, to_documents
from .scoring import score_run
from .statistics import compare, compare_all, summarise
from .sweep import sweep
from .systems import FunctionSystem, HttpSystem, McpSystem, Pipeline, RecordedSystem, load_system
from .types import (
    LLM,
    Answer,
    Case,
    Chunk,
    Completion,
    Dataset,
    Document,
    Embedder,
    Judgement,
    Passage,
    Retriever,
    Span,
    System,
)

__version__: str

__all__ = [
    "LLM",
    "Answer",
    "Case",
    "Chunk",
    "Completion",
    "Dataset",
    "Document",
    "Embedder",
    "FunctionSystem",
    "HttpSystem",
    "Judgement",
    "McpSystem",
    "Measure",
    "Passage",
    "Pipeline",
    "RagbenchError",
    "RecordedSystem",
    "Result",
    "Results",
    "Retriever",
    "Span",
    "System",
    "chunk",
    "compare",
    "compare_all",
    "diagnose",
    "diagnosis",
    "dry_run",
    "embedders",
    "errors",
    "evaluate",
    "evaluation",
    "explore",
    "generate_answers",
    "generation",
    "history",
    "judge",
    "judges",
    "labelling",
    "llms",
    "load_dataset",
    "load_llm",
    "load_result",
    "load_results",
    "load_system",
    "load_testset",
    "make_retriever",
    "measures",
    "metrics",
    "plots",
    "report",
    "retrieve",
    "retrievers",
    "save",
    "score_run",
    "scoring",
    "statistics",
    "summarise",
    "sweep",
    "systems",
    "testsets",
    "to_documents",
    "trend",
    "types",
    "write_report",
]
