from .checking import Verdict, check_answers, check_claims, claims_stated, states, unsupported
from .citations import citation_form, cites_content, parse_citations, without_citations
from .claims import Claim, claims
from .entailment import SUPPORT_MODELS, check_support_model, load_support_model
from .numbers import Number, numbers, numeric_fabrications, numeric_support
from .support import claim_support, claim_supports

__all__ = [
    "SUPPORT_MODELS",
    "Claim",
    "Number",
    "Verdict",
    "check_answers",
    "check_claims",
    "check_support_model",
    "citation_form",
    "cites_content",
    "claim_support",
    "claim_supports",
    "claims",
    "claims_stated",
    "load_support_model",
    "numbers",
    "numeric_fabrications",
    "numeric_support",
    "parse_citations",
    "states",
    "unsupported",
    "without_citations",
]
