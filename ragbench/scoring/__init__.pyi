from .answers import (
    abstention_table,
    context_texts,
    score_ablations,
    score_answers,
    score_judgements,
    score_own,
)
from .chunks import score_chunks
from .context import context_ceilings, score_context
from .groundedness import claim_table, score_groundedness
from .overall import score_overall
from .pipeline import latency_table, outcome_table, score_pipeline
from .retrieval import ceilings, retrieval_levels, score_retrieval, score_run
from .spans import score_spans, split_evidence
from .trec import read_qrels, read_run

__all__ = [
    "abstention_table",
    "ceilings",
    "claim_table",
    "context_ceilings",
    "context_texts",
    "latency_table",
    "outcome_table",
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
    "score_spans",
    "split_evidence",
]
