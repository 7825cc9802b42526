"""Do intervals, proofs, power and tests keep their promises? Simulations with a known truth.

`pytest -m simulation -s tests/statistics/test_coverage.py` prints the tables; small ones are in the default run.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from ragbench.errors import DataWarning
from ragbench.statistics import anova, compare, equivalent, preference_table, summarise
from ragbench.statistics.power import detectable
from ragbench.types import Preference

Floats = npt.NDArray[np.float64]
SIZES = (5, 10, 20, 30, 60, 100, 300)
RANKS = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 0])
BEFORE = np.array([0.45, 0.15, 0.08, 0.05, 0.04, 0.03, 0.2])
AFTER = np.array([0.55, 0.13, 0.07, 0.05, 0.03, 0.02, 0.15])


def draw(kind: str, n: int, experiments: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """Differences (experiments, n) in [-1, 1], and their true mean."""
    shape = (experiments, n)
    if kind == "normal":
        return rng.normal(0.05, 0.2, shape).clip(-1, 1), 0.05
    if kind == "0/1":
        return rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.8, 0.15], size=shape), 0.1
    if kind == "0/1 rare":
        return rng.choice([-1.0, 0.0], p=[0.05, 0.95], size=shape), -0.05
    if kind == "RR":
        moved = rng.random(shape) < 0.4
        change = rng.choice(RANKS, p=AFTER, size=shape) - rng.choice(RANKS, p=BEFORE, size=shape)
        return np.where(moved, change, 0.0), float(0.4 * RANKS @ (AFTER - BEFORE))
    if kind == "skewed":
        return rng.exponential(0.1, shape).clip(0, 1) - 0.05, 0.05
    if kind == "rare losses":  # 3 % of the questions lose .5
        return np.where(rng.random(shape) < 0.03, -0.5, 0.0), -0.015
    if kind == "losses at .05":  # 10 % lose .5
        return np.where(rng.random(shape) < 0.1, -0.5, 0.0), -0.05
    if kind == "rare + noise":
        return np.where(rng.random(shape) < 0.1, -0.5, 0.0) + rng.normal(0, 0.02, shape), -0.05
    if kind == "one outlier":
        values = rng.normal(0, 0.05, shape)
        values[:, 0] = 0.8
        return values, 0.8 / n
    assert kind == "5 % win .95"
    return np.where(rng.random(shape) < 0.05, 0.95, -0.05), 0.0


def frames(differences: Floats) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Experiments as measures of one pair of frames whose values lie in [0, 1]."""
    experiments, n = differences.shape
    rows = pd.DataFrame(
        {
            "query_id": np.tile(np.arange(n), experiments),
            "measure": np.repeat([f"m{i}" for i in range(experiments)], n),
        }
    )
    flat = differences.ravel()
    return rows.assign(value=np.maximum(-flat, 0.0)), rows.assign(value=np.maximum(flat, 0.0))


def compared(differences: Floats) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        parts = [compare(*frames(part), correction="none", n_resamples=2000) for part in blocks(differences)]
    return pd.concat(parts, ignore_index=True)


def blocks(differences: Floats) -> list[Floats]:
    return [differences[start : start + 100] for start in range(0, len(differences), 100)]


def covered(table: pd.DataFrame, truth: float) -> float:
    low, high = table["ci_low"].to_numpy(dtype=float), table["ci_high"].to_numpy(dtype=float)
    return float(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean())


def slack(rate: float, experiments: int) -> float:
    """Three standard errors of a rate."""
    return 3 * float(np.sqrt(rate * (1 - rate) / experiments))


def check_coverage(sizes: tuple[int, ...], experiments: int) -> None:
    rng = np.random.default_rng(0)
    kinds = ("normal", "0/1", "RR", "skewed", "rare losses")
    print(
        "\ncoverage (mean length), and how often the differences carry a note\n   n "
        + "".join(f"{k:>22}" for k in kinds)
    )
    for n in sizes:
        cells = []
        for kind in (*kinds, "5 % win .95"):
            differences, truth = draw(kind, n, experiments, rng)
            table = compared(differences)
            rate, noted = covered(table, truth), float((table["note"] != "").mean())
            length = float((table["ci_high"] - table["ci_low"]).mean())
            cells.append(f"{rate:.3f} ({length:.3f}) {noted:4.0%}")
            outside = (table["ci_low"] > 0) | (table["ci_high"] < 0)
            assert (outside == (table["p_value"] < 0.05)).all(), (kind, n)
            if kind in kinds:
                assert rate >= 0.93 - slack(0.93, experiments), (kind, n, rate)
            elif n >= 10:
                assert noted > 0.9 - slack(0.9, experiments)
        print(f"{n:4d} " + "".join(f"{cell:>22}" for cell in cells), flush=True)


@pytest.mark.simulation
def test_intervals_cover_and_agree_with_p() -> None:
    check_coverage(SIZES, 1000)


def test_intervals_cover_and_agree_with_p_in_a_few_cases() -> None:
    check_coverage((10,), 20)


def check_proofs(sizes: tuple[int, ...], experiments: int) -> None:
    """The true loss is the margin itself, so each proof is wrong."""
    rng = np.random.default_rng(1)
    kinds = ("0/1 rare", "losses at .05", "rare + noise")
    print("\nwrong proofs of not being worse by .05\n   n " + "".join(f"{kind:>16}" for kind in kinds))
    for n in sizes:
        rates = []
        for kind in kinds:
            differences, truth = draw(kind, n, experiments, rng)
            proven = [equivalent(*frames(part), -truth)["non_inferior"] for part in blocks(differences)]
            rates.append(float(pd.concat(proven).mean()))
            assert rates[-1] <= 0.05 + slack(0.05, experiments), (kind, n)
        print(f"{n:4d} " + "".join(f"{rate:16.3f}" for rate in rates), flush=True)


