"""Tables about one configuration, on a dataset small enough to count by hand."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import ragbench as rb
from ragbench import report
from ragbench.report.configuration import _causes_line
from ragbench.statistics.ranking import main_measure
from ragbench.types import Answer, Case, Dataset, Document, Span

DATASET = Dataset(
    "tiny",
    "test",
    {name: Document(name, f"Text of {name}.") for name in ("d1", "d2", "d3")},
    (
        Case(
            "q1", "First?", category="easy", evidence=(Span("d1", 0, 4),), reference_answer="One."
        ),
        Case("q2", "Second?", category="easy", evidence=(Span("d1", 5, 7), Span("d2", 0, 4))),
        Case("q3", "Third?", category="hard"),
        Case("q4", "Fourth?", category="none", expected_outcome="no_results"),
    ),
    {"q1": {"d1": 2, "d3": 0}, "q2": {"d1": 1, "d2": 2}, "q3": {"d3": 1}, "q4": {}},
)
RUN = {"q1": {"d2": 3.0, "d1": 2.0}, "q2": {"d2": 1.0}, "q3": {"d1": 1.0, "d2": 0.5}}
SCORES = pd.DataFrame(
    [
        ("q1", "nDCG@10", 0.63),
        ("q2", "nDCG@10", 0.8),
        ("q3", "nDCG@10", 0.0),
        ("q4", "nDCG@10", None),
    ],
    columns=["query_id", "measure", "value"],
)


def test_budget_curve_reads_the_budget_from_the_name() -> None:
    scores = pd.DataFrame(
        [
            ("q1", "span_recall@1000tok", 1.0),
            ("q1", "span_recall@250tok", 0.5),
            ("q1", "span_recall@5", 0.1),
        ],
        columns=["query_id", "measure", "value"],
    )
    curve = report.budget_curve(scores)
    assert curve["budget"].tolist() == [250, 1000]
    assert curve["mean"].tolist() == [0.5, 1.0]
    assert report.budget_curve(SCORES).empty


def test_main_measure_prefers_equal_budgets() -> None:
    assert main_measure(SCORES) == "nDCG@10"
    assert main_measure(SCORES.assign(measure="span_recall_auc")) == "span_recall_auc"


@pytest.mark.parametrize(
    ("n_with_evidence", "main"), [(0, "nDCG@10"), (7, "nDCG@10"), (8, "span_recall_auc")]
)
def test_evidence_of_few_questions_does_not_rank(n_with_evidence: int, main: str) -> None:
    values = {"nDCG@10": [0.5] * 8, "span_recall_auc": [0.9] * n_with_evidence}
    rows = [(f"q{i}", name, value) for name, row in values.items() for i, value in enumerate(row)]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    assert main_measure(scores) == main


def test_the_causes_of_failures_add_up_to_their_number() -> None:
    first_causes = ["not_retrieved"] * 4 + ["below_cut"] * 3 + ["refused"] * 2
    causes = [*first_causes, "unanswerable_answered", "none"]
    diagnosis = pd.DataFrame({"cause": causes, "failed": [cause != "none" for cause in causes]})
    line = _causes_line(diagnosis)
    assert line.startswith("**Causes** of the 10 failures, where each was lost first: 4 ")
    assert line.endswith(", 1 other.")


def test_findings_begin_with_the_verdict_and_end_with_what_to_do() -> None:
    answers = [
        Answer("q1", "One.", ("d1",)),
        Answer("q2", "Two.", ("d2",)),
        Answer("q3", "No.", ("d1",)),
    ]
    result = rb.evaluate(DATASET, answers)
    lines = report.findings(result, rb.summarise(result.scores))
    assert re.match(
        r"\*\*\d of \d questions passed\*\* all their thresholds: pass_rate 0\.\d{3} \[", lines[0]
    )
    assert re.search(r"most frequent reasons why not: [a-z ]+ \(\d\)", lines[0])
    assert any(
        line.startswith("Retrieval: ") and "over 4 questions and 3 documents" in line
        for line in lines
    )
    assert any(line.startswith("Not measured: ") for line in lines)
    n_failed = result.counts["failed"]
    assert lines[-2].startswith(
        f"**Causes** of the {n_failed} failures, where each was lost first: "
    )
    assert "not failed" not in lines[-2]
    assert lines[-1].startswith("**Next:** ")
