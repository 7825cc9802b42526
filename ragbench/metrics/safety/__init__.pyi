from .classifiers import load_detector
from .injection import injection_score, injection_scores
from .leakage import Finding, leakage_findings

__all__ = [
    "Finding",
    "injection_score",
    "injection_scores",
    "leakage_findings",
    "load_detector",
]
