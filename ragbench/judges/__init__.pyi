from .agreement import agreement, spread
from .audit import AUDIT_BOUNDS, judge_audit
from .criteria import SAMPLING_TEMPERATURE, judge
from .parser import rank_weighted_precision

__all__ = [
    "AUDIT_BOUNDS",
    "SAMPLING_TEMPERATURE",
    "agreement",
    "judge",
    "judge_audit",
    "rank_weighted_precision",
    "spread",
]
