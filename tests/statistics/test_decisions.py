"""The column `decision`: each value, its order of precedence, its sign, and Holm's family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.statistics import compare, compare_all
from ragbench.statistics.comparison import DECISIONS


def scores(values: Any, measure: str = "RR") -> pd.DataFrame:
    return pd.DataFrame({"query_id": range(len(values)), "measure": measure, "value": values})


def base(n: int) -> np.ndarray:
    return np.full(n, 0.3)


GAINS = {
    "not possible": np.full(9, 0.6),
    "better": np.full(30, 0.6),
    "worse": np.full(30, -0.2),
    "within the margin": np.zeros(160),
    "likely better": np.full(30, 0.05),
    "likely worse": np.full(30, -0.05),
    "undecided": np.tile([0.2, -0.2], 15),
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_each_decision(decision: str) -> None:
    change = GAINS[decision]
    row = compare(scores(base(len(change))), scores(base(len(change)) + change)).iloc[0]
    assert row["decision"] == decision
    assert (row["reason"] != "") == (decision == "not possible")
    assert (row["n_to_decide"] is not pd.NA) == (decision == "undecided")
    assert (row["loss_rate_to_overturn"] is not pd.NA) == decision.startswith("likely")


@pytest.mark.parametrize("decision", ["better", "worse", "likely better", "likely worse"])
def test_the_sign_follows_the_direction_of_the_measure(decision: str) -> None:
    change = GAINS[decision]
    before = scores(base(len(change)), "ngram_redundancy")
    after = before.assign(value=before["value"] + change)
    swapped = {"better": "worse", "worse": "better"}
    tier, _, sign = decision.rpartition(" ")
    expected = f"{tier} {swapped[sign]}".strip()
    assert compare(before, after)["decision"].tolist() == [expected]


@pytest.mark.parametrize(
    ("change", "decision"),
    [
        (np.full(60, 0.052), "better"),  # a kind of question that 60 miss with 5 % is 4.9 % of all
        (np.full(60, 0.045), "likely better"),
        (np.where(np.arange(40) % 2, 0.18, -0.02), "better"),
        (np.where(np.arange(40) % 2, 0.16, -0.04), "likely better"),
        (np.where(np.arange(100) % 2, 0.365, -0.235), "better"),
    ],
    ids=["rule of three", "below it", "half a weight", "below half", "whole weight"],
)
def test_a_small_gain_is_better_as_far_as_unseen_losses_allow(change: Any, decision: str) -> None:
    for sign, name in ((1, decision), (-1, decision.replace("better", "worse"))):
        before = np.full(len(change), 0.5)
        row = compare(scores(before), scores(before + sign * change)).iloc[0]
        assert row["decision"] == name
        limit = row["ci_low"] if sign > 0 else -row["ci_high"]
        assert (limit > 0) == (decision == "better")


def test_an_interval_that_excludes_0_is_better_although_it_lies_inside_the_margin() -> None:
    before = scores(base(3000))
    row = compare(before, before.assign(value=0.31)).iloc[0]
    assert (row["decision"], row["ci_high"] < 0.02) == ("better", True)


def test_an_interval_inside_the_margin_comes_before_a_likely_difference() -> None:
    change = np.tile([0.006, 0.0], 200)
    row = compare(scores(base(400)), scores(base(400) + change)).iloc[0]
    assert row["p_likely_adjusted"] < 0.05 < row["p_adjusted"]
    assert row["decision"] == "within the margin"


def test_the_margin_is_a_fraction_of_the_range() -> None:
    same = scores(base(40))
    assert compare(same, same)["decision"].tolist() == ["undecided"]
    assert compare(same, same, margin=0.08)["decision"].tolist() == ["within the margin"]
    assert compare(same, same, margin=0.07)["decision"].tolist() == ["undecided"]
    slow = scores(np.arange(40.0), "latency_total_ms")
    faster = slow.assign(value=slow["value"] + np.tile([1.0, -1.0], 20))
    assert compare(slow, faster, margin=0.9)["decision"].tolist() == ["undecided"], "no range"
    for margin in (-0.1, 1.0, "much"):
        with pytest.raises(ConfigError, match="fraction of the measure's range"):
            compare(same, same, margin=margin)  # type: ignore[arg-type]


def test_ten_questions_are_the_fewest() -> None:
    nine, ten = (compare(scores(base(n)), scores(base(n) + 0.7)).iloc[0] for n in (9, 10))
    assert (nine["decision"], ten["decision"]) == ("not possible", "better")
    assert (
        nine["reason"]
        == "only 9 independent questions were scored by both; a decision takes 10 or more"
    )
    assert nine["p_adjusted"] is pd.NA


def test_nothing_scored_by_both_is_not_possible() -> None:
    one, other = [0.5] * 12 + [None] * 12, [None] * 12 + [0.5] * 12
    row = compare(scores(one), scores(other)).iloc[0]
    assert (row["decision"], row["n"]) == ("not possible", 0)
    assert row["reason"].startswith("only 0 independent questions were scored by both")


def test_a_reason_of_the_caller_comes_before_everything() -> None:
    frames = {"a": scores(base(60)), "b": scores(base(60) + 0.6)}
    table = compare_all(frames, "a", not_possible="drafts alone")
    assert table[["decision", "reason"]].to_numpy().tolist() == [["not possible", "drafts alone"]]
    assert table["p_value"].iloc[0] < 0.001


def arms(n_arms: int, effect: float = 0.05) -> dict[str, pd.DataFrame]:
    """A baseline, an arm with a small difference in mean, and others without a difference."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(-0.3, 0.3, 60)
    change = 0.4 + effect + noise - noise.mean()
    others = {f"same{i}": scores(np.full(60, 0.4)) for i in range(n_arms - 1)}
    return {"base": scores(np.full(60, 0.4)), "arm": scores(change), **others}


