from . import plots
from .configuration import (
    MAIN,
    budget_curve,
    findings,
)
from .decisions import (
    COSTS,
    known_costs,
    margin_decisions,
)
from .explorer import Explorer, explore
from .export import export_mlflow, export_table
from .failures import (
    PARTS,
    failure_details,
    gap_table,
    plain,
    worst_failures,
)
from .leaderboard import leaderboard_html, leaderboard_markdown
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
    "budget_curve",
    "budget_curves",
    "conclusion",
    "explore",
    "export_mlflow",
    "export_table",
    "export_traces",
    "failure_details",
    "findings",
    "gap_table",
    "known_costs",
    "leaderboard_html",
    "leaderboard_markdown",
    "margin_decisions",
    "order_changes",
    "plain",
    "plots",
    "worst_failures",
    "write_report",
]
