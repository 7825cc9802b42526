from .answer_similarity import (
    abstention_table,
    gold_fact_coverage,
    score_answers,
    score_judgements,
    score_own,
    semantic_similarity,
    token_f1,
)
from .chunk_statistics import (
    score_chunks,
)
from .context import (
    score_context,
)
from .groundedness import (
    claim_support,
    numeric_support,
    score_groundedness,
)
from .retrieval import ceilings, score_run
from .retrieval_levels import score_retrieval
from .robustness import (
    score_interventions,
)
from .safety import (
    injection_score,
    leakage_findings,
    load_detector,
)
from .spans import (
    score_spans,
    split_evidence,
)
from .system_outcomes import (
    score_pipeline,
)
from .trec import (
    read_qrels,
    read_run,
)

__all__ = [
    "abstention_table",
    "ceilings",
    "claim_support",
    "gold_fact_coverage",
    "injection_score",
    "leakage_findings",
    "load_detector",
    "numeric_support",
    "read_qrels",
    "read_run",
    "score_answers",
    "score_chunks",
    "score_context",
    "score_groundedness",
    "score_interventions",
    "score_judgements",
    "score_own",
    "score_pipeline",
    "score_retrieval",
    "score_run",
    "score_spans",
    "semantic_similarity",
    "split_evidence",
    "token_f1",
]
