from .causes import CAUSES, CORRECTNESS, count_causes, diagnose
from .recommendations import Recommendation, recommend
from .two_parts import two_part_table

__all__ = [
    "CAUSES",
    "CORRECTNESS",
    "Recommendation",
    "count_causes",
    "diagnose",
    "recommend",
    "two_part_table",
]
