"""A verdict that a text made unreadable earns nothing: bounds of judged means, and comparisons that
hold whatever the missing verdicts would have been.
"""

import numpy as np
import pandas as pd
import pytest

from ragbench.statistics import compare_all
from ragbench.statistics.unreadable import bounds_of_mean, compare_readable, unreadable_note

MEASURE = "llm_correctness"
N = 100
IDS = [f"q{i:03}" for i in range(N)]


def scores(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"query_id": IDS, "measure": MEASURE, "value": values})


def verdicts(rate: float, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).random(N) < rate).astype(float)


def with_deleted_failures(values: np.ndarray, n: int) -> tuple[np.ndarray, set[str]]:
    """What an attacker does who makes the verdicts unreadable that would be bad ones."""
    deleted = np.flatnonzero(values == 0)[:n]
    changed = values.copy()
    changed[deleted] = np.nan
    return changed, {IDS[i] for i in deleted}


def decide(
    before: np.ndarray, after: np.ndarray, unreadable: dict[str, dict[str, set[str]]]
) -> pd.Series:
    table = compare_readable({"a": scores(before), "b": scores(after)}, "a", unreadable)
    return table.iloc[0]


def test_bounds_of_a_mean_are_with_all_missing_verdicts_as_0_and_as_1() -> None:
    values = np.r_[np.ones(60), np.zeros(30), np.full(10, np.nan)]
    missing = {MEASURE: set(IDS[90:])}
    assert bounds_of_mean(MEASURE, scores(values), missing) == (0.6, 0.7)
    assert bounds_of_mean(MEASURE, scores(values), {}) is None
    assert bounds_of_mean("llm_relevance", scores(values), {"llm_relevance": {"q001"}}) is None


def test_an_unscored_answer_without_a_request_is_no_missing_verdict() -> None:
    values = np.r_[np.ones(60), np.zeros(30), np.full(10, np.nan)]  # 9 of the last 10 abstained
    assert bounds_of_mean(MEASURE, scores(values), {MEASURE: {IDS[90]}}) == (60 / 91, 61 / 91)


def test_deleted_bad_verdicts_win_no_comparison() -> None:
    same = verdicts(0.5, seed=1)
    cleaned, deleted = with_deleted_failures(same, 40)
    # an honest baseline that fails where the attacker does not, on other questions
    other = verdicts(0.5, seed=2)
    alone = compare_all({"a": scores(other), "b": scores(cleaned)}, "a").iloc[0]
    assert alone["decision"] == "better"
    row = decide(other, cleaned, {"b": {MEASURE: deleted}})
    assert row["decision"] == "undecided"
    assert row["ci_low"] < 0 < row["ci_high"]
    assert row["p_adjusted"] >= 0.05
    assert row["interval"].endswith(", worse bound")
    assert row["difference"] == alone["difference"]


def test_deleted_bad_verdicts_of_the_baseline_hide_no_improvement_and_show_no_loss() -> None:
    before, deleted = with_deleted_failures(verdicts(0.5, seed=3), 40)
    row = decide(before, verdicts(0.5, seed=4), {"a": {MEASURE: deleted}})
    assert row["decision"] == "undecided"


@pytest.mark.parametrize(
    ("before", "after", "decision"),
    [(np.zeros(N), np.ones(N), "better"), (np.ones(N), np.zeros(N), "worse")],
)
def test_a_decision_that_no_missing_verdict_can_change_stays(
    before: np.ndarray, after: np.ndarray, decision: str
) -> None:
    after = after.copy()
    after[:5] = np.nan
    row = decide(before, after, {"b": {MEASURE: set(IDS[:5])}})
    assert row["decision"] == decision
    assert row["p_adjusted"] < 0.05


def test_equal_fractions_change_nothing() -> None:
    before, after = verdicts(0.3, seed=5), verdicts(0.8, seed=6)
    before[:10] = after[:10] = np.nan
    missing = {MEASURE: set(IDS[:10])}
    plain = compare_all({"a": scores(before), "b": scores(after)}, "a")
    with_rule = compare_readable(
        {"a": scores(before), "b": scores(after)}, "a", {"a": missing, "b": missing}
    )
    pd.testing.assert_frame_equal(pd.DataFrame(with_rule), pd.DataFrame(plain))


def test_where_lower_is_better_the_worse_bound_is_the_other_one() -> None:
    values = verdicts(0.5, seed=7)
    lost = values.copy()
    ones = np.flatnonzero(values == 1)[:40]  # of this measure a 1 is a bad verdict
    lost[ones] = np.nan
    frames = {
        name: scores(column).assign(measure="overall_llm_hallucination")
        for name, column in (("a", verdicts(0.5, seed=8)), ("b", lost))
    }
    missing = {"b": {"overall_llm_hallucination": {IDS[i] for i in ones}}}
    assert compare_all(frames, "a")["decision"].tolist() == ["better"]
    assert compare_readable(frames, "a", missing)["decision"].tolist() == ["undecided"]


def test_the_note_names_the_fraction_of_each() -> None:
    cleaned, deleted = with_deleted_failures(verdicts(0.5, seed=1), 12)
    frames = {"a": scores(verdicts(0.5, seed=2)), "b": scores(cleaned)}
    note = unreadable_note(MEASURE, frames, {"b": {MEASURE: deleted}})
    assert note.startswith(
        "llm_correctness: the judge's verdict is missing for 0 of 100 answers of a, 12 of 100 of b"
    )
    assert unreadable_note(MEASURE, frames, {}) == ""
