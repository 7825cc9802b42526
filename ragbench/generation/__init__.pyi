from .ablations import Arms, answer_arms
from .answers import check_llm, generate_answers
from .context import context_chunks, cut_to_budget

__all__ = [
    "Arms",
    "answer_arms",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "generate_answers",
]
