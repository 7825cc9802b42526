from . import (
    errors,
    evaluation,
    foreign,
    generation,
    judges,
    labelling,
    llms,
    metrics,
    report,
    retrieval,
    statistics,
    systems,
    testsets,
    types,
)
from .errors import RagbenchError
from .evaluation import (
    Conclusion,
    EvaluationSpec,
    Result,
    Results,
    diagnose,
    evaluate,
    load_result,
    load_results,
    save,
)
from .foreign import assert_not_worse, compare
from .generation import generate_answers
from .judges import Criterion, judge
from .labelling import trust
from .llms import dry_run, load_llm
from .metrics import score_run
from .registry import Measure, measures
from .report import explore, plots, write_report
from .retrieval import chunk, make_retriever, retrieve, to_documents
from .service import history, trend
from .statistics import compare_all, summarise
from .sweep import sweep
from .systems import FunctionSystem, HttpSystem, McpSystem, Pipeline, RecordedSystem, load_system
from .testsets import load_dataset, load_testset
from .types import (
    LLM,
    Answer,
    Case,
    Chunk,
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
    "Conclusion",
    "Criterion",
    "Dataset",
    "Document",
    "Embedder",
    "EvaluationSpec",
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
    "assert_not_worse",
    "chunk",
    "compare",
    "compare_all",
    "diagnose",
    "dry_run",
    "errors",
    "evaluate",
    "evaluation",
    "explore",
    "foreign",
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
    "retrieval",
    "retrieve",
    "save",
    "score_run",
    "statistics",
    "summarise",
    "sweep",
    "systems",
    "testsets",
    "to_documents",
    "trend",
    "trust",
    "types",
    "write_report",
]
