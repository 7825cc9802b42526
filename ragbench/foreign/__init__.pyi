from .readers import load_scores
from .scales import bounds_from
from .score_columns import Scored, ScoreTable
from .score_comparison import GATES, assert_not_worse, compare, conclude, fails
from .table_conclusion import conclude_tables, labelled_difference

__all__ = [
    "GATES",
    "ScoreTable",
    "Scored",
    "assert_not_worse",
    "bounds_from",
    "compare",
    "conclude",
    "conclude_tables",
    "fails",
    "labelled_difference",
    "load_scores",
]
