"""Why questions fail, and what to try next."""

from __future__ import annotations

from ragbench.diagnosis.causes import CAUSES, RIGHT, count_causes, diagnose
from ragbench.diagnosis.recommendations import Recommendation, recommend

__all__ = ["CAUSES", "RIGHT", "Recommendation", "count_causes", "diagnose", "recommend"]
