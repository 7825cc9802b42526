"""A comparison prints what decides; the frame keeps every column."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from ragbench import statistics as rb_statistics
from ragbench.errors import DataError
from ragbench.statistics import compare, compare_all


def scores(values: np.ndarray, measure: str = "RR") -> pd.DataFrame:
    return pd.DataFrame({"query_id": range(len(values)), "measure": measure, "value": values})


LOW, HIGH = scores(np.linspace(0, 0.4, 40)), scores(np.linspace(0.5, 0.9, 40))


def test_a_comparison_prints_short_and_keeps_its_columns() -> None:
    table = compare(LOW, HIGH)
    header, row = repr(table).splitlines()
    assert header.split() == ["measure", "baseline", "contender", "difference", "p", "decision"]
    assert row.split()[-3:] == ["<", "0.001", "better"]
    assert "0.0<" not in (table._repr_html_() or "")  # type: ignore[operator]
    assert {"ci_low", "ci_high", "p_value", "p_adjusted", "wins", "ties", "losses", "mde"} <= set(
        table
    )
    assert 0 < table["p_adjusted"].iloc[0] < 0.001


def test_rows_print_short_and_chosen_columns_print_as_they_are() -> None:
    table = (
        compare_all({"low": LOW, "high": HIGH, "other": HIGH}, "low").sort_values("name").head(1)
    )
    assert repr(table).split()[:7] == [
        "name",
        "measure",
        "baseline",
        "contender",
        "difference",
        "p",
        "decision",
    ]
    assert "wins" in repr(table[["name", "wins"]])
    assert "mine" in repr(table.assign(mine=1))
    assert repr(pickle.loads(pickle.dumps(table))) == repr(table)


def test_the_decision_follows_the_direction_of_the_measure() -> None:
    def redundancy(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(measure="ngram_redundancy")

    assert compare(redundancy(LOW), redundancy(HIGH))["decision"].tolist() == ["worse"]
    assert compare(HIGH, LOW)["decision"].tolist() == ["worse"]
    assert compare(LOW, LOW)["decision"].tolist() == ["undecided"]
    unscored = LOW.assign(value=float("nan"))
    assert compare(unscored, unscored)["decision"].tolist() == ["not possible"]
    assert "–" in repr(compare(unscored, unscored))


@pytest.mark.parametrize("value", [2.0, -5.0, 1e30, 1.001, -0.001])
def test_a_score_outside_of_its_measure_is_refused_where_it_enters(value: float) -> None:
    bad = pd.DataFrame({"query_id": ["q1", "q2"], "measure": "nDCG@10", "value": [0.5, value]})
    good = bad.assign(value=0.5)
    for compared in (
        lambda: compare(good, bad),
        lambda: compare(bad, good),
        lambda: rb_statistics.summarise(bad),
    ):
        with pytest.raises(DataError, match=r"nDCG@10 of query 'q2' is .*; expected 0 to 1"):
            compared()


@pytest.mark.parametrize("value", [1e308, -1e308, 1e155])
def test_a_number_too_large_to_compute_with_is_refused(value: float) -> None:
    frame = pd.DataFrame({"query_id": ["q1", "q2"], "measure": "mine", "value": [0.5, value]})
    with pytest.raises(DataError, match="mine of query 'q2'"):
        compare(frame, frame.assign(value=0.5))
