"""Intervals for shares and for few pairs, against published examples."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.statistics import compare, summarise
from ragbench.statistics.intervals import adjusted_interval, wilson_interval


def shares(right: int, n: int) -> np.ndarray:
    return np.array([1.0] * right + [0.0] * (n - right))


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_newcombe_1998_prints_it(right: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(shares(right, n), 0.05) == pytest.approx((low, high), abs=5e-5)


def test_shares_are_summarised_by_wilson() -> None:
    scores = pd.DataFrame({"query_id": range(20), "measure": "Success@5", "value": shares(20, 20)})
    row = summarise(scores).iloc[0]
    assert (row["mean"], row["ci_high"]) == (1.0, 1.0)
    assert row["ci_low"] == pytest.approx(1 - 0.1611, abs=5e-5)


def test_paired_shares_as_fagerland_lydersen_and_laake_2014_have_them() -> None:
    """Airway hyper-responsiveness of 21 children before and after a transplantation: 1 lost it, 7 got it."""
    differences = np.array([1.0] * 1 + [-1.0] * 7 + [0.0] * 13)
    low, high = adjusted_interval(differences, 0.05, binary=True)
    assert (low, high) == pytest.approx((-0.508, -0.013), abs=5e-4)


def test_other_differences_get_made_up_pairs_of_their_own_size() -> None:
    low, high = adjusted_interval(np.array([0.5, 0.5, -0.5, 0.0]), 0.05, binary=False)
    # 6 values 0.5 0.5 -0.5 0 0.5 -0.5: mean 1/12, mean square 5/24; t with 3 degrees of freedom 3.182
    reach = 3.182446 * math.sqrt((5 / 24 - 1 / 144) / 6)
    assert (low, high) == pytest.approx((1 / 12 - reach, 1 / 12 + reach), rel=1e-6)


def test_no_difference_between_right_and_wrong_answers_is_no_proof_of_none() -> None:
    low, high = adjusted_interval(np.zeros(30), 0.05, binary=True)
    assert low == -high
    assert 0.08 < high < 0.1  # 1.96 * sqrt(2 / 32 / 32) = 0.0866
    assert adjusted_interval(np.zeros(30), 0.05, binary=False) == (0.0, 0.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=12))
def test_the_mean_lies_inside_and_the_limits_are_possible(values: list[float]) -> None:
    differences = np.array(values)
    low, high = adjusted_interval(differences, 0.05, binary=True)
    assert -1 <= low <= differences.mean() <= high <= 1


def test_which_interval_it_is_stands_beside_it() -> None:
    rng = np.random.default_rng(0)

    def frame(n: int, **columns: np.ndarray) -> pd.DataFrame:
        return pd.concat(
            pd.DataFrame({"query_id": range(n), "measure": name, "value": values}) for name, values in columns.items()
        )

    ties = np.where(np.arange(120) < 40, rng.random(120), 0.5)
    table = compare(
        frame(120, many=rng.random(120), ties=np.full(120, 0.5), right=shares(60, 120)),
        frame(120, many=rng.random(120), ties=ties, right=shares(90, 120)),
    ).set_index("measure")
    assert table["interval"].to_dict() == {"many": "BCa", "ties": "adjusted", "right": "adjusted"}
    assert table["test"].to_dict() == {
        "many": "sign-flip, sampled", "ties": "sign-flip, sampled", "right": "McNemar, exact",
    }  # fmt: skip
