"""Means with intervals: degenerate cases, parity with scipy, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.stats import binomtest

from ragbench.errors import ConfigError, DataError
from ragbench.statistics import summarise


def scores(**measures: Any) -> pd.DataFrame:
    rows = [
        (f"q{i}", name, value)
        for name, values in measures.items()
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"])


def test_mean_and_counts() -> None:
    table = summarise(scores(RR=[1.0, 0.5, None, 0.0], AP=[0.25, 0.75, 0.5, 0.5]))
    assert list(table.columns) == ["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]
    assert table["measure"].tolist() == ["RR", "AP"]
    assert table["mean"].tolist() == [0.5, 0.5]
    assert table["n_scored"].tolist() == [3, 4]
    assert table["n"].tolist() == [4, 4]


@pytest.mark.parametrize(("right", "n"), [(1, 29), (15, 148), (26, 30)])
def test_of_graded_values_it_is_nearly_that_of_clopper_and_pearson_for_the_same_mean(
    right: int, n: int
) -> None:
    """Values of 0 and .999 are graded; the interval is that of proportions, which is exact."""
    row = summarise(scores(m=[0.999] * right + [0.0] * (n - right))).iloc[0]
    exact = binomtest(right, n).proportion_ci(0.95, method="exact")
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((exact.low, exact.high), abs=2e-3)


def test_without_bounds_it_is_that_of_student() -> None:
    values = np.random.default_rng(1).exponential(100, 40)
    row = summarise(scores(latency_total_ms=values)).iloc[0]
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((expected.low, expected.high))


def test_equal_values_have_a_wide_interval() -> None:
    row = summarise(scores(m=[0.3] * 7)).iloc[0]
    reach = 1 - 0.025 ** (1 / 7)  # this fraction of other questions may have 0, or 1
    assert row["mean"] == pytest.approx(0.3)
    assert row["ci_low"] == pytest.approx(0.3 * (1 - reach), abs=0.01)
    assert row["ci_high"] == pytest.approx(0.3 + 0.7 * reach, abs=0.01)


def test_one_value_has_no_interval() -> None:
    row = summarise(scores(m=[0.3])).iloc[0]
    assert row["mean"] == 0.3
    assert row["ci_low"] is pd.NA
    assert row["ci_high"] is pd.NA


@pytest.mark.parametrize("value", [math.nan, None, pd.NA])
def test_nothing_scored_is_missing_and_never_nan(value: object) -> None:
    table = summarise(scores(m=[value, value], other=[1.0, 0.0]))
    assert table.loc[0, "mean"] is pd.NA
    assert table.loc[0, "ci_low"] is pd.NA
    assert table["n_scored"].tolist() == [0, 2]
    assert "nan" not in table.to_string().lower()


def test_only_unscored_values() -> None:
    assert summarise(scores(m=[None, None])).loc[0, "mean"] is pd.NA


def test_numbers_do_not_depend_on_other_measures() -> None:
    values = np.random.default_rng(0).random(50)
    alone = summarise(scores(m=values))
    among_others = (
        summarise(scores(other=values**2, short=values[:20], m=values))
        .iloc[[2]]
        .reset_index(drop=True)
    )
    pd.testing.assert_frame_equal(alone, among_others, rtol=1e-12)
    pd.testing.assert_frame_equal(alone, summarise(scores(m=values)), check_exact=True)


def test_smaller_alpha_gives_wider_intervals() -> None:
    values = np.random.default_rng(0).random(50)
    narrow, wide = (summarise(scores(m=values), alpha=alpha).iloc[0] for alpha in (0.2, 0.01))
    assert wide["ci_low"] < narrow["ci_low"] < narrow["mean"] < narrow["ci_high"] < wide["ci_high"]


def test_the_argument_stays_as_it_was() -> None:
    frame = scores(m=[1.0, None, 0.0])
    before = frame.copy()
    summarise(frame)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ([1.0], "must be a DataFrame .* not list"),
        (pd.DataFrame({"query_id": ["q"], "value": [1.0]}), "no column measure; expected"),
        (scores(), "are empty"),
        (scores(m=[1.0, math.inf]), "a value is not finite: .*q1"),
        (scores(m=[1.0, "high"]), "a value is not a number: .*high"),
        (
            pd.concat([scores(m=[1.0])] * 2),
            "two values; keep one row per query and measure: .*q0.*m",
        ),
        (scores(m=[1.0, 0.5]).replace("q1", None), "a row lacks its query_id or measure"),
    ],
)
def test_bad_scores_are_named(frame: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        summarise(frame)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 5}, "alpha is 5"),
        ({"alpha": 1.0}, "alpha is 1.0"),
    ],
)
def test_settings_out_of_range_are_named(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        summarise(scores(m=[1.0, 0.0]), **settings)


@pytest.mark.parametrize("value", [1 / 3, 0.1, 0.6309297535714575, 2 / 11, 0.0, 1.0])
def test_the_interval_of_equal_values_holds_their_mean_to_the_bit(value: float) -> None:
    """Sums in another order may differ in the last bit, and a figure refuses an interval that
    leaves out its mean.
    """
    for n in (2, 3, 7, 8, 10, 97):
        frame = pd.DataFrame(
            {"query_id": [f"q{i}" for i in range(n)], "measure": "P@3", "value": value}
        )
        row = summarise(frame).iloc[0]
        assert 0 <= row["ci_low"] <= row["mean"] <= row["ci_high"] <= 1


@pytest.mark.parametrize("values", [[0.0, 1.0], [1.0, 1.0, 0.0, 1.0]])
def test_values_of_0_and_1_have_wilsons_interval_from_two_on(values: list[float]) -> None:
    own = summarise(scores(m=values)).iloc[0]
    expected = binomtest(int(sum(values)), len(values)).proportion_ci(method="wilson")
    assert (own["ci_low"], own["ci_high"]) == pytest.approx((expected.low, expected.high))
