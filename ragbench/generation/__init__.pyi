from .ablations import Ablations, answer_ablations
from .answers import check_llm, context_chunks, cut_to_budget, generate_answers

__all__ = [
    "Ablations",
    "answer_ablations",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "generate_answers",
]
