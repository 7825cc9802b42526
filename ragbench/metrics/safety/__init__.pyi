from .classifiers import load_detector
from .injection import InjectionSign, explain_injection, injection_score, injection_scores
from .leakage import INTERNAL_PATTERNS, Finding, leakage_findings

__all__ = [
    "INTERNAL_PATTERNS",
    "Finding",
    "InjectionSign",
    "explain_injection",
    "injection_score",
    "injection_scores",
    "leakage_findings",
    "load_detector",
]
