"""Turn runs, chunks and answers into tidy scores: a DataFrame with the columns query_id, measure, value.

`value` is NaN where something is unscored: it is counted, and never averaged.
"""

from __future__ import annotations

from ragbench.scoring.answers import abstention_table, score_answers
from ragbench.scoring.arms import score_arms
from ragbench.scoring.chunks import score_chunks
from ragbench.scoring.judgements import judgement_states, score_judgements
from ragbench.scoring.runs import ceilings, score_run
from ragbench.scoring.spans import destroyed_evidence, score_spans

__all__ = [
    "abstention_table",
    "ceilings",
    "destroyed_evidence",
    "judgement_states",
    "score_answers",
    "score_arms",
    "score_chunks",
    "score_judgements",
    "score_run",
    "score_spans",
]
