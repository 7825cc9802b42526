from .answers import check_llm, generate_answers
from .arms import ARMS, Arms, answer_arms
from .context import context_chunks, cut_to_budget
from .extractive import ABSTAIN_BELOW

__all__ = [
    "ABSTAIN_BELOW",
    "ARMS",
    "Arms",
    "answer_arms",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "generate_answers",
]
