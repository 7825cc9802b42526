"""Sentences about labels and judges."""

from __future__ import annotations

import pandas as pd

from ragbench.report import judge_findings, label_findings
from ragbench.statistics import calibrate, judge_agreement
from ragbench.types import Judgement

VERDICTS = [Judgement(f"q{i}", "correctness", float(i % 3 > 0)) for i in range(60)]
LABELS = pd.DataFrame(
    [(f"q{i}", "correctness", float(i % 3 > 1), name) for i in range(30) for name in ("ann", "bob")],
    columns=["query_id", "criterion", "value", "annotator"],
)


def test_progress_and_its_limits_are_reported() -> None:
    rows = [("ann", "random", 5, 20), ("ann", "informative", 20, 20)]
    lines = label_findings(pd.DataFrame(rows, columns=["annotator", "picked", "labelled", "of"]), "relevance", "l.csv")
    assert lines[0] == "**ann** has labelled **25 of 40** answers by relevance in `l.csv`."
    assert lines[1].startswith("5 of these were drawn at random")
    assert "ask a second one" in lines[2]


def test_enough_labels_of_two_people_need_no_advice() -> None:
    rows = [(name, "random", 40, 40) for name in ("ann", "bob")]
    assert len(label_findings(pd.DataFrame(rows, columns=["annotator", "picked", "labelled", "of"]), "x", "y")) == 2


def test_findings_name_agreement_ceiling_and_bias() -> None:
    agreement, calibrated = judge_agreement(VERDICTS, LABELS, n_resamples=200), calibrate(VERDICTS, LABELS)
    lines = judge_findings(agreement, calibrated)
    assert "people among themselves with 1.00 on 30, which is the ceiling" in lines[0]
    assert "the mean of the judge is 0.67, on the labelled ones 0.33 higher than people" in lines[1]
    lone = judge_findings(
        judge_agreement([Judgement("q0", "correctness", 1.0)], LABELS[:1].assign(value=1.0)), calibrated[:0]
    )
    assert "is unknown" in lone[0]
