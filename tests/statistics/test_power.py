"""How many queries: G*Power's textbook number, statsmodels, and simulation with the test that is
really used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom, nct, t
from statsmodels.stats.power import TTestPower

from ragbench.statistics import compare
from ragbench.statistics.clusters import Clustered
from ragbench.statistics.comparison import difference_intervals
from ragbench.statistics.gaffke import critical_means_of
from ragbench.statistics.intervals import safe_intervals
from ragbench.statistics.power import POWER, Pilot, detectable


def pilot(*differences: float, measure: str = "RR") -> tuple[pd.DataFrame, pd.DataFrame]:
    frame = pd.DataFrame({"query_id": range(len(differences)), "measure": measure, "value": 0.0})
    return frame, frame.assign(value=differences)


def required(spread: Pilot, effect: float, alpha: float = 0.05) -> int:
    """Return the smallest number of pairs with a power of 0.8."""
    low, high = 1, 2
    while spread.power(effect, high, alpha) < 0.8:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spread.power(effect, middle, alpha) < 0.8 else (low, middle)
    return high


LARGE = Pilot(40_000, 1.0, math.inf)  # a deviation that is all but known


@pytest.mark.parametrize(("effect", "n"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_textbook_numbers_without_bounds(effect: float, n: int) -> None:
    """Small, medium and large effects (Cohen 1988) as G*Power has them for a two-sided paired
    t-test, power 0.8.
    """
    assert required(LARGE, effect) == n


@pytest.mark.parametrize(
    ("effect", "n", "alpha"), [(0.1, 50, 0.05), (0.4, 12, 0.01), (0.3, 6, 0.1), (5.0, 30, 0.05)]
)
def test_power_without_bounds_is_that_of_statsmodels(effect: float, n: int, alpha: float) -> None:
    theirs = TTestPower().power(effect, n, alpha)
    assert Pilot(40_000, 1.0, math.inf).power(effect, n, alpha) == pytest.approx(theirs, abs=0.02)


def test_the_detectable_difference_has_the_given_power() -> None:
    nine = [0.0, 0.1, 0.2, 0.3, 0.0, 0.1, 0.2, 0.05, 0.15]
    spread = Pilot(9, float(np.std(nine, ddof=1)), 1.0)
    [smallest] = detectable([spread], 0.1)
    assert spread.power(smallest, 9, 0.1) == pytest.approx(POWER, abs=1e-4)
    assert Pilot(10_000, spread.deviation, 1.0).power(smallest, 9, 0.1) > 0.81, (
        "nine may be too narrow"
    )
    assert compare(*pilot(*nine), alpha=0.1).iloc[0]["mde"] == smallest


def test_power_is_expected_over_what_the_pilot_leaves_open() -> None:
    rng = np.random.default_rng(1)
    deviations = 1 / np.sqrt(rng.chisquare(9, 1000) / 9)
    powers = [Pilot(100_000, deviation, 8.0).power(0.5, 60, 0.05) for deviation in deviations]
    assert Pilot(10, 1.0, 8.0).power(0.5, 60, 0.05) == pytest.approx(np.mean(powers), abs=0.02)
    needed = [required(Pilot(n, 1.0, math.inf), 0.3) for n in (6, 20, 2000)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] == 90


@pytest.mark.parametrize(
    ("n", "effect", "differing"), [(8, 0.8, 0.8), (12, 0.4, 0.5), (30, 0.2, 0.3)]
)
def test_power_of_0_and_1_is_that_of_all_outcomes(n: int, effect: float, differing: float) -> None:
    """Every number of wins and losses, decided by the interval of `compare`, weighted by its
    probability.
    """
    outcomes = [(m, wins) for m in range(n + 1) for wins in range(m + 1)]
    parts = []
    for m, wins in outcomes:
        sorted_values = np.array([-1.0] * (m - wins) + [0.0] * (n - m) + [1.0] * wins)
        values = np.empty(n)  # neighbours do not resemble each other
        values[::2] = sorted_values[: (n + 1) // 2]
        values[1::2] = sorted_values[(n + 1) // 2 :][::-1]
        parts.append(Clustered(values, np.ones(n)))
    better = difference_intervals(parts, [Pilot(n, 1.0, 1.0, m) for m, _ in outcomes], 0.05).low > 0
    weights = [
        binom.pmf(m, n, differing) * binom.pmf(wins, m, (1 + effect / differing) / 2)
        for m, wins in outcomes
    ]
    certain = Pilot(10**9, 0.5, 1.0, int(differing * 10**9))
    assert certain.power(effect, n, 0.05) == pytest.approx(better @ weights, abs=1e-3)


def test_the_number_suffices_for_the_test_that_is_used() -> None:
    """1,000 experiments with skewed differences and the effect asked for; power 0.8 within its own
    noise.
    """
    rng = np.random.default_rng(0)
    differences = rng.choice([-0.25, 0.0, 0.0, 0.0, 0.25, 0.5], 4000)
    spread = Pilot(4000, float(differences.std(ddof=1)), 1.0)
    n = required(spread, 0.1)
    draws = rng.choice(differences - differences.mean() + 0.1, (1000, n))
    low = safe_intervals(list(draws), [1.0] * 1000, 0.05).low
    assert float((low > 0).mean()) == pytest.approx(0.8, abs=0.05)


def test_bounds_and_many_tests_cost_queries() -> None:
    free, bounded = Pilot(1000, 0.2, math.inf), Pilot(1000, 0.2, 1.0)
    costs = [(required(free, effect), required(bounded, effect)) for effect in (0.2, 0.05, 0.01)]
    assert [one < other for one, other in costs] == [True, True, False]
    assert costs[-1][1] == costs[-1][0], "nothing where there are many queries"
    assert required(LARGE, 0.2) < required(LARGE, 0.2, alpha=0.005)


@pytest.mark.parametrize(
    "differences", [(0.5,), (0.5, 0.5), (0.1, 0.5, 0.3, 0.2)], ids=["one", "alike", "too few"]
)
def test_where_nothing_can_be_detected_there_is_no_mde(differences: tuple[float, ...]) -> None:
    assert compare(*pilot(*differences)).iloc[0]["mde"] is pd.NA


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_power_without_bounds_is_that_of_students_test_of_few_pairs(n: int) -> None:
    expected = nct.sf(t.isf(0.025, n - 1), n - 1, 1.5 * math.sqrt(n))
    assert Pilot(10**7, 1.0, math.inf).power(1.5, n, 0.05) == pytest.approx(expected, abs=0.005)


def test_two_pairs_are_the_fewest() -> None:
    """Student's t with one degree of freedom may decide."""
    certain = Pilot(40_000, 1.0, math.inf)
    assert certain.power(20.0, 2, 0.05) == pytest.approx(
        nct.sf(t.isf(0.025, 1), 1, 20 * math.sqrt(2)), abs=0.005
    )
    two, one = Pilot(2, 1.0, math.inf), Pilot(1, math.nan, math.inf)
    assert np.isfinite(detectable([two, one])).tolist() == [True, False]


