"""calibrate_threshold: known thresholds, simulations, errors, and the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.metrics.score_calibration import Calibration, calibrate_threshold


def drawn(
    n: int, seed: int, *, center: float = 0.6, slope: float = 12.0, rate: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels of which the best threshold is `center`, for any rate of positive ones."""
    rng = np.random.default_rng(seed)
    spread = 0.15
    gap = (
        slope * spread**2
    )  # two normal distributions of equal spread give a logistic regression of this slope
    labels = rng.random(n) < rate
    return rng.normal(np.where(labels, center + gap / 2, center - gap / 2), spread), labels


def test_finds_the_threshold_and_probabilities() -> None:
    scores, labels = drawn(600, 1)
    found = calibrate_threshold(
        scores, labels, measure="claim_support", model="minilm", n_resamples=30
    )
    assert found.threshold == pytest.approx(0.6, abs=0.05)
    assert found.logistic == pytest.approx(0.6, abs=0.03)
    assert found.ci_low < 0.6 < found.ci_high
    assert found.probability(0.6) == pytest.approx(0.5, abs=0.05)
    assert found.probability(0.4) < 0.15 < 0.85 < found.probability(0.8)
    table = pd.DataFrame([asdict(row) for row in found.bins])
    assert table["n"].sum() == found.n == 600
    assert table["positive"].sum() == found.n_positive
    assert table["rate"].is_monotonic_increasing
    assert (table["ci_low"] < table["rate"]).all()


def test_the_threshold_does_not_depend_on_how_many_are_positive() -> None:
    scores, labels = drawn(3000, 2, rate=0.9)
    found = calibrate_threshold(scores, labels, n_resamples=20)
    assert found.threshold == pytest.approx(0.6, abs=0.06)
    assert found.logistic == pytest.approx(0.6, abs=0.03)
    assert found.probability(0.6) == pytest.approx(0.9, abs=0.03)


def test_perfect_separation_has_an_interval_and_no_warning() -> None:
    scores = np.linspace(0, 1, 40)
    found = calibrate_threshold(scores, scores > 0.495, n_resamples=100)
    assert found.threshold == pytest.approx(0.5, abs=0.03)
    assert found.ci_low < found.threshold < found.ci_high
    assert found.auc == 1.0
    assert found.auc_low < 1.0


def test_the_threshold_is_right_where_most_scores_are_near_the_end() -> None:
    """Few of either kind are low, but a logistic regression follows them."""
    rng = np.random.default_rng(4)
    wrong = np.where(rng.random(500) < 0.6, rng.beta(2, 3, 500), rng.beta(12, 2, 500))
    scores = np.r_[
        wrong, np.where(rng.random(500) < 0.85, rng.beta(40, 1, 500), rng.beta(4, 2, 500))
    ]
    labels = np.arange(1000) >= 500
    found = calibrate_threshold(scores, labels, n_resamples=60)
    assert found.threshold == pytest.approx(0.93, abs=0.03)
    assert found.logistic < 0.85
    assert found.ci_low <= found.logistic < found.threshold <= found.ci_high
    right = scores >= found.threshold
    assert (right[labels].mean() + (~right[~labels]).mean()) / 2 > 0.84


def test_the_best_threshold_by_hand() -> None:
    """From 0.3 on: all 18 right ones and 10 of 12 wrong ones on their side, 0.92; from 0.55 on
    0.78.
    """
    scores = [0.1] * 10 + [0.5] * 10 + [0.6] * 10
    labels = [0] * 12 + [1] * 18
    found = calibrate_threshold(scores, labels, n_resamples=50)
    assert found.threshold == pytest.approx(0.3, abs=0.04)
    assert [one.rate for one in found.bins] == [0.4, 1.0]


def test_many_equal_scores() -> None:
    scores = [0.0] * 20 + [1.0] * 20
    found = calibrate_threshold(scores, [0] * 18 + [1] * 4 + [1] * 16 + [0] * 2, n_resamples=50)
    assert 0 < found.threshold <= 1
    assert [one.n for one in found.bins] == [20, 20]


