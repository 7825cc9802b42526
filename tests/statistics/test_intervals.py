"""Intervals for shares and for few pairs, against published examples."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from ragbench.errors import DataWarning
from ragbench.statistics import compare, mcnemar, summarise
from ragbench.statistics.intervals import Bounds, bounded_intervals, mean_intervals, wilson_interval


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


def limits(values: list[float] | np.ndarray, low: float, high: float, alpha: float = 0.05) -> tuple[float, float]:
    below, above = bounded_intervals([np.asarray(values, dtype=float)], [Bounds(low, high)], alpha, 100_000)
    return float(below[0]), float(above[0])


@pytest.mark.parametrize(("right", "n"), [(0, 20), (1, 29), (15, 148), (20, 20)])
def test_of_shares_they_are_those_of_clopper_and_pearson(right: int, n: int) -> None:
    exact = binomtest(right, n).proportion_ci(0.95, method="exact")
    assert limits(shares(right, n), 0, 1) == pytest.approx((exact.low, exact.high), abs=2e-3)


@pytest.mark.parametrize(("wins", "losses"), [(6, 0), (5, 0), (8, 1), (7, 1), (12, 3), (11, 4), (0, 6), (0, 0)])
def test_of_paired_shares_they_exclude_0_where_mcnemars_exact_test_does(wins: int, losses: int) -> None:
    differences = np.array([1.0] * wins + [-1.0] * losses + [0.0] * 13)
    low, high = limits(differences, -1, 1)
    assert (low > 0 or high < 0) == (wins + losses > 0 and binomtest(wins, wins + losses).pvalue < 0.05)
    before, after = np.where(differences < 0, 1.0, 0.0), np.where(differences > 0, 1.0, 0.0)
    frames = [pd.DataFrame({"query_id": range(len(side)), "measure": "P@1", "value": side}) for side in (before, after)]
    for row in (compare(*frames).iloc[0], mcnemar(*frames).iloc[0]):
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high), abs=0.01)
        assert (row["p_value"] < 0.05) == (not row["ci_low"] <= 0 <= row["ci_high"])


def test_ties_do_not_prove_equality() -> None:
    for measure in ("RR", "Success@1"):
        frame = pd.DataFrame({"query_id": range(5), "measure": measure, "value": [0.0, 1.0, 1.0, 0.0, 1.0]})
        row = compare(frame, frame).iloc[0]
        # 1 - 0.025 ** (1 / 5): of five questions none differs with a chance of 0.025 if this fraction does
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((-0.522, 0.522), abs=0.01)
        assert row["interval"] == "Gaffke"


def test_the_same_gain_on_every_question_has_an_interval_on_its_side_and_a_note() -> None:
    frame = pd.DataFrame({"query_id": range(20), "measure": "RR", "value": 0.5})
    row = compare(frame, frame.assign(value=0.45)).iloc[0]
    assert row["p_value"] < 0.05
    assert row["ci_low"] < -0.15
    assert -1e-5 < row["ci_high"] < 0
    assert row["note"].startswith("all equal, so those of other questions are unknown")


def test_heavy_skewness_is_pointed_out() -> None:
    frame = pd.DataFrame({"query_id": range(40), "measure": "RR", "value": 0.05})
    with pytest.warns(DataWarning, match="in RR are heavily skewed: few questions differ by much"):
        row = compare(frame, frame.assign(value=[1.0, 1.0] + [0.0] * 38)).iloc[0]
    assert row["ci_low"] < 0 < row["ci_high"]


def test_without_bounds_equal_values_have_no_interval() -> None:
    low, high, kinds = mean_intervals([np.full(9, 3.0)], [Bounds(-math.inf, math.inf)], 0.05, n_resamples=1000, seed=0)
    assert np.isnan([low[0], high[0]]).all()
    assert kinds == ["none"]
    slow = pd.DataFrame({"query_id": range(9), "measure": "latency_total_ms", "value": 30.0})
    assert compare(slow, slow).iloc[0]["ci_low"] is pd.NA


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=2, max_size=12))
def test_interval_and_p_agree_and_the_mean_lies_inside(values: list[float]) -> None:
    before = pd.DataFrame({"query_id": range(len(values)), "measure": "RR", "value": [max(-v, 0.0) for v in values]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        row = compare(before, before.assign(value=[max(v, 0.0) for v in values]), n_resamples=4096).iloc[0]
    assert -1 <= row["ci_low"] <= row["difference"] <= row["ci_high"] <= 1
    assert (row["p_value"] < 0.05) == (not row["ci_low"] <= 0 <= row["ci_high"])


def test_the_method_of_the_interval_is_reported() -> None:
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
    assert table["interval"].to_dict() == {"many": "BCa", "ties": "Gaffke", "right": "Gaffke"}
    assert table["test"].to_dict() == {
        "many": "sign-flip, sampled", "ties": "sign-flip, sampled", "right": "McNemar, exact",
    }  # fmt: skip


def test_questions_that_all_move_by_the_same_amount_are_compared() -> None:
    before = pd.DataFrame({"query_id": [f"q{i}" for i in range(40)], "measure": "RR", "value": 0.5})
    after = before.assign(value=[1.0] * 8 + [0.5] * 32)
    [row] = compare(before, after).to_dict("records")
    assert row["ci_low"] > 0
    assert row["note"] == ""
