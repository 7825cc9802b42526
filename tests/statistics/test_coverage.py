"""Do intervals, decisions, proofs and power keep their promises? Simulations with a known truth.

`pytest -m simulation -s tests/statistics/test_coverage.py` prints the tables; small ones are in the
default run.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from ragbench.statistics import summarise
from ragbench.statistics.autocorrelation import n_independent
from ragbench.statistics.clusters import Clustered
from ragbench.statistics.comparison import difference_intervals
from ragbench.statistics.gaffke import p_above
from ragbench.statistics.intervals import Intervals
from ragbench.statistics.power import Pilot, detectable

Floats = npt.NDArray[np.float64]
SIZES = (5, 10, 20, 30, 60, 100, 300)
RANKS = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 0])
BEFORE = np.array([0.45, 0.15, 0.08, 0.05, 0.04, 0.03, 0.2])
AFTER = np.array([0.55, 0.13, 0.07, 0.05, 0.03, 0.02, 0.15])


def draw(kind: str, n: int, experiments: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """Differences (experiments, n) in [-1, 1], and their true mean."""
    shape = (experiments, n)
    if kind == "rare loss":
        return np.where(rng.random(shape) < 1 / 11, -0.5, 0.05), 0.0
    if kind == "U and loss":
        return np.where(rng.random(shape) < 1 / 11, -0.5, rng.uniform(0, 0.1, shape)), 0.0
    if kind == "RR-like":
        return rng.choice([1 / 6, 0.0, -1.0], p=[0.3, 0.65, 0.05], size=shape), 0.0
    if kind == "symmetric":
        return rng.normal(0, 0.2, shape).clip(-1, 1), 0.0
    if kind == "right-skewed":
        return rng.exponential(0.1, shape).clip(0, 1) - 0.1, 0.0
    if kind == "left-skewed":
        return 0.1 - rng.exponential(0.1, shape).clip(0, 1), 0.0
    if kind == "0/1":
        return rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=shape), 0.0
    if kind == "0/1 rare":
        return rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.9, 0.05], size=shape), 0.0
    if kind == "0/1 gain":
        return rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.6, 0.3], size=shape), 0.2
    if kind.startswith("gain of sd"):
        deviation = float(kind.split()[-1])
        effect = deviation / 3
        return rng.normal(effect, deviation, shape).clip(-1, 1), effect
    if kind == "sparse gain":
        return rng.choice([-0.3, 0.0, 0.3], p=[0.1, 0.6, 0.3], size=shape), 0.06
    if "neighbours" in kind:  # neighbours in the file resemble each other
        correlation = float(kind.split()[-1])
        values = rng.normal(0, 0.2, shape)
        for i in range(1, n):
            own = np.sqrt(1 - correlation**2) * values[:, i]
            values[:, i] = correlation * values[:, i - 1] + own
        if kind.startswith("0/1"):
            return np.sign(values) * (np.abs(values) > 0.1), 0.0
        return values, 0.0
    if kind.startswith("pages of"):  # neighbours in the file are about one page
        length = int(kind.split()[-1])
        n_pages = -(-n // length)
        of_page = np.repeat(rng.normal(0, 0.12, (experiments, n_pages)), length, axis=1)
        return of_page[:, :n] + rng.normal(0, 0.16, shape), 0.0
    if kind == "RR gain":
        moved = rng.random(shape) < 0.4
        change = rng.choice(RANKS, p=AFTER, size=shape) - rng.choice(RANKS, p=BEFORE, size=shape)
        return np.where(moved, change, 0.0), float(0.4 * RANKS @ (AFTER - BEFORE))
    if kind == "losses at .05":  # 10 % lose .5
        return np.where(rng.random(shape) < 0.1, -0.5, 0.0), -0.05
    if kind == "rare + noise":
        return np.where(rng.random(shape) < 0.1, -0.5, 0.0) + rng.normal(0, 0.02, shape), -0.05
    assert kind == "0/1 losses"
    return rng.choice([-1.0, 0.0], p=[0.05, 0.95], size=shape), -0.05


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


def decided(columns: Sequence[Floats], lengths: Sequence[Floats] = ()) -> Intervals:
    """The intervals of `compare`, without the other columns of its table."""
    lengths = lengths or [np.ones(len(column)) for column in columns]
    binary = all(bool(np.isin(column, (-1.0, 0.0, 1.0)).all()) for column in columns)
    pilots = [
        Pilot(len(column), 1.0, 1.0, int(np.abs(column).sum()) if binary else None)
        for column in columns
    ]
    parts = [Clustered(*part) for part in zip(columns, lengths, strict=True)]
    return difference_intervals(parts, pilots, 0.05)


def in_groups(
    n: int, experiments: int, rng: np.random.Generator
) -> tuple[list[Floats], list[Floats], float]:
    """Sums of groups of 1 to 7 questions that share a rare loss, and their sizes, over mean sizes."""
    columns, lengths = [], []
    for _ in range(experiments):
        sizes = np.concatenate([[7], rng.integers(1, 8, n - 1)])
        lengths.append(sizes / sizes.mean())
        columns.append(lengths[-1] * np.where(rng.random(n) < 1 / 11, -0.5, 0.05))
    return columns, lengths, 0.0


def blocks(differences: Floats) -> list[Floats]:
    return [differences[start : start + 100] for start in range(0, len(differences), 100)]


def covered(low: Floats, high: Floats, truth: float) -> float:
    return float(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean())


def slack(rate: float, experiments: int, errors: float = 3) -> float:
    """Standard errors of a rate."""
    return errors * float(np.sqrt(rate * (1 - rate) / experiments))


NULL = (
    "rare loss",
    "U and loss",
    "RR-like",
    "symmetric",
    "right-skewed",
    "left-skewed",
    "0/1",
    "0/1 rare",
    "clustered",
)


def check_decisions(
    sizes: tuple[int, ...], experiments: int, kinds: tuple[str, ...] = NULL
) -> None:
    rng = np.random.default_rng(0)
    print(
        "\nfalse 'better' / coverage (mean width)\n   n " + "".join(f"{kind:>21}" for kind in kinds)
    )
    for n in sizes:
        cells = []
        for kind in kinds:
            if kind == "clustered":
                columns, lengths, truth = in_groups(n, experiments, rng)
            else:
                differences, truth = draw(kind, n, experiments, rng)
                columns, lengths = list(differences), []
            found = decided(columns, lengths)
            better, rate = float((found.low > 0).mean()), covered(found.low, found.high, truth)
            cells.append(f"{better:.3f}/{rate:.3f} ({(found.high - found.low).mean():.3f})")
            assert ((found.p < 0.05) == ((found.low > 0) | (found.high < 0))).all(), (kind, n)
            assert truth or better <= 0.05 + slack(0.05, experiments, 2), (kind, n, better)
            assert rate >= 0.94 - slack(0.94, experiments, 2), (kind, n, rate)
        print(f"{n:4d} " + "".join(f"{cell:>21}" for cell in cells), flush=True)


@pytest.mark.simulation
def test_no_difference_is_rarely_called_better_and_intervals_cover() -> None:
    check_decisions(SIZES, 2000)
    check_decisions(SIZES, 2000, ("0/1 gain", "RR gain", "losses at .05", "0/1 losses"))


def test_no_difference_is_rarely_called_better_in_a_few_cells() -> None:
    check_decisions((6, 20), 200, ("rare loss", "U and loss", "RR-like", "0/1", "clustered"))


def check_proofs(sizes: tuple[int, ...], experiments: int) -> None:
    """The true loss is the margin itself, so each proof is wrong."""
    rng = np.random.default_rng(1)
    kinds = ("0/1 losses", "losses at .05", "rare + noise")
    print(
        "\nwrong proofs of not being worse by .05\n   n " + "".join(f"{kind:>16}" for kind in kinds)
    )
    for n in sizes:
        rates = []
        for kind in kinds:
            differences, truth = draw(kind, n, experiments, rng)
            rates.append(
                float((p_above(list(differences), [-1.0] * experiments, truth) < 0.05).mean())
            )
            assert rates[-1] <= 0.05 + slack(0.05, experiments), (kind, n)
        print(f"{n:4d} " + "".join(f"{rate:16.3f}" for rate in rates), flush=True)


@pytest.mark.simulation
def test_wrong_proofs_are_rare_at_every_n() -> None:
    check_proofs(SIZES, 2000)


def test_wrong_proofs_are_rare_in_a_few_cases() -> None:
    check_proofs((10, 30), 50)


def check_power(sizes: tuple[int, ...], experiments: int) -> None:
    """What validity costs: differences for which Student's t-test has a power of .5 and .8,
    standard deviation .15.
    """
    rng = np.random.default_rng(2)
    print(
        "\npower of the interval and of the t-test, symmetric differences of sd .15\n   n  "
        "difference  interval  t-test"
    )
    for n in sizes:
        for wanted, factor in ((0.5, 1.96), (0.8, 2.8)):
            effect = factor * 0.15 / np.sqrt(n)
            differences = rng.normal(effect, 0.15, (experiments, n)).clip(-1, 1)
            ours = float((decided(list(differences)).low > 0).mean())
            theirs = float((ttest_1samp(differences, 0, axis=1).pvalue < 0.05).mean())
            print(f"{n:4d} {effect:11.3f} {ours:9.3f} {theirs:7.3f}", flush=True)
            assert theirs == pytest.approx(wanted, abs=0.08)
            assert ours <= theirs + 0.01, (
                "no interval that is valid for every distribution is as narrow"
            )


@pytest.mark.simulation
def test_power_next_to_the_t_test() -> None:
    check_power((20, 50, 100, 300), 1000)


def test_power_next_to_the_t_test_at_fifty() -> None:
    check_power((50,), 100)


GAINS = (
    "gain of sd .1",
    "gain of sd .15",
    "gain of sd .3",
    "sparse gain",
    "0/1 gain",
    "RR gain",
)
NEIGHBOURS = (
    *(f"neighbours .{digit}" for digit in (1, 2, 3, 5, 7)),
    "0/1 neighbours .5",
    "pages of 3",
    "pages of 5",
)


FOUND = {30: 0.14, 50: 0.32, 100: 0.69, 300: 0.89}
"""Questions -> how often the safe tier finds a gain, as the guide states it."""


def check_tiers(sizes: tuple[int, ...], experiments: int) -> None:
    """The table in notebooks/guide/numbers.md: how often each tier calls "better" what is not, and
    what it finds.
    """
    rng = np.random.default_rng(4)
    independent = [kind for kind in NULL if kind != "clustered"]
    kinds = [*independent, *NEIGHBOURS, *GAINS]
    rates = pd.DataFrame(index=kinds, columns=["safe", "t"], dtype=float)
    for n in sizes:
        for kind in kinds:
            differences, _ = draw(kind, n, experiments, rng)
            rates.loc[kind, "safe"] = (decided(list(differences)).low > 0).mean()
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # equal values
                p = ttest_1samp(differences, 0, axis=1).pvalue
            rates.loc[kind, "t"] = ((p < 0.05) & (differences.mean(axis=1) > 0)).mean()
        level, power = rates.loc[independent], rates.loc[[*GAINS]].mean()
        print(
            f"\n{n=}: wrong 'better' at most {level['safe'].max():.3f} ({level['safe'].idxmax()}), "
            f"t {level['t'].max():.3f} ({level['t'].idxmax()}); power {power['safe']:.2f}, "
            f"t {power['t']:.2f}\n{rates.round(3).T.to_string()}",
            flush=True,
        )
        assert level["safe"].max() <= 0.05 + slack(0.05, experiments, 2), n
        for kind in NEIGHBOURS:
            if not kind.startswith("0/1") or n >= 100:  # in fewer 0/1 values nothing shows it
                assert rates["safe"].to_dict()[kind] <= 0.06 + slack(0.06, experiments, 2), (
                    n,
                    kind,
                )
        assert FOUND.get(n, 0) - 0.05 <= power["safe"] <= power["t"] + 0.01, n


@pytest.mark.simulation
def test_level_and_power_of_both_tiers() -> None:
    check_tiers((10, 20, 30, 50, 100, 300), 2000)


def test_level_and_power_of_both_tiers_at_ten_and_at_fifty() -> None:
    check_tiers((10, 50), 200)


@pytest.mark.parametrize("kind", ["neighbours .5", "0/1 neighbours .5", "pages of 5"])
def test_neighbours_that_resemble_each_other_are_rarely_called_better(kind: str) -> None:
    """As independent questions .13, .09 and .11 would be."""
    differences, _ = draw(kind, 200, 500, np.random.default_rng(5))
    assert (decided(list(differences)).low > 0).mean() <= 0.05 + slack(0.05, 500, 2)


def test_independent_questions_are_rarely_taken_for_dependent_ones() -> None:
    for kind in ("symmetric", "rare loss", "0/1"):
        differences, _ = draw(kind, 100, 500, np.random.default_rng(6))
        is_dependent = [n_independent(values) < 100 for values in differences]
        assert np.mean(is_dependent) <= 0.01, kind


def check_promised_power(sizes: tuple[int, ...], experiments: int) -> None:
    """A pilot of n promises a smallest difference, and another n show it with a probability of .8."""
    rng = np.random.default_rng(3)
    print(
        "\nsmallest detectable difference from a pilot of n, and the rate at which as many "
        "others show it"
    )
    for n in sizes:
        deviations = rng.normal(0, 0.1, (experiments, n)).std(axis=1, ddof=1)
        promised = detectable([Pilot(n, float(deviation), 1.0) for deviation in deviations])
        rates = {
            "normal .1": (
                promised,
                decided(list(rng.normal(0, 0.1, (experiments, n)) + promised[:, None])),
            )
        }
        for differing in (0.1, 0.3):
            promised, columns = np.empty(experiments), []
            for i in range(experiments):
                promised[i] = binary_promise(n, int(rng.binomial(n, differing)))
                rate = max(differing, promised[i])
                chances = [(rate - promised[i]) / 2, 1 - rate, (rate + promised[i]) / 2]
                columns.append(rng.choice([-1.0, 0.0, 1.0], p=chances, size=n))
            rates[f"0/1, {differing} differ"] = promised, decided(columns)
        for kind, (smallest, intervals) in rates.items():
            rate = float((intervals.low > 0).mean())
            print(f"{n:4d} {kind:18} {smallest.mean():.3f} {rate:.3f}", flush=True)
            assert 0.77 - slack(0.8, experiments, 2) <= rate <= 0.88 + slack(0.8, experiments, 2), (
                kind,
                n,
            )


@cache
def binary_promise(n: int, differing: int) -> float:
    return float(detectable([Pilot(n, 1.0, 1.0, differing)])[0])


@pytest.mark.simulation
def test_the_smallest_detectable_difference_has_its_power() -> None:
    check_promised_power((8, 15, 30, 60, 100), 1000)


def test_the_smallest_detectable_difference_has_its_power_at_fifteen() -> None:
    check_promised_power((15,), 200)


def test_too_few_questions_detect_nothing() -> None:
    assert np.isnan(detectable([Pilot(2, 0.1, 1.0), Pilot(4, 1.0, 1.0, 1)])).all()


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
            parts = [summarise(frames(part)[1]) for part in blocks(values)]
            table = pd.concat(parts)
            low, high = (table[name].to_numpy(dtype=float) for name in ("ci_low", "ci_high"))
            rates.append(covered(low, high, truth))
            assert rates[-1] >= 0.93 - slack(0.93, experiments), (kind, n)
        print(f"{n:4d} " + "".join(f"{rate:8.3f}" for rate in rates), flush=True)


@pytest.mark.simulation
def test_intervals_of_means_cover() -> None:
    check_means((5, 10, 30, 60, 100, 300), 1000)


def test_intervals_of_means_cover_in_a_few_cases() -> None:
    check_means((5,), 100)
