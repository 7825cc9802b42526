"""The experiments of the study of tests, what each test calls, and the rates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.statistics import mcnemar_p_value
from ragbench.studies import error_rates as study
from ragbench.studies.score_matrices import load_score_matrices

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("generator", study.GENERATORS)
def test_a_generator_has_the_mean_that_is_stated(generator: str) -> None:
    differences = study.draw_differences(generator, 200_000, np.random.default_rng(1))
    assert np.abs(differences).max() <= 1
    error = differences.std() / np.sqrt(len(differences))
    assert abs(differences.mean() - study.GENERATORS[generator]) < 4 * error


def test_tilted_questions_have_no_difference_and_as_little_change_as_that_allows() -> None:
    # two kinds of questions: w * .2 = (1 - w) * .1
    weights = study.tilted_weights(np.array([0.2, -0.1]))
    assert weights is not None
    assert weights == pytest.approx([1 / 3, 2 / 3])
    differences = np.array([0.5, 0.1, 0.0, -0.2, -1.0])
    weights = study.tilted_weights(differences)
    assert weights is not None
    assert weights.sum() == pytest.approx(1)
    assert weights @ differences == pytest.approx(0, abs=1e-9)
    slopes = np.diff(np.log(weights)) / np.diff(differences)  # a line, by exponential tilting
    assert slopes == pytest.approx(np.full(4, slopes[0]))
    assert study.tilted_weights(np.array([0.0, 0.3])) is None


def test_real_experiments_draw_the_scores_of_two_configurations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study, "N_GENERATED", 2)
    monkeypatch.setattr(study, "N_REAL", 3)
    rng = np.random.default_rng(0)
    scores = pd.DataFrame({"a": rng.random(60), "c": rng.random(60)})
    scores["b"] = scores["a"] + 0.06 + 0.01 * rng.random(60)
    drawn = list(study.experiments({"toy": scores}, 20, seed=4))
    again = list(study.experiments({"toy": scores}, 20, seed=4))
    assert len(drawn) == 2 * len(study.GENERATORS) + 6
    real = [experiment for experiment in drawn if experiment.scenario == "toy, difference"]
    assert [np.array_equal(*pair) for pair in zip(drawn[-1][2:], again[-1][2:], strict=True)] == [
        True,
        True,
    ]
    for experiment in real:
        assert abs(experiment.truth) >= 0.05
        assert len(experiment.before) == 20
        questions = set(zip(experiment.before, experiment.after, strict=True))
        pairs = {
            pair
            for first in scores
            for second in scores
            for pair in zip(scores[first], scores[second], strict=True)
        }
        assert questions <= pairs


def test_each_test_calls_what_is_plain_and_refuses_results_of_other_experiments() -> None:
    rng = np.random.default_rng(0)
    gain = 0.2 + 0.1 * rng.random(30)
    zero = np.zeros(30)
    drawn = [
        study.Experiment("gain", 0.25, zero, gain),
        study.Experiment("loss", -0.25, gain, zero),
        study.Experiment("nothing", 0.0, gain, gain),
    ]
    means = [gain.mean(), -gain.mean(), 0.0]
    theirs = pd.DataFrame({"difference": means})
    for tool in ("mlflow", "trulens"):
        theirs[f"{tool}_p"] = [0.001, 0.001, 1.0]
        theirs[f"{tool}_low"] = [0.1, -0.3, -0.1]
        theirs[f"{tool}_high"] = [0.3, -0.1, 0.1]
    called = study.call_tests(drawn, theirs)
    for column in study.TESTS.values():
        assert called[column].tolist() == [1, -1, 0], column
    with pytest.raises(DataError, match="belong to other experiments"):
        study.call_tests(drawn, theirs.assign(difference=0.1))


def test_rates_count_calls_by_the_side_of_the_truth() -> None:
    rows = [("symmetric", 0.0, 1), ("symmetric", 0.0, 0), ("symmetric", 0.0, -1)]
    rows += [("x, difference", 0.1, 1), ("y, difference", -0.1, 1), ("y, difference", -0.1, -1)]
    decisions = pd.DataFrame(rows, columns=["scenario", "truth", "student"]).assign(n=20)
    for column in study.TESTS.values():
        decisions[column] = decisions["student"]
    rates = study.compute_error_rates(decisions).set_index(["scenario", "test"]).to_dict("index")
    none = rates["symmetric", "Student's t"]
    assert none["called"] == pytest.approx(2 / 3)
    assert np.isnan(none["right"])
    real = rates["real scores, difference", "Student's t"]
    assert (real["right"], real["wrong"]) == pytest.approx((2 / 3, 1 / 3))
    assert real["experiments"] == 3


def test_what_other_tools_returned_belongs_to_these_experiments_and_their_tests() -> None:
    """TruLens' p is that of sign flips, MLflow's of 0/1 scores McNemar's."""
    kept = pd.read_parquet(ROOT / "notebooks" / "other_tests.parquet")
    matrices = load_score_matrices(ROOT / "results" / "chunking")
    assert set(kept["n"]) == set(study.SIZES)
    drawn = list(study.experiments(matrices, 20))
    theirs = kept[kept["n"] == 20].reset_index(drop=True)
    means = [(experiment.after - experiment.before).mean() for experiment in drawn]
    assert theirs["difference"].to_numpy() == pytest.approx(np.array(means))
    rng = np.random.default_rng(3)
    signs = rng.choice([-1.0, 1.0], size=(4000, 20))
    for number in range(0, len(drawn), 60):
        gains = drawn[number].after - drawn[number].before
        flipped = np.abs((signs * gains).mean(axis=1))
        p = (flipped >= abs(gains.mean()) - 1e-12).mean()
        if len(set(np.abs(gains).round(9))) > 15:  # without ties of rounded means
            assert theirs["trulens_p"][number] == pytest.approx(p, abs=0.04)
    for number, experiment in enumerate(drawn):
        if experiment.scenario == "right or wrong" and number % 20 == 0:
            gains = experiment.after - experiment.before
            p = mcnemar_p_value(int((gains < 0).sum()), int((gains > 0).sum()))
            assert theirs["mlflow_p"][number] == pytest.approx(p, abs=1e-6)


def test_the_committed_findings_are_those_of_the_committed_rates() -> None:
    [rates] = (ROOT / "results/study_tests").glob("*/rates.csv")
    notebook = rates.parent.with_suffix(".ipynb").read_text(encoding="utf-8")
    lines = study.error_rates_findings(pd.read_csv(rates))  # a warning would fail this test
    assert len(lines) == len(study.TESTS)
    for line in lines:
        assert json.dumps(f"- {line}")[1:-1] in notebook
