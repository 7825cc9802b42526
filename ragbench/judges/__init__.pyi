from .audit_probes import AUDIT_BOUNDS, audit_findings, judge_audit
from .card import save_card
from .criterion import Criterion, load_criteria
from .judgements import judge
from .parser import rank_weighted_precision

__all__ = [
    "AUDIT_BOUNDS",
    "Criterion",
    "audit_findings",
    "judge",
    "judge_audit",
    "load_criteria",
    "rank_weighted_precision",
    "save_card",
]
