from .audit import AUDIT_BOUNDS, judge_audit
from .criteria import judge
from .parser import rank_weighted_precision

__all__ = [
    "AUDIT_BOUNDS",
    "judge",
    "judge_audit",
    "rank_weighted_precision",
]
