from .audit import AUDIT_BOUNDS, judge_audit
from .criteria import judge, spread
from .parser import rank_weighted_precision
from .relevance import judge_relevance

__all__ = [
    "AUDIT_BOUNDS",
    "judge",
    "judge_audit",
    "judge_relevance",
    "rank_weighted_precision",
    "spread",
]
