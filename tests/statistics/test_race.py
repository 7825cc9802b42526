"""A race of configurations: the best survives, and most questions are saved."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import binomtest

from ragbench.errors import ConfigError
from ragbench.statistics.race import Drops, Race, round_ends, run_race

Floats = npt.NDArray[np.floating]
STUDIES = Path(__file__).parents[2] / "results" / "chunking"


def matrix(name: str, measure: str = "span_recall@500tok") -> Floats:
    """Questions x configurations of a study, every fourth of its 90."""
    table = pd.read_parquet(STUDIES / f"{name}.parquet")
    arms = ["retriever", "chunker", "size", "overlap"]
    return table.pivot(index="query_id", columns=arms, values=measure).to_numpy()[:, ::4]


def run_orders(values: Floats, orders: int, seed: int = 0) -> Drops:
    rng = np.random.default_rng(seed)
    n, parts = len(values), []
    for _ in range(orders // 100):
        drawn = np.stack([values[rng.permutation(n)] for _ in range(100)])[:, :, None]
        parts.append(run_race(drawn, n, round_ends(n)))
    return Drops(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def used(drops: Drops, n: int) -> float:
    """The fraction of all evaluations that was made."""
    return float(np.where(drops.steps == 0, n, drops.steps).mean() / n)


def lost(drops: Drops, means: Floats, margin: float) -> npt.NDArray[np.bool_]:
    """True for each order in which neither the best nor one within the margin survives."""
    best = np.where(drops.steps == 0, means, -np.inf).max(axis=1)
    return np.asarray(best < means.max(axis=-1) - margin - 1e-9)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("study", "limit"), [("chunking", 0.35), ("clapnq", 0.55), ("squad", 0.72), ("pydoc", 0.70)]
)
def test_a_race_saves_questions_and_keeps_one_of_the_best(study: str, limit: float) -> None:
    values = matrix(study)
    drops = run_orders(values, 1000)
    assert used(drops, len(values)) <= limit
    n_lost = int(lost(drops, values.mean(axis=0), 0.02).sum())
    assert binomtest(n_lost, 1000, 0.05, alternative="greater").pvalue > 0.05
    assert n_lost <= 50


def binary(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    return (rng.random(shape) < mean).astype(float)


def rare_losses(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    """All are right on nearly every question, and the losses of each are others."""
    return 1 - (rng.random(shape) < (1 - mean) / 8).astype(float)


def skewed(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    return rng.beta(mean / 2, (1 - mean) / 2, shape)


def clustered(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    """Draws of one to four questions that fare alike."""
    size = rng.integers(1, 5, (*shape[:2], 1, 1))
    alike = binary(rng, (*shape[:2], 1, shape[3]), mean)
    values = np.where(rng.random((*shape[:2], 4, 1)) < 0.8, alike, 1 - alike)
    return np.where(np.arange(4)[:, None] < size, values, np.nan)


KINDS: list[Callable[..., Floats]] = [binary, rare_losses, skewed, clustered]


def false_eliminations(kind: Callable[..., Floats], means: Floats, margin: float) -> int:
    rng, false, n = np.random.default_rng(1), 0, 200
    for _ in range(10):
        values = kind(rng, (200, n, 1, len(means)), means)
        drops = run_race(values, n, round_ends(n), margin=margin)
        false += int(lost(drops, np.nanmean(values, axis=(1, 2)), margin).sum())
    return false


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_among_equals_the_best_is_dropped_with_a_probability_of_alpha_at_most(
    kind: Callable[..., Floats],
) -> None:
    assert false_eliminations(kind, np.full(6, 0.6), margin=1e-9) <= 0.05 * 2000


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_cheaper_ones_beyond_the_margin_replace_the_best_as_rarely(
    kind: Callable[..., Floats],
) -> None:
    means = np.array([0.5, 0.5, 0.5, 0.6])  # the dearest is the best
    assert false_eliminations(kind, means, margin=0.05) <= 0.05 * 2000


@pytest.mark.simulation
def test_two_that_do_not_differ_end_with_all_questions_at_the_latest() -> None:
    rng = np.random.default_rng(2)
    for n in (50, 300):
        drops = run_race(rng.random((200, n, 1, 2)), n, round_ends(n))
        assert np.where(drops.steps == 0, n, drops.steps).max() <= n


def test_an_arm_that_is_always_worse_stops_first() -> None:
    scores = {"cheap": [0.5] * 60, "good": [1.0] * 60, "poor": [0.0] * 10}
    race = Race("RR", 0.02, [[f"q{i}"] for i in range(60)], scores)
    assert list(race.stopped) == ["cheap", "poor"]
    assert race.stopped["poor"] <= race.stopped["cheap"]
    assert race.reason("poor").startswith(f"dropped after {race.stopped['poor']} of 60 questions:")
    assert race.reason("poor").endswith("(good led)")
    assert race.table()["state"].tolist()[1] == "in the race"


def test_one_of_two_that_are_the_same_stops_for_the_cheaper() -> None:
    values = np.random.default_rng(3).random(600).tolist()
    race = Race("RR", 0.05, [[f"q{i}"] for i in range(600)], {"cheap": values, "dear": values})
    assert list(race.stopped) == ["dear"]
    assert "within 0.05 of a cheaper one (most surely cheap)" in race.reason("dear")


def test_of_a_measure_of_which_less_is_better_the_highest_stops() -> None:
    names = [[f"q{i}"] for i in range(80)]
    race = Race("ngram_redundancy", 0.02, names, {"a": [0.9] * 80, "b": [0.1] * 80})
    assert list(race.stopped) == ["a"]


def test_what_is_unscored_takes_no_part() -> None:
    names = [[f"q{i}"] for i in range(80)]
    race = Race("RR", 0.02, names, {"a": [None] * 80, "b": [1.0] * 80})
    assert race.stopped == {}
    assert race.table()["mean"].isna().tolist() == [True, False]


def test_a_measure_without_bounds_is_refused() -> None:
    with pytest.raises(ConfigError, match="latency_total_ms is not possible: its values have no"):
        Race("latency_total_ms", 1.0, [["a"]], {"a": [1.0], "b": [2.0]}).stopped  # noqa: B018


def test_rounds_end_with_all_questions() -> None:
    assert round_ends(93)[-1] == 93
    assert round_ends(2) == [1, 2]


def test_draws_of_several_questions_count_as_one() -> None:
    draws = [[f"q{i}", f"p{i}"] for i in range(40)]
    race = Race("RR", 0.02, draws, {"a": [0.2, 0.4] * 40, "b": [0.9, 0.7] * 40})
    [(name, n)] = race.stopped.items()
    assert name == "a"
    assert n % 2 == 0
    ends, means, low, high = race.limits("b")
    assert ends.tolist() == list(range(2, 81, 2))
    assert means == pytest.approx(0.8)
    assert (low <= 0.8 + 1e-9).all()
    assert (high >= 0.8 - 1e-9).all()
