"""Groundedness: what an answer claims, cites and counts, held against the texts that it was made from.

Heuristic, deterministic, without a language model: words, names, numbers, denials, and vectors of the minilm embedder.
"""

from __future__ import annotations

from ragbench.metrics.groundedness.checking import (
    Verdict,
    check_answers,
    check_claims,
    claims_stated,
    states,
    unsupported,
)
from ragbench.metrics.groundedness.citations import citation_form, cites_content, parse_citations, without_citations
from ragbench.metrics.groundedness.claims import Claim, claims
from ragbench.metrics.groundedness.entailment import BUILT_IN as SUPPORT_MODELS
from ragbench.metrics.groundedness.entailment import check_support_model, load_support_model
from ragbench.metrics.groundedness.numbers import Number, numbers, numeric_fabrications, numeric_support
from ragbench.metrics.groundedness.support import claim_support, claim_supports

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
