"""Every perspective in one evaluation: a test set is put to a system, and what it gave becomes one report."""

from __future__ import annotations

from ragbench.evaluation.answering import Answered, answer_all
from ragbench.evaluation.evaluating import (
    CRITERIA,
    check_evaluation,
    check_perspectives,
    evaluate,
    report_of,
)
from ragbench.evaluation.suites import SUITES, select_categories, select_suite
from ragbench.evaluation.targets import Targets, check_gates_measured, load_targets, verdict
from ragbench.evaluation.traces import failure_traces

__all__ = [
    "CRITERIA",
    "SUITES",
    "Answered",
    "Targets",
    "answer_all",
    "check_evaluation",
    "check_gates_measured",
    "check_perspectives",
    "evaluate",
    "failure_traces",
    "load_targets",
    "report_of",
    "select_categories",
    "select_suite",
    "verdict",
]
