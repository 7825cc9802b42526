from .ablations import Ablations, answer_ablations
from .answers import check_llm, generate_answers
from .context import context_chunks, cut_to_budget

__all__ = [
    "Ablations",
    "answer_ablations",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "generate_answers",
]
