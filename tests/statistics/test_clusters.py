"""Queries in groups, directions of measures, and what a comparison counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ragbench.errors import ComparisonError, ConfigError, DataError
from ragbench.statistics import compare, compare_all
from ragbench.statistics.intervals import Bounds, mean_intervals


def scores(values: object, measure: str = "RR") -> pd.DataFrame:
    return pd.DataFrame({"measure": measure, "value": values}).rename_axis("query_id").reset_index()


def grouped(
    groups: int, size: int, seed: int, *, shared: float = 0.3
) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """Differences that a whole group shares, of groups of one size or of 1 to 2 * size - 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, groups) if seed % 2 else np.full(groups, size)
    group = np.repeat(np.arange(groups), sizes)
    own = rng.normal(0, shared, groups)[group] + rng.normal(0, 0.1, len(group))
    return scores(np.full(len(group), 0.5)), scores(np.clip(0.5 + own, 0, 1)), pd.Series(group)


def test_one_query_per_group_equals_no_groups() -> None:
    before, after, _ = grouped(150, 1, 4)
    plain, alone = (
        compare(before, after),
        compare(before, after, cluster=pd.Series(range(len(before)))),
    )
    pd.testing.assert_frame_equal(plain, alone, rtol=1e-9)
    assert plain["n_clusters"].tolist() == [150]


def test_whole_groups_are_flipped() -> None:
    before, after, cluster = grouped(9, 3, 5)
    sums = (after["value"] - before["value"]).groupby(cluster).sum().to_numpy()
    theirs = scipy.stats.permutation_test(
        (sums, np.zeros(9)), lambda x, y, axis: np.sum(x - y, axis=axis), permutation_type="samples",
        vectorized=True, n_resamples=np.inf,
    )  # fmt: skip
    row = compare(before, after, cluster=cluster).iloc[0]
    assert row["p_sign_flip"] == pytest.approx(theirs.pvalue, abs=1e-12)


def test_groups_of_one_size_are_compared_by_their_means() -> None:
    before, after, cluster = grouped(40, 4, 6)
    means = (after["value"] - before["value"]).groupby(cluster).mean().to_numpy()
    expected = mean_intervals([means], [Bounds(-1, 1)], 0.05)
    row = compare(before, after, cluster=cluster).iloc[0]
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((expected.low[0], expected.high[0]))
    assert row[["n_clusters", "n", "interval"]].tolist() == [40, 160, "Gaffke"]


def test_the_bounds_of_groups_are_those_of_the_largest() -> None:
    """Sums over a mean size of 2; the group of 3 that was not seen may lose 3 / 2."""
    before, after = scores([0.0] * 6), scores([0.5] * 6)
    row = compare(before, after, cluster=pd.Series([0, 0, 0, 1, 2, 2])).iloc[0]
    expected = mean_intervals([np.array([0.75, 0.25, 0.5])], [Bounds(-1.5, 1.5)], 0.05)
    assert (row["ci_low"], row["p_value"]) == pytest.approx((expected.low[0], expected.p[0]))


def test_ignoring_groups_calls_chance_a_difference() -> None:
    """300 experiments without a true difference, 20 documents of 10 questions each."""
    rng = np.random.default_rng(0)
    shared = np.repeat(rng.normal(0, 0.15, (300, 20)), 10, axis=1)
    rows = pd.DataFrame(
        {"query_id": np.tile(np.arange(200), 300), "measure": np.repeat(np.arange(300), 200)}
    )
    before = rows.assign(value=0.5)
    after = rows.assign(value=(0.5 + shared + rng.normal(0, 0.05, shared.shape)).clip(0, 1).ravel())
    naive = compare(before, after, n_resamples=100)
    honest = compare(before, after, n_resamples=100, cluster=pd.Series(np.arange(200) // 10))
    assert (naive["p_value"] < 0.05).mean() > 0.3
    assert (honest["p_value"] < 0.05).mean() < 0.05
    assert ((honest["ci_low"] <= 0) & (honest["ci_high"] >= 0)).mean() > 0.95


def test_binary_values_in_groups_are_flipped_by_group() -> None:
    before, after = scores([0.0] * 6), scores([1.0] * 6)
    assert compare(before, after).iloc[0]["p_sign_flip"] == 2 / 2**6
    row = compare(before, after, cluster=pd.Series([0, 0, 1, 1, 2, 2])).iloc[0]
    assert (row["p_sign_flip"], row["n_clusters"]) == (2 / 2**3, 3)


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
    low, high = (
        scores([0.1, 0.2, 0.3], "ngram_redundancy"),
        scores([0.4, 0.5, 0.3], "ngram_redundancy"),
    )
    assert compare(high, low).iloc[0][["wins", "ties", "losses"]].tolist() == [2, 1, 0]
    slow = compare(
        scores([10.0, 20.0], "latency_total_ms"), scores([15.0, 25.0], "latency_total_ms")
    ).iloc[0]
    assert slow[["wins", "ties", "losses"]].tolist() == [0, 0, 2]
    assert slow["difference"] == 5.0


def test_the_number_of_tests_and_of_unpaired_queries_is_stated() -> None:
    frames = {
        name: pd.concat([scores([0.0, None, 1.0]), scores([1.0, 1.0, 0.0], "P@1")])
        for name in "abc"
    }
    table = compare_all(frames, "a")
    assert table["n_tests"].tolist() == [4] * 4
    assert table["n_unpaired"].tolist() == [1, 0, 1, 0]


def test_two_sweeps_with_no_query_in_common() -> None:
    one, other = scores([0.0, 1.0]), scores([0.0, 1.0]).assign(query_id=["x", "y"])
    with pytest.raises(
        ComparisonError, match=r"\(2 and 2, none in common\); only 'baseline' has 0, 1"
    ):
        compare(one, other)
