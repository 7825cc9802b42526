"""Context + question -> Answer: by a language model, or by the extractive baseline that every model has to beat."""

from __future__ import annotations

from ragbench.generation.answers import check_llm, generate_answers
from ragbench.generation.arms import ARMS, Arms, answer_arms
from ragbench.generation.context import context_chunks, cut_to_budget
from ragbench.generation.extractive import ABSTAIN_BELOW
from ragbench.generation.replies import parse_citations
from ragbench.prompts import NO_ANSWER

__all__ = [
    "ABSTAIN_BELOW",
    "ARMS",
    "NO_ANSWER",
    "Arms",
    "answer_arms",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "generate_answers",
    "parse_citations",
]
