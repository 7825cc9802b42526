"""One evaluation as a record, and as report.json, report.md and report.html; its comparison with an earlier one."""

from __future__ import annotations

from ragbench.report.evaluation.comparison import (
    check_comparable,
    check_same,
    compare_reports,
)
from ragbench.report.evaluation.html import report_html
from ragbench.report.evaluation.markdown import report_markdown
from ragbench.report.evaluation.measures import (
    HEADLINE,
    PERSPECTIVES,
    check_measure,
    meaning_of,
    perspective_of,
)
from ragbench.report.evaluation.reading import parse_report, read_report, report_json, report_schema
from ragbench.report.evaluation.records import (
    SCHEMA,
    Advice,
    CaseResult,
    CategoryResult,
    Change,
    Comparison,
    Flip,
    Latency,
    Made,
    MeasureResult,
    PassFail,
    Perspective,
    Report,
    SafetyFigure,
    SampleResult,
    TestSet,
)
from ragbench.report.evaluation.sentences import (
    SIGNS,
    aim,
    banner,
    change_sentence,
    failed_cases,
    interval,
    number,
    plural,
    shown_measures,
    sureness,
)
from ragbench.report.evaluation.writing import FILES, check_folder, write_report

__all__ = [
    "FILES",
    "HEADLINE",
    "PERSPECTIVES",
    "SCHEMA",
    "SIGNS",
    "Advice",
    "CaseResult",
    "CategoryResult",
    "Change",
    "Comparison",
    "Flip",
    "Latency",
    "Made",
    "MeasureResult",
    "PassFail",
    "Perspective",
    "Report",
    "SafetyFigure",
    "SampleResult",
    "TestSet",
    "aim",
    "banner",
    "change_sentence",
    "check_comparable",
    "check_folder",
    "check_measure",
    "check_same",
    "compare_reports",
    "failed_cases",
    "interval",
    "meaning_of",
    "number",
    "parse_report",
    "perspective_of",
    "plural",
    "read_report",
    "report_html",
    "report_json",
    "report_markdown",
    "report_schema",
    "shown_measures",
    "sureness",
    "write_report",
]