def test_a_pilot_of_0_and_1_leaves_the_rate_that_differs_open() -> None:
    """Two of six differ: the rate is that of a beta distribution with 2.5 and 4.5."""
    rates = np.maximum(beta.ppf((np.arange(200) + 0.5) / 200, 2.5, 4.5), 0.3)
    powers = [Pilot(10**9, 0.5, 1.0, int(rate * 10**9)).power(0.3, 30, 0.05) for rate in rates]
    assert Pilot(6, 0.5, 1.0, 2).power(0.3, 30, 0.05) == pytest.approx(np.mean(powers), abs=1e-3)


@pytest.mark.parametrize("difference", [0.0, 0.008, 0.015])
def test_the_number_that_shows_a_tie_takes_few_searches(
    difference: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    def counted(distances: Any, n: int, level: float, weight: float = 1.0) -> Any:
        searched.append(n)
        return critical_means_of(distances, n, level, weight)

    monkeypatch.setattr("ragbench.statistics.power.critical_means_of", counted)
    Pilot(1000, 0.4, 1.0).n_to_decide(difference, 0.02, 0.05)
    assert len({*searched}) <= 1, "Student's limit decides, the other one is computed once"
    searched.clear()
    Pilot(1000, 0.01, 1.0).n_to_decide(difference, 0.02, 0.05)
    assert len({*searched}) <= 16, "numbers of pairs; without a guess it takes 20"


@pytest.mark.parametrize("deviation", [0.002, 0.01, 0.03, 0.1, 0.3])
@pytest.mark.parametrize("difference", [0.0, 0.005, 0.015])
def test_the_smallest_number_within_the_margin_is_the_first(
    deviation: float, difference: float
) -> None:
    alpha = 0.01
    reach = 0.02

    def half_width(n: int) -> float:
        unseen = np.array([1.0 / deviation])
        whole = critical_means_of(unseen, n, alpha)[0] * deviation
        half = critical_means_of(unseen, n, alpha / 2, 0.5)[0] * deviation
        rule_of_three = 1 - alpha ** (1 / n)
        by_student = t.ppf(1 - alpha / 2, n - 1) * deviation / math.sqrt(n)
        return float(max(min(whole, half), rule_of_three, by_student))

    n = Pilot(50, deviation, 1.0).n_to_decide(difference, reach, alpha)
    by_difference = Pilot(50, deviation, math.inf).n_to_decide(difference, reach, alpha)
    assert n <= by_difference
    assert difference + half_width(n - 1) >= reach
    if n < by_difference:
        assert difference + half_width(n) < reach


def test_the_rule_of_three_limits_what_equal_differences_can_show() -> None:
    """Of 40 all but equal differences a loss of .05^(-1/40) - 1 may be missing, in units of the range."""
    [detected] = detectable([Pilot(40, 1e-9, 1.0)], 0.05)
    assert detected == pytest.approx(0.05 ** (-1 / 40) - 1, abs=1e-5)
