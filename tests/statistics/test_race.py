"""A race of configurations: the best survives, and most questions are saved."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import binomtest

from ragbench.errors import ConfigError
from ragbench.statistics.race import Race, round_ends, run_race

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int_]
STUDIES = Path(__file__).parents[2] / "results" / "chunking"


def matrix(study: str, measure: str = "span_recall@500tok") -> Floats:
    """Questions x configurations of a study, every fourth of its 90 or more."""
    [path] = STUDIES.glob(f"{study}/*.parquet")
    arms = ["retriever", "chunker", "size", "overlap"]
    table = pd.read_parquet(path).pivot(index="query_id", columns=arms, values=measure)
    return table.to_numpy(dtype=float)[:, ::4]


def run(values: Floats, costs: Floats | None = None, **options: float) -> Ints:
    """Return after how many draws each configuration stopped, n where it did not."""
    n, _, n_arms = values.shape
    costs = np.zeros(n_arms) if costs is None else costs
    steps = run_race(values, costs, drawn=n, **options).steps
    return np.where(steps == 0, n, steps)


def is_lost(steps: Ints, values: Floats, margin: float) -> bool:
    """Return True if neither the best nor one within the margin of it survives."""
    means = np.nanmean(values, axis=(0, 1))
    return bool(means[steps == len(values)].max() < means.max() - margin - 1e-9)


@pytest.mark.simulation
def test_a_race_takes_less_than_half_and_keeps_one_of_the_best_in_a_thousand_orders() -> None:
    used = {}
    for study in ("chunking-*", "clapnq-*", "squad-b*", "squad-c*", "pydoc-*"):
        values = matrix(study)
        rng, n_lost, fractions = np.random.default_rng(0), 0, []
        for _ in range(1000):
            drawn = rng.permutation(values)[:, None]
            steps = run(drawn)
            fractions.append(steps.mean() / len(values))
            n_lost += is_lost(steps, drawn, 0.02)
        used[study] = float(np.mean(fractions))
        print(study, values.shape, round(used[study], 3), n_lost)
        assert binomtest(n_lost, 1000, 0.05, alternative="greater").pvalue > 0.05
    assert np.mean(list(used.values())) <= 0.45
    assert used["chunking-*"] <= 0.26


def binary(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    return (rng.random(shape) < mean).astype(float)


def rare_losses(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    """All are right on nearly every question, and the losses of each are others."""
    return 1 - (rng.random(shape) < (1 - mean) / 8).astype(float)


def skewed(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    return rng.beta(mean / 2, (1 - mean) / 2, shape)


def clustered(rng: np.random.Generator, shape: tuple[int, ...], mean: Floats) -> Floats:
    """Draws of one to four questions that fare alike."""
    alike = binary(rng, (shape[0], 1, shape[2]), mean)
    values = np.where(rng.random((shape[0], 4, 1)) < 0.8, alike, 1 - alike)
    size = rng.integers(1, 5, (shape[0], 1, 1))
    return np.where(np.arange(4)[:, None] < size, values, np.nan)


KINDS: list[Callable[..., Floats]] = [binary, rare_losses, skewed, clustered]


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("means", "margin"), [([0.6] * 6, 1e-9), ([0.5, 0.5, 0.5, 0.6], 0.05), ([0.6, 0.5, 0.6], 0.02)]
)
def test_the_best_is_lost_with_a_probability_of_alpha_at_most(
    kind: Callable[..., Floats], means: list[float], margin: float
) -> None:
    rng, n_lost = np.random.default_rng(1), 0
    costs = np.arange(len(means), dtype=float) if margin > 0.02 else None  # the dearest is the best
    for _ in range(2000):
        values = kind(rng, (200, 1, len(means)), np.array(means))
        n_lost += is_lost(run(values, costs, margin=margin), values, margin)
    print(kind.__name__, means, n_lost)
    assert n_lost <= 0.05 * 2000


def test_the_bets_hold_their_probability_where_they_can_be_wrong() -> None:
    rng, n_lost = np.random.default_rng(3), 0
    for _ in range(200):
        values = clustered(rng, (60, 1, 4), np.full(4, 0.6))
        n_lost += is_lost(run(values, margin=1e-9, alpha=0.2), values, 1e-9)
    assert n_lost <= 40


def test_two_answer_everything() -> None:
    values = np.random.default_rng(2).random((50, 1, 2)) * [1, 0.1]
    assert run(values).tolist() == [50, 50]


def test_one_that_is_equal_stops_when_no_margin_is_left() -> None:
    # 300 questions of which none differs: that 6 are to come becomes improbable after a third
    equal = np.repeat(np.random.default_rng(4).random((300, 1, 1)), 4, axis=2)
    steps = run(equal)
    assert sorted(steps)[2:] == [300, 300]
    assert 100 < steps.min() < 170


def test_a_dearer_leader_must_be_better() -> None:
    values = np.repeat(np.random.default_rng(4).random((300, 1, 1)), 3, axis=2)
    values[:, :, 2] += 0.005  # leads, but by less than the margin
    assert run(values, np.array([0.0, 0.0, 0.0])).min() < 300
    costs = np.array([0.0, 1.0, 2.0])
    assert run_race(values, costs, drawn=300).led == [0]  # the cheapest of those that are close
    assert run(values, costs)[0] == 300


def test_the_last_round_has_no_end_at_which_one_may_stop() -> None:
    assert round_ends(93)[-1] == 88
    assert round_ends(2) == [1]
    assert round_ends(1) == []


def race_of(scores: dict[str, list[float | None]], measure: str = "RR", size: int = 1) -> Race:
    n = max(map(len, scores.values())) // size
    draws = [[f"q{i}.{j}" for j in range(size)] for i in range(n)]
    return Race(measure, 0.02, draws, scores, drawn=n)


def test_one_that_is_always_worse_stops_first_and_the_reason_names_by_how_much() -> None:
    race = race_of({"good": [1.0] * 60, "fair": [0.5] * 60, "poor": [0.0] * 60, "best": [1.0] * 60})
    assert race.drops.led == [0]
    assert race.stopped["poor"] == 8  # the end of the first round after the leader was chosen
    assert set(race.stopped) == {"fair", "poor"}
    row = race.table.loc["poor"]
    assert row["leader"] == "good"
    assert row["gain"] == -1
    assert -1 <= row["ci_low"] <= -1 <= row["ci_high"] < 0
    least = f"worse than good by at least {-row['ci_high']:.3f}"
    assert row["reason"] == f"dropped after 8 of 60 questions: {least}"
    assert race.summary.startswith(
        "race by RR: 2 of 4 configurations were dropped before all 60 questions"
    )
    assert race.next_end == 0
    dollars = {"good": 0.01, "fair": 0.01, "poor": 0.01, "best": 0.01}
    paid = dataclasses.replace(race, costs=dollars)
    n_answers = 60 + 60 + paid.stopped["fair"] + paid.stopped["poor"]
    assert f"of the evaluations and about ${n_answers / 100:.2f};" in paid.summary
    assert "$" not in race.summary
    partly = dataclasses.replace(race, costs={"good": 0.01})
    assert "about $0.60 without 3 configurations of unknown price;" in partly.summary


def test_what_is_not_proven_worse_is_proven_not_to_be_better() -> None:
    values: list[float | None] = np.random.default_rng(5).random(400).tolist()
    race = race_of({"a": values, "b": values, "c": values})
    assert race.table["reason"].iloc[0].endswith("questions: not better than a by 0.02 or more")


def test_of_a_measure_of_which_less_is_better_the_highest_stops() -> None:
    scores = {"a": [0.9] * 80, "b": [0.1] * 80, "c": [0.1] * 80}
    race = race_of(scores, "ngram_redundancy")  # type: ignore[arg-type]
    assert set(race.stopped) == {"a"}
    assert race.table.loc["a", "gain"] == pytest.approx(-0.8)


def test_what_is_unscored_takes_no_part() -> None:
    race = race_of({"a": [None] * 80, "b": [1.0] * 80, "c": [1.0] * 80})
    assert race.stopped.keys() <= {"b", "c"}
    assert race.limits("a")[["ci_low", "ci_high"]].iloc[-1].tolist() == [0, 1]


@pytest.mark.parametrize("measure", ["latency_total_ms", "coherence"])
def test_a_measure_that_is_not_from_0_to_1_is_refused(measure: str) -> None:
    with pytest.raises(ConfigError, match=f"{measure} is not possible: its values are from"):
        race_of({"a": [1.0], "b": [2.0], "c": [2.0]}, measure).stopped  # noqa: B018


def test_draws_of_several_questions_count_as_one() -> None:
    race = race_of({"a": [0.2, 0.4] * 40, "b": [0.9, 0.7] * 40, "c": [0.9, 0.7] * 40}, size=2)
    [(name, n)] = race.stopped.items()
    assert name == "a"
    assert n % 2 == 0
    limits = race.limits("b")
    assert limits.index.tolist() == list(range(2, 81, 2))
    assert limits["mean"].tolist() == pytest.approx([0.8] * 40)
    assert (limits["ci_low"] <= 0.8).all()
    assert (limits["ci_high"] >= 0.8).all()


def test_limits_hold_after_every_question_at_once_and_close_at_the_end() -> None:
    rng, n_missed, values = np.random.default_rng(6), 0, np.arange(120) % 4 == 0
    for _ in range(100):
        limits = race_of({"a": rng.permutation(values).astype(float).tolist()}).limits("a")
        n_missed += not ((limits["ci_low"] <= 0.25) & (limits["ci_high"] >= 0.25)).all()
        assert limits["ci_high"].iloc[-1] - limits["ci_low"].iloc[-1] < 0.05
    assert n_missed <= 5


def test_races_on_stored_scores_foresee_the_saving() -> None:
    scores: dict[str, list[float | None]] = {"a": [1.0] * 100, "b": [1.0] * 100, "c": [0.0] * 100}
    assert 0.67 < race_of(scores).simulate(5) < 0.75
