"""Tables and sentences for readers: what the notebooks show between their figures, and the leaderboard.

Records and tidy frames in, small frames and plain sentences out. Every sentence is computed from the data.
"""

from __future__ import annotations

from ragbench.report.configuration import (
    answer_table,
    budget_curve,
    busiest_document,
    category_table,
    chunk_tokens,
    dataset_table,
    findings,
    main_measure,
    question_table,
)
from ragbench.report.sweep import (
    HEADLINE,
    baseline_name,
    best_two,
    budget_curves,
    check_comparable,
    conclusion,
    configurations,
    disagreements,
    heatmap_table,
    leaderboard,
    leaderboard_markdown,
    machines,
    order_changes,
    shared_measures,
)

__all__ = [
    "HEADLINE",
    "answer_table",
    "baseline_name",
    "best_two",
    "budget_curve",
    "budget_curves",
    "busiest_document",
    "category_table",
    "check_comparable",
    "chunk_tokens",
    "conclusion",
    "configurations",
    "dataset_table",
    "disagreements",
    "findings",
    "heatmap_table",
    "leaderboard",
    "leaderboard_markdown",
    "machines",
    "main_measure",
    "order_changes",
    "question_table",
    "shared_measures",
]
