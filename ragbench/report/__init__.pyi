from . import plots
from .conclusions import (
    budget_curves,
    conclusion,
    headline,
    order_changes,
)
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
from .export import export_table
from .failures import (
    disagreements,
    failure_details,
    gap_table,
    plain,
    robustness_table,
    worst_failures,
)
from .leaderboard import leaderboard_markdown, leaderboard_rows
from .page import write_report

__all__ = [
    "COSTS",
    "MAIN",
    "Explorer",
    "budget_curve",
    "budget_curves",
    "conclusion",
    "disagreements",
    "explore",
    "export_table",
    "failure_details",
    "findings",
    "gap_table",
    "headline",
    "known_costs",
    "leaderboard_markdown",
    "leaderboard_rows",
    "margin_decisions",
    "order_changes",
    "plain",
    "plots",
    "robustness_table",
    "worst_failures",
    "write_report",
]
