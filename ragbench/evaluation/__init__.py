"""One evaluation: a system answers a dataset, and that gives one `Result`, which a folder keeps."""

from __future__ import annotations

from ragbench.evaluation.answering import Answered, answer_all
from ragbench.evaluation.comparison import check_comparable, check_same, compare_reports
from ragbench.evaluation.configuration import WHERE, check_parameters, config_name, configuration
from ragbench.evaluation.costs import costs_of
from ragbench.evaluation.environment import environment, own_version
from ragbench.evaluation.evaluating import (
    CRITERIA,
    check_evaluation,
    check_perspectives,
    evaluate,
    report_of,
)
from ragbench.evaluation.folder import FILES, STAGING, load_result, load_results, result_folders, save
from ragbench.evaluation.leaderboard import Results, leaderboard
from ragbench.evaluation.rehearsing import rehearse
from ragbench.evaluation.result import Result, new_result
from ragbench.evaluation.suites import SUITES, select_categories, select_suite
from ragbench.evaluation.targets import Targets, check_gates_measured, load_targets, verdict
from ragbench.evaluation.timings import Timings
from ragbench.evaluation.traces import failure_traces

__all__ = [
    "CRITERIA",
    "FILES",
    "STAGING",
    "SUITES",
    "WHERE",
    "Answered",
    "Result",
    "Results",
    "Targets",
    "Timings",
    "answer_all",
    "check_comparable",
    "check_evaluation",
    "check_gates_measured",
    "check_parameters",
    "check_perspectives",
    "check_same",
    "compare_reports",
    "config_name",
    "configuration",
    "costs_of",
    "environment",
    "evaluate",
    "failure_traces",
    "leaderboard",
    "load_result",
    "load_results",
    "load_targets",
    "new_result",
    "own_version",
    "rehearse",
    "report_of",
    "result_folders",
    "save",
    "select_categories",
    "select_suite",
    "verdict",
]
