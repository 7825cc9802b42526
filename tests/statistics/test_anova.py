"""Variance shares: statsmodels' repeated-measures ANOVA and type II sums of squares; error rates;
refusals.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f
from statsmodels.formula.api import ols
from statsmodels.stats.anova import AnovaRM, anova_lm

from ragbench.errors import ComparisonError, ConfigError
from ragbench.evaluation import Result
from ragbench.statistics import anova as anova_of_results


def grid(n: int, seed: int = 0, *, effect: float = 0.3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for query, hard in enumerate(rng.normal(0, 0.5, n)):
        for retriever, size in itertools.product(["bm25", "dense", "hybrid"], [128, 512]):
            value = (
                hard + effect * (retriever == "dense") + 0.1 * (size == 512) + rng.normal(0, 0.2)
            )
            rows.append((f"q{query}", retriever, size, value))
    return pd.DataFrame(rows, columns=["query_id", "retriever", "size", "value"])


def anova(frame: pd.DataFrame) -> pd.DataFrame:
    """Variance of a frame with the columns query_id, value and one per factor."""
    factors = [name for name in frame if name not in {"query_id", "value"}]
    found = []
    for i, (levels, part) in enumerate(frame.groupby(factors, sort=False)):
        parameters = dict(zip(factors, levels, strict=True))
        scores = part[["query_id", "value"]].assign(measure="m")
        found.append(Result(f"c{i}", {"parameters": parameters}, {}, scores))
    return anova_of_results(found, measure="m")


def test_as_statsmodels_has_repeated_measures() -> None:
    frame = grid(20)
    table = anova(frame).set_index("source")
    theirs = AnovaRM(frame, "value", "query_id", within=["retriever", "size"]).fit().anova_table
    names = {
        "retriever": "retriever",
        "size": "size",
        "retriever:size": "interactions of the parameters",
    }
    for name, own in names.items():
        assert table.loc[own, "f"] == pytest.approx(theirs.loc[name, "F Value"], rel=1e-9)
        epsilon = float(table["epsilon"][own])
        assert 1 / theirs.loc[name, "Num DF"] <= epsilon <= 1
        own_df = epsilon * theirs.loc[name, ["Num DF", "Den DF"]].to_numpy()
        assert table.loc[own, "p_value"] == pytest.approx(
            f.sf(theirs.loc[name, "F Value"], *own_df), rel=1e-6
        )
        assert table.loc[own, "df"] == theirs.loc[name, "Num DF"]


def test_epsilon_is_that_of_greenhouse_and_geisser() -> None:
    """From the covariances of the configurations, centred on both sides (Greenhouse & Geisser 1959,
    equation 3.4).
    """
    frame = grid(20).query("size == 128")
    wide = frame.pivot(index="query_id", columns="retriever", values="value")
    s, k = wide.cov().to_numpy(), wide.shape[1]
    top = k**2 * (np.diag(s).mean() - s.mean()) ** 2
    below = (k - 1) * ((s**2).sum() - 2 * k * (s.mean(axis=1) ** 2).sum() + k**2 * s.mean() ** 2)
    row = anova(frame.drop(columns="size")).set_index("source").loc["retriever"]
    assert row["epsilon"] == pytest.approx(top / below, rel=1e-9)


def test_one_noisy_configuration_is_not_an_effect() -> None:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        values = rng.normal(0, [[0.1, 0.1, 0.1, 0.6]], (12, 4))
        rows = [(f"q{q}", name, values[q, i]) for q in range(12) for i, name in enumerate("abcd")]
        table = anova(pd.DataFrame(rows, columns=["query_id", "retriever", "value"])).set_index(
            "source"
        )
        found.append(table.loc["retriever", "p_value"])
    assert (
        np.mean(np.array(found) < 0.05) <= 0.085
    )  # 0.05 and twice its error; .13 without the correction


def test_type_two_sums_of_squares_of_a_grid_with_holes() -> None:
    frame = grid(15)
    frame = frame[~((frame["retriever"] == "hybrid") & (frame["size"] == 128))]
    frame = frame[~((frame["retriever"] == "bm25") & (frame["size"] == 512))]
    table = anova(frame).set_index("source")["sum_of_squares"]
    theirs = anova_lm(ols("value ~ C(query_id) + C(retriever) + C(size)", frame).fit(), typ=2)[
        "sum_sq"
    ]
    assert table["retriever"] == pytest.approx(theirs["C(retriever)"], rel=1e-9)
    assert table["size"] == pytest.approx(theirs["C(size)"], rel=1e-9)


def test_shares_of_a_full_grid_add_up() -> None:
    table = anova(grid(20)).set_index("source")
    assert table["share"].sum() == pytest.approx(1.0)
    means = grid(20).groupby(["retriever", "size"])["value"].mean()
    assert table["sum_of_squares"].sum() == pytest.approx(20 * ((means - means.mean()) ** 2).sum())
    assert table["df"].sum() == 6 - 1


def test_a_parameter_without_effect_is_called_one_in_twenty_times() -> None:
    p_values = [
        anova(grid(12, seed, effect=0.0)).set_index("source").loc["retriever", "p_value"]
        for seed in range(200)
    ]
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.045)


def results(settings: list[dict[str, Any]], seed: int = 0) -> list[Result]:
    rng = np.random.default_rng(seed)
    frames = []
    for i, own in enumerate(settings):
        scores = pd.DataFrame(
            {"query_id": [f"q{j}" for j in range(10)], "measure": "RR", "value": rng.random(10)}
        )
        frames.append(Result(f"c{i}", {"parameters": own}, {}, scores))
    return frames


def test_a_sweep_is_split_by_the_parameters_that_vary() -> None:
    settings = [
        {"retriever": retriever, "k": k, "seed": 0, "chunk_size": 128}
        for retriever in ("bm25", "dense")
        for k in (1, 5)
    ]
    table = anova_of_results(results(settings), measure="RR")
    assert table["source"].tolist() == [
        "retriever",
        "k",
        "interactions of the parameters",
    ]


def test_parameters_that_vary_together_are_one() -> None:
    settings = [
        {"chunker": chunker, "chunk_size": size, "retriever": retriever}
        for chunker, size in (("fixed", 128), ("fixed", 512), ("recursive", 256))
        for retriever in ("bm25", "dense")
    ]
    table = anova_of_results(results(settings), measure="RR").set_index("source")
    assert table.index.tolist()[:2] == ["chunker + chunk_size", "retriever"]
    assert table.loc["chunker + chunk_size", "df"] == 2
    assert table["share"].sum() == pytest.approx(1.0)


def test_a_parameter_that_two_others_determine_together_has_no_numbers() -> None:
    settings = [
        {"a": 0, "b": 0, "c": "x"},
        {"a": 0, "b": 1, "c": "y"},
        {"a": 1, "b": 0, "c": "y"},
        {"a": 1, "b": 1, "c": "x"},
    ]
    table = anova_of_results(
        results([*settings, *({**own, "d": 1} for own in settings)]), measure="RR"
    ).set_index("source")
    assert table.loc["c", "df"] == 1  # the contrast a x b: free in a model without interactions
    three = [{"a": 0, "b": 0, "c": 0}, {"a": 1, "b": 0, "c": 1}, {"a": 0, "b": 1, "c": 1}]
    table = anova_of_results(results(three), measure="RR").set_index("source")
    assert table.loc["c", "df"] == 0
    assert table.loc["c", ["sum_of_squares", "share", "p_value"]].isna().all()


def test_queries_that_not_all_have_scored_are_out() -> None:
    some = results([{"k": 1}, {"k": 5}])
    some[0].scores.loc[3, "value"] = None
    assert anova_of_results(some, measure="RR")["n"].tolist() == [9] * 2


def test_no_difference_at_all_has_no_shares() -> None:
    flat = grid(4).assign(value=0.5)
    table = anova(flat)
    assert table["share"].isna().all()
    assert table["p_value"].isna().all()


def test_refusals() -> None:
    two = results([{"k": 1}, {"k": 5}])
    with pytest.raises(ConfigError, match="unknown measure 'RRR'; did you mean 'RR'"):
        anova_of_results(two, measure="RRR")
    with pytest.raises(ConfigError, match="no parameter varies"):
        anova_of_results(results([{"k": 1}, {"k": 1}]), measure="RR")
    other = two[1].scores.assign(query_id=[f"x{i}" for i in range(10)])
    with pytest.raises(ComparisonError, match="same queries"):
        anova_of_results([two[0], Result("c1", {"parameters": {"k": 5}}, {}, other)], measure="RR")
