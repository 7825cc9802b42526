from .answers import (
    abstention_table,
    context_texts,
    judgement_states,
    score_ablations,
    score_answers,
    score_judgements,
    score_own,
)
from .chunks import score_chunks
from .context import context_ceilings, diversity_verdicts, score_context
from .groundedness import claim_table, score_groundedness
from .overall import failed_cases, failure_reasons, overall_parts, score_overall
from .pipeline import latency_table, outcome_table, score_pipeline
from .retrieval import ceilings, retrieval_levels, score_retrieval, score_run
from .safety import score_safety_inputs, score_safety_outputs
from .spans import score_spans, split_evidence
from .trec import read_qrels, read_run

__all__ = [
    "abstention_table",
    "ceilings",
    "claim_table",
    "context_ceilings",
    "context_texts",
    "diversity_verdicts",
    "failed_cases",
    "failure_reasons",
    "judgement_states",
    "latency_table",
    "outcome_table",
    "overall_parts",
    "read_qrels",
    "read_run",
    "retrieval_levels",
    "score_ablations",
    "score_answers",
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
    "split_evidence",
]
