"""ragbench: is RAG configuration B really better than A, where does each fail, and can the judge be trusted?

>>> import ragbench as rb
>>> rb.Document("d1", "Body.", title="Head").full_text
'Head\\n\\nBody.'

Names are loaded when they are first used, so that `import ragbench` is instant and silent.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "errors": ["DataWarning", "JudgeWarning", "RagbenchError"],
    "types": [
        "Answer", "Case", "Chunk", "Completion", "Dataset", "Document", "Embedder", "Judgement", "LLM",
        "Retriever", "Span", "System",
    ],
    "datasets": ["load_dataset"],
    "datasets.corpus": ["load_corpus"],
    "datasets.writing": ["save_dataset"],
    "embedders": ["load_embedder"],
    "llms": ["ScriptedLLM", "cost_of", "generate_many", "load_llm"],
    "chunkers": ["chunk"],
    "retrievers": ["BM25", "Dense", "Hybrid", "make_retriever", "rerank", "retrieve", "search_latency", "to_documents"],
    "generation": ["answer_arms", "generate_answers"],
    "generation.references": ["generate_references"],
    "generation.testsets": ["generate_drafts", "sample_chunks"],
    "judges": ["agreement", "judge"],
    "scoring": [
        "abstention_table", "ceilings", "destroyed_evidence", "judgement_states", "score_answers", "score_arms",
        "score_chunks", "score_judgements", "score_run", "score_spans",
    ],
    "diagnosis": ["count_causes", "diagnose"],
    "statistics": ["compare", "compare_all", "summarise"],
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ragbench' has no attribute {name!r}; public names: {', '.join(__all__)}")
    value = getattr(import_module(f"ragbench.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
