"""Why questions fail, and what to try next."""

from __future__ import annotations

from ragbench.diagnosis.causes import CAUSES, CORRECTNESS, STAGE_OF, by_severity, count_causes, diagnose
from ragbench.diagnosis.recommendations import Recommendation, recommend
from ragbench.diagnosis.two_parts import two_part_table

__all__ = [
    "CAUSES", "CORRECTNESS", "STAGE_OF", "Recommendation", "by_severity", "count_causes", "diagnose", "recommend",
    "two_part_table",
]  # fmt: skip
