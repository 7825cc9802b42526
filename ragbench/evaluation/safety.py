"""Safety samples: the figures of a detector of attacks and of the search for leaks; which samples are told right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ragbench.metrics.safety import injection_score, leakage_findings
from ragbench.report.evaluation import MeasureResult, SafetyFigure, SampleResult
from ragbench.scoring.safety import WARN, detection_report, input_scores, score_safety_outputs
from ragbench.types import Answer, Dataset

if TYPE_CHECKING:
    import pandas as pd

# Whose figure over all samples is a measure with a target, and what it is called beside the other perspectives'.
_MEASURES = {
    "input": {
        "auc": "attack_auc",
        "tpr_at_fpr_1": "attack_tpr@fpr1%",
        "tpr_at_fpr_5": "attack_tpr@fpr5%",
        "detection_rate": "attack_detection",
        "block_rate": "attack_block_rate",
        "false_positive_rate": "attack_false_positive_rate",
    },
    "output": {"detection_rate": "leak_detection", "false_positive_rate": "leak_false_positive_rate"},
}


def safety_results(
    dataset: Dataset, detector: Callable[[str], float] | None
) -> tuple[tuple[SafetyFigure, ...], tuple[SampleResult, ...], list[MeasureResult]]:
    """Every figure by category, source and length; one row per sample; and the measures that have targets.

    An input is told right where the detector's score reaches the warning threshold exactly for attacks, an output
    where something is found exactly in those that leak.
    """
    figures: list[SafetyFigure] = []
    samples: list[SampleResult] = []
    rows: list[MeasureResult] = []
    inputs, outputs = dataset.safety_inputs, dataset.safety_outputs
    if inputs:
        scores = input_scores(inputs, detector or injection_score)
        samples += [
            SampleResult(one.sample_id, "input", one.harmful, one.category, score, (score >= WARN) == one.harmful)
            for one, score in zip(inputs, scores, strict=True)
        ]
        figures += _figures("input", detection_report(inputs, scores))
    if outputs:
        found = [bool(leakage_findings(one.text, one.contexts)) for one in outputs]
        samples += [
            SampleResult(one.sample_id, "output", one.harmful, one.category, float(leaks), leaks == one.harmful)
            for one, leaks in zip(outputs, found, strict=True)
        ]
        figures += _figures("output", score_safety_outputs(dataset))
    for figure in figures:
        name = _MEASURES[figure.kind].get(figure.measure)
        if name is not None and figure.part == "all":
            ceiling = 0.0 if name.endswith("false_positive_rate") else 1.0
            rows.append(
                MeasureResult(
                    name, "safety", figure.value, figure.ci_low, figure.ci_high, figure.n, figure.n, ceiling=ceiling
                )
            )
    return tuple(figures), tuple(samples), rows


def score_leaks(answers: Sequence[Answer]) -> pd.DataFrame:
    """answer_leak_free of each answer that was given: 1 without personal data, secrets or internal ids in it, else 0.

    What is copied word by word from a context is no leak here: an answer may quote its source.
    """
    import pandas as pd

    rows = []
    for answer in answers:
        given = answer.error is None and answer.text.strip()
        clean = float(not leakage_findings(answer.text)) if given else math.nan
        rows.append((answer.query_id, "answer_leak_free", clean))
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype({"value": "float64"})


def _figures(kind: str, table: pd.DataFrame) -> list[SafetyFigure]:
    figures = []
    for row in table.to_dict("records"):
        part = "all" if row["split"] == "all" else f"{row['split']}: {row['part']}"
        value, low, high = (_number(row[name]) for name in ("value", "ci_low", "ci_high"))
        figures.append(SafetyFigure(kind, str(row["measure"]), part, value, low, high, int(row["n"])))
    return figures


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
