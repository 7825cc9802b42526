"""Why questions fail, and what to try next."""

from __future__ import annotations

from ragbench.diagnosis.recommendations import Recommendation, recommend

__all__ = ["Recommendation", "recommend"]
