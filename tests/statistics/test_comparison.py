"""Paired comparisons: hand-computed numbers, parity with scipy and statsmodels, refusals, error
rates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from ragbench.errors import ComparisonError, ConfigError, DataError, DataWarning
from ragbench.statistics import compare, compare_all
from ragbench.statistics.columns import tables_of


def scores(**measures: Any) -> pd.DataFrame:
    rows = [
        (f"q{i}", name, value)
        for name, values in measures.items()
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"])


def row(before: Any, after: Any, **options: Any) -> pd.Series[Any]:
    return compare(scores(m=before), scores(m=after), **options).iloc[0]


def test_hand_computed() -> None:
    result = row([0.0, 0.5, 0.5, 1.0], [1.0, 0.5, 1.0, 0.5])  # differences 1, 0, .5, -.5
    assert result["baseline"] == 0.5
    assert result["contender"] == 0.75
    assert result["difference"] == 0.25
    assert result[["wins", "ties", "losses", "n"]].tolist() == [2, 1, 1, 4]
    deviation = math.sqrt((0.75**2 + 0.25**2 + 0.25**2 + 0.75**2) / 3)
    assert result["effect_size"] == pytest.approx(0.25 / deviation)
    assert result["mde"] is pd.NA, "four queries decide nothing"


def test_columns() -> None:
    result = compare(scores(a=[1.0, 0.0], b=[0.0, 0.0]), scores(a=[1.0, 0.0], b=[0.0, 1.0]))
    assert ", ".join(result.columns) == (
        "measure, baseline, contender, difference, ci_low, ci_high, p_value, p_adjusted, p_likely, "
        "p_likely_adjusted, decision, reason, loss_rate_to_overturn, n_to_decide, effect_size, wins, "
        "ties, losses, n, n_clusters, mde, n_tests, n_unpaired, interval"
    )
    assert result["measure"].tolist() == ["a", "b"]


def test_no_difference_at_all() -> None:
    result = row([0.0, 0.5, 1.0], [0.0, 0.5, 1.0])
    assert result[["difference", "p_value", "p_likely", "effect_size"]].tolist() == [0, 1, 1, 0]
    limit = 1 - 0.05 ** (1 / 3)
    assert result["ci_low"] == -result["ci_high"] == pytest.approx(-limit, abs=0.015)
    assert result["mde"] is pd.NA, (
        "three ties do not show that any difference, however small, would be seen"
    )
    assert result[["wins", "ties", "losses"]].tolist() == [0, 3, 0]


def test_the_same_gain_everywhere_has_no_effect_size() -> None:
    result = row([0.0, 0.25, 0.5], [0.5, 0.75, 1.0])
    assert result["effect_size"] is pd.NA
    assert result["ci_low"] < 0 < 0.5 < result["ci_high"]


def test_one_query_has_no_interval() -> None:
    result = row([0.0], [1.0])
    assert result["difference"] == 1.0
    assert all(
        result[name] is pd.NA for name in ("ci_low", "ci_high", "p_value", "effect_size", "mde")
    )
    assert result["decision"] == "not possible"


def test_unscored_pairs_are_left_out_and_counted() -> None:
    result = row([0.0, 0.5, None, 1.0], [1.0, None, 0.5, 1.0])
    assert result["n"] == 2
    assert result["baseline"] == 0.5
    assert result["contender"] == 1.0
    assert result[["wins", "ties", "losses"]].tolist() == [1, 1, 0]


def test_no_pair_scored_by_both() -> None:
    table = compare(scores(m=[0.0, None], k=[1.0, 0.0]), scores(m=[None, 1.0], k=[1.0, 1.0]))
    assert table["n"].tolist() == [0, 2]
    assert all(
        table.loc[0, name] is pd.NA
        for name in ("baseline", "difference", "ci_low", "p_value", "p_adjusted")
    )
    assert "nan" not in table.to_string().lower()


def test_queries_are_paired_by_id_and_not_by_place() -> None:
    before, after = scores(m=[0.0, 0.5, 1.0]), scores(m=[0.5, 1.0, 0.0])
    pd.testing.assert_frame_equal(
        compare(before, after),
        compare(before, after.sample(frac=1, random_state=1)),
        check_exact=True,
    )


def test_swapping_the_two_turns_the_sign() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.random(30), rng.random(30)
    there, back = row(before, after), row(after, before)
    assert there["difference"] == -back["difference"]
    assert there["p_value"] == pytest.approx(back["p_value"], rel=1e-9)
    assert there["ci_low"] == pytest.approx(-back["ci_high"], abs=1e-9)
    assert (there["wins"], there["losses"]) == (back["losses"], back["wins"])


def test_repeats_are_identical_and_do_not_depend_on_the_company() -> None:
    rng = np.random.default_rng(2)
    frames = {name: scores(a=rng.random(40), b=rng.random(40)) for name in ("x", "y", "z")}
    first, second = (compare_all(frames, "x") for _ in range(2))
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    alone = compare(frames["x"], frames["z"], measures=["b"])
    together = first[(first["name"] == "z") & (first["measure"] == "b")]
    longer = compare_all(
        {
            name: pd.concat([frame, scores(long=[0.5 * len(name), 1.0, 0.0] * 50)])
            for name, frame in frames.items()
        },
        "x",
    )
    assert longer[longer["measure"] != "long"]["p_value"].tolist() == first["p_value"].tolist()
    kept = [*alone.loc[:, :"p_value"], *alone.loc[:, "effect_size":"mde"], "p_likely", "interval"]
    pd.testing.assert_frame_equal(alone[kept], together[kept].reset_index(drop=True), rtol=1e-12)


def test_each_tier_is_adjusted_over_the_arms_by_the_measure_that_decides_alone() -> None:
    rng = np.random.default_rng(7)
    frames = {f"c{i}": scores(a=rng.random(25) + 0.1 * i, b=rng.random(25)) for i in range(4)}
    table = compare_all(frames, "c0", measures=["b", "a"])
    assert table["n_tests"].tolist() == [3] * 6
    decides = table["measure"] == "b"
    for column, adjusted in (("p_value", "p_adjusted"), ("p_likely", "p_likely_adjusted")):
        p_values = table.loc[decides, column].to_numpy(dtype=float)
        expected = multipletests(p_values, method="holm")[1]
        assert table.loc[decides, adjusted].tolist() == pytest.approx(expected.tolist(), abs=1e-15)
        assert table.loc[~decides, adjusted].isna().all()
        assert table[column].notna().all()
    assert (table.loc[~decides, "decision"] == "").all()


@pytest.mark.parametrize("n", [16, 200])
def test_mde_agrees_with_power_analysis(n: int) -> None:
    rng = np.random.default_rng(3)
    before, after = 100 * rng.random(n), 100 * rng.random(n)
    mde = row(before, after)["mde"]
    known = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8) * np.std(after - before, ddof=1)
    assert known < mde < known * (1 + 1 / n), "the deviation is an estimate"


def test_rows_come_by_contender_then_by_measure() -> None:
    frames = {name: scores(b=[0.0, 1.0], a=[1.0, 0.0]) for name in ("two", "base", "one")}
    table = compare_all(frames, "base", measures=["a", "b"])
    assert table[["name", "measure"]].to_numpy().tolist() == [
        ["two", "a"],
        ["two", "b"],
        ["one", "a"],
        ["one", "b"],
    ]


def test_measures_that_only_one_has_are_pointed_out() -> None:
    with pytest.warns(DataWarning, match="2 measures .* not compared: k, z"):
        table = compare(scores(m=[1.0, 0.0], k=[1.0, 0.0]), scores(m=[1.0, 0.0], z=[1.0, 0.0]))
    assert table["measure"].tolist() == ["m"]


def test_other_queries_are_refused() -> None:
    before, after = scores(m=[1.0, 0.0, 0.5]), scores(m=[1.0, 0.0, 0.5]).replace("q2", "x9")
    with pytest.raises(
        ComparisonError, match=r"'baseline' has 'q2', only 'contender' has 'x9'"
    ) as error:
        compare(before, after)
    assert "2 in common" in str(error.value)
    with pytest.raises(
        ComparisonError, match=r"\(3 and 2, 2 in common\).* only 'contender' has none"
    ):
        compare(before, scores(m=[1.0, 0.0]))


def test_a_measure_with_two_names_is_refused() -> None:
    before = scores(ndcg_cut_10=[0.0, 1.0])
    after = scores(**{"nDCG@10": [1.0, 1.0]})
    with pytest.raises(
        ConfigError,
        match="'contender' have the measure nDCG@10, others have ndcg_cut_10: give a measure the same name",
    ):
        compare(before, after, measures="nDCG@10")


def test_no_measure_in_common_is_refused() -> None:
    with pytest.raises(
        ComparisonError, match="no measure in common: 'baseline' has m; 'contender' has k"
    ):
        compare(scores(m=[1.0]), scores(k=[1.0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"measures": ["nDCG@1"]},
            r"scores of 'baseline': nDCG@1 was not measured here; did you mean 'nDCG@10'",
        ),
        ({"measures": []}, "list of names"),
        ({"alpha": 0.0}, "alpha is 0.0"),
    ],
)
def test_wrong_options_are_named(options: Any, message: str) -> None:
    frame = scores(**{"nDCG@10": [1.0, 0.0]})
    with pytest.raises(ConfigError, match=message):
        compare(frame, frame, **options)


def test_wrong_baseline_is_named() -> None:
    frames = {"bm25": scores(m=[1.0]), "dense": scores(m=[1.0])}
    with pytest.raises(ConfigError, match="unknown baseline 'bm52'; did you mean 'bm25'"):
        compare_all(frames, "bm52")
    with pytest.raises(ConfigError, match="nothing to compare 'bm25' with"):
        compare_all({"bm25": frames["bm25"]}, "bm25")


def test_the_frame_at_fault_is_named() -> None:
    with pytest.raises(DataError, match="scores of 'dense': no column measure"):
        compare_all(
            {"bm25": scores(m=[1.0]), "dense": scores(m=[1.0]).drop(columns="measure")}, "bm25"
        )


def tidy(values: object, measure: str = "RR") -> pd.DataFrame:
    return pd.DataFrame({"measure": measure, "value": values}).rename_axis("query_id").reset_index()


def test_where_lower_is_better_the_lower_wins() -> None:
    low, high = (
        tidy([0.1, 0.2, 0.3], "ngram_redundancy"),
        tidy([0.4, 0.5, 0.3], "ngram_redundancy"),
    )
    assert compare(high, low).iloc[0][["wins", "ties", "losses"]].tolist() == [2, 1, 0]
    slow = compare(
        tidy([10.0, 20.0], "latency_total_ms"), tidy([15.0, 25.0], "latency_total_ms")
    ).iloc[0]
    assert slow[["wins", "ties", "losses"]].tolist() == [0, 0, 2]
    assert slow["difference"] == 5.0


def test_the_number_of_tests_and_of_unpaired_queries_is_stated() -> None:
    frames = {
        name: pd.concat([tidy([0.0, None, 1.0]), tidy([1.0, 1.0, 0.0], "P@1")]) for name in "abc"
    }
    table = compare_all(frames, "a")
    assert table["n_tests"].tolist() == [0] * 4, "three questions are too few"
    assert table["n_unpaired"].tolist() == [1, 0, 1, 0]


def test_two_sweeps_with_no_query_in_common() -> None:
    one, other = tidy([0.0, 1.0]), tidy([0.0, 1.0]).assign(query_id=["x", "y"])
    with pytest.raises(
        ComparisonError, match=r"\(2 and 2, none in common\); only 'baseline' has 0, 1"
    ):
        compare(one, other)


def test_a_proven_loss_is_worse_and_a_proven_gain_better() -> None:
    high, low = [0.9, 1.0, 0.8] * 20, [0.1, 0.2, 0.3] * 20
    assert row(low, high)["decision"] == "better"
    assert row(high, low)["decision"] == "worse"


def test_configurations_with_the_same_rows_share_their_index() -> None:
    base = pd.DataFrame({"query_id": list("abc"), "measure": "RR", "value": [0.0, 0.5, 1.0]})
    other_order = base.iloc[::-1].reset_index(drop=True)
    tables = tables_of({"a": base, "b": base.copy(), "c": other_order})
    assert tables["a"]["RR"].ids is tables["b"]["RR"].ids
    assert tables["c"]["RR"].ids.tolist() == ["c", "b", "a"]
    assert tables["c"]["RR"].values.tolist() == [1.0, 0.5, 0.0]
