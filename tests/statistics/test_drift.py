"""Runs over time: alarms by hand, and over many simulated histories how often they are false and how soon true."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError
from ragbench.statistics import Drift, drift

NIGHTS, QUESTIONS, STREAMS = 120, 97, 20


def test_residuals_and_evidence_by_hand() -> None:
    runs = pd.DataFrame([[0.5, 0.5, 1.0], [0.4, 0.5, 0.8], [0.4, 0.6, 0.6]])
    path = drift(runs, streams=2, run_length=10).path
    second = -0.3 / math.sqrt(0.1**2 + 0.2**2)  # the sum of the differences by the root of their squares
    variance = (2 * 0.05**2 + 0 + 2 * 0.1**2) / 3  # pooled over the questions, one degree of freedom each
    jumps = 0.1**2 / (2 * variance / 3)
    ratio = max(1, (10 + jumps) / (10 + 1))
    third = (-0.05 + 0.1 - 0.3) / 3 / math.sqrt(variance / 3 * (1 + 1 / 2) * ratio)
    assert path["z"].tolist() == [pytest.approx(math.nan, nan_ok=True), pytest.approx(second), pytest.approx(third)]
    bets = [1, 2, 3, -1, -2, -3]
    one = [math.exp(b * second - b * b / 2) for b in bets]
    two = [(m + 1) * math.exp(b * third - b * b / 2) for m, b in zip(one, bets, strict=True)]
    assert path["evidence"].tolist() == [0, pytest.approx(sum(one) / 6 / 20), pytest.approx(sum(two) / 6 / 20)]
    assert path["state"].tolist() == ["first", "nothing shown", "nothing shown"]


def test_a_run_with_the_same_values_is_unchanged_and_no_evidence() -> None:
    runs = pd.DataFrame([[0.5, np.nan, 1.0]] * 200)
    found = drift(runs)
    assert found.path["state"].tolist() == ["first"] + ["unchanged"] * 199
    assert found.path["evidence"].eq(0).all()
    assert found.text == "nothing shown; too few runs to notice a fall of 0.05"


def test_questions_without_scores_do_not_count() -> None:
    rng = np.random.default_rng(3)
    runs = pd.DataFrame(0.5 + rng.normal(0, 0.1, (30, 40)))
    with_gaps = runs.assign(never=np.nan)
    with_gaps.iloc[10] = np.nan
    pd.testing.assert_frame_equal(
        drift(with_gaps.drop(index=10)).path[["z", "state"]], drift(runs.drop(index=10)).path[["z", "state"]]
    )
    assert drift(with_gaps).path["z"].iloc[10] == 0


def test_an_alarm_has_a_date_with_a_range_and_the_questions_that_fell_most() -> None:
    rng = np.random.default_rng(1)
    dates = pd.date_range("2026-01-01", periods=60).strftime("%Y-%m-%d")
    runs = pd.DataFrame(0.7 + rng.normal(0, 0.15, (60, 97)), index=dates, columns=[f"q{i}" for i in range(97)])
    runs.iloc[40:, :10] -= 0.5
    [change] = drift(runs, streams=STREAMS).changes
    assert change.direction == "fall"
    assert change.earliest <= dates[40] <= change.latest
    assert set(change.questions) <= {f"q{i}" for i in range(10)}
    assert change.before - change.after == pytest.approx(0.5 * 10 / 97, abs=0.02)
    rise = drift(-runs, streams=STREAMS).changes[0]
    assert (rise.direction, rise.since) == ("rise", change.since)


def test_one_bad_night_raises_no_alarm_alone() -> None:
    rng = np.random.default_rng(2)
    runs = pd.DataFrame(0.7 + rng.normal(0, 0.15, (60, 97)))
    runs.iloc[30] -= 0.5
    assert not drift(runs, streams=STREAMS).changes


@pytest.mark.parametrize("given", [{"streams": 0}, {"run_length": -1}, {"fall": math.nan}])
def test_settings_out_of_range_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="expected a number above 0"):
        drift(pd.DataFrame([[1.0]]), **given)  # type: ignore[arg-type]


def judged(rng: np.random.Generator, nights: int, fall: float = 0, at: int = 0, shock: float = 0) -> pd.DataFrame:
    """Scores of a judge in steps of a quarter: a value per question, with noise of .17 from night to night."""
    values = rng.beta(4, 1.5, QUESTIONS) + rng.normal(0, 0.17, (nights, QUESTIONS))
    values[at:] -= fall
    return pd.DataFrame(np.round(np.clip(values + shock * rng.normal(0, 1, (nights, 1)), 0, 1) * 4) / 4)


def right(rng: np.random.Generator, nights: int, fall: float = 0, at: int = 0, shock: float = 0) -> pd.DataFrame:
    """Right or wrong: a probability per question."""
    chance = np.repeat(rng.beta(2, 1, (1, QUESTIONS)), nights, axis=0)
    chance[at:] -= fall
    chance = chance + shock * rng.normal(0, 1, (nights, 1))
    return pd.DataFrame((rng.random(chance.shape) < chance).astype(float))


def alarmed(histories: int, make: object, seed: int, **given: float) -> float:
    rng = np.random.default_rng(seed)
    found = [
        any(drift(make(rng, NIGHTS, **given), streams=STREAMS).changes for _ in range(STREAMS))  # type: ignore[operator]
        for _ in range(histories)
    ]
    return float(np.mean(found))


@pytest.mark.simulation
@pytest.mark.parametrize("make", [judged, right])
def test_false_alarms_are_rarer_than_stated(make: object) -> None:
    """20 measures, 97 questions, 120 nights without a change: .12 is what 1,000 runs between alarms allow."""
    rate = alarmed(40, make, 0)
    print(f"\n{make.__name__}: false alarm within {NIGHTS} nights {rate:.3f}")  # type: ignore[attr-defined]
    assert rate <= 0.12


@pytest.mark.simulation
@pytest.mark.parametrize(("make", "limit"), [(judged, 5), (right, 25)])
def test_a_fall_is_seen_soon(make: object, limit: int) -> None:
    """A fall of .05 after 60 nights, 20 measures watched; and the number of runs that was announced before is right."""
    rng = np.random.default_rng(1)
    delays, announced = [], []
    for _ in range(60):
        runs = make(rng, 150, 0.05, 60)  # type: ignore[operator]
        announced.append(drift(runs[:60], streams=STREAMS).notice or 365)
        seen = [x.noticed for x in drift(runs, streams=STREAMS).changes if x.noticed >= 60 and x.direction == "fall"]
        delays.append(seen[0] - 59 if seen else 91)
    median = np.median(delays)
    print(f"\n{make.__name__}: a fall of .05 is seen after {median:g} nights, announced {np.median(announced):g}")  # type: ignore[attr-defined]
    assert median <= limit
    assert 0.5 <= np.median(announced) / median <= 2


@pytest.mark.simulation
def test_nights_with_a_common_shock() -> None:
    """The questions of a night move together, which the stated run length excludes.

    By a third of the noise of a mean (.017), as much, and three times that. The detector learns the size of shocks from
    the steps between nights: a false alarm in 0, .15 and .75 of the histories; without learning nearly always.
    """
    rates = {shock: alarmed(20, judged, 2, shock=shock) for shock in (0.005, 0.02, 0.05)}
    print(f"\nfalse alarm within {NIGHTS} nights, by the standard deviation of the shock: {rates}")
    assert rates[0.005] <= 0.15
    assert rates[0.02] <= 0.4


@pytest.mark.simulation
def test_the_range_holds_the_change() -> None:
    rng = np.random.default_rng(4)
    held = []
    for _ in range(100):
        found: Drift = drift(judged(rng, 100, 0.08, 50), streams=1)
        held += [x.earliest <= 50 <= x.latest for x in found.changes if x.noticed >= 50][:1]
    print(f"\nthe range holds the date of the change in {np.mean(held):.2f} of {len(held)} histories")
    assert np.mean(held) >= 0.9
