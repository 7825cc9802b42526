"""Queries in groups, directions of measures, and what a comparison counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import statsmodels.api as sm

from ragbench.errors import ComparisonError, ConfigError, DataError
from ragbench.statistics import compare, compare_all
from ragbench.statistics.power import detectable


def scores(values: object, measure: str = "RR") -> pd.DataFrame:
    return pd.DataFrame({"measure": measure, "value": values}).rename_axis("query_id").reset_index()


def grouped(groups: int, size: int, seed: int, *, shared: float = 0.3) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """Differences that a whole group shares, of groups of one size or of 1 to 2 * size - 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, groups) if seed % 2 else np.full(groups, size)
    group = np.repeat(np.arange(groups), sizes)
    own = rng.normal(0, shared, groups)[group] + rng.normal(0, 0.1, len(group))
    before = rng.random(len(group))
    return scores(before), scores(before + own), pd.Series(group)


def test_one_query_per_group_equals_no_groups() -> None:
    before, after, _ = grouped(150, 1, 4)
    plain, alone = compare(before, after), compare(before, after, cluster=pd.Series(range(len(before))))
    pd.testing.assert_frame_equal(plain, alone, rtol=1e-9)
    assert plain["n_clusters"].tolist() == [150]


@pytest.mark.parametrize("seed", [2, 3])
def test_the_standard_error_is_the_sandwich(seed: int) -> None:
    before, after, cluster = grouped(30, 4, seed)
    row = compare(before, after, cluster=cluster).iloc[0]
    difference = after["value"] - before["value"]
    fit = sm.OLS(difference, np.ones(len(difference))).fit(cov_type="cluster", cov_kwds={"groups": cluster})
    assert row["n_clusters"] == 30
    assert row["n"] == len(before)
    assert row["mde"] == pytest.approx(detectable(float(fit.bse.iloc[0]) * np.sqrt(30), 30), rel=1e-9)


def test_whole_groups_are_flipped() -> None:
    before, after, cluster = grouped(9, 3, 5)
    sums = (after["value"] - before["value"]).groupby(cluster).sum().to_numpy()
    theirs = scipy.stats.permutation_test(
        (sums, np.zeros(9)), lambda x, y, axis: np.sum(x - y, axis=axis), permutation_type="samples",
        vectorized=True, n_resamples=np.inf,
    )  # fmt: skip
    row = compare(before, after, cluster=cluster).iloc[0]
    assert row["p_value"] == pytest.approx(theirs.pvalue, abs=1e-12)
    assert row["test"] == "sign-flip, exact"


@pytest.mark.parametrize("seed", [6, 7])
def test_whole_groups_are_drawn(seed: int) -> None:
    """BCa of a ratio of sums, against scipy's on the groups."""
    before, after, cluster = grouped(120, 3, seed)
    parts = (after["value"] - before["value"]).groupby(cluster).agg(["sum", "size"])
    theirs = scipy.stats.bootstrap(
        (parts["sum"].to_numpy(), parts["size"].to_numpy()),
        lambda total, size, axis: total.sum(axis=axis) / size.sum(axis=axis),
        paired=True, vectorized=True, n_resamples=20_000, rng=np.random.default_rng(1),
    )  # fmt: skip
    row = compare(before, after, cluster=cluster, n_resamples=20_000).iloc[0]
    assert row["interval"] == "BCa"
    limits = (theirs.confidence_interval.low, theirs.confidence_interval.high)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(limits, abs=0.12 * theirs.standard_error)


def test_ignoring_groups_calls_chance_a_difference() -> None:
    """300 experiments without a true difference, 20 documents of 10 questions each."""
    rng = np.random.default_rng(0)
    shared = np.repeat(rng.normal(0, 0.3, (300, 20)), 10, axis=1)
    rows = pd.DataFrame({"query_id": np.tile(np.arange(200), 300), "measure": np.repeat(np.arange(300), 200)})
    before = rows.assign(value=0.0)
    after = rows.assign(value=(shared + rng.normal(0, 0.1, shared.shape)).ravel())
    naive = compare(before, after, n_resamples=1000)
    honest = compare(before, after, n_resamples=1000, cluster=pd.Series(np.arange(200) // 10))
    assert (naive["p_value"] < 0.05).mean() > 0.3
    assert (honest["p_value"] < 0.05).mean() < 0.09  # 0.05 expected, 0.09 is three standard deviations off
    assert ((honest["ci_low"] <= 0) & (honest["ci_high"] >= 0)).mean() > 0.91


def test_binary_values_in_groups_are_flipped_by_group() -> None:
    before, after = scores([0.0] * 6), scores([1.0] * 6)
    assert compare(before, after).iloc[0]["p_value"] == 2 / 2**6
    row = compare(before, after, cluster=pd.Series([0, 0, 1, 1, 2, 2])).iloc[0]
    assert (row["p_value"], row["n_clusters"], row["test"]) == (2 / 2**3, 3, "sign-flip, exact")


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        ({0: "a", 1: "a"}, DataError, "1 of 3 queries have no group .2.; give each query one"),
        ({0: "a", 1: "a", 2: None}, DataError, "1 of 3 queries have no group"),
        (["a", "a", "b"], ConfigError, "cluster maps each query_id to its group .*not list"),
    ],
)
def test_groups_that_are_none(cluster: object, error: type[Exception], message: str) -> None:
    frame = scores([0.0, 0.5, 1.0])
    with pytest.raises(error, match=message):
        compare(frame, frame, cluster=cluster)  # type: ignore[arg-type]


def test_where_lower_is_better_the_lower_wins() -> None:
    low, high = scores([0.1, 0.2, 0.3], "ngram_redundancy"), scores([0.4, 0.5, 0.3], "ngram_redundancy")
    assert compare(high, low).iloc[0][["wins", "ties", "losses"]].tolist() == [2, 1, 0]
    slow = compare(scores([10.0, 20.0], "latency_total_ms"), scores([15.0, 25.0], "latency_total_ms")).iloc[0]
    assert slow[["wins", "ties", "losses"]].tolist() == [0, 0, 2]
    assert slow["difference"] == 5.0


def test_the_number_of_tests_and_of_unpaired_queries_is_stated() -> None:
    frames = {name: pd.concat([scores([0.0, None, 1.0]), scores([1.0, 1.0, 0.0], "P@1")]) for name in "abc"}
    table = compare_all(frames, "a")
    assert table["n_tests"].tolist() == [4] * 4
    assert table["n_unpaired"].tolist() == [1, 0, 1, 0]


def test_two_sweeps_with_no_query_in_common() -> None:
    one, other = scores([0.0, 1.0]), scores([0.0, 1.0]).assign(query_id=["x", "y"])
    with pytest.raises(ComparisonError, match=r"\(2 and 2, none in common\); only 'baseline' has 0, 1"):
        compare(one, other)