def test_the_same_labels_give_the_same_file(tmp_path: Path) -> None:
    scores, labels = drawn(50, 3)
    one, two = (
        calibrate_threshold(scores, labels, measure="claim_support", n_resamples=30)
        for _ in range(2)
    )
    file = one.save(tmp_path / "mine.json")
    assert Calibration.load(file) == one == two
    assert file.read_text() == two.save(tmp_path / "other.json").read_text()
    assert "claim_support: positive from" in str(one)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (
            [0.5] * 29,
            [True] * 15 + [False] * 14,
            "29 labels, 15 positive and 14 negative; expected at least 30",
        ),
        (np.linspace(0, 1, 40), [True] * 40, "40 positive and 0 negative"),
        (np.linspace(0, 1, 40), [True] * 37 + [False] * 3, "with 5 of each kind"),
        ([0.5] * 40, [True] * 39, "40 scores and 39 labels"),
        ([0.5] * 39 + [float("nan")], [True] * 40, "score 39 is nan"),
        (
            np.linspace(0, 1, 40),
            [0.75] + [1.0] * 39,
            r"label 0 is 0\.75; expected .* True or False",
        ),
        (["a"] * 40, [True] * 40, "scores must be numbers"),
        (np.linspace(0, 1, 40), [True, False] * 20, "does not separate these 40 labels: AUC 0.4"),
        (np.linspace(0, 1, 40), [True] * 20 + [False] * 20, "does not separate"),
        ([0.5] * 40, [True, False] * 20, "does not separate"),
    ],
)
def test_clear_errors(scores: list[float], labels: list[bool], message: str) -> None:
    with pytest.raises(DataError, match=message):
        calibrate_threshold(scores, labels)


def test_files_that_are_not_a_calibration(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    with pytest.raises(ConfigError, match="there is no file"):
        Calibration.load(file)
    for text, message in [
        ("{", "is not valid JSON"),
        ("[1]", "is not a calibration .*; expected a file that `ragbench label`"),
        ('{"measure": "x"}', "is not a calibration"),
        ('{"ragbench_calibration": 9}', "not a calibration of version 2"),
        ('{"ragbench_calibration": 2, "measure": "x"}', "is damaged: .*threshold Field required"),
    ]:
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            Calibration.load(file)
    good = json.loads(calibrate_threshold(*drawn(50, 3), n_resamples=30).save(file).read_text())
    file.write_text(json.dumps({**good, "ci_low": 2.0}))
    with pytest.raises(ConfigError, match="is damaged: the threshold is not in its interval"):
        Calibration.load(file)


def coverage(n: int, *, experiments: int, n_resamples: int, **shape: float) -> float:
    hits, done = 0, 0
    for seed in range(experiments):
        try:
            found = calibrate_threshold(*drawn(n, seed, **shape), n_resamples=n_resamples)
        except DataError:  # too few of a kind, or not separated: no threshold is given
            continue
        done += 1
        hits += found.ci_low <= shape.get("center", 0.6) <= found.ci_high
    assert done > experiments / 2
    return hits / done


def test_the_interval_covers_the_true_threshold() -> None:
    assert coverage(40, experiments=8, n_resamples=30) >= 0.75


@pytest.mark.simulation
@pytest.mark.parametrize("rate", [0.5, 0.8])
@pytest.mark.parametrize("n", [30, 60, 200])
def test_coverage_over_many_experiments(n: int, rate: float) -> None:
    found = coverage(n, experiments=150, n_resamples=100, rate=rate)
    print(
        f"n {n}, positive {rate:.0%}: the interval covers the true threshold in {found:.1%} of "
        "the experiments"
    )
    assert found >= 0.86  # 95 % promised; 150 experiments have a standard error of 0.02


def skewed(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores between 0 and 1, the right ones near 1."""
    rng = np.random.default_rng(seed)
    labels = rng.random(size) < 0.7
    return np.where(labels, rng.beta(8, 1, size), rng.beta(2, 2, size)), labels


def crowded(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Most scores of both kinds near 1, as those of claim_support are."""
    rng = np.random.default_rng(seed)
    labels, part = rng.random(size) < 0.7, rng.random(size)
    wrong = np.where(part < 0.6, rng.beta(2, 3, size), rng.beta(12, 2, size))
    return np.where(
        labels, np.where(part < 0.85, rng.beta(40, 1, size), rng.beta(4, 2, size)), wrong
    ), labels


@pytest.mark.simulation
@pytest.mark.parametrize("n", [30, 60, 200])
@pytest.mark.parametrize(("shape", "max_lost"), [(skewed, 0.025), (crowded, 0.05)])
def test_little_is_lost_where_the_regression_is_wrong(
    n: int, shape: Callable[[int, int], tuple[np.ndarray, np.ndarray]], max_lost: float
) -> None:
    """The balanced accuracy of the threshold, next to the best there is."""
    scores, labels = shape(200_000, 10**6)
    grid = np.linspace(0, 1, 201)
    accuracy = np.array(
        [((scores[labels] >= t).mean() + (scores[~labels] < t).mean()) / 2 for t in grid]
    )
    lost = []
    for seed in range(100):
        try:
            found = calibrate_threshold(*shape(n, seed), n_resamples=60)
        except DataError:
            continue
        lost.append(accuracy.max() - np.interp(found.threshold, grid, accuracy))
    print(
        f"{shape.__name__}, n {n}: best {accuracy.max():.3f}, {np.mean(lost):.4f} lost on average"
    )
    assert np.mean(lost) <= max_lost
