"""Adjusted p-values are those of statsmodels, for any p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from ragbench.statistics import adjusted_p_values


@pytest.mark.parametrize("n", range(1, 13))
def test_as_statsmodels_adjusts(n: int) -> None:
    rng = np.random.default_rng(n)
    for values in (rng.random(n), rng.random(n) ** 8, rng.integers(0, 3, n) / 2):
        expected = multipletests(values, method="holm")[1]
        np.testing.assert_allclose(adjusted_p_values(values), expected, rtol=1e-12, atol=1e-15)


def test_untested_questions_are_not_counted() -> None:
    with_nan = adjusted_p_values([0.01, math.nan, 0.04])
    assert with_nan[[0, 2]].tolist() == adjusted_p_values([0.01, 0.04]).tolist()
    assert math.isnan(with_nan[1])
    assert adjusted_p_values([]).tolist() == []


def test_by_hand() -> None:
    assert adjusted_p_values([0.04, 0.01, 0.03]).tolist() == pytest.approx([0.06, 0.03, 0.06])
    assert adjusted_p_values([0.4, 0.9]).tolist() == pytest.approx([0.8, 0.9])
