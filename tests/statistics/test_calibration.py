"""Prediction-powered inference: the authors' numbers, what it promises under a biased judge, what
it refuses.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.statistics import calibrate
from ragbench.types import Judgement


def judged(values: np.ndarray, criterion: str = "correctness") -> list[Judgement]:
    return [Judgement(f"q{i}", criterion, float(value)) for i, value in enumerate(values)]


def people(values: np.ndarray, which: range | list[int], **columns: str) -> pd.DataFrame:
    rows = [(f"q{i}", "correctness", float(values[i])) for i in which]
    return pd.DataFrame(rows, columns=["query_id", "criterion", "value"]).assign(**columns)


def simulated(
    rng: np.random.Generator, n: int, right: float, false_yes: float, false_no: float
) -> tuple[np.ndarray, np.ndarray]:
    """What people and a judge say, who errs so often on wrong and on right answers."""
    human = (rng.random(n) < right).astype(float)
    judge = np.where(human == 1, rng.random(n) >= false_no, rng.random(n) < false_yes).astype(float)
    return human, judge


def test_the_numbers_of_the_authors_package() -> None:
    # ppi-python 0.2.3: ppi_mean_pointestimate 0.51295618
    i = np.arange(120)
    judge = ((i * 37) % 101) / 100
    human = np.clip(np.round(judge + 0.3 * np.sin(i)), 0, 1)
    row = calibrate(judged(judge), people(human, range(30))).iloc[0]
    assert row["estimate"] == pytest.approx(0.51295618, abs=1e-8)
    assert 0 < row["weight"] < 1


def test_the_bias_of_the_judge_is_shown() -> None:
    rng = np.random.default_rng(0)
    human, judge = simulated(rng, 300, 0.6, 0.5, 0.0)
    row = calibrate(judged(judge), people(human, range(60))).iloc[0]
    assert row["judge_mean"] == pytest.approx(judge.mean())
    assert row["judge_bias"] == pytest.approx((judge[:60] - human[:60]).mean())
    assert row["labels_mean"] == pytest.approx(human[:60].mean())
    assert row["ci_low"] < 0.6 < row["ci_high"] < row["judge_mean"]
    assert (row["n_labelled"], row["n"]) == (60, 300)


def test_a_judge_without_information_changes_nothing() -> None:
    human = np.array([1.0, 0.0] * 30)
    row = calibrate(judged(np.ones(200)), people(human, range(60))).iloc[0]
    assert row["weight"] == 0
    assert (row["estimate"], row["ci_low"], row["ci_high"]) == (
        row["labels_mean"],
        row["labels_low"],
        row["labels_high"],
    )


def test_labels_alone_have_the_interval_of_agresti_and_coull_but_for_students_t() -> None:
    human = np.array([1.0] * 27 + [0.0] * 3)
    row = calibrate(judged(np.ones(30)), people(human, range(30))).iloc[0]
    middle = (27 + 2) / 34
    reach = 2.045 * (middle * (1 - middle) / 34) ** 0.5  # t of 29 degrees of freedom
    assert (row["ci_low"], row["ci_high"]) == pytest.approx(
        (middle - reach, min(1, middle + reach)), abs=1e-4
    )


def test_no_observed_error_is_not_certainty() -> None:
    human = np.tile([1.0, 0.0], 100)
    row = calibrate(judged(human), people(human, range(20))).iloc[0]
    assert row["estimate"] == 0.5
    assert row["ci_high"] - row["ci_low"] > 0.1


RUNS = 150  # simulations; each is a criterion of its own, so that one call does them all


@pytest.mark.parametrize("n", [15, 60])
def test_coverage_under_a_judge_that_is_far_too_kind(n: int) -> None:
    rng = np.random.default_rng(n)
    runs = [simulated(rng, 300, 0.7, 0.7, 0.02) for _ in range(RUNS)]
    verdicts = [one for r, (_, judge) in enumerate(runs) for one in judged(judge, f"run {r}")]
    labels = pd.concat(
        [people(human, range(n), criterion=f"run {r}") for r, (human, _) in enumerate(runs)]
    )
    rows = calibrate(verdicts, labels)
    held = (rows["ci_low"] <= 0.7) & (rows["ci_high"] >= 0.7)
    assert held.mean() > 0.92
    assert (rows["judge_mean"] > 0.8).all(), "its own mean is far off"


def test_narrower_than_labels_alone_with_a_good_judge_and_hardly_wider_with_a_bad_one() -> None:
    rng = np.random.default_rng(5)
    widths = {}
    for name, errs in (("good", 0.05), ("random", 0.5)):
        human, judge = simulated(rng, 1000, 0.6, errs, errs)
        row = calibrate(judged(judge), people(human, range(80))).iloc[0]
        widths[name] = (row["ci_high"] - row["ci_low"]) / (row["labels_high"] - row["labels_low"])
    assert widths["good"] < 0.75
    assert widths["random"] < 1.05


def test_few_labels_have_an_estimate_and_no_interval() -> None:
    human, judge = simulated(np.random.default_rng(1), 40, 0.5, 0.2, 0.2)
    row = calibrate(judged(judge), people(human, range(9))).iloc[0]
    assert pd.isna(row["ci_low"])
    assert not pd.isna(row["estimate"])
    assert "9 labels drawn at random are too few" in row["note"]


def test_informative_labels_are_left_out() -> None:
    human, judge = simulated(np.random.default_rng(1), 60, 0.5, 0.2, 0.2)
    drawn, picked = (
        people(human, range(20), picked="random"),
        people(human, range(20, 30), picked="informative"),
    )
    row = calibrate(judged(judge), pd.concat([drawn, picked])).iloc[0]
    assert row["n_labelled"] == 20
    assert "10 labels that were not drawn at random are left out" in row["note"]
    alone = calibrate(judged(judge), drawn).iloc[0]
    assert (row["estimate"], row["ci_low"]) == (alone["estimate"], alone["ci_low"])
    with pytest.raises(DataError, match="none drawn at random"):
        calibrate(judged(judge), picked)
    with pytest.warns(DataWarning, match="20 labels have no value in `picked`"):
        calibrate(judged(judge), pd.concat([drawn.drop(columns="picked"), picked]))


def test_unscored_answers_have_the_mean_of_the_others_and_several_people_their_mean() -> None:
    verdicts = [
        *judged(np.array([1.0, 0.0] * 10)),
        Judgement("lost", "correctness", None, state="unreadable"),
    ]
    labels = people(np.array([1.0, 0.0] * 10), range(10), annotator="ann")
    other = labels.assign(annotator="bob", value=0.0)
    row = calibrate(verdicts, pd.concat([labels, other])).iloc[0]
    assert (row["n"], row["judge_mean"]) == (21, 0.5)
    assert row["labels_mean"] == 0.25


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="alpha is 5"):
        calibrate(judged(np.ones(3)), people(np.ones(3), [0]), alpha=5)
    with pytest.raises(DataError, match="the judge scored none of 1"):
        calibrate(
            [Judgement("q0", "correctness", None, state="unreadable")], people(np.ones(1), [0])
        )


def test_one_answer_without_a_label_is_enough_for_an_interval() -> None:
    verdicts = np.arange(13) % 3 > 0
    row = calibrate(judged(verdicts), people(verdicts, range(12))).iloc[0]
    assert 0 <= row["ci_low"] < row["estimate"] < row["ci_high"] <= 1
