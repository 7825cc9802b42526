"""score_pipeline and its tables: labels that are there, failures that count, latencies that were
measured.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ragbench.errors import DataError
from ragbench.metrics import score_pipeline
from ragbench.types import Answer, Case, Completion, Dataset

CASES = [
    Case("q1", "?", expected_outcome="success", min_citations=2, latency_budget_ms={"total": 800}),
    Case("q2", "?", expected_outcome="no_results", forbidden_flags=("stale", "masked")),
    Case("q3", "?", expected_outcome="success", required_flags=("reranked",), min_citations=1),
    Case("q4", "?"),
]
DATASET = Dataset("mine", "test", {}, CASES, {})
USED = Completion("Yes.", "anthropic:claude-haiku-4-5", input_tokens=1_000, output_tokens=200)
ANSWERS = [
    Answer(
        "q1",
        "Yes [1].",
        ("d#0",),
        ("d#0",),
        latency_ms={"total": 640.0, "retrieve": 40.0},
        usage=USED,
    ),
    Answer("q2", "Yes [1].", ("d#0",), ("d#0",), flags=("stale",), latency_ms={"total": 900.0}),
    Answer("q3", "", error="time-out", latency_ms={"total": 60_000.0}),
]


def scored() -> dict[str, dict[str, float]]:
    frame = score_pipeline(DATASET, ANSWERS)
    table: dict[str, dict[str, float]] = {}
    for query_id, measure, value in frame.itertuples(index=False):
        table.setdefault(measure, {})[query_id] = value
    assert all(list(values) == ["q1", "q2", "q3", "q4"] for values in table.values())
    return table


def same(values: dict[str, float], *expected: float) -> bool:
    return list(values.values()) == [pytest.approx(value, nan_ok=True) for value in expected]


def test_every_measure_by_hand() -> None:
    nan, values = math.nan, scored()
    assert same(values["outcome_correct"], 1, 0, 0, nan)
    assert same(values["required_flags"], nan, nan, 0, nan)
    assert same(values["forbidden_flags_absent"], nan, 0.5, nan, nan)
    assert same(values["min_citations"], 0, nan, 0, nan)
    assert same(values["latency_in_budget"], 1, nan, nan, nan)
    assert not any(name.startswith("latency_") and name.endswith("_ms") for name in values), (
        "it differs each time"
    )
    assert same(values["cost_usd"], 0.002, nan, nan, nan)
    assert list(values)[-2:] == ["latency_in_budget", "cost_usd"]


def test_flags_and_citations_count_once() -> None:
    case = Case(
        "q",
        "?",
        required_flags=("a", "d", "a"),
        forbidden_flags=("a", "e", "f"),
        min_citations=2,
        expected_outcome="success",
    )
    answer = Answer("q", "Yes [1].", ("d#0",), ("d#0", "d#0", "invalid:9"), flags=("a", "b"))

    def values(answers: list[Answer], **changes: Any) -> dict[str, float]:
        frame = score_pipeline(Dataset("mine", "test", {}, [replace(case, **changes)], {}), answers)
        return dict(zip(frame["measure"], frame["value"], strict=True))

    expected = {
        "outcome_correct": 1.0,
        "required_flags": 1 / 2,
        "forbidden_flags_absent": 2 / 3,
        "min_citations": 0.0,
    }
    assert values([answer]) == expected
    assert values([answer], min_citations=1)["min_citations"] == 1
    assert values([answer], min_citations=0)["min_citations"] == 1
    assert values([], min_citations=0)["min_citations"] == 0, "no answer"
    assert values([])["required_flags"] == 0
    free = replace(answer, usage=Completion("x", "my_own:model", input_tokens=1, output_tokens=1))
    assert "cost_usd" not in values([free]), "a price that is not known"


def test_without_labels_there_is_nothing_to_score() -> None:
    bare = Dataset("bare", "test", {}, [Case("q1", "?")], {})
    assert score_pipeline(bare, [Answer("q1", "Yes.")]).empty
    assert list(score_pipeline(bare, []).columns) == ["query_id", "measure", "value"]


def test_answers_to_other_questions_are_refused() -> None:
    with pytest.raises(DataError, match="'q9'"):
        score_pipeline(DATASET, [Answer("q9", "Yes.")])
