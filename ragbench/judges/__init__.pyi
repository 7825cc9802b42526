from .agreement import agreement, spread
from .audit import AUDIT_BOUNDS, judge_audit
from .judging import SAMPLING_TEMPERATURE, judge
from .pairwise import pairwise
from .reading import rank_weighted_precision

__all__ = [
    "AUDIT_BOUNDS",
    "SAMPLING_TEMPERATURE",
    "agreement",
    "judge",
    "judge_audit",
    "pairwise",
    "rank_weighted_precision",
    "spread",
]
