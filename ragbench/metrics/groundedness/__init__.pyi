from .checks import (
    Verdict,
    check_answers,
    claims_stated,
    score_groundedness,
)
from .claims import claims
from .entailment import load_support_model
from .numbers import Number, numbers, numeric_fabrications, numeric_support
from .support import SUPPORT_MODELS, check_support_model, claim_support, claim_supports

__all__ = [
    "SUPPORT_MODELS",
    "Number",
    "Verdict",
    "check_answers",
    "check_support_model",
    "claim_support",
    "claim_supports",
    "claims",
    "claims_stated",
    "load_support_model",
    "numbers",
    "numeric_fabrications",
    "numeric_support",
    "score_groundedness",
]
