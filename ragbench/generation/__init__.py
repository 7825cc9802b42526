"""Context + question -> Answer: by a language model, or by the extractive baseline that a model has to beat."""

from __future__ import annotations

from ragbench.generation.ablations import answer_arms
from ragbench.generation.answers import check_llm, generate_answers
from ragbench.generation.context import context_chunks, cut_to_budget

__all__ = [
    "answer_arms",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "generate_answers",
]
