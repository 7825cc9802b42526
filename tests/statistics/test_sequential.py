"""Looking after every batch: false alarms stay below alpha, real effects end it early."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ragbench.errors import ComparisonError, ConfigError, DataError
from ragbench.statistics import compare_until, query_order, sequential
from ragbench.statistics.sequential import _path, log_capital


def scores(values: object, measure: str = "RR") -> pd.DataFrame:
    frame = pd.DataFrame({"measure": measure, "value": values}).rename_axis("query_id").reset_index()
    return frame.assign(query_id=frame["query_id"].map("q{}".format))


def test_capital_by_hand() -> None:
    """The bets of Waudby-Smith & Ramdas (2024), equations 24 to 26, for the values 1, 1 against a mean of 1/2."""
    first = min(math.sqrt(2 * math.log(40) / (0.25 * 1 * math.log(2))), 1.0)  # half of what could be lost
    after_one = (0.5 + 1) / 2
    spread = (0.25 + (1 - after_one) ** 2) / 2
    second = min(math.sqrt(2 * math.log(40) / (spread * 2 * math.log(3))), 1.0)
    more = (1 + first / 2) * (1 + second / 2)
    less = (1 - first / 2) * (1 - second / 2)
    capital = log_capital(np.array([[1.0], [1.0]]), np.array([[0.5]]), 0.05)
    assert capital[-1, 0] == pytest.approx(math.log((more + less) / 2))


def test_peeking_keeps_the_error_rate() -> None:
    """1,000 experiments without a difference, a look after each of 300 pairs; a t-test at each look fools itself."""
    rng = np.random.default_rng(0)
    differences = rng.choice([-1.0, -0.5, 0.0, 0.0, 0.0, 0.5, 1.0], (300, 1000))
    capital = log_capital((differences + 1) / 2, np.array([[0.5]]), 0.05)
    ever = (capital.max(axis=0) >= math.log(20)).mean()
    looks = np.arange(10, 301, 10)
    fooled = np.zeros(1000, dtype=bool)
    for n in looks:
        fooled |= scipy.stats.ttest_1samp(differences[:n], 0).pvalue < 0.05
    assert ever <= 0.05
    assert fooled.mean() > 0.2


def test_the_interval_never_loses_the_truth() -> None:
    rng = np.random.default_rng(1)
    lost = 0
    for _ in range(100):
        path = sequential(scores(np.zeros(150)), scores(rng.beta(0.5, 1.5, 150)), measure="RR", batch=10)
        lost += bool(((path["ci_low"] > 0.25) | (path["ci_high"] < 0.25)).any())
    assert lost <= 10  # at most 5 expected


def test_a_real_difference_ends_it_early() -> None:
    """A gain of 0.15 with a spread of 0.3: half of the experiments are settled within 150 of 400 queries."""
    rng = np.random.default_rng(2)
    differences = np.clip(rng.normal(0.15, 0.3, (400, 300)), -1, 1)
    capital = log_capital((differences + 1) / 2, np.array([[0.5]]), 0.05)
    reached = capital >= math.log(20)
    settled = np.where(reached.any(axis=0), reached.argmax(axis=0), 400)
    assert np.median(settled) < 150
    assert reached.any(axis=0).mean() > 0.95


def test_path() -> None:
    rng = np.random.default_rng(3)
    before, after = scores(np.zeros(50)), scores(rng.choice([0.0, 1.0], 50, p=[0.2, 0.8]))
    path = sequential(before, after, measure="RR", batch=20)
    assert path["n"].tolist() == [20, 40, 50]
    assert path["ci_low"].is_monotonic_increasing
    assert path["ci_high"].is_monotonic_decreasing
    assert path["p_value"].is_monotonic_decreasing
    assert path["difference"].iloc[-1] == pytest.approx(after["value"].mean())
    assert path["decision"].iloc[-1] == "higher"
    back = sequential(after, before, measure="RR", batch=20)
    assert back["decision"].iloc[-1] == "lower"
    assert back["ci_high"].tolist() == pytest.approx([-low for low in path["ci_low"]])
    assert back["p_value"].tolist() == pytest.approx(path["p_value"].tolist())


def test_p_and_interval_agree() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        path = sequential(scores(np.zeros(60)), scores(rng.beta(1, 9, 60)), measure="RR", batch=3)
        clear = path[(path["ci_low"] > 0) | (path["ci_high"] < 0)]
        assert (clear["p_value"] <= 0.05).all()
        assert (path.loc[path["p_value"] <= 0.04, "ci_low"] >= 0).all()


def test_the_scale_of_the_bounds_does_not_matter() -> None:
    before, after = scores([1.0, 2.0, 5.0] * 20), scores([3.0, 5.0, 4.0] * 20)
    plain = sequential(before, after, measure="RR", bounds=(1.0, 5.0))
    scaled = sequential(
        before.assign(value=(before["value"] - 1) / 4), after.assign(value=(after["value"] - 1) / 4), measure="RR"
    )
    assert plain["p_value"].tolist() == pytest.approx(scaled["p_value"].tolist())
    assert plain["ci_low"].tolist() == pytest.approx((4 * scaled["ci_low"]).tolist())


def test_the_order_is_random_and_fixed_by_the_seed() -> None:
    ids = [f"q{i}" for i in range(100)]
    order = query_order(ids, 7)
    assert order == sorted(ids, key=lambda q: hashlib.sha256(f"7\0{q}".encode()).digest())
    assert order != query_order(ids, 8)
    some = ids[::3]
    assert query_order(some, 7) == [q for q in order if q in set(some)]
    before, after = scores(np.linspace(0, 1, 40)), scores(np.linspace(1, 0, 40))
    shuffled = after.sample(frac=1, random_state=0)
    pd.testing.assert_frame_equal(
        sequential(before, after, measure="RR", batch=7), sequential(before, shuffled, measure="RR", batch=7)
    )


def test_a_loop_pays_for_no_more_than_it_needs() -> None:
    asked: list[str] = []
    truth = np.random.default_rng(5).choice([0.0, 1.0], 300, p=[0.3, 0.7])

    def score(ids: object) -> tuple[pd.DataFrame, pd.DataFrame]:
        assert isinstance(ids, list)
        asked.extend(ids)
        frame = pd.DataFrame({"query_id": ids, "measure": "RR"})
        return frame.assign(value=0.0), frame.assign(value=[truth[int(i)] for i in ids])

    path = compare_until(score, map(str, range(300)), measure="RR", batch=10)
    assert path["decision"].tolist()[:-1] == ["continue"] * (len(path) - 1)
    assert path["decision"].iloc[-1] == "higher"
    assert asked == query_order(map(str, range(300)))[: len(asked)]
    assert len(asked) == path["n"].iloc[-1] < 60


def test_a_loop_ends_with_the_queries() -> None:
    def score(ids: object) -> tuple[pd.DataFrame, pd.DataFrame]:
        frame = pd.DataFrame({"query_id": ids, "measure": "RR", "value": 0.5})
        return frame, frame

    path = compare_until(score, ["a", "b", "c"], measure="RR", batch=2)
    assert path["n"].tolist() == [2, 3]
    assert path["decision"].tolist() == ["continue", "continue"]
    with pytest.raises(ConfigError, match="no queries"):
        compare_until(score, [], measure="RR")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch": 0}, ConfigError, "batch is 0"),
        ({"bounds": (1.0, 0.0)}, ConfigError, "bounds is"),
        ({"bounds": (0.0, 0.6)}, DataError, "a value of 1 lies beyond"),
        ({"measure": "R"}, ConfigError, "unknown measure 'R'"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sequential(scores([0.0, 1.0]), scores([0.5, 0.5]), **{"measure": "RR", **options})  # type: ignore[arg-type]


def test_nothing_to_compare() -> None:
    with pytest.raises(DataError, match="no query that both have scored"):
        sequential(scores([None, 1.0]), scores([1.0, None]), measure="RR")
    with pytest.raises(ComparisonError, match="same queries"):
        sequential(scores([1.0]), scores([1.0, 0.0]), measure="RR")


def test_a_decision_stays_on_the_side_where_it_was_made() -> None:
    """Values in an order that is not random, first gains and then losses, contradict the interval, not each other."""
    path = _path(np.array([0.5] * 60 + [-0.5] * 140), 20, 0.05, 1.0)
    assert path["difference"].iloc[-1] < 0 < path["ci_low"].iloc[-1]
    assert set(path["decision"]) == {"higher"}
