"""The front: what nothing else beats, by brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.statistics import pareto_front

FEW = st.integers(0, 3).map(float)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FEW, FEW, FEW), min_size=1, max_size=8))
def test_the_front_has_the_undominated_rows(rows: list[tuple[float, float, float]]) -> None:
    table = pd.DataFrame(rows, columns=["nDCG@10", "usd", "ms"])

    def beats(a: tuple[float, float, float], b: tuple[float, float, float]) -> bool:
        return a != b and a[0] >= b[0] and a[1] <= b[1] and a[2] <= b[2]

    expected = [not any(beats(other, row) for other in rows) for row in rows]
    assert pareto_front(table, "nDCG@10", "usd", "ms").tolist() == expected


def test_unknown_values_are_not_on_the_front() -> None:
    table = pd.DataFrame(
        {"RR": [0.5, 0.9, np.nan], "usd": pd.array([1.0, pd.NA, 0.0], "Float64")},
        index=["a", "b", "c"],
    )
    front = pareto_front(table, "RR", "usd")
    assert front.to_dict() == {"a": True, "b": False, "c": False}
    assert front.name == "on_front"


def test_a_quality_that_is_better_when_lower() -> None:
    table = pd.DataFrame({"latency_total_ms": [5.0, 9.0], "usd": [1.0, 1.0]})
    assert pareto_front(table, "latency_total_ms", "usd").tolist() == [True, False]


def test_refusals() -> None:
    table = pd.DataFrame({"RR": [0.5], "usd": ["much"]})
    with pytest.raises(ConfigError, match="unknown column 'usdd'; did you mean 'usd'"):
        pareto_front(table, "RR", "usdd")
    with pytest.raises(ConfigError, match="costs is empty"):
        pareto_front(table, "RR")
