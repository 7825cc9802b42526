from .causes import CAUSES, CORRECTNESS, STAGE_OF, by_severity, count_causes, diagnose, doubt_labels
from .recommendations import Recommendation, recommend
from .two_parts import two_part_table

__all__ = [
    "CAUSES",
    "CORRECTNESS",
    "STAGE_OF",
    "Recommendation",
    "by_severity",
    "count_causes",
    "diagnose",
    "doubt_labels",
    "recommend",
    "two_part_table",
]
