from .agreement import judge_agreement
from .anova import anova
from .choice import HeldOut, WithinMargin, held_out, within_margin
from .columns import adjusted_p_values, p_text, rounded
from .comparison import compare, compare_all, mcnemar_p_value, summarise
from .drift import Change, Drift, drift
from .ranking import ranking_interval
from .sequential import control_variates, decision_of, sequence

__all__ = [
    "Change",
    "Drift",
    "HeldOut",
    "WithinMargin",
    "adjusted_p_values",
    "anova",
    "compare",
    "compare_all",
    "control_variates",
    "decision_of",
    "drift",
    "held_out",
    "judge_agreement",
    "mcnemar_p_value",
    "p_text",
    "ranking_interval",
    "rounded",
    "sequence",
    "summarise",
    "within_margin",
]
