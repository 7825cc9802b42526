"""Intervals of means, against exact ones and published examples; interval, p-value and decision
agree.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_1samp

from ragbench.metrics.rates import wilson_interval
from ragbench.statistics import compare, intervals, summarise
from ragbench.statistics.columns import bounds_of
from ragbench.statistics.gaffke import critical_means, lower_limits, p_above, probability_below
from ragbench.statistics.intervals import Bounds, mean_intervals, safe_intervals


def fractions(right: int, n: int) -> np.ndarray:
    return np.array([1.0] * right + [0.0] * (n - right))


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_as_newcombe_1998_prints_it(right: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(right, n) == pytest.approx((low, high), abs=5e-5)


def test_a_rate_of_nothing_has_no_interval() -> None:
    assert all(map(math.isnan, wilson_interval(0, 0)))


def test_fractions_are_summarised_by_wilson() -> None:
    scores = pd.DataFrame(
        {"query_id": range(20), "measure": "Success@5", "value": fractions(20, 20)}
    )
    row = summarise(scores).iloc[0]
    assert (row["mean"], row["ci_high"]) == (1.0, 1.0)
    assert row["ci_low"] == pytest.approx(1 - 0.1611, abs=5e-5)


@pytest.mark.parametrize(
    ("right", "n"), [(0, 20), (1, 29), (15, 148), (150, 300), (4, 5), (20, 20)]
)
@pytest.mark.parametrize("alpha", [0.05, 1e-4])
def test_of_fractions_the_limits_are_those_of_clopper_and_pearson(
    right: int, n: int, alpha: float
) -> None:
    exact = binomtest(right, n).proportion_ci(1 - alpha, method="exact")
    found = mean_intervals([fractions(right, n)], [Bounds(0, 1)], alpha)
    for limit, other in ((found.low[0], exact.low), (found.high[0], exact.high)):
        assert limit == pytest.approx(other, abs=0.006 if alpha == 0.05 else 0.01)
    assert found.low[0] <= exact.low + 1e-5
    assert found.high[0] >= exact.high - 1e-5


@pytest.mark.parametrize(
    ("right", "n", "bound"), [(9, 10, 0.5), (3, 3, 0.4), (20, 30, 0.3), (1, 40, 0.001)]
)
def test_p_of_fractions_is_that_of_the_exact_test_or_a_little_larger(
    right: int, n: int, bound: float
) -> None:
    exact = binomtest(right, n, bound, alternative="greater").pvalue
    [p] = p_above([fractions(right, n)], [0.0], bound)
    assert exact <= p <= 1.08 * exact


def test_probabilities_against_simulated_weights() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_exponential((400_000, 7))
    points = np.array([-1.0, -0.3, 0.0, 0.1, 0.1, 0.4, 0.9])
    means = weights @ points / weights.sum(axis=1)
    for bound in (-0.4, -0.1, 0.0, 0.2, 0.5):
        assert probability_below(points[:, None], bound)[0] == pytest.approx(
            (means <= bound).mean(), abs=0.004
        )
    assert probability_below(points[:, None], -1.0)[0] == 0.0
    assert probability_below(points[:, None], 0.9)[0] == 1.0


def test_a_measure_without_bounds_has_students_t() -> None:
    rng = np.random.default_rng(1)
    before = pd.DataFrame(
        {"query_id": range(30), "measure": "latency_total_ms", "value": 100 * rng.random(30)}
    )
    after = before.assign(value=before["value"] + rng.normal(5, 10, 30))
    expected = ttest_1samp(after["value"] - before["value"], 0)
    row = compare(before, after).iloc[0]
    assert (row["interval"], row["p_value"]) == ("t", pytest.approx(expected.pvalue))
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(
        tuple(expected.confidence_interval(0.95))
    )


def test_ties_do_not_prove_equality() -> None:
    for measure in ("RR", "Success@1"):
        frame = pd.DataFrame(
            {"query_id": range(10), "measure": measure, "value": [0.0, 1.0, 1.0, 0.0, 1.0] * 2}
        )
        row = compare(frame, frame).iloc[0]
        # 1 - 0.05 ** (1 / 10): of ten questions none differs with a chance of 0.05 if this
        # fraction does
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((-0.259, 0.259), abs=0.01)
        assert row[["interval", "p_value", "decision"]].tolist() == ["Gaffke", 1.0, "undecided"]


def test_the_same_small_gain_on_every_question_proves_nothing_where_a_question_may_lose_all() -> (
    None
):
    frame = pd.DataFrame({"query_id": range(20), "measure": "RR", "value": 0.5})
    row = compare(frame, frame.assign(value=0.55)).iloc[0]
    assert row["decision"] == "likely better"
    assert row["loss_rate_to_overturn"] == pytest.approx(0.05)
    large = compare(frame.assign(value=0.0), frame.assign(value=0.9)).iloc[0]
    assert large["decision"] == "better"


def test_rare_losses_are_no_reason_to_call_small_gains_better() -> None:
    """Gain .05 on 10 of 11 questions, loss .5 on the others: of samples of 12 a third have no such
    loss.
    """
    before = pd.DataFrame({"query_id": range(12), "measure": "nDCG@10", "value": 0.5})
    row = compare(before, before.assign(value=0.55)).iloc[0]
    assert row["decision"] == "likely better"


def test_without_bounds_equal_values_have_no_interval() -> None:
    found = mean_intervals([np.full(9, 3.0)], [Bounds(-math.inf, math.inf)], 0.05)
    assert np.isnan([found.low[0], found.high[0]]).all()
    assert found.method == ["none"]
    slow = pd.DataFrame({"query_id": range(9), "measure": "latency_total_ms", "value": 30.0})
    assert compare(slow, slow).iloc[0]["ci_low"] is pd.NA


VALUES = st.one_of(
    st.lists(st.floats(-1, 1), min_size=2, max_size=12),
    st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=2, max_size=30),
)


@settings(max_examples=100, deadline=None)
@given(VALUES, st.floats(0.001, 0.25), st.sampled_from(["RR", "latency_total_ms"]))
def test_interval_p_and_decision_agree_for_every_alpha(
    values: list[float], alpha: float, measure: str
) -> None:
    before = pd.DataFrame(
        {
            "query_id": range(len(values)),
            "measure": measure,
            "value": [max(-v, 0.0) for v in values],
        }
    )
    after = before.assign(value=[max(v, 0.0) for v in values])
    row = compare(before, after, alpha=alpha).iloc[0]
    if row["interval"] == "none":
        return
    assert row["ci_low"] <= row["difference"] + 1e-12
    assert row["difference"] - 1e-12 <= row["ci_high"]
    assert measure != "RR" or (row["ci_low"] >= -1 and row["ci_high"] <= 1)
    if abs(row["p_value"] - alpha) > 1e-6:
        outside = row["ci_low"] > 0 or row["ci_high"] < 0
        assert (row["p_value"] < alpha) == outside
        assert (row["decision"] in ("better", "worse")) == (outside and len(values) >= 10)


def test_repeated_and_permuted_values_have_the_same_interval() -> None:
    values = np.random.default_rng(3).normal(0, 0.2, 25)
    one, other = (lower_limits([order], [-1.0], 0.025)[0] for order in (values, values[::-1]))
    assert one == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("n", [8, 30, 300, 2000])
def test_the_critical_mean_is_that_at_which_the_limit_of_normal_values_is_0(n: int) -> None:
    rng = np.random.default_rng(n)
    ranges, means = critical_means(n, 0.025)
    assert ranges[0] < 1.2, "a measure from 0 to 1 with the largest deviation that it can have"
    assert ranges[-1] > 1000
    limits = []
    for _ in range(60):
        values = rng.normal(0, 0.2, n)
        values = 0.2 * (values - values.mean()) / values.std(ddof=1) + 0.2 * np.interp(
            5.0, ranges, means
        )
        limits.append(lower_limits([values], [-1.0], 0.025)[0])
    assert np.mean(limits) == pytest.approx(0.0, abs=0.2 * np.interp(5.0, ranges, means) * 0.06)


def test_the_method_of_the_interval_is_reported() -> None:
    rng = np.random.default_rng(0)

    def frame(n: int, **columns: np.ndarray) -> pd.DataFrame:
        return pd.concat(
            pd.DataFrame({"query_id": range(n), "measure": name, "value": values})
            for name, values in columns.items()
        )

    both, other = rng.permutation([fractions(60, 120), fractions(60, 120)[::-1]], axis=1)
    table = compare(
        frame(120, graded=rng.random(120), gains=fractions(60, 120), both=both),
        frame(120, graded=rng.random(120), gains=fractions(90, 120), both=other),
    ).set_index("measure")
    assert table["interval"].to_dict() == {"graded": "Gaffke", "gains": "Gaffke", "both": "score"}


@pytest.mark.parametrize(
    ("value", "is_bounded"), [(-0.01, False), (0, True), (1, True), (1.01, False)]
)
def test_values_beyond_the_bounds_of_a_measure_have_none(value: float, is_bounded: bool) -> None:
    bounds = bounds_of("nDCG@10", np.array([0.5, value]))
    assert bounds == ((0, 1) if is_bounded else (-math.inf, math.inf))


def test_the_search_for_a_pole_ends_where_55_halvings_do() -> None:
    """The numbers are those of bisection: of differences, of few losses, of none, of nearly none."""
    rng = np.random.default_rng(0)
    columns = [
        np.clip(rng.normal(0.05, 0.3, 97), -1, 1),
        (rng.random(40) < 0.9).astype(float),
        np.zeros(30),
        np.append(np.zeros(29), 1e-6),
    ]
    limits = mean_intervals(columns, [Bounds(-1, 1)] * 4, 0.05)
    assert limits.low == pytest.approx(
        [0.0135633982692982, 0.6758678950889929, -0.11604673528239506, -0.11604670581730248],
        rel=1e-12,
        abs=1e-13,
    )
    assert limits.high == pytest.approx(
        [0.15396146511116005, 0.9581441794306106, 0.11604673528239506, 0.11604676474751874],
        rel=1e-12,
        abs=1e-13,
    )
    assert limits.p == pytest.approx(
        [0.017880456278030712, 6.096257554945567e-11, 1.0, 1.0], rel=1e-11
    )


@pytest.mark.parametrize("n", [12, 30, 200, 1000])
def test_limits_that_are_not_searched_are_the_searched_ones(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(n)
    columns = []
    for spread in (0.0, 0.01, 0.1, 0.3):
        for shift in (-0.4, -0.02, 0.0, 0.02, 0.4):
            columns.append(np.clip(rng.normal(shift, spread, n), -1, 1))
            rare_loss = rng.random(n) < 0.02
            columns.append(np.where(rare_loss, -1.0, columns[-1]))
    widths = [1.0] * len(columns)
    fast = safe_intervals(columns, widths, 0.05)
    all_searched = np.ones(len(columns), dtype=bool)
    monkeypatch.setattr(intervals, "needs_search", lambda *_, **__: all_searched)
    searched = safe_intervals(columns, widths, 0.05)
    assert fast.low == pytest.approx(searched.low, rel=1e-12, abs=1e-13)
    assert fast.high == pytest.approx(searched.high, rel=1e-12, abs=1e-13)
    assert fast.p == pytest.approx(searched.p, rel=1e-12, abs=1e-13)


def test_most_limits_of_many_questions_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    columns = list(np.clip(rng.normal(0.01, 0.2, (40, 500)), -1, 1))
    n_searched = []
    searched = lower_limits

    def counted(columns: list[np.ndarray], *args: object, **kwargs: object) -> np.ndarray:
        n_searched.append(len(columns))
        return searched(columns, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(intervals, "lower_limits", counted)
    safe_intervals(columns, [1.0] * 40, 0.05)
    assert sum(n_searched) <= 10
