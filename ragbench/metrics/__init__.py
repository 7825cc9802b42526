"""Measures as pure functions: plain records in, numbers out; nothing here reads a file of a user.

Two embed the texts that they score, with a model that comes along: `groundedness.claim_support` and
`safety.injection_score`. For nearly all measures higher is better; `LOWER_IS_BETTER` is the one place that names those
for which it is not.
"""

from __future__ import annotations

import re

LOWER_IS_BETTER = frozenset(
    {
        "attack_false_positive_rate",
        "boundary_cuts",
        "cost_usd",
        "fact_dispersion",
        "false_positive_rate",
        "harmless_blocked",
        "leak_false_positive_rate",
        "ngram_redundancy",
        "overall_hallucination",
        "overall_llm_hallucination",
        "tfidf_redundancy",
    }
)
"""Measures by name. Whoever asks calls `higher_is_better`, which also knows the names that are made of parts."""

# "latency_total_ms" and any other stage
_LOWER_BY_FORM = re.compile(r"latency_.+_ms")


def higher_is_better(measure: str) -> bool:
    """Whether a higher value of this measure is a better one.

    False for the names in `LOWER_IS_BETTER` and for "latency_<stage>_ms"; true for all others, also those that ragbench
    does not know.

    >>> [higher_is_better(name) for name in ("nDCG@10", "ngram_redundancy", "latency_total_ms", "latency_in_budget")]
    [True, False, False, True]
    """
    return measure not in LOWER_IS_BETTER and _LOWER_BY_FORM.fullmatch(measure) is None