def test_each_tier_counts_the_arms_and_no_measures() -> None:
    alone = compare_all(arms(1), "base").iloc[0]
    assert alone["p_likely"] < 0.05 < 2 * alone["p_likely"]
    assert alone["decision"] == "likely better"
    assert compare_all(arms(2), "base")["decision"].iloc[0] == "undecided"
    measures = {
        name: pd.concat([frame, frame.assign(measure="P@5"), frame.assign(measure="recall@5")])
        for name, frame in arms(1).items()
    }
    table = compare_all(measures, "base", measures=["RR", "P@5", "recall@5"])
    assert table["decision"].tolist() == ["likely better", "", ""]
    assert table["p_likely_adjusted"].iloc[0] == alone["p_likely"]


def test_dropped_arms_count_once_each_in_both_tiers() -> None:
    alone = compare_all(arms(1, 0.08), "base").iloc[0]
    raced = compare_all(arms(1, 0.08), "base", n_dropped=3).iloc[0]
    assert raced["p_adjusted"] == pytest.approx(4 * alone["p_value"])
    assert raced["p_likely_adjusted"] == pytest.approx(4 * alone["p_likely"])
    assert raced["n_tests"] == 4
    assert (alone["decision"], raced["decision"]) == ("better", "likely better")


def test_the_measure_that_a_leaderboard_ranks_by_decides_between_results() -> None:
    before = pd.concat([scores(base(30), name) for name in ("P@5", "nDCG@10", "token_f1")])
    after = before.assign(value=before["value"] + 0.5)
    table = rb.compare(before, after).set_index("measure")
    assert table["decision"].to_dict() == {"P@5": "", "nDCG@10": "better", "token_f1": ""}
    assert table["p_value"].notna().all()
    named = rb.compare(before, after, measures=["token_f1", "P@5"])
    assert named["decision"].tolist() == ["better", ""]


def test_answers_decide_between_results_that_retrieve_the_same() -> None:
    retrieved, answers = scores(base(30), "nDCG@10"), scores(base(30), "token_f1")
    table = rb.compare(
        pd.concat([retrieved, answers]),
        pd.concat([retrieved, answers.assign(value=0.9)]),
    )
    assert table["decision"].tolist() == ["", "better"]


def test_the_number_that_decides_is_enough_where_difference_and_deviation_stay() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.2, 40)
    before = np.full(40, 0.52)
    row = compare(scores(before), scores(before + 0.05 + noise - noise.mean())).iloc[0]
    assert row["decision"] == "undecided"
    n = row["n_to_decide"]
    deviation = np.std(noise, ddof=1)
    draws = rng.normal(0.05, deviation, (500, n))
    t_ratios = draws.mean(axis=1) / draws.std(axis=1, ddof=1) * np.sqrt(n)
    assert 0.75 < (t_ratios > 1.98).mean() < 0.85


def test_of_equal_results_as_many_decide_as_show_the_margin() -> None:
    same = scores(base(30))
    assert compare(same, same)["n_to_decide"].tolist() == [149]
    enough = scores(base(149))
    assert compare(enough, enough)["decision"].tolist() == ["within the margin"]
    fewer = scores(base(148))
    assert compare(fewer, fewer)["decision"].tolist() == ["undecided"]
