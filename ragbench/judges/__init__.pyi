from .audit import AUDIT_BOUNDS, judge_audit
from .criteria import judge
from .criterion import Criterion, load_criteria
from .parser import rank_weighted_precision

__all__ = [
    "AUDIT_BOUNDS",
    "Criterion",
    "judge",
    "judge_audit",
    "load_criteria",
    "rank_weighted_precision",
]
