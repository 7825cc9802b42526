from .answers import contains_all, gold_fact_coverage, keyword_coverage, semantic_similarity, token_f1
from .chunks import boundary_cuts, coherence, overlap_ratio, size_statistics, span_scores
from .context import (
    context_fact_recall,
    fact_dispersion,
    ngram_redundancy,
    tfidf_redundancy,
    unique_token_ratio,
)
from .correctness import correctness_estimate
from .groundedness import claim_support, numeric_fabrications, numeric_support
from .overall import weighted_overall
from .retrieval import evaluate
from .safety import explain_injection, injection_score, leakage_findings, load_detector
from .score_calibration import Calibration, calibrate_threshold

__all__ = [
    "Calibration",
    "boundary_cuts",
    "calibrate_threshold",
    "claim_support",
    "coherence",
    "contains_all",
    "context_fact_recall",
    "correctness_estimate",
    "evaluate",
    "explain_injection",
    "fact_dispersion",
    "gold_fact_coverage",
    "injection_score",
    "keyword_coverage",
    "leakage_findings",
    "load_detector",
    "ngram_redundancy",
    "numeric_fabrications",
    "numeric_support",
    "overlap_ratio",
    "semantic_similarity",
    "size_statistics",
    "span_scores",
    "tfidf_redundancy",
    "token_f1",
    "unique_token_ratio",
    "weighted_overall",
]
