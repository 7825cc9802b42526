from . import plots
from .conclusions import conclusion_markdown
from .configuration import (
    MAIN,
    budget_curve,
    findings,
)
from .documents import chunks_of
from .explorer import Explorer, explore
from .failures import (
    by_severity,
    count_causes,
    failure_details,
    plain,
    question_table,
    robustness_table,
)
from .leaderboard import COSTS, leaderboard_markdown, leaderboard_rows
from .mlflow import mlflow_metrics
from .page import write_report
from .publication import publish

__all__ = [
    "COSTS",
    "MAIN",
    "Explorer",
    "budget_curve",
    "by_severity",
    "chunks_of",
    "conclusion_markdown",
    "count_causes",
    "explore",
    "failure_details",
    "findings",
    "leaderboard_markdown",
    "leaderboard_rows",
    "mlflow_metrics",
    "plain",
    "plots",
    "publish",
    "question_table",
    "robustness_table",
    "write_report",
]
