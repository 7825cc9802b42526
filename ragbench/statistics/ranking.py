"""The measure that configurations are ranked by, and that alone decides between them: the order of
preference, and how many questions must have it.
"""

from collections.abc import Mapping

import pandas as pd

ANSWER_MEASURES = ("llm_correctness", "llm_faithfulness", "semantic_similarity", "token_f1")
"""What distinguishes answers, the first that there is."""

RANKING = ("span_recall_auc", "nDCG@10", *ANSWER_MEASURES, "gold_fact_coverage", "pass_rate")
"""Measures that can rank, in order: evidence at an equal budget, documents, answers."""

COVERAGE = 0.95
"""A measure ranks if at least this fraction of the questions that decide have it."""


def main_measure(scores: pd.DataFrame) -> str:
    """Return what configurations are ranked by, of the measures in tidy scores."""
    n_scored = scores.loc[scores["value"].notna(), "measure"].value_counts()
    return main_measure_of({str(name): int(count) for name, count in n_scored.items()})


def answer_measure_of(n_scored: Mapping[str, int]) -> str:
    """Return what distinguishes configurations that retrieve the same: the first of `ANSWER_MEASURES`
    that any question has; "" where answers are not scored.

    >>> answer_measure_of({"nDCG@10": 40, "token_f1": 38}), answer_measure_of({"nDCG@10": 40})
    ('token_f1', '')
    """
    return next((name for name in ANSWER_MEASURES if n_scored.get(name)), "")


def main_measure_of(n_scored: Mapping[str, int], n: int = 0) -> str:
    """Return the measure that configurations are ranked by: the first of `RANKING` that at least 95 % of
    the questions have, else the one that most of them have; "nDCG@10" without any.

    `RANKING` begins with a measure at an equal budget of tokens. The best k chunks would be more text
    where chunks are larger, so that the numbers at an equal k could not be compared.

    Args:
        n_scored: the number of scored questions of each measure.
        n: the number of questions that could be scored; 0 means those with nDCG@10, i.e. with
            relevant documents, or else the largest number of any measure.

    >>> main_measure_of({"span_recall_auc": 40, "nDCG@10": 62}), main_measure_of({"span_recall_auc": 60, "nDCG@10": 62})
    ('nDCG@10', 'span_recall_auc')
    """
    scored = {name: count for name, count in n_scored.items() if count}
    n = n or scored.get("nDCG@10", 0) or max(scored.values(), default=0)
    candidates = [name for name in RANKING if name in scored]
    for name in candidates:
        if scored[name] >= COVERAGE * n:
            return name
    if candidates:
        return max(candidates, key=lambda name: scored[name])
    return min(scored, default="nDCG@10")  # no measure of `RANKING`: the first by name
