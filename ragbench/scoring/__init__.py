"""Turn runs, chunks and answers into tidy scores: a DataFrame with the columns query_id, measure, value.

`value` is NaN where something is unscored: it is counted, and never averaged.
"""

from __future__ import annotations

from ragbench.scoring.ablations import score_arms
from ragbench.scoring.answers import abstention_table, score_answers
from ragbench.scoring.chunks import score_chunks
from ragbench.scoring.context import context_ceilings, diversity_verdicts, score_context
from ragbench.scoring.contexts import context_texts
from ragbench.scoring.groundedness import claim_table, score_groundedness
from ragbench.scoring.judgements import judgement_states, score_judgements
from ragbench.scoring.overall import failed_cases, failure_reasons, overall_parts, score_overall
from ragbench.scoring.own import score_own
from ragbench.scoring.pipeline import latency_table, outcome_table, score_pipeline
from ragbench.scoring.retrieval import retrieval_levels, score_retrieval
from ragbench.scoring.runs import ceilings, score_run
from ragbench.scoring.safety import score_safety_inputs, score_safety_outputs
from ragbench.scoring.spans import destroyed_evidence, score_spans

__all__ = [
    "abstention_table",
    "ceilings",
    "claim_table",
    "context_ceilings",
    "context_texts",
    "destroyed_evidence",
    "diversity_verdicts",
    "failed_cases",
    "failure_reasons",
    "judgement_states",
    "latency_table",
    "outcome_table",
    "overall_parts",
    "retrieval_levels",
    "score_answers",
    "score_arms",
    "score_chunks",
    "score_context",
    "score_groundedness",
    "score_judgements",
    "score_overall",
    "score_own",
    "score_pipeline",
    "score_retrieval",
    "score_run",
    "score_safety_inputs",
    "score_safety_outputs",
    "score_spans",
]
