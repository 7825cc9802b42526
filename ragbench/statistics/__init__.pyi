from .agreement import judge_agreement
from .choice import WithinMargin, within_margin
from .columns import adjusted_p_values, p_text, rounded
from .comparison import compare, compare_all, mcnemar_p_value, summarise
from .drift import Change, Drift, drift
from .trust import Trust, draw_order, estimate_difference
from .verdicts import load_verdicts

__all__ = [
    "Change",
    "Drift",
    "Trust",
    "WithinMargin",
    "adjusted_p_values",
    "compare",
    "compare_all",
    "draw_order",
    "drift",
    "estimate_difference",
    "judge_agreement",
    "load_verdicts",
    "mcnemar_p_value",
    "p_text",
    "rounded",
    "summarise",
    "within_margin",
]
