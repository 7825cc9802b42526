from . import plots
from .conclusions import (
    conclusion,
    headline,
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
from .documents import chunks_of
from .explorer import Explorer, explore
from .failures import (
    disagreements,
    failure_details,
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
    "chunks_of",
    "conclusion",
    "disagreements",
    "explore",
    "failure_details",
    "findings",
    "headline",
    "known_costs",
    "leaderboard_markdown",
    "leaderboard_rows",
    "margin_decisions",
    "plain",
    "plots",
    "robustness_table",
    "worst_failures",
    "write_report",
]
