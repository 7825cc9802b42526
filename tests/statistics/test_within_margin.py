"""The cheapest within a margin: statsmodels, error rates, and what is never
claimed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

from ragbench.errors import ComparisonError, ConfigError
from ragbench.statistics import within_margin
from ragbench.statistics.choice import prove_within_margin
from ragbench.statistics.gaffke import p_above


def scores(values: object, measure: str = "RR") -> pd.DataFrame:
    return pd.DataFrame({"measure": measure, "value": values}).rename_axis("query_id").reset_index()


def test_identical_configurations_on_six_questions_are_not_proven_equal() -> None:
    frames = {name: scores([0.0, 0.5, 1.0, 1.0, 0.25, 1.0]) for name in "abcd"}
    found = within_margin(frames, dict.fromkeys(frames, 1.0), 0.02, measure="RR")
    assert found.chosen is None
    assert not found.table["proven"].any()
    assert found.sentence.endswith("fewer than 217 queries cannot prove a margin of 0.02.")


@pytest.mark.parametrize(("lost", "n"), [(0, 58), (0, 59), (1, 92), (1, 93)])
def test_for_0_and_1_the_proof_is_that_of_the_exact_binomial_test(lost: int, n: int) -> None:
    frames = {"dear": scores([1.0] * n), "cheap": scores([0.0] * lost + [1.0] * (n - lost))}
    table = within_margin(frames, {"dear": 9.0, "cheap": 1.0}, 0.05, measure="RR").table
    exact = binomtest(lost, n, 0.05, alternative="less").pvalue
    assert table.set_index("name").loc["cheap", "p_value"] == pytest.approx(exact, rel=0.02)


def three() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(3)
    good = 0.2 + 0.6 * rng.random(200)
    return {
        "dear": scores(good),
        "cheap": scores(good + rng.normal(-0.005, 0.05, 200)),
        "bad": scores(good * 0.5),
    }


def test_the_cheapest_that_is_proven_is_chosen_and_not_the_cheapest() -> None:
    found = within_margin(three(), {"dear": 10.0, "cheap": 1.0, "bad": 0.1}, 0.06, measure="RR")
    assert found.chosen == "cheap"
    assert found.table["name"].tolist() == ["bad", "cheap", "dear"]
    assert found.table["proven"].tolist() == [False, True, True]
    assert (
        "The cheapest of 3 configurations proven to be within 0.06 of the best by RR is cheap"
        in found.sentence
    )
    expected = multipletests(found.table["p_value"].to_numpy(dtype=float), method="holm")[1]
    assert found.table["p_adjusted"].tolist() == pytest.approx(expected.tolist())


def test_p_is_that_against_the_strongest_rival() -> None:
    frames = three()
    found = within_margin(frames, dict.fromkeys(frames, 1.0), 0.06, measure="RR")
    values = {name: frame["value"].to_numpy() for name, frame in frames.items()}
    rivals = p_above(
        [values["cheap"] - values[other] for other in ("dear", "bad")], [-1.0, -1.0], -0.06
    )
    own = found.table.set_index("name").loc["cheap", "p_value"]
    assert own == pytest.approx(max(rivals), rel=1e-9)


def test_no_proof_is_reported_and_is_not_equality() -> None:
    frames = {name: scores(np.random.default_rng(i).random(10)) for i, name in enumerate("abc")}
    found = within_margin(
        frames, {"a": 1.0, "b": 2.0, "c": 3.0}, 0.01, measure="RR", word="fastest"
    )
    assert found.chosen is None
    assert "That does not prove them worse" in found.sentence
    assert "significant" not in found.sentence


def test_an_unknown_cost_is_compared_with_and_not_chosen() -> None:
    frames = three()
    found = within_margin(frames, {"dear": 10.0, "cheap": None, "bad": 0.1}, 0.06, measure="RR")  # type: ignore[dict-item]
    assert found.chosen == "dear"
    assert found.table["name"].iloc[-1] == "cheap"
    with pytest.raises(ConfigError, match="costs has no entry for 'bad'"):
        within_margin(frames, {"dear": 1.0, "cheap": 1.0}, 0.06, measure="RR")


def test_lower_is_better_turns_best_around() -> None:
    rng = np.random.default_rng(4)
    frames = {
        "slow": scores(rng.normal(30, 1, 50), "latency_total_ms"),
        "fast": scores(rng.normal(10, 1, 50), "latency_total_ms"),
    }
    found = within_margin(frames, {"slow": 1.0, "fast": 2.0}, 2.0, measure="latency_total_ms")
    assert (found.best, found.chosen) == ("fast", "fast")


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="1 configurations; this needs"):
        within_margin({"a": scores([1.0])}, {"a": 1.0}, 0.1, measure="RR")
    frames = {"a": scores([1.0, None]), "b": scores([None, 1.0])}
    with pytest.raises(ComparisonError, match="no query that all 2 configurations have scored"):
        within_margin(frames, {"a": 1.0, "b": 1.0}, 0.1, measure="RR")
    with pytest.raises(ConfigError, match="unknown measure 'R'"):
        within_margin(
            {"a": scores([1.0]), "b": scores([1.0])}, {"a": 1.0, "b": 1.0}, 0.1, measure="R"
        )


@pytest.mark.parametrize(
    "kind", ["alike", "spread", "binary", "rare losses", "copies", "no bounds"]
)
@pytest.mark.parametrize("margin", [0.02, 0.1, 1.0])
def test_the_largest_p_is_that_of_all_pairs(kind: str, margin: float) -> None:
    rng = np.random.default_rng(0)
    n, arms = 60, 12
    base = rng.random((n, 1))
    values = {
        "alike": np.clip(base + rng.normal(0, 0.2, (n, arms)), 0, 1),
        "spread": np.clip(base + rng.normal(0, 0.2, (n, arms)) + rng.normal(0, 0.05, arms), 0, 1),
        "binary": (rng.random((n, arms)) < 0.6 + 0.1 * rng.normal(size=arms)).astype(float),
        "rare losses": np.where(rng.random((n, arms)) < 0.03, 0, 0.9 * base),
        "copies": np.repeat(base, arms, axis=1),
        "no bounds": rng.normal(0, 1, (n, arms // 2)).repeat(2, axis=1),
    }[kind]
    measure, width = ("latency_total_ms", np.inf) if kind == "no bounds" else ("RR", 1.0)
    if kind == "no bounds":
        values = 10 - values  # a lower latency is better
    frames = {str(arm): scores(values[:, arm], measure) for arm in range(arms)}
    found = within_margin(frames, dict.fromkeys(frames, 1.0), margin, measure=measure)
    p_values = found.table.set_index("name")["p_value"].astype(float)
    better = -values if kind == "no bounds" else values
    for arm in range(arms):
        rivals = [better[:, arm] - better[:, other] for other in range(arms) if other != arm]
        largest = p_above(rivals, [-width] * len(rivals), -margin).max()
        if 1e-6 < largest < 0.5:
            assert p_values[str(arm)] == pytest.approx(largest, rel=1e-9)
        else:
            assert (p_values[str(arm)] < 0.5) == (largest < 0.5)
            assert (p_values[str(arm)] <= 1e-6) == (largest <= 1e-6)


def test_few_of_the_pairs_of_many_configurations_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    n, arms = 200, 100
    values = np.clip(rng.random((n, 1)) + rng.normal(0, 0.2, (n, arms)), 0, 1)
    values *= np.linspace(0.7, 1, arms)
    frames = {str(arm): scores(values[:, arm]) for arm in range(arms)}
    searched = []

    def counted(columns: list[Any], unseen: list[float], bound: float) -> Any:
        searched.append(len(columns))
        return p_above(columns, unseen, bound)

    monkeypatch.setattr("ragbench.statistics.choice.p_above", counted)
    within_margin(frames, dict.fromkeys(frames, 1.0), 0.02, measure="RR")
    assert sum(searched) < 3 * arms  # of 9,900 pairs


def test_one_proof_serves_every_cost() -> None:
    frames = three()
    proof = prove_within_margin(frames, 0.06, measure="RR")
    for costs in (
        {"dear": 10.0, "cheap": 1.0, "bad": 0.1},
        {"dear": 1.0, "cheap": 10.0, "bad": float("nan")},
    ):
        alone = within_margin(frames, costs, 0.06, measure="RR", word="fastest")
        shared = proof.cheapest(costs, "fastest")
        assert (shared.chosen, shared.sentence) == (alone.chosen, alone.sentence)
        pd.testing.assert_frame_equal(shared.table, alone.table)