@pytest.mark.simulation
def test_wrong_proofs_are_rare_at_every_n() -> None:
    check_proofs(SIZES, 2000)


def test_wrong_proofs_are_rare_in_a_few_cases() -> None:
    check_proofs((10, 30), 50)


def check_power(sizes: tuple[int, ...], experiments: int) -> None:
    rng = np.random.default_rng(2)
    """The deviation is that of one experiment, and the test that of another: a report plans for the next one."""
    print("\npower at the smallest detectable difference, from the deviation of a pilot of n")
    for n in sizes:
        noise = rng.normal(0, 0.1, (experiments, n))
        mde = np.array([detectable(float(own.std(ddof=1)), n) for own in noise])
        found = float((compared(rng.normal(0, 0.1, noise.shape) + mde[:, None])["p_value"] < 0.05).mean())
        print(f"{n:4d} {found:.3f}", flush=True)
        assert found >= 0.78 - slack(0.78, experiments)


@pytest.mark.simulation
def test_the_smallest_detectable_difference_has_its_power() -> None:
    check_power((8, 10, 20, 30), 2000)


def test_the_smallest_detectable_difference_has_its_power_at_ten() -> None:
    check_power((10,), 50)


def check_anova(sizes: tuple[int, ...], experiments: int) -> None:
    rng = np.random.default_rng(3)
    print("\nanova without an effect, one of four configurations with six times the noise: called an effect")
    for n in sizes:
        called = 0
        for _ in range(experiments):
            values = rng.normal(0, [[0.1, 0.1, 0.1, 0.6]], (n, 4))
            rows = [(q, name, values[q, i]) for q in range(n) for i, name in enumerate("abcd")]
            table = anova(pd.DataFrame(rows, columns=["query_id", "retriever", "value"])).set_index("source")
            called += bool(table["p_value"]["retriever"] < 0.05)
        print(f"{n:4d} {called / experiments:.3f}", flush=True)
        assert called / experiments <= 0.06 + slack(0.06, experiments)


@pytest.mark.simulation
def test_a_noisy_configuration_is_called_an_effect_in_one_of_twenty() -> None:
    check_anova((10, 30, 100), 1000)


def test_a_noisy_configuration_in_a_few_cases() -> None:
    check_anova((10,), 20)


def check_means(sizes: tuple[int, ...], experiments: int) -> None:
    rng = np.random.default_rng(4)
    print("\ncoverage of means\n   n      RR  normal  skewed")
    for n in sizes:
        shape = (experiments, n)
        columns = {
            "RR": (rng.choice(RANKS, p=BEFORE, size=shape), float(RANKS @ BEFORE)),
            "normal": (rng.normal(0.5, 0.1, shape).clip(0, 1), 0.5),
            "skewed": (rng.beta(5, 1, shape), 5 / 6),
        }
        rates = []
        for kind, (values, truth) in columns.items():
            parts = [summarise(frames(part)[1], n_resamples=2000) for part in blocks(values)]
            rates.append(covered(pd.concat(parts), truth))
            assert rates[-1] >= 0.93 - slack(0.93, experiments), (kind, n)
        print(f"{n:4d} " + "".join(f"{rate:8.3f}" for rate in rates), flush=True)


@pytest.mark.simulation
def test_intervals_of_means_cover() -> None:
    check_means((5, 10, 30, 60, 100, 300), 1000)


def test_intervals_of_means_cover_in_a_few_cases() -> None:
    check_means((5,), 100)


def check_outlier(experiments: int) -> None:
    rng = np.random.default_rng(5)
    for n in (10, 20, 30):
        differences, _ = draw("one outlier", n, experiments, rng)
        table = compared(differences)
        called = float((table["p_value"] < 0.05).mean())
        noted = float((table["note"] != "").mean())
        print(f"\none outlier among {n}: called a difference {called:.3f}, noted {noted:.3f}", flush=True)
        assert called <= 0.06 + slack(0.06, experiments)
        assert noted > 0.9


@pytest.mark.simulation
def test_one_outlier_is_not_a_difference_and_is_noted() -> None:
    check_outlier(1000)


def test_one_outlier_in_a_few_cases() -> None:
    check_outlier(20)


def check_judges(experiments: int) -> None:
    """Judges without an opinion: one always says "first", one tosses a coin for each order, one for some questions."""
    rng = np.random.default_rng(6)
    print("\njudge            'this judge cannot tell'  'is better'")
    for judge, by_place in (("always first", 1.0), ("coin", 0.5), ("first in 80 %", 0.8), ("first in 30 %", 0.3)):
        cannot = better = 0
        for _ in range(experiments):
            changed, wins = rng.random(60) < by_place, rng.integers(0, 2, 60)
            games = [
                Preference(f"q{i}", "a", "b", None if flips else float(win), consistent=not flips)
                for i, (flips, win) in enumerate(zip(changed, wins, strict=True))
            ]
            result = preference_table(games).iloc[0]["result"]
            cannot += result == "this judge cannot tell"
            better += result.endswith("is better")
        print(f"{judge:16} {cannot / experiments:22.3f} {better / experiments:12.3f}", flush=True)
        assert better / experiments <= 0.05 + slack(0.05, experiments)
        assert cannot / experiments >= 0.99 or by_place <= 0.5


@pytest.mark.simulation
def test_judges_without_an_opinion() -> None:
    check_judges(500)


def test_judges_without_an_opinion_in_a_few_cases() -> None:
    check_judges(5)
