"""Means with intervals, and paired comparisons of configurations: how much better, and how sure one can be.

Everything is paired by query, and a query counts as one draw from the questions that could be asked. Scores are the
tidy frames of `ragbench.scoring`: columns query_id, measure, value, with NaN for what is unscored. Results hold
pd.NA, never NaN, where a number cannot be had (nothing scored; an interval from one query).
"""

from __future__ import annotations

from ragbench.statistics.agreement import judge_agreement, krippendorff_alpha
from ragbench.statistics.calibration import calibrate, calibrate_difference, ppi_mean
from ragbench.statistics.comparison import CORRECTIONS, POWER, compare, compare_all
from ragbench.statistics.preference import bradley_terry, preference_table
from ragbench.statistics.summary import summarise

__all__ = [
    "CORRECTIONS",
    "POWER",
    "bradley_terry",
    "calibrate",
    "calibrate_difference",
    "compare",
    "compare_all",
    "judge_agreement",
    "krippendorff_alpha",
    "ppi_mean",
    "preference_table",
    "summarise",
]
