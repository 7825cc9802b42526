"""Turn runs, chunks and answers into tidy scores: a DataFrame with the columns query_id, measure, value.

`value` is NaN where something is unscored: it is counted, and never averaged.
"""

from __future__ import annotations

from ragbench.scoring.runs import ceilings, score_run

__all__ = ["ceilings", "score_run"]
