from .checks import score_groundedness
from .claims import claims
from .entailment import load_support_model
from .numbers import Number, numbers, numeric_fabrications, numeric_support
from .support import SUPPORT_MODELS, check_support_model, claim_support, claim_supports

__all__ = [
    "SUPPORT_MODELS",
    "Number",
    "check_support_model",
    "claim_support",
    "claim_supports",
    "claims",
    "load_support_model",
    "numbers",
    "numeric_fabrications",
    "numeric_support",
    "score_groundedness",
]
