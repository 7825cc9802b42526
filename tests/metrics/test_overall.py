"""The weighted overall and its thresholds: by hand, and what holds for any parts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.metrics.overall import (
    LOWER_PARTS,
    PARTS,
    WEIGHTS,
    check_thresholds,
    check_weights,
    shortfalls,
    weighted_overall,
)


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        ({"semantic": 1.0, "keyword": 1.0, "citation": 1.0, "hallucination": 0.0}, 1.0),
        ({"semantic": 0.0, "keyword": 0.0, "citation": 0.0, "hallucination": 1.0}, 0.0),
        (
            {"semantic": 0.8, "keyword": 0.5, "expected_document": 1.0, "hallucination": 0.1},
            0.32 + 0.1 + 0.2 + 0.18,
        ),
        (
            {
                "semantic": 0.985,
                "keyword": 1.0,
                "expected_document": 0.0,
                "hallucination": 0.0,
                "citation": 1.0,
            },
            0.794,
        ),
        (
            {
                "semantic": 0.8,
                "citation": 0.0,
                "gold_facts": 0.0,
                "expected_claims": 0.0,
                "expected_citations": 0.0,
            },
            0.8,
        ),
        ({"keyword": 0.5, "llm_hallucination": 0.25}, 0.625),
        ({"semantic": 0.5, "keyword": math.nan, "citation": math.nan, "hallucination": 0.5}, 0.5),
        ({"semantic": 0.6}, 0.6),
        ({"keyword": 0.5, "expected_document": 1.0}, 0.75),
        ({"semantic": math.nan}, math.nan),
        ({}, math.nan),
    ],
)
def test_overall_by_hand(parts: dict[str, float], value: float) -> None:
    assert weighted_overall(parts) == pytest.approx(value, abs=1e-9, nan_ok=True)


def test_own_weights_and_a_part_without_weight() -> None:
    parts = {"semantic": 0.5, "keyword": 1.0, "citation": 0.0, "hallucination": 0.0}
    assert weighted_overall(parts, weights={"semantic": 3, "keyword": 1}) == 0.625
    assert math.isnan(weighted_overall({"citation": 1.0}, weights={"semantic": 3, "citation": 0}))


UNIT = st.floats(0, 1)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(PARTS), UNIT | st.just(math.nan)),
    st.fixed_dictionaries({part: st.integers(1, 100) for part in PARTS}),
)
def test_overall_lies_between_its_parts(parts: dict[str, float], weights: dict[str, float]) -> None:
    good = [1 - v if name in LOWER_PARTS else v for name, v in parts.items() if not math.isnan(v)]
    value = weighted_overall(parts, weights=weights)
    assert math.isnan(value) if not good else min(good) - 1e-9 <= value <= max(good) + 1e-9


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"semantic": 0.7, "keyword": 0.6, "citation": 0.8, "hallucination": 0.2}, []),
        ({"semantic": 0.1, "citation": 0.0, "hallucination": 1.0, "expected_claims": 0.0}, []),
        (
            {"keyword": 0.5, "llm_correctness": 0.1},
            ["correctness by the judge 0.10 < 0.50", "required keywords 0.50 < 0.60"],
        ),
        ({"keyword": 0.5999}, ["required keywords 0.599900 < 0.600000"]),
        ({"citation": math.nan}, []),
        ({"expected_document": 0.0}, ["expected document retrieved 0.00 < 1.00"]),
        (
            {"llm_hallucination": 0.25, "gold_facts": 0.5},
            ["hallucination by the judge 0.25 > 0.20", "gold facts 0.50 < 0.60"],
        ),
        ({}, []),
    ],
)
def test_parts_below_their_threshold(parts: dict[str, float], found: list[str]) -> None:
    assert list(shortfalls(parts).values()) == found


def test_the_default_weights_are_those_of_the_design() -> None:
    assert {part: weight for part, weight in WEIGHTS.items() if weight} == {
        "semantic": 40,
        "keyword": 20,
        "expected_document": 20,
        "hallucination": 20,
        "llm_correctness": 40,
        "llm_hallucination": 20,  # in place of the heuristics
    }


def test_custom_thresholds_leave_out_other_parts() -> None:
    parts = {"semantic": 0.5, "citation": 0.0}
    assert shortfalls(parts, thresholds={"semantic": 0.6}) == {
        "semantic": "semantic similarity 0.50 < 0.60"
    }


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"semantics": 1}, "did you mean 'semantic'"),
        ({"semantic": -1}, "0 or more"),
        ({"semantic": math.nan}, "0 or more"),
        ({"semantic": "40"}, "0 or more"),
        ({"semantic": 0}, "all weights"),
        ({}, "all weights"),
    ],
)
def test_weights_are_checked(weights: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_weights(weights)


@pytest.mark.parametrize(
    ("thresholds", "message"), [({"overall": 1}, "unknown part"), ({"semantic": 70}, "from 0 to 1")]
)
def test_thresholds_are_checked(thresholds: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_thresholds(thresholds)
