"""How many queries: G*Power's textbook number, statsmodels, and simulation with the test that is really used."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.power import TTestPower

from ragbench.errors import ConfigError
from ragbench.statistics import compare, required_queries
from ragbench.statistics.power import _powers, expected_power


def power_of(ratio: float, n: int, alpha: float) -> float:
    """Power of the two-sided paired t-test of an effect of `ratio` standard deviations."""
    return float(_powers(np.array([ratio]), n, alpha)[0])


def pilot(*differences: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    frame = pd.DataFrame({"query_id": range(len(differences)), "measure": "RR", "value": 0.0})
    return frame, frame.assign(value=differences)


UNIT = pilot(-1.0, 0.0, 1.0)  # standard deviation 1
LARGE = pilot(*([-1.0, 1.0] * 20_000))  # the same, all but known


@pytest.mark.parametrize(("effect", "n"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_textbook_numbers(effect: float, n: int) -> None:
    """Small, medium and large effects (Cohen 1988) as G*Power has them for a two-sided paired t-test, power 0.8."""
    assert required_queries(*LARGE, effect).iloc[0]["required"] == n
    assert required_queries(*LARGE, -effect).iloc[0]["required"] == n


@pytest.mark.parametrize(("effect", "n", "alpha"), [(0.1, 50, 0.05), (0.4, 12, 0.01), (0.3, 3, 0.1), (5.0, 30, 0.05)])
def test_power_is_that_of_statsmodels(effect: float, n: int, alpha: float) -> None:
    theirs = TTestPower().power(effect, n, alpha)
    assert power_of(effect, n, alpha) == pytest.approx(theirs, abs=1e-9)


def test_the_detectable_difference_has_the_given_power() -> None:
    seven = pilot(-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0)
    row = required_queries(*seven, 0.5, power=0.9, alpha=0.1).iloc[0]
    ratio = row["detectable"] / row["deviation"]
    assert expected_power(ratio, 7, 6 / 64, pilot=7) == pytest.approx(0.9, abs=1e-9)
    assert power_of(ratio, 7, 6 / 64) > 0.93, "the deviation of seven pairs may be too small"
    assert required_queries(*seven, float(row["detectable"]) * 1.0001, power=0.9, alpha=0.1).iloc[0]["required"] == 7


def test_power_is_expected_over_what_the_pilot_leaves_open() -> None:
    rng = np.random.default_rng(1)
    deviations = np.sqrt(rng.chisquare(9, 4000) / 9)
    powers = [power_of(0.5 * deviation, 40, 0.05) for deviation in deviations]
    assert expected_power(0.5, 40, 0.05, pilot=10) == pytest.approx(np.mean(powers), abs=0.01)
    needed = [int(required_queries(*pilot(*([-1.0, 1.0] * half)), 0.3).iloc[0]["required"]) for half in (3, 10, 1000)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] == 90


def test_the_number_suffices_for_the_test_that_is_used() -> None:
    """1,000 experiments with skewed differences and the effect asked for; power 0.8 within its own noise."""
    rng = np.random.default_rng(0)
    differences = rng.choice([-0.5, 0.0, 0.0, 0.0, 0.5, 1.0], 4000)
    before, after = pilot(*(differences - differences.mean()))
    n = int(required_queries(before, after, 0.15).iloc[0]["required"])
    draws = rng.choice(differences - differences.mean() + 0.15, (1000, n))
    rows = pd.DataFrame({"query_id": np.tile(np.arange(n), 1000), "measure": np.repeat(np.arange(1000), n)})
    table = compare(rows.assign(value=0.0), rows.assign(value=draws.ravel()), n_resamples=1000, correction="none")
    found = float((table["p_value"] < 0.05).mean())
    assert found == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 1000))


def test_never_fewer_than_the_sign_flip_test_can_decide_with() -> None:
    """2 / 2**n is its smallest p: 2 / 2**6 < 0.05 < 2 / 2**5."""
    assert required_queries(*LARGE, 50.0).iloc[0]["required"] == 6
    assert required_queries(*LARGE, 50.0, n_tests=10).iloc[0]["required"] == 9
    assert required_queries(*LARGE, 0.2, n_tests=10).iloc[0]["required"] > 199
    assert required_queries(*UNIT, 0.2).iloc[0]["detectable"] is pd.NA, "three pairs decide nothing"
    five, six = pilot(-1.0, -1.0, 0.0, 1.0, 1.0), pilot(-1.0, -1.0, -1.0, 1.0, 1.0, 1.0)
    assert required_queries(*five, 0.2).iloc[0]["detectable"] is pd.NA
    row = required_queries(*six, 0.2).iloc[0]
    assert expected_power(row["detectable"] / row["deviation"], 6, 1 / 32, pilot=6) == pytest.approx(0.8, abs=1e-9)
    with pytest.raises(ConfigError, match="n_tests is 0"):
        required_queries(*UNIT, 0.2, n_tests=0)


def test_edges() -> None:
    alone = required_queries(*pilot(0.5), 0.1).iloc[0]
    assert all(alone[name] is pd.NA for name in ("deviation", "required", "detectable"))
    same = required_queries(*pilot(0.5, 0.5), 0.1).iloc[0]
    assert same["deviation"] == 0.0
    assert same["required"] is pd.NA, "a pilot without spread does not estimate the spread of other queries"
    assert same["detectable"] is pd.NA
    assert required_queries(*UNIT, 1e-6).iloc[0]["required"] is pd.NA


@pytest.mark.parametrize(
    ("effect", "power", "message"),
    [
        (0.0, 0.8, "effect is 0.0"),
        (float("nan"), 0.8, "effect is nan"),
        (0.1, 1.0, "power is 1.0"),
        (0.1, 0.01, "alpha"),
    ],
)
def test_wrong_settings_are_named(effect: float, power: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        required_queries(*UNIT, effect, power)
