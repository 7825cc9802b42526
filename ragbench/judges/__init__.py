"""Answer + criterion + language model -> Judgement; and whether such a judge can be trusted."""

from __future__ import annotations

from ragbench.judges.agreement import agreement, spread
from ragbench.judges.audit import AUDIT_BOUNDS, judge_audit
from ragbench.judges.criteria import SAMPLING_TEMPERATURE, judge
from ragbench.judges.pairwise import pairwise
from ragbench.judges.parser import rank_weighted_precision

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
