"""Outcomes by the order of their rules, flags, citations, budgets and percentiles by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.metrics.system_outcomes import (
    OUTCOMES,
    latency_in_budget,
    outcome_of,
    percentile,
)
from ragbench.types import Answer, Passage

GOOD: dict[str, Any] = {"contexts": ("d#0",), "citations": ("d#0",)}
PASSAGES = (Passage("p", "In 1889."),)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer("q", "In 1889 [1].", **GOOD), "success"),
        (Answer("q", "In 1889 [1].", **GOOD, outcome="success", confidence=0.5), "success"),
        (Answer("q", "In 1889 [1].", passages=PASSAGES, citations=("p",)), "success"),
        (Answer("q", "In 1889 [1].", **GOOD, flags=("cached",)), "success"),
        (Answer("q", "In 1889.", contexts=("d#0",)), "uncertain"),
        (
            Answer(
                "q", "In 1889 [7].", contexts=("d#0",), citations=("invalid:7",), outcome="success"
            ),
            "uncertain",
        ),
        (Answer("q", "In 1889 [1].", **GOOD, confidence=0.49), "uncertain"),
        (Answer("q", "In 1889 [1].", **GOOD, flags=("uncertain",)), "uncertain"),
        (Answer("q", "In 1889 [1].", **GOOD, flags=("guardrail_warned",)), "uncertain"),
        (Answer("q", "In 1889 [1].", **GOOD, outcome="uncertain"), "uncertain"),
        (Answer("q", "In 1889."), "no_results"),
        (Answer("q", "In 1889 [1].", **GOOD, flags=("no_context", "uncertain")), "no_results"),
        (Answer("q", "Nothing.", **GOOD, outcome="no_results", confidence=0.9), "no_results"),
        (Answer("q", "The documents do not say.", contexts=("d#0",)), "no_results"),
        (
            Answer("q", "The documents do not say [1].", **GOOD, outcome="success"),
            "success",
        ),  # as the system reports
        (Answer("q", "", contexts=("d#0",)), "no_results"),
        (Answer("q", "No.", flags=("guardrail_blocked",)), "blocked"),
        (
            Answer("q", "No.", flags=("guardrail_blocked", "no_context"), outcome="success"),
            "blocked",
        ),
        (Answer("q", "No.", outcome="blocked"), "blocked"),
        (Answer("q", "I can't help with that.", contexts=("d#0",)), "blocked"),
        (Answer("q", "", flags=("guardrail_blocked",), error="timed out"), "failed"),
        (Answer("q", "Yes [1].", **GOOD, outcome="failed"), "failed"),
    ],
)
def test_the_first_rule_that_applies_decides(answer: Answer, outcome: str) -> None:
    assert outcome_of(answer) == outcome


def test_an_outcome_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="'answered'; expected one of success"):
        outcome_of(Answer("q", "Yes.", outcome="answered"))


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([None, *OUTCOMES]),
    st.sets(
        st.sampled_from(
            ["guardrail_blocked", "guardrail_warned", "no_context", "uncertain", "cached"]
        )
    ),
    st.none() | st.floats(0, 1),
    st.integers(0, 2),
)
def test_one_more_warning_never_makes_a_success(
    stated: str | None, flags: set[str], confidence: float | None, n_citations: int
) -> None:
    cited = tuple(f"d#{i}" for i in range(n_citations))
    plain = Answer("q", "Yes.", ("d#0", "d#1"), cited, tuple(sorted(flags)), stated, confidence)
    warned = Answer(
        "q", "Yes.", ("d#0", "d#1"), cited, (*sorted(flags), "uncertain"), stated, confidence
    )
    assert outcome_of(plain) in OUTCOMES
    assert outcome_of(warned) != "success"
    assert outcome_of(warned) == outcome_of(plain) or outcome_of(plain) == "success"


@pytest.mark.parametrize(
    ("latency", "budget", "value"),
    [
        ({"total": 800.0}, {"total": 800}, 1.0),
        ({"total": 801.0}, {"total": 800}, 0.0),
        ({"total": 1.0, "retrieve": 60.0}, {"total": 800, "retrieve": 50}, 0.0),
        ({"total": 1.0}, {"total": 800, "generate": 1}, 1.0),
        ({}, {"total": 800}, math.nan),
        ({"total": 1.0}, {}, math.nan),
        ({"search": 60.0}, {"retrieve": 50}, 0.0),  # two names of one stage
        (
            {"retrieve": 60.0, "search": 10.0},
            {"search": 50, "retrieve": 90},
            0.0,
        ),  # the longer time, the lower budget
    ],
)
def test_budgets_by_hand(latency: dict[str, float], budget: dict[str, float], value: float) -> None:
    assert latency_in_budget(latency, budget) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "share", "value"),
    [
        ([], 0.5, math.nan),
        ([7], 0.01, 7),
        ([3, 1, 2], 0.5, 2),
        ([1, 2, 3, 4], 0.5, 2),
        ([1, 2, 3, 4], 0.51, 3),
        (range(1, 21), 0.95, 19),
        (range(1, 20), 0.95, 19),  # 18.05 -> the 19th, the highest
        (range(1, 101), 0.99, 99),
        (range(1, 101), 0.07, 7),
        ([1, 2, 3], 1, 3),
    ],
)
def test_percentiles_by_hand(values: list[float], share: float, value: float) -> None:
    assert percentile(list(values), share) == pytest.approx(value, nan_ok=True)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.integers(1, 100))
def test_percentiles_are_numpys_inverted_cdf(values: list[float], percent: int) -> None:
    assert percentile(values, percent / 100) == np.percentile(
        values, percent, method="inverted_cdf"
    )
