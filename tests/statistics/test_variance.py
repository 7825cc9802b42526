"""Variance components: a published nested design, simulation, coverage; and the price of a narrower interval."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.statistics import Costs, summarise_samples, variance_reduction


def nested(values: np.ndarray) -> pd.DataFrame:
    """From an array (queries, generations, judge samples)."""
    index = pd.MultiIndex.from_product(
        [range(n) for n in values.shape], names=["query_id", "generation", "judge_sample"]
    )
    return pd.Series(values.ravel(), index, name="value").reset_index()


TURNIPS = np.array(
    [
        [[3.28, 3.09], [3.52, 3.48], [2.88, 2.80]],
        [[2.46, 2.44], [1.87, 1.92], [2.19, 2.19]],
        [[2.77, 2.66], [3.74, 3.44], [2.55, 2.55]],
        [[3.78, 3.87], [4.07, 4.12], [3.31, 3.31]],
    ]
)


def test_calcium_in_turnip_leaves() -> None:
    """Snedecor & Cochran, Statistical Methods: 4 plants, 3 leaves of each, 2 determinations of each."""
    found = summarise_samples(nested(TURNIPS))
    assert found.components["source"].tolist() == ["query", "generation", "judge sample"]
    assert found.components["variance"].tolist() == pytest.approx([0.365223, 0.161060, 0.006654], abs=1e-6)
    assert found.mean == pytest.approx(3.0121, abs=5e-5)
    in_mean = 0.3652 / 4 + 0.1610 / 12 + 0.0067 / 24  # = MS of plants / 24 = 7.5603 / 3 / 24
    assert found.components["in_mean"].sum() == pytest.approx(in_mean, abs=5e-5)
    assert found.components["in_mean"].sum() == pytest.approx(7.5603 / 3 / 24, abs=5e-5)


def simulated(rng: np.random.Generator, shape: tuple[int, int, int], sd: tuple[float, float, float]) -> np.ndarray:
    q, g, j = shape
    values: np.ndarray = (
        0.5 + rng.normal(0, sd[0], (q, 1, 1)) + rng.normal(0, sd[1], (q, g, 1)) + rng.normal(0, sd[2], (q, g, j))
    )
    return values


def test_components_are_found_again_also_where_samples_are_missing() -> None:
    rng = np.random.default_rng(0)
    frame = nested(simulated(rng, (1500, 3, 3), (0.3, 0.2, 0.1)))
    frame.loc[rng.random(len(frame)) < 0.3, "value"] = None
    found = summarise_samples(frame, n_resamples=100).components["variance"]
    assert found.tolist() == pytest.approx([0.09, 0.04, 0.01], rel=0.1)


def test_a_level_without_repetition_is_unknown_and_inside_the_one_above() -> None:
    rng = np.random.default_rng(1)
    found = summarise_samples(nested(simulated(rng, (2000, 1, 1), (0.3, 0.2, 0.1))), n_resamples=100)
    variance = found.components["variance"].tolist()
    assert variance[0] == pytest.approx(0.14, rel=0.1)
    assert variance[1:] == [pd.NA, pd.NA]
    assert found.rerun_low is None
    options = variance_reduction(found, Costs()).set_index("option")["half_width"]
    assert options["twice the answers"] is pd.NA
    assert options["another judge"] is pd.NA


def test_the_interval_covers_with_the_noise_of_answers_and_verdicts() -> None:
    """300 experiments; drawing answers and verdicts again, too, would count their noise twice and cover 99 %."""
    rng = np.random.default_rng(2)
    covered = 0
    for seed in range(300):
        values = simulated(rng, (60, 2, 2), (0.1, 0.2, 0.2))
        found = summarise_samples(nested(values), n_resamples=200, seed=seed)
        assert found.ci_low is not None
        assert found.ci_high is not None
        covered += found.ci_low <= 0.5 <= found.ci_high
    assert covered / 300 == pytest.approx(0.95, abs=0.04)


def test_where_a_rerun_of_the_same_questions_falls() -> None:
    rng = np.random.default_rng(3)
    own = rng.normal(0, 0.3, (50, 1, 1))
    inside = 0
    for _ in range(200):
        first, second = (own + rng.normal(0, 0.2, (50, 2, 1)) + rng.normal(0, 0.1, (50, 2, 2)) for _ in range(2))
        found = summarise_samples(nested(first), n_resamples=100)
        assert found.rerun_low is not None
        assert found.rerun_high is not None
        inside += found.rerun_low <= second.mean() <= found.rerun_high
    assert inside / 200 == pytest.approx(0.95, abs=0.05)


def test_two_judges_that_differ_as_a_whole() -> None:
    rng = np.random.default_rng(4)
    values = simulated(rng, (400, 2, 2), (0.2, 0.1, 0.1))
    values[:, :, 1] += 0.3
    frame = nested(values)
    frame["judge"] = frame["judge_sample"].map({0: "mild", 1: "strict"})
    found = summarise_samples(frame, n_resamples=100).components.set_index("source")
    assert found.loc["judge", "variance"] == pytest.approx(0.3**2 / 2, rel=0.15)
    assert found.loc["judge sample", "variance"] == pytest.approx(0.01, rel=0.2)
    assert found.loc["judge", "per_query"] == 2.0


def test_variance_reduction_and_its_cost() -> None:
    found = summarise_samples(nested(TURNIPS))
    costs = Costs(generation_usd=0.10, judgement_usd=0.01, generation_s=6.0, judgement_s=3.0, at_once=2)
    table = variance_reduction(found, costs).set_index("option")
    now = 1.959964 * np.sqrt(0.36523 / 4 + 0.16106 / 12 + 0.006654 / 24)
    assert table.loc["as it is", "half_width"] == pytest.approx(now, rel=1e-3)
    assert table.loc["twice the queries", "half_width"] == pytest.approx(now / np.sqrt(2), rel=1e-3)
    assert table.loc["twice the answers", "half_width"] == pytest.approx(
        1.959964 * np.sqrt(0.36523 / 4 + 0.16106 / 24 + 0.006654 / 48), rel=1e-3
    )
    # 12 more answers, and 24 more verdicts; twice the verdicts: 24 more
    assert table[["usd", "minutes"]].loc["twice the answers"].to_numpy().tolist() == pytest.approx(
        [1.44, (72 + 72) / 120]
    )
    assert table[["usd", "minutes"]].loc["twice the queries"].to_numpy().tolist() == pytest.approx(
        [1.44, (72 + 72) / 120]
    )
    assert table[["usd", "minutes"]].loc["twice the verdicts"].to_numpy().tolist() == pytest.approx([0.24, 72 / 120])
    assert table.loc["another judge", "usd"] == pytest.approx(0.24)
    assert table.index.tolist() == [
        "twice the queries",
        "twice the answers",
        "twice the verdicts",
        "another judge",
        "as it is",
    ]
    assert table.loc["twice the queries", "narrower_per_usd"] == pytest.approx((1 - np.sqrt(0.5)) / 1.44)


def test_one_query_has_no_interval() -> None:
    found = summarise_samples(nested(TURNIPS[:1]))
    assert (found.ci_low, found.ci_high, found.n_queries) == (None, None, 1)
    assert found.components["variance"].tolist()[0] is pd.NA


def test_refusals() -> None:
    frame = nested(TURNIPS)
    with pytest.raises(DataError, match="lacking: \\['judge_sample'\\]"):
        summarise_samples(frame.drop(columns="judge_sample"))
    with pytest.raises(DataError, match="is repeated"):
        summarise_samples(pd.concat([frame, frame.head(1)]))
    with pytest.raises(DataError, match="no value is scored"):
        summarise_samples(frame.assign(value=None))
    with pytest.raises(ConfigError, match="costs are numbers from 0"):
        variance_reduction(summarise_samples(frame), Costs(generation_usd=-1.0))
