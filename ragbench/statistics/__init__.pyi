from .agreement import judge_agreement, krippendorff_alpha
from .anova import anova
from .calibration import calibrate, calibrate_difference, ppi_mean
from .choice import HeldOut, WithinMargin, equivalent, held_out, pareto_front, within_margin
from .columns import CORRECTIONS, adjusted_p_values, p_text, rounded
from .comparison import compare, compare_all, mcnemar, summarise
from .drift import Change, Drift, drift
from .health import DatasetHealth, dataset_health, document_sizes, evidence_overlap, judged_share, question_health
from .power import POWER, required_queries
from .preference import bradley_terry, preference_table
from .sequential import compare_until, query_order, sequential
from .variance import Costs, SampleSummary, summarise_samples, variance_reduction

__all__ = [
    "CORRECTIONS",
    "POWER",
    "Change",
    "Costs",
    "DatasetHealth",
    "Drift",
    "HeldOut",
    "SampleSummary",
    "WithinMargin",
    "adjusted_p_values",
    "anova",
    "bradley_terry",
    "calibrate",
    "calibrate_difference",
    "compare",
    "compare_all",
    "compare_until",
    "dataset_health",
    "document_sizes",
    "drift",
    "equivalent",
    "evidence_overlap",
    "held_out",
    "judge_agreement",
    "judged_share",
    "krippendorff_alpha",
    "mcnemar",
    "p_text",
    "pareto_front",
    "ppi_mean",
    "preference_table",
    "query_order",
    "question_health",
    "required_queries",
    "rounded",
    "sequential",
    "summarise",
    "summarise_samples",
    "variance_reduction",
    "within_margin",
]
