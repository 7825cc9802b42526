"""McNemar's exact test and Tango's interval: published examples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from ragbench.statistics import compare, mcnemar_p_value
from ragbench.statistics.intervals import score_interval


def test_children_before_and_after_a_transplantation() -> None:
    """Bentur et al. 2009 as in Fagerland, Lydersen & Laake 2013: exact conditional p = 0.070."""
    assert mcnemar_p_value(1, 7) == pytest.approx(2 * 9 / 256)


def test_approval_of_a_prime_minister() -> None:
    """Agresti, Categorical Data Analysis, table 10.1: 794 86 / 150 570; the score test of McNemar
    is z = 4.17.
    """
    expected = statsmodels_mcnemar([[794, 86], [150, 570]], exact=True).pvalue
    assert mcnemar_p_value(86, 150) == pytest.approx(expected, rel=1e-9)
    both, p = (
        [1] * 794 + [0] * 570,
        statsmodels_mcnemar([[794, 86], [150, 570]], exact=False, correction=False).pvalue,
    )
    order = np.random.default_rng(0).permutation(1600)  # people in no order
    first = np.array([*both, *[1] * 86, *[0] * 150])[order]
    second = np.array([*both, *[0] * 86, *[1] * 150])[order]
    frame = pd.DataFrame({"query_id": range(1600), "measure": "Success@5", "value": first})
    row = compare(frame, frame.assign(value=second)).iloc[0]
    assert (row["interval"], row["p_value"]) == ("score", pytest.approx(p, rel=1e-9))
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((0.0213, 0.0589), abs=2e-4)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 400), st.floats(0.001, 0.5))
def test_the_score_interval_excludes_0_where_its_p_is_below_alpha(
    wins: int, losses: int, ties: int, alpha: float
) -> None:
    low, high, p = score_interval(wins, losses, n := wins + losses + ties, alpha)
    assert -1 <= low < (wins - losses) / n < high <= 1
    if abs(p - alpha) > 1e-9:
        assert (p < alpha) == (low > 0 or high < 0)
