from .grid import Grid, read_grid
from .plan import SweepPlan, plan
from .session import SweepResult, sweep
from .verification import Verification, verify

__all__ = [
    "Grid",
    "SweepPlan",
    "SweepResult",
    "Verification",
    "plan",
    "read_grid",
    "sweep",
    "verify",
]
