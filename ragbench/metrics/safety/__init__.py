"""What must not go in and what must not come out: attacks in prompts, leaks in answers, and detectors of both."""

from __future__ import annotations

from ragbench.metrics.safety.classifiers import load_detector
from ragbench.metrics.safety.injection import InjectionSign, explain_injection, injection_score, injection_scores
from ragbench.metrics.safety.leakage import INTERNAL_PATTERNS, Finding, leakage_findings

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
