from . import plots
from .configuration import (
    MAIN,
    budget_curve,
    busiest_document,
    category_table,
    chunk_tokens,
    dataset_table,
    findings,
    perspective_table,
)
from .decisions import (
    COSTS,
    known_costs,
    margin_decisions,
    variance_table,
)
from .explorer import Explorer, explore
from .export import export_mlflow, export_table
from .failures import (
    PARTS,
    arm_table,
    as_markdown,
    failure_details,
    gap_table,
    plain,
    worst_failures,
)
from .labels import (
    draft_findings,
    reference_findings,
    reference_table,
    topic_points,
)
from .leaderboard import leaderboard_html, leaderboard_markdown
from .models import (
    agreement_table,
    answer_measure,
    answer_scores,
    cost_table,
    generation_table,
    invented_table,
    judge_findings,
    label_findings,
    unscored_table,
)
from .page import write_report
from .sweep import (
    budget_curves,
    conclusion,
    order_changes,
)
from .traces import export_traces

__all__ = [
    "COSTS",
    "MAIN",
    "PARTS",
    "Explorer",
    "agreement_table",
    "answer_measure",
    "answer_scores",
    "arm_table",
    "as_markdown",
    "budget_curve",
    "budget_curves",
    "busiest_document",
    "category_table",
    "chunk_tokens",
    "conclusion",
    "cost_table",
    "dataset_table",
    "draft_findings",
    "explore",
    "export_mlflow",
    "export_table",
    "export_traces",
    "failure_details",
    "findings",
    "gap_table",
    "generation_table",
    "invented_table",
    "judge_findings",
    "known_costs",
    "label_findings",
    "leaderboard_html",
    "leaderboard_markdown",
    "margin_decisions",
    "order_changes",
    "perspective_table",
    "plain",
    "plots",
    "reference_findings",
    "reference_table",
    "topic_points",
    "unscored_table",
    "variance_table",
    "worst_failures",
    "write_report",
]
