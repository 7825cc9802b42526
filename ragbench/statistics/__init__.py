"""Means with intervals, and paired comparisons of configurations: how much better, and how sure one can be.

Everything is paired by query, and a query counts as one draw from the questions that could be asked. Scores are the
tidy frames of `ragbench.scoring`: columns query_id, measure, value, with NaN for what is unscored. Results hold
pd.NA, never NaN, where a number cannot be had (nothing scored; an interval from one query).

What to ask, and whom: is it better? `compare`, `compare_all`, `mcnemar`. Is it as good, and cheaper? `equivalent`,
`within_margin`, `pareto_front`. Was the best just lucky? `held_out`. Which parameter matters? `anova`. How many
queries? `required_queries`. May I stop now? `sequential`, `compare_until`. How much is noise of answers and judge?
`summarise_samples`, `narrowing_options`. Is the test set fit for it? `dataset_health`.
"""

from __future__ import annotations

from ragbench.statistics.adjusting import CORRECTIONS, adjusted_p_values, p_text, rounded
from ragbench.statistics.agreement import judge_agreement, krippendorff_alpha
from ragbench.statistics.anova import anova
from ragbench.statistics.binary import mcnemar
from ragbench.statistics.calibration import calibrate, calibrate_difference, ppi_mean
from ragbench.statistics.comparison import compare, compare_all
from ragbench.statistics.equivalence import WithinMargin, equivalent, within_margin
from ragbench.statistics.health import (
    DatasetHealth,
    dataset_health,
    document_sizes,
    evidence_overlap,
    judged_share,
    question_health,
)
from ragbench.statistics.holdout import HeldOut, held_out
from ragbench.statistics.pareto import pareto_front
from ragbench.statistics.power import POWER, required_queries
from ragbench.statistics.preference import bradley_terry, preference_table
from ragbench.statistics.sequential import compare_until, query_order, sequential
from ragbench.statistics.summary import summarise
from ragbench.statistics.variance import Costs, SampleSummary, narrowing_options, summarise_samples

__all__ = [
    "CORRECTIONS",
    "POWER",
    "Costs",
    "DatasetHealth",
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
    "equivalent",
    "evidence_overlap",
    "held_out",
    "judge_agreement",
    "judged_share",
    "krippendorff_alpha",
    "mcnemar",
    "narrowing_options",
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
    "within_margin",
]
