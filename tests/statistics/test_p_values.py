"""Adjusted p-values are those of statsmodels, for any p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from ragbench.statistics.columns import CORRECTIONS, adjusted_p_values


@settings(deadline=None, max_examples=30)
@given(
    p_values=st.lists(st.floats(0, 1), min_size=1, max_size=12),
    correction=st.sampled_from(CORRECTIONS[:-1]),
)
def test_as_statsmodels_adjusts(p_values: list[float], correction: str) -> None:
    expected = multipletests(p_values, method=correction)[1]
    np.testing.assert_allclose(
        adjusted_p_values(p_values, correction), expected, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_untested_questions_are_not_reported(correction: str) -> None:
    alone = adjusted_p_values([0.01, 0.04], correction)
    with_nan = adjusted_p_values([0.01, math.nan, 0.04], correction)
    assert with_nan[[0, 2]].tolist() == alone.tolist()
    assert math.isnan(with_nan[1])
    assert adjusted_p_values([], correction).tolist() == []


def test_by_hand() -> None:
    assert adjusted_p_values([0.04, 0.01, 0.03], "holm").tolist() == pytest.approx(
        [0.06, 0.03, 0.06]
    )
    assert adjusted_p_values([0.4, 0.9], "bonferroni").tolist() == pytest.approx([0.8, 1.0])
    assert adjusted_p_values([0.01, 0.04], "none").tolist() == [0.01, 0.04]
