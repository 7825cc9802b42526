from .agreement import judge_agreement
from .anova import anova
from .calibration import calibrate
from .choice import WithinMargin, within_margin
from .columns import adjusted_p_values, p_text, rounded
from .comparison import compare, compare_all, mcnemar_p_value, summarise
from .drift import Change, Drift, drift

__all__ = [
    "Change",
    "Drift",
    "WithinMargin",
    "adjusted_p_values",
    "anova",
    "calibrate",
    "compare",
    "compare_all",
    "drift",
    "judge_agreement",
    "mcnemar_p_value",
    "p_text",
    "rounded",
    "summarise",
    "within_margin",
]
