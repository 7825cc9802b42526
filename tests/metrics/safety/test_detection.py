"""Areas and rates of detectors, by hand and against other implementations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.array_types import Floats
from ragbench.metrics.rates import wilson_interval
from ragbench.metrics.safety.detection import auc_interval, roc_auc, tpr_at_fpr

SIX = [True, True, True, False, False, False]


def split(harmful: Sequence[bool], scores: Sequence[float]) -> tuple[Floats, Floats]:
    labels, values = np.array(harmful), np.array(scores)
    return values[labels], values[~labels]


def test_auc_of_six_points_by_hand() -> None:
    # pairs won: 0.9 beats 3; 0.6 beats 0.5 and 0.2, ties 0.6; 0.3 beats 0.2 -> (3 + 2.5 + 1) / 9
    assert roc_auc(*split(SIX, [0.9, 0.6, 0.3, 0.6, 0.5, 0.2])) == pytest.approx(6.5 / 9)


def test_auc_of_constant_scores_is_a_half() -> None:
    assert roc_auc(*split(SIX, [0.4] * 6)) == 0.5


def test_auc_needs_both_kinds() -> None:
    assert math.isnan(roc_auc(*split([True, True], [0.1, 0.2])))
    assert math.isnan(tpr_at_fpr(*split([False], [0.1]), 0.05))
    assert math.isnan(auc_interval(*split([True, False], [0.1, 0.2]))[0])


def test_tpr_at_fpr_does_not_split_ties() -> None:
    # the best harmless text scores 0.6, and with three harmless ones no false positive is allowed
    # at 1 %
    assert tpr_at_fpr(*split(SIX, [0.9, 0.6, 0.3, 0.6, 0.5, 0.2]), 0.01) == pytest.approx(1 / 3)
    # one of three allowed: above 0.5 are 0.9 and 0.6
    assert tpr_at_fpr(*split(SIX, [0.9, 0.6, 0.3, 0.6, 0.5, 0.2]), 0.34) == pytest.approx(2 / 3)
    # a tie at the limit: both harmless 0.6 would be found, so the threshold lies above them
    assert tpr_at_fpr(*split(SIX, [0.9, 0.6, 0.3, 0.6, 0.6, 0.2]), 0.34) == pytest.approx(1 / 3)


def test_tpr_at_exactly_one_in_a_hundred() -> None:
    scores = [0.5, 0.7] + [0.6] + [0.1] * 99
    assert tpr_at_fpr(*split([True] * 2 + [False] * 100, scores), 0.01) == 1.0
    assert tpr_at_fpr(*split([True] * 2 + [False] * 99, scores[:-1]), 0.01) == 0.5
    assert tpr_at_fpr(*split([True] * 2 + [False] * 100, scores), 1.0) == 1.0


def test_delong_by_hand() -> None:
    # harmful 3, 1; harmless 2, 0: placements of harmful 1, 1/2; of harmless 1/2, 1; both variances
    # 1/8
    area, variance = 0.75, 2 * (0.125 / 2)
    spread = 1.959963984540054 * math.sqrt(variance) / (area * (1 - area))
    logit = math.log(area / (1 - area))
    low, high = auc_interval(*split([True, True, False, False], [0.3, 0.1, 0.2, 0.0]))
    assert low == pytest.approx(1 / (1 + math.exp(spread - logit)))
    assert high == pytest.approx(1 / (1 + math.exp(-spread - logit)))


def test_a_perfect_area_still_has_an_interval() -> None:
    low, high = auc_interval(*split([True] * 10 + [False] * 10, [0.9] * 10 + [0.1] * 10))
    assert 0.6 < low < 1.0
    assert low < high <= 1.0


def test_delong_interval_covers_as_often_as_its_level() -> None:
    rng = np.random.default_rng(0)
    truth = 0.7602499389065233  # two unit normals one apart: Phi(1 / sqrt 2)
    hits = 0
    for _ in range(200):
        scores = np.concatenate([rng.normal(1, 1, 40), rng.normal(0, 1, 40)])
        low, high = auc_interval(*split([True] * 40 + [False] * 40, scores.tolist()))
        hits += low <= truth <= high
    assert 180 <= hits <= 200


def test_wilson_by_hand() -> None:
    # 1 of 4: centre (p + z2/2n) / (1 + z2/n), half z/(1 + z2/n) * sqrt(p(1-p)/n + z2/4n2)
    z2 = 1.959963984540054**2
    centre = (0.25 + z2 / 8) / (1 + z2 / 4)
    half = math.sqrt(z2) / (1 + z2 / 4) * math.sqrt(0.25 * 0.75 / 4 + z2 / 64)
    assert wilson_interval(1, 4) == pytest.approx((centre - half, centre + half))
    assert wilson_interval(0, 5)[0] == 0.0
    assert all(math.isnan(end) for end in wilson_interval(0, 0))


def test_wilson_as_statsmodels_has_it() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for n in (1, 2, 7, 40, 1000):
        for count in {0, 0.3, 1, n / 3, n / 2, n - 0.5, n}:
            expected = proportion_confint(count, n, method="wilson")
            assert wilson_interval(count, n) == pytest.approx(expected, abs=1e-12), (count, n)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])),
        min_size=2,
        max_size=30,
    )
)
def test_area_is_mirrored_and_inside_its_interval(pairs: list[tuple[bool, float]]) -> None:
    labels, scores = [label for label, _ in pairs], [score for _, score in pairs]
    area = roc_auc(*split(labels, scores))
    if not math.isnan(area):
        assert roc_auc(*split([not label for label in labels], scores)) == pytest.approx(1 - area)
        assert (
            0
            <= tpr_at_fpr(*split(labels, scores), 0.05)
            <= tpr_at_fpr(*split(labels, scores), 0.5)
            <= 1
        )
        low, high = auc_interval(*split(labels, scores))
        assert math.isnan(low) or 0 <= low <= high <= 1
