"""Why questions fail, and what to try next."""

from __future__ import annotations

from ragbench.diagnosis.causes import CAUSES, RIGHT, count_causes, diagnose

__all__ = ["CAUSES", "RIGHT", "count_causes", "diagnose"]
