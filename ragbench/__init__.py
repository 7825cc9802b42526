"""ragbench: is RAG configuration B really better than A, where does each fail, and can the judge be trusted?

>>> import ragbench as rb
>>> rb.Document("d1", "Body.", title="Head").full_text
'Head\\n\\nBody.'

The names are in `__init__.pyi`; each is loaded when it is first used, so that `import ragbench` is instant and silent.
Submodules (`rb.statistics`, `rb.metrics`, ...) hold the rest of the public names.
"""

from __future__ import annotations

import warnings
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import lazy_loader

__version__ = "0.1.0"

_attached, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Names that were in the root until 0.1, by the submodule that has them; they go in 0.2.
_MOVED = {
    name: module
    for module, names in {
        "diagnosis": "count_causes recommend two_part_table",
        "embedders": "load_embedder",
        "errors": "DataWarning JudgeWarning",
        "evaluation": "compare_reports new_result read_report",
        "generation": "answer_arms",
        "judges": "agreement judge_audit pairwise",
        "labelling": "choose_items label_sheet load_labels",
        "llms": "ScriptedLLM cost_of generate_many",
        "metrics": "Calibration calibrate_threshold claim_support injection_score leakage_findings",
        "retrievers": "BM25 Dense Hybrid rerank search_latency",
        "scoring": "abstention_table ceilings claim_table context_ceilings destroyed_evidence "
        "latency_table outcome_table score_answers score_arms score_chunks score_context "
        "score_groundedness score_judgements score_overall score_pipeline score_retrieval "
        "score_spans",
        "statistics": "anova calibrate dataset_health equivalent held_out judge_agreement pareto_front "
        "required_queries within_margin",
        "systems": "ask ingest match_passages remove_ingested",
        "testsets": "add_case generate_drafts generate_references load_corpus remove_case replace_case sample_chunks "
        "save_dataset save_testset validate_testset",
        "types": "Preference SafetySample",
    }.items()
    for name in names.split()
}
_RENAMED = {
    "answer_arms": "answer_ablations",
    "destroyed_evidence": "split_evidence",
    "score_arms": "score_ablations",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return _attached(name)
    if module := _MOVED.get(name):
        place, new = f"ragbench.{module}", _RENAMED.get(name, name)
        warnings.warn(
            f"ragbench.{name} is now {place}.{new}; the old name goes in ragbench 0.2",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module(place), new)
    near = get_close_matches(name, [*__all__, *_MOVED], n=1)
    hint = f"; did you mean '{_MOVED[near[0]] + '.' if near[0] in _MOVED else ''}{near[0]}'?" if near else ""
    raise AttributeError(f"module 'ragbench' has no attribute {name!r}{hint}")
