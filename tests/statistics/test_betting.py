"""Confidence sequences: limits that hold after every value."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.statistics.betting import STAKES, confidence_sequence


def _wealth(values: list[float], mean: float) -> float:
    return float(np.mean([np.prod([1 + s * (x / mean - 1) for x in values]) for s in STAKES]))


def test_a_limit_is_where_the_capital_reaches_two_over_alpha() -> None:
    values = [1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 0.5, 1.0]
    lower, _ = confidence_sequence(values, alpha=0.1)
    assert _wealth(values, lower[-1]) >= 20 > _wealth(values, lower[-1] + 0.001)


def test_limits_only_come_nearer_and_mirror_each_other() -> None:
    values = np.random.default_rng(1).beta(2, 5, 60)
    lower, upper = confidence_sequence(values)
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    mirrored, _ = confidence_sequence(1 - values)
    assert np.allclose(mirrored, 1 - upper)
    scaled, _ = confidence_sequence(4 * values - 2, low=-2, high=2)
    assert np.allclose(scaled, 4 * lower - 2)


def test_nothing_drawn_has_no_limits_and_one_value_few() -> None:
    lower, upper = confidence_sequence([])
    assert len(lower) == len(upper) == 0
    lower, upper = confidence_sequence([1.0])
    assert lower[0] < 0.05
    assert upper[0] == 1


def test_a_whole_population_leaves_nothing_open() -> None:
    lower, upper = confidence_sequence([0, 1] * 20, population=40)
    assert lower[-1] == pytest.approx(0.5, abs=0.03) == upper[-1]
    half, _ = confidence_sequence([1] * 20, population=40)
    assert half[-1] >= 0.499  # at least those drawn


def _covered(
    draw: Callable[[np.random.Generator], dict[str, Any]], mean: float, n_runs: int, **options: Any
) -> float:
    covered = 0
    for run in range(n_runs):
        lower, upper = confidence_sequence(**draw(np.random.default_rng(run)), **options)
        covered += bool((lower <= mean + 1e-9).all() and (upper >= mean - 1e-9).all())
    return covered / n_runs


def _weighted(rng: np.random.Generator) -> dict[str, Any]:
    """Half of the draws are of the tenth that is 1 with probability .5; the others are 0.1."""
    rare = rng.random(150) < 0.5
    values = np.where(rare, rng.random(150) < 0.5, 0.1)
    return {"values": values, "weights": np.where(rare, 0.2, 1.8)}


DRAWS: dict[str, tuple[Callable[[np.random.Generator], dict[str, Any]], float, dict[str, Any]]] = {
    "binary": (lambda rng: {"values": rng.random(150) < 0.3}, 0.3, {}),
    "rare": (lambda rng: {"values": rng.random(150) < 0.02}, 0.02, {}),
    "skewed": (lambda rng: {"values": rng.beta(0.2, 2, 150)}, 0.2 / 2.2, {}),
    "weighted": (_weighted, 0.14, {"max_weight": 1.8}),
    "without replacement": (
        lambda rng: {"values": rng.permutation(np.arange(160) % 4 == 0)[:150]},
        0.25,
        {"population": 160},
    ),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_limits_hold_at_all_times(kind: str) -> None:
    draw, mean, options = DRAWS[kind]
    assert _covered(draw, mean, 20, alpha=0.2, **options) >= 0.65


@pytest.mark.simulation
@pytest.mark.parametrize("kind", DRAWS)
def test_limits_hold_at_all_times_in_two_thousand_runs(kind: str) -> None:
    draw, mean, options = DRAWS[kind]
    assert _covered(draw, mean, 2000, alpha=0.1, **options) >= 0.9 - 3 * (0.09 / 2000) ** 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 1.0, "high": 1.0}, "finite bounds"),
        ({"values": [2.0]}, "not all between"),
        ({"values": [float("nan")]}, "not all between"),
        ({"weights": [0.5, 3.0]}, "max_weight"),
        ({"weights": [0.5]}, "one number per value"),
        ({"population": 1}, "population is 1 with 2 values"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        confidence_sequence(**{"values": [0.0, 1.0], **options})


def test_alpha_is_a_probability() -> None:
    with pytest.raises(ConfigError, match="alpha"):
        confidence_sequence([0.5], alpha=5)
