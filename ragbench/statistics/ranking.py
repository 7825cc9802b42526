"""The measure that configurations are ranked by, and that alone decides between them."""

from collections.abc import Mapping

import pandas as pd

ANSWER_MEASURES = ("llm_correctness", "llm_faithfulness", "semantic_similarity", "token_f1")
"""What distinguishes answers, the first that there is."""


def main_measure(scores: pd.DataFrame) -> str:
    """Return what configurations are ranked by, of the measures in tidy scores."""
    n_scored = scores.loc[scores["value"].notna(), "measure"].value_counts()
    return main_measure_of({str(name): int(count) for name, count in n_scored.items()})


def main_measure_of(n_scored: Mapping[str, int]) -> str:
    """Return what configurations are ranked by: evidence recall over all budgets where at least half
    of the questions with relevant documents have evidence, else nDCG@10, else a measure of answers.

    Equal k is not equal when chunks differ in size, so an equal-budget measure leads wherever it
    can be had.

    Args:
        n_scored: the number of scored questions of each measure.
    """
    scored = {name: count for name, count in n_scored.items() if count}
    ranking = ["span_recall_auc", "nDCG@10", *ANSWER_MEASURES, "gold_fact_coverage", "pass_rate"]
    if 2 * scored.get(ranking[0], 0) < scored.get(ranking[1], 0):
        ranking = ranking[1:]
    return next((name for name in ranking if name in scored), min(scored, default="nDCG@10"))
