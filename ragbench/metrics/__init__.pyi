from .answers import gold_fact_coverage, semantic_similarity, token_f1
from .correctness import correctness_estimate
from .groundedness import claim_support, numeric_fabrications, numeric_support
from .retrieval import evaluate
from .safety import explain_injection, injection_score, leakage_findings, load_detector
from .score_calibration import Calibration, calibrate_threshold

__all__ = [
    "Calibration",
    "calibrate_threshold",
    "claim_support",
    "correctness_estimate",
    "evaluate",
    "explain_injection",
    "gold_fact_coverage",
    "injection_score",
    "leakage_findings",
    "load_detector",
    "numeric_fabrications",
    "numeric_support",
    "semantic_similarity",
    "token_f1",
]
