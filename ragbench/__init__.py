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
        "Passage", "Preference", "Retriever", "SafetySample", "Span", "System",
    ],
    "registry": ["Measure", "measures"],
    "datasets": ["load_dataset"],
    "datasets.corpus": ["load_corpus"],
    "datasets.testsets": ["load_testset", "save_testset", "validate_testset"],
    "datasets.testsets.editing": ["add_case", "remove_case", "replace_case"],
    "datasets.writing": ["save_dataset"],
    "embedders": ["load_embedder"],
    "llms": ["ScriptedLLM", "cost_of", "dry_run", "generate_many", "load_llm"],
    "chunkers": ["chunk"],
    "retrievers": ["BM25", "Dense", "Hybrid", "make_retriever", "rerank", "retrieve", "search_latency", "to_documents"],
    "generation": ["answer_arms", "generate_answers"],
    "generation.references": ["generate_references"],
    "generation.testsets": ["generate_drafts", "sample_chunks"],
    "judges": ["agreement", "judge", "judge_audit", "pairwise"],
    "scoring": [
        "abstention_table", "ceilings", "claim_table", "context_ceilings", "destroyed_evidence",
        "diversity_verdicts", "failed_cases", "judgement_states", "latency_table", "outcome_table",
        "score_answers", "score_arms", "score_chunks", "score_context", "score_groundedness",
        "score_judgements", "score_overall", "score_pipeline", "score_retrieval", "score_run",
        "score_safety_inputs", "score_safety_outputs", "score_spans",
    ],
    "diagnosis": ["count_causes", "diagnose", "recommend", "two_part_table"],
    "systems": [
        "FunctionSystem", "HttpSystem", "McpSystem", "Pipeline", "RecordedSystem", "ask", "documents_of",
        "ingest", "load_system", "load_target", "match_passages", "remove_ingested",
    ],
    "statistics": [
        "Costs", "anova", "bradley_terry", "calibrate", "calibrate_difference", "compare", "compare_all",
        "compare_until", "dataset_health", "equivalent", "held_out", "judge_agreement", "krippendorff_alpha",
        "mcnemar", "narrowing_options", "pareto_front", "preference_table", "required_queries", "sequential",
        "summarise", "summarise_samples", "within_margin",
    ],
    "metrics.safety": ["injection_score", "leakage_findings"],
    "metrics.groundedness": ["claim_support"],
    "metrics.score_calibration": ["Calibration", "calibrate_threshold"],
    "evaluation": [
        "Result", "Results", "compare_reports", "evaluate", "load_result", "load_results", "new_result", "save",
    ],
    "evaluation.schema": ["read_report"],
    "report.evaluation": ["write_report"],
    "labelling": ["choose_items", "label_sheet", "load_labels"],
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
