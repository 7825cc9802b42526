"""McNemar's exact test: published examples, and that it is the exact sign-flip test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from ragbench.errors import ComparisonError, ConfigError, DataError
from ragbench.statistics import compare, mcnemar
from ragbench.statistics.intervals import randomisation_p_values


def scores(values: object, measure: str = "Success@5") -> pd.DataFrame:
    return pd.DataFrame({"measure": measure, "value": values}).rename_axis("query_id").reset_index()


def of_counts(both: int, first: int, second: int, neither: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    return (
        scores([1.0] * both + [1.0] * first + [0.0] * second + [0.0] * neither),
        scores([1.0] * both + [0.0] * first + [1.0] * second + [0.0] * neither),
    )


def test_children_before_and_after_a_transplantation() -> None:
    """Bentur et al. 2009 as in Fagerland, Lydersen & Laake 2013: exact conditional p = 0.070."""
    row = mcnemar(*of_counts(1, 1, 7, 12)).iloc[0]
    assert row[["both", "baseline_only", "contender_only", "neither", "n", "n_unpaired"]].tolist() == [
        1,
        1,
        7,
        12,
        21,
        0,
    ]
    assert row["difference"] == pytest.approx(6 / 21)
    assert row["p_value"] == pytest.approx(2 * 9 / 256)


def test_approval_of_a_prime_minister() -> None:
    """Agresti, Categorical Data Analysis, table 10.1: 794 86 / 150 570."""
    before, after = of_counts(794, 86, 150, 570)
    expected = statsmodels_mcnemar([[794, 86], [150, 570]], exact=True).pvalue
    assert mcnemar(before, after).iloc[0]["p_value"] == pytest.approx(expected, rel=1e-9)
    assert compare(before, after).iloc[0]["p_value"] == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=13))
def test_it_is_the_exact_sign_flip_test(differences: list[float]) -> None:
    before = scores([1.0 if d < 0 else 0.0 for d in differences])
    after = scores([1.0 if d > 0 else 0.0 for d in differences])
    flipped = randomisation_p_values([np.array(differences)], 10_000, 0)[0]
    assert mcnemar(before, after).iloc[0]["p_value"] == pytest.approx(flipped, abs=1e-12)


def test_only_binary_measures_are_tested() -> None:
    before = pd.concat([scores([1.0, 0.0, 1.0]), scores([0.5, 0.0, 1.0], "RR")])
    after = pd.concat([scores([1.0, 1.0, 1.0]), scores([0.5, 1.0, 1.0], "RR")])
    assert mcnemar(before, after)["measure"].tolist() == ["Success@5"]
    with pytest.raises(DataError, match="values of 0 and 1; 'RR' has others"):
        mcnemar(before, after, measures=["RR"])
    with pytest.raises(DataError, match="'RR' has others"):
        mcnemar(scores([0.5], "RR"), scores([1.0], "RR"))


def test_unscored_pairs_are_left_out_and_counted() -> None:
    row = mcnemar(scores([1.0, None, 0.0]), scores([0.0, 1.0, 0.0])).iloc[0]
    assert row[["n", "n_unpaired", "p_value"]].tolist() == [2, 1, 1.0]
    nothing = mcnemar(scores([None, 1.0]), scores([1.0, None])).iloc[0]
    assert all(nothing[name] is pd.NA for name in ("difference", "ci_low", "p_value"))


def test_refusals() -> None:
    with pytest.raises(ComparisonError, match="do not have the same queries"):
        mcnemar(scores([1.0]), scores([1.0, 0.0]))
    with pytest.raises(ConfigError, match="unknown measure 'Succes@5'; did you mean 'Success@5'"):
        mcnemar(scores([1.0]), scores([1.0]), measures=["Succes@5"])
