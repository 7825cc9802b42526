"""Answer + criterion + language model -> Judgement."""

from __future__ import annotations

from ragbench.judges.agreement import agreement, spread
from ragbench.judges.judging import REFUSED, SAMPLING_TEMPERATURE, judge
from ragbench.judges.reading import rank_weighted_precision

__all__ = ["REFUSED", "SAMPLING_TEMPERATURE", "agreement", "judge", "rank_weighted_precision", "spread"]
