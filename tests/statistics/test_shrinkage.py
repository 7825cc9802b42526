"""The expected gain of the best of several configurations: its bias, and what it supposes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.statistics.shrinkage import expected_gain


def arms(n_arms: int, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Gains of configurations on n questions, and the true ones.

    As in the chunking study: the baseline and the others share most of what makes a question hard,
    those of one retriever more than those of two, most gains are 0 or 1 in part, and true gains have
    a deviation of .03.
    """
    true = rng.normal(0, 0.03, n_arms)
    family = rng.integers(0, 3, n_arms)
    baseline = rng.normal(0, 0.15, n)
    of_family = rng.normal(0, 0.15, (3, n))[family]
    own = np.where(rng.random((n_arms, n)) < 0.2, rng.normal(0, 0.4, (n_arms, n)), 0)
    gains = true[:, None] + of_family + own - baseline
    return pd.DataFrame(gains, index=[f"arm{i}" for i in range(n_arms)]), true


def biases(n_arms: int, experiments: int) -> tuple[float, float]:
    """Mean of promised minus real gain: observed, and expected."""
    rng = np.random.default_rng(n_arms)
    observed, expected = [], []
    for _ in range(experiments):
        gains, true = arms(n_arms, 40, rng)
        best = expected_gain(gains)
        if best.observed > 0:
            real = true[gains.index.get_loc(best.name)]
            observed.append(best.observed - real)
            expected.append(best.expected - real)
    return float(np.mean(observed)), float(np.mean(expected))


@pytest.mark.simulation
@pytest.mark.parametrize("n_arms", [1, 2, 3, 7, 15, 37])
def test_the_expected_gain_has_no_bias(n_arms: int) -> None:
    observed, expected = biases(n_arms, 600)
    print(f"{n_arms + 1:3d} configurations: observed {observed:+.3f}, expected {expected:+.3f}")
    assert abs(expected) <= 0.01
    assert observed > 0.015


def test_the_expected_gain_has_little_bias_in_a_few_cases() -> None:
    observed, expected = biases(15, 60)
    assert abs(expected) < 0.02 < observed


def test_configurations_that_are_copies_count_once() -> None:
    rng = np.random.default_rng(0)
    gains = pd.DataFrame(rng.normal(0.05, 0.2, (1, 50)), index=["one"])
    copies = pd.concat([gains] * 10)
    alone, among_copies = expected_gain(gains), expected_gain(copies)
    assert among_copies.expected == pytest.approx(alone.expected, abs=0.005)
    others = pd.DataFrame(rng.normal(0, 0.2, (9, 50)))
    luckier = expected_gain(pd.concat([gains, others]))
    assert luckier.observed - luckier.expected > 2 * (alone.observed - alone.expected)


def test_a_clear_winner_keeps_its_gain() -> None:
    rng = np.random.default_rng(1)
    gains = pd.DataFrame(rng.normal(0, 0.1, (8, 200)), index=list("abcdefgh"))
    gains.loc["c"] += 0.3
    best = expected_gain(gains)
    assert best.name == "c"
    assert best.expected == pytest.approx(best.observed, abs=0.005)


def test_where_nothing_is_better_nothing_is_promised() -> None:
    gains = pd.DataFrame([[-0.1, 0.0, -0.2], [-0.1, 0.1, -0.1]], index=["a", "b"])
    best = expected_gain(gains)
    assert best.name == "b"
    assert best.expected == best.observed == pytest.approx(-1 / 30)
    assert expected_gain(gains) == best


def test_missing_gains_are_refused() -> None:
    for gains in (pd.DataFrame(), pd.DataFrame([[0.1]]), pd.DataFrame([[0.1, np.nan]])):
        with pytest.raises(DataError, match="expected a gain of each of one or more"):
            expected_gain(gains)
