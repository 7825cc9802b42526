"""Whether a single question passed, and if not, why in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from ragbench.evaluation.answering import Answered
from ragbench.metrics.overall import WEIGHTS
from ragbench.scoring.overall import case_reasons, score_overall

OF_ANSWERS = ("groundedness", "answer", "pipeline", "judge")
# Labels that answers are judged by directly, by perspective, and what leaves them out.
_LABELS: dict[str, dict[str, Any]] = {
    "answer": {"required_keywords": ()},
    "pipeline": {"required_flags": (), "forbidden_flags": (), "min_citations": None, "latency_budget_ms": {}},
}
_NOTHING_FOUND = "nothing relevant among the first 5 retrieved"


class Decided(NamedTuple):
    """query_id -> whether the case passed (None = nothing to decide by), the reasons why not, and the scores."""

    passed: Mapping[str, bool | None]
    reasons: Mapping[str, tuple[str, ...]]
    scores: pd.DataFrame


def decide(
    answered: Answered,
    frames: Mapping[str, pd.DataFrame],
    thresholds: Mapping[str, float],
    weights: Mapping[str, float] = WEIGHTS,
) -> Decided:
    """Decide every case by what was measured.

    Where answers were looked at, `failure_reasons` decides, and the scores are those of `score_overall`; labels of a
    perspective that was not measured are left out. Where only retrieval was, a question passes if something relevant
    is among the first 5.

    Args:
        answered: the answers.
        frames: perspective -> its scores; perspectives that could not be measured are not in it.
        thresholds: part -> what an answer must reach, as in `ragbench.metrics.overall.THRESHOLDS`.
        weights: part -> how much it counts in the overall.
    """
    if not any(name in frames for name in OF_ANSWERS):
        return _by_retrieval(answered, frames.get("retrieval", pd.DataFrame(columns=["query_id", "measure", "value"])))
    scores = pd.concat([frame for name, frame in frames.items() if name != "safety"], ignore_index=True)
    dataset = answered.dataset
    for perspective, labels in _LABELS.items():
        if perspective not in frames:
            dataset = replace(dataset, cases=[replace(case, **labels) for case in dataset.cases])
    overall = score_overall(dataset, answered.answers, scores, thresholds=thresholds, weights=weights)
    own = overall[overall["measure"] == "pass_rate"]
    passed = dict(zip(own["query_id"], own["value"], strict=True))
    reasons = case_reasons(dataset, answered.answers, scores, thresholds=thresholds)
    shown = overall[overall["measure"] != "pass_rate"]
    return Decided({one: None if math.isnan(value) else bool(value) for one, value in passed.items()}, reasons, shown)


def _by_retrieval(answered: Answered, scores: pd.DataFrame) -> Decided:
    found: dict[str, float] = {}
    for name in ("Success@5", "span:Success@5", "chunk:Success@5"):  # the finest level that there is decides
        own = scores[scores["measure"] == name]
        found = dict(zip(own["query_id"], own["value"], strict=True)) or found
    passed: dict[str, bool | None] = {}
    for case in answered.dataset.cases:
        value = found.get(case.query_id, math.nan)
        passed[case.query_id] = None if math.isnan(value) else value > 0
    failed = {answer.query_id: answer.error for answer in answered.answers if answer.error is not None}
    reasons = {
        one: (f"failed: {failed[one]}" if one in failed else _NOTHING_FOUND,)
        for one, good in passed.items()
        if good is False
    }
    return Decided(passed, reasons, scores.iloc[:0])
